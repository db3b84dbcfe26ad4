"""Failures of models: which are retried, when, and when the fallback answers."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.llm.story import AT_ONCE, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Reply, Wire
from tests.llm.wire.reply import event

QUIET = Reply(text="Quiet.")
TWICE = {"max_attempts": 2, **AT_ONCE}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Waiting and asking again.


@pytest.mark.parametrize(
    ("provider", "seconds"), [("openai", 1), ("openai", 0.3), ("anthropic", 0.3), ("google", 0.3)]
)
def test_retry_after_header_is_honoured(wire: Wire, provider: str, seconds: float) -> None:
    wire.replies(Reply(status=429, retry_after=seconds), QUIET)
    story = run_story(asking(wire, provider))
    assert story.result.output == "Quiet."
    first, second = wire.requests
    assert second.time - first.time >= seconds
    (warning,) = story.warnings
    assert warning.startswith("asked again: ") and "the provider answered 429" in warning
    assert story.result.usage["model_calls"] == 1


def test_google_retry_delay_in_the_body_is_honoured(wire: Wire) -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.3s"}
    body = {"error": {"code": 429, "message": "Slower.", "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    wire.replies(Reply(status=429, error_body=body), QUIET)
    assert run_story(asking(wire, "google")).result.output == "Quiet."
    assert wire.requests[1].time - wire.requests[0].time >= 0.3


def test_long_retry_after_fails_immediately(wire: Wire) -> None:
    wire.replies(Reply(status=429, retry_after=3600), QUIET)
    assert "the provider answered 429" in run_story(asking(wire)).error
    assert len(wire.requests) == 1


def test_backoff_grows_without_retry_after(wire: Wire) -> None:
    wire.replies(Reply(status=500), Reply(status=500), QUIET)
    run_story(asking(wire, retry={"min_wait_seconds": 0.1, "max_wait_seconds": 5}))
    first, second, third = (request.time for request in wire.requests)
    assert second - first >= 0.05
    assert third - second >= 0.1


@every_provider
@every_way
def test_transient_error_is_retried(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(status=500), Reply(status=503), QUIET)
    story = run_story(asking(wire, provider, stream=stream))
    assert (story.result.output, len(wire.requests)) == ("Quiet.", 3)
    assert len(story.warnings) == 2


@every_provider
@every_way
def test_persistent_error_fails_after_max_attempts(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(status=500))
    story = run_story(asking(wire, provider, stream=stream, retry={"max_attempts": 3, **AT_ONCE}))
    assert len(wire.requests) == 3
    model = f"{provider}:"
    assert story.error.startswith(f"A: {model}")
    said = "the provider answered 500: The provider answered with status 500."
    assert story.error.endswith(f"{said}; given up after 3 attempts")


def test_default_is_five_attempts(wire: Wire) -> None:
    wire.replies(Reply(status=500))
    assert run_story(asking(wire)).result.status == "failed"
    assert len(wire.requests) == 5


@every_provider
@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_client_error_is_not_retried(wire: Wire, provider: str, status: int) -> None:
    wire.replies(Reply(status=status))
    assert f"the provider answered {status}" in run_story(asking(wire, provider)).error
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("retry", "requests"),
    [
        ({"enabled": False}, 1),
        ({"max_attempts": 1}, 1),
        ({"non_retry_exception_types": ["ModelHTTPError"]}, 1),
        ({"non_retry_exception_types": ["InternalServerError"]}, 1),
        ({"retry_on_status_codes": [503]}, 1),
        ({"retry_on_status_codes": []}, 1),
        ({"retry_on_status_codes": [], "retry_on_exception_types": ["ModelServerError"]}, 2),
        ({"retry_on_status_codes": [500]}, 2),
    ],
    ids=str,
)
def test_retried_errors_can_be_configured(wire: Wire, retry: dict[str, Any], requests: int) -> None:
    wire.replies(Reply(status=500))
    run_story(asking(wire, retry={**TWICE, **retry}))
    assert len(wire.requests) == requests


def test_non_json_error_page_is_reported_as_text(wire: Wire) -> None:
    wire.replies(Reply(status=502, error_body="<html>\n  Bad   gateway</html>"))
    assert "the provider answered 502: <html> Bad gateway</html>" in run_story(asking(wire)).error


# Kinds of failures, for error edges.


@every_provider
@pytest.mark.parametrize(
    ("status", "kind", "attempts"), [(429, "RateLimited", 2), (500, "ModelError", 2), (401, "ModelError", 1)]
)
def test_failure_has_a_type_and_the_number_of_attempts(
    wire: Wire, provider: str, status: int, kind: str, attempts: int
) -> None:
    wire.replies(Reply(status=status))
    story = run_story(asking(wire, provider, retry=TWICE, on_error="message"))
    data = story.result.data or {}
    assert (data["type"], data["attempts"], data["node"]) == (kind, attempts, "A")
    assert len(wire.requests) == attempts


def test_late_answer_is_a_timeout(wire: Wire) -> None:
    wire.replies(Reply(text="Late.", delay=0.2))
    story = run_story(workflow({"default": profile(wire, timeout=0.05)}, retry={"enabled": False}))
    assert story.result.error
    failed = [data for data in story.of("node_state_change") if data["status"] == "failed"]
    assert [data["type"] for data in failed] == ["Timeout"]


# Connections.


@every_provider
def test_interrupted_stream_is_retried(wire: Wire, provider: str) -> None:
    broken = Reply(text="one two three four five six", cut_after=6, chunk_delay=0.06)
    wire.replies(broken, Reply(text="one two three"))
    story = run_story(asking(wire, provider))
    assert (story.result.output, len(wire.requests)) == ("one two three", 2)
    parts = story.of("token_stream")
    assert "".join(data["text"] for data in parts if data["attempt"] == 2) == "one two three"
    before = "".join(data["text"] for data in parts if data["attempt"] == 1)
    assert before and "one two three four five six".startswith(before)
    assert "peer closed connection" in story.warnings[0]


@every_provider
@every_way
def test_partial_answer_is_retried(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="never seen", cut_after=0), QUIET)
    assert run_story(asking(wire, provider, stream=stream)).result.output == "Quiet."
    assert len(wire.requests) == 2


def test_stream_ending_without_finish_is_retried(wire: Wire) -> None:
    choice = {"index": 0, "delta": {"content": "one two"}, "finish_reason": None}
    part = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    wire.replies(Reply(raw=event(part)), QUIET)
    story = run_story(asking(wire))
    assert story.result.output == "Quiet."
    assert "the stream ended before the answer did" in story.warnings[0]


@every_provider
@every_way
@pytest.mark.parametrize("body", [b"", b"{nonsense"])
def test_unreadable_answer_is_retried(wire: Wire, provider: str, stream: bool, body: bytes) -> None:
    wire.replies(Reply(raw=body), QUIET)
    assert run_story(asking(wire, provider, stream=stream)).result.output == "Quiet."
    assert len(wire.requests) == 2


def test_error_in_the_middle_of_a_stream_is_retried(wire: Wire) -> None:
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    wire.replies(Reply(raw=b"event: error\ndata: " + error + b"\n\n"), QUIET)
    story = run_story(asking(wire, "anthropic"))
    assert story.result.output == "Quiet."
    assert story.warnings[0].endswith("the provider answered 529: Overloaded")


@every_provider
@pytest.mark.parametrize("slow", [Reply(delay=30), Reply(text="one two three four", chunk_delay=0.2)])
def test_slow_answer_times_out(wire: Wire, provider: str, slow: Reply) -> None:
    wire.replies(QUIET, slow)
    run_story(asking(wire, provider))  # the first request of all takes long on this side
    source = workflow({"default": profile(wire, provider, timeout=0.3)}, retry=TWICE)
    assert run_story(source).error.endswith("no answer after 0.3 seconds; given up after 2 attempts")
    assert len(wire.requests) == 3


@every_provider
@every_way
def test_connection_refused_fails_the_node(wire: Wire, provider: str, stream: bool) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    source = workflow({"default": profile(wire, provider, base_url=url)}, retry=TWICE, stream=stream)
    story = run_story(source)
    assert "connection" in story.error.lower() and "failed" in story.error


def test_on_error_message_returns_the_failure_as_text(wire: Wire) -> None:
    wire.replies(Reply(status=400))
    story = run_story(asking(wire, model="openai:gpt-4o", base_url=wire.openai_url, on_error="message"))
    assert story.result.status == "completed"
    assert story.result.output.startswith("Error calling model openai:gpt-4o: ")


def test_on_error_message_applies_within_tool_rounds(wire: Wire) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", {"place": "Oslo"}),)), Reply(status=400))
    story = run_story(asking(wire, "openai", "look", on_error="message"))
    assert story.result.status == "completed"
    assert "the provider answered 400" in story.result.output


# Models behind the model.


def behind(wire: Wire) -> dict[str, Any]:
    return {
        "default": profile(wire, "openai", fallback=["second", "third"]),
        "second": profile(wire, "anthropic"),
        "third": profile(wire, "google"),
    }


def test_fallback_model_answers_when_the_first_fails(wire: Wire) -> None:
    wire.replies(Reply(status=500), Reply(status=500), QUIET)
    story = run_story(workflow(behind(wire), retry=TWICE))
    assert story.result.output == "Quiet."
    assert [request.provider for request in wire.requests] == ["openai", "openai", "anthropic"]
    usage = story.of("model_call")[-1]
    assert usage["model"] == "anthropic:claude-haiku-4-5"
    assert len(story.warnings) == 2
    assert {data["attempt"] for data in story.of("token_stream")} == {3}


def test_permanent_error_falls_back_immediately(wire: Wire) -> None:
    wire.replies(Reply(status=401), QUIET)
    assert run_story(workflow(behind(wire))).result.output == "Quiet."
    assert [request.provider for request in wire.requests] == ["openai", "anthropic"]


def test_agent_may_name_its_own_fallback(wire: Wire) -> None:
    wire.replies(Reply(status=401), QUIET)
    run_story(workflow(behind(wire), fallback="third"))
    assert [request.provider for request in wire.requests] == ["openai", "google"]


def test_failure_of_all_models_names_each(wire: Wire) -> None:
    wire.replies(Reply(status=401), Reply(status=400), Reply(status=404))
    assert run_story(workflow(behind(wire))).error == (
        "A: openai:gpt-4o: the provider answered 401: Incorrect API key provided: ***.; "
        "anthropic:claude-haiku-4-5: the provider answered 400: The provider answered with status 400.; "
        "google:gemini-2.5-flash: the provider answered 404: The provider answered with status 404."
    )


def test_fallback_provider_continues_the_tool_rounds(wire: Wire) -> None:
    call = Reply(thinking="Where?", tool_calls=(("a1", "look", {"place": "Oslo"}),))
    wire.replies(call, Reply(status=401), QUIET)
    assert run_story(workflow(behind(wire), "look")).result.output == "Quiet."
    assert [request.provider for request in wire.requests] == ["openai", "openai", "anthropic"]
    assert wire.requests[2].tool_results() == [("a1", "Oslo is quiet")]
