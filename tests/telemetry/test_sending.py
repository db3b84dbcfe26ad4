"""What is sent at the end of a run, in bounded time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from roundel.telemetry import export
from roundel.telemetry.export import Sending


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "TROUBLE", export._Trouble())


def test_everything_is_sent_before_the_run_is_closed() -> None:
    sent: list[str] = []
    asyncio.run(Sending(lambda: sent.append("spans"), lambda: sent.append("metrics")).finish())
    assert sent == ["spans", "metrics"]


def test_who_takes_too_long_is_left_alone_and_not_asked_twice(caplog: pytest.LogCaptureFixture) -> None:
    answer, asked = threading.Event(), list[str]()

    def slow() -> None:
        asked.append("once")
        answer.wait()

    async def two_runs() -> None:
        one = Sending(slow, seconds=0.01)
        await one.finish()
        await one.finish()

    asyncio.run(two_runs())
    answer.set()
    assert asked == ["once"]
    assert caplog.text.count("telemetry is being lost") == 1


def test_what_ends_while_something_is_sent_is_sent_too() -> None:
    left, sent = ["first"], list[str]()
    at_work, go_on = threading.Event(), threading.Event()

    def flush() -> None:
        batch, left[:] = list(left), []
        at_work.set()
        go_on.wait()
        sent.extend(batch)

    async def two_runs() -> None:
        one = Sending(flush, seconds=60)
        first = asyncio.create_task(one.finish())
        await asyncio.to_thread(at_work.wait)
        left.append("second")
        second = asyncio.create_task(one.finish())
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, second)

    asyncio.run(two_runs())
    assert (sent, left) == (["first", "second"], [])


def test_a_failure_is_told_and_the_rest_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[str] = []

    def broken() -> None:
        raise OSError("no route")

    asyncio.run(Sending(broken, lambda: sent.append("metrics")).finish())
    assert sent == ["metrics"]
    assert "no route" in caplog.text


def test_what_an_exporter_says_of_its_headers_is_masked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20sk-0123456789,x-team=blue-heron")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://ann:pa55-word@collector")

    def refuse() -> None:
        raise OSError("https://ann:pa55-word@collector refused Bearer sk-0123456789 of blue-heron")

    asyncio.run(Sending(refuse).finish())
    assert "https://ann:***@collector refused *** of ***" in caplog.text
