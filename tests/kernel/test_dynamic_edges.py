"""Dynamic edges: a node runs once for each part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import roundel
from roundel.plan.graph import compile_workflow
from tests.events import node_status
from tests.kernel.reference import ASKS
from tests.kernel.simulator import Simulator, plan_of


def graph(dynamic: dict[str, Any], worker: str = "agent", **fields: Any) -> roundel.Graph:
    made = roundel.Graph(start="In", end="Out").node("In", "passthrough")
    made.node("Each", worker, **fields).node("Out", "passthrough", only_last_message=False)
    return made.edge("In", "Each", dynamic=dynamic).edge("Each", "Out")


def lines(**config: Any) -> dict[str, Any]:
    return {"type": "map", "split": {"type": "regex", "config": {"pattern": r"[^\n]+"}}, "config": config}


def inputs_of(made: roundel.Graph, text: str, node: str, **options: Any) -> tuple[list[str], roundel.Result]:
    """What `node` said in the end, message by message, seen by a function that follows it."""
    seen: list[str] = []

    def look(messages: tuple[roundel.Message, ...]) -> str:
        seen.extend(message.text for message in messages)
        return "seen"

    made.node("Look", "python", function=look).edge(node, "Look")
    return seen, roundel.run(made, text, **options)


def test_map_preserves_part_order_regardless_of_completion_order() -> None:
    made = roundel.Graph(start="In", end="Each").node("In", "passthrough")
    made.edge("In", "Each", dynamic=lines())

    @made.function("Each")
    async def slower_first(text: str) -> str:
        await asyncio.sleep(0.05 if text == "a" else 0)
        return text.upper()

    seen, result = inputs_of(made, "a\nb\nc", "Each")
    assert seen == ["A", "B", "C"]
    assert result.nodes["Each"] == 3


def test_each_part_has_its_own_address_and_reply() -> None:
    events: list[roundel.Event] = []
    made = graph(lines())
    seen, _ = inputs_of(made, "a\nb", "Each", script={"Each": ["one", "two"]}, on_event=events.append)
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran[1:3] == ["Each#1", "Each#2"]
    assert seen == ["one", "two"]


def test_max_parallel_limits_concurrent_parts() -> None:
    in_flight: list[int] = []
    most: list[int] = []
    made = roundel.Graph(start="In", end="Each").node("In", "passthrough")
    made.edge("In", "Each", dynamic=lines(max_parallel=2))

    @made.function("Each")
    async def work() -> str:
        in_flight.append(1)
        most.append(sum(in_flight))
        await asyncio.sleep(0.01)
        in_flight.append(-1)
        return "x"

    assert roundel.run(made, "a\nb\nc\nd\ne").nodes["Each"] == 5
    assert max(most) == 2


def test_other_inputs_are_passed_to_every_part() -> None:
    made = roundel.Graph(start=["In", "Rule"], end="Each").node("In", "passthrough")
    made.node("Rule", "literal", content="be brief").edge("Rule", "Each")
    made.edge("In", "Each", dynamic=lines())

    @made.function("Each")
    def join(messages: tuple[roundel.Message, ...]) -> str:
        return " | ".join(message.text for message in messages)

    seen, _ = inputs_of(made, "a\nb", "Each")
    assert seen == ["be brief | a", "be brief | b"]


@pytest.mark.parametrize(("count", "runs"), [(1, 1), (2, 1), (3, 1), (4, 3), (9, 4), (10, 7)])
def test_tree_reduces_until_one_message_remains(count: int, runs: int) -> None:
    made = roundel.Graph(start="In", end="Sum").node("In", "passthrough")
    split = {"type": "regex", "config": {"pattern": r"\d+"}}
    made.edge("In", "Sum", dynamic={"type": "tree", "split": split, "config": {"group_size": 3}})

    @made.function("Sum")
    def total(messages: tuple[roundel.Message, ...]) -> str:
        return str(sum(int(message.text) for message in messages))

    result = roundel.run(made, " ".join(str(number) for number in range(1, count + 1)))
    assert result.output == str(count * (count + 1) // 2)
    assert result.nodes["Sum"] == runs


def test_tree_that_does_not_reduce_fails() -> None:
    made = roundel.Graph(start="In", end="Sum").node("In", "passthrough")
    made.edge("In", "Sum", dynamic={"type": "tree", "split": lines()["split"], "config": {"group_size": 2}})

    @made.function("Sum")
    async def more(messages: tuple[roundel.Message, ...]) -> list[str]:
        return ["x", "y"]

    result = roundel.run(made, "a\nb\nc\nd")
    assert result.status == "failed"
    assert "did not come together" in str(result.error)


def test_splitting_by_messages_and_by_paths() -> None:
    made = roundel.Graph(start=["A", "B"], end="Each").node("A", "literal", content="a")
    made.node("B", "literal", content="b").node("All", "passthrough", only_last_message=False)
    made.node("Each", "agent").edge("A", "All").edge("B", "All").edge("All", "Each", dynamic={"type": "map"})
    assert inputs_of(made, "", "Each", script={})[0] == ["a", "b"]
    for path in ("plan.steps", "$.plan.steps[*]", "plan[steps]"):
        split = {"type": "json_path", "config": {"json_path": path}}
        text = '{"plan": {"steps": ["dig", {"n": 1}, null]}}'
        seen, _ = inputs_of(graph({"type": "map", "split": split}), text, "Each", script={})
        assert seen == ["dig", '{"n": 1}', "null"]


@pytest.mark.parametrize("text", ["no json", '{"other": 1}'])
def test_missing_json_path_leaves_the_message_unsplit(text: str) -> None:
    split = {"type": "json_path", "config": {"json_path": "plan.steps"}}
    seen, _ = inputs_of(graph({"type": "map", "split": split}), text, "Each", script={})
    assert seen == [text]


NO_LINES = {"type": "regex", "config": {"pattern": "z+", "on_no_match": "empty"}}


@pytest.mark.parametrize("type", ["map", "tree"])
@pytest.mark.parametrize(("split", "text"), [({"type": "json_path", "config": {}}, "[]"), (NO_LINES, "abc")])
def test_no_parts_trigger_the_join_with_an_empty_list(type: str, split: dict[str, Any], text: str) -> None:
    result = roundel.run(graph({"type": type, "split": split}), text, script={})
    assert (result.status, result.output, result.nodes) == ("completed", "[]", {"In": 1, "Out": 1})


def test_in_a_run_of_version_0_no_parts_trigger_nothing() -> None:
    nodes = [{"id": name, "type": "passthrough"} for name in ("In", "Each", "Out")]
    edges = [{"from": "In", "to": "Each", "dynamic": {"type": "map", "split": NO_LINES}}]
    edges.append({"from": "Each", "to": "Out"})
    workflow = plan_of({"graph": {"nodes": nodes, "edges": edges, "start": "In", "end": "Out"}}).workflow
    outputs = [
        Simulator(compile_workflow(workflow, semantics), {}).start("abc").finish().state.output
        for semantics in (0, 1)
    ]
    assert [output and output.text for output in outputs] == [None, "[]"]


def test_parts_may_be_subgraphs_with_their_own_replies() -> None:
    inner = roundel.Graph(start="First", end="Second").node("First", "agent").node("Second", "agent")
    inner.edge("First", "Second")
    script = {
        "First": [{"text": "f1", "delay": 0.05}, "f2", {"text": "f3", "delay": 0.02}],
        "Second": ["s1", "s2", "s3"],
    }
    made = graph(lines(max_parallel=2), "subgraph", graph=inner)
    seen, result = inputs_of(made, "a\nb\nc", "Each", script=script)
    assert seen == ["s1", "s2", "s3"]
    assert result.nodes["First"] == 3


def test_a_failing_part_fails_the_run() -> None:
    result = roundel.run(graph(lines()), "a\nb", script={"Each": ["ok", {"error": "no"}]})
    assert (result.status, result.error) == ("failed", "Each#2: no")


def test_a_counter_counts_its_parts() -> None:
    made = roundel.Graph(start="A", end="Out").node("A", "literal", content="a\nb\nc")
    made.node("Gate", "loop_counter", max_iterations=3).node("Out", "passthrough")
    made.edge("A", "Gate", dynamic=lines()).edge("Gate", "A").edge("Gate", "Out")
    result = roundel.run(made)
    assert (result.output, result.loops["A"]["rounds"]) == ("Loop limit reached (3)", 1)


# Which of a node's calls it is, where parts run at the same time.

W = {"id": "W", "type": "agent"}
THRICE = {"mode": "array", "items": "[text, text, text]", "max_parallel": 2}
EACH: dict[str, dict[str, Any]] = {
    "agent": {"id": "W", "type": "agent"},
    "subgraph": {
        "type": "subgraph",
        "config": {"type": "config", "config": {"nodes": [W], "edges": [], "start": "W", "end": "W"}},
    },
    "loop": {"type": "loop_agent", "config": {"body": W, "strategy": {"mode": "count", "max": 2}}},
    "list": {"type": "loop_agent", "config": {"body": W, "strategy": THRICE}},
    "tools": {"id": "W", "type": "agent", "config": {"tools": ["look"]}},
}


def twice(each: dict[str, Any]) -> dict[str, Any]:
    """Two parts in each of two rounds."""
    name = each.get("id", "Each")
    nodes = [
        {"id": "In", "type": "literal", "config": {"content": "a\nb"}},
        {"id": "Each", **each},
        {"id": "Twice", "type": "loop_counter", "config": {"max_iterations": 2}},
        {"id": "Out", "type": "passthrough"},
    ]
    edges = [
        {"from": "In", "to": name, "dynamic": lines()},
        {"from": name, "to": "Twice"},
        {"from": name, "to": "In"},
        {"from": "Twice", "to": "Out"},
        {"from": "Twice", "to": "In"},
    ]
    graph = {"nodes": nodes, "edges": edges, "start": "In", "end": "Out"}
    return {"tools": {"look": {"python": "statistics:mean"}}, "graph": graph}


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize(
    ("kind", "replies"),
    [
        ("agent", ["0", "1", "2", "3"]),
        ("subgraph", ["0", "1", "2", "3"]),
        ("loop", ["0", "1", "1", "2", "4", "5", "5", "6"]),
        ("list", ["0", "1", "2", "1", "2", "3", "6", "7", "8", "7", "8", "9"]),
        ("tools", [f"{ASKS}look", "1", "1", "3", f"{ASKS}look", "5"]),
    ],
)
def test_call_ordinals_of_parts_do_not_overlap_within_or_across_rounds(
    kind: str, replies: list[str], last_first: bool
) -> None:
    script = [str(number) for number in range(20)]
    if kind == "tools":
        script[0] = script[4] = f"{ASKS}look"
    run = Simulator(plan_of(twice(EACH[kind])), {"W": script}, lambda count: count - 1 if last_first else 0)
    run.start("go").finish()
    assert run.state.status == "completed"
    assert [
        seen.outputs[0] for seen in run.trace() if seen.node == "W" and "look" not in seen.address
    ] == replies


@pytest.mark.parametrize("order", range(4))
def test_failed_part_of_a_map_takes_the_error_edge_beside_the_others(order: int) -> None:
    made = graph(lines(max_parallel=3)).node("Sorry", "passthrough", only_last_message=False)
    made.edge("Each", "Sorry", port="error", condition={"type": "keyword", "config": {"any": ["down"]}})
    made.edge("Sorry", "Out")
    run = Simulator(plan_of(made.mapping()), {"Each": ["A", "!down", "C"]}, lambda count: order % count)
    run.start("a\nb\nc").finish()
    ran = {execution.address: execution.inputs for execution in run.executions}
    assert ran["Sorry"] == (("user", "down"),)
    assert ran["Out"] == (("user", "A"), ("user", "C"), ("user", "down"))
    assert run.state.status == "completed"
    lost = Simulator(plan_of(made.mapping()), {"Each": ["A", "!down", "!else"]}).start("a\nb\nc").finish()
    assert (lost.state.status, lost.state.error) == ("failed", "Each#3: else")


def test_failed_group_of_a_tree_leaves_only_the_failure() -> None:
    made = graph({**lines(), "type": "tree", "config": {"group_size": 2}}).node("Sorry", "passthrough")
    made.edge("Each", "Sorry", port="error").edge("Sorry", "Out")
    run = Simulator(plan_of(made.mapping()), {"Each": ["AB", "!down"]}).start("a\nb\nc\nd").finish()
    ran = {execution.address: execution.inputs for execution in run.executions}
    assert ran["Sorry"] == (("user", "down"),)
    assert ran["Out"] == (("user", "down"),)
