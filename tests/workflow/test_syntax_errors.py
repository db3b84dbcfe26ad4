"""Syntax errors: their reported locations and texts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text
from tests.workflow.parsing import PARSERS, parsed_by, problems


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("a:\n\tb: 1", 2, 1, "a tab", "spaces"),
        ("a: 1\n\tb: 2", 2, 1, "a tab", "spaces"),
        ("a: 1\nkey\nb: 2", 2, 1, "no colon", "key: value"),
        ("graph\n  id: x", 2, 5, "not allowed here", "colon"),
        ("a:1\nb: 2", 2, 2, "not allowed here", "space after"),
        ("a: 1\n  b: 2", 2, 4, "not allowed here", "indented too far"),
        ("a:\n    b: 1\n  c: 2", 3, 3, "does not fit", "same column"),
        ("- a\nb: 1", 2, 1, "does not fit", "same column"),
        ("a: [1, 2\n", 1, 4, "never closed", "missing ]"),
        ("x: 1\na: {b: 1", 2, 4, "never closed", "missing ]"),
        ("a: [1, 2\nb: 3", 2, 2, "closing bracket is missing", "line 1"),
        ("a: [1,, 2]", 1, 7, "a value is missing", "quotes"),
        ('a: "x\nb: 1\n', 1, 4, "quote is never closed", "closing quote"),
        ("a: 'x\nb: 1\n", 1, 4, "quote is never closed", "closing quote"),
        ("a: note: this", 1, 8, "second `: `", "needs quotes"),
        ("a: {b} c", 1, 8, "after the closing bracket", "in quotes"),
        ("a: 'it's'", 1, 8, "after the closing quote", "apostrophe"),
        ('a: "b" c', 1, 8, "after the closing quote", "in quotes"),
        ("a: @b", 1, 4, "cannot start with @", "in quotes"),
        ("a: `b`", 1, 4, "cannot start with `", "in quotes"),
        ("a: %b", 1, 4, "cannot start with %", "in quotes"),
        ("%b: 1", 1, 1, "cannot start with %", "in quotes"),
        ("a: **bold**", 1, 4, "cannot start with *", "in quotes"),
        ("a: & b", 1, 4, "cannot start with &", "in quotes"),
        ("a: }", 1, 4, "cannot start with }", "in quotes"),
        ("a: !x!y z", 1, 4, "cannot start with !", "in quotes"),
        ("a: {b: ${NAME}}", 1, 9, "placeholder", '"${NAME}"'),
        ("a: [${NAME}]", 1, 6, "placeholder", '"${NAME}"'),
        ("a: - b", 1, 4, "list cannot start", "line of its own"),
        ("a: ? b", 1, 4, "`? ` is not allowed", "in quotes"),
        ("a: > b", 1, 6, "may follow | or >", "next line"),
        ("a: 'x\n---\n'", 2, 1, "inside quotes", "closing quote"),
        ("{a: 1} b", 1, 8, "after the end", "brackets"),
    ],
)
def test_syntax_errors_have_plain_messages(
    parser: Any, text: str, line: int, column: int, message: str, hint: str
) -> None:
    report = Report()
    with parsed_by(parser):
        assert read_text(text, report) is None
    [found] = report.errors
    assert (found.code, found.line, found.column) == ("syntax", line, column)
    assert message in found.message and hint in found.hint


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", [r'a: "C:\quiz"', r'a: "\u12"', r'a: "\U99999999"', "%YAML 9.9\n---\na"])
def test_escapes_and_directives_that_mean_nothing_are_syntax_errors(parser: Any, text: str) -> None:
    with parsed_by(parser):
        assert [code for code, _, _ in problems(text)] == ["syntax"]


def test_a_colon_without_a_space_inside_brackets_is_explained() -> None:
    """Files are read by libyaml, which every wheel of PyYAML has; its slower parser takes this for text."""
    fast, slow = PARSERS
    assert fast is yaml.CSafeLoader
    report = Report()
    with parsed_by(fast):
        assert read_text("a: {b:[1]}", report) is None
    assert [(found.line, found.column) for found in report.errors] == [(1, 6)]
    assert "space after" in report.errors[0].hint
    with parsed_by(slow):
        assert problems("a: {b:[1]}") == []


def test_json_error_after_json_only_escapes_is_located() -> None:
    report = Report()
    assert read_text('{"a": "\\ud83d\\ude00",\n "b": 1\n "c": 2}', report) is None
    [found] = report.errors
    assert (found.line, found.column) == (3, 2)
    assert "',' delimiter" in found.message


def test_a_mistake_in_other_json_is_explained_like_yaml() -> None:
    assert problems('{"a": 1\n "b": 2}') == [("syntax", 2, 5)]
