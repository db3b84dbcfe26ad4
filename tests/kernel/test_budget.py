"""Budgets: what they limit, in which scope, and that no run exceeds them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from roundel.kernel.facts import Failed
from roundel.nodes import TYPES
from roundel.plan.graph import compile_workflow
from roundel.workflow.loader import from_mapping
from tests.kernel import spending
from tests.kernel.simulator import Script, plan_of
from tests.kernel.spending import Dict, Spender, UnpricedSpender, constant, random_spending, ring, wide

SPLIT = {"type": "regex", "config": {"pattern": "[a-z]"}}
TOOL = {"look": {"python": "statistics:mean"}}


def spend(workflow: Dict, size: int = 100, script: Script | None = None) -> Spender:
    return Spender(plan_of(workflow), script or {}, constant(size)).start("go").finish()


def holding(body: Dict, **node: Any) -> Dict:
    """A subgraph, and a node behind it."""
    return {
        "graph": {
            "nodes": [
                {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": body}, **node},
                {"id": "Last", "type": "agent"},
            ],
            "edges": [{"from": "Sub", "to": "Last"}],
            "start": "Sub",
            "end": "Last",
        }
    }


def with_node_limits(workflow: Dict, name: str, **limits: float) -> Dict:
    for node in workflow["graph"]["nodes"]:
        if node["id"] == name:
            node["limits"] = limits
    return workflow


AMOUNTS = {
    "steps": 5,
    "model_calls": 3,
    "tokens": 350,
    "input_tokens": 230,
    "output_tokens": 110,
    "cost_usd": 0.03,
    "seconds": 1.0,
}


def test_costs_are_added_without_binary_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """As binary fractions they would not: 0.1 + 0.1 + 0.1 > 0.3."""
    monkeypatch.setattr(spending, "CENT", 0.1)
    run = spend({**ring(30), "limits": {"cost_usd": 0.3}})
    assert run.state.status == "suspended_locked"
    assert run.state.summary()["usage"]["cost_usd"] == 0.3
    assert run.state.usage["model_calls"] == 3
    assert run.state.lock is not None
    assert run.state.lock.evidence["spent"] == 0.3


@pytest.mark.parametrize("what", AMOUNTS)
@pytest.mark.parametrize("where", ["file", "graph", "loop", "node", "subgraph", "around"])
def test_each_limit_applies_at_every_level(what: str, where: str) -> None:
    limits = {what: AMOUNTS[what]}
    workflow = ring(30)
    scope = "the graph"
    if where == "file":
        workflow |= {"limits": limits}
    elif where == "graph":
        workflow["graph"]["limits"] = limits
    elif where == "loop":
        workflow["graph"]["loops"], scope = {"A": {"limits": limits}}, "A"
    elif where == "node":
        workflow, scope = with_node_limits(workflow, "B", **limits), "B"
    elif where == "subgraph":
        workflow["graph"]["limits"] = limits
        workflow = holding(workflow["graph"])
    else:
        workflow, scope = holding(workflow["graph"], limits=limits), "Sub"
    run = spend(workflow)
    assert run.state.status == "suspended_locked"
    assert run.state.lock is not None
    assert run.state.lock.what == what
    [lock] = run.locks
    assert (lock["what"], lock["limit"], lock["scope"]) == (what, AMOUNTS[what], scope)
    assert lock["spent"] + lock["reserved"] + lock["wanted"] > AMOUNTS[what] or what == "seconds"
    if what != "seconds":
        assert lock["spent"] <= AMOUNTS[what]


def test_graph_limit_overrides_the_file_limit() -> None:
    run = spend({"limits": {"tokens": 200}, **ring(30, limits={"tokens": 500})})
    assert run.tokens == 500


def test_child_spends_the_budget_of_its_parent() -> None:
    body = wide(3, limits={"tokens": 10_000})["graph"]
    workflow = holding(body)
    workflow["graph"]["limits"] = {"tokens": 250}
    run = spend(workflow, 100)
    assert (run.locks[0]["scope"], run.locks[0]["spent"]) == ("the graph", 300)
    assert run.state.lock is not None
    assert run.state.lock.address == "Last"


def test_call_exceeding_the_budget_is_not_started() -> None:
    run = spend(ring(30, limits={"tokens": 1000}), 300)
    assert run.state.usage["model_calls"] == 3
    assert run.tokens == 900
    [lock] = run.locks
    assert (lock["spent"], lock["wanted"], lock["address"]) == (900, 300, "A[2]/B")


def test_zero_budget_allows_no_call() -> None:
    run = spend(ring(30, limits={"tokens": 0}))
    assert run.state.usage["model_calls"] == 0
    assert spend(ring(3, limits={"model_calls": 0})).state.usage["model_calls"] == 0


@pytest.mark.parametrize("what", ["tokens", "input_tokens", "output_tokens"])
def test_zero_tokens_of_any_kind_allow_no_call(what: str) -> None:
    run = spend(ring(30, limits={what: 0}))
    assert (run.state.usage["model_calls"], run.locks[0]["what"]) == (0, what)


def test_each_kind_of_tokens_is_reserved_for_itself() -> None:
    """`max_tokens` bounds the output alone; of the input only the largest so far is known."""
    run = spend(known(ring(30, limits={"output_tokens": 120}), 50))
    assert run.state.usage["model_calls"] == 3  # the third has 66 behind it, and reserves 50
    assert (run.locks[0]["spent"], run.locks[0]["wanted"]) == (99, 50)
    run = spend(known(ring(30, limits={"input_tokens": 200}), 50))
    assert (run.locks[0]["what"], run.locks[0]["spent"], run.locks[0]["wanted"]) == ("input_tokens", 134, 67)


def test_call_with_too_large_a_reservation_is_not_made() -> None:
    run = spend(known(ring(30, limits={"tokens_per_call": 400}), 500), 300)
    assert run.state.usage["model_calls"] == 0
    [lock] = run.locks
    assert (lock["what"], lock["limit"], lock["spent"], lock["wanted"]) == ("tokens_per_call", 400, 0, 500)
    run.unlock(limits={"tokens_per_call": 500})
    assert run.finish().state.status == "completed"
    assert run.trace() == spend(known(ring(30), 500), 300).trace()


def test_call_that_turns_out_too_large_locks_the_run_and_counts() -> None:
    plan = plan_of(ring(5, loops={"A": {"limits": {"tokens_per_call": 200}}}))
    sizes = {("B", 1): 201}

    def run_it() -> Spender:
        return Spender(plan, {}, lambda node, ordinal: sizes.get((node, ordinal), 200)).start("go").finish()

    run = run_it()
    assert run.state.status == "suspended_locked"
    [lock] = run.locks
    assert (lock["scope"], lock["spent"], lock["address"]) == ("A", 201, "A[2]/B")
    assert run.tokens == 801  # its result is kept
    run.unlock(limits={"tokens_per_call": 201}).finish()
    assert (run.state.status, run.state.usage["model_calls"]) == ("completed", 10)
    # Without a raised limit, the node's next call reserves as much, and is not made.
    again = run_it().unlock().finish()
    assert (again.locks[1]["address"], again.locks[1]["wanted"]) == ("A[3]/B", 201)


def test_parallel_calls_are_compared_with_tokens_per_call_one_by_one() -> None:
    run = spend(known(wide(5, limits={"tokens_per_call": 100}), 100))
    assert run.state.status == "completed"


def spend_unpriced(workflow: Dict, *unpriced: str, scripted: bool = False) -> UnpricedSpender:
    run = UnpricedSpender(plan_of(workflow), {})
    run.unpriced, run.scripted = unpriced, scripted
    run.start("go").finish()
    return run


def test_call_without_a_known_price_locks_the_run_once_per_model() -> None:
    workflow = ring(3, limits={"cost_usd": 1})
    run = spend_unpriced(workflow, "A", "B")
    [lock] = run.locks
    assert (lock["what"], lock["limit"], lock["scope"]) == ("unpriced", 1, "the graph")
    assert (lock["model"], lock["address"]) == ("house:A", "A[1]/A")
    assert str(run.state.lock) == "no price is known for house:A"
    run.unlock().finish()
    assert [lock["model"] for lock in run.locks] == ["house:A", "house:B"]
    run.thawed(run.plan).unlock().finish()  # another model, so a reason is enough
    run.unlock().finish()
    assert (run.state.status, len(run.locks)) == ("completed", 2)
    assert run.trace() == spend_unpriced(ring(3), "A", "B").trace()


def test_a_provider_that_reports_no_usage_is_not_said_to_have_no_price() -> None:
    run = UnpricedSpender(plan_of(ring(3, limits={"cost_usd": 1})), {}, constant(0))
    run.unpriced = ("A",)
    run.start("go").finish()
    [lock] = run.locks
    assert (lock["what"], lock["model"], lock["missing"]) == ("unpriced", "house:A", "usage")
    assert str(run.state.lock) == "house:A reported no usage"
    assert run.unlock().finish().state.status == "completed"


def test_last_call_of_a_run_locks_it_too() -> None:
    graph = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "limits": {"cost_usd": 1}}
    run = spend_unpriced({"graph": graph}, "A")
    assert run.state.status == "suspended_locked"
    assert run.unlock().finish().state.status == "completed"
    assert run.state.usage["model_calls"] == 1


def test_scripted_call_without_a_known_price_is_a_warning_once_per_model() -> None:
    run = spend_unpriced(ring(3, limits={"cost_usd": 1}), "A", "B", scripted=True)
    assert (run.state.status, run.locks) == ("completed", [])
    warnings = [event for event in run.events if event.event == "warning"]
    assert [event.fields()["model"] for event in warnings] == ["house:A", "house:B"]
    assert "no price is known for house:A" in warnings[0].fields()["message"]
    assert not [e for e in spend_unpriced(ring(3), "A", scripted=True).events if e.event == "warning"]


COST, ALLOW, LOCK = {"cost_usd": 1}, {"unpriced": "allow"}, {"unpriced": "lock"}


@pytest.mark.parametrize(
    ("graph", "loop", "node", "locked_by"),
    [
        (COST, {}, {}, "the graph"),
        (COST | ALLOW, {}, {}, ""),
        (COST | ALLOW, COST, COST, ""),
        (COST | ALLOW, COST, COST | LOCK, "A"),
        (COST, COST | ALLOW, {}, "the graph"),
        (COST, COST | ALLOW, ALLOW, "the graph"),  # what is inside cannot allow itself what it costs
        (ALLOW, COST, {}, ""),
        (ALLOW, COST | LOCK, {}, "A"),
        (LOCK, {}, ALLOW, ""),
        ({}, COST, ALLOW, "A"),
        ({}, {}, COST | ALLOW, ""),
        ({}, {}, {}, ""),
    ],
)
def test_a_budget_decides_about_unpriced_calls_for_itself_and_those_inside(
    graph: Dict, loop: Dict, node: Dict, locked_by: str
) -> None:
    workflow = with_node_limits(ring(3, limits=graph, loops={"A": {"limits": loop}}), "A", **node)
    run = spend_unpriced(workflow, "A")
    assert [lock["scope"] for lock in run.locks] == ([locked_by] if locked_by else [])


def known(workflow: Dict, most: int) -> Dict:
    """Every agent says how large its answers are at most."""

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") == "agent":
                value["config"] = {**value.get("config", {}), "params": {"max_tokens": most}}
            for part in list(value.values()):
                visit(part)
        elif isinstance(value, list):
            for part in value:
                visit(part)

    visit(workflow)
    return workflow


def test_parallel_calls_reserve_one_after_the_other() -> None:
    run = spend(known(wide(5, limits={"tokens": 350}), 100))
    assert run.state.usage["model_calls"] == 3
    assert (run.locks[0]["spent"], run.locks[0]["reserved"]) == (0, 300)
    unknown = spend(wide(5, limits={"tokens": 350}))
    assert unknown.state.usage["model_calls"] == 5  # nobody knew


def test_the_largest_call_so_far_is_reserved() -> None:
    sizes = {("A", 0): 50, ("A", 1): 400}
    plan = plan_of(ring(30, limits={"tokens": 1000}))
    run = Spender(plan, {}, lambda node, ordinal: sizes.get((node, ordinal), 10)).start("go").finish()
    assert run.locks[0]["wanted"] == 400
    assert run.tokens <= 1000


@pytest.mark.parametrize(
    ("config", "reserved"),
    [
        ({"params": {"max_tokens": 70}}, 70),
        ({"parameters": {"max_completion_tokens": 80}}, 80),
        ({"params": {"max_tokens": 70}, "parameters": {"max_tokens": 90}}, 90),
        ({"profile_id": "big"}, 500),
        ({"profile_id": "big", "params": {"max_tokens": 7}}, 7),
        ({}, 300),
        ({"model": "openai:gpt-4o"}, 0),
        ({"params": {"max_tokens": "many"}}, 0),
    ],
)
def test_agent_reserve_follows_from_max_tokens(config: Dict, reserved: int) -> None:
    profiles = {
        "default": {"model": "openai:gpt-4o", "params": {"max_tokens": 300}},
        "big": {"model": "openai:gpt-4o", "params": {"max_tokens": 500}},
    }
    graph = {"nodes": [{"id": "A", "type": "agent", "config": config}], "start": "A"}
    plan = compile_workflow(from_mapping({"models": profiles, "graph": graph}, TYPES))
    assert plan.sites[0].reserve == reserved


def test_failed_call_releases_its_reservation() -> None:
    run = Spender(plan_of(known(wide(3, limits={"tokens": 300, "model_calls": 9}), 100)), {}).start("go")
    while len(run.in_flight) < 3:
        run.apply(run.answer(run.in_flight.pop(0)))
    budget = next(iter(run.state.root.budgets.values()))  # type: ignore[union-attr]
    assert budget.reserved["tokens"] == 300
    run.apply(Failed(run.in_flight.pop().address, "no", run.now()))
    assert budget.reserved["tokens"] == 200
    run.finish()
    assert (budget.reserved["tokens"], budget.spent["tokens"]) == (0, 200)
    assert budget.spent["model_calls"] == 3
    assert run.state.status == "failed"


def with_tools(config: Dict, **limits: float) -> Dict:
    agent = {"id": "A", "type": "agent", "config": {"tools": ["look"], **config}}
    return {"tools": TOOL, "graph": {"nodes": [agent], "start": "A", "limits": limits}}


def test_tool_calls_of_a_round_are_reserved_all_or_none() -> None:
    script = {"A": ["?look look look", "?look", "done"]}
    run = spend(with_tools({}, tool_calls=2), script=script)
    assert run.state.usage["tool_calls"] == 0
    assert (run.locks[0]["what"], run.locks[0]["wanted"]) == ("tool_calls", 3)
    run.unlock(limits={"tool_calls": 4}).finish()
    assert run.state.status == "completed"
    assert run.state.usage["tool_calls"] == 4
    assert spend(with_tools({}, tool_calls=4), script=script).trace() == run.trace()


def test_parts_of_a_dynamic_edge_reserve_one_by_one() -> None:
    dynamic = {"type": "map", "split": SPLIT, "config": {"max_parallel": 2}}
    graph = {
        "nodes": [
            {"id": "L", "type": "literal", "config": {"content": "a b c d e"}},
            {"id": "A", "type": "agent"},
        ],
        "edges": [{"from": "L", "to": "A", "dynamic": dynamic}],
        "start": "L",
        "limits": {"model_calls": 3},
    }
    run = spend({"graph": graph})
    assert run.state.usage["model_calls"] == 3
    assert run.locks[0]["address"] == "A#4"
    run.unlock(limits={"model_calls": 5}).finish()
    assert run.state.status == "completed"
    assert [execution.address for execution in run.trace() if "#" in execution.address] == [
        f"A#{number}" for number in range(1, 6)
    ]


def test_list_above_the_cap_locks_the_run() -> None:
    config = {
        "body": {"id": "W", "type": "agent"},
        "strategy": {"mode": "array", "items": "[1, 2, 3, 4, 5]", "max": 3},
    }
    graph = {"nodes": [{"id": "Each", "type": "loop_agent", "config": config}], "start": "Each"}
    run = spend({"graph": graph})
    assert run.state.status == "suspended_locked"
    assert [(lock["event"], lock["what"], lock["limit"]) for lock in run.locks] == [
        ("limit_reached", "items", 3)
    ]
    assert run.state.usage["model_calls"] == 0, "the length is known before the first round"
    assert run.unlock().finish().state.status == "completed"
    assert run.state.usage["model_calls"] == 5


def test_exhausted_tool_rounds_lock_the_run() -> None:
    script = {"A": ["?look", "?look", "?look", "?look", "done"]}
    run = spend(with_tools({"max_tool_calls": 2, "on_limit": "suspend"}), script=script)
    assert run.state.status == "suspended_locked"
    assert [(lock["what"], lock["limit"]) for lock in run.locks] == [("tool_rounds", 2)]
    assert run.unlock(limits={"rounds": 3}).finish().state.status == "suspended_locked"
    assert run.unlock(limits={"rounds": 6}).finish().state.status == "completed"


def test_body_budget_is_per_round() -> None:
    config = {
        "body": {"id": "W", "type": "agent", "limits": {"model_calls": 1}},
        "strategy": {"mode": "count", "max": 4},
    }
    graph: Dict = {"nodes": [{"id": "Again", "type": "loop_agent", "config": config}], "start": "Again"}
    assert spend({"graph": graph}).state.status == "completed"
    graph["nodes"][0]["limits"] = {"model_calls": 3}
    assert spend({"graph": graph}).locks[0]["scope"] == "Again"


@pytest.mark.parametrize("block", range(4))
def test_random_runs_never_exceed_a_budget(block: int) -> None:
    """With sizes that are known never; else by no more than one call of each that is at work."""
    met: dict[str, int] = {}
    for seed in range(block * 75, block * 75 + 75):
        for what in ("tokens", "output_tokens", "input_tokens", "cost_usd"):
            # Only an answer, or an answer with its prompt, is known before; in tokens, not in dollars.
            for sure in (True, False) if what in ("tokens", "output_tokens") else (False,):
                most = 100
                status = _spend_randomly(seed, what, most, sure)
                met[what] = met.get(what, 0) + (status == "suspended_locked")
    assert all(count > 10 for count in met.values()), met


def _spend_randomly(seed: int, what: str, most: int, sure: bool) -> str:
    workflow, size, limit = random_spending(seed, most)
    # Of a hundred tokens, 67 are the prompt and 33 the answer; each call costs a cent.
    share = {"tokens": 1, "output_tokens": 0.33, "input_tokens": 0.67, "cost_usd": 0.0001}[what]
    workflow["graph"]["limits"] = {what: limit * share if what == "cost_usd" else int(limit * share)}
    largest = int(most * share) if what == "output_tokens" else most
    run = Spender(plan_of(known(workflow, largest) if sure else workflow), {}, size, Random(seed).randrange)
    run.start("go")
    while run.in_flight:
        run.apply(run.answer(run.in_flight.pop(run.choose(len(run.in_flight)))))
        for budget in _budgets(run):
            for name, counted in budget.counted_limits.items():
                slack = 0 if sure and name == what else (10**10 if name == "cost_usd" else most)
                assert budget.spent[name] <= counted + slack * run.max_in_flight, (seed, name, sure)
                assert budget.reserved[name] >= 0
                if sure and name == what:
                    assert budget.spent[name] + budget.reserved[name] <= counted
    assert all(not any(budget.reserved.values()) for budget in _budgets(run))
    assert run.state.status in ("completed", "suspended_locked")
    return run.state.status


def _budgets(run: Spender) -> list[Any]:
    instances = [run.state.root]
    for call in run.state.calls.values():
        inside = call.activation.instance
        while inside.caller is not None:
            instances.append(inside)
            inside = inside.caller.activation.instance
    return [budget for instance in instances if instance is not None for budget in instance.budgets.values()]
