"""Answers that have to fit a schema, and second thoughts, with real clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.llm.story import LOOK, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0}, "why": {"type": "string"}},
    "required": ["score"],
    "additionalProperties": False,
}
GOOD = Reply(text='{"score": 7}')
BAD = Reply(text='{"score": "seven"}')
REFLECT = {"type": "reflection", "config": {"reflection_prompt": "Look at it again."}}


def requested_schema(body: dict[str, Any], provider: str) -> Any:
    """The schema that a request asks for in the provider's own way, if it does."""
    if provider == "openai":
        return (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    if provider == "anthropic":
        requests_seen = body.get("output_config", body).get("format") or body.get("output_format") or {}
        return requests_seen.get("schema")
    settings = body.get("generationConfig", {})
    return settings.get("responseJsonSchema") or settings.get("responseSchema")


@every_provider
@every_way
def test_structured_answer_becomes_data(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(GOOD)
    story = run_story(asking(wire, provider, output_schema=SCHEMA, stream=stream, role="You judge."))
    assert (story.result.output, story.result.data) == ('{"score": 7}', {"score": 7})
    (requests_seen,) = wire.requests
    assert requested_schema(requests_seen.body, provider)["required"] == ["score"]
    assert requests_seen.tool_names() == []
    assert requests_seen.system().startswith("You judge.\n\n")
    assert "It must fit this JSON Schema" in requests_seen.system()


def test_schema_is_in_the_prompt_for_models_without_schema_support(wire: Wire) -> None:
    wire.replies(Reply(text='Here it is:\n```json\n{"score": 7}\n```'))
    models = {"default": profile(wire, "openai", model="openai:gpt-3.5-turbo")}
    story = run_story(workflow(models, output_schema=SCHEMA))
    assert story.result.data == {"score": 7}
    assert "It must fit this JSON Schema" in wire.requests[0].system()


@every_provider
def test_mismatching_answer_is_repaired(wire: Wire, provider: str) -> None:
    wire.replies(BAD, Reply(text="Seven."), GOOD)
    story = run_story(asking(wire, provider, output_schema=SCHEMA))
    assert story.result.data == {"score": 7}
    second, third = (json.dumps(request.messages()) for request in wire.requests[1:])
    assert "at score: 'seven' is not of type 'integer'" in second
    assert "it is not JSON" in third and "Seven." in third and "seven" in third


@every_provider
@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_repairs_are_limited(wire: Wire, provider: str, repairs: int) -> None:
    wire.replies(BAD)
    story = run_story(asking(wire, provider, output_schema=SCHEMA, max_repairs=repairs))
    assert len(wire.requests) == repairs + 1
    assert story.error == (
        "A: the answer does not fit output_schema: at score: 'seven' is not of type 'integer'"
    )
    assert story.result.usage["model_calls"] == repairs + 1


@every_provider
def test_schema_is_requested_after_the_tool_rounds(wire: Wire, provider: str) -> None:
    wire.replies(LOOK, BAD, GOOD)
    story = run_story(asking(wire, provider, "look", output_schema=SCHEMA))
    data = story.result.data or {}
    assert (data["score"], data["tool_rounds"]) == (7, 1)
    first, second, third = wire.requests
    assert first.tool_names() == second.tool_names() == ["look"]
    assert requested_schema(first.body, provider) is None
    assert third.tool_results() == [("a1", "Oslo is quiet")]
    if provider == "anthropic":  # which has to be named tools, and takes no schema beside them
        assert third.body["tool_choice"] == {"type": "none"}
    else:
        assert third.tool_names() == []
        assert requested_schema(third.body, provider)["required"] == ["score"]


@every_provider
def test_list_answer_is_stored_under_value(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="[1, 2]"))
    schema = {"type": "array", "items": {"type": "integer"}}
    assert run_story(asking(wire, provider, output_schema=schema)).result.data == {"value": [1, 2]}
    assert requested_schema(wire.requests[0].body, provider) is None  # whose own forms are all objects


TREE = {"type": "object", "properties": {"part": {"$ref": "#"}}}
OPEN = {"type": "object", "properties": {f"p{number}": {"type": ["string", "null"]} for number in range(60)}}


@every_provider
@pytest.mark.parametrize("schema", [TREE, OPEN], ids=["tree", "open"])
def test_schema_unsupported_by_a_provider_is_not_sent(
    wire: Wire, provider: str, schema: dict[str, Any]
) -> None:
    wire.replies(Reply(text='{"other": 1}'))
    assert run_story(asking(wire, provider, output_schema=schema)).result.data == {"other": 1}
    assert (requested_schema(wire.requests[0].body, provider) is None) == (provider == "anthropic")


# Second thoughts.


@every_provider
@every_way
def test_reflection_replaces_the_answer(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="A draft."), Reply(text="Better words."))
    story = run_story(asking(wire, provider, role="You write.", thinking=REFLECT, stream=stream), "Tea")
    assert story.result.output == "Better words."
    assert len(wire.requests) == 2
    first, second = (json.dumps(request.messages()) for request in wire.requests)
    assert "Look at it again." not in first
    assert second.index("Tea") < second.index("A draft.") < second.index("Look at it again.")
    assert {request.system() for request in wire.requests} == {"You write."}


@every_provider
def test_reflection_is_offered_no_tools(wire: Wire, provider: str) -> None:
    wire.replies(LOOK, Reply(text="A draft."), Reply(text="Better.", tool_calls=LOOK.tool_calls))
    story = run_story(asking(wire, provider, "look", thinking=REFLECT))
    assert (story.result.output, len(wire.requests)) == ("Better.", 3)
    assert wire.requests[2].tool_names() == []
    assert wire.requests[2].tool_calls() == []


def test_reflection_must_match_the_schema(wire: Wire) -> None:
    wire.replies(GOOD, BAD, Reply(text='{"score": 8}'))
    story = run_story(asking(wire, output_schema=SCHEMA, thinking=REFLECT))
    assert (story.result.data, len(wire.requests)) == ({"score": 8}, 3)
