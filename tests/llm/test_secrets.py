"""API keys appear in no event, log, error or file, even if a model or tool repeats them."""

from __future__ import annotations

import json
import logging
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from tests.llm.story import KEY, PROVIDERS, Story, asking, every_provider, every_way, profile, workflow
from tests.llm.wire import Recorded, Reply, Wire

TOKEN = "tok-in-a-header-0123456789"
ANOTHER = "sk-of-the-environment-0123456789"
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
TOOLBOX = str(Path(__file__).parent / "servers" / "toolbox.py")


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "roundel")


def run_and_check_secrets(source: Any, caplog: pytest.LogCaptureFixture, *secrets: str) -> Story:
    """Runs a workflow, and looks for secrets in all that can be seen of it."""
    story = Story()
    story.result = roundel.run(source, "How is it?", on_event=story.events.append)
    seen = [msgspec.json.encode(event).decode() for event in story.events]
    seen += [repr(story.result), msgspec.json.encode(story.result).decode()]
    hidden(*seen, *logged(caplog), secrets=secrets)
    assert caplog.records
    return story


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = logging.Formatter("%(message)s")
    records = caplog.records
    return [formatter.format(record) for record in records] + [repr(record.args) for record in records]


def hidden(*texts: str, secrets: tuple[str, ...]) -> None:
    for secret in secrets:
        found = [text for text in texts if secret in text]
        assert not found, found[0][:500]


def echo(request: Recorded) -> Reply:
    """A provider that repeats all that it was sent."""
    return Reply(status=401, error_body=f"Wrong key {request.key} in {request.headers}")


@every_provider
@every_way
def test_key_repeated_by_the_provider_is_masked(
    wire: Wire, provider: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wire.replies(echo)
    story = run_and_check_secrets(asking(wire, provider, stream=stream), caplog, KEY)
    assert wire.requests[0].key == KEY
    assert "Wrong key *** in" in story.error


@every_provider
def test_key_at_the_edge_of_a_truncated_error_is_masked(
    wire: Wire, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire.replies(Reply(status=401, error_body="x" * 990 + KEY))
    run_and_check_secrets(asking(wire, provider), caplog, KEY, KEY[:8])


@every_provider
def test_key_of_the_environment_is_masked(
    wire: Wire, provider: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLES[provider], ANOTHER)
    wire.replies(echo)
    run_and_check_secrets(workflow({"default": profile(wire, provider, api_key="")}), caplog, ANOTHER)
    assert wire.requests[0].key == ANOTHER


@every_provider
@every_way
def test_keys_in_headers_are_masked(
    wire: Wire, provider: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wire.replies(echo)
    headers = {"X-Gateway": f"Bearer {TOKEN}"}
    source = workflow({"default": profile(wire, provider, headers=headers)}, stream=stream)
    run_and_check_secrets(source, caplog, KEY, TOKEN)
    assert wire.requests[0].headers["x-gateway"] == f"Bearer {TOKEN}"


def test_keys_of_all_models_are_masked_in_a_combined_error(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.replies(echo)
    keys = {provider: f"sk-of-{provider}-0123456789" for provider in PROVIDERS}
    models = {provider: profile(wire, provider, api_key=key) for provider, key in keys.items()}
    models["default"] = {**models["openai"], "fallback": ["anthropic", "google"]}
    assert run_and_check_secrets(workflow(models), caplog, *keys.values()).error.count("***") >= 3


def test_key_in_a_retry_warning_is_masked(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.replies(Reply(status=500, error_body=f"no luck with {KEY}"), Reply(text="Quiet."))
    story = run_and_check_secrets(asking(wire), caplog, KEY)
    assert "no luck with ***" in story.warnings[0]


def test_key_in_an_on_error_message_is_masked(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.replies(echo)
    assert run_and_check_secrets(asking(wire, on_error="message"), caplog, KEY).result.status == "completed"


@every_provider
def test_environment_secrets_in_tool_results_are_masked(
    wire: Wire, provider: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [*VARIABLES.values(), "GROQ_API_KEY", "HOUSE_TOKEN", "MYSQL_PASSWORD", "PALETTE"]
    for name in names:
        monkeypatch.setenv(name, "red and green" if name == "PALETTE" else ANOTHER)
    wire.replies(Reply(tool_calls=(("a1", "environment", {"names": names}),)), Reply(text="Quiet."))
    story = run_and_check_secrets(asking(wire, provider, "environment"), caplog, ANOTHER)
    assert story.result.output == "Quiet."
    ((_, text),) = wire.requests[1].tool_results()
    assert json.loads(text) == dict.fromkeys(names, "***") | {"PALETTE": "red and green"}


def test_key_in_a_tool_exception_is_masked(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wire.replies(Reply(tool_calls=(("a1", "break_down", {"place": f"{KEY}"}),)), Reply(text="Quiet."))
    story = Story()
    story.result = roundel.run(asking(wire, "openai", "break_down"), on_event=story.events.append)
    ((_, text),) = wire.requests[1].tool_results()
    assert "no way to ***" in text


def test_headers_and_variables_of_mcp_servers_are_masked(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/mcp"
    source = asking(wire)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    source["tools"] = {"far": {"mcp": {"url": url, "headers": headers}}}
    source["graph"]["nodes"][0]["config"]["tools"] = ["far"]
    assert run_and_check_secrets(source, caplog, TOKEN, KEY).result.status == "failed"


def test_secrets_in_mcp_server_stderr_are_masked(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    code = "import os, sys; sys.exit('cannot use ' + os.environ['SERVICE_PASSWORD'])"
    server = {"command": sys.executable, "args": ["-c", code], "env": {"SERVICE_PASSWORD": TOKEN}}
    source = asking(wire)
    source["tools"] = {"near": {"mcp": server}}
    source["graph"]["nodes"][0]["config"]["tools"] = ["near"]
    assert "cannot use ***" in run_and_check_secrets(source, caplog, TOKEN, KEY).error


# Errors before the run.


@pytest.mark.parametrize(
    "broken",
    [
        {"model": "nobody:x", "headers": {"X-Gateway": TOKEN}},
        {"model": "google:gemini-2.5-flash", "params": {"best_of": 3}},
        {"model": "mistral:x"},
        {"model": "bedrock:x", "base_url": "http://localhost"},
    ],
    ids=str,
)
def test_errors_and_tracebacks_before_the_run_are_masked(broken: dict[str, Any]) -> None:
    with pytest.raises(roundel.WorkflowError) as raised:
        roundel.run(workflow({"default": {"api_key": KEY, **broken}}))
    shown = "".join(traceback.format_exception(raised.value))
    hidden(str(raised.value), repr(raised.value), shown, secrets=(KEY, TOKEN))
