"""The same stories with each provider: its responses, and the requests that it receives."""

from __future__ import annotations

import json

from tests.llm.story import LOOK, PROVIDERS, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Reply, Wire
from tests.llm.wire.reply import SIGNATURE, ToolCall

QUIET = Reply(text="It is quiet there.")


@every_provider
@every_way
def test_text_reply_is_returned_and_streamed(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="Good  evening,\n\nOslo."))
    story = run_story(asking(wire, provider, role="Be brief.", stream=stream))
    assert story.result.output == "Good  evening,\n\nOslo."
    (requests_seen,) = wire.requests
    assert (requests_seen.provider, requests_seen.system()) == (provider, "Be brief.")
    assert "How is it?" in json.dumps(requests_seen.messages())
    spoken = "".join(data["text"] for data in story.of("token_stream"))
    assert spoken == (story.result.output if stream else "")
    if stream or provider != "anthropic":  # whose client streams whatever may take long
        assert requests_seen.streams == stream


@every_provider
@every_way
def test_tool_round_sends_the_result_back(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="Let me look.", tool_calls=LOOK.tool_calls), QUIET)
    story = run_story(asking(wire, provider, "look", stream=stream))
    assert story.result.output == "It is quiet there."
    assert story.result.data == {"stop_reason": "answered", "answered": True, "tool_rounds": 1}
    first, second = wire.requests
    assert first.tool_names() == second.tool_names() == ["look"]
    assert second.tool_calls() == [("a1", "look")]
    assert second.tool_results() == [("a1", "Oslo is quiet")]
    assert "Let me look." in json.dumps(second.messages())


@every_provider
@every_way
def test_tool_results_are_returned_in_request_order(wire: Wire, provider: str, stream: bool) -> None:
    calls = (
        ("a1", "dawdle", {"place": "Oslo"}),
        ("a2", "look", {"place": "Bergen"}),
        ("a3", "look", {"place": "Tromsø"}),
    )
    wire.replies(Reply(tool_calls=calls), QUIET)
    story = run_story(asking(wire, provider, "look", "dawdle", stream=stream))
    assert wire.requests[1].tool_calls() == [(call[0], call[1]) for call in calls]
    assert wire.requests[1].tool_results() == [
        ("a1", "Oslo is far"),
        ("a2", "Bergen is quiet"),
        ("a3", "Tromsø is quiet"),
    ]
    done = [data["id"] for data in story.of("tool_call") if data["status"] == "completed"]
    assert sorted(done) == ["a1", "a2", "a3"]
    assert done[-1] == "a1"


@every_provider
@every_way
def test_failing_tool_is_reported_to_the_model(wire: Wire, provider: str, stream: bool) -> None:
    calls: tuple[ToolCall, ...] = (
        ("a1", "fly", {"place": "Oslo"}),
        ("a2", "break_down", {"place": "Oslo"}),
        ("a3", "look", {"town": "Oslo"}),
        ("a4", "sleep", {}),
        ("a5", "look", {"place": "Oslo"}),
    )
    wire.replies(Reply(tool_calls=calls), QUIET)
    source = asking(wire, provider, "look", "break_down", "sleep", stream=stream)
    source["tools"]["sleep"]["timeout"] = 0.05
    assert run_story(source).result.output == "It is quiet there."
    results = wire.requests[1].tool_results()
    assert [name for name, _ in results] == ["a1", "a2", "a3", "a4", "a5"]
    texts = dict(results)
    assert "there is no tool 'fly'; there are: break_down, look, sleep" in texts["a1"]
    assert "RuntimeError: no way to Oslo" in texts["a2"]
    assert "wrong arguments" in texts["a3"] and "it takes place" in texts["a3"]
    assert "no answer after 0.05 seconds" in texts["a4"]
    assert texts["a5"] == "Oslo is quiet"


def test_tool_failure_uses_the_error_format_of_each_provider(wire: Wire) -> None:
    told_so = {}
    for provider in PROVIDERS:
        wire.replies(Reply(tool_calls=(("a1", "fly", {}),)), QUIET)
        run_story(asking(wire, provider, "look"))
        told_so[provider] = json.dumps(wire.requests[-1].messages()[-1])
    assert '\\"error\\"' in told_so["openai"]
    assert '"is_error": true' in told_so["anthropic"]
    assert '"response": {"error"' in told_so["google"]


@every_way
def test_arguments_that_are_not_json_are_reported_to_the_model(wire: Wire, stream: bool) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", '{"place": "Os'),)), QUIET)
    story = run_story(asking(wire, "openai", "look", stream=stream))
    assert story.result.output == "It is quiet there."
    ((name, text),) = wire.requests[1].tool_results()
    assert name == "a1"
    assert json.loads(text) == {"error": 'the arguments are not a JSON object: {"place": "Os'}
    assert story.result.usage["tool_calls"] == 0


def test_arguments_truncated_by_anthropic_are_reported_to_the_model(wire: Wire) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", '{"place": "Os'),)), QUIET)
    assert run_story(asking(wire, "anthropic", "look")).result.output == "It is quiet there."
    ((name, text),) = wire.requests[1].tool_results()
    assert name == "a1" and "the arguments are not a JSON object" in text


@every_way
def test_malformed_gemini_function_call_is_retried(wire: Wire, stream: bool) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", '{"place": "Os'),)), QUIET)
    story = run_story(asking(wire, "google", "look", stream=stream))
    assert story.result.output == "It is quiet there."
    assert len(wire.requests) == 2
    assert story.warnings == [
        "asked again: google:gemini-2.5-flash: the provider gave up on the answer: MALFORMED_FUNCTION_CALL"
    ]


def test_gemini_calls_without_ids_get_unique_ids(wire: Wire) -> None:
    calls = ((None, "look", {"place": "Oslo"}), (None, "look", {"place": "Bergen"}))
    wire.replies(Reply(tool_calls=calls), QUIET)
    story = run_story(asking(wire, "google", "look"))
    ids = {data["id"] for data in story.of("tool_call")}
    assert len(ids) == 2
    assert [text for _, text in wire.requests[1].tool_results()] == ["Oslo is quiet", "Bergen is quiet"]


@every_provider
@every_way
def test_signed_thinking_is_sent_back(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(thinking="Where is it?", tool_calls=LOOK.tool_calls), LOOK, QUIET)
    story = run_story(asking(wire, provider, "look", stream=stream))
    assert "Where is it?" not in "".join(data["text"] for data in story.of("token_stream"))
    for requests_seen in wire.requests[1:]:
        sent = json.dumps(requests_seen.messages())
        if provider != "openai":  # whose chat has no signatures
            assert SIGNATURE in sent
        assert sent.count("Where is it?") == 1
        assert [name for name, _ in requests_seen.tool_results()] == ["a1"] * (
            len(requests_seen.tool_results())
        )


@every_way
def test_responses_protocol_is_supported(wire: Wire, stream: bool) -> None:
    models = {"default": profile(wire, model="openai:gpt-5", params={"protocol": "responses"})}
    wire.replies(Reply(thinking="Where is it?", tool_calls=LOOK.tool_calls), QUIET)
    story = run_story(workflow(models, "look", stream=stream))
    assert story.result.output == "It is quiet there."
    first, second = wire.requests
    assert first.path.endswith("/responses")
    assert "protocol" not in json.dumps(first.body)
    assert second.tool_results() == [("a1", "Oslo is quiet")]
    assert SIGNATURE in json.dumps(second.messages())


@every_provider
def test_answer_truncated_at_its_token_limit_is_a_warning(wire: Wire, provider: str) -> None:
    word = {"openai": "length", "anthropic": "max_tokens", "google": "MAX_TOKENS"}[provider]
    wire.replies(Reply(text="It never", finish=word))
    story = run_story(asking(wire, provider))
    assert story.result.output == "It never"
    assert story.warnings == ["the answer was cut off at its token limit"]


def test_content_filtered_answer_is_a_failure(wire: Wire) -> None:
    wire.replies(Reply(finish="content_filter"))
    assert "the provider held the answer back" in run_story(asking(wire)).error
    assert len(wire.requests) == 1
