"""What a run may cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import roundel
from roundel.plan.forecast import Estimate, Forecast, forecast
from tests.kernel.graphs import case
from tests.kernel.simulator import Simulator, plan_of


def of(graph: roundel.Graph) -> dict[str, Estimate]:
    return {row.node: row.runs for row in forecast(roundel.prepare(graph)).nodes}


def review(rounds: int, **agent: object) -> roundel.Graph:
    graph = roundel.Graph(start="Writer", end="Final")
    graph.node("Writer", "agent", **agent).node("Reviewer", "human").node("Final", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=rounds)
    graph.edge("Writer", "Reviewer").edge("Reviewer", "Writer").edge("Reviewer", "Guard")
    return graph.edge("Guard", "Writer").edge("Guard", "Final")


def test_a_node_runs_once_in_each_round_of_its_loop() -> None:
    assert of(review(5)) == {
        "Writer": Estimate(5, 3),
        "Reviewer": Estimate(5, 3),
        "Final": Estimate(1, 1),
        "Guard": Estimate(5, 3),
    }


def test_what_is_in_a_subgraph_runs_as_often_as_the_subgraph() -> None:
    outer = roundel.Graph(start="Sub", end="Out").node("Sub", "subgraph", graph=review(3))
    outer.node("Out", "passthrough").node("Gate", "loop_counter", max_iterations=2)
    outer.edge("Sub", "Sub").edge("Sub", "Gate").edge("Gate", "Sub").edge("Gate", "Out")
    assert of(outer)["Writer"].worst == 6


def test_a_dynamic_edge_brings_nobody_knows_how_many() -> None:
    graph = roundel.Graph(start="In", end="Each").node("In", "passthrough").node("Each", "agent")
    graph.edge("In", "Each", dynamic={"type": "map"})
    assert of(graph)["Each"] == Estimate(None, 3)


def test_tokens_are_a_rule_of_thumb() -> None:
    made = forecast(roundel.prepare(review(2, params={"max_tokens": 100}, role="x" * 400)))
    assert made.model_calls == Estimate(2, 1)
    assert made.tokens == Estimate(None, 100 + 600 + 100)
    assert made.cost_usd is None


def test_loop_agents_take_turns() -> None:
    body = {"id": "Step", "type": "agent"}
    graph = roundel.Graph(start="Each", end="Each")
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body)
    assert of(graph)["Step"] == Estimate(1000, 10)
    few = roundel.Graph(start="Each", end="Each")
    few.node("Each", "loop_agent", strategy={"mode": "count", "max": 4}, body=body)
    assert of(few)["Step"] == Estimate(4, 2)


@pytest.mark.parametrize("block", range(4))
def test_no_run_exceeds_the_forecast(block: int) -> None:
    for seed in range(block * 300, (block + 1) * 300):
        workflow, text, script = case(seed)
        plan = plan_of(workflow)
        run = Simulator(plan, script).start(text).finish()
        made: Forecast = forecast(plan)
        for row in made.nodes:
            assert row.runs.worst is not None
            assert run.state.summary()["nodes"].get(row.node, 0) <= row.runs.worst, seed


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(json.dumps(review(4).mapping()))
    command = [sys.executable, "-m", "roundel", "forecast", "flow.yaml"]
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "Writer: at most 4 rounds, by Guard" in plain
    assert "cost: not known" in plain
    asked = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads(asked.stdout)
    assert report["forecast"]["model_calls"] == {"worst": 4, "typical": 2}
    assert report["loops"][0]["worst_case_rounds"] == 4
