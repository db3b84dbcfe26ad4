"""Regular expressions of users: Python's meaning, and an end in any case."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import roundel
from roundel.workflow.pattern import MAX_LENGTH, Pattern, PatternError
from tests.deadline import Deadline

ENDLESS = r"^(\w+\s?)*$"
LETTERS = "a" * 49 + "!"
SLOW = r"(x+x+)+y"


def run(graph: dict[str, Any], text: str, script: dict[str, Any] | None = None) -> tuple[str, str]:
    result = roundel.run({"graph": graph}, text, script=script or {})
    return result.status, str(result.error)


within = Deadline(run)


def two(**edge: Any) -> dict[str, Any]:
    nodes = [{"id": "A", "type": "passthrough"}, {"id": "B", "type": "passthrough"}]
    return {"nodes": nodes, "edges": [{"from": "A", "to": "B", **edge}], "start": "A", "end": "B"}


# A pattern that takes too long


@pytest.mark.parametrize("pattern", [r"^(\w+\s?)*$", r"(x+x+)+y", r"(a|aa)+$", r"(.*)*,(.*)*;"])
def test_slow_pattern_in_a_condition_terminates(pattern: str) -> None:
    condition = {"type": "keyword", "config": {"regex": pattern}}
    text = "x" * 5000 + "a" * 5000 + "!"
    status, error = within(two(condition=condition), text)
    if status == "failed":
        assert error.startswith("A: the condition on ") and repr(pattern) in error


def slow(where: str, graph: dict[str, Any], address: str = "A") -> None:
    status, error = within(graph, "x" * 10_000)
    assert status == "failed"
    assert error.startswith(f"{address}: {where} failed: the pattern '{SLOW}' took more than 0.5 seconds")
    assert "make it simpler" in error


def test_slow_condition_fails_its_node_and_is_named() -> None:
    condition = {"type": "keyword", "config": {"regex": ["y", SLOW]}}
    slow("the condition on A → B", two(condition=condition))


def test_slow_processor_fails_its_node() -> None:
    process = {"type": "regex_extract", "config": {"pattern": SLOW, "multiple": True}}
    slow("the processor on A → B", two(process=process))


def test_slow_split_fails_its_target_node() -> None:
    dynamic = {"type": "map", "split": {"type": "regex", "config": {"pattern": SLOW}}}
    slow("the split on A → B", two(dynamic=dynamic), "B")


def test_slow_score_fails_its_loop() -> None:
    nodes = [
        {"id": "A", "type": "passthrough"},
        {"id": "L", "type": "loop", "config": {"max_rounds": 2, "score": {"regex": SLOW}}},
    ]
    nodes.append({"id": "End", "type": "passthrough"})
    ways = (("A", "L", None), ("L", "A", "continue"), ("L", "End", "exit"))
    edges = [{"from": one, "to": other, **({"port": port} if port else {})} for one, other, port in ways]
    slow("'score'", {"nodes": nodes, "edges": edges, "start": "A", "end": "End"}, "A[1]/L")


def test_a_pattern_that_never_ended_may_simply_not_match() -> None:
    condition = {"type": "keyword", "config": {"regex": ENDLESS}}
    assert within(two(condition=condition), LETTERS) == ("completed", "None")


# Python's meaning

DIFFERENT = [
    ("[[:alpha:]]+", "a:]] [:]"),
    ("x{e}", "x{e} y"),
    ("(?:ab){e<=1}", "ab{e<=1} ac"),
    ("[!--b]", "ab-!"),
    ("[a&&b]", "ab&"),
    ("[a||b~~c]", "abc|~"),
    (r"\w+", "नमस्ते x² ½ a‿b"),
    (r"\b\w", "请ACCEPT吧 é-b"),
    (r"\s", "a\x1cb\x1f\u2028"),
    (r"[^\d\D]|x", "1ax"),
    ("(?i)i+", "iIİı"),
    ("(?i)straße", "STRASSE straße STRAẞE"),
    ("(?i:x)|[^ab]", "abABxX"),
    ("(?i)[^a-z]", "aKſıé1"),
    ("ACCEPT$", "ACCEPT\n"),
    (r"([^A-Z]\S*){2,}+\S*", "σAa"),
    ("x*", "axb"),
    ("(?m)^$|a", "\n\na\n"),
    (r"(?P<a>.)(?P=a)", "abba"),
    (r"(a)?(?(1)b|c)", "abc"),
    (r"\B", ""),
    (r"(?a)\w+", "aé1"),
    ("(?ai)k", "kKK"),
    (r"(?x) a  b # c", "ab"),
    ("(?s:.)(?-s:.)", "\n\na"),
]


def matches(pattern: str, text: str) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expected = [(found.span(), found.groups()) for found in re.finditer(pattern, text)]
    found = [(match.span(), match.groups()) for match in Pattern(pattern).finditer(text)]
    first = Pattern(pattern).search(text)
    assert (first.span() if first else None) == (expected[0][0] if expected else None)
    return found, expected


compared = Deadline(matches)


@pytest.mark.parametrize(("pattern", "text"), DIFFERENT)
def test_patterns_read_differently_by_the_engine_follow_python(pattern: str, text: str) -> None:
    found, expected = matches(pattern, text)
    assert found == expected


def test_case_folding_matches_python() -> None:
    cased = [chr(code) for code in range(0x2D30) if chr(code).upper() != chr(code).lower()]
    text = "".join(cased)
    for letter in cased[::7]:
        found = [match[0] for match in Pattern(letter, re.IGNORECASE).finditer(text)]
        assert found == re.findall(letter, text, re.IGNORECASE), letter


ALPHABET = "abAB 1_-\n\tiIİsſkKéÉσς写\u0301½\x1c😀[]{}(&~|^$"
LITERALS = st.sampled_from(ALPHABET).map(re.escape)
CLASSES = st.sampled_from([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S"])
PARTS = st.one_of(
    LITERALS, CLASSES, st.sampled_from(["a-c", "A-Z", "!-~", "[", ":alpha:", "--", "&&", "{e}"])
)
SETS = st.builds(
    "[{}{}]".format, st.sampled_from(["", "^"]), st.lists(PARTS, min_size=1, max_size=4).map("".join)
)
PLACES = st.sampled_from(
    [".", r"\b", r"\B", "^", "$", r"\A", r"\Z", "{e<=1}", "(?<=a)", r"(?<!\w)", "(?<=[^b]b)"]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "*?", "+?", "??"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    opening = st.sampled_from(["(?:", "(", "(?i:", "(?s:", "(?m:", "(?=", "(?!", "(?>"])
    group = st.builds("{}{})".format, opening, st.lists(inner, min_size=1, max_size=2).map("|".join))
    # What can match nothing is not repeated: what its groups hold then is not worth agreeing on.
    one = st.one_of(LITERALS, SETS, CLASSES, st.just("(?:ab)"), st.just("(a|b)"))
    return st.lists(st.one_of(group, st.builds("{}{}".format, one, QUANTIFIERS), PLACES), max_size=4).map(
        "".join
    )


PATTERNS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "(?i)", "(?m)", "(?s)", "(?im)"]),
    st.recursive(LITERALS, larger, max_leaves=8),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(PATTERNS, st.text(ALPHABET, max_size=8))
def test_patterns_match_like_python(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(pattern)
        except re.error:
            assume(False)
    found, expected = compared(pattern, text)
    assert found == expected


# What is refused


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\p{L}", "bad escape"),
        ("(?R)", "unknown extension"),
        ("(?|a|b)", "unknown extension"),
        (r"\L<words>", "bad escape"),
        ("(?<=a*)b", "look-behind requires fixed-width"),
        ("(?<=(a))b", "look-behind"),
        ("(" * 5000, "at most 5000|nested too deeply"),
        ("(" * 150 + "a" + ")" * 150, "nested more than 100 deep"),
        ("(?:" * 30 + "a" + ")+" * 30, "repeats too much"),
        ("a{1000000}", "repeats too much"),
        ("a" * (MAX_LENGTH + 1), "at most 5000"),
        ("(?i)" + r"\b" * 2000, "too large"),
    ],
)
def test_unsupported_patterns_are_rejected(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        Pattern(pattern)


@pytest.mark.parametrize(
    "edge",
    [
        {"condition": {"type": "keyword", "config": {"regex": r"(?a)(x)\1", "case_sensitive": False}}},
        {"process": {"type": "regex_extract", "config": {"pattern": r"(?a)(x)\1", "case_sensitive": False}}},
        {
            "dynamic": {
                "type": "map",
                "split": {"type": "regex", "config": {"pattern": r"(?a)(x)\1", "case_sensitive": False}},
            }
        },
    ],
)
def test_pattern_is_checked_with_its_flags(edge: dict[str, Any]) -> None:
    with pytest.raises(roundel.WorkflowError, match=r"both \(\?a\) and \(\?i\)"):
        roundel.run({"graph": two(**edge)})


def test_single_match_stops_at_the_first_match() -> None:
    process = {"type": "regex_extract", "config": {"pattern": "(x+x+)+y|z"}}
    graph = two(process=process)
    assert within(graph, "z" + "x" * 10_000) == ("completed", "None")


def test_invalid_pattern_is_a_workflow_error() -> None:
    condition = {"type": "keyword", "config": {"regex": ["fine", r"\p{L}"]}}
    with pytest.raises(roundel.WorkflowError) as refused:
        roundel.run({"graph": two(condition=condition)})
    found = [(one.code, one.message) for one in refused.value.diagnostics]
    assert found == [("bad-pattern", r"cannot read the pattern '\\p{L}': bad escape \p at position 0")]
