"""The model that is given for agents without one: what it has to look like, and where it comes from."""

from __future__ import annotations

import pytest

from roundel.workflow.model_profile import ModelChoiceError, choose_model


@pytest.mark.parametrize(
    "model",
    [
        "openai:gpt-4o",
        "gemini:gemini-2.5-pro",
        "ollama:llama3:8b",
        "gateway/openai:gpt-4o",
        " openai:gpt-4o ",
    ],
)
def test_a_provider_and_a_name_are_a_model(model: str) -> None:
    assert choose_model(model) == model.strip()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt-4o", "--model takes PROVIDER:NAME, not 'gpt-4o'; for example openai:gpt-4o"),
        ("", "--model takes PROVIDER:NAME, not ''; for example openai:gpt-4o"),
        ("openai:", "--model takes PROVIDER:NAME, not 'openai:'; for example openai:gpt-4o"),
        (":gpt-4o", "--model takes PROVIDER:NAME, not ':gpt-4o'; for example openai:gpt-4o"),
        ("opnai:x", "--model names the model provider 'opnai', which is not known; did you mean 'openai'?"),
        ("zzz:x", "--model names the model provider 'zzz', which is not known; a server that speaks"),
    ],
)
def test_anything_else_is_refused_with_a_hint(model: str, message: str) -> None:
    with pytest.raises(ModelChoiceError) as caught:
        choose_model(model, "--model")
    assert str(caught.value).startswith(message)


def test_the_environment_counts_if_nothing_is_given() -> None:
    environment = {"ROUNDEL_MODEL": "anthropic:claude-haiku-4-5"}
    assert choose_model(environment=environment) == "anthropic:claude-haiku-4-5"
    assert choose_model("openai:gpt-4o", environment=environment) == "openai:gpt-4o"
    assert choose_model(environment={}) == choose_model(environment={"ROUNDEL_MODEL": ""}) == ""
    with pytest.raises(ModelChoiceError, match=r"^\$ROUNDEL_MODEL takes PROVIDER:NAME, not 'claude'"):
        choose_model(environment={"ROUNDEL_MODEL": "claude"})
