"""What a round gave, as a value in a list: its structured data if it has any, else its text.

A list of results is JSON, so what is JSON already stands in it as a value, never as text that holds JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from roundel.workflow.message import Message, json_text

_NOTES: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
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


def value_of(message: Message) -> Any:
    data, text = message.data, message.text
    written = _written(text)
    if not data:
        return text if written is None else written
    if isinstance(written, dict) and written.items() <= data.items():
        return written  # the text says what the data says
    own = _without_notes(data)
    if own.keys() == {"value"} and _same(own["value"], text):
        return own["value"]  # an answer by a schema that is not an object
    plain = _plain(own) if own else None
    if plain is not None:
        return plain
    return text if written is None else written


def is_element(message: Message, item: Any) -> bool:
    """Whether a round has given back what it got, and nothing else."""
    return message.data == (item if isinstance(item, dict) else None) and message.text == json_text(item)


def _without_notes(data: dict[str, Any]) -> dict[str, Any]:
    for always, sometimes in _NOTES:
        if always <= data.keys():
            data = {name: value for name, value in data.items() if name not in always | sometimes}
    return data


def _plain(data: dict[str, Any]) -> Any:
    """Data as a journal keeps it, so that a run that is resumed says the same; None if it cannot be kept."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data, enc_hook=repr))
    except (TypeError, ValueError, RecursionError):
        return None


def _written(text: str) -> Any:
    """The object or array that a text is; None if it is none."""
    return _decoded(text) if text.lstrip()[:1] in ("{", "[") else None


def _same(value: Any, text: str) -> bool:
    decoded = _decoded(text)
    return type(decoded) is type(value) and bool(decoded == value)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
