"""YAML texts: the characters that they may hold, and what is read back from quotes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text
from tests.workflow.parsing import PARSERS, parsed_by, problems, read

texts_only = st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


def test_separators_of_unicode_are_text_and_not_line_breaks() -> None:
    text = "prompt: |\n  one\u2028two\u2029three\x85four\nother: 'x\u2028\U000f0000'\nother: 1\n"
    report = Report()
    root = read_text(text, report)
    assert root is not None and root.plain() == {
        "prompt": "one\u2028two\u2029three\x85four\n",
        "other": "x\u2028\U000f0000",
    }
    assert [(found.code, found.line) for found in report.errors] == [("duplicate-key", 4)]


def test_control_characters_are_located_one_by_one() -> None:
    assert problems("a: \x00\nb: x\x07\x1b\n\x7fc: \ufffe") == [
        ("control-character", 1, 4),
        ("control-character", 2, 5),
        ("control-character", 2, 6),
        ("control-character", 3, 1),
        ("control-character", 3, 5),
    ]
    assert len(problems("\x01" * 100_000)) == 20


def test_text_with_a_lone_surrogate_is_rejected() -> None:
    assert problems("a: \ud83d") == [("control-character", 1, 4)]


@given(texts_only, st.booleans(), st.sampled_from(PARSERS))
@settings(deadline=timedelta(seconds=5))
def test_quoted_yaml_round_trips(value: Any, unicode: bool, parser: Any) -> None:
    text = yaml.safe_dump(value, default_style='"', allow_unicode=unicode)
    with parsed_by(parser):
        assert read("# not JSON\n" + text) == value
