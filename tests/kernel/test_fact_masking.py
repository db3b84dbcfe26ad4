"""Facts are recorded without secrets, and a run works whichever values are secret."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import roundel
from roundel.kernel.facts import (
    Answered,
    Fact,
    Failed,
    Finished,
    InterceptPoints,
    Outcome,
    Started,
    Unlocked,
    mask_fact,
    secrets_of,
)
from roundel.nodes.loading import load
from roundel.nodes.services import Reply, ToolRequest, ToolResult
from roundel.plan.graph import compile_workflow
from roundel.workflow.message import Block, Message
from roundel.workflow.secrets import SecretMasker

KEY = "sk-live-0123456789"
SECRETS = SecretMasker([KEY])


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (Started("r", (Message(f"a {KEY}"),), 1.0), Started("r", (Message("a ***"),), 1.0)),
        (Failed("A", f"no {KEY}", 1.0), Failed("A", "no ***", 1.0)),
        (
            Answered("A", Message((Block("text", f"a {KEY}"),), data={"k": [KEY]}), 1.0),
            Answered("A", Message((Block("text", "a ***"),), data={"k": ["***"]}), 1.0),
        ),
        (Unlocked(KEY, KEY, ("x",), 1.0, note=KEY), Unlocked("***", "***", ("x",), 1.0, note="***")),
        (
            Finished("A", Outcome(state={"reply": {"text": KEY}}, events=(("warning", {"m": KEY}),)), 1.0),
            Finished(
                "A", Outcome(state={"reply": {"text": "***"}}, events=(("warning", {"m": "***"}),)), 1.0
            ),
        ),
    ],
)
def test_secrets_in_a_fact_are_masked(fact: Fact, expected: Fact) -> None:
    assert mask_fact(fact, SECRETS) == expected


def test_run_and_node_names_are_not_masked() -> None:
    fact = Started(KEY, (Message(KEY, "user"),), 1.0, InterceptPoints((KEY,)))
    masked = mask_fact(fact, SECRETS)
    assert masked == Started(KEY, (Message("***", "user"),), 1.0, InterceptPoints((KEY,)))


def test_a_fact_without_secrets_is_the_same_object() -> None:
    fact = Failed("A", "no", 1.0)
    assert mask_fact(fact, SECRETS) is fact
    assert mask_fact(fact, SecretMasker()) is fact


def test_fact_with_non_json_data_is_masked() -> None:
    thing = object()
    fact = Finished("A", Outcome((Message(KEY, data={"thing": thing}),)), 1.0)
    masked = mask_fact(fact, SECRETS)
    assert isinstance(masked, Finished)
    assert masked.outcome.messages == (Message("***", data={"thing": thing}),)


def _words(*kinds: type[Any]) -> set[str]:
    """The texts that fields of structs are limited to."""
    found: set[str] = set()
    for kind in kinds:
        for hint in get_type_hints(kind).values():
            for option in (hint, *get_args(hint)):
                if get_origin(option) is Literal:
                    found.update(word for word in get_args(option) if isinstance(word, str))
    return found


def test_format_keywords_are_never_masked() -> None:
    words = _words(Message, Block, Reply, ToolRequest, ToolResult, Outcome)
    assert {"assistant", "completed", "rejected", "continue"} <= words
    secrets = SecretMasker(words)
    assert {secrets.mask(word) for word in words} == words


def test_environment_values_equal_to_format_keywords_do_not_break_a_run() -> None:
    names = ("assistant", "completed", "tool_calls", "messages", "arguments", "input_tokens", "metadata")
    tools = {
        "near": {"mcp": {"command": "none", "env": {name: name for name in names}}},
        "mean": {"python": "statistics:mean"},
    }
    node = {"id": "A", "type": "agent", "config": {"tools": ["near", "mean"]}}
    source = {"tools": tools, "graph": {"nodes": [node], "start": ["A"], "end": ["A"]}}
    calls = [{"name": "mean", "arguments": {"data": [1, 3]}}]
    script = {"A": [{"text": "I look", "tool_calls": calls}, "it is 2"]}
    events: list[roundel.Event] = []
    result = roundel.run(source, "go", script=script, on_event=events.append)
    assert (result.status, result.output, result.usage["tool_calls"]) == ("completed", "it is 2", 1)
    assert [event.fields()["status"] for event in events if event.event == "tool_call"] == [
        "running",
        "completed",
    ]


def test_short_secrets_are_not_masked_inside_other_text() -> None:
    source = {
        "vars": {"PIN_TOKEN": "tea", "word": {"value": "cup", "secret": True}},
        "models": {"default": {"model": "openai:m", "api_key": "ollama", "headers": {"X": "yes"}}},
        "graph": {
            "nodes": [{"id": "A", "type": "literal", "config": {"content": "tea in a cup, ollama, yes"}}],
            "start": ["A"],
            "end": ["A"],
        },
    }
    workflow = load(source)
    assert set(workflow.secrets.values()) == {"tea", "cup", "ollama", "yes"}
    assert workflow.graph.vars == {"PIN_TOKEN": "***", "word": "***"}
    assert not secrets_of(compile_workflow(workflow)).mask("tea cup ollama yes").count("*")
    assert roundel.run(workflow).output == "tea in a cup, ollama, yes"
