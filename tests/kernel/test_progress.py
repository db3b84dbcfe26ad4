"""What lists of runs show of a run, after each step of random workflows."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

import roundel
from roundel.kernel.commands import Ask
from roundel.kernel.facts import Fact, Finished, Outcome
from roundel.kernel.progress import progress
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, Simulator, plan_of


class Watched(Simulator):
    """Looks at the progress after each step, and compares it with the events so far."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looks = 0
        self.rounds: dict[str, int] = {}

    def apply(self, fact: Fact) -> None:
        begun = len(self.events)
        super().apply(fact)
        for event in self.events[begun:]:
            if event.event == "loop_round":
                self.rounds[event.data["loop"]] = event.data["round"]
        shown = progress(self.state)
        assert msgspec.json.decode(msgspec.json.encode(shown)) == shown
        for loop in shown["loops"]:
            assert loop["limit"] is None or 1 <= loop["round"] <= loop["limit"]
            assert loop["address"].endswith(f"[{loop['round']}]")
        assert shown["questions"] == [one.address for one in self.in_flight if isinstance(one, Ask)]
        assert shown["usage"] == self.state.summary()["usage"]
        if self.state.over:
            assert shown["loops"] == shown["questions"] == []
        guard = shown["guard"]
        assert guard is None or guard["share"] >= 0
        self.looks += 1


def watch(plan: Plan, script: Script, text: str, seed: int) -> int:
    chosen = random.Random(seed)
    return Watched(plan, script, chosen.randrange).start(text).finish().looks


@pytest.mark.parametrize("block", range(4))
def test_progress_of_random_graphs(block: int) -> None:
    looks = 0
    for seed in range(block * 40, block * 40 + 40):
        workflow, text, script = graphs.case(seed)
        looks += watch(plan_of(workflow), script, text, seed)
    assert looks > 200


def test_progress_of_random_loop_agents() -> None:
    looks = 0
    for seed in range(60):
        workflow, text, script, _ = loop_agents.case(seed)
        looks += watch(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
    assert looks > 200


def test_inner_loops_come_last_and_limits_are_proven_ones() -> None:
    inner = {
        "start": "Say",
        "end": "Out",
        "nodes": [
            {"id": "Say", "type": "agent"},
            {"id": "Count", "type": "loop_counter", "config": {"max_iterations": 4}},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Say", "to": "Count"},
            {"from": "Say", "to": "Say"},
            {"from": "Count", "to": "Say"},
            {"from": "Count", "to": "Out"},
        ],
    }
    config = {"strategy": {"mode": "count", "max": 3}, "body": inner}
    outer = {"start": "Again", "nodes": [{"id": "Again", "type": "loop_agent", "config": config}]}
    run = Simulator(plan_of({"graph": outer}), {}).start("go")
    shown = progress(run.state)
    assert [(loop["loop"], loop["round"], loop["limit"]) for loop in shown["loops"]] == [
        ("Again", 1, 3),
        ("Say", 1, 4),
    ]
    assert shown["loops"][1]["address"].startswith(shown["loops"][0]["address"])


def test_the_newest_score_is_that_of_a_message_or_of_a_report() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "agent").edge("A", "B")
    run = Simulator(roundel.prepare(graph), {}).start("go")
    assert progress(run.state)["score"] is None
    said = Outcome((Message("x", "assistant", data={"score": 7.5}),))
    run.apply(Finished("A", said, run.now()))
    assert progress(run.state)["score"] == 7.5
    for report, expected in (({"score": None}, 7.5), ({"score": True}, 7.5), ({"score": 8}, 8)):
        again = Simulator(roundel.prepare(graph), {}).start("go")
        again.apply(Finished("A", said, again.now()))
        again.apply(Finished("B", Outcome((Message("y"),), report=report), again.now()))
        assert progress(again.state)["score"] == expected
