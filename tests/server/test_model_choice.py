"""The model of agents that name none, on a server: what a request may choose, and what the operator has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from roundel.workflow.allow_list import AllowedModel
from roundel.workflow.model_profile import Profile
from roundel.workflow.policy import Policy
from tests.llm.wire import Reply, Wire
from tests.server.api import Server, serving

RUNS = "/api/v1/runs"
TEXT = """
graph:
  id: tea
  start: Writer
  nodes:
    - {id: Writer, type: agent, config: {retry: {enabled: false}}}
"""
HERE = ("127.0.0.0/8",)
"""The network of the provider on loopback."""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with Wire() as wire:
        wire.replies(Reply("a text"))
        monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator-0123456789")
        yield wire


def played(story: Callable[[Server], Awaitable[None]], policy: Policy) -> None:
    async def main() -> None:
        async with serving(policy=policy) as server:
            await story(server)

    asyncio.run(main())


def start(policy: Policy, text: str = TEXT, **more: Any) -> Any:
    """The answer to a start, and the status of the run if there is one."""
    found: list[Any] = []

    async def story(server: Server) -> None:
        client = await server.client("author")
        answer = await client.post(RUNS, json={"workflow": {"text": text}, "input": "go", **more})
        status = ""
        if answer.status_code == 202:
            status = (await server.context.runs.result(answer.json()["id"])).status
        else:
            assert await server.context.runs.list() == []
        found.extend((answer.status_code, answer.json(), status))

    played(story, policy)
    return found


def test_a_model_of_a_request_has_to_be_in_the_allow_list(wire: Wire) -> None:
    code, problem, _ = start(Policy(networks=HERE), model="openai:gpt-4o")
    assert code == 422
    # Once for the profile that the request brings, and once for the agent that uses it.
    found = {(one["code"], one["message"]) for one in problem["diagnostics"]}
    assert found == {("not-allowed", "the model provider 'openai' is not allowed")}
    assert wire.requests == []
    allowed = Policy(models=(AllowedModel(provider="openai", key="OPENAI_API_KEY"),), networks=HERE)
    assert start(allowed, model="openai:gpt-4o")[2] == "completed"
    assert [(one.model, one.key) for one in wire.requests] == [("gpt-4o", "sk-of-the-operator-0123456789")]
    # A script calls no model, so a run with one may name any.
    assert start(Policy(), model="openai:gpt-4o", script={"Writer": "hello"})[2] == "completed"


def test_a_request_with_something_else_than_a_model_is_refused() -> None:
    code, problem, _ = start(Policy(), model="gpt-4o")
    assert (code, problem["detail"]) == (
        422,
        "model takes PROVIDER:NAME, not 'gpt-4o'; for example openai:gpt-4o",
    )


def test_a_run_without_any_model_is_refused(wire: Wire) -> None:
    code, problem, _ = start(Policy())
    assert code == 422
    assert [one["code"] for one in problem["diagnostics"]] == ["cannot-run"]


def test_the_model_of_the_operator_is_allowed_and_no_other(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:gpt-4o")
    policy = Policy(networks=HERE)
    assert start(policy)[2] == "completed"
    assert [(one.model, one.key) for one in wire.requests] == [("gpt-4o", "sk-of-the-operator-0123456789")]
    # Neither another model of this provider, nor this one at an address of the text's own, which would get
    # the key of the operator.
    others: list[dict[str, Any]] = [
        {"model": "openai:gpt-5"},
        {"text": TEXT.replace("retry:", "model: 'openai:gpt-5', retry:")},
        {"text": TEXT.replace("retry:", f"base_url: '{wire.openai_url}', retry:")},
        {"text": f"models: {{default: {{model: 'openai:gpt-4o', base_url: '{wire.openai_url}'}}}}\n" + TEXT},
    ]
    for other in others:
        code, problem, _ = start(policy, **other)
        assert (code, {one["code"] for one in problem["diagnostics"]}) == (422, {"not-allowed"})
    assert len(wire.requests) == 1


def test_the_model_of_the_operator_makes_no_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:gpt-4o")
    memory = "memory: [{name: m, type: simple, config: {embedding: {provider: openai, model: gpt-4o}}}]"
    code, problem, _ = start(Policy(), TEXT.replace("  start:", f"  {memory}\n  start:"))
    assert (code, {one["code"] for one in problem["diagnostics"]}) == (422, {"not-allowed"})


def test_a_policy_gives_the_model_of_the_operator_no_key_of_a_text() -> None:
    environment = {"ROUNDEL_MODEL": "openai:gpt-4o"}
    assert Policy().find_model(Profile(model="openai:gpt-4o"), environment) is not None
    assert Policy().find_model(Profile(provider="openai", name="gpt-4o"), environment) is not None
    assert Policy().find_model(Profile(model="openai:gpt-4"), environment) is None
    assert Policy().find_model(Profile(model="openai:gpt-4o"), {}) is None


def test_a_check_warns_of_agents_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []

    async def story(server: Server) -> None:
        client = await server.client("viewer")
        answer = (await client.post("/api/v1/check", json={"text": TEXT})).json()
        assert answer["ok"] and not answer["draft"]
        found.append([one["code"] for one in answer["diagnostics"]])
        # The drawing marks the agent, as for any other diagnostic.
        found.append([one["code"] for node in answer["drawing"]["nodes"] for one in node["problems"]])

    played(story, Policy())
    assert found == [["no-model"], ["no-model"]]
    found.clear()
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:gpt-4o")
    played(story, Policy())
    assert found == [[], []]
