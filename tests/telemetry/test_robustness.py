"""Events without their predecessors, and runs whose host has disappeared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

import roundel
from roundel.telemetry import Metrics, Telemetry
from tests.events import payload
from tests.telemetry.in_memory import RecordedTelemetry, agents, attributes_of, reply, span_events


def events_of(*names: str) -> list[roundel.Event]:
    seen: list[roundel.Event] = []
    script = {name: reply("hello") for name in names}
    roundel.run(agents(*names), "tea", script=script, on_event=seen.append)
    return seen


def test_run_observed_from_the_middle_has_spans() -> None:
    """The first event that is seen may be any of them."""
    events = events_of("Ann", "Ben")
    for first in range(len(events)):
        watch, metrics = RecordedTelemetry(), Metrics()
        for event in events[first:]:
            watch.telemetry.observe(event)
            metrics.observe(event)
        (run,) = (span for span in watch.spans if span.name.startswith("invoke_workflow"))
        assert attributes_of(run)["roundel.status"] == "completed"
        assert attributes_of(run).get("roundel.partial", False) is (first > 0)
        assert all(span.end_time is not None for span in watch.spans)
        assert metrics.registry.get_sample_value("roundel_runs_in_flight") == 0


def test_an_agent_first_seen_when_it_ends_has_its_tokens() -> None:
    events = events_of("Ann")
    spent = next(number for number, event in enumerate(events) if event.event == "model_call")
    spent += 1  # its end
    watch = RecordedTelemetry()
    for event in events[spent:]:
        watch.telemetry.observe(event)
    ann = watch.one("invoke_agent Ann")
    assert (attributes_of(ann)["gen_ai.usage.input_tokens"], attributes_of(ann)["roundel.partial"]) == (
        10,
        True,
    )
    assert ann.start_time is not None
    assert ann.end_time is not None
    assert ann.start_time <= ann.end_time


def test_a_gap_in_events_means_the_run_resumed_elsewhere() -> None:
    events = events_of("Ann", "Ben", "Cem")
    watch = RecordedTelemetry()
    for event in (*events[:3], *events[-3:]):
        watch.telemetry.observe(event)
    lost, later = watch.all("invoke_workflow chain")
    assert (attributes_of(lost)["roundel.status"], lost.status.status_code) == ("lost", StatusCode.ERROR)
    assert attributes_of(later)["roundel.status"] == "completed"
    assert watch.counts("roundel.runs") == {("chain", "lost"): 1, ("chain", "completed"): 1}


def test_lost_run_closes_its_spans_without_affecting_others() -> None:
    watch, metrics = RecordedTelemetry(), Metrics()
    gone, other = events_of("Ann"), events_of("Ben")

    def see(events: list[roundel.Event]) -> None:
        for event in events:
            watch.telemetry.observe(event)
            metrics.observe(event)

    async def host() -> None:
        see(gone[:3])
        await watch.telemetry.close(gone[0].run_id)
        await metrics.close(gone[0].run_id)

    async def program() -> None:
        see(other[:3])
        await asyncio.create_task(host())

    asyncio.run(program())
    assert [attributes_of(span)["roundel.run_id"] for span in watch.spans] == [gone[0].run_id] * 3
    assert attributes_of(watch.one("invoke_workflow chain"))["roundel.status"] == "lost"
    assert metrics.registry.get_sample_value("roundel_runs_in_flight") == 1
    see(other[3:])
    assert metrics.registry.get_sample_value("roundel_runs_in_flight") == 0


def test_many_runs_at_once_share_one_telemetry() -> None:
    watch, metrics = RecordedTelemetry(), Metrics()

    async def all_of_them() -> list[roundel.Result]:
        script = {"Ann": reply("hello"), "Ben": {**reply("good day"), "delay": 0.001}}
        runs = (
            roundel.run_async(
                agents("Ann", "Ben"), "tea", script=script, middleware=[watch.telemetry, metrics]
            )
            for _ in range(20)
        )
        return await asyncio.gather(*runs)

    results = asyncio.run(all_of_them())
    for result in results:
        spans = [span for span in watch.spans if attributes_of(span)["roundel.run_id"] == result.run_id]
        assert sorted(span.name for span in spans) == [
            "chat script",
            "chat script",
            "invoke_agent Ann",
            "invoke_agent Ben",
            "invoke_workflow chain",
        ]
        assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert metrics.registry.get_sample_value("roundel_runs_in_flight") == 0
    labels = {"workflow": "chain", "status": "completed"}
    assert metrics.registry.get_sample_value("roundel_runs_total", labels) == 20


def test_events_of_other_middleware_are_recorded_without_content() -> None:
    class Teller(roundel.Middleware):
        def before(self, visit: roundel.Visit) -> None:
            visit.tell("checked", secret="the heron")

    watch = RecordedTelemetry()
    options: dict[str, Any] = {"middleware": [Teller(), watch.telemetry], "script": {"Ann": "hello"}}
    roundel.run(agents("Ann"), "tea", **options)
    assert ("roundel.custom", "checked") in [
        (event.name, (event.attributes or {}).get("roundel.name"))
        for span in watch.spans
        for event in span.events
    ]
    assert "heron" not in watch.text


def test_failing_telemetry_does_not_fail_the_run(caplog: pytest.LogCaptureFixture) -> None:
    watch = RecordedTelemetry()

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no spans today")

    watch.telemetry._spans._tracer.start_span = broken  # type: ignore[method-assign]
    result = watch.run(agents("Ann"), script={"Ann": "hello"})
    assert (result.status, result.output) == ("completed", "hello")
    assert "no spans today" in caplog.text


def test_failing_span_processor_does_not_leak_runs() -> None:
    class Broken(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            raise RuntimeError("no spans today")

    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(Broken())
    telemetry = Telemetry(tracer_provider=tracers)
    for _ in range(3):
        assert roundel.run(agents("Ann"), "tea", script={"Ann": "hello"}, middleware=[telemetry]).completed
    assert (telemetry._spans._segments, telemetry._metrics._runs) == ({}, {})


def test_stopped_run_closes_its_open_spans() -> None:
    watch = RecordedTelemetry()

    async def story() -> None:
        script = {"Ann": "hello", "Ben": {"text": "late", "delay": 60}}
        flow, options = agents("Ann", "Ben"), {"script": script, "middleware": [watch.telemetry]}
        async for event in roundel.stream(flow, "tea", **options):  # type: ignore[arg-type]
            if event.node_id == "Ben":
                break

    asyncio.run(story())
    assert attributes_of(watch.one("invoke_workflow chain"))["roundel.status"] == "stopped"
    ben = watch.at("Ben")
    assert (attributes_of(ben)["roundel.status"], attributes_of(ben)["roundel.reason"]) == (
        "skipped",
        "stopped",
    )


NOW = "2026-11-15T20:00:00.000Z"


def observe_events(watch: RecordedTelemetry, *events: tuple[str, str | None, dict[str, Any]]) -> None:
    """Events of one run, between its beginning and its end."""
    has_started = ("run_started", None, {"workflow": "chain", "input": "tea"})
    over = ("run_finished", None, {"status": "completed"})
    for number, (name, address, data) in enumerate((has_started, *events, over), 1):
        watch.telemetry.observe(
            roundel.Event(number, name, NOW, "5b1c8e0f2a7d", "Ann", address, payload(name, **data))
        )


def test_memory_errors_are_recorded_and_counted() -> None:
    watch = RecordedTelemetry()
    running = ("node_state_change", "Ann", {"status": "running"})
    observe_events(watch, running, ("memory_error", "Ann", {"store": "notes", "error": "the disk is full"}))
    assert span_events(watch.at("Ann"))["roundel.memory_error"]["roundel.error"] == "the disk is full"
    assert watch.counts("roundel.memory_errors") == {(): 1}


def test_cached_reply_uses_no_tokens() -> None:
    watch = RecordedTelemetry()
    observe_events(
        watch,
        ("model_call", "Ann", {"status": "completed", "model": "gpt-4o", "cost_usd": 0, "cached": True}),
    )
    ann = attributes_of(watch.at("Ann"))
    assert (ann["roundel.cached"], ann["gen_ai.provider.name"], ann["gen_ai.request.model"]) == (
        True,
        "openai",
        "gpt-4o",
    )
    assert "gen_ai.usage.input_tokens" not in ann


def test_a_tool_that_was_not_called_has_no_span() -> None:
    watch = RecordedTelemetry()
    running = ("node_state_change", "Ann", {"status": "running", "speaks": True})
    observe_events(
        watch, running, ("tool_call", "Ann[1]/order", {"name": "order", "status": "rejected", "result": "no"})
    )
    assert [span.name for span in watch.spans] == ["invoke_agent Ann", "invoke_workflow chain"]
    assert span_events(watch.at("Ann"))["roundel.tool_call"]["roundel.status"] == "rejected"
    assert watch.counts("roundel.tool_calls") == {("order", "rejected"): 1}


def test_repeated_start_at_one_address_creates_another_span() -> None:
    watch = RecordedTelemetry()
    running = ("node_state_change", "A[1]/Ann", {"status": "running"})
    round_ = ("loop_round", "A[1]", {"loop": "A", "round": 1})
    observe_events(watch, round_, running, running, round_, running)
    assert [span.name for span in watch.spans].count("node Ann") == 3
    assert [span.name for span in watch.spans].count("round A") == 2
