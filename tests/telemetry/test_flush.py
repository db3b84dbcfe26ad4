"""Export at the end of a run, in bounded time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from roundel.telemetry import export
from roundel.telemetry.export import Flusher


@pytest.fixture(autouse=True)
def fresh_failure_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "EXPORT_FAILURES", export._ExportFailureFilter())


def test_everything_is_flushed_before_the_run_closes() -> None:
    sent: list[str] = []
    asyncio.run(Flusher(lambda: sent.append("spans"), lambda: sent.append("metrics")).flush_pending())
    assert sent == ["spans", "metrics"]


def test_a_slow_flush_times_out_and_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    answer, asked = threading.Event(), list[str]()

    def slow() -> None:
        asked.append("once")
        answer.wait()

    async def two_runs() -> None:
        one = Flusher(slow, seconds=0.01)
        await one.flush_pending()
        await one.flush_pending()

    asyncio.run(two_runs())
    answer.set()
    assert asked == ["once"]
    assert caplog.text.count("telemetry is being lost") == 1


def test_spans_that_end_during_a_flush_are_flushed_next() -> None:
    left, sent = ["first"], list[str]()
    in_flight, proceed = threading.Event(), threading.Event()

    def flush() -> None:
        batch, left[:] = list(left), []
        in_flight.set()
        proceed.wait()
        sent.extend(batch)

    async def two_runs() -> None:
        one = Flusher(flush, seconds=60)
        first = asyncio.create_task(one.flush_pending())
        await asyncio.to_thread(in_flight.wait)
        left.append("second")
        second = asyncio.create_task(one.flush_pending())
        await asyncio.sleep(0)
        proceed.set()
        await asyncio.gather(first, second)

    asyncio.run(two_runs())
    assert (sent, left) == (["first", "second"], [])


def test_a_failed_flush_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[str] = []

    def broken() -> None:
        raise OSError("no route")

    asyncio.run(Flusher(broken, lambda: sent.append("metrics")).flush_pending())
    assert sent == ["metrics"]
    assert "no route" in caplog.text


def test_headers_in_exporter_errors_are_masked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20sk-0123456789,x-team=blue-heron")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://ann:pa55-word@collector")

    def refuse() -> None:
        raise OSError("https://ann:pa55-word@collector refused Bearer sk-0123456789 of blue-heron")

    asyncio.run(Flusher(refuse).flush_pending())
    assert "https://ann:***@collector refused *** of ***" in caplog.text
