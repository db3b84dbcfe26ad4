"""The metrics of the Prometheus endpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import roundel
from roundel.telemetry import Metrics, TelemetryError
from tests.docs.offline import copy_examples
from tests.events import payload
from tests.telemetry.in_memory import CIRCLE, agents, reply


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """All but buckets and times, by name and the values of the labels in the order of their names."""
    text = metrics.exposition().decode()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created", "_sum"))
    }


def test_runs_nodes_models_and_tokens_are_counted() -> None:
    metrics = Metrics()
    script = {"Ann": reply("hello", 12, 4), "Ben": {"error": "rate limit"}}
    roundel.run(agents("Ann", "Ben"), "tea", script=script, middleware=[metrics])
    assert samples(metrics) == {
        ("roundel_runs_in_flight",): 0,
        ("roundel_runs_total", "failed", "chain"): 1,
        ("roundel_run_seconds_count", "chain"): 1,
        ("roundel_nodes_total", "Ann", "completed"): 1,
        ("roundel_nodes_total", "Ben", "failed"): 1,
        ("roundel_node_seconds_count", "Ann"): 1,
        ("roundel_node_seconds_count", "Ben"): 1,
        ("roundel_model_calls_total", "script", "chain"): 1,
        ("roundel_model_call_seconds_count", "script"): 1,
        ("roundel_tokens_total", "input", "script", "chain"): 12,
        ("roundel_tokens_total", "output", "script", "chain"): 4,
        ("roundel_memory_errors_total",): 0,
    }
    assert metrics.content_type.startswith("text/plain; version=")


def test_rounds_and_locks_are_counted() -> None:
    metrics = Metrics()
    script = {"Talker": "I will look into it."}
    roundel.run(CIRCLE, "tea", script=script, middleware=[metrics])
    roundel.run(CIRCLE, "tea", script=script, limits={"rounds": 2}, middleware=[metrics])
    found = samples(metrics)
    assert found["roundel_rounds_total", "Talker"] == 6
    assert found["roundel_locks_total", "dead_loop", "circle"] == 1
    assert found["roundel_locks_total", "rounds", "circle"] == 1
    assert found["roundel_runs_total", "suspended_locked", "circle"] == 2


def test_tools_are_counted(tmp_path: Path) -> None:
    place, metrics = copy_examples(tmp_path) / "analyst", Metrics()
    roundel.run(place / "workflow.yaml", "tea", script=place / "script.yaml", middleware=[metrics])
    found = samples(metrics)
    assert found["roundel_tool_calls_total", "completed", "sales"] == 2
    assert found["roundel_tool_call_seconds_count", "order"] == 1


def test_known_cost_is_counted() -> None:
    metrics = Metrics()
    used = {"input_tokens": 1, "output_tokens": 2, "model": "openai:gpt-4o", "cost_usd": 0.25}
    now = "2026-11-15T20:00:00.000Z"
    for number, data in enumerate((used, {**used, "cost_usd": None}, {**used, "cached": True}), 1):
        shown = payload("model_call", status="completed", **data)
        metrics.observe(roundel.Event(number, "model_call", now, "5b1c8e0f2a7d", "A", "A", shown))
    found = samples(metrics)
    assert found["roundel_cost_usd_total", "openai:gpt-4o", "(unnamed)"] == 0.25
    assert found["roundel_model_calls_total", "openai:gpt-4o", "(unnamed)"] == 2


def test_retries_and_timeouts_are_counted() -> None:
    metrics = Metrics()
    retry = {"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0}
    graph = roundel.Graph(start="Unsure", end="Ann", id="patient")
    tries = iter([ValueError("no"), None])

    @graph.function("Unsure", retry=retry)
    def unsure() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "yes"

    graph.node("Ann", "agent", timeout=0.01).edge("Unsure", "Ann")
    script = {"Ann": {"text": "late", "delay": 60}}
    assert roundel.run(graph, "tea", script=script, middleware=[metrics]).status == "failed"
    found = samples(metrics)
    assert found["roundel_retries_total", "", "patient"] == 1
    assert found["roundel_model_timeouts_total", "patient"] == 1


def test_figures_of_the_program_are_read_when_it_is_scraped() -> None:
    metrics, waiting = Metrics(), [3, 5]
    metrics.watch("waiting", "What waits.", lambda: waiting[0])
    metrics.watch("restarts", "What was started again.", lambda: waiting[1], counts=True)
    assert samples(metrics)["roundel_waiting",] == 3
    waiting[:] = 4, 6
    found = samples(metrics)
    assert (found["roundel_waiting",], found["roundel_restarts_total",]) == (4, 6)


def test_workflows_without_a_name_and_beyond_the_limit_share_a_series() -> None:
    metrics = Metrics()
    now = "2026-11-15T20:00:00.000Z"
    for number in range(300):
        name = f"flow {number}" if number % 2 else ""
        metrics.begin(f"run {number}", name, ())
        data = payload("run_state_change", status="running")
        metrics.observe(roundel.Event(1, "run_state_change", now, f"run {number}", None, None, data))
        data = payload("run_finished", status="completed")
        metrics.observe(roundel.Event(2, "run_finished", now, f"run {number}", None, None, data))
    runs = {key: count for key, count in samples(metrics).items() if key[0] == "roundel_runs_total"}
    assert runs["roundel_runs_total", "completed", "(unnamed)"] == 150
    assert len(runs) <= 201


def test_two_instances_have_separate_registries() -> None:
    one, other = Metrics(), Metrics()
    roundel.run(agents("Ann"), "tea", script={"Ann": "hello"}, middleware=[one])
    assert ("roundel_runs_total", "completed", "chain") in samples(one)
    assert len(samples(other)) == 2


def test_a_missing_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "roundel.telemetry.prometheus", raising=False)
    monkeypatch.delitem(vars(roundel.telemetry), "Metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(TelemetryError, match=r'pip install "roundel\[prometheus\]"'):
        roundel.telemetry.Metrics  # noqa: B018
