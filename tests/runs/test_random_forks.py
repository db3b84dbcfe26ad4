"""Random runs, played again: the same run takes the same path, and one with more rounds ends like a run
that had them from the start."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Call, Command
from roundel.kernel.facts import Entry, decode_entry, encode_entry
from roundel.plan.graph import Plan
from roundel.runs.forking import Rerun
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, Simulator, plan_of
from tests.kernel.test_retry import ByAddress, Failing

seeds = st.integers(0, 2**40)
MORE = 2
ROUND_KEYS = ("max", "max_iterations", "max_rounds", "max_tool_calls", "rounds")


def is_pure(run: Simulator, command: Command) -> bool:
    return isinstance(command, Call) and run.plan.sites[command.site].kind.pure


class PureFirst(ByAddress):
    """Executes pure nodes before anything else, as hosts do, and the rest in a random order."""

    def __init__(self, plan: Plan, script: Script, seed: int) -> None:
        self.order = random.Random(seed)
        super().__init__(plan, script, self._choose)

    def _choose(self, count: int) -> int:
        pure = (number for number, command in enumerate(self.in_flight) if is_pure(self, command))
        return next(pure, self.order.randrange(count))


class FailingLater(PureFirst, Failing):
    """Some of its effects fail, and it is retried."""

    def __init__(self, plan: Plan, script: Script, seed: int) -> None:
        Failing.__init__(self, plan, script, seed)
        self.order, self.choose = self.chance, self._choose

    def fails_the_run(self, command: Command) -> bool:
        return not is_pure(self, command) and super().fails_the_run(command)


def with_more_rounds(value: Any) -> Any:
    """The same workflow with more rounds in every loop."""
    if isinstance(value, dict):
        return {
            key: item + MORE if key in ROUND_KEYS and isinstance(item, int) else with_more_rounds(item)
            for key, item in value.items()
        }
    return [with_more_rounds(item) for item in value] if isinstance(value, list) else value


def check_same(plan: Plan, script: Script, text: str, seed: int) -> int:
    """A run that failed and was retried a few times, played again. Returns how often it was retried."""
    run = FailingLater(plan, script, seed).start(text).finish()
    rerun = Rerun(plan, [decode_entry(line) for line in run.journal], plan)
    rerun.play()
    assert rerun.difference is None
    assert rerun.state.summary() == run.state.summary()
    return run.retries


def check_more(before: Plan, after: Plan, script: Script, text: str, seed: int) -> bool:
    """A fork of a run that ended, with more rounds. Returns whether the fork had anything left to do."""
    old = PureFirst(before, script, seed).start(text).finish()
    whole = PureFirst(after, script, seed + 1).start(text).finish()
    rerun = Rerun(before, [decode_entry(line) for line in old.journal], after)
    rerun.play()
    known = len(rerun.entries)
    fork = PureFirst(after, script, seed + 2).resume(map(encode_entry, rerun.entries))
    # It begins with calls that the old run did not make: all results at their addresses are used up.
    used, made = _results(rerun.entries), _results(map(decode_entry, old.journal))
    first = [command.address for command in fork.in_flight]
    assert [used[address] for address in first] == [made[address] for address in first]
    fork.finish()
    if rerun.difference is not None and rerun.difference.what == "gets another input":
        # A round without calls changed a message, and results are taken by address all the same.
        return len(fork.journal) > known
    assert fork.state.over == whole.state.over
    if whole.state.status == "completed":
        assert fork.state.summary() == whole.state.summary()
    return len(fork.journal) > known


def _results(entries: Iterable[Entry]) -> Counter[str]:
    """How many calls at each address have a result."""
    return Counter(getattr(entry.fact, "address", "") for entry in entries)


@given(seeds, seeds)
@settings(max_examples=60, deadline=None)
def test_run_of_a_random_graph_replays_the_same(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    check_same(plan_of({**workflow, "limits": {"rounds": 4}}), script, text, order)


@given(seeds, seeds)
@settings(max_examples=60, deadline=None)
def test_fork_of_a_random_graph_with_more_rounds(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    before = {**workflow, "limits": {"rounds": 2}}
    check_more(plan_of(before), plan_of(with_more_rounds(before)), script, text, order)


def test_random_loop_agents() -> None:
    retries = continued = 0
    for seed in range(120):
        workflow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2))
        plan = plan_of(workflow, loop_agents.FUNCTIONS)
        retries += check_same(plan, script, text, seed)
        more = plan_of(with_more_rounds(workflow), loop_agents.FUNCTIONS)
        continued += check_more(plan, more, script, text, seed)
    assert retries > 50
    assert continued > 20
