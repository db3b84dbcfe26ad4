"""What a round gave, as a value in a list: its structured data if it has any, else its text.

A list of results is JSON, so what is JSON already stands in it as a value, never as text that holds JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from roundel.workflow.message import Message, json_text

_ANNOTATIONS: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(always), frozenset(sometimes))
    for always, sometimes in (
        (("stop_reason",), ("tool_rounds", "answered")),  # an agent with tools
        (("results", "rounds"), ("errors", "error")),  # a loop_agent
        (
            ("should_exit", "exit_reason", "current_round", "timestamp", "held"),
            ("score", "best_round", "best_score"),
        ),  # a loop
        (("debate_history", "total_rounds", "exit_reason", "held"), ()),  # a debate
        (("count", "max_iterations"), ()),  # a loop_counter
        (("elapsed", "limit"), ()),  # a loop_timer
        (("exit_code",), ()),  # the code of a message
    )
)
"""What nodes add to the data of a message about its text: the fields of each kind that are always there, and
those that may be. They do not make a text structured."""


def message_value(message: Message) -> Any:
    data, text = message.data, message.text
    container = _parse_container(text)
    if not data:
        return text if container is None else container
    if isinstance(container, dict) and container.items() <= data.items():
        return container  # the text says what the data says
    own_fields = _strip_annotations(data)
    if own_fields.keys() == {"value"} and _is_same_value(own_fields["value"], text):
        return own_fields["value"]  # an answer by a schema that is not an object
    plain = _json_copy(own_fields) if own_fields else None
    if plain is not None:
        return plain
    return text if container is None else container


def is_unchanged_item(message: Message, item: Any) -> bool:
    """Whether a round has given back what it got, and nothing else."""
    return message.data == (item if isinstance(item, dict) else None) and message.text == json_text(item)


def _strip_annotations(data: dict[str, Any]) -> dict[str, Any]:
    for always, sometimes in _ANNOTATIONS:
        if always <= data.keys():
            data = {name: value for name, value in data.items() if name not in always | sometimes}
    return data


def _json_copy(data: dict[str, Any]) -> Any:
    """Data as a journal keeps it, so that a run that is resumed says the same; None if it cannot be kept."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data, enc_hook=repr))
    except (TypeError, ValueError, RecursionError):
        return None


def _parse_container(text: str) -> Any:
    """The object or array that a text is; None if it is none."""
    return _decode_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _is_same_value(value: Any, text: str) -> bool:
    decoded = _decode_json(text)
    return type(decoded) is type(value) and bool(decoded == value)


def _decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
