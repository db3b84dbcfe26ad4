"""The path and the part of each event say what its address says."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from roundel.kernel.events import Event
from roundel.plan.address import parse
from roundel.plan.graph import Plan
from roundel.workflow.address import (
    AddressError,
    PathStep,
    address_label,
    is_inside,
    round_address,
    segments,
    text,
)
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Simulator, plan_of


def check(event: Event, plan: Plan) -> None:
    if not event.address:
        assert (event.path, event.part) == ((), "")
        return
    place = parse(event.address, plan)
    assert (place.path, place.part, place.node.id) == (event.path, event.part, event.node_id)
    if event.event in ("loop_round", "node_state_change", "tool_call"):
        assert place.is_round is (event.event == "loop_round")
    label = address_label(event.node_id or "")
    written = round_address(event.path) if place.is_round else text(event.path, label, event.part, place.call)
    assert written == event.address


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("make", [graphs.case, graphs.case_with_tools, graphs.case_with_failures])
def test_events_of_loops_and_tools(make: Any, seed: int) -> None:
    workflow, given, script = make(seed)
    run = Simulator(plan_of(workflow), script).start(given).finish()
    for event in run.events:
        check(event, run.plan)


def test_events_of_subgraphs_and_loop_agents() -> None:
    seen: set[str] = set()
    for seed in range(200):
        workflow, given, script, _ = loop_agents.case(seed, tools=seed % 3 == 0, handled=seed % 2 == 0)
        plan = plan_of(workflow, loop_agents.FUNCTIONS)
        run = Simulator(plan, script, Random(seed).randrange).start(given).finish()
        for event in run.events:
            check(event, plan)
            seen |= {
                "loop" if step.loop else "node in rounds" if step.round else "node" for step in event.path
            }
    assert seen == {"loop", "node in rounds", "node"}


def test_parts_and_repeats_are_steps() -> None:
    """A dynamic edge leads to a subgraph, in which a debate lets a participant speak twice."""
    agent = {"type": "agent", "config": {"provider": "openai", "name": "m"}}
    people = [{"id": name, **agent} for name in ("Ada", "Bo")]
    pairs = [["Ada", "Bo"], ["Bo", "Ada"], ["Ada", "Bo"]]
    debate = {"participants": people, "agent_pairs": pairs, "max_rounds": 2}
    team = {
        "id": "team",
        "nodes": [{"id": "Jury", "type": "debate", "config": debate}],
        "edges": [],
        "start": "Jury",
    }
    split = {"type": "regex", "config": {"pattern": r"\w+"}}
    graph = {
        "nodes": [
            {"id": "In", "type": "passthrough"},
            {"id": "Team", "type": "subgraph", "config": {"type": "config", "config": team}},
        ],
        "edges": [{"from": "In", "to": "Team", "dynamic": {"type": "map", "split": split}}],
        "start": "In",
    }
    plan = plan_of({"graph": graph})
    run = Simulator(plan, {"Ada": ["yes"], "Bo": ["no"]}).start("one two").finish()
    for event in run.events:
        check(event, plan)
    assert run.state.status == "completed"
    said = {event.address: event.path for event in run.events if event.node_id == "Ada"}
    second = (PathStep(node="Team", part="2"), PathStep(node="Jury", round=1, repeat=2))
    assert said["Team#2/Jury[1]#2/Ada"] == second
    assert {event.part for event in run.events if event.node_id == "Team"} == {"1", "2"}


def test_an_address_is_inside_of_what_it_continues() -> None:
    assert all(is_inside(f"Writer{rest}", "Writer") for rest in ("", "[1]", "#2", "/Say"))
    assert is_inside("W[3].Each[1]/Say", "W[3]")
    assert not is_inside("W[30]", "W[3]")
    assert not is_inside("Writer2", "Writer")


@pytest.mark.parametrize("address", ["Writer[", "Writer[3", "/Writer", "Writer]", "Writer[x]", "A[1]x"])
def test_a_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AddressError, match="is not an address"):
        segments(address)
