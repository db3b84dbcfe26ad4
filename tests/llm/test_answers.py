"""What becomes of the answers that providers really give: refusals, filters, pages of proxies, silence."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.llm import clients
from tests.llm.story import AT_ONCE, Story, asking, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

INTERFACES = ("openai", "responses", "anthropic", "google")
every_interface = pytest.mark.parametrize("interface", INTERFACES)
every_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
TWICE = {"max_attempts": 2, **AT_ONCE}
PAGE = b"<html>\n<body>502 Bad   Gateway</body></html>"
REFUSAL = "I can't help with that."
FILTERED = {
    "openai": "content_filter",
    "responses": "content_filter",
    "anthropic": "refusal",
    "google": "SAFETY",
}
CUT = {
    "openai": "length",
    "responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "google": "MAX_TOKENS",
}


def ask(wire: Wire, interface: str, reply: Reply, **config: Any) -> Story:
    wire.replies(reply)
    fields = profile(wire, "openai" if interface == "responses" else interface)
    if interface == "responses":
        fields["params"] = {"protocol": "responses"}
    return run_story(workflow({"default": fields}, **{"retry": TWICE, **config}))


# Refusals, filters, length.


@pytest.mark.parametrize("interface", ["openai", "responses", "anthropic"])
@every_way
def test_a_refusal_keeps_its_text(wire: Wire, interface: str, stream: bool) -> None:
    story = ask(wire, interface, Reply(refusal=REFUSAL), stream=stream)
    assert (story.result.status, story.result.output) == ("completed", REFUSAL)
    assert len(wire.requests) == 1


@every_interface
@every_way
def test_a_filtered_answer_keeps_what_arrived(wire: Wire, interface: str, stream: bool) -> None:
    story = ask(wire, interface, Reply(text="Tea is", finish=FILTERED[interface]), stream=stream)
    assert story.result.output == "Tea is"
    assert story.warnings == [f"the provider held a part of the answer back: {FILTERED[interface]}"]


@every_interface
@every_way
def test_a_filtered_answer_without_text_fails(wire: Wire, interface: str, stream: bool) -> None:
    story = ask(wire, interface, Reply(finish=FILTERED[interface]), stream=stream)
    assert story.error.endswith(f"the provider held the answer back: {FILTERED[interface]}")
    assert len(wire.requests) == 1


@every_interface
@every_way
def test_an_answer_cut_by_length_is_used_with_a_warning(wire: Wire, interface: str, stream: bool) -> None:
    story = ask(wire, interface, Reply(text="Tea is", finish=CUT[interface]), stream=stream)
    assert story.result.output == "Tea is"
    assert story.warnings == ["the answer was cut off at its token limit"]


def test_warnings_of_the_answer_follow_those_of_failed_attempts(wire: Wire) -> None:
    wire.replies(Reply(status=500), Reply(text="Tea is", finish="content_filter"))
    first, second = run_story(asking(wire)).warnings
    assert first.startswith("asked again: ") and second.startswith("the provider held")


# Answers that are none.


@every_interface
@every_way
@pytest.mark.parametrize("content_type", ["", "text/html"])
def test_the_page_of_a_proxy_is_shown(wire: Wire, interface: str, stream: bool, content_type: str) -> None:
    story = ask(wire, interface, Reply(raw=PAGE, content_type=content_type), stream=stream)
    said = "the provider's answer is no JSON: '<html> <body>502 Bad Gateway</body></html>'"
    assert story.error.endswith(f"{said}; given up after 2 attempts")
    assert len(wire.requests) == 2


@every_interface
@every_way
def test_json_that_breaks_off_is_shown(wire: Wire, interface: str, stream: bool) -> None:
    story = ask(wire, interface, Reply(raw=b'{"id": "x", "choices": [{"ind'), stream=stream)
    assert """: '{"id": "x", "choices": [{"ind'; given up after 2 attempts""" in story.error
    assert "the provider's answer" in story.error
    assert len(wire.requests) == 2


def test_only_the_beginning_of_a_page_is_shown_without_secrets(wire: Wire) -> None:
    key = profile(wire)["api_key"]
    page = f"<p>{'x' * 100} {key} {'y' * 3000}</p>".encode()
    story = ask(wire, "openai", Reply(raw=page))
    assert "xxx *** yyy" in story.error and "…'" in story.error
    assert len(story.error) < 300
    assert not any(key[:size] in str(story.events) for size in (8, len(key)))


def test_a_page_may_be_followed_by_an_answer(wire: Wire) -> None:
    wire.replies(Reply(raw=PAGE, content_type="text/html"), Reply(text="Quiet."))
    story = run_story(asking(wire, "anthropic"))
    assert story.result.output == "Quiet."
    assert "502 Bad Gateway" in story.warnings[0]


# Silence.


@every_interface
@every_way
def test_a_silent_provider_is_asked_once_more(
    wire: Wire, interface: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT", 0.2)
    story = ask(wire, interface, Reply(delay=30), stream=stream, retry={"max_attempts": 5, **AT_ONCE})
    assert story.error.endswith("no data for 0.2 seconds; given up after 2 attempts")
    assert len(wire.requests) == 2
    (failed,) = [data for data in story.of("node_state_change") if data["status"] == "failed"]
    assert failed["type"] == "Timeout"


def test_silence_in_the_middle_of_a_stream_counts(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT", 0.2)
    story = ask(wire, "openai", Reply(text="one two three", chunk_delay=30))
    assert "no data for 0.2 seconds" in story.error


def test_fewer_attempts_than_two_hold_for_silence(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT", 0.2)
    ask(wire, "openai", Reply(delay=30), retry={"max_attempts": 1})
    assert len(wire.requests) == 1


def test_a_fallback_is_asked_after_silence(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT", 1.0)
    wire.replies(Reply(delay=30), Reply(delay=30), Reply(text="Quiet."))
    models = {"default": profile(wire, fallback="other"), "other": profile(wire, "anthropic")}
    assert run_story(workflow(models, retry=AT_ONCE)).result.output == "Quiet."


def test_the_timeout_of_a_profile_keeps_its_attempts(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """It limits the whole answer, and was set by somebody who knows how long answers take."""
    wire.replies(Reply(text="Quiet."), Reply(delay=30))
    fields = profile(wire)
    run_story(workflow({"default": fields}))  # the first request of all takes long on this side
    retry = {"max_attempts": 3, **AT_ONCE}
    story = run_story(workflow({"default": {**fields, "timeout": 0.2}}, retry=retry))
    assert story.error.endswith("no answer after 0.2 seconds; given up after 3 attempts")
    assert len(wire.requests) == 4
