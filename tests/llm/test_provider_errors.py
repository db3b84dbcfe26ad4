"""Failed calls: what is too long for a model, what must fail again, and what is shown meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import roundel
from roundel.llm.provider_errors import is_overflow
from tests.llm.story import AT_ONCE, Story, asking, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

TWICE = {"max_attempts": 2, **AT_ONCE}


def failed(story: Story) -> dict[str, Any]:
    (data,) = [data for data in story.of("node_state_change") if data["status"] == "failed"]
    return data


# Requests that are too long.

OVERFLOWS: dict[str, tuple[str, int, Any]] = {
    "OpenAI": (
        "openai",
        400,
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, your messages "
                "resulted in 9001 tokens.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
    ),
    "OpenAI responses": (
        "openai",
        400,
        {"error": {"message": "Your input exceeds the context window of this model.", "code": None}},
    ),
    "Anthropic": (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
    ),
    "Anthropic, with the answer": (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            },
        },
    ),
    "Google": (
        "google",
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed "
                "(1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "vLLM": (
        "openai",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (
        "openai",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "Ollama": ("openai", 400, {"error": {"message": "the input length exceeds the context length"}}),
    "Mistral": (
        "openai",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "type": "invalid_request_prompt",
        },
    ),
    "Bedrock": ("openai", 400, {"message": "Input is too long for requested model."}),
    "Azure": (
        "openai",
        400,
        {"error": {"code": "context_length_exceeded", "message": "Please reduce the length of the prompt."}},
    ),
    "a server that says 500": ("openai", 500, {"error": {"message": "exceeds the available context size"}}),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_request_that_is_too_long_is_not_sent_again(wire: Wire, name: str) -> None:
    provider, status, body = OVERFLOWS[name]
    wire.replies(Reply(status=status, error_body=body))
    always = {**TWICE, "retry_on_status_codes": [status], "retry_on_exception_types": ["Exception"]}
    story = run_story(asking(wire, provider, retry=always))
    assert len(wire.requests) == 1
    assert story.error.endswith("does not fit; set `context: {max_tokens: …}` on 'A'")
    assert f"the provider answered {status}: " in story.error
    assert (failed(story)["type"], failed(story)["reason"]) == ("ContextOverflow", "context_overflow")


def test_a_fallback_may_have_more_room(wire: Wire) -> None:
    provider, status, body = OVERFLOWS["OpenAI"]
    wire.replies(Reply(status=status, error_body=body), Reply(text="Quiet."))
    models = {"default": profile(wire, provider, fallback="other"), "other": profile(wire, "anthropic")}
    assert run_story(workflow(models)).result.output == "Quiet."


def test_a_request_that_is_too_long_for_one_model_is_an_overflow(wire: Wire) -> None:
    """A shorter conversation may be answered, whatever is wrong with the fallback."""
    _, status, body = OVERFLOWS["OpenAI"]
    wire.replies(Reply(status=status, error_body=body), Reply(status=503))
    models = {"default": profile(wire, fallback="other"), "other": profile(wire, "anthropic")}
    data = failed(run_story(workflow(models, retry={"max_attempts": 1})))
    assert data["type"] == "ContextOverflow"
    assert "reason" not in data  # the fallback may answer the next time


def test_the_retry_of_a_node_does_not_repeat_an_overflow(wire: Wire) -> None:
    _, status, body = OVERFLOWS["OpenAI"]
    wire.replies(Reply(status=status, error_body=body))
    source = asking(wire)
    source["graph"]["nodes"][0]["retry"] = {"max_attempts": 3, **AT_ONCE}
    assert failed(run_story(source))["type"] == "ContextOverflow"
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, "Rate limit reached: please reduce the length of the messages"),
        (400, "max_tokens is too large: 5000"),
        (400, "the context of this conversation is unclear"),
        (413, "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000"),
    ],
)
def test_other_limits_are_no_overflow(wire: Wire, status: int, text: str) -> None:
    wire.replies(Reply(status=status, error_body={"error": {"message": text}}))
    assert failed(run_story(asking(wire, retry=TWICE)))["type"] != "ContextOverflow"


def test_errors_of_packages_are_recognised() -> None:
    assert is_overflow(RuntimeError("prompt is too long: 9 tokens > 8 maximum"))
    assert not is_overflow(RuntimeError("the connection is gone"))


# Failures that are permanent.


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "bad_request"),
        (401, "authentication"),
        (403, "authentication"),
        (404, "not_found"),
        (422, "bad_request"),
        (429, None),
        (500, None),
    ],
)
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_permanent_failure_says_so(wire: Wire, provider: str, status: int, reason: str | None) -> None:
    wire.replies(Reply(status=status))
    story = run_story(asking(wire, provider, retry=TWICE))
    assert failed(story).get("reason") == reason
    (finished,) = story.of("run_finished")
    assert finished.get("reason") == reason


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_error_edges_see_the_same_type_as_before(wire: Wire, provider: str) -> None:
    """`ModelError` takes every failure of a model that has no type of its own, permanent or not."""
    wire.replies(Reply(status=401))
    source = asking(wire, provider)
    source["graph"]["nodes"].append({"id": "Help", "type": "passthrough"})
    edge = {"from": "A", "to": "Help", "port": "error", "condition": {"cel": "data.type == 'ModelError'"}}
    source["graph"] |= {"edges": [edge], "end": ["Help"]}
    story = run_story(source)
    assert story.result.status == "completed"
    assert (story.result.data or {})["reason"] == "authentication"


def test_filters_are_permanent(wire: Wire) -> None:
    wire.replies(Reply(finish="content_filter"))
    assert failed(run_story(asking(wire)))["reason"] == "content_filter"
    body = {"error": {"code": "content_filter", "message": "The prompt was filtered."}}
    wire.replies(Reply(status=400, error_body=body))
    assert failed(run_story(asking(wire)))["reason"] == "content_filter"


@pytest.mark.parametrize("tools", [(), ("look",)], ids=["one call", "a tool loop"])
def test_on_error_message_has_the_reason(wire: Wire, tools: tuple[str, ...]) -> None:
    wire.replies(Reply(status=401))
    story = run_story(asking(wire, "openai", *tools, on_error="message"))
    assert (story.result.data or {})["reason"] == "authentication"


# What the final error says.


def test_the_final_error_says_how_often_and_how_long(wire: Wire) -> None:
    wire.replies(Reply(status=429, retry_after=0.01))
    story = run_story(asking(wire, retry={"max_attempts": 3}))
    assert story.error.endswith("; given up after 3 attempts; the provider asked to wait 0.01 s")
    wire.replies(Reply(status=429, retry_after=300))
    story = run_story(asking(wire))
    assert story.error.endswith("; given up after 1 attempt; the provider asked to wait 300 s")


# Waiting.


def test_a_wait_is_shown_and_not_stored(wire: Wire) -> None:
    wire.replies(Reply(status=429, retry_after=0.01), Reply(status=500), Reply(text="Quiet."))
    story = run_story(asking(wire, retry={"max_attempts": 5, **AT_ONCE}))
    first, second = [event for event in story.events if event.event == "call_waiting"]
    assert (first.seq, first.node_id, first.address) == (0, "A", "A")
    shown = first.fields()
    assert shown.pop("until") >= first.timestamp
    assert shown.pop("error").startswith("the provider answered 429: ")
    assert shown == {
        "call": 1,
        "cause": "retry",
        "seconds": 0.01,
        "attempt": 1,
        "of": 5,
        "status": 429,
        "model": "openai:gpt-4o",
    }
    waited = second.fields()
    assert (waited["attempt"], waited["status"], waited["seconds"]) == (2, 500, 0)


def test_a_wait_has_no_secrets(wire: Wire) -> None:
    fields = profile(wire)
    wire.replies(Reply(status=500, error_body={"error": {"message": f"no\n{fields['api_key']}"}}))
    story = run_story(workflow({"default": fields}, retry=TWICE))
    (data,) = story.of("call_waiting")
    assert data["error"] == "the provider answered 500: no ***"


def test_each_model_counts_its_own_attempts(wire: Wire) -> None:
    wire.replies(Reply(status=500))
    models = {"default": profile(wire, fallback="other"), "other": profile(wire, "anthropic")}
    waits = run_story(workflow(models, retry=TWICE)).of("call_waiting")
    shown = [(data["model"], data["attempt"], data["of"]) for data in waits]
    assert shown == [("openai:gpt-4o", 1, 2), ("anthropic:claude-haiku-4-5", 1, 2)]


def test_the_retry_of_a_node_shows_its_waits() -> None:
    graph = roundel.Graph("g", start="F", end="F")

    @graph.function("F", retry={"max_attempts": 3, **AT_ONCE})
    def fail(text: str) -> str:
        raise ValueError("no\nluck")

    story = run_story(graph)
    waits = [event for event in story.events if event.event == "call_waiting"]
    assert [(event.address, event.fields()["attempt"], event.fields()["of"]) for event in waits] == [
        ("F", 1, 3),
        ("F", 2, 3),
    ]
    assert waits[0].fields()["error"] == "ValueError: no luck"
    assert not waits[0].fields().keys() & {"status", "model", "call"}


def test_each_request_that_leaves_is_shown(wire: Wire) -> None:
    wire.replies(
        Reply(status=500), Reply(tool_calls=(("a1", "look", {"place": "Oslo"}),)), Reply(text="Quiet.")
    )
    story = run_story(asking(wire, "openai", "look", retry={"max_attempts": 3, **AT_ONCE}))
    sent = [event for event in story.events if event.event == "call_sent"]
    assert [(event.seq, event.address, event.fields()) for event in sent] == [
        (0, "A", {"call": 1, "attempt": 1, "of": 3, "model": "openai:gpt-4o"}),
        (0, "A", {"call": 1, "attempt": 2, "of": 3, "model": "openai:gpt-4o"}),
        (0, "A", {"call": 2, "attempt": 1, "of": 3, "model": "openai:gpt-4o"}),
    ]


def test_the_retry_of_an_agent_node_says_what_its_model_met(wire: Wire) -> None:
    wire.replies(Reply(status=429), Reply(text="Quiet."))
    source = asking(wire, retry={"enabled": False})
    source["graph"]["nodes"][0]["retry"] = {"max_attempts": 2, **AT_ONCE}
    (wait,) = run_story(source).of("call_waiting")
    shown = {name: wait[name] for name in ("call", "attempt", "of", "status", "model")}
    assert shown == {"call": 1, "attempt": 1, "of": 2, "status": 429, "model": "openai:gpt-4o"}


def test_a_script_sends_no_request() -> None:
    story = run_story(workflow({"default": {"model": "openai:gpt-4o"}}), script={"A": "Quiet."})
    assert story.result.completed and not story.of("call_sent")


def test_a_wait_is_shown_while_it_lasts(wire: Wire) -> None:
    """Whoever follows the run sees the wait before it is over, and can stop the run."""
    wire.replies(Reply(status=429, retry_after=100))

    async def story() -> None:
        waiting = asyncio.Event()

        def on_event(event: roundel.Event) -> None:
            if event.event == "call_waiting":
                waiting.set()

        run = asyncio.create_task(roundel.run_async(asking(wire), "tea", on_event=on_event))
        await waiting.wait()
        assert not run.done()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    asyncio.run(story())
