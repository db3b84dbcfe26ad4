"""Strict JSON as the events of a YAML parser.

Parsers of YAML 1.1 stumble over some of it: surrogate pairs, leading tabs, long keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

from yaml import events as ev


class _Mark(NamedTuple):
    line: int
    column: int


class _NotJsonError(ValueError):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(name)


_STRICT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\]:,"]+')
_BRACKETS: Final[dict[str, Any]] = {
    "{": lambda mark: ev.MappingStartEvent(None, None, True, mark),
    "[": lambda mark: ev.SequenceStartEvent(None, None, True, mark),
    "}": ev.MappingEndEvent,
    "]": ev.SequenceEndEvent,
}


def find_json_error(text: str) -> Exception | None:
    """None if the text is strict JSON."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return _NotJsonError("does not look like JSON")
    try:
        _STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        return error
    return None


def json_events(text: str) -> Iterator[Any]:
    """The events of a text that is strict JSON."""
    yield from (ev.StreamStartEvent(), ev.DocumentStartEvent())
    line = line_start = end = 0
    for match in _TOKEN.finditer(text):
        if breaks := text.count("\n", end, match.start()):
            line += breaks
            line_start = text.rfind("\n", end, match.start()) + 1
        end = match.end()
        yield _event(match[0], _Mark(line, match.start() - line_start))
    yield from (ev.DocumentEndEvent(), ev.StreamEndEvent())


def _event(token: str, mark: Any) -> Any:
    if token in _BRACKETS:
        return _BRACKETS[token](mark)
    if token.startswith('"'):
        value = json.loads(token) if "\\" in token else token[1:-1]
        return ev.ScalarEvent(None, None, (False, True), value, mark, style='"')
    return ev.ScalarEvent(None, None, (True, False), token, mark)
