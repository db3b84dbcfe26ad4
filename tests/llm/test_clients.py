"""Unavailable models are reported before a run starts."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

import roundel
from tests.llm.story import KEY, every_provider, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

FILE = """\
models:
{models}
graph:
  start: [A]
  end: [A]
  nodes:
    - id: A
      type: agent
      config: {config}
  edges: []
"""


def refused(folder: Path, models: str, config: str = "{}") -> roundel.Diagnostic:
    """What is said of a workflow that cannot run."""
    path = folder / "workflow.yaml"
    path.write_text(FILE.format(models=models, config=config))
    with pytest.raises(roundel.WorkflowError) as raised:
        roundel.run(path)
    (diagnostic,) = raised.value.diagnostics
    line = path.read_text().splitlines().index("    - id: A") + 1
    assert (diagnostic.file, diagnostic.line) == (str(path), line)
    return diagnostic


def test_agent_without_a_model_is_rejected(tmp_path: Path) -> None:
    found = refused(tmp_path, "  other: {model: 'openai:gpt-4o'}")
    assert (found.code, found.message) == ("cannot-run", "agent 'A' has no model")
    for way in ("--script FILE", "`models: {default: ", "--model PROVIDER:NAME", "$ROUNDEL_MODEL"):
        assert way in found.hint


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-2.5-flash", "GOOGLE_API_KEY"),
        ("gemini:gemini-2.5-flash", "GOOGLE_API_KEY"),
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"),
    ],
)
def test_missing_key_is_rejected(tmp_path: Path, model: str, variable: str) -> None:
    message = refused(tmp_path, f"  default: {{model: '{model}'}}").message
    assert "cannot be used" in message and variable in message


def test_unknown_provider_is_rejected(tmp_path: Path) -> None:
    message = refused(tmp_path, "  default: {model: 'nobody:x', api_key: sk-something-long}").message
    assert "there is no provider 'nobody'; openai with a base_url speaks to most servers" in message


def test_base_url_is_rejected_for_providers_without_one(tmp_path: Path) -> None:
    models = "  default: {model: 'deepseek:x', api_key: sk-something, base_url: 'http://localhost'}"
    message = refused(tmp_path, models).message
    assert message == "deepseek:x cannot be used: the provider 'deepseek' takes no base_url"


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if a package were not installed."""
    real = builtins.__import__

    def fake(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *args, **named)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", fake)


def test_missing_llm_extra_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pydantic_ai")
    message = refused(tmp_path, f"  default: {{model: 'openai:gpt-4o', api_key: {KEY}}}").message
    assert 'pip install "roundel[llm]"' in message and "--script FILE" in message


def test_missing_provider_package_is_explained(tmp_path: Path) -> None:
    message = refused(tmp_path, "  default: {model: 'mistral:x', api_key: sk-something-long}").message
    assert "mistral:x cannot be used" in message and "install" in message


@pytest.mark.parametrize(
    ("models", "config"),
    [
        ("  default: {model: 'google:gemini-2.5-flash', api_key: k, params: {best_of: 3}}", "{}"),
        ("  default: {model: 'google:gemini-2.5-flash', api_key: k}", "{params: {best_of: 3}}"),
        ("  default: {model: 'google:gemini-2.5-flash', api_key: k}", "{parameters: {best_of: 3}}"),
    ],
)
def test_unsupported_google_parameter_is_rejected(tmp_path: Path, models: str, config: str) -> None:
    message = refused(tmp_path, models, config).message
    assert "google:gemini-2.5-flash takes no parameter 'best_of'; known are " in message
    assert "temperature" in message


def test_every_agent_that_cannot_run_is_named(wire: Wire) -> None:
    source = workflow({"default": {"model": "openai:gpt-4o"}})
    source["graph"]["nodes"].append({"id": "B", "type": "agent", "config": {"model": "nobody:x"}})
    source["graph"]["edges"] = [{"from": "A", "to": "B"}]
    with pytest.raises(roundel.WorkflowError) as raised:
        run_story(source)
    assert len(raised.value.diagnostics) == 2


def test_unusable_fallback_model_is_reported(wire: Wire) -> None:
    models = {"default": profile(wire, fallback="second"), "second": {"model": "anthropic:claude-haiku-4-5"}}
    with pytest.raises(roundel.WorkflowError, match="ANTHROPIC_API_KEY"):
        run_story(workflow(models))


def test_with_a_script_no_model_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pydantic_ai")
    source = workflow({"default": {"model": "nobody:x"}})
    assert run_story(source, script={"A": ["Quiet."]}).result.output == "Quiet."


@every_provider
def test_key_is_read_from_the_environment(wire: Wire, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}
    monkeypatch.setenv(variable[provider], "sk-of-the-environment")
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"default": profile(wire, provider, api_key="")}))
    assert wire.requests[0].key == "sk-of-the-environment"


def test_key_is_read_from_a_variable(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    source = {"vars": {"KEY": "sk-of-a-variable"}, **workflow({"default": profile(wire, api_key="${KEY}")})}
    run_story(source)
    assert wire.requests[0].key == "sk-of-a-variable"
