"""The values of an array loop: the list that it finds in a text, and the results that it gathers.

`find_array` finds a list in the answer of a model. `message_value` converts the message of a round into the
JSON value that the loop puts into its list (decision 15).
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from roundel.nodes.structured_output import JsonScanner
from roundel.plan.graph import SEMANTICS
from roundel.workflow.evaluation_budget import note_work
from roundel.workflow.message import Message, json_text

_FENCE, _BLANKS = "```", " \t\r\n"
_BRACKETS = re.compile(r'\[(?=\s*[]\["{\-0-9tfn])|\{(?=\s*["}])')
"""Brackets with which an array or an object may begin; not those of "[see below]"."""
_MAX_MISTAKES = 1000
"""How many of them may begin neither."""
_decoder = json.JSONDecoder()


def find_array(text: str) -> list[int] | None:
    """Where the JSON array of a text begins and ends; None if it has none.

    The first array that stands on lines of its own, as in a fenced block. If there is none, the first one
    inside of a line that is behind a colon, or has something besides numbers in it: `[1, 2]` among words
    refers to something. Arrays inside of objects, of other arrays, and of an array with a mistake are not
    found.

    Each character is decoded once: after a mistake the search continues behind it, and ends where the text
    is cut off or nested too deeply."""
    found: dict[int, list[int]] = {}
    note_work(len(text))
    scanner, mistakes = JsonScanner(text, _decoder), 0
    last = len(text.rstrip(_BLANKS))
    at = _BRACKETS.search(text)
    while at is not None and mistakes < _MAX_MISTAKES:
        start = at.start()
        try:
            value, end = scanner.decode(start)
        except json.JSONDecodeError as error:
            end = scanner.mistake_at(error)
            if end >= last or error.msg.startswith("Unterminated"):
                break
            end, mistakes = max(end, start + 1), mistakes + 1
        except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
            break
        else:
            if isinstance(value, list):
                found.setdefault(_rank(value, text, start, end), [start, end])
        at = _BRACKETS.search(text, end)
    found.pop(_NO_LIST, None)
    return found[min(found)] if found else None


_NO_LIST = 9


def _rank(items: list[Any], text: str, start: int, end: int) -> int:
    """How likely an array is what the text is about, from 0; `_NO_LIST` if it is a part of a sentence."""
    before = text[max(0, start - _MOST_OF_LINE) : start].rpartition("\n")[2].strip(" \t\r`*")
    after = text[end : end + _MOST_OF_LINE].partition("\n")[0].strip(" \t\r`*.,;")
    numbers = all(isinstance(item, (int, float)) for item in items)
    if not before and not after:
        return 2 if numbers and len(items) == 1 else 0
    if before.endswith((":", "\uff1a")) or (not numbers and text[start - 1 : start] in _OPENS):
        return 1
    return _NO_LIST


_MOST_OF_LINE = 200
"""How far a line is looked at, so that one long line with many arrays costs no more than its length."""
_OPENS = ("", " ", "\t", "\n", "`", "*")
"""What may stand before an array inside of a line: not a name, as in `words["a"]`."""


def decode_json(text: str) -> Any:
    """The JSON value that the whole text is; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


Annotations = tuple[tuple[frozenset[str], frozenset[str]], ...]
_ANNOTATIONS: Annotations = tuple(
    (frozenset(always), frozenset(sometimes))
    for always, sometimes in (
        (("stop_reason",), ("tool_rounds", "answered", "exit_reason")),  # an agent with tools
        (("answered",), ()),  # an agent whose model gave no answer
        (("results", "rounds"), ("errors", "error")),  # a loop_agent
        (
            ("should_exit", "exit_reason", "current_round", "timestamp", "held"),
            ("score", "best_round", "best_score"),
        ),  # a loop
        (("debate_history", "total_rounds", "exit_reason", "held"), ()),  # a debate
        (("count", "max_iterations"), ()),  # a loop_counter
        (("elapsed", "limit"), ()),  # a loop_timer
        (("exit_code",), ()),  # the code of a message
        (("ballots", "share", "approved"), ("summary",)),  # a vote; the last one, see `message_value`
    )
)
"""Fields that nodes of the engine add to a message to describe its text: for each kind of node the
fields that it always adds, and those that it may add.

They do not make a text structured. If they counted, the answer of every agent with tools would be
gathered as `{"stop_reason": …}` and its text would be lost. A kind is recognised only if all of its
constant fields are present, so `score` or `count` in the data of a user stays as it is. A node type that
adds such fields has to be listed here."""


def message_value(message: Message, semantics: int = SEMANTICS) -> Any:
    """The result of a round as a JSON value: its structured data if it has any, else its text.

    A text that is a JSON object or array, also one between fences, becomes a value too, so that lists of
    lists never turn into JSON inside of JSON text. A scalar stays text: a model that answers `3` has given
    a text."""
    data, text = message.data, message.text
    container = _parse_container(text if semantics < 1 else _without_fence(text))
    if not data:
        return text if container is None else container
    if isinstance(container, dict) and container.items() <= data.items():
        # The text is the same object as the data, without the annotations.
        return container
    # In version 0 the text of a vote was its tally, which the data has as well.
    own_fields = _strip_annotations(data, _ANNOTATIONS if semantics >= 1 else _ANNOTATIONS[:-1])
    if own_fields.keys() == {"value"} and _is_same_value(own_fields["value"], text):
        # `structured_output.parse_answer` wraps an answer that is no object as {"value": answer}.
        return own_fields["value"]
    plain = _json_copy(own_fields) if own_fields else None
    if plain is not None:
        return plain
    return text if container is None else container


def is_unchanged_item(message: Message, item: Any) -> bool:
    """Whether a round returned its element and nothing else. `message` is its output."""
    return message.data == (item if isinstance(item, dict) else None) and message.text == json_text(item)


def _strip_annotations(data: dict[str, Any], annotations: Annotations) -> dict[str, Any]:
    for always, sometimes in annotations:
        if always <= data.keys():
            data = {name: value for name, value in data.items() if name not in always | sometimes}
    return data


def _json_copy(data: dict[str, Any]) -> Any:
    """Data as the journal stores it, so that a resumed run gathers the same list; None if JSON cannot
    represent it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data, enc_hook=repr))
    except (TypeError, ValueError, RecursionError):
        return None


def _parse_container(text: str) -> Any:
    """The JSON object or array that the whole text is; None for any other text."""
    return decode_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _without_fence(text: str) -> str:
    """What is inside of a fenced block that is the whole text; any other text as it is."""
    bare = text.strip(_BLANKS)
    first, line_break, rest = bare.partition("\n")
    fenced = line_break and first.startswith(_FENCE) and rest.endswith(_FENCE)
    return rest.removesuffix(_FENCE) if fenced else text


def _is_same_value(value: Any, text: str) -> bool:
    # Compare the types first: in Python 1 == True and 1 == 1.0.
    decoded = decode_json(text)
    return type(decoded) is type(value) and bool(decoded == value)
