"""Which breakpoints a run of a plan can reach, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.plan.breakpoints import breakpoint_problem, parse_breakpoints
from roundel.plan.graph import Plan
from roundel.workflow.breakpoints import Breakpoint, BreakpointError

END = {"id": "End", "type": "passthrough"}


def agent(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "agent", "config": config}


def cycle(*names: str) -> Plan:
    """The nodes in a circle, which is left from the last one."""
    pairs = zip(names, (*names[1:], names[0]), strict=True)
    edges: list[dict[str, Any]] = [{"from": source, "to": target} for source, target in pairs]
    edges.append({"from": names[-1], "to": "End", "condition": {"cel": "round > 1"}})
    graph = {"id": "flow", "nodes": [*map(agent, names), END], "edges": edges, "start": names[0]}
    return roundel.prepare({"graph": graph})


def nested() -> Plan:
    """A loop in a loop, a subgraph for each part of a list, a debate, a vote, and an agent with tools."""
    part = {"id": "part", "nodes": [agent("X")], "start": "X"}
    nodes = [
        agent("Outer"),
        agent("Inner"),
        {"id": "InnerGate", "type": "loop", "config": {"max_rounds": 2}},
        {"id": "OuterGate", "type": "loop", "config": {"max_rounds": 2, "debug": True}},
        {"id": "Part", "type": "subgraph", "config": {"type": "config", "config": part}},
        {
            "id": "Talk",
            "type": "debate",
            "config": {"participants": [agent("Ann"), agent("Ben")], "max_rounds": 2},
        },
        {"id": "Vote", "type": "vote", "config": {"participants": [agent("Cid"), agent("Dan")]}},
        agent("Analyst", tools=["look"]),
    ]
    edges: list[tuple[str, str, dict[str, Any]]] = [
        ("Outer", "Inner", {}),
        ("Inner", "InnerGate", {}),
        ("InnerGate", "Inner", {"port": "continue"}),
        ("InnerGate", "OuterGate", {"port": "exit"}),
        ("OuterGate", "Outer", {"port": "continue"}),
        ("OuterGate", "Part", {"port": "exit", "dynamic": {"type": "map", "split": {"type": "message"}}}),
        ("Part", "Talk", {}),
        ("Talk", "Vote", {}),
        ("Vote", "Analyst", {"port": "approved"}),
    ]
    graph = {
        "id": "flow",
        "nodes": nodes,
        "edges": [{"from": source, "to": target, **more} for source, target, more in edges],
        "start": "Outer",
        "end": "Analyst",
    }
    return roundel.prepare({"tools": {"look": {"python": "statistics:mean"}}, "graph": graph})


PLAN = nested()


@pytest.mark.parametrize(
    "at",
    [
        "Outer",
        "X",
        "Ann",
        "Outer[2]",
        "Inner[5]",
        "Outer[2].Inner[5]",
        "Outer[2].Inner[5]/InnerGate",
        "Outer[2]/OuterGate",
        "Part/X",
        "Part#2/X",
        "Talk[2]",
        "Talk[2]/Ann",
        "Talk[1]#2/Ann",
        "Vote/Cid",
        "Analyst[2]",
        f"Outer[{'9' * 5000}]",
    ],
)
def test_a_place_of_the_workflow_is_accepted(at: str) -> None:
    assert breakpoint_problem(PLAN, Breakpoint(at)) == ""
    assert breakpoint_problem(PLAN, Breakpoint(cel="node == 'Nobody'")) == ""


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("Outter", "no breakpoint can be at 'Outter', since the workflow has no such node; "
         "did you mean 'Outer'?"),
        ("Outter[2]", "no breakpoint can be at 'Outter', since the workflow has no such loop; "
         "did you mean 'Outer'?"),
        ("InnerGate[2]", "no breakpoint can be at 'InnerGate', since the workflow has no such loop; "),
        ("Zebra[2]", "since the workflow has no such loop; known loops: Analyst, Inner, Outer, Talk"),
        ("Vote[1]", "no breakpoint can be at 'Vote', since the workflow has no such loop; "),
        ("Outer[0]", "the breakpoint 'Outer[0]' is never reached: rounds count from 1"),
        ("Outer[00].Inner[1]", "is never reached: rounds count from 1"),
        ("Outer[x]", "no breakpoint can be at 'Outer[x]', since the workflow has no such node"),
        ("Outer[2]/Nobody", "no breakpoint can be at 'Nobody', since the workflow has no such node"),
        ("Nobody[2]/Outer", "no breakpoint can be at 'Nobody', since the workflow has no such loop"),
        ("Nobody/X", "no breakpoint can be at 'Nobody', since the workflow has no such node"),
        ("Outer[2]/", "no breakpoint can be at '', since the workflow has no such node"),
        ("[2]", "no breakpoint can be at '[2]', since the workflow has no such node"),
        ("Part#2", "the breakpoint 'Part#2' is never reached: a run stops before all parts of a node"),
        ("Talk[1]#2", "leave out '#2', or name a node inside"),
        ("Nobody#2", "no breakpoint can be at 'Nobody', since the workflow has no such node"),
    ],
)  # fmt: skip
def test_a_place_that_no_run_reaches_is_refused_with_a_suggestion(at: str, text: str) -> None:
    problem = breakpoint_problem(PLAN, Breakpoint(at))
    assert text in problem
    with pytest.raises(BreakpointError) as caught:
        parse_breakpoints(PLAN, ["Outer", at])
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("id", "label"),
    [
        ("v1.2 draft", "v1.2 draft"),
        ("a/b", "a%2Fb"),
        ("list[2]", "list%5B2%5D"),
        ("Issue#12", "Issue%2312"),
        ("100%", "100%25"),
        ("作家", "作家"),
        ("محرر", "محرر"),
        ("✍🏽 writer", "✍🏽 writer"),
    ],
)
def test_a_node_is_named_by_its_id_and_its_rounds_by_its_address(id: str, label: str) -> None:
    plan = cycle(id, "Other")
    for at in (id, label, f"{label}[2]", f"{label}[2]/{label}", f"{label}[2]/Other"):
        assert breakpoint_problem(plan, Breakpoint(at)) == "", at
    assert breakpoint_problem(plan, Breakpoint(f"Other[2]/{label}"))
    listed = breakpoint_problem(plan, Breakpoint("Zzzzzzzzz[2]"))
    assert listed.endswith(f"known loops: {label}")


def test_breakpoints_of_a_workflow_are_collected_once_with_the_nodes_that_have_debug() -> None:
    assert list(map(str, PLAN.breakpoints)) == ["OuterGate"]
    assert parse_breakpoints(PLAN, ["Inner", "Inner", {"at": "Inner"}, "cel: true"]) == (
        Breakpoint("Inner"),
        Breakpoint(cel="true"),
    )
