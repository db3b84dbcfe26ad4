"""Limits given for one run: of the whole run, of one loop, of one node."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.plan.graph import compile_workflow
from roundel.plan.overrides import LimitError, LimitValues, with_limits
from roundel.workflow.graph import Limits, LoopSettings, Workflow


def cycle(entry: str, back: str, **node: Any) -> list[dict[str, Any]]:
    return [{"id": entry, "type": "agent", **node}, {"id": back, "type": "passthrough"}]


def edges(entry: str, back: str, out: str) -> list[dict[str, Any]]:
    leave = {"type": "keyword", "config": {"any": ["done"]}}
    return [
        {"from": entry, "to": back},
        {"from": back, "to": entry},
        {"from": back, "to": out, "condition": leave},
    ]


def workflow(**graph: Any) -> Workflow:
    """A free loop at Writer with a counter, a subgraph with a loop at Inner, and nodes with rounds."""
    inner = {
        "nodes": [*cycle("Inner", "Turn"), {"id": "Leaf", "type": "passthrough"}],
        "edges": edges("Inner", "Turn", "Leaf"),
        "start": "Inner",
        "end": "Leaf",
    }
    body = {
        "nodes": [*cycle("Deep", "DeepTurn"), {"id": "DeepEnd", "type": "passthrough"}],
        "edges": edges("Deep", "DeepTurn", "DeepEnd"),
        "start": "Deep",
        "end": "DeepEnd",
    }
    repeat = {"strategy": {"mode": "count", "max": 3}, "body": body}
    talk = {"participants": [{"id": "Pro", "type": "agent"}, {"id": "Con", "type": "agent"}]}
    return roundel.load(
        {
            "graph": {
                "nodes": [
                    *cycle("Writer", "Editor", limits={"steps": 90}),
                    {"id": "Guard", "type": "loop_counter"},
                    {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": inner}},
                    {"id": "Again", "type": "loop_agent", "config": repeat},
                    {"id": "Talk", "type": "debate", "config": talk},
                    {"id": "Gate", "type": "loop", "config": {"max_rounds": 4}},
                    {"id": "End", "type": "passthrough"},
                ],
                "edges": [
                    *edges("Writer", "Editor", "Sub"),
                    {"from": "Editor", "to": "Guard"},
                    {"from": "Guard", "to": "Writer"},
                    {"from": "Guard", "to": "Sub"},
                    {"from": "Sub", "to": "Again"},
                    {"from": "Again", "to": "Gate"},
                    {"from": "Gate", "to": "Again", "port": "continue"},
                    {"from": "Gate", "to": "Talk", "port": "exit"},
                    {"from": "Talk", "to": "End"},
                ],
                "start": "Writer",
                "end": "End",
                **graph,
            }
        }
    )


def changed(given: LimitValues, **graph: Any) -> Workflow:
    return with_limits(workflow(**graph), given)


def test_name_alone_is_a_limit_of_the_run() -> None:
    made = changed({"tokens": 5, "unpriced": "allow"}, limits={"tokens": 9, "steps": 3})
    assert made.graph.limits == Limits(tokens=5, steps=3, unpriced="allow")


def test_rounds_of_a_free_loop_are_its_cap() -> None:
    made = changed({"Writer.rounds": 20, "Writer.tokens": 7}, loops={"Writer": {"limits": {"rounds": 9}}})
    assert made.graph.loops == {"Writer": LoopSettings(max_rounds=20, limits=Limits(tokens=7))}
    assert compile_workflow(made).graph.cap(0) == 20
    assert changed({"Writer.rounds": 2}).graph.loops == {"Writer": LoopSettings(max_rounds=2)}


def test_node_at_the_entry_of_a_loop_has_its_name_twice() -> None:
    made = changed({"Writer.tokens": 7, "Writer.Writer.tokens": 3})
    assert made.graph.loops["Writer"].limits == Limits(tokens=7)
    assert made.graph.node("Writer").limits == Limits(tokens=3, steps=90)


def test_loop_inside_a_subgraph_and_a_body() -> None:
    made = changed({"Inner.rounds": 6, "Deep.steps": 8, "Turn.steps": 2, "Sub.rounds": 11})
    inner = made.graph.node("Sub").config.graph
    assert inner.loops["Inner"].cap == 6
    assert inner.node("Turn").limits == Limits(steps=2)
    assert made.graph.node("Sub").limits == Limits(rounds=11)
    assert made.graph.node("Again").config.body.graph.loops["Deep"].limits == Limits(steps=8)


def test_rounds_of_a_node_are_its_own() -> None:
    made = changed({"Again.Again.rounds": 7, "Deep.rounds": 5, "Talk.rounds": 9, "Guard.rounds": 2})
    kinds = {node.id: node.kind.rounds(node.config) for node in made.graph.nodes}
    assert (kinds["Again"], kinds["Talk"]) == (7, 9)
    assert made.graph.node("Guard").config.max_iterations == 2
    assert made.graph.node("Again").config.body.graph.loops["Deep"].cap == 5
    assert changed({"Gate.rounds": 1}).graph.node("Gate").config.max_rounds == 1
    # Again is the entry of the cycle with Gate, so its name is that of the cycle.
    assert changed({"Again.rounds": 7}).graph.loops["Again"].cap == 7


def test_other_limits_of_a_node_that_is_a_loop() -> None:
    made = changed({"Talk.tokens": 9, "Pro.tokens": 4})
    assert made.graph.node("Talk").limits == Limits(tokens=9)
    assert made.graph.node("Talk").config.participants[0].graph.nodes[0].limits == Limits(tokens=4)


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"turns": 3}, "there is no limit 'turns'; known limits: rounds, steps"),
        ({"Writer.turns": 3}, "there is no limit 'Writer.turns'"),
        ({"rouns": 3}, "there is no limit 'rouns'; did you mean 'rounds'?"),
        ({"max_tokens": 3}, "there is no limit 'max_tokens'; did you mean 'tokens'?"),
        ({"Writer.calls": 3}, "there is no limit 'Writer.calls'; did you mean 'model_calls'?"),
        ({"Writer": 3}, "there is no limit 'Writer'"),
        ({"Wirter.rounds": 3}, "no loop or node 'Wirter'; did you mean 'Writer'"),
        ({"Nobody.rounds": 3}, "no loop or node 'Nobody'; there are Again, Again.Again, Con, Deep"),
        ({"Editor.rounds": 3}, "'Editor' has no rounds"),
        ({"Writer.Writer.rounds": 3}, "'Writer.Writer' has no rounds"),
        ({"Writer.rounds": 0}, "a limit is a number"),
        ({"Talk.rounds": 1.5}, "a limit is a number"),
        ({"unpriced": "never"}, "'unpriced' is 'lock' or 'allow'"),
        ({"Writer.tokens": "many"}, "a limit is a number"),
    ],
)
def test_wrong_limits_are_refused(limits: Any, error: str) -> None:
    with pytest.raises(LimitError, match=error):
        changed(limits)


def test_name_that_occurs_twice_is_refused() -> None:
    body = {"nodes": [{"id": "A", "type": "agent"}], "start": "A"}
    nodes = [{"id": name, "type": "subgraph", "config": {"type": "config", "config": body}} for name in "XY"]
    flow = roundel.load({"graph": {"nodes": nodes, "edges": [{"from": "X", "to": "Y"}], "start": "X"}})
    with pytest.raises(LimitError, match="the workflow has 2 loops or nodes named 'A'"):
        with_limits(flow, {"A.tokens": 3})
    assert with_limits(flow, {"A.tokens": 3}, inherited=True) == flow


def test_inherited_limits_of_missing_parts_are_left_out() -> None:
    made = with_limits(workflow(), {"Gone.rounds": 3, "Editor.rounds": 3, "Writer.rounds": 3}, inherited=True)
    assert made == changed({"Writer.rounds": 3})


def test_nothing_changes_without_limits_and_setting_twice_is_setting_once() -> None:
    flow = workflow()
    assert with_limits(flow, {}) is flow
    limits = {"Writer.rounds": 20, "Again.Again.rounds": 7, "Inner.tokens": 3, "steps": 8}
    once = with_limits(flow, limits)
    assert with_limits(once, limits) == once
