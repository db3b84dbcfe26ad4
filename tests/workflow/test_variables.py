"""Placeholders: the sources of their values, their types, and the diagnostics for missing values."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.document import Located, locate, read_text
from roundel.workflow.variables import find_names, substitute


def tree(text: str) -> Located:
    report = Report()
    root = read_text(text, report)
    assert root is not None and report.ok
    return root


def child(node: Any, *path: str | int) -> Located:
    for step in path:
        node = node.value[step]
    assert isinstance(node, Located)
    return node


def filled(text: str, **sources: Any) -> Any:
    """The plain value of a text whose placeholders all have values."""
    report = Report()
    value = substitute(tree(text), report, **sources).plain()
    assert report.diagnostics == []
    return value


def complaints(text: str, **sources: Any) -> list[Diagnostic]:
    report = Report()
    substitute(tree(text), report, **sources)
    return report.diagnostics


# Where values come from


def test_variable_sources_have_a_fixed_precedence() -> None:
    sources: dict[str, Any] = {
        "overrides": {"A": "override"},
        "environment": {"A": "env", "B": "env", "C": "env"},
        "dotenv": {"A": "dot", "B": "dot", "C": "dot", "D": "dot"},
    }
    text = "vars: {A: var, B: var}\nx: ['${A}', '${B}', '${C}', '${D}']"
    assert filled(text, **sources)["x"] == ["override", "var", "env", "dot"]


def test_variables_may_reference_each_other_in_any_order() -> None:
    text = "vars:\n  URL: ${HOST}/v1\n  HOST: https://${NAME}\n  NAME: example.org\nx: ${URL}"
    assert filled(text) == {
        "vars": {"URL": "https://example.org/v1", "HOST": "https://example.org", "NAME": "example.org"},
        "x": "https://example.org/v1",
    }


def test_override_replaces_the_value_in_vars() -> None:
    root = tree("vars:\n  A: ${MISSING}\n  B: <${A}>\n")
    report = Report()
    done = substitute(root, report, overrides={"A": 5})
    assert report.ok and done.plain() == {"vars": {"A": 5, "B": "<5>"}}
    assert (child(done, "vars", "A").line, child(done, "vars", "A").column) == (2, 6)


def test_external_values_are_not_expanded() -> None:
    outside = {"environment": {"E": "${A}"}, "dotenv": {"D": "$${A}"}, "overrides": {"O": "${O}"}}
    assert filled("vars: {A: 1}\nx: ['${E}', '${D}', '${O}']", **outside)["x"] == ["${A}", "$${A}", "${O}"]


# What they become


@pytest.mark.parametrize("value", ["5", "'5'", "2.5", "true", "null", "[1, {a: b}]", "{a: [1]}", "''"])
def test_lone_placeholder_keeps_the_type_of_its_value(value: str) -> None:
    done = filled(f"vars: {{V: {value}}}\nx: ${{V}}\ny: ['${{V}}']")
    assert done["x"] == done["vars"]["V"] == done["y"][0]
    assert type(done["x"]) is type(done["vars"]["V"])


def test_substituted_value_has_the_location_of_its_placeholder() -> None:
    root = tree("vars:\n  V: {a: 1}\nx:\n  - ${V}\n  - <${V}>\n")
    done = substitute(root, Report())
    value = child(done, "x", 0)
    assert (value.line, value.column, value.keys) == (4, 5, {"a": (2, 7)})
    assert (child(done, "x", 1).line, child(done, "x", 1).column) == (5, 5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("word", "word"),
        ("7", "7"),
        ("0.5", "0.5"),
        ("true", "true"),
        ("false", "false"),
        ("null", ""),
        ("[1, é, true]", '[1, "é", true]'),
        ("{a: null}", '{"a": null}'),
    ],
)
def test_inside_text_every_value_becomes_text(value: str, text: str) -> None:
    assert filled(f"vars: {{V: {value}}}\nx: a ${{V}}${{V}} b")["x"] == f"a {text}{text} b"


def test_double_dollar_escapes_a_placeholder() -> None:
    text = "vars: {A: 1, B: '$${A}'}\nx: ['$${A}', 'a $${A} ${A}', '$$${A}', '${B}', '${B}!', '$${NONE}']"
    assert filled(text)["x"] == ["${A}", "a ${A} 1", "$${A}", "${A}", "${A}!", "${NONE}"]


@pytest.mark.parametrize(
    "text", ["$A", "${}", "${ A }", "${1A}", "${A-B}", "${A:-x}", "${A", "$ {A}", "{{A}}", "$$"]
)
def test_what_does_not_look_like_a_placeholder_is_text(text: str) -> None:
    root = locate({"vars": {"A": 1}, "x": text})
    assert substitute(root, Report()) is root


def test_names_are_letters_digits_and_underscores_of_any_script() -> None:
    assert filled("vars: {_a1: x, 名: y}\nx: ${_a1}${名}")["x"] == "xy"


def test_keys_are_not_expanded() -> None:
    assert filled("vars: {A: 1}\nx: {'${A}': '${A}'}")["x"] == {"${A}": 1}


def test_branches_without_placeholders_are_the_same_objects() -> None:
    root = tree("vars: {A: 1}\nleft: {deep: [1, 2]}\nright: {x: ['${A}', {y: z}]}\n")
    done = substitute(root, Report())
    assert child(done, "left") is child(root, "left")
    assert child(done, "vars") is child(root, "vars")
    assert child(done, "right", "x", 1) is child(root, "right", "x", 1)
    assert child(root, "right", "x", 0).value == "${A}"
    assert child(done, "right", "x", 0).value == 1


def test_shared_branches_stay_shared() -> None:
    root = tree("vars: {A: 1}\na: &a {x: '${A}'}\nb: *a\nc: [*a]\n")
    done = substitute(root, Report())
    assert child(done, "b") is child(done, "a") is child(done, "c", 0)
    assert child(done, "a", "x").value == 1


def test_many_levels_of_shared_branches_are_walked_once() -> None:
    node = Located("${A}", 1, 1)
    for _ in range(60):
        node = Located([node, node], 1, 1)
    done = substitute(node, Report(), {"A": 1})
    assert child(done, *[1] * 60).value == 1


@pytest.mark.parametrize("text", ["[a, '${A}']", "${A}", "x: ${A}", "vars:\nx: ${A}", "vars: {}\nx: ${A}"])
def test_a_document_needs_no_vars(text: str) -> None:
    assert "1" in json.dumps(filled(text, environment={"A": 1}))


@pytest.mark.parametrize("vars_", ["[A]", "text", "5", "${A}"])
def test_vars_that_is_not_a_mapping_is_an_error(vars_: str) -> None:
    found = complaints(f"x: 1\nvars: {vars_}", environment={"A": "1"})
    assert [(each.code, each.line, each.column) for each in found] == [("bad-vars", 2, 7)]


# What is said


def test_each_missing_name_is_reported_once_per_location() -> None:
    found = complaints("x: ${A} ${B} ${A}\ny:\n  - ${A}\n")
    assert [(each.code, each.message, each.line, each.column) for each in found] == [
        ("unresolved-variable", "${A} has no value", 1, 4),
        ("unresolved-variable", "${B} has no value", 1, 4),
        ("unresolved-variable", "${A} has no value", 3, 5),
    ]


def test_a_placeholder_without_a_value_stays_as_it_is() -> None:
    done = substitute(tree("vars: {A: 1}\nx: ${A} ${NO}\ny: ${NO}"), Report())
    assert done.plain() == {"vars": {"A": 1}, "x": "1 ${NO}", "y": "${NO}"}


def test_hint_lists_ways_to_set_the_variable() -> None:
    [found] = complaints("x: ${SECRET}")
    assert found.hint == ("add it to `vars`, set the environment variable SECRET, or pass --var SECRET=…")


@pytest.mark.parametrize("source", ["overrides", "environment", "dotenv"])
def test_hint_suggests_similar_names(source: str) -> None:
    [found] = complaints("x: ${api_key}", **{source: {"API_KEY": "1"}})
    assert found.hint.startswith("did you mean 'API_KEY'? ")


def test_a_missing_name_inside_vars_is_reported_there_and_not_where_it_is_used() -> None:
    found = complaints("vars:\n  A: ${NO}\nx: ${A}\ny: ${A}!\n")
    assert [(each.code, each.line) for each in found] == [("unresolved-variable", 2)]


@pytest.mark.parametrize(
    ("text", "circle"),
    [
        ("vars: {A: '${A}'}", "A → A"),
        ("vars: {A: 'x${B}', B: ['${C}'], C: {k: '${A}'}}", "A → B → C → A"),
        ("x: ${B}\nvars: {X: '${A}', A: '${B}', B: '${A}'}", "A → B → A"),
    ],
)
def test_cycle_is_reported_once_with_its_chain(text: str, circle: str) -> None:
    found = complaints(text)
    assert [(each.code, each.message) for each in found] == [
        ("variable-cycle", f"variables refer to each other in a circle: {circle}")
    ]


def test_a_variable_that_shadows_the_environment_gets_a_hint() -> None:
    [found] = complaints("vars:\n  HOME: ${HOME}/work\n", environment={"HOME": "/root"})
    assert (found.code, found.line, found.column) == ("variable-cycle", 2, 9)
    assert "another name" in found.hint


def test_using_a_variable_twice_is_not_a_cycle() -> None:
    assert filled("vars: {A: 1, B: '${A}${A}', C: '${A}${B}'}\nx: ${C}${B}")["x"] == "11111"


# Bounds


def doubling(levels: int, pattern: str) -> str:
    lines = [f"  V{level}: {pattern.format(level - 1)}" for level in range(1, levels)]
    return "\n".join(["vars:", "  V0: abcdefghij", *lines, f"x: ${{V{levels - 1}}}"])


@pytest.mark.parametrize(
    "pattern", ["${{V{0}}}${{V{0}}}", "['${{V{0}}}', '${{V{0}}}']", "{{a: '${{V{0}}}', b: 'x ${{V{0}}}'}}"]
)
@pytest.mark.parametrize("backwards", [False, True])
def test_exponential_expansion_is_rejected(pattern: str, backwards: bool) -> None:
    lines = doubling(30, pattern).split("\n")
    if backwards:
        lines[1:] = reversed(lines[1:])
        lines = lines[1:2] + lines[:1] + lines[2:]
    found = complaints("\n".join(lines))
    assert {each.code for each in found} == {"variable-too-large"}


def test_moderate_expansion_is_accepted() -> None:
    assert filled(doubling(15, "${{V{0}}}${{V{0}}}"))["x"] == "abcdefghij" * 2**14


def test_long_text_in_the_file_is_accepted() -> None:
    text = "vars: {A: " + "y" * 1_500_000 + "}\nx: " + "z" * 1_500_000 + "${B}\ny: ${A}"
    assert len(filled(text, environment={"B": "b"})["x"]) == 1_500_001


def test_total_expansion_is_bounded_and_reported_once() -> None:
    text = "vars: {A: " + "y" * 500_000 + "}\nx:\n" + "  - +${A}\n" * 1000
    found = complaints(text)
    assert [each.code for each in found] == ["variable-too-large"]
    assert found[0].line == 36


def test_substituted_lists_count_towards_the_bound() -> None:
    text = "vars: {A: [" + "y" * 500_000 + "]}\nx:\n" + "  - ${A}\n" * 1000
    assert [(each.code, each.line) for each in complaints(text)] == [("variable-too-large", 36)]


def test_lists_in_text_are_bounded_by_what_they_expand_to() -> None:
    text = f"vars:\n  A: &a {'y' * 5000}\n  L: [{'*a, ' * 1000}]\nx: see ${{L}}\n"
    assert [(each.code, each.line) for each in complaints(text)] == [("variable-too-large", 4)]


def test_a_long_chain_of_variables_is_refused_without_a_crash() -> None:
    lines = [f"  V{n}: ${{V{n + 1}}}" for n in range(5000)]
    found = complaints("\n".join(["vars:", *lines, "  V5000: end"]))
    assert {each.code for each in found} == {"variable-chain"}


def test_variables_cannot_nest_deeper_than_the_file_could() -> None:
    deep = "[" * 60 + "'${B}'" + "]" * 60
    flat = filled(f"vars: {{A: {deep}, B: {'[' * 30 + ']' * 30}}}\nx: ${{A}}")
    assert json.dumps(flat["x"]).startswith("[" * 90)
    for order in ("A: {0}, B: {1}", "B: {1}, A: {0}"):
        text = "vars: {" + order.format(deep, "[" * 60 + "]" * 60) + "}\nx: ${A}"
        assert {each.code for each in complaints(text)} == {"too-deep"}


def test_twenty_thousand_missing_names_are_reported() -> None:
    names = {f"KNOWN_{n}": "1" for n in range(200)}
    report = Report()
    substitute(tree("\n".join(f"k{n}: ${{NAME_{n}}}" for n in range(20_000))), report, environment=names)
    assert report.counts == (20_000, 0)


# Properties

NAMES = ["A", "B", "C", "D", "E"]
signs = st.sampled_from(["$", "{", "}", "$$", "x", " "])
placeholders = st.sampled_from([f"${{{name}}}" for name in [*NAMES, "NO"]])


def strings(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(*parts), max_size=5).map("".join)


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        texts | st.none() | st.integers(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=8,
    )


@given(
    st.dictionaries(st.sampled_from(NAMES), values(strings(signs, placeholders))),
    values(strings(signs, placeholders)),
)
@settings(deadline=None, max_examples=300)
def test_no_variables_break_the_substitution(variables: dict[str, Any], body: Any) -> None:
    report = Report()
    done = substitute(locate({"vars": variables, "body": body}), report, dotenv={"A": "1", "E": "2"})
    json.dumps(done.plain())
    assert {each.code for each in report.diagnostics} <= {"unresolved-variable", "variable-cycle"}


def only_known(text: str, known: set[str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: found[0] if found[1] in known else "-", text)


def by_hand(text: str, known: dict[str, str]) -> str:
    return re.sub(r"(\$?)\$\{(\w+)\}", lambda found: found[0][1:] if found[1] else known[found[2]], text)


@given(st.lists(strings(signs, placeholders), min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=300)
def test_substitution_matches_the_reference(texts: list[str], chance: random.Random) -> None:
    """Each variable uses only those before it, whatever the order in which they are written down."""
    variables: dict[str, str] = {}
    expected: dict[str, str] = {}
    for name, text in zip(NAMES, texts, strict=False):
        text = only_known(text, set(expected))
        variables[name] = text
        expected[name] = by_hand(text, expected)
    names = list(variables)
    chance.shuffle(names)
    report = Report()
    done = substitute(locate({"vars": {name: variables[name] for name in names}}), report)
    assert report.diagnostics == []
    assert done.plain()["vars"] == expected


@given(values(strings(signs.filter(lambda sign: sign != "{"))))
@settings(deadline=None)
def test_a_tree_without_placeholders_is_returned_itself(value: Any) -> None:
    root = locate(value)
    assert substitute(root, Report(), {"A": 1}) is root


def test_the_names_of_a_document_are_those_under_vars_and_in_placeholders() -> None:
    root = tree("""
    vars: {A: "${B}", C: 1, K: {secret: true}}
    all: &all ["${D} and ${E}", {deep: "${F}"}]
    again: *all
    escaped: $${G}
    """)
    assert find_names(root) == {"A", "B", "C", "D", "E", "F", "K"}
