"""Parses YAML and strict JSON into located values, and explains syntax errors in plain words.

The stages, from text to tree:

    json_events     strict JSON to events
    compose_yaml    YAML to events, by PyYAML's parser (the C one where it is installed)
    _Composer       events to a tree of `Located` values
    parse_scalar    a plain scalar to a value, by the core schema of YAML 1.2

Why not `yaml.safe_load`: it drops locations, accepts duplicate keys, expands aliases without a bound,
and follows YAML 1.1, in which `no` is false, `1:30` is ninety and `010` is eight. The composer takes
only events from PyYAML and decides what they mean. It reports an error for what is unsafe or ambiguous
(tags, duplicate keys, complex keys, aliases inside their own anchors), and continues, so that one pass
finds as many problems as possible. Only a problem that makes the rest unreadable aborts (`_AbortError`).

Why JSON has an event source of its own: parsers of YAML 1.1 reject some valid JSON, such as surrogate
pairs in escapes, tabs as indentation, and long keys. The text is validated by the `json` module first,
so that `json_events` can be a tokenizer that does not check anything.

Both sources produce the events of PyYAML. Their marks count from 0; `_start_position` converts them.
Rejected: to walk PyYAML's node graph (`yaml.compose`), which resolves aliases before a bound can be
applied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml
from yaml import events as ev

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import MAX_DEPTH, Located, line_and_column

MAX_DIGITS: Final = 4000
"""Python refuses to convert integers of more than 4300 digits to text, and error messages quote
values."""

_SCALAR_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER = re.compile(
    r"(?P<decimal>[-+]?[0-9]+)|0o(?P<octal>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_BASES: Final = {"decimal": 10, "octal": 8, "hex": 16}
_MAX_INTEGER: Final = 10**MAX_DIGITS


def parse_scalar(text: str) -> bool | int | float | str | None:
    """The value of a plain (unquoted) scalar by the YAML 1.2 core schema: only null, true, false,
    integers, floats and text. Raises OverflowError for an integer with too many digits.

    Not `int()` and `float()` on trial: these accept `1_000`, `nan` and other scripts' digits, which are
    text."""
    if text in _SCALAR_WORDS:
        return _SCALAR_WORDS[text]
    # Most scalars are text; a look at the first character saves them the regular expression.
    match = _NUMBER.fullmatch(text) if text[0] in "+-.0123456789" else None
    if match is None:
        return text
    if match.lastgroup is None:
        return float(text)
    return _parse_integer(match[match.lastgroup], _BASES[match.lastgroup])


def _parse_integer(digits: str, base: int) -> int:
    # Counted before the conversion, which takes quadratic time; the second check is for hex, of which
    # 4000 digits are 4800 decimal ones.
    if len(digits.lstrip("+-")) > MAX_DIGITS:
        raise OverflowError
    number = int(digits, base)
    if number > _MAX_INTEGER:
        raise OverflowError
    return number


MAX_ALIASED: Final = 100_000
"""How many values all aliases of a document may stand for. An alias is a reference to the same object,
so an "alias bomb" costs nothing here; but every later stage walks the tree as if it were expanded."""

_Places: TypeAlias = dict[str, tuple[int, int]]

_SURROGATE = re.compile("[\ud800-\udfff]")


def compose(
    events: Iterator[Any], report: Report, substitutes: dict[int, str] | None = None
) -> Located | None:
    """Composes the tree of one document; None, with an error in the report, if it is empty or cannot be
    read.

    `substitutes` maps the characters that `_substitute_line_breaks` has put in to the original ones."""
    try:
        return _Composer(events, report, substitutes or {}).document()
    except _AbortError:
        return None


class _AbortError(Exception):
    """The rest of the text cannot be read. The error is in the report already."""


class _Anchor(NamedTuple):
    """A value that aliases may refer to, with its size: an alias is checked without walking what it
    stands for."""

    node: Located
    size: int
    """The number of values in it, with its own aliases expanded."""
    height: int
    """The levels of nesting in it, counting itself."""


class _Composer:
    """Composes the events of one document into a tree, by recursive descent."""

    def __init__(self, events: Iterator[Any], report: Report, substitutes: dict[int, str]) -> None:
        self._events = events
        self._report = report
        self._substitutes = substitutes
        self._anchors: dict[str, _Anchor | None] = {}
        """None while the anchor's own value is being composed: an alias to it would be recursive."""
        self._value_count = 0
        """Values so far, aliases expanded; the difference before and after a value is the value's
        size."""
        self._aliased_count = 0
        self._deepest = 0
        """The deepest level since the innermost open anchor, from which the height of its value is
        computed."""

    def document(self) -> Located | None:
        """Composes the only document of the stream; None if it is empty. A second one is an error."""
        next(self._events)  # StreamStart
        opening = next(self._events)
        first = None if isinstance(opening, ev.StreamEndEvent) else next(self._events)
        if first is None or _is_empty(first):
            self._report.error("empty-file", "the file is empty")
            return None
        root = self._compose_value(first, 1)
        next(self._events)  # DocumentEnd
        more = next(self._events)
        if isinstance(more, ev.DocumentStartEvent):
            self._error("several-documents", "a second document starts here", more, "use one file for each")
        return root

    def _error(self, code: str, message: str, event: Any, hint: str = "") -> None:
        self._report.error(code, message, _start_position(event), hint)

    def _compose_value(self, event: Any, depth: int) -> Located:
        if isinstance(event, ev.AliasEvent):
            return self._compose_alias(event, depth)
        self._value_count += 1
        if event.tag is not None:
            # A tag selects a type, in PyYAML any Python class. It is reported and then ignored.
            self._refuse_tag(event)
        return (
            self._compose_content(event, depth)
            if event.anchor is None
            else self._compose_anchored(event, depth)
        )

    def _compose_content(self, event: Any, depth: int) -> Located:
        if isinstance(event, ev.ScalarEvent):
            return self._compose_scalar(event)
        self._check_depth(event, depth)
        if isinstance(event, ev.SequenceStartEvent):
            return self._compose_list(event, depth)
        return self._compose_mapping(event, depth)

    def _check_depth(self, event: Any, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            self._error("too-deep", f"the text is nested more than {MAX_DEPTH} deep here", event)
            raise _AbortError

    def _refuse_tag(self, event: Any) -> None:
        tag = event.tag.replace("tag:yaml.org,2002:", "!!")
        hint = "leave the tag out; text that starts with ! needs quotes"
        self._error("tag", f"tags such as {_quote(tag)} are not allowed", event, hint)

    # Anchors

    def _compose_anchored(self, event: Any, depth: int) -> Located:
        # An anchor may be defined again; later aliases refer to the later one. While it is being
        # composed, the earlier value is hidden.
        self._anchors[event.anchor] = None
        seen, above = self._value_count, self._deepest
        self._deepest = depth - 1
        node = self._compose_content(event, depth)
        self._anchors[event.anchor] = _Anchor(node, self._value_count - seen + 1, self._deepest - depth + 1)
        self._deepest = max(above, self._deepest)
        return node

    def _compose_alias(self, event: Any, depth: int) -> Located:
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            self._refuse_alias(event)
            # A null takes its place, so that composing continues; `_merge` and readers tolerate it.
            return Located(None, *_start_position(event))
        self._value_count += anchor.size
        self._aliased_count += anchor.size
        if self._aliased_count > MAX_ALIASED:
            message = f"the aliases up to here stand for more than {MAX_ALIASED:,} values"
            self._error("alias-bomb", message, event, "write the values out, or use fewer aliases")
            raise _AbortError
        self._check_depth(event, depth - 1 + anchor.height)
        # The shared object, not a copy: its locations are those of the anchor, where a mistake has to be
        # repaired.
        return anchor.node

    def _refuse_alias(self, event: Any) -> None:
        if event.anchor in self._anchors:
            message = f"the alias {_quote('*' + event.anchor)} is inside the value that it names"
            self._error("recursive-alias", message, event)
        else:
            message = f"there is no anchor {_quote('&' + event.anchor)} above"
            self._error("unknown-alias", message, event, "text that starts with * needs quotes")

    # Lists and mappings

    def _compose_list(self, event: Any, depth: int) -> Located:
        items = []
        while not isinstance(item := next(self._events), ev.SequenceEndEvent):
            items.append(self._compose_value(item, depth + 1))
        return Located(items, *_start_position(event))

    def _compose_mapping(self, event: Any, depth: int) -> Located:
        # Values of rejected and duplicate keys are composed all the same: their events have to be
        # consumed, and mistakes in them reported. The first of two equal keys wins.
        values: dict[str, Located] = {}
        places: _Places = {}
        merged: Located | None = None
        while not isinstance(key := next(self._events), ev.MappingEndEvent):
            name = self._compose_key(key, depth)
            item = self._compose_value(next(self._events), depth + 1)
            if name is None:
                continue
            if name in places:
                self._refuse_duplicate(name, places[name], key)
                continue
            places[name] = _start_position(key)
            # A quoted "<<" is an ordinary key. Merge keys are YAML 1.1 only, but widely used.
            if name == "<<" and not key.style:
                merged = item
            else:
                values[name] = item
        if merged is not None:
            others, theirs = self._merge(merged, places.pop("<<"))
            # The mapping's own keys win, wherever `<<` stands; merged keys come first in the order.
            values, places = others | values, theirs | places
        line, column = _start_position(event)
        return Located(values, line, column, places)

    def _refuse_duplicate(self, name: str, first: tuple[int, int], key: Any) -> None:
        message = f"the key {_quote(name)} is already on line {first[0]}"
        self._error("duplicate-key", message, key, "remove one of the two")

    def _merge(self, node: Located, at: tuple[int, int]) -> tuple[dict[str, Located], _Places]:
        """The entries of the mappings at `<<`. If several have the same key, the first one wins, as in
        YAML 1.1."""
        values: dict[str, Located] = {}
        places: _Places = {}
        for source in node.value if isinstance(node.value, list) else [node]:
            if isinstance(source.value, dict):
                for name, place in (source.keys or {}).items():
                    values.setdefault(name, source.value[name])
                    places.setdefault(name, place)
            elif source.value is not None:  # A rejected alias is null here, and has been reported.
                self._report.error("bad-merge", "<< can only take in mappings", at)
        return values, places

    def _compose_key(self, event: Any, depth: int) -> str | None:
        """A key is always text: `1: x` and `true: x` have the keys "1" and "true", as JSON would."""
        if isinstance(event, ev.ScalarEvent):
            if event.tag is not None:
                self._refuse_tag(event)
            text = self._text(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchor(Located(text, *_start_position(event)), 1, 0)
            return text
        hint = "" if isinstance(event, ev.AliasEvent) else "text that starts with { or [ needs quotes"
        self._error("complex-key", "a key must be plain text", event, hint)
        # The events of the key have to be consumed, to find its value and the keys after it.
        self._compose_value(event, depth + 1)
        return None

    # Scalars

    def _compose_scalar(self, event: Any) -> Located:
        text = self._text(event)
        line, column = _start_position(event)
        if event.style:
            return Located(text, line, column)
        try:
            return Located(parse_scalar(text), line, column)
        except OverflowError:
            hint = "put it in quotes if it is text"
            self._error("number-too-long", f"the number has more than {MAX_DIGITS:,} digits", event, hint)
            return Located(text, line, column)

    def _text(self, event: Any) -> str:
        text: str = event.value
        if text.isascii():
            return text
        if self._substitutes:
            text = text.translate(self._substitutes)
        if _SURROGATE.search(text):
            text = self._join_surrogates(text, event)
        return text

    def _join_surrogates(self, text: str, event: Any) -> str:
        """JSON escapes a character beyond U+FFFF as two surrogates. PyYAML's Python parser leaves them
        apart."""
        data = text.encode("utf-16-le", "surrogatepass")
        try:
            return data.decode("utf-16-le")
        except UnicodeDecodeError:
            hint = "escapes from \\ud800 to \\udfff represent a character only in pairs"
            self._error("lone-surrogate", "the text contains half of a surrogate pair", event, hint)
            return data.decode("utf-16-le", "replace")


def _start_position(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _is_empty(event: Any) -> bool:
    # `---` alone is a document with an empty scalar; a text of comments alone has no document at all.
    return isinstance(event, ev.ScalarEvent) and not (event.value or event.style or event.tag or event.anchor)


def _quote(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


_Explanation: TypeAlias = tuple[str, str, tuple[int, int]]

_NEEDS_QUOTES = "put the text in quotes"
_BACKSLASH = "write \\\\ for a backslash, or use single quotes"
_QUOTED_VALUE = re.compile(r"""(?:^|:\s|-\s)\s*(["'{\[])""")
# The texts below are matched against messages of PyYAML. A message that changes in a later version falls
# through to the parser's own words, so this table can only become less helpful, never wrong.
_BAD_STARTS: Final = ("cannot start any token", "alphabetic or numeric", "directive", "tag", "block node")
# A piece of the parser's message, our message, and a hint. The first piece that occurs wins, so the
# order matters: "escape code" before "escape". PyYAML has two parsers (C and Python), whose messages
# differ.
_EXPLANATIONS: Final = (
    ("sequence entries are not allowed", "a list cannot start here", "start it on a line of its own"),
    ("mapping keys are not allowed", "a `? ` is not allowed here", _NEEDS_QUOTES),
    ("unexpected ':'", "a colon inside brackets", f"write a space after it, or {_NEEDS_QUOTES}"),
    ("escape code", "this escape is not a character", "write the character itself"),
    ("escape", "this escape is not known", _BACKSLASH),
    ("hex", "the digits of this escape are not complete", _BACKSLASH),
    ("document start", "there is more text after the end", "check quotes, brackets and indentation"),
    ("unexpected document", "a line --- or ... is inside quotes", "is a closing quote missing above?"),
    (
        "block scalar",
        "no text may follow | or > on this line",
        f"start it on the next line, or {_NEEDS_QUOTES}",
    ),
)


class _SyntaxFault:
    """A syntax error with the text around it, from which `_explain` guesses what the author did."""

    def __init__(self, error: yaml.MarkedYAMLError, text: str) -> None:
        mark: Any = error.problem_mark
        opened: Any = error.context_mark or mark
        # The parser notices a missing quote or bracket at the end of the text. Pointing behind trailing
        # blank lines would help nobody, so locations are clamped to the last character.
        end = len(text.rstrip())
        self.problem = f"{error.problem} {error.context or ''}"
        # `at` is where the parser gave up, `opened` where the construct began; often the latter is the
        # mistake.
        self.at = line_and_column(text, min(mark.index, end))
        self.opened = line_and_column(text, min(opened.index, end))
        self.first = text[opened.index : opened.index + 1]
        self.line = text[text.rfind("\n", 0, mark.index) + 1 : mark.index]
        self.next = text[mark.index : mark.index + 1]
        self.ended = mark.index >= end


def report_syntax_error(
    error: yaml.MarkedYAMLError, json_error: Exception, text: str, report: Report
) -> None:
    """Reports the syntax error of a text that is neither YAML nor, for the reason given, JSON."""
    fault = _SyntaxFault(error, text)
    message, hint, where = _explain(fault)
    # Faulty JSON with surrogate pairs gets here: PyYAML fails on the pairs, which are valid in JSON.
    # What the author has to repair is the error of the JSON decoder.
    if "escape code" in fault.problem and isinstance(json_error, json.JSONDecodeError):
        message, hint = f"this is not valid JSON: {json_error.msg.lower()}", ""
        where = (json_error.lineno, json_error.colno)
    report.error("syntax", message, where, hint)


def _explain(fault: _SyntaxFault) -> _Explanation:
    """The message, the hint and the location for a syntax error.

    The parser reports what it expected; the author wants to know what to change. The same message of the
    parser has several usual causes, which the text around the location tells apart."""
    problem = fault.problem
    if "tab character" in problem or fault.next == "\t":
        return "a tab is used for indentation", "indent with spaces", fault.at
    if "end of stream" in problem:
        return "this quote is never closed", "add the closing quote", fault.opened
    if "',' or" in problem or "flow node" in problem:
        return _explain_brackets(fault)
    if "mapping values" in problem:
        return _explain_colon(fault)
    if "could not find expected ':'" in problem:
        return "this line has no colon", "write `key: value`", fault.opened
    if "block mapping" in problem or "block collection" in problem:
        return _explain_block(fault)
    if any(piece in problem for piece in _BAD_STARTS):
        return f"text cannot start with {fault.first}", _NEEDS_QUOTES, fault.opened
    for piece, message, hint in _EXPLANATIONS:
        if piece in problem:
            return message, hint, fault.at
    return f"the text cannot be read: {problem.strip()}", "", fault.at


def _explain_brackets(fault: _SyntaxFault) -> _Explanation:
    if fault.ended:
        return "a bracket is opened and never closed", "add the missing ] or }", fault.opened
    # `[${A}, ${B}]`: inside brackets, YAML reads the brace as the start of a mapping.
    if fault.line.endswith("$") and fault.next == "{":
        hint = 'inside { } and [ ] write "${NAME}" in quotes'
        return "a placeholder without quotes inside brackets", hint, fault.at
    if "flow node" in fault.problem:
        return (
            "a value is missing here",
            "inside brackets, text with special characters needs quotes",
            fault.at,
        )
    hint = f"the bracket of line {fault.opened[0]} is still open; text with brackets or colons needs quotes"
    return "a comma or a closing bracket is missing before this", hint, fault.at


def _explain_colon(fault: _SyntaxFault) -> _Explanation:
    if ": " in fault.line:
        return "a second `: ` in one line", "text that contains `: ` needs quotes", fault.at
    hint = "does the line above lack its colon, or the space after it, or is this line indented too far?"
    return "a key is not allowed here", hint, fault.at


def _explain_block(fault: _SyntaxFault) -> _Explanation:
    quoted = _QUOTED_VALUE.search(fault.line)
    if quoted is None:
        hint = "the lines of one block start in the same column"
        return "this line does not fit the lines above", hint, fault.at
    if quoted[1] in "\"'":
        hint = "put the whole text in quotes; inside '…' write an apostrophe twice"
        return "there is more text after the closing quote", hint, fault.at
    return "there is more text after the closing bracket", "put the whole text in quotes", fault.at


class _Mark(NamedTuple):
    """The part of `yaml.Mark` that the composer reads; counted from 0, as there."""

    line: int
    column: int


class _NotJsonError(ValueError):
    """Not JSON at all, in contrast to a JSONDecodeError: its position is not worth reporting."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(name)


# Numbers stay text, so that validating a long one costs nothing; `parse_scalar` converts and bounds it.
# NaN and Infinity, which the decoder accepts by default, are not JSON.
_STRICT_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
# Splits valid JSON into strings, brackets and other scalars; commas, colons and blanks separate and are
# skipped.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\]:,"]+')
_BRACKETS: Final[dict[str, Any]] = {
    "{": lambda mark: ev.MappingStartEvent(None, None, True, mark),
    "[": lambda mark: ev.SequenceStartEvent(None, None, True, mark),
    "}": ev.MappingEndEvent,
    "]": ev.SequenceEndEvent,
}


def find_json_error(text: str) -> Exception | None:
    """None if the text is strict JSON, else the reason why it is not."""
    # Nearly every workflow is YAML: one character decides, without a decoder that builds the whole
    # value.
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return _NotJsonError("does not look like JSON")
    try:
        _STRICT_DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return error
    return None


def json_events(text: str) -> Iterator[Any]:
    """The events of a text that `find_json_error` has accepted; the tokenizer checks nothing itself.

    Line numbers are counted between tokens, so that the whole takes linear time."""
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


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The complement of what YAML calls printable. PyYAML stops at the first such character, with an error
# that has no mark, so the text is searched before PyYAML gets it.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_MAX_FORBIDDEN_REPORTS: Final = 20
# YAML 1.1 treats these as line breaks, 1.2 as ordinary characters.
_YAML_1_1_BREAKS: Final = "\x85\u2028\u2029"


def compose_yaml(text: str, json_error: Exception, report: Report) -> Located | None:
    """Composes the tree of a YAML text. `json_error` is the reason why the text is not JSON."""
    if _report_forbidden_characters(text, report):
        return None
    text, substitutes = _substitute_line_breaks(text)
    try:
        # This is what yaml.parse does, without a Python frame for each event.
        return compose(iter(_Loader(text).get_event, None), report, substitutes)
    except (
        yaml.MarkedYAMLError
    ) as error:  # Errors without a mark concern forbidden characters, excluded above.
        report_syntax_error(error, json_error, text, report)
    except (ValueError, OverflowError):  # From PyYAML's Python scanner, for escapes beyond U+10FFFF.
        report.error("syntax", "the text contains an escape that is not a character")
    return None


def _report_forbidden_characters(text: str, report: Report) -> bool:
    found = list(islice(_FORBIDDEN.finditer(text), _MAX_FORBIDDEN_REPORTS))
    for match in found:
        message = f"the character U+{ord(match[0]):04X} is not allowed in a workflow file"
        report.error("control-character", message, line_and_column(text, match.start()), "remove it")
    return bool(found)


def _substitute_line_breaks(text: str) -> tuple[str, dict[int, str]]:
    """Replaces the line breaks of YAML 1.1 by private-use characters that the text does not contain.

    Returns the new text, and the table by which the composer restores the original characters. Each is
    replaced by one character, so locations stay correct."""
    if not any(character in text for character in _YAML_1_1_BREAKS):
        return text, {}
    private = (chr(code) for code in range(0xF0000, 0xFFFFE))
    spare = (character for character in private if character not in text)
    masks = dict(zip(spare, _YAML_1_1_BREAKS, strict=False))
    substitutes = text.translate({ord(odd): mask for mask, odd in masks.items()})
    return substitutes, {ord(mask): odd for mask, odd in masks.items()}
