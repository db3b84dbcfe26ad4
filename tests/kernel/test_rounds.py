"""The events of rounds and loops: in pairs, in order, and with figures that fit together.

The random runs come from everything that makes them here: free loops, loop agents inside each other, with
breaks, failures that edges and lists catch, tools, limits, pauses, retries and a stop in the middle.
`ROUNDEL_ROUNDS_CASES` sets how many there are of each kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from roundel.kernel.events import Event
from roundel.kernel.facts import Failed, Paused, Resumed, Retried, Stopped
from roundel.kernel.payloads import (
    LoopLeft,
    LoopRound,
    RunFinished,
    RunStateChanged,
)
from roundel.kernel.payloads import RoundFinished as Ended
from roundel.workflow.address import rounds_around
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied
from tests.kernel.simulator import Script, plan_of
from tests.kernel.spending import Spender

CASES = int(os.environ.get("ROUNDEL_ROUNDS_CASES", "120"))
Case = tuple[dict[str, Any], str, Script]


class Watch:
    """Reads the events of a run, and fails at the first one that is out of order."""

    def __init__(self) -> None:
        self.open: dict[str, Event] = {}
        self.ended: dict[str, Ended] = {}
        """The rounds that have ended."""
        self.left: set[str] = set()
        """The loops that were left, by what the addresses of their rounds begin with."""
        self.last: dict[str, int] = {}
        """The last round of each loop."""
        self.is_over = False

    def see(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        match data:
            case LoopRound():
                self._begin(event, data)
            case Ended():
                self._end(address, data)
            case LoopLeft():
                self._leave(address, data)
            case RunFinished():
                self.is_over = True
            case RunStateChanged(status="running"):
                self.is_over = False  # a retry continues its rounds
            case _ if event.event in ("node_state_change", "token_usage", "tool_call"):
                for around in rounds_around(address):
                    assert around not in self.ended, f"{event.event} at {address} after the end of {around}"

    def _begin(self, event: Event, data: LoopRound) -> None:
        address = event.address or ""
        stem = address[: -len(f"{data.round}]")]
        assert address not in self.open and address not in self.ended, f"{address} begins twice"
        assert stem not in self.left, f"{address} begins after the end of its loop"
        assert data.round == self.last.get(stem, 0) + 1
        assert data.limit is None or data.round <= data.limit
        beside = [one for one in self.open.values() if isinstance(one.data, LoopRound) and _stem(one) == stem]
        lanes = {one.data.lane for one in beside if isinstance(one.data, LoopRound)}
        assert data.lane == min(set(range(len(lanes) + 1)) - lanes)
        for around in rounds_around(address)[:-1]:
            assert around not in self.ended, f"{address} begins after the end of {around}"
        self.last[stem] = data.round
        self.open[address] = event

    def _end(self, address: str, data: Ended) -> None:
        assert address in self.open, f"{address} ends and has not begun, or twice"
        begun = self.open.pop(address).data
        assert isinstance(begun, LoopRound)
        assert (begun.loop, begun.round, begun.lane) == (data.loop, data.round, data.lane)
        assert not [one for one in self.open if address in rounds_around(one)], f"{address} ends too early"
        self.ended[address] = data

    def _leave(self, address: str, data: LoopLeft) -> None:
        if data.round == 0:  # it had no round, and has the address of its node
            assert not address.endswith("]")
            return
        stem = address[: -len(f"{data.round}]")]
        assert stem not in self.left, f"{stem} is left twice"
        assert data.round == data.rounds == self.last[stem]
        rounds = [f"{stem}{number}]" for number in range(1, data.round + 1)]
        assert all(one in self.ended for one in rounds), f"{address} is left with an open round"
        ended = [self.ended[one] for one in rounds]
        assert data.usage.model_calls == sum(one.usage.model_calls for one in ended)
        assert data.usage.tool_calls == sum(one.usage.tool_calls for one in ended)
        scores = {one.round: one.score for one in ended if one.score is not None}
        best = min((number for number in scores if scores[number] == max(scores.values())), default=None)
        assert data.best == best
        self.left.add(stem)

    def finish(self, run: Spender) -> None:
        """At the end of a run that was completed nothing is open."""
        if run.state.status == "completed":
            assert not self.open, f"without an end: {list(self.open)}"
            assert {_stem_of(one) for one in self.ended} == self.left
            assert not run.state.live_loops


def _stem(event: Event) -> str:
    return _stem_of(event.address or "")


def _stem_of(address: str) -> str:
    return address[: address.rindex("[") + 1]


class Rough(Spender):
    """Is paused, frozen, retried and stopped, and some of its calls fail at random."""

    def __init__(self, case: Case, seed: int, functions: dict[str, Any] | None = None) -> None:
        self.dice = Random(seed)
        super().__init__(plan_of(case[0], functions), case[2], choose=self.dice.randrange)
        self.retries = 3

    def go(self, text: str) -> Rough:
        self.start(text)
        steps = 0
        while steps < 600 and (self.in_flight or self.state.status == "paused" or self._can_retry()):
            steps += 1
            self._advance()
        return self

    def _can_retry(self) -> bool:
        state = self.state
        return state.status == "failed" and self.retries > 0 and bool(state.unfinished or state.held)

    def _advance(self) -> None:
        state, chance = self.state, self.dice.random()
        if state.status == "paused":
            self.state = copied(state, self.plan)
            self.apply(Resumed(self.now()))
        elif state.status == "failed":
            self.retries -= 1
            self.apply(Retried(self.now()))
        elif chance < 0.04 and state.status == "running" and not state.paused:
            self.apply(Paused("lunch", self.now()))
        elif chance < 0.05 and not state.over:
            self.apply(Stopped("enough", self.now()))
            self.in_flight.clear()
        else:
            command = self.in_flight.pop(self.choose(len(self.in_flight)))
            if chance > 0.95:
                self.apply(Failed(command.address, "never", self.now()))
            else:
                self.apply(self.answer(command))


def _graph(seed: int) -> tuple[Case, None]:
    return graphs.case(seed), None


def _failures(seed: int) -> tuple[Case, None]:
    return graphs.case_with_failures(seed, tools=bool(seed % 2)), None


def _loop_agent(seed: int) -> tuple[Case, dict[str, Any]]:
    return loop_agents.rough_case(seed), loop_agents.FUNCTIONS


MAKERS: dict[str, Callable[[int], tuple[Case, Any]]] = {
    "graph": _graph,
    "failures": _failures,
    "loop_agents": _loop_agent,
}


@pytest.mark.parametrize("kind", list(MAKERS))
@pytest.mark.parametrize("is_rough", [False, True])
def test_rounds_come_in_pairs_and_in_order(kind: str, is_rough: bool) -> None:
    seen = {"completed": 0, "cancelled": 0, "failed": 0}
    for seed in range(CASES):
        case, functions = MAKERS[kind](seed)
        if is_rough:
            run: Spender = Rough(case, seed, functions).go(case[1])
        else:
            plan = plan_of(case[0], functions)
            run = Spender(plan, case[2], choose=Random(seed).randrange).start(case[1]).finish()
        watch = Watch()
        try:
            for event in run.events:
                watch.see(event)
            watch.finish(run)
        except AssertionError as error:
            raise AssertionError(f"{kind} {seed}: {error}") from error
        for ended in watch.ended.values():
            seen[ended.status] += 1
    assert seen["completed"]
    if kind == "loop_agents" and is_rough:
        assert seen["cancelled"] and seen["failed"]


# What the events say.


def seen_of(workflow: dict[str, Any], text: str, script: Script) -> list[Event]:
    run = Spender(plan_of(workflow), script).start(text).finish()
    assert run.state.status == "completed"
    return run.events


def test_a_round_over_a_list_names_its_element() -> None:
    config = {"strategy": {"mode": "array"}, "body": {"id": "Say", "type": "agent"}}
    workflow = {"graph": {"nodes": [{"id": "Each", "type": "loop_agent", "config": config}], "start": "Each"}}
    long = "x" * 500
    events = seen_of(workflow, f'["tea", "{long}"]', {"Say": ["a", "b"]})
    begun = [event.data for event in events if isinstance(event.data, LoopRound)]
    assert [(one.element, one.elements, one.lane) for one in begun] == [("tea", 2, 0), (long[:160], 2, 0)]
    assert all(one.limit is not None and not one.limit_by for one in begun)
    (left,) = [event for event in events if isinstance(event.data, LoopLeft)]
    assert left.address == "Each[2]"


@pytest.mark.parametrize(("keep", "kept"), [("best", 2), ("last", 3)])
def test_an_exit_names_the_best_round_and_the_one_whose_output_was_kept(keep: str, kept: int) -> None:
    nodes = [
        {"id": "Writer", "type": "agent"},
        {"id": "Gate", "type": "loop", "config": {"max_rounds": 3, "keep": keep}},
        {"id": "Out", "type": "passthrough"},
    ]
    edges = [
        {"from": "Writer", "to": "Gate"},
        {"from": "Gate", "to": "Writer", "port": "continue"},
        {"from": "Gate", "to": "Out", "port": "exit"},
    ]
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": "Writer", "end": "Out"}}
    script = {"Writer": [f'{{"score": {score}}}' for score in (40, 90, 60)]}
    events = seen_of(workflow, "tea", script)
    (left,) = [event.data for event in events if isinstance(event.data, LoopLeft)]
    assert (left.best, left.kept, left.round, left.usage.model_calls) == (2, kept, 3, 3)
    ended = [event.data for event in events if isinstance(event.data, Ended)]
    assert [(one.score, one.best) for one in ended] == [(40, 1), (90, 2), (60, 2)]
    last = events[-1].data
    assert isinstance(last, RunFinished) and last.loops["Writer"].best == 2
    begun = [event.data for event in events if isinstance(event.data, LoopRound)]
    assert [one.triggered_by for one in begun] == [(), ("Writer[1]/Gate",), ("Writer[2]/Gate",)]
    assert {(one.limit, one.limit_by) for one in begun} == {(3, "Gate")}
