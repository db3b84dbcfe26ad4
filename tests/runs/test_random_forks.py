"""Random runs, played again: the same run takes the same path, and one with more rounds ends like a run
that had them from the start."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.facts import Entry, decode_entry, encode_entry
from roundel.plan.graph import Plan
from roundel.runs.forking import Rerun
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, plan_of
from tests.kernel.test_retry import ByAddress, Failing

seeds = st.integers(0, 2**40)
MORE = 2
ROUND_KEYS = ("max", "max_iterations", "max_rounds", "max_tool_calls", "rounds")


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
    run = Failing(plan, script, seed).start(text).finish()
    rerun = Rerun(plan, [decode_entry(line) for line in run.journal], plan)
    rerun.play()
    assert rerun.difference is None
    assert rerun.state.status == run.state.status
    if run.state.status == "completed":
        assert rerun.state.summary() == run.state.summary()
    return run.retries


def check_more(before: Plan, after: Plan, script: Script, text: str, seed: int) -> bool:
    """A fork of a run that ended, with more rounds. Returns whether the fork had anything left to do."""
    old = ByAddress(before, script, random.Random(seed).randrange).start(text).finish()
    whole = ByAddress(after, script, random.Random(seed + 1).randrange).start(text).finish()
    rerun = Rerun(before, [decode_entry(line) for line in old.journal], after)
    rerun.play()
    known = len(rerun.entries)
    fork = ByAddress(after, script, random.Random(seed + 2).randrange)
    fork.resume(map(encode_entry, rerun.entries))
    # It begins with calls that the old run did not make: all results at their addresses are used up.
    used, made = _results(rerun.entries), _results(map(decode_entry, old.journal))
    assert {command.address: used[command.address] for command in fork.in_flight} == {
        command.address: made[command.address] for command in fork.in_flight
    }
    fork.finish()
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
