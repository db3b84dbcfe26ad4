"""Which agents have no model, and what a plan becomes when one is chosen for them."""

from __future__ import annotations

from typing import Any

import roundel
from roundel.nodes.loading import load_plan
from roundel.plan.model_choice import missing_model, nodes_without_model, with_model


def agent(id: str, **config: Any) -> dict[str, Any]:
    return {"id": id, "type": "agent", "config": config}


def body(node: dict[str, Any]) -> dict[str, Any]:
    return {"start": node["id"], "nodes": [node], "edges": []}


EVERYWHERE = {
    "models": {"careful": {"model": "openai:gpt-4o"}},
    "graph": {
        "start": "Own",
        "nodes": [
            agent("Own", model="openai:gpt-4o"),
            agent("Named", profile_id="careful"),
            agent("Half", provider="openai"),
            {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": body(agent("Inner"))}},
            {
                "id": "Repeat",
                "type": "loop_agent",
                "config": {"body": agent("Body"), "strategy": {"mode": "count", "max": 2}},
            },
            {
                "id": "Talk",
                "type": "debate",
                "config": {
                    "participants": [agent("Ann"), agent("Ben", model="openai:gpt-4o")],
                    "exit_condition": "consensus",
                    "consensus": {"method": "judge", "judge": agent("Judge")},
                },
            },
        ],
        "edges": [
            {"from": first, "to": second}
            for first, second in (
                ("Own", "Named"),
                ("Named", "Half"),
                ("Half", "Sub"),
                ("Sub", "Repeat"),
                ("Repeat", "Talk"),
            )
        ],
    },
}


def test_agents_are_found_in_bodies_subgraphs_and_debates() -> None:
    found = nodes_without_model(load_plan(EVERYWHERE))
    assert [node.id for node in found] == ["Half", "Inner", "Body", "Ann", "Judge"]
    message = missing_model(found, "warning", "no-model").message
    assert message == "agents 'Half', 'Inner', 'Body', 'Ann' and 'Judge' have no model"


def test_a_long_list_of_agents_is_cut() -> None:
    graph = roundel.Graph("g", start="A1")
    for number in range(1, 9):
        graph.node(f"A{number}", "agent")
    found = nodes_without_model(load_plan(graph))
    assert missing_model(found, "error", "cannot-run").message == (
        "agents 'A1', 'A2', 'A3', 'A4', 'A5' and 3 more have no model"
    )


def test_the_chosen_model_becomes_the_default_profile() -> None:
    plan = with_model(load_plan(EVERYWHERE), "anthropic:claude-haiku-4-5")
    assert nodes_without_model(plan) == []
    assert plan.workflow.models["default"].model == "anthropic:claude-haiku-4-5"
    assert plan.workflow.default_model == "anthropic:claude-haiku-4-5"


def test_a_plan_that_needs_no_model_stays_as_it_is() -> None:
    own = load_plan({"graph": body(agent("A", model="openai:gpt-4o"))})
    default = load_plan({"models": {"default": {"model": "openai:gpt-4o"}}, "graph": body(agent("A"))})
    nothing = load_plan({"graph": body({"id": "A", "type": "passthrough"})})
    for plan in (own, default, nothing):
        assert with_model(plan, "anthropic:claude-haiku-4-5") is plan
    bare = load_plan({"graph": body(agent("A"))})
    assert with_model(bare, "") is bare
