"""The metrics of the Prometheus endpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import roundel
from roundel.telemetry import Metrics, TelemetryError
from tests.docs.offline import copy_examples
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
        ("roundel_model_calls_total", "script"): 1,
        ("roundel_model_call_seconds_count", "script"): 1,
        ("roundel_tokens_total", "input", "script"): 12,
        ("roundel_tokens_total", "output", "script"): 4,
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
    assert found["roundel_locks_total", "dead_loop"] == found["roundel_locks_total", "rounds"] == 1
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
        metrics.observe(roundel.Event(number, "token_usage", now, "5b1c8e0f2a7d", "A", "A", data))
    found = samples(metrics)
    assert found["roundel_cost_usd_total", "openai:gpt-4o"] == 0.25
    assert found["roundel_model_calls_total", "openai:gpt-4o"] == 2


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
