"""Unlocking a run: who may do it, with which changes, with the same end as under a higher limit from
the start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from roundel.kernel.facts import Locked, TimeUp, decode_entry, decode_fact, encode_fact
from roundel.kernel.payloads import EventData, LoopRound, RunStateChanged
from roundel.kernel.snapshot import PlanIndex, freeze
from roundel.kernel.unlock import CHECKS
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.loader import from_mapping
from tests.events import without_figures
from tests.kernel import graphs, loop_agents
from tests.kernel.reference import ASKS
from tests.kernel.simulator import Script, plan_of, timeless
from tests.kernel.spending import Dict, Spender, can, constant, random_spending, ring, unlocked

HIGH = 10**6
SAME = "I have looked at the file and everything seems to be in order."


def locked(workflow: Dict, script: Script | None = None, size: int = 100) -> Spender:
    run = Spender(plan_of(workflow), script or {}, constant(size)).start("go").finish()
    assert run.state.status == "suspended_locked"
    return run


def capped() -> Spender:
    return locked(ring(30, limits={"rounds": 3}))


def circling(**graph: Any) -> Spender:
    return locked({"breaker": True, **ring(30, **graph)}, {"A": [SAME], "B": [SAME]})


def events(run: Spender, name: str) -> list[Dict]:
    return [event.fields() for event in run.events if event.event == name]


# What is needed.


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"reason": "  "}, "a reason is needed"),
        ({"checks": ()}, "not confirmed: cause_understood, cost_accepted, workflow_reviewed"),
        ({"checks": CHECKS[:2]}, "not confirmed: workflow_reviewed"),
        ({"limits": {"tokens": 7}}, "'tokens' did not lock this run; rounds can be raised"),
        ({"limits": {"rounds": 3}}, "'rounds' is 3 already; the raised limit must be larger"),
        ({"limits": {"rounds": float("nan")}}, "'rounds' is 3 already; the raised limit must be larger"),
        ({"exit": "B"}, "no edge leads from the loop 'A' to 'B'; its exits lead to Out"),
        ({"exit": "Nobody"}, "no edge leads from the loop 'A' to 'Nobody'; its exits lead to Out"),
    ],
)
def test_refused_unlock_changes_nothing(given: Dict, why: str) -> None:
    run = capped()
    before = freeze(run.state, PlanIndex(run.plan))
    assert can(run.state, unlocked(run.now(), **given)) == why
    assert freeze(run.state, PlanIndex(run.plan)) == before
    assert run.unlock().state.status == "running"


def test_a_run_that_is_not_locked_cannot_be_unlocked() -> None:
    run = Spender(plan_of(ring(2)), {}).start("go")
    assert can(run.state, unlocked(run.now())) == "the run is not locked"
    run.finish()
    assert can(run.state, unlocked(run.now())) == "the run is not locked"


def test_unlock_records_who_when_and_why() -> None:
    run = capped()
    address = run.state.lock.address  # type: ignore[union-attr]
    run.unlock(reason="the draft is nearly there", by="mei", limits={"rounds": 5})
    [events_of_node] = events(run, "breaker_unlocked")
    assert events_of_node == {
        "reason": "the draft is nearly there",
        "by": "mei",
        "state": "RESUMED",
        "what": "rounds",
        "changes": [{"path": "/limits/rounds", "before": 3, "after": 5}],
    }
    changed = [event.data for event in run.events if event.event == "run_state_change"][-1]
    assert isinstance(changed, RunStateChanged)
    assert (changed.reason, changed.cause, changed.by) == (
        "unlocked: the draft is nearly there",
        "unlock",
        "mei",
    )
    fact = decode_entry(run.journal[-1]).fact
    assert (fact.by, fact.checks) == ("mei", CHECKS)  # type: ignore[union-attr]
    assert decode_fact(encode_fact(fact)) == fact
    assert address == "A[3]"
    assert "A[4]/A" in [command.address for command in run.in_flight]


def test_unlock_grants_the_same_rounds_again_unless_a_limit_is_given() -> None:
    run = capped().unlock().finish()
    assert (run.state.lock.address, run.state.lock.limit) == ("A[6]", 6)  # type: ignore[union-attr]
    run.unlock(limits={"rounds": 7}).finish()
    assert run.state.lock.address == "A[7]"  # type: ignore[union-attr]


def test_raised_cap_applies_each_time_the_loop_is_entered() -> None:
    inner = ring(9)["graph"]
    nodes = [{"id": "Top", "type": "passthrough"}, *inner["nodes"]]
    nodes += [
        {"id": "Twice", "type": "loop_counter", "config": {"max_iterations": 2}},
        {"id": "End", "type": "passthrough"},
    ]
    edges = [*inner["edges"], {"from": "Top", "to": "A"}, {"from": "Out", "to": "Twice"}]
    edges += [{"from": "Out", "to": "Top"}, {"from": "Twice", "to": "Top"}, {"from": "Twice", "to": "End"}]
    graph = {"nodes": nodes, "edges": edges, "start": "Top", "end": "End", "loops": {"A": {"max_rounds": 4}}}
    run = locked({"graph": graph}).unlock(limits={"rounds": 20}).finish()
    assert run.state.status == "completed"
    assert len(run.locks) == 1


# What may be changed.


def test_edit_replaces_the_pending_message() -> None:
    run = capped().unlock(message="Start again from the beginning.")
    assert [message.text for message in run.in_flight[0].inputs][-1] == "Start again from the beginning."  # type: ignore[union-attr]
    (change,) = events(run, "breaker_unlocked")[0]["changes"]
    assert (change["path"], change["after"]) == ("/message", "Start again from the beginning.")
    assert change["before"] != change["after"]


def test_edit_replaces_the_message_of_a_node_with_one_incoming_edge() -> None:
    nodes = [{"id": "A", "type": "agent"}, {"id": "B", "type": "agent"}]
    graph = {"nodes": nodes, "edges": [{"from": "A", "to": "B"}], "start": "A", "limits": {"steps": 1}}
    run = locked({"graph": graph}, {"A": ["a draft"]}).unlock(message="Another draft.", limits={"steps": 9})
    [call] = run.in_flight
    assert [(message.text, message.source) for message in call.inputs] == [("Another draft.", "A")]  # type: ignore[union-attr]


def test_part_of_a_dynamic_edge_cannot_be_edited() -> None:
    split = {"type": "map", "split": {"type": "regex", "config": {"pattern": r"\w"}}}
    nodes = [{"id": "In", "type": "passthrough"}, {"id": "Each", "type": "agent"}]
    edges = [{"from": "In", "to": "Each", "dynamic": split}]
    graph = {"nodes": nodes, "edges": edges, "start": "In", "limits": {"model_calls": 1}}
    run = Spender(plan_of({"graph": graph}), {}).start("a b c").finish()
    edit = unlocked(run.now(), message="Something else.", limits={"model_calls": 9})
    assert can(run.state, edit) == "no message is waiting that could be edited"
    assert run.unlock(limits={"model_calls": 9}).finish().state.status == "completed"


def test_note_reaches_only_the_next_agent() -> None:
    run = locked(ring(30, limits={"steps": 4}))
    assert run.state.lock.address == "A[2]/B"  # type: ignore[union-attr]
    run.unlock(limits={"steps": 50}, note="Be brief.")
    [call] = run.in_flight
    assert call.address == "A[2]/B"
    assert call.inputs[-1].text == "Be brief."  # type: ignore[union-attr]
    assert call.inputs[-1].role == "system"  # type: ignore[union-attr]
    run = locked(ring(30, limits={"steps": 2}), {"A": ["a draft"], "B": ["a view"]})
    assert run.state.lock.address == "A[1]/Guard"  # type: ignore[union-attr]
    run.unlock(limits={"steps": 50}, note="Be brief.").finish()
    received = [seen.address for seen in run.executions if "Be brief." in [text for _, text in seen.inputs]]
    assert received == ["A[2]/A"]


@pytest.mark.parametrize("between", [True, False])
def test_unlock_with_exit_leaves_the_loop(between: bool) -> None:
    limits = {"rounds": 3} if between else {"steps": 5}
    run = locked(ring(30, limits=limits), {"A": ["one", "two", "three"], "B": ["no"]})
    more = {} if between else {"limits": {"steps": 50}}
    run.unlock(exit="Out", **more).finish()
    assert run.state.status == "completed"
    assert run.state.loops["A"].exit_reason == "unlocked"
    assert [data["by"] for data in events(run, "loop_exit")] == ["unlock"]
    assert [execution.node for execution in run.executions].count("Out") == 1
    assert run.state.output is not None


@pytest.mark.parametrize("between", [True, False])
def test_unlock_with_exit_may_leave_several_loops(between: bool) -> None:
    """A and B review each other inside a loop around Top and Check; B may also end all of it."""
    names = ("Top", "A", "B", "Check", "End", "Late")
    nodes = [{"id": name, "type": "agent" if name in "AB" else "passthrough"} for name in names]
    never = {"condition": {"type": "keyword", "config": {"any": ["never"]}}}
    done = {"condition": {"type": "keyword", "config": {"any": ["done"]}}}
    edges: list[Dict] = [
        {"from": "Top", "to": "A"},
        {"from": "A", "to": "B"},
        {"from": "B", "to": "A"},
        {"from": "B", "to": "Check", **done},
        {"from": "B", "to": "End", **never},
        {"from": "Check", "to": "Top"},
        {"from": "Check", "to": "Late", **never},
    ]
    limits = {"rounds": 3} if between else {"model_calls": 5}
    graph = {"nodes": nodes, "edges": edges, "start": "Top", "end": ["End", "Late"], "limits": limits}
    run = locked({"graph": graph}, {"A": ["a draft"], "B": ["a view"]})
    assert run.state.lock.address == ("Top[1].A[3]" if between else "Top[1].A[3]/B")  # type: ignore[union-attr]
    run.unlock(exit="End", **({} if between else {"limits": {"model_calls": 50}})).finish()
    assert run.state.status == "completed"
    assert {name: loop.exit_reason for name, loop in run.state.loops.items()} == {
        "Top": "unlocked",
        "A": "unlocked",
    }
    assert [seen.node for seen in run.executions if seen.node not in "AB"] == ["Top", "End"]
    assert run.state.summary()["output"] == "a view"


def test_exit_outside_of_a_loop_is_refused() -> None:
    graph = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "limits": {"tokens": 0}}
    run = locked({"graph": graph})
    assert "so there is none to leave" in can(run.state, unlocked(run.now(), exit="A"))


# A second trip in a row.


@pytest.mark.parametrize("make", [capped, circling, lambda: locked(ring(30, limits={"model_calls": 3}))])
def test_second_identical_lock_requires_a_change(make: Callable[[], Spender]) -> None:
    run = make().unlock().finish()
    assert run.state.status == "suspended_locked"
    assert "twice in a row" in can(run.state, unlocked(run.now()))
    assert "twice in a row" in can(run.state, unlocked(run.now(), note="a note changes nothing"))
    run.unlock(message="Something else.").finish()
    assert run.state.status == "suspended_locked"
    assert not can(run.state, unlocked(run.now()))  # it is the first one since that edit


def test_different_lock_in_between_requires_no_change() -> None:
    run = locked(ring(30, limits={"rounds": 3, "steps": 12})).unlock().finish()
    assert run.state.lock.what == "steps"  # type: ignore[union-attr]
    assert not can(run.state, unlocked(run.now()))


# Every kind of lock.

TOOL = {"look": {"python": "statistics:mean"}}


def looping(strategy: Dict, **node: Any) -> Dict:
    config = {"body": {"id": "W", "type": "agent"}, "strategy": strategy}
    return {
        "graph": {
            "nodes": [{"id": "Again", "type": "loop_agent", "config": config, **node}],
            "start": "Again",
        }
    }


def test_dead_loop_agent_can_be_unlocked_with_an_edit() -> None:
    strategy = {"mode": "condition", "until": 'text == "done"', "max": 50}
    script = {"W": [SAME] * 8 + ["a new thought", "done"]}
    run = locked({"breaker": True, **looping(strategy)}, script)
    assert run.locks[0]["trigger"] == "dead_loop"
    run.unlock().finish()
    assert run.state.status == "suspended_locked"
    assert "twice in a row" in can(run.state, unlocked(run.now()))
    run.unlock(message="Try it another way.")
    assert run.in_flight[0].inputs[-1].text == "Try it another way."  # type: ignore[union-attr]
    assert run.finish().state.status == "completed"


def test_the_rounds_of_a_loop_agent_can_be_raised() -> None:
    strategy = {"mode": "condition", "until": 'text == "done"', "max": 2, "on_limit": "suspend"}
    script = {"W": ["one", "two", "three", "four", "done"]}
    run = locked(looping(strategy), script)
    assert run.state.lock.what == "rounds"  # type: ignore[union-attr]
    assert run.unlock(limits={"rounds": 9}).finish().state.status == "completed"
    assert len(run.locks) == 1


def test_a_surge_of_tokens_can_be_allowed() -> None:
    sizes = dict.fromkeys(range(3, 40), 9000)
    plan = plan_of({"breaker": True, **ring(6)})
    script = {"A": [f"draft {n} {n * n}" for n in range(40)], "B": [f"view {n} {n * 7}" for n in range(40)]}
    run = Spender(plan, script, lambda _node, ordinal: sizes.get(ordinal, 10)).start("go").finish()
    assert [lock["trigger"] for lock in run.locks] == ["token_surge"]
    assert run.locks[0]["tokens"] > run.locks[0]["factor"] * run.locks[0]["estimate"]
    assert "'tokens' is" in can(run.state, unlocked(run.now(), limits={"tokens": 5}))
    run.unlock(limits={"tokens": HIGH}).finish()
    assert run.state.status == "completed"


def test_more_time_can_be_allowed() -> None:
    run = locked(
        {"breaker": {"seconds": 3, "dead_loop": False}, **ring(20)}, {"A": [f"{n} of it" for n in range(40)]}
    )
    assert run.locks[0]["trigger"] == "timeout"
    assert run.state.lock.limit == 3  # type: ignore[union-attr]
    run.unlock(limits={"seconds": HIGH}).finish()
    assert run.state.status == "completed"


def in_time(semantics: int = 1) -> Spender:
    """A run whose breaker has tripped after 10 seconds, while a call was in flight that took 9 more."""
    workflow = {"breaker": {"seconds": 10, "dead_loop": False, "token_surge": False}, **ring(20)}
    run = Spender(compile_workflow(from_mapping(workflow, TYPES), semantics), {}).start("go")
    run.clock = run.state.deadline
    run.apply(TimeUp(run.clock))
    run.clock += 8.75
    run.apply(run.answer(run.in_flight.pop()))
    assert run.state.status == "suspended_locked"
    assert [lock["trigger"] for lock in run.locks] == ["timeout"]
    assert run.state.worked == pytest.approx(19, abs=0.01)
    return run


def left(run: Spender) -> float:
    return run.state.time_limit - run.state.worked


def test_the_time_that_an_unlock_grants_begins_with_the_unlock() -> None:
    run = in_time()
    run.clock += 3600
    assert left(run.unlock()) == pytest.approx(10, abs=0.01)
    assert run.state.deadline == pytest.approx(run.clock + 10, abs=0.01)


def test_the_time_of_a_run_of_semantics_0_began_with_the_trip() -> None:
    assert left(in_time(semantics=0).unlock()) == pytest.approx(1, abs=0.01)


def test_a_timeout_that_is_unlocked_holds_for_the_same_time_again() -> None:
    run = in_time().unlock()
    run.finish()
    assert [lock["trigger"] for lock in run.locks] == ["timeout", "timeout"]
    assert 29 < run.state.worked < 30
    run.unlock(limits={"seconds": HIGH}).finish()
    assert run.state.status == "completed"


def test_time_that_runs_out_under_another_lock_is_not_granted() -> None:
    """A person locks the run, and the call in flight takes longer than the breaker allows."""
    workflow = {"breaker": {"seconds": 10, "dead_loop": False, "token_surge": False}, **ring(20)}
    run = Spender(plan_of(workflow), {}).start("go")
    run.apply(Locked("wait", "ada", run.now()))
    run.clock += 15
    run.apply(run.answer(run.in_flight.pop()))
    run.unlock().finish()
    assert [lock["trigger"] for lock in run.locks] == ["manual", "timeout"]
    assert run.state.worked < 17


def test_locked_time_does_not_count_as_working_time() -> None:
    run = capped()
    worked, deadline = run.state.worked, run.state.deadline
    run.clock += 86400
    run.unlock()
    assert run.state.worked == pytest.approx(worked)
    assert run.state.deadline == pytest.approx(deadline + 86400, abs=1)


@pytest.mark.parametrize("where", ["before its first call", "between two calls"])
def test_input_of_an_agent_with_tools_can_be_edited(where: str) -> None:
    limit = 0 if where == "before its first call" else 1
    config = {"tools": ["look"]}
    nodes = [{"id": "A", "type": "agent", "config": config, "limits": {"model_calls": limit}}]
    script = {"A": [f"{ASKS}look", "done"]}
    run = locked({"tools": TOOL, "graph": {"nodes": nodes, "start": "A"}}, script)
    run.unlock(message="Look elsewhere.", limits={"model_calls": 9})
    [call] = run.in_flight
    assert call.address == "A"
    assert [message.text for message in call.inputs] == ["Look elsewhere."]  # type: ignore[union-attr]
    assert run.finish().state.status == "completed"


def test_cap_reached_during_another_lock_is_reported_after_unlock() -> None:
    inner = ring(30)["graph"]
    nodes = [{"id": "In", "type": "passthrough"}, *inner["nodes"], {"id": "C", "type": "agent"}]
    nodes.append({"id": "D", "type": "agent", "limits": {"model_calls": 0}})
    edges = [*inner["edges"], *({"from": a, "to": b} for a, b in (["In", "A"], ["In", "C"], "CD"))]
    graph = {"nodes": nodes, "edges": edges, "start": "In", "end": "Out", "limits": {"rounds": 2}}
    run = Spender(plan_of({"graph": graph}), {}).start("go")

    def finish(address: str) -> None:
        [command] = [other for other in run.in_flight if other.address == address]
        run.in_flight.remove(command)
        run.apply(run.answer(command))

    for address in ("In", "A[1]/A", "A[1]/B", "A[1]/Guard", "A[2]/A", "A[2]/B", "C", "A[2]/Guard"):
        finish(address)
    assert run.state.status == "suspended_locked"
    assert [lock["what"] for lock in run.locks] == ["model_calls"]
    run.unlock(limits={"model_calls": 5}).finish()
    assert [lock["what"] for lock in run.locks] == ["model_calls", "rounds"]
    assert run.state.lock.address == "A[2]"  # type: ignore[union-attr]


# As if the limit had been higher.

LOCKS = ("limit_reached", "breaker_tripped", "breaker_unlocked", "run_state_change")


def without_limit(data: EventData) -> EventData:
    data = timeless(data)
    return replace(data, limit=None, limit_by="") if isinstance(data, LoopRound) else data


def events_without_locks(run: Spender) -> list[tuple[Any, ...]]:
    """All that was told but for the locks, whatever came first."""
    events_of_node = [
        (
            event.event,
            event.node_id or "",
            event.address or "",
            repr(without_figures(without_limit(event.data))),
        )
        for event in run.events
        if event.event not in LOCKS
    ]
    return sorted(events_of_node)


def unlimited(value: Any) -> Any:
    """The same workflow with limits far away."""
    if isinstance(value, dict):
        return {
            key: dict.fromkeys(item, HIGH) if key == "limits" else unlimited(item)
            for key, item in value.items()
        }
    return [unlimited(item) for item in value] if isinstance(value, list) else value


def compare(
    make: Callable[[], Plan], free: Callable[[], Plan], script: Script, text: str, sizes: Any, seed: int
) -> int:
    """Runs into every lock, goes on each time in another process, and has done what a free run does."""
    dice = Random(seed)
    run = Spender(make(), script, sizes, dice.randrange).start(text).finish()
    locks = 0
    while run.state.status == "suspended_locked" and run.state.lock_budget is not None:
        locks += 1
        run = run.thawed(make()) if dice.random() < 0.5 else run.replayed(make())
        assert not run.in_flight
        run.unlock(limits={run.state.lock.what: HIGH}).finish()  # type: ignore[union-attr]
        assert locks < 200
    whole = Spender(free(), script, sizes, Random(seed + 1).randrange).start(text).finish()
    assert run.state.status == whole.state.status
    if whole.state.status == "completed":
        assert run.trace() == whole.trace()
        assert events_without_locks(run) == events_without_locks(whole)
        assert run.state.summary() == whole.state.summary()
    return locks


@pytest.mark.parametrize("what", ["tokens", "steps", "model_calls", "cost_usd"])
def test_random_spending_resumes_as_with_the_higher_limit(what: str) -> None:
    locks = 0
    for seed in range(60):
        workflow, sizes, limit = random_spending(seed, 100)
        most = {
            "tokens": limit,
            "steps": limit // 60 + 1,
            "model_calls": limit // 100,
            "cost_usd": limit / 1e4,
        }
        workflow["graph"]["limits"] = {what: most[what]}
        free = unlimited(workflow)
        locks += compare(partial(plan_of, workflow), partial(plan_of, free), {}, "go", sizes, seed)
    assert locks > 20


def test_random_graphs_resume_as_with_the_higher_limit() -> None:
    locks = 0
    for seed in range(150):
        workflow, text, script = graphs.case_with_tools(seed) if seed % 2 else graphs.case(seed)
        few = {**workflow, "limits": {"steps": 1 + seed % 11, "tool_calls": seed % 3}}
        locks += compare(partial(plan_of, few), partial(plan_of, workflow), script, text, constant(9), seed)
    assert locks > 80


def test_random_loop_agents_resume_as_with_the_higher_limit() -> None:
    locks = 0
    for seed in range(120):
        workflow, text, script, _ = loop_agents.case(seed)
        few = {**workflow, "limits": {"steps": 1 + seed % 9, "model_calls": 1 + seed % 7}}
        make = partial(plan_of, few, loop_agents.FUNCTIONS)
        free = partial(plan_of, workflow, loop_agents.FUNCTIONS)
        locks += compare(make, free, script, text, constant(9), seed)
    assert locks > 60


def test_rounds_resume_as_with_the_higher_cap() -> None:
    few, many = ring(12, limits={"rounds": 3}), ring(12, limits={"rounds": 50})
    run = locked(few)
    run = run.thawed(plan_of(few)).unlock(limits={"rounds": 50}).finish()
    whole = Spender(plan_of(many), {}).start("go").finish()
    assert run.trace() == whole.trace()
    assert events_without_locks(run) == events_without_locks(whole)
