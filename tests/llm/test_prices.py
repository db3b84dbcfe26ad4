"""The cost of calls, and the report for models without a known price."""

from __future__ import annotations

from typing import Any

import pytest
from genai_prices.data import providers
from pydantic_ai.usage import RequestUsage

import roundel
from roundel.nodes.prices import Prices, listed_cost
from tests.llm.story import LOOK, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

MUCH = Reply(text="Quiet.", input_tokens=1000, output_tokens=200)
PRICE = {"input": 3, "output": 10}


@every_provider
@every_way
def test_usage_event_reports_tokens_model_and_cost(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(MUCH)
    story = run_story(workflow({"default": profile(wire, provider, price=PRICE)}, stream=stream))
    usage = story.of("model_call")[-1]
    figures = ("input_tokens", "output_tokens", "model", "cost_usd")
    assert {name: usage[name] for name in figures} == {
        "input_tokens": 1000,
        "output_tokens": 200,
        "model": profile(wire, provider)["model"],
        "cost_usd": pytest.approx(0.005),
    }
    assert story.result.usage == {
        "model_calls": 1,
        "tool_calls": 0,
        "input_tokens": 1000,
        "output_tokens": 200,
        "cost_usd": pytest.approx(0.005),
        "unpriced_calls": 0,
    }


def test_price_defaults_to_the_price_table(wire: Wire) -> None:
    wire.replies(MUCH)
    usage = run_story(asking(wire)).result.usage
    assert usage["cost_usd"] == pytest.approx((1000 * 2.5 + 200 * 10) / 1_000_000)
    assert usage["unpriced_calls"] == 0


@pytest.mark.parametrize(
    ("answers", "sent", "said"),
    [("gpt-4o-mini", 0.15, 0.6), ("gpt-4o-2099-01-01", 2.5, 10), ("house-model-7b", 2.5, 10)],
)
def test_cost_is_that_of_the_model_that_answers(wire: Wire, answers: str, sent: float, said: float) -> None:
    """Another model than the configured one, a version of it, and one without a known price."""
    wire.replies(MUCH)
    models = {"default": profile(wire, "openai", model="openai:gpt-4o", params={"model": answers})}
    usage = run_story(workflow(models)).result.usage
    assert usage["cost_usd"] == pytest.approx((1000 * sent + 200 * said) / 1_000_000)


@pytest.mark.parametrize("model", ["openai:house-model-7b", "anthropic:nobody", "google:gemini-x"])
def test_model_without_a_listed_price_has_no_cost(wire: Wire, model: str) -> None:
    wire.replies(MUCH)
    story = run_story(workflow({"default": profile(wire, model.partition(":")[0], model=model)}))
    assert "cost_usd" not in story.of("model_call")[-1]
    assert (story.result.usage["cost_usd"], story.result.usage["unpriced_calls"]) == (None, 1)


def test_reply_without_token_counts_has_unknown_cost(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet.", input_tokens=0, output_tokens=0))
    usage = run_story(workflow({"default": profile(wire, "openai", price=PRICE)})).result.usage
    assert (usage["cost_usd"], usage["unpriced_calls"]) == (None, 1)


def test_a_lock_says_that_usage_is_missing_and_not_the_price(wire: Wire) -> None:
    """The profile has a price, so nobody should be told to give it one."""
    wire.replies(Reply(text="Quiet.", input_tokens=0, output_tokens=0))
    quiet = workflow({"default": profile(wire, "openai", price=PRICE)})
    quiet["graph"]["limits"] = {"cost_usd": 1}
    story = run_story(quiet)
    assert story.result.status == "suspended_locked"
    [reached] = story.of("limit_reached")
    assert (reached["what"], reached["missing"]) == ("unpriced", "usage")


def test_price_applies_to_every_alias_of_a_provider(wire: Wire) -> None:
    wire.replies(MUCH)
    models = {"default": profile(wire, "google", model="gemini:house", price=PRICE)}
    assert run_story(workflow(models)).result.usage["cost_usd"] == pytest.approx(0.005)


def test_price_applies_to_every_agent_using_the_model(wire: Wire) -> None:
    wire.replies(MUCH)
    models = {"dear": profile(wire, model="openai:house", price=PRICE)}
    own: dict[str, Any] = {"model": "openai:house", "base_url": wire.openai_url}
    assert run_story(workflow(models, **own)).result.usage["cost_usd"] == pytest.approx(0.005)


def test_run_usage_is_the_sum_of_its_calls(wire: Wire) -> None:
    wire.replies(Reply(tool_calls=LOOK.tool_calls, input_tokens=100, output_tokens=20), MUCH)
    story = run_story(workflow({"default": profile(wire, price=PRICE)}, "look"))
    assert story.result.usage == {
        "model_calls": 2,
        "tool_calls": 1,
        "input_tokens": 1100,
        "output_tokens": 220,
        "cost_usd": pytest.approx(0.0055),
        "unpriced_calls": 0,
    }
    costs = [data["cost_usd"] for data in story.of("model_call") if data["status"] == "completed"]
    assert sum(costs) == pytest.approx(0.0055)


def test_unpriced_calls_are_counted_separately(wire: Wire) -> None:
    wire.replies(MUCH)
    source = workflow({"default": profile(wire, price=PRICE), "house": profile(wire, model="openai:house")})
    source["graph"]["nodes"].append({"id": "B", "type": "agent", "config": {"profile_id": "house"}})
    source["graph"]["edges"] = [{"from": "A", "to": "B"}]
    usage = run_story(source).result.usage
    assert (usage["cost_usd"], usage["model_calls"], usage["unpriced_calls"]) == (pytest.approx(0.005), 2, 1)


@pytest.mark.parametrize("tokens", [(10, 5), (250_000, 9_000), (1_500_000, 50_000)])
def test_computed_cost_equals_the_price_table(tokens: tuple[int, int]) -> None:
    """Also where it is another from so many tokens on, or goes by the hour."""
    usage = RequestUsage(input_tokens=tokens[0], output_tokens=tokens[1])
    models = [(provider.id, model.id) for provider in providers for model in provider.models][::5]
    for model in models:
        assert Prices({}).cost(*model, usage) == pytest.approx(listed_cost(*model, usage)), model


def test_cached_tokens_have_a_price_of_their_own() -> None:
    usage = RequestUsage(input_tokens=1000, cache_read_tokens=900)
    cost = Prices({}).cost("openai", "gpt-4o", usage)
    assert cost == listed_cost("openai", "gpt-4o", usage)
    assert cost is not None and cost < 0.0025


def limited(models: dict[str, Any], **limits: Any) -> dict[str, Any]:
    source = workflow(models)
    source["graph"]["limits"] = {"cost_usd": 1, **limits}
    return source


def test_first_call_without_a_known_price_locks_the_run(wire: Wire) -> None:
    wire.replies(MUCH)
    house = {"default": profile(wire, model="openai:house")}
    story = run_story(limited(house))
    assert story.result.status == "suspended_locked"
    (lock,) = story.of("limit_reached")
    assert (lock["what"], lock["model"], lock["limit"]) == ("unpriced", "openai:house", 1)
    assert run_story(limited(house, unpriced="allow")).result.completed


def test_free_model_needs_no_tokens_to_have_a_known_cost(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    price = {"input": 0, "output": 0}
    story = run_story(limited({"default": profile(wire, model="openai:house", price=price)}))
    assert (story.result.status, story.result.usage["cost_usd"]) == ("completed", 0)


SCRIPTED = {"A": [{"text": "a", "tokens": {"input": 1000, "output": 200}}]}


@pytest.mark.parametrize(
    ("models", "cost", "unpriced"),
    [
        ({"default": {"model": "openai:house", "price": PRICE}}, 0.005, 0),
        ({"default": {"model": "openai:gpt-4o"}}, 0.0045, 0),
        ({"default": {"model": "openai:gpt-4o", "price": PRICE}}, 0.005, 0),
        ({"default": {"model": "openai:house"}}, None, 1),
        ({}, None, 1),
    ],
)
def test_scripted_tokens_cost_what_the_model_costs(
    models: dict[str, Any], cost: float | None, unpriced: int
) -> None:
    usage = roundel.run(workflow(models), script=SCRIPTED).usage
    assert usage["cost_usd"] == (None if cost is None else pytest.approx(cost))
    assert usage["unpriced_calls"] == unpriced


def test_scripted_run_meets_a_limit_on_the_cost() -> None:
    source = workflow({"default": {"model": "openai:house", "price": PRICE}})
    source["graph"]["nodes"].append({"id": "Again", "type": "loop", "config": {"max_rounds": 9}})
    source["graph"]["nodes"].append({"id": "Out", "type": "passthrough"})
    source["graph"]["edges"] = [
        {"from": "A", "to": "Again"},
        {"from": "Again", "to": "A", "port": "continue"},
        {"from": "Again", "to": "Out", "port": "exit"},
    ]
    source["graph"] |= {"limits": {"cost_usd": 0.015}, "breaker": False}
    result = roundel.run(source, script=SCRIPTED)
    assert (result.status, result.usage["model_calls"]) == ("suspended_locked", 3)


def test_scripted_reply_without_tokens_has_no_cost() -> None:
    """Without tokens and limits on the cost, no table of prices is read."""
    usage = roundel.run(workflow({"default": {"model": "openai:gpt-4o"}}), script={"A": "a"}).usage
    assert (usage["cost_usd"], usage["unpriced_calls"]) == (None, 1)
    usage = roundel.run(limited({"default": {"model": "openai:gpt-4o"}}), script={"A": "a"}).usage
    assert (usage["cost_usd"], usage["unpriced_calls"]) == (0, 0)
