"""Keyword conditions: substrings by default, whole words on request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roundel
from roundel.workflow.condition import Keyword, contains_word


def holds(text: str, **config: Any) -> bool:
    return Keyword(**config).test()(text)


def test_keywords_match_substrings() -> None:
    assert holds("This is UNACCEPTABLE.", any=("ACCEPT",))
    assert not holds("This is UNACCEPTABLE.", none=("ACCEPT",))


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("ACCEPT", "ACCEPT", True),
        ("I ACCEPT.", "ACCEPT", True),
        ("**ACCEPT**, well done", "ACCEPT", True),
        ("UNACCEPTABLE", "ACCEPT", False),
        ("ACCEPTED", "ACCEPT", False),
        ("ACCEPT_ALL", "ACCEPT", False),
        ("ACCEPT2", "ACCEPT", False),
        ("UNACCEPTABLE, then ACCEPT", "ACCEPT", True),
        ("accept", "ACCEPT", False),
        ("30 points", "3", False),
        ("3 points", "3", True),
        ("state: [DONE]ish", "[DONE]", True),
        ("état", "tat", False),
        ("cafe\u0301", "cafe", False),  # the accent is a character of its own
        ("e\u0301tat", "tat", False),
        ("ПРИНЯТО", "ПРИНЯТО", True),
        ("НЕПРИНЯТО", "ПРИНЯТО", False),
        ("승인 합니다", "승인", True),
        ("미승인", "승인", False),  # Korean has spaces between words
        ("评审已通过。", "通过", True),  # Chinese has none
        ("结果:ACCEPT通过", "ACCEPT", True),
        ("結果は承認です", "承認", True),
        ("コレハOKデス", "OK", True),
        ("ｺﾚﾊOKﾃﾞｽ", "OK", True),
        ("ผ่านแล้ว", "แล้ว", True),
        ("✅️ fine", "✅", True),
        ("aaa", "aa", False),
        ("aa aaa", "aa", True),
        ("", "a", False),
    ],
)
def test_keyword_matches_whole_words(text: str, word: str, found: bool) -> None:
    assert contains_word(text, word) is found
    assert holds(text, any=(word,), word=True) is found
    assert holds(text, none=(word,), word=True) is not found


def test_whole_words_match_in_any_case() -> None:
    assert holds("I accept", any=("ACCEPT",), word=True, case_sensitive=False)
    assert not holds("unacceptable", any=("ACCEPT",), word=True, case_sensitive=False)
    assert holds("die STRASSE", any=("straße",), word=True, case_sensitive=False)


def test_patterns_are_not_changed_by_word() -> None:
    assert holds("UNACCEPTABLE", any=("x",), regex=("ACCEPT",), word=True)


@given(st.text(alphabet="aA_ é\u0301过ー1.", max_size=12), st.text(alphabet="aé过", min_size=1, max_size=3))
def test_whole_word_is_a_substring_delimited_by_spaces(text: str, word: str) -> None:
    if contains_word(text, word):
        assert word in text
    assert contains_word(f"{text} {word} {text.lstrip(chr(0x301))}", word)


def _workflow(config: dict[str, Any]) -> dict[str, Any]:
    edge = {"from": "A", "to": "B", "condition": {"type": "keyword", "config": config}}
    nodes = [{"id": "A", "type": "agent"}, {"id": "B", "type": "passthrough"}]
    return {"graph": {"start": "A", "end": "B", "nodes": nodes, "edges": [edge]}}


def test_workflow_can_require_whole_words() -> None:
    source = _workflow({"any": ["ACCEPT"], "word": True})
    assert roundel.run(source, script={"A": "UNACCEPTABLE"}).output == ""
    assert roundel.run(source, script={"A": "ACCEPT."}).output == "ACCEPT."


def test_word_without_a_keyword_is_a_warning() -> None:
    _, report = roundel.check(_workflow({"regex": ["ACCEPT"], "word": True}))
    [found] = report.diagnostics
    assert (found.code, found.severity) == ("without-effect", "warning")
    assert "'word'" in found.message
