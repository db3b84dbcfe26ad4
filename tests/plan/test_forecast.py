"""The forecast of the cost of a run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes import TYPES
from roundel.plan.forecast import Estimate, Forecast, forecast
from roundel.plan.graph import compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.model_profile import Price
from tests.kernel.graphs import case
from tests.kernel.simulator import Simulator, plan_of

TOOLS = {"mean": {"python": "statistics:mean"}}
THINKING = {"type": "reflection", "config": {"reflection_prompt": "Is that so?"}}


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


def test_subgraph_nodes_run_as_often_as_the_subgraph() -> None:
    outer = roundel.Graph(start="Sub", end="Out").node("Sub", "subgraph", graph=review(3))
    outer.node("Out", "passthrough").node("Gate", "loop_counter", max_iterations=2)
    outer.edge("Sub", "Sub").edge("Sub", "Gate").edge("Gate", "Sub").edge("Gate", "Out")
    assert of(outer)["Writer"].worst == 6


def test_dynamic_edge_has_an_unknown_worst_case() -> None:
    graph = roundel.Graph(start="In", end="Each").node("In", "passthrough").node("Each", "agent")
    graph.edge("In", "Each", dynamic={"type": "map"})
    assert of(graph)["Each"] == Estimate(None, 3)


def test_tokens_are_estimated() -> None:
    made = forecast(roundel.prepare(review(2, params={"max_tokens": 100}, role="x" * 400)))
    assert made.model_calls == Estimate(2 * 2, 1)  # at worst each answer is empty at first
    assert made.tokens == Estimate(None, 100 + 600 + 100)
    assert (made.cost_usd, made.unpriced) == (None, ("Writer",))


def test_agents_in_loops_are_sent_more() -> None:
    """In three rounds: two messages that arrive, and as many as the agent sees of earlier rounds."""
    seen = {"message": 0, "task": 2, "history": 3}
    for context, more in seen.items():
        made = forecast(roundel.prepare(review(5, context=context)))
        assert made.tokens.typical == 3 * (300 * (2 + more) + 300)
    assert forecast(roundel.prepare(review(5))) == forecast(roundel.prepare(review(5, context="task")))


def agent(**config: object) -> Forecast:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", **config)
    return forecast(compile_workflow(from_mapping({**graph.mapping(), "tools": TOOLS}, TYPES)))


@pytest.mark.parametrize(
    ("config", "models", "tools"),
    [
        ({}, (1, 1), (0, 0)),
        ({"tools": "mean"}, (11, 3), (160, 2)),
        ({"tools": "mean", "max_tool_calls": 1, "max_calls_per_round": 3}, (2, 2), (3, 1)),
        ({"tools": "mean", "max_tool_calls": 0}, (1, 1), (0, 0)),
        ({"tools": "mean", "max_tool_calls": 4, "on_limit": "error"}, (5, 3), (64, 2)),
        ({"output_schema": {"type": "object"}}, (3, 1), (0, 0)),
        ({"output_schema": {"type": "object"}, "max_repairs": 5}, (6, 1), (0, 0)),
        ({"thinking": THINKING}, (2, 2), (0, 0)),
        ({"tools": "mean", "max_tool_calls": 2, "output_schema": {}, "thinking": THINKING}, (6, 4), (32, 2)),
    ],
)
def test_calls_of_one_agent_execution(
    config: dict[str, Any], models: tuple[int, int], tools: tuple[int, int]
) -> None:
    made = agent(**config)
    most, typical = models
    assert made.model_calls == Estimate(most + 1, typical)  # at worst an empty answer is asked for again
    assert made.tool_calls == Estimate(*tools)


@pytest.mark.parametrize("seed", range(60))
def test_agents_never_exceed_the_forecast(seed: int) -> None:
    """Models that ask for tools whenever they may, and answer with nothing or with what does not fit."""
    draw = random.Random(seed)
    config: dict[str, Any] = {"max_tool_calls": draw.randrange(4), "max_calls_per_round": draw.randint(1, 3)}
    config |= {"on_limit": draw.choice(["answer", "error", "suspend"]), "max_repairs": draw.randrange(3)}
    config |= draw.choice([{}, {"tools": "mean"}])
    config |= draw.choice([{}, {"output_schema": {"type": "object", "required": ["x"]}}])
    config |= draw.choice([{}, {"thinking": THINKING}])
    graph = review(draw.randint(1, 3), **config)
    plan = compile_workflow(from_mapping({**graph.mapping(), "tools": TOOLS}, TYPES))
    tool_call = {"name": "mean", "arguments": {"data": [1]}}
    lines = ["well", "", '{"x": 1}', {"text": "let me see", "tool_calls": [tool_call] * draw.randint(1, 4)}]
    proof_lines = [draw.choice(lines) for _ in range(12)]
    result = roundel.run(plan, script={"Writer": proof_lines, "Reviewer": "again"})
    made = forecast(plan)
    assert made.model_calls.worst is not None and made.tool_calls.worst is not None
    assert result.usage["model_calls"] <= made.model_calls.worst, config
    assert result.usage["tool_calls"] <= made.tool_calls.worst, config


def test_later_calls_of_an_execution_have_larger_input() -> None:
    once, thrice = agent(role="x" * 400), agent(role="x" * 400, tools="mean")
    assert once.tokens.typical == 100 + 300 + 300
    assert thrice.tokens.typical == 3 * once.tokens.typical + 300 * (1 + 2)


def test_cost_needs_prices_and_unpriced_agents_are_listed() -> None:
    graph = roundel.Graph(start="A", end="C").node("A", "agent").node("B", "agent").node("C", "passthrough")
    plan = roundel.prepare(graph.edge("A", "B").edge("B", "C"))
    made = forecast(plan, lambda node: Price(1, 10) if node.id == "A" else None)
    assert made.cost_usd == pytest.approx((300 * 1 + 300 * 10) / 1_000_000)
    assert [row.cost_usd is None for row in made.nodes] == [False, True, False]
    assert made.unpriced == ("B",)
    assert (forecast(plan).cost_usd, forecast(plan).unpriced) == (None, ("A", "B"))
    free = forecast(plan, lambda node: Price(0, 0))
    assert (free.cost_usd, free.unpriced) == (0, ())


def test_loop_agents_run_in_iterations() -> None:
    body = {"id": "Step", "type": "agent"}
    graph = roundel.Graph(start="Each", end="Each")
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body)
    assert of(graph)["Step"] == Estimate(1000, 10)
    few = roundel.Graph(start="Each", end="Each")
    few.node("Each", "loop_agent", strategy={"mode": "count", "max": 4}, body=body)
    assert of(few)["Step"] == Estimate(4, 2)


@pytest.mark.parametrize("block", range(4))
def test_runs_never_exceed_the_forecast(block: int) -> None:
    for seed in range(block * 300, (block + 1) * 300):
        workflow, text, script = case(seed)
        plan = plan_of(workflow)
        run = Simulator(plan, script).start(text).finish()
        made: Forecast = forecast(plan)
        for row in made.nodes:
            assert row.runs.worst is not None
            assert run.state.summary()["nodes"].get(row.node, 0) <= row.runs.worst, seed


def test_forecast_command_prints_the_estimates(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(json.dumps(review(4).mapping()))
    command = [sys.executable, "-m", "roundel", "forecast", "flow.yaml"]
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "Writer: at most 4 rounds, by Guard" in plain
    assert "cost: not known for Writer" in plain
    assert "tool" not in plain.split("Writer  ")[0], "no column that would be empty"
    asked = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads(asked.stdout)
    assert report["forecast"]["model_calls"] == {"worst": 8, "typical": 2}
    assert report["loops"][0]["worst_case_rounds"] == 4


PRICED = """
models:
  default: {model: "openai:gpt-4o"}
  own: {model: "openai:mine", price: {input: 2000.0, output: 4000.0}}
tools: {mean: {python: "statistics:mean"}}
graph:
  start: Known
  nodes:
    - {id: Known, type: agent}
    - {id: Own, type: agent, config: {profile_id: own, tools: [mean]}}
    - {id: Other, type: agent, config: {model: "openai:nobody-knows"}}
  edges: [{from: Known, to: Own}, {from: Own, to: Other}]
"""


def test_forecast_command_uses_prices(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(PRICED)
    command = [sys.executable, "-m", "roundel", "forecast", "flow.yaml"]
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = {line.split()[0]: line.split()[1:] for line in plain.splitlines() if line.strip()}
    assert rows["Known"][-1].startswith("$0.00")
    assert rows["Own"] == ["1", "1", "12", "3", "160", "2", "2,700", "$7.20"]
    assert rows["Other"][-1] == "?"
    assert rows["in"][-2:] == ["≥", "$7.20"]
    assert "cost: not known for Other" in plain
    assert all(len(line) <= 80 for line in plain.splitlines())
    asked = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads(asked.stdout)["forecast"]
    assert report["unpriced"] == ["Other"]
    assert [row["cost_usd"] is None for row in report["nodes"]] == [False, False, True]


def test_prices_are_not_loaded_if_no_agent_names_a_model(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(json.dumps(review(2).mapping()))
    code = (
        "import sys; from roundel.cli.workflows import forecast_command; "
        "forecast_command(['flow.yaml'], standalone_mode=False); "
        "print('imported' if 'genai_prices' in sys.modules or 'pydantic_ai' in sys.modules else 'clean')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "clean"
