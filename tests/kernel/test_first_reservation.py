"""The first call of an agent reserves an estimate of what it sends: nothing is known of its size yet."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.kernel.facts import InterceptPoints, Started
from roundel.nodes import TYPES, agent
from roundel.plan.graph import compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Block, Message
from tests.kernel.reference import ASKS
from tests.kernel.simulator import Script, plan_of
from tests.kernel.spending import Dict, Spender, constant

ROLE = "x" * 3996
"""As a message, 1,003 tokens; the input "go" has 5."""
SENT = 1008
MODELS = {"default": {"model": "openai:house", "price": {"input": 2, "output": 10}}}
COST = SENT * 2 / 1e6


def writer(limits: Dict, **config: Any) -> Dict:
    nodes = [{"id": "A", "type": "agent", "config": {"role": ROLE, **config}}]
    return {"models": MODELS, "graph": {"nodes": nodes, "start": "A", "limits": limits}}


def spend(workflow: Dict, size: int = 100, script: Script | None = None) -> Spender:
    return Spender(plan_of(workflow), script or {}, constant(size)).start("go").finish()


@pytest.mark.parametrize("config", [{}, {"params": {"max_tokens": 50}}, {"tools": ["look"]}])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [("tokens", SENT), ("input_tokens", SENT), ("tokens_per_call", SENT), ("cost_usd", COST)],
)
def test_a_request_that_is_too_large_is_not_sent(name: str, wanted: float, config: Dict) -> None:
    """Neither a request that fits exactly is refused, nor is one made that is larger by a token."""
    tools = {"tools": {"look": {"python": "statistics:mean"}}}
    too_little = wanted - (COST / SENT if name == "cost_usd" else 1)
    run = spend({**tools, **writer({name: too_little}, **config)})
    assert run.state.usage["model_calls"] == 0
    [lock] = run.locks
    assert (lock["what"], lock["address"], lock["spent"]) == (name, "A", 0)
    assert lock["wanted"] == pytest.approx(wanted)
    run.unlock(limits={name: 1_000_000}).finish()
    assert run.state.status == "completed"

    fits = spend({**tools, **writer({name: wanted}, **config)})
    assert fits.state.usage["model_calls"] == 1


def test_a_limit_of_a_fraction_of_a_cent_locks_before_the_first_call() -> None:
    run = spend(writer({"cost_usd": 0.0006}))
    assert (run.state.usage["model_calls"], run.state.usage["cost_usd"]) == (0, 0)
    assert str(run.state.lock) == "limit of 0.0006 cost_usd"


def test_the_answer_is_not_guessed() -> None:
    """`max_tokens` bounds the answer, and is reserved as tokens. It has no cost yet: most are shorter."""
    limits = {"output_tokens": 4000, "cost_usd": COST, "tokens": 4000}
    assert spend(writer(limits, params={"max_tokens": 4000})).state.usage["model_calls"] == 1


def test_nothing_is_reserved_for_an_unknown_price() -> None:
    flow = {**writer({"cost_usd": 0.0000001}), "models": {"default": {"model": "openai:house"}}}
    assert spend(flow).state.usage["model_calls"] == 1


def test_later_calls_reserve_what_the_largest_has_used() -> None:
    """The estimate is larger than what the provider counts, and no longer matters."""
    nodes = [
        {"id": "A", "type": "agent", "config": {"role": ROLE}},
        {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 9}},
        {"id": "Out", "type": "passthrough"},
    ]
    edges = [{"from": a, "to": b} for a, b in ["AA", ("A", "Guard"), ("Guard", "A"), ("Guard", "Out")]]
    graph = {"nodes": nodes, "edges": edges, "start": "A", "end": "Out", "limits": {"tokens": SENT}}
    run = spend({"graph": graph}, 300)
    assert run.state.usage["model_calls"] == 3
    assert run.locks[-1]["wanted"] == 300


def test_parallel_first_calls_reserve_one_after_the_other() -> None:
    nodes: list[Dict] = [{"id": "In", "type": "passthrough"}]
    nodes += [{"id": f"A{number}", "type": "agent", "config": {"role": ROLE}} for number in range(5)]
    edges = [{"from": "In", "to": node["id"]} for node in nodes[1:]]
    graph = {"nodes": nodes, "edges": edges, "start": "In", "limits": {"tokens": 3 * SENT + 500}}
    run = spend({"graph": graph}, SENT)
    assert run.max_in_flight == 3
    assert run.tokens == 3 * SENT


def test_each_part_of_a_dynamic_edge_is_estimated() -> None:
    dynamic = {"type": "map", "split": {"type": "regex", "config": {"pattern": "[a-z]+"}}}
    nodes = [
        {"id": "List", "type": "literal", "config": {"content": f"short\n{'y' * 4000}"}},
        {"id": "A", "type": "agent"},
    ]
    graph = {"nodes": nodes, "edges": [{"from": "List", "to": "A", "dynamic": dynamic}], "start": "List"}
    run = spend({"graph": {**graph, "limits": {"tokens_per_call": 500}}})
    [lock] = run.locks
    assert (lock["address"], lock["wanted"]) == ("A#2", 1004)
    assert run.state.usage["model_calls"] == 1


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, 5),
        ({"prompt": "y" * 400}, 5 + 104),
        ({"prompt": "{{ text }} again"}, 6),  # the prompt takes the place of the input
        ({"prompt": "{{ 1 / 0 }}"}, 0),  # the call fails, and costs nothing
        ({"output_schema": {"type": "object"}}, 5 + 22),
        ({"input_mode": "prompt"}, 13),
    ],
)
def test_the_estimate_counts_what_the_model_gets(config: Dict, tokens: int) -> None:
    run = Spender(plan_of(writer({"tokens": 10_000}, role="", **config)), {}).start("go")
    assert run.state.calls["A"].reserved is not None
    assert run.state.calls["A"].reserved["input_tokens"] == tokens


def test_an_agent_in_a_loop_is_estimated_with_its_task() -> None:
    """B gets the task besides the draft of A."""
    nodes = [{"id": name, "type": "agent"} for name in "AB"]
    edges = [{"from": "A", "to": "B"}, {"from": "B", "to": "A"}]
    graph = {"nodes": nodes, "edges": edges, "start": "A", "limits": {"tokens": 10_000, "rounds": 1}}
    run = Spender(plan_of({"graph": graph}), {"A": ["d" * 400]}).start("t" * 4000)
    run.apply(run.answer(run.in_flight.pop()))
    assert run.state.calls["A[1]/B"].reserved is not None
    assert run.state.calls["A[1]/B"].reserved["input_tokens"] == 1004 + 104


def test_the_bytes_of_a_picture_are_no_tokens() -> None:
    run = Spender(plan_of(writer({"tokens": 10_000}, role="")), {})
    picture = Block("image", url=f"data:image/png;base64,{'A' * 100_000}")
    run.apply(Started("run", (Message((Block("text", "see"), picture)),), run.now()))
    assert run.state.calls["A"].reserved is not None
    assert run.state.calls["A"].reserved["input_tokens"] == 5


def test_a_list_that_is_to_be_compacted_is_not_estimated_before() -> None:
    context = {"policy": "history", "max_tokens": 200, "strategy": "summarize"}
    run = Spender(plan_of(writer({"tokens_per_call": 500}, role="", context=context)), {}).start("y" * 8000)
    assert [command.address for command in run.in_flight] == ["A/context"]
    assert run.locks == []


def test_the_estimate_is_reserved_while_middleware_decides() -> None:
    run = Spender(plan_of(writer({"tokens": 10_000})), {})
    run.start("go", InterceptPoints(before=("A",)))
    assert run.state.calls["A"].reserved is not None
    assert run.state.calls["A"].reserved["tokens"] == SENT
    run.finish()
    assert run.state.status == "completed"


def test_an_edited_message_is_estimated_again() -> None:
    graph = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "limits": {"tokens": 500}}
    run = Spender(plan_of({"graph": graph}), {}).start("y" * 4000).finish()
    assert run.locks[0]["wanted"] == 1004
    run.unlock(message="Shorter.").finish()
    assert run.state.status == "completed"


def test_a_replay_does_not_estimate_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of the table may be another one by then."""
    runs = [spend(writer({"cost_usd": limit}, tools=[])) for limit in (0.0006, 0.5)]
    assert [run.state.status for run in runs] == ["suspended_locked", "completed"]
    monkeypatch.setattr(agent, "Prices", None)
    for run in runs:
        assert run.replayed(run.plan).state.summary() == run.state.summary()


def test_runs_of_semantics_0_reserve_nothing_for_a_first_call() -> None:
    workflow = from_mapping({"breaker": False, **writer({"cost_usd": 0.0006})}, TYPES)
    run = Spender(compile_workflow(workflow, 0), {}, constant(100)).start("go").finish()
    assert run.state.usage["model_calls"] == 1


def test_an_agent_that_asks_for_tools_reserves_its_largest_call_afterwards() -> None:
    tools = {"tools": {"look": {"python": "statistics:mean"}}}
    run = spend({**tools, **writer({"tokens": 1500}, tools=["look"])}, 600, {"A": [f"{ASKS}look", "done"]})
    assert (run.state.status, run.state.usage["model_calls"]) == ("completed", 2)
