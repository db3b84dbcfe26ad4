"""Every call of a model or a tool that begins ends exactly once, whatever happens to the run.

ROUNDEL_PAIRS=10000 tries as many random runs of each kind, instead of a few.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from roundel.kernel.commands import Ask, Call
from roundel.kernel.events import Event, is_over
from roundel.kernel.facts import (
    Answered,
    CallRefused,
    Expired,
    Fact,
    Failed,
    Finished,
    Locked,
    Outcome,
    Paused,
    Resumed,
    Retried,
    Stopped,
    Unlocked,
    Usage,
)
from roundel.kernel.payloads import ModelCallEnded, ModelCallStarted, ToolCallEnded, ToolCallStarted
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact
from roundel.kernel.unlock import CHECKS
from roundel.workflow.message import Message
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied
from tests.kernel.simulator import Simulator, plan_of

CASES = int(os.environ.get("ROUNDEL_PAIRS", "150"))
MAX_STEPS = 400
SHORTAGE = {"limit": 3, "what": "model_calls", "per": "day", "scope": "group ada"}
SHORTAGE |= {"spent": 3, "reserved": 0, "wanted": 1}


class Rough(Simulator):
    """A run to which much happens: failures, refusals, locks, pauses, restarts, retries, and its end."""

    def __init__(self, workflow: dict[str, Any], script: dict[str, list[str]], seed: int) -> None:
        self.chance = random.Random(seed)
        super().__init__(plan_of(workflow, loop_agents.FUNCTIONS), script, self.chance.randrange)
        self.retries = 0

    def go(self) -> None:
        for _ in range(MAX_STEPS):
            if is_over(self.state.status) and not self._retry():
                return
            if self.chance.random() < 0.1:
                self._restart()
            self._try(self._next_fact())
        self._try(Stopped("enough", self.now()))

    def _try(self, fact: Fact | None) -> None:
        if fact is None:
            return
        try:
            self.apply(fact)
        except IllegalFact:
            return

    def _retry(self) -> bool:
        if self.state.status != "failed" or self.retries == 3:
            return False
        self.retries += 1
        before = len(self.journal)
        self._try(Retried(self.now()))
        return len(self.journal) > before

    def _restart(self) -> None:
        """Another process continues, from a snapshot; it makes the calls in flight again."""
        self.state = copied(self.state, self.plan)

    def _next_fact(self) -> Fact | None:
        dice = self.chance.random()
        if self.state.status == "suspended_locked":
            return Stopped("enough", self.now()) if dice < 0.1 else Unlocked("on", "mei", CHECKS, self.now())
        if self.state.status == "paused":
            return Stopped("enough", self.now()) if dice < 0.1 else Resumed(self.now())
        if dice < 0.02:
            return Stopped("enough", self.now())
        if dice < 0.07:
            return Paused("", self.now(), interrupt=dice < 0.04)
        if dice < 0.1:
            return Locked("look", "mei", self.now(), abandoned=dice < 0.08)
        if not self.in_flight:
            return Resumed(self.now())
        return self._end_of_a_call(self.in_flight.pop(self.choose(len(self.in_flight))))

    def _end_of_a_call(self, command: Any) -> Fact:
        dice, address = self.chance.random(), command.address
        if dice < 0.1:
            return Failed(address, "broken", self.now(), error_type="OSError")
        if isinstance(command, Call) and dice < 0.15 and self.plan.sites[command.site].kind.speaks:
            return CallRefused(address, SHORTAGE, self.now())
        if isinstance(command, Ask) and command.about and dice < 0.4:
            return Answered(address, Message('{"n": 2}'), self.now())
        if isinstance(command, Ask) and command.deadline and dice < 0.5:
            self.clock = max(self.clock, command.deadline)
            return Expired(address, self.now())
        fact = self.answer(command)
        return with_usage(fact, self.plan.sites[command.site].kind.speaks)


def with_usage(fact: Fact, speaks: bool) -> Fact:
    """The fact of a call with what a host reports: tokens of a model, or one call of a tool."""
    if not speaks or not isinstance(fact, Finished):
        return fact
    is_tool = isinstance(fact.outcome.state, dict) and "name" in fact.outcome.state
    usage = Usage(tool_calls=1) if is_tool else Usage(1, 0, 10, 3, 0.01, model="m")
    outcome: Outcome = replace(fact.outcome, usage=usage)
    return replace(fact, outcome=outcome)


def check_pairs(events: list[Event], state: Run) -> Counter[str]:
    """Checks the calls of a run that has ended, or of which these calls are in flight; counts the ends."""
    open_models: dict[str, int] = {}
    open_tools: dict[str, str] = {}
    seen: dict[str, int] = {}
    ends: Counter[str] = Counter()
    for event in events:
        address, data = event.address or "", event.data
        match data:
            case ModelCallStarted():
                assert address not in open_models, f"two calls of a model at {address}"
                assert data.call == seen.get(address, 0) + 1, f"the numbers of the calls at {address}"
                open_models[address] = seen[address] = data.call
            case ModelCallEnded():
                assert open_models.pop(address, None) == data.call, f"an end without a beginning at {address}"
                ends[f"model {data.status}"] += 1
            case ToolCallStarted(status="waiting"):
                assert address not in open_tools, f"two calls of a tool at {address}"
                open_tools[address] = "waiting"
            case ToolCallStarted():
                assert open_tools.get(address) != "running", f"two calls of a tool at {address}"
                open_tools[address] = "running"
            case ToolCallEnded(status="refused" | "repeated"):
                assert address not in open_tools
                ends[f"tool {data.status}"] += 1
            case ToolCallEnded():
                assert open_tools.pop(address, None), f"an end without a beginning at {address}"
                ends[f"tool {data.status}"] += 1
            case _ if event.event == "run_finished":
                assert not open_models, "calls of models that did not end with the run"
                assert not open_tools, "calls of tools that did not end with the run"
    in_flight = {address for address, call in state.calls.items() if getattr(call.command, "number", 0)}
    assert open_models.keys() == in_flight
    return ends


def check_totals(events: list[Event], state: Run) -> None:
    """The totals never fall, and are those of the run in the end."""
    before: dict[str, Any] = {}
    for event in events:
        total = event.fields().get("total")
        if total is not None:
            assert all(total[name] >= value for name, value in before.items() if name != "cost_usd")
            before = total
    ended = [event.data for event in events if isinstance(event.data, ModelCallEnded | ToolCallEnded)]
    models = [data for data in ended if isinstance(data, ModelCallEnded)]
    assert state.usage["model_calls"] == sum(data.status in ("completed", "failed") for data in models)
    assert state.usage["cancelled_calls"] == sum(data.status == "cancelled" for data in models)
    called = [data for data in ended if isinstance(data, ToolCallEnded) and data.called]
    assert state.usage["tool_calls"] == len(called)
    assert state.usage["input_tokens"] == sum(data.input_tokens or 0 for data in models)


KINDS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "graphs": graphs.case_with_failures,
    "graphs with tools": lambda seed: graphs.case_with_failures(seed, tools=True),
    "loop agents": lambda seed: loop_agents.case(seed, handled=seed % 2 == 0),
    "loop agents with tools": lambda seed: loop_agents.case(seed, True, handled=seed % 2 == 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_that_begins_ends_once(kind: str) -> None:
    ends: Counter[str] = Counter()
    for seed in range(CASES):
        workflow, text, script, *_ = KINDS[kind](seed)
        run = Rough(workflow, script, seed)
        run.start(text)
        run.go()
        try:
            assert is_over(run.state.status), run.state.status
            ends += check_pairs(run.events, run.state)
            check_totals(run.events, run.state)
        except AssertionError as error:
            error.add_note(f"{kind}, seed {seed}")
            raise
    # The runs are worth something: each way to end has occurred.
    assert ends["model completed"] and ends["model failed"] and ends["model refused"]
    assert ends["model cancelled"]
    if "tools" in kind:
        assert ends["tool completed"] and ends["tool failed"] and ends["tool cancelled"]
