"""Keyword conditions: substrings by default, whole words on request, verdicts, and everything else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roundel
from roundel.nodes.loading import check as check_workflow
from roundel.workflow.condition import Keyword, contains_word, strip_marks


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
    _, report = check_workflow(_workflow({"regex": ["ACCEPT"], "word": True}))
    [found] = report.diagnostics
    assert (found.code, found.severity) == ("without-effect", "warning")
    assert "'word'" in found.message


@pytest.mark.parametrize(
    ("text", "begins", "only"),
    [
        ("ACCEPT", True, True),
        ("  ACCEPT.\n", True, True),
        ("**ACCEPT.**", True, True),
        ('> "ACCEPT!"', True, True),
        ("`ACCEPT`", True, True),
        ("## ACCEPT\n\nWell done.", True, False),
        ("- _ACCEPT_ -", True, True),
        ("\u201cACCEPT\u201d", True, True),
        ("\u300cACCEPT\u300d\u3002", True, True),
        ("ACCEPT\uff01", True, True),
        ("ACCEPT: nothing is left to change", True, False),
        ("ACCEPT, but shorten it", True, False),
        ("ACCEPTED", False, False),
        ("ACCEPT_ALL", False, False),
        ("UNACCEPTABLE", False, False),
        ("I can't say ACCEPT yet", False, False),
        ("accept", False, False),
        ("", False, False),
        ("...", False, False),
    ],
)
def test_verdict_is_what_a_text_begins_with_or_consists_of(text: str, begins: bool, only: bool) -> None:
    assert holds(text, begins=("ACCEPT",)) is begins
    assert holds(text, only=("ACCEPT",)) is only
    assert holds(text, begins=("ACCEPT",), negate=True) is not begins


def test_verdicts_of_several_words_in_several_scripts() -> None:
    assert holds("Looks good to me, ship it", begins=("LGTM", "Looks good"))
    assert not holds("Looks goodish", begins=("Looks good",))
    assert holds("\u300e通过\u300f\uff0c可以发布", begins=("通过",))
    assert not holds("不通过", begins=("通过",))
    assert holds("通过\u3002", only=("通过",))


def test_verdicts_compare_the_case_as_the_condition_says() -> None:
    assert holds("Accept.", only=("ACCEPT",), case_sensitive=False)
    assert holds("> accept this", begins=("ACCEPT",), case_sensitive=False)
    assert holds("STRASSE", only=("straße",), case_sensitive=False)


def test_marks_around_the_words_of_the_condition_do_not_count_either() -> None:
    assert holds("ACCEPT", only=('"ACCEPT."',))
    assert holds("**ACCEPT** it", begins=("**ACCEPT**",))


def test_order_of_the_lists() -> None:
    lists: dict[str, Any] = {"none": ("but",), "any": ("fine",), "begins": ("ACCEPT",), "regex": (r"\d+/10",)}
    assert not holds("ACCEPT, but 9/10", **lists)
    assert holds("ACCEPT", **lists)
    assert holds("it is fine", **lists)
    assert holds("9/10", **lists)
    assert not holds("no", **lists)
    assert holds("no", none=("but",))
    assert not holds("no", none=("but",), only=("yes",))


@given(
    st.text(alphabet="aA b*_.\u300c", max_size=8),
    st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(["a", "A b", "b."])) for key in ("any", "none", "begins", "only")}
    ),
    st.booleans(),
)
def test_negation_is_true_for_exactly_the_other_texts(text: str, lists: dict[str, Any], case: bool) -> None:
    config = {key: tuple(words) for key, words in lists.items()} | {"case_sensitive": case}
    assert holds(text, **config) is not holds(text, **config, negate=True)


def test_marks_of_a_long_text_are_stripped_in_one_pass() -> None:
    assert strip_marks("*_" * 500_000 + "x" + ".!" * 500_000) == "x"


def test_loop_ends_with_the_verdict_and_not_with_its_mention() -> None:
    graph = roundel.Graph(start="Writer", end="Final").node("Writer", "agent").node("Reviewer", "agent")
    graph.node("Final", "literal", content="done").edge("Writer", "Reviewer")
    verdict = {"type": "keyword", "config": {"begins": "ACCEPT"}}
    other = {"type": "keyword", "config": {"begins": "ACCEPT", "negate": True}}
    graph.edge("Reviewer", "Final", condition=verdict).edge("Reviewer", "Writer", condition=other)
    replies = ["I can't say ACCEPT yet", "Still not.", "**ACCEPT.** Well done."]
    result = roundel.run(graph, "tea", script={"Writer": "a draft", "Reviewer": replies})
    assert result.nodes == {"Writer": 3, "Reviewer": 3, "Final": 1}


def test_words_of_marks_alone_are_a_warning() -> None:
    _, report = check_workflow(_workflow({"begins": ["**", "ACCEPT"]}))
    [found] = report.diagnostics
    assert (found.code, found.severity) == ("without-effect", "warning")
    assert "'**' under 'begins'" in found.message
