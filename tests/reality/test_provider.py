"""The provider speaks every protocol that we use, records what it was sent, and fails on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

import roundel
from tests.reality.personas import ASKS_BACK
from tests.reality.provider import MODEL, REFUSAL, Fault, Provider
from tests.reality.world import begin

TASK = "a short text about tea"
ROLE = "Write a short text."
DRAFT = begin(TASK).text
MODELS = (MODEL, "openai-responses:gpt-4o", "anthropic:claude-haiku-4-5", "google:gemini-2.5-pro")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with Provider() as provider:
        provider.set_environment(monkeypatch)
        yield provider


def own_address(provider: Provider, model: str) -> dict[str, Any]:
    """The address of a provider that has no environment variable for it."""
    return {"base_url": provider.wire.google_url, "api_key": "x"} if "google" in model else {}


def agent(model: str, **config: Any) -> roundel.Graph:
    graph = roundel.Graph("alone", start="Writer", end="Writer")
    return graph.node("Writer", "agent", model=model, role=ROLE, **config)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_every_provider_is_read_and_answered(
    model: str, stream: bool, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = roundel.run(agent(model, stream=stream, **own_address(provider, model)), TASK)
    assert result.output == DRAFT, result.error
    (seen,) = provider.record
    assert [(turn.role, turn.text) for turn in seen.prompt.turns] == [("system", ROLE), ("user", TASK)]
    assert seen.answer == DRAFT
    assert result.usage["output_tokens"] == len(DRAFT) // 4 + 1


@pytest.mark.parametrize("model", MODELS)
def test_tools_are_called_with_every_provider(model: str, provider: Provider) -> None:
    def steep(minutes: int) -> str:
        """Steeps the tea."""
        return f"steeped for {minutes} minutes"

    result = roundel.run(agent(model, tools=[steep], **own_address(provider, model)), TASK)
    assert result.output == "From the tools: steeped for 5 minutes", result.error
    assert [seen.calls for seen in provider.record] == [("steep",), ()]


@pytest.mark.parametrize("model", MODELS)
def test_schemas_are_filled_with_every_provider(model: str, provider: Provider) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    result = roundel.run(agent(model, output_schema=schema, **own_address(provider, model)), DRAFT)
    assert result.data is not None and result.data["score"] == 60, result.error


@pytest.mark.parametrize("model", MODELS)
def test_every_provider_cuts_off_in_its_own_words(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(faults={1: "length"}) as provider:
        provider.set_environment(monkeypatch)
        events: list[roundel.Event] = []
        result = roundel.run(agent(model, **own_address(provider, model)), TASK, on_event=events.append)
    assert result.output == DRAFT[: len(DRAFT) // 2], result.error
    assert any(event.event == "warning" for event in events)


def post(provider: Provider, **headers: str) -> httpx2.Response:
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": ROLE}, {"role": "user", "content": TASK}],
    }
    return httpx2.post(
        f"{provider.wire.openai_url}/chat/completions", json=body, headers=headers, timeout=0.5
    )


def said(response: httpx2.Response) -> tuple[Any, Any]:
    choice = response.json()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_faults_happen_at_their_request() -> None:
    order: tuple[Fault, ...] = ("429", "500", "garbage", "empty", "refusal", "filter", "length")
    with Provider(faults=dict(enumerate(order, 1))) as provider:
        limited = post(provider)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "0")
        assert post(provider).status_code == 500
        assert post(provider).text.startswith("<html>")
        assert said(post(provider)) == (None, "stop")
        refusal = post(provider)
        assert said(refusal) == (None, "stop")
        assert refusal.json()["choices"][0]["message"]["refusal"] == REFUSAL
        assert said(post(provider)) == (None, "content_filter")
        assert said(post(provider)) == (DRAFT[: len(DRAFT) // 2], "length")
        assert said(post(provider)) == (DRAFT, "stop")
    assert [seen.fault for seen in provider.record] == [*order, ""]


@pytest.mark.parametrize(
    ("fault", "error"), [("timeout", httpx2.ReadTimeout), ("cut", httpx2.RemoteProtocolError)]
)
def test_answers_that_do_not_arrive(fault: Fault, error: type[Exception]) -> None:
    with Provider(faults={1: fault}) as provider:
        with pytest.raises(error):
            post(provider)
        assert said(post(provider)) == (DRAFT, "stop")


def test_a_header_names_the_agent_and_a_fault() -> None:
    with Provider() as provider:
        assert post(provider, **{"x-agent": "Writer", "x-fault": "500"}).status_code == 500
    (seen,) = provider.record
    assert (seen.agent, seen.fault) == ("Writer", "500")


def test_what_does_not_fit_is_refused() -> None:
    with Provider(context=5) as provider:
        refused = post(provider)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_a_run_survives_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(faults={1: "429"}) as provider:
        provider.set_environment(monkeypatch)
        assert roundel.run(agent(MODEL), TASK).output == DRAFT
        assert [seen.fault for seen in provider.record] == ["429", ""]


def test_chatty_models_differ_only_in_how_they_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(chatty=True) as provider:
        provider.set_environment(monkeypatch)
        output = roundel.run(agent(MODEL), TASK).output
    assert DRAFT in output and output != DRAFT and ASKS_BACK not in output
