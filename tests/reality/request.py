"""A request to any provider in one form: who said what, which tools are offered, which schema is given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.llm.wire import Recorded

Json = dict[str, Any]
_STATED = re.compile(r"JSON Schema:\n(\{.*\})")


class Turn(NamedTuple):
    """One message of a conversation."""

    role: str
    """system, user, assistant or tool, whatever the provider calls them."""
    text: str
    name: str = ""


class Tool(NamedTuple):
    name: str
    parameters: Json


class Prompt(NamedTuple):
    """Everything that a model is sent."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    called: tuple[str, ...] = ()
    """The tools that it has called so far."""
    schema: Json | None = None
    is_strict: bool = False
    """Whether the provider itself enforces the schema, so that nothing stands around the JSON."""

    @property
    def system(self) -> str:
        return "\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def conversation(self) -> tuple[Turn, ...]:
        """What users and the model said."""
        return tuple(turn for turn in self.turns if turn.role in ("user", "assistant"))


def read(request: Recorded) -> Prompt:
    body = request.body
    given = _schema(body)
    turns = tuple(_turns(request))
    stated = _STATED.search("\n".join(turn.text for turn in turns if turn.role == "system"))
    schema = given or (json.loads(stated[1]) if stated else None)
    return Prompt(
        turns, tuple(_tools(body)), tuple(name for _, name in request.tool_calls()), schema, given is not None
    )


def _turns(request: Recorded) -> Iterator[Turn]:
    body = request.body
    apart = body.get("instructions") or body.get("system") or body.get("systemInstruction")
    if apart:
        yield Turn("system", _text(apart))
    for message in request.messages():
        if "role" not in message:  # a call or a result of the interface `responses`
            if "output" in message:
                yield Turn("tool", _text(message["output"]))
            continue
        yield from _parts(message)


def _parts(message: Json) -> Iterator[Turn]:
    """A message that holds only tool calls says nothing; several texts of a user are several turns."""
    role: str = {"developer": "system", "model": "assistant"}.get(message["role"]) or message["role"]
    name = str(message.get("name", ""))
    content = message.get("content", message.get("parts"))
    if not isinstance(content, list):
        if content or not message.get("tool_calls"):
            yield Turn(role, content or "", name)
        return
    for part in content:
        if part.get("type") == "tool_result" or "functionResponse" in part:
            yield Turn("tool", _text(part.get("content") or part["functionResponse"]["response"]))
        elif "text" in part:
            yield Turn(role, part["text"], name)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, dict):
        return _text(
            value.get("parts") or value.get("text") or value.get("return_value") or json.dumps(value)
        )
    return str(value or "")


def _tools(body: Json) -> Iterator[Tool]:
    if body.get("tool_choice") in ("none", {"type": "none"}):
        return
    for entry in body.get("tools") or ():
        for one in entry.get("functionDeclarations") or [entry.get("function", entry)]:
            shapes = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema")
            yield Tool(one["name"], next((one[key] for key in shapes if one.get(key)), {}))


def _schema(body: Json) -> Json | None:
    """The schema that the provider is asked to enforce."""
    config = body.get("generationConfig") or {}
    found = (
        body.get("response_format", {}).get("json_schema", {}).get("schema")
        or body.get("text", {}).get("format", {}).get("schema")
        or body.get("output_config", {}).get("format", {}).get("schema")
        or config.get("responseJsonSchema")
        or config.get("responseSchema")
    )
    return found if isinstance(found, dict) else None
