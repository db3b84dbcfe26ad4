"""Runs as metrics of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path

from roundel.telemetry.conventions import MAX_NAMES, OTHER
from roundel.telemetry.middleware import OtelMetrics
from tests.docs.offline import copy_examples
from tests.telemetry.in_memory import CIRCLE, RecordedTelemetry, agents, reply


def test_tokens_and_calls_are_counted_by_the_conventions() -> None:
    watch = RecordedTelemetry()
    watch.run(agents("Ann", "Ben"), script={"Ann": reply("hello", 12, 4), "Ben": reply("good day", 20, 6)})
    tokens = watch.metric("gen_ai.client.token.usage")
    assert {key: (point.count, point.sum) for key, point in tokens.items()} == {
        ("chat", "script", "input", "chain"): (2, 32),
        ("chat", "script", "output", "chain"): (2, 10),
    }
    bounds = tokens["chat", "script", "input", "chain"].explicit_bounds
    assert bounds == (
        1,
        4,
        16,
        64,
        256,
        1024,
        4096,
        16384,
        65536,
        262144,
        1048576,
        4194304,
        16777216,
        67108864,
    )
    calls = watch.metric("gen_ai.client.operation.duration")["chat", "script", "chain"]
    assert (calls.count, calls.explicit_bounds[:3]) == (2, (0.01, 0.02, 0.04))
    assert set(watch.metric("gen_ai.invoke_agent.duration")) == {("Ann",), ("Ben",)}
    assert watch.metric("gen_ai.workflow.duration")[("chain",)].count == 1
    assert watch.counts("roundel.runs") == {("chain", "completed"): 1}


def test_rounds_are_counted_by_loop() -> None:
    watch = RecordedTelemetry()
    watch.run(CIRCLE, script={"Talker": ["one", "another thing", "DONE"]})
    assert watch.counts("roundel.rounds") == {("Talker",): 3}


def test_tools_are_counted_by_name_and_status(tmp_path: Path) -> None:
    place, watch = copy_examples(tmp_path) / "analyst", RecordedTelemetry()
    watch.run(place / "workflow.yaml", script=place / "script.yaml")
    assert watch.counts("roundel.tool_calls") == {("sales", "completed"): 2, ("order", "completed"): 1}
    assert watch.metric("gen_ai.execute_tool.duration")["Analyst", "sales"].count == 2


def test_failure_is_counted() -> None:
    watch = RecordedTelemetry()
    watch.run(agents("Ann", "Ben"), script={"Ann": "hello", "Ben": {"error": "rate limit"}})
    assert watch.counts("roundel.runs") == {("chain", "failed"): 1}
    assert watch.metric("gen_ai.workflow.duration")["failed", "chain"].count == 1


def test_invented_tool_names_do_not_create_unbounded_series() -> None:
    flow = agents("Ann")
    flow["tools"] = {"look": {"python": "tests.llm.tools:look"}}
    flow["graph"]["nodes"][0]["config"] = {"tools": ["look"], "max_tool_calls": 20}
    invented = [{"tool_calls": [{"name": f"t{n}_{m}"} for m in range(20)]} for n in range(15)]
    watch = RecordedTelemetry()
    watch.run(flow, script={"Ann": [*invented, "I give up."]})
    calls = watch.counts("roundel.tool_calls")
    assert sum(calls.values()) == 300
    assert calls["(other)", "failed"] >= 1
    assert len(calls) <= 202


def test_models_beyond_the_first_ones_are_counted_together() -> None:
    watch = RecordedTelemetry()
    measures = OtelMetrics(watch.meter)
    for number in range(MAX_NAMES + 50):
        measures.on_model_call("", f"openai:m{number}", 1, 1, 0.5, 1.0)
    cost = watch.counts("roundel.cost_usd")
    assert len(cost) == MAX_NAMES + 1
    assert cost[OTHER, OTHER] == 25
