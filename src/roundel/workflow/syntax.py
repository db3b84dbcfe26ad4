"""Syntax errors in plain words."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias

import yaml

from roundel.workflow.diagnostics import Report
from roundel.workflow.located import line_and_column

_Words: TypeAlias = tuple[str, str, tuple[int, int]]

_NEEDS_QUOTES = "put the text in quotes"
_BACKSLASH = "write \\\\ for a backslash, or use single quotes"
_QUOTED_VALUE = re.compile(r"""(?:^|:\s|-\s)\s*(["'{\[])""")
_BAD_STARTS: Final = ("cannot start any token", "alphabetic or numeric", "directive", "tag", "block node")
# A piece of the parser's message, ours, and a hint. PyYAML has two parsers, which differ in words.
_IN_WORDS: Final = (
    ("sequence entries are not allowed", "a list cannot start here", "start it on a line of its own"),
    ("mapping keys are not allowed", "a `? ` is not allowed here", _NEEDS_QUOTES),
    ("unexpected ':'", "a colon inside brackets", f"write a space after it, or {_NEEDS_QUOTES}"),
    ("escape code", "this escape is not a character", "write the character itself"),
    ("escape", "this escape is not known", _BACKSLASH),
    ("hex", "the digits of this escape are not complete", _BACKSLASH),
    ("document start", "there is more text after the end", "check quotes, brackets and indentation"),
    ("unexpected document", "a line --- or ... stands inside quotes", "is a closing quote missing above?"),
    (
        "block scalar",
        "no text may follow | or > on this line",
        f"start it on the next line, or {_NEEDS_QUOTES}",
    ),
)


class _Fault:
    """A syntax error, and the text around it."""

    def __init__(self, error: yaml.MarkedYAMLError, text: str) -> None:
        mark: Any = error.problem_mark
        opened: Any = error.context_mark or mark
        end = len(text.rstrip())
        self.problem = f"{error.problem} {error.context or ''}"
        self.at = line_and_column(text, min(mark.index, end))
        self.opened = line_and_column(text, min(opened.index, end))
        self.first = text[opened.index : opened.index + 1]
        self.line = text[text.rfind("\n", 0, mark.index) + 1 : mark.index]
        self.next = text[mark.index : mark.index + 1]
        self.ended = mark.index >= end


def report_syntax(error: yaml.MarkedYAMLError, json_error: Exception, text: str, report: Report) -> None:
    fault = _Fault(error, text)
    message, hint, where = _explained(fault)
    # In JSON with a mistake, surrogate pairs are a problem of the parser, not of the author.
    if "escape code" in fault.problem and isinstance(json_error, json.JSONDecodeError):
        message, hint = f"this is not valid JSON: {json_error.msg.lower()}", ""
        where = (json_error.lineno, json_error.colno)
    report.error("syntax", message, where, hint)


def _explained(fault: _Fault) -> _Words:
    problem = fault.problem
    if "tab character" in problem or fault.next == "\t":
        return "a tab is used for indentation", "indent with spaces", fault.at
    if "end of stream" in problem:
        return "this quote is never closed", "add the closing quote", fault.opened
    if "',' or" in problem or "flow node" in problem:
        return _explained_brackets(fault)
    if "mapping values" in problem:
        return _explained_colon(fault)
    if "could not find expected ':'" in problem:
        return "this line has no colon", "write `key: value`", fault.opened
    if "block mapping" in problem or "block collection" in problem:
        return _explained_block(fault)
    if any(piece in problem for piece in _BAD_STARTS):
        return f"text cannot start with {fault.first}", _NEEDS_QUOTES, fault.opened
    for piece, message, hint in _IN_WORDS:
        if piece in problem:
            return message, hint, fault.at
    return f"the text cannot be read: {problem.strip()}", "", fault.at


def _explained_brackets(fault: _Fault) -> _Words:
    if fault.ended:
        return "a bracket is opened and never closed", "add the missing ] or }", fault.opened
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


def _explained_colon(fault: _Fault) -> _Words:
    if ": " in fault.line:
        return "a second `: ` in one line", "text that holds `: ` needs quotes", fault.at
    hint = "does the line above lack its colon, or the space after it, or is this line indented too far?"
    return "a key is not allowed here", hint, fault.at


def _explained_block(fault: _Fault) -> _Words:
    quoted = _QUOTED_VALUE.search(fault.line)
    if quoted is None:
        hint = "the lines of one block start in the same column"
        return "this line does not fit the lines above", hint, fault.at
    if quoted[1] in "\"'":
        hint = "put the whole text in quotes; inside '…' write an apostrophe twice"
        return "there is more text after the closing quote", hint, fault.at
    return "there is more text after the closing bracket", "put the whole text in quotes", fault.at
