"""A run is locked when its calls grow, and never because it is long."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Call, Command
from roundel.kernel.facts import Fact, Finished
from roundel.kernel.token_surge import MOST_CALLS, expected_calls, surge_figures
from roundel.nodes import TYPES
from roundel.plan.forecast import forecast
from roundel.plan.graph import compile_workflow
from roundel.workflow.loader import from_mapping
from tests.kernel.simulator import plan_of
from tests.kernel.spending import Spender, constant, random_spending, ring

Dict = dict[str, Any]
HIGH = 10**9
ONLY_SURGES = {"dead_loop": False, "timeout": False}
TOOLS = {"look": {"python": "statistics:mean"}}


def array(items: int, most: int = 1000) -> Dict:
    """Two agents for each item of a list."""
    body = {
        "nodes": [{"id": "Draft", "type": "agent"}, {"id": "Check", "type": "agent"}],
        "edges": [{"from": "Draft", "to": "Check"}],
        "start": "Draft",
        "end": "Check",
    }
    listed = ", ".join(map(str, range(items)))
    strategy = {"mode": "array", "items": f"[{listed}]", "max": most}
    config = {"body": body, "strategy": strategy}
    return {"graph": {"nodes": [{"id": "Each", "type": "loop_agent", "config": config}], "start": "Each"}}


def long_ring(rounds: int) -> Dict:
    """A loop that only its guard bounds."""
    return ring(rounds, limits={"rounds": rounds})


def with_tools(most: int) -> Dict:
    config = {"tools": ["look"], "max_tool_calls": most}
    return {
        "tools": TOOLS,
        "graph": {"nodes": [{"id": "A", "type": "agent", "config": config}], "start": "A"},
    }


def searcher(most: int, sizes: Any) -> Spender:
    """An agent that requests a tool again and again, each time another call of it."""
    plan = plan_of({**with_tools(most), "breaker": ONLY_SURGES})
    script = {"A": ["look"] * 2000}
    return Searcher(plan, script, sizes).start("go").finish()


class Searcher(Spender):
    """Its model requests the tool with other arguments each time, and answers when it is out of rounds."""

    def answer(self, command: Command) -> Fact:
        fact = super().answer(command)
        if not isinstance(fact, Finished) or not isinstance(command, Call):
            return fact
        offer = getattr(command.state, "offer", False)
        if offer:
            request = {"id": "1", "name": "look", "arguments": {"n": command.ordinal}}
            fact.outcome.state["reply"] = {"text": "", "tool_calls": [request]}
        return fact


def spend(workflow: Dict, sizes: Any, breaker: Dict | None = None) -> Spender:
    plan = plan_of({**workflow, "breaker": {**ONLY_SURGES, **(breaker or {})}})
    return Spender(plan, {}, sizes).start("go").finish()


def surges(run: Spender) -> list[Dict]:
    return [lock for lock in run.locks if lock.get("trigger") == "token_surge"]


# Long runs.


def test_a_long_list_of_equal_calls_completes() -> None:
    run = spend(array(100), constant(800))
    assert run.state.status == "completed"
    assert run.state.usage["model_calls"] == 200


@pytest.mark.parametrize("most", [998, 999, 1000, 1001])
def test_a_larger_number_of_tool_rounds_makes_more_calls(most: int) -> None:
    run = searcher(most, constant(800))
    assert run.state.status == "completed"
    assert run.state.usage["model_calls"] == most + 1


@settings(deadline=None)
@given(size=st.integers(1, 20_000), rounds=st.integers(1, 60), seed=st.integers(0, 10))
def test_calls_that_keep_their_size_never_trip(size: int, rounds: int, seed: int) -> None:
    """Not even if the calls of one node are many times as large as those of the other."""
    other = Random(seed).choice([size, 1, 100, 5_000, 20_000])
    run = spend(ring(rounds), lambda node, _ordinal: size if node == "A" else other)
    settled = [lock for lock in surges(run) if lock["calls"] > 5]
    assert settled == []


def test_one_unusual_first_answer_does_not_decide_for_the_rest() -> None:
    """The first call of each node says almost nothing; all others have the same size."""
    run = spend(ring(40), lambda _node, ordinal: 5 if ordinal == 0 else 6000)
    assert run.state.status == "completed"


def test_each_call_of_a_tool_loop_may_see_one_message_more() -> None:
    run = searcher(60, lambda _node, ordinal: 700 * (ordinal + 1))
    assert run.state.status == "completed"


# Growth.


def test_growth_from_round_to_round_trips() -> None:
    run = spend(ring(50), lambda _node, ordinal: 700 * 2**ordinal)
    [lock] = surges(run)
    assert lock["tokens"] > lock["factor"] * lock["estimate"]
    assert lock["call"] > lock["usual_call"] >= 1400
    assert lock["calls"] < 25
    assert run.state.status == "suspended_locked"


def test_steady_growth_trips_in_a_long_loop() -> None:
    run = spend(long_ring(150), lambda _node, ordinal: 700 * (ordinal + 1))
    [lock] = surges(run)
    assert lock["calls"] < 150


def test_a_tool_loop_whose_calls_double_trips() -> None:
    [lock] = surges(searcher(1000, lambda _node, ordinal: 800 * 2 ** min(ordinal, 40)))
    assert lock["calls"] < 25


def test_a_node_whose_calls_keep_their_size_is_not_blamed_for_another() -> None:
    """Two large calls stay below what the bound allows. The calls of A that follow use the rest of it up."""
    nodes: list[Dict] = [{"id": name, "type": "agent"} for name in ("S1", "S2", "S3", "B1", "B2", "A")]
    edges = [{"from": a["id"], "to": b["id"]} for a, b in pairwise(nodes)]
    edges += [{"from": "A", "to": "A"}, {"from": "A", "to": "Guard"}]
    edges += [{"from": "Guard", "to": "A"}, {"from": "Guard", "to": "Out"}]
    nodes += [{"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 12}}]
    nodes += [{"id": "Out", "type": "passthrough"}]
    graph = {"nodes": nodes, "edges": edges, "start": "S1", "end": "Out"}
    run = spend({"graph": graph}, lambda node, _ordinal: 40_000 if node in ("B1", "B2") else 2000)
    spent, most = surge_figures(run.state)
    assert spent > most
    assert run.state.status == "completed"


# The bound.


@settings(deadline=None)
@given(
    bounds=st.tuples(st.integers(1, 2000), st.integers(1, 2000)).map(sorted),
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=40),
    kind=st.sampled_from(["rounds", "items"]),
)
def test_a_larger_bound_never_allows_less(bounds: list[int], sizes: list[int], kind: str) -> None:
    """The same calls under two bounds: the larger one allows at least as much after each of them."""
    make = long_ring if kind == "rounds" else partial(array, 20)
    # A list that is longer than its bound is locked before its first call.
    bounds = bounds if kind == "rounds" else [bound + 20 for bound in bounds]
    smaller, larger = (allowances(make(bound), sizes) for bound in bounds)
    assert 0 < len(smaller) <= len(larger)
    assert all(one <= other for one, other in zip(smaller, larger, strict=False))


@settings(deadline=None)
@given(
    bounds=st.tuples(st.integers(0, 2000), st.integers(0, 2000)).map(sorted),
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=40),
)
def test_more_tool_calls_never_allow_less(bounds: list[int], sizes: list[int]) -> None:
    smaller, larger = (allowances(with_tools(most), sizes, Searcher) for most in bounds)
    assert 0 < len(smaller) <= len(larger)
    assert all(one <= other for one, other in zip(smaller, larger, strict=False))


def test_a_node_with_small_calls_does_not_lower_what_others_may_take() -> None:
    """The average call of the forecast is smaller the more rounds the small agent may take."""
    found, averages = [], []
    for rounds in (5, 500, 5000):
        flow = long_ring(rounds)
        flow["graph"]["nodes"].insert(0, {"id": "Big", "type": "agent", "config": {"role": "x" * 40_000}})
        flow["graph"]["edges"].insert(0, {"from": "Big", "to": "A"})
        flow["graph"]["start"] = "Big"
        found.append(allowances(flow, [700] * 6))
        whole = forecast(plan_of(flow))
        averages.append(whole.tokens.typical / whole.model_calls.typical)
    assert averages[0] > averages[1] > averages[2]
    assert all(one <= two <= three for one, two, three in zip(*found, strict=True))


def test_no_bound_counts_as_the_largest_one() -> None:
    flow = ring(5)
    split = {"type": "map", "split": {"type": "regex", "config": {"pattern": "[a-z]+"}}}
    flow["graph"]["edges"][0]["dynamic"] = split
    plan = plan_of(flow)
    assert forecast(plan).model_calls.worst is None
    assert expected_calls(plan)[0] == MOST_CALLS == expected_calls(plan_of(long_ring(5000)))[0]


def allowances(workflow: Dict, sizes: list[int], kind: type[Spender] = Spender) -> list[float]:
    """What a run may spend after each of its calls, as far as it makes them."""
    plan = plan_of({**workflow, "breaker": {**ONLY_SURGES, "factor": 1e9}})
    made: list[float] = []
    run = kind(plan, {}, lambda _node, _ordinal: sizes[len(made)]).start("go")
    while run.in_flight and len(made) < len(sizes):
        fact = run.answer(run.in_flight.pop())
        run.apply(fact)
        usage = fact.outcome.usage if isinstance(fact, Finished) else None
        if usage is not None and usage.model_calls:
            made.append(surge_figures(run.state)[1])
    return made


# Limits and unlocks.


def test_an_explicit_limit_locks_before_the_breaker() -> None:
    run = spend(ring(50, limits={"tokens": 5000}), lambda _node, ordinal: 700 * 2**ordinal)
    assert [lock.get("what") for lock in run.locks] == ["tokens"]
    assert run.tokens <= 5000


def test_what_a_person_allows_holds_through_later_unlocks() -> None:
    flow = ring(60, limits={"rounds": 14})
    run = spend(flow, lambda _node, ordinal: 700 * 2 ** min(ordinal, 10))
    assert surges(run)
    run.unlock(limits={"tokens": HIGH}).finish()
    assert run.state.lock is not None
    assert run.state.lock.what == "rounds"
    run.unlock(limits={"rounds": 60}).finish()
    assert run.state.status == "completed"
    assert len(surges(run)) == 1


def test_a_run_trips_again_only_after_it_has_spent_much_more() -> None:
    run = spend(ring(50), lambda _node, ordinal: 700 * 2 ** min(ordinal, 12))
    first = run.state.guard_stats.surge_baseline
    run.unlock(message="Be brief.").finish()
    again = surges(run)
    assert len(again) == 2
    assert again[1]["tokens"] > 3 * first


# State.


@settings(deadline=None)
@given(seed=st.integers(0, 400))
def test_figures_are_those_of_a_count_from_the_beginning(seed: int) -> None:
    """Against the rule written down again, over all calls so far; with a snapshot between any two facts."""
    flow, sizes, _ = random_spending(seed, 3000)
    dice = Random(seed)
    plan = plan_of({**flow, "breaker": {**ONLY_SURGES, "factor": 1e9}})
    run = Spender(plan, {}, sizes, dice.randrange).start("go")
    most, floors = expected_calls(plan)
    calls: list[tuple[int, int]] = []
    while run.in_flight:
        command = run.in_flight.pop(dice.randrange(len(run.in_flight)))
        fact = run.answer(command)
        run.apply(fact)
        if isinstance(fact, Finished) and fact.outcome.usage is not None:
            assert isinstance(command, Call)
            usage = fact.outcome.usage
            calls.append((command.site, usage.input_tokens + usage.output_tokens))
            expected = usual(calls, most, floors)
            assert surge_figures(run.state) == (sum(size for _, size in calls), 1e9 * expected)
        if dice.random() < 0.2:
            waiting = run.in_flight
            run = run.thawed(plan)
            run.in_flight = waiting
    stored = len(run.state.guard_stats.node_calls)
    assert stored <= len(plan.sites)


def usual(calls: list[tuple[int, int]], most: int, floors: list[int]) -> int:
    """The usual tokens of a run without tools, by the words of the manual."""
    first = [size for _, size in calls][:3]
    average = -(-sum(first) // len(first))
    sizes = []
    for site, _ in calls:
        own = [size for other, size in calls if other == site][:3]
        sizes.append(max(floors[site], sorted(own)[1] if len(own) == 3 else average))
    left = max(0, most - len(calls))
    return sum(sizes) - (-left * sum(sizes) // len(sizes))


def test_a_replay_trips_at_the_same_call() -> None:
    run = spend(ring(50), lambda _node, ordinal: 700 * 2**ordinal)
    again = run.replayed(run.plan)
    assert again.state.lock == run.state.lock
    assert surge_figures(again.state) == surge_figures(run.state)


# Runs of earlier programs.


def test_runs_of_semantics_0_keep_their_rule() -> None:
    """Two agents and 600 rounds: more than 1,000 calls at worst, so the typical case counts."""
    workflow = from_mapping({**array(100), "breaker": ONLY_SURGES}, TYPES)
    run = Spender(compile_workflow(workflow, 0), {}, constant(800)).start("go").finish()
    [lock] = surges(run)
    assert run.state.status == "suspended_locked"
    assert run.state.usage["model_calls"] == 61
    assert lock.keys() & {"call", "usual_call", "calls"} == set()
