"""From the events of a parser to values, with what is unsafe or ambiguous refused on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from yaml import events as ev

from roundel.workflow.diagnostics import Report
from roundel.workflow.located import MAX_DEPTH, Located
from roundel.workflow.scalars import MAX_DIGITS, plain_value

MAX_ALIASED: Final = 100_000

_Places: TypeAlias = dict[str, tuple[int, int]]

_SURROGATE = re.compile("[\ud800-\udfff]")


def compose(events: Iterator[Any], report: Report, hidden: dict[int, str] | None = None) -> Located | None:
    """The tree of one document; `hidden` says which characters stand for others in it."""
    try:
        return _Composer(events, report, hidden or {}).document()
    except _UnreadableError:
        return None


class _UnreadableError(Exception):
    """The rest of the text cannot be read; the report says why."""


class _Anchor(NamedTuple):
    node: Located
    size: int
    """How many values it stands for, those behind its own aliases too."""
    height: int
    """How many lists and mappings are nested in it, itself too."""


class _Composer:
    def __init__(self, events: Iterator[Any], report: Report, hidden: dict[int, str]) -> None:
        self._events = events
        self._report = report
        self._hidden = hidden
        self._anchors: dict[str, _Anchor | None] = {}  # None while the value is being read
        self._seen = 0
        self._aliased = 0
        self._deepest = 0

    def document(self) -> Located | None:
        next(self._events)  # the start of the stream
        opening = next(self._events)
        first = None if isinstance(opening, ev.StreamEndEvent) else next(self._events)
        if first is None or _is_nothing(first):
            self._report.error("empty-file", "the file is empty")
            return None
        root = self._value(first, 1)
        next(self._events)  # the end of the document
        more = next(self._events)
        if isinstance(more, ev.DocumentStartEvent):
            self._error("several-documents", "a second document starts here", more, "use one file for each")
        return root

    def _error(self, code: str, message: str, event: Any, hint: str = "") -> None:
        self._report.error(code, message, _start(event), hint)

    def _value(self, event: Any, depth: int) -> Located:
        if isinstance(event, ev.AliasEvent):
            return self._alias(event, depth)
        self._seen += 1
        if event.tag is not None:
            self._refuse_tag(event)
        return self._content(event, depth) if event.anchor is None else self._anchored(event, depth)

    def _content(self, event: Any, depth: int) -> Located:
        if isinstance(event, ev.ScalarEvent):
            return self._scalar(event)
        self._descend(event, depth)
        if isinstance(event, ev.SequenceStartEvent):
            return self._list(event, depth)
        return self._mapping(event, depth)

    def _descend(self, event: Any, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            self._error("too-deep", f"the text is nested more than {MAX_DEPTH} deep here", event)
            raise _UnreadableError

    def _refuse_tag(self, event: Any) -> None:
        tag = event.tag.replace("tag:yaml.org,2002:", "!!")
        hint = "leave the tag out; text that starts with ! needs quotes"
        self._error("tag", f"tags such as {_shown(tag)} are not allowed", event, hint)

    # Anchors

    def _anchored(self, event: Any, depth: int) -> Located:
        self._anchors[event.anchor] = None
        seen, above = self._seen, self._deepest
        self._deepest = depth - 1
        node = self._content(event, depth)
        self._anchors[event.anchor] = _Anchor(node, self._seen - seen + 1, self._deepest - depth + 1)
        self._deepest = max(above, self._deepest)
        return node

    def _alias(self, event: Any, depth: int) -> Located:
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            self._refuse_alias(event)
            return Located(None, *_start(event))
        self._seen += anchor.size
        self._aliased += anchor.size
        if self._aliased > MAX_ALIASED:
            message = f"the aliases up to here stand for more than {MAX_ALIASED:,} values"
            self._error("alias-bomb", message, event, "write the values out, or use fewer aliases")
            raise _UnreadableError
        self._descend(event, depth - 1 + anchor.height)
        return anchor.node

    def _refuse_alias(self, event: Any) -> None:
        if event.anchor in self._anchors:
            message = f"the alias {_shown('*' + event.anchor)} stands inside the value that it names"
            self._error("recursive-alias", message, event)
        else:
            message = f"there is no anchor {_shown('&' + event.anchor)} above"
            self._error("unknown-alias", message, event, "text that starts with * needs quotes")

    # Lists and mappings

    def _list(self, event: Any, depth: int) -> Located:
        items = []
        while not isinstance(item := next(self._events), ev.SequenceEndEvent):
            items.append(self._value(item, depth + 1))
        return Located(items, *_start(event))

    def _mapping(self, event: Any, depth: int) -> Located:
        values: dict[str, Located] = {}
        places: _Places = {}
        merged: Located | None = None
        while not isinstance(key := next(self._events), ev.MappingEndEvent):
            name = self._key(key, depth)
            item = self._value(next(self._events), depth + 1)
            if name is None:
                continue
            if name in places:
                self._refuse_duplicate(name, places[name], key)
                continue
            places[name] = _start(key)
            if name == "<<" and not key.style:
                merged = item
            else:
                values[name] = item
        if merged is not None:
            others, theirs = self._merged(merged, places.pop("<<"))
            values, places = others | values, theirs | places
        line, column = _start(event)
        return Located(values, line, column, places)

    def _refuse_duplicate(self, name: str, first: tuple[int, int], key: Any) -> None:
        message = f"the key {_shown(name)} is already on line {first[0]}"
        self._error("duplicate-key", message, key, "take out one of the two")

    def _merged(self, node: Located, at: tuple[int, int]) -> tuple[dict[str, Located], _Places]:
        """The entries behind `<<`; of several mappings, the first that has a key wins."""
        values: dict[str, Located] = {}
        places: _Places = {}
        for source in node.value if isinstance(node.value, list) else [node]:
            if isinstance(source.value, dict):
                for name, place in (source.keys or {}).items():
                    values.setdefault(name, source.value[name])
                    places.setdefault(name, place)
            elif source.value is not None:  # an alias that was refused has been reported
                self._report.error("bad-merge", "<< can only take in mappings", at)
        return values, places

    def _key(self, event: Any, depth: int) -> str | None:
        if isinstance(event, ev.ScalarEvent):
            if event.tag is not None:
                self._refuse_tag(event)
            text = self._text(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchor(Located(text, *_start(event)), 1, 0)
            return text
        hint = "" if isinstance(event, ev.AliasEvent) else "text that starts with { or [ needs quotes"
        self._error("complex-key", "a key must be plain text", event, hint)
        self._value(event, depth + 1)
        return None

    # Scalars

    def _scalar(self, event: Any) -> Located:
        text = self._text(event)
        line, column = _start(event)
        if event.style:
            return Located(text, line, column)
        try:
            return Located(plain_value(text), line, column)
        except OverflowError:
            hint = "put it in quotes if it is text"
            self._error("number-too-long", f"the number has more than {MAX_DIGITS:,} digits", event, hint)
            return Located(text, line, column)

    def _text(self, event: Any) -> str:
        text: str = event.value
        if text.isascii():
            return text
        if self._hidden:
            text = text.translate(self._hidden)
        if _SURROGATE.search(text):
            text = self._with_pairs_joined(text, event)
        return text

    def _with_pairs_joined(self, text: str, event: Any) -> str:
        data = text.encode("utf-16-le", "surrogatepass")
        try:
            return data.decode("utf-16-le")
        except UnicodeDecodeError:
            hint = "escapes from \\ud800 to \\udfff only stand for a character in pairs"
            self._error("lone-surrogate", "the text holds half of a surrogate pair", event, hint)
            return data.decode("utf-16-le", "replace")


def _start(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _is_nothing(event: Any) -> bool:
    return isinstance(event, ev.ScalarEvent) and not (event.value or event.style or event.tag or event.anchor)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
