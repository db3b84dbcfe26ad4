"""CEL expressions: what they may cost is bounded for any source and any data."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roundel
from roundel.workflow.expression import MAX_LENGTH, Expression, ExpressionError, _load_cel
from roundel.workflow.expression_tree import LiteralValue, UnsupportedSyntax, parse_expression
from tests.deadline import Deadline

NAMES = ("text", "data", "round", "messages")


def evaluated(source: str, values: dict[str, Any]) -> tuple[str, Any]:
    """What came of it: a value, a failure, or that it was refused."""
    try:
        expression = Expression(source, NAMES)
    except ExpressionError as error:
        return "refused", str(error)
    try:
        return "value", expression.evaluate(values)
    except ExpressionError as error:
        return "failed", str(error)


def on_numbers(source: str, count: int) -> tuple[str, Any]:
    return evaluated(source, {"data": {"x": list(range(count))}, "text": "ab" * count})


def on_nested(source: str, depth: int) -> tuple[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return evaluated(source, {"data": {"x": value}})


def on_itself(source: str) -> tuple[str, Any]:
    data: dict[str, Any] = {"y": 1}
    data["x"] = data
    return evaluated(source, {"data": data})


def on_edge(source: str) -> tuple[str, str]:
    def numbered() -> dict[str, Any]:
        return {"content": "", "data": {"x": list(range(1000))}}

    graph = roundel.Graph(start="A", end="B").node("A", "python", function=numbered).node("B", "passthrough")
    result = roundel.run(graph.edge("A", "B", condition={"cel": source}))
    return result.status, str(result.error)


within, numbers = Deadline(evaluated), Deadline(on_numbers)
nested, itself, edge = Deadline(on_nested), Deadline(on_itself), Deadline(on_edge)


# Macros inside macros

INNER = "data.x.map(b, data.x.map(c, c))"


@pytest.mark.parametrize(
    "source",
    [
        "data.x.map(a, data.x.map(b, b)).size() > 0",
        'data.x.all(a, r"\\" == "" || data.x.all(b, true) || "" == "")',
        'data.x.all(a, true // "\n && data.x.all(b, true)) // "',
        'data.x.all(a, """a"b""" == "" || data.x.all(b, true) || "" == "")',
        "data.x.all(a, '''a'b''' == '' || data.x.all(b, true) || '' == '')",
        "data.x.all(a, b'a\"b' == b'' || data.x.all(b, true) || '' == '\"')",
        "data.x.all(a, bR'\\' == b'' || data.x.all(b, true))",
        "data.x.existsOne(a, data.x.existsOne(b, true))",
        "data.x.map(a, data.x . // c\n filter (b, true)).size() > 0",
        "data.x.map(a, true, data.x.exists_one(b, true)).size() > 0",
        f"size([1].map(a, [{INNER}])) > 0",
    ],
)
def test_a_macro_inside_another_is_refused_however_it_is_written(source: str) -> None:
    kind, text = within(source, {"data": {"x": [1]}})
    assert kind == "refused" and "cannot be nested in each other" in text


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'.map(a, [].map(b, b))' == text", False),
        ("data.x.map(a, '.map(b, (').size()", 3),
        ("data.x.map(a, a).filter(b, b > 0).all(c, c < 5)", True),
        ("data.x.map(a, 1) == data.x.map(a, 1) // data.x.map(", True),
        ("data.map(k, k)", ["x"]),
        ("data.x.existsOne(a, a == 1)", True),
        ("['a', text].exists(word, text.matches(word))", True),
    ],
)
def test_other_macros_are_accepted(source: str, value: Any) -> None:
    assert within(source, {"data": {"x": [0, 1, 2]}, "text": "b"}) == ("value", value)


# What an expression costs


@pytest.mark.parametrize(
    "source",
    [
        "size(data.x.map(a, data.x)) > 0",
        "data.x.map(a, data.x + data.x).size() > 0",
        "data.x.filter(a, data.x.size() > 0).map(b, data).size() > 0",
        "data.x" + ".map(a, [a, a, a, a])" * 6 + ".size() > 0",
        "data.x.map(a, {'k': data.x, 'l': [data.x]}).size() > 0",
        "data.x.map(a, true ? data.x : data.x).size() > 0",
        "data.x.map(a, true, data.x).size() > 0",
        "data.x.all(a, data.x == data.x && data.x == data.x && data.x == data.x && data.x == data.x)",
        "data.x.all(a, text.matches('(?:a?b?){300}c'))",
        "text.matches('(?:[ab]{1,300}){300}')",
        "data.x.all(a, '\\x7b' == '' || text.matches('a\\x7b500\\x7d'))",
    ],
)
def test_an_expensive_expression_is_refused(source: str) -> None:
    kind, text = numbers(source, 2000)
    assert kind == "failed" and "it may take more than 5000000 steps" in text
    assert numbers(source, 2)[0] == "value"


@pytest.mark.parametrize(
    "source",
    [
        "data.x.map(a, a * 2).size() == 2000",
        "data.x.filter(a, a > 10).size() == 1989",
        "data.x.all(a, a in [0, 1] || data.x[5] == 5)",
        "data.x.exists(a, a == 1999)",
        "size(data.x) == 2000 && 5 in data.x",
        "text.matches('(?i)^ABAB') && !text.matches('x$')",
        "data.x.all(a, text.contains('ab'))",
        "text + text + text != text",
    ],
)
def test_a_cheap_expression_is_evaluated(source: str) -> None:
    assert numbers(source, 2000) == ("value", True)


def test_large_values_are_rejected_without_macros() -> None:
    source = " && ".join(["data.x == data.x"] * 100)
    assert numbers(source, 100) == ("value", True)
    assert "more than 5000000 steps" in numbers(source, 100_000)[1]


@pytest.mark.parametrize("source", ["size(data.x) == 1", "data.x == data.x", "data.x.map(a, a).size() == 1"])
def test_recursive_values_do_not_crash_the_process(source: str) -> None:
    assert nested(source, 50) == ("value", True)
    for kind, text in (nested(source, 50_000), itself(source)):
        assert kind == "failed" and ("nested more than 100 deep" in text or "5000000 steps" in text)


def test_expensive_edge_condition_fails_its_node() -> None:
    status, error = edge("size(data.x.map(a, data.x)) > 0")
    assert status == "failed"
    assert error.startswith(
        "A: the condition on A → B failed: `size(data.x.map(a, data.x)) > 0`: it may take "
    )


# What it is given


def test_expression_receives_only_the_fields_it_uses() -> None:
    values = {"data": {"score": 95, "other": object()}, "text": object(), "round": 1}
    assert evaluated("data.score > 90 && has(data.score) && !has(data.none)", values) == ("value", True)
    assert evaluated('data["score"] > 90', values)[0] == "failed"


def test_missing_field_is_reported_by_name() -> None:
    kind, text = evaluated("data.score > 90", {"data": {"other": 1, "more": 2}})
    assert (kind, "needs 'score'" in text) == ("failed", True)


@pytest.mark.parametrize("name", ["min(1, 2) == 1", "max(1, 2) == 2", "bool('true')", "dyn(1) == 1"])
def test_unknown_function_is_rejected_at_load(name: str) -> None:
    with pytest.raises(ExpressionError, match="which is not a CEL function"):
        Expression(name, NAMES)


def test_computed_pattern_is_rejected() -> None:
    with pytest.raises(ExpressionError, match="the pattern of 'matches' must be a text or a field"):
        Expression("text.matches('a' + data.x)", NAMES)


# Both readings of a source are the same

BODIES = st.text(st.sampled_from("ab\"'\\/n x41u0"), max_size=8)
QUOTES = st.sampled_from(["'", '"', "'''", '"""'])
PREFIXES = st.sampled_from(["", "r", "R", "b", "B", "br", "Rb"])


@settings(max_examples=300, deadline=None)
@given(PREFIXES, QUOTES, BODIES)
def test_parser_and_evaluator_agree_on_text_literals(prefix: str, quotes: str, body: str) -> None:
    source = f"{prefix}{quotes}{body}{quotes}"
    try:
        program = _load_cel().compile(source)
    except ValueError:
        return
    tree = parse_expression(source)
    assert tree.functions == frozenset()
    head = tree.root.operands[0].head
    alone = len(tree.root.operands) == 1  # the body may have ended the text, and begun another
    if alone and isinstance(head, LiteralValue) and head.text is not None and "b" not in prefix.lower():
        assert head.text == program.execute({})


TOKENS = st.sampled_from(
    [
        *("data", "text", "round", "a", "data.x", "x", "1", "2.5", "true", "null", "0x1F", "1u", "'s'"),
        *('"', "'", '"""', "r'\\'", 'b"q"', "// c\n", "//", "\\", "\n", " "),
        *("(", ")", "[", "]", "{", "}", ",", ":", "?", ".", "!", "-", "+", "*", "/", "%", "in"),
        *("==", "!=", "<", ">=", "&&", "||", ".map(a, ", ".filter(a, ", ".all(a, ", ".exists_one(a, "),
        *("size(", "has(", "string(", ".matches(", ".contains(", "data.x.map(a, a)", "[1, 2]", "{'a': 1}"),
    ]
)
SOUP = st.lists(TOKENS, max_size=40).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(SOUP)
def test_any_source_is_rejected_or_terminates(source: str) -> None:
    kind, _ = numbers(source, 300)
    assert kind in ("refused", "failed", "value")


def bodies(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operator = st.sampled_from(["+", "+", "==", "&&", "||", "in", "<"])
    macro = st.sampled_from(["map", "filter", "all", "exists", "map(a, true, a).map"])
    return st.one_of(
        st.builds("{} {} {}".format, inner, operator, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}".format, inner),
        st.builds("({}).{}(a, {})".format, inner, macro, inner),
        st.builds("{}({})".format, st.sampled_from(["size", "string", ""]), inner),
    )


ATOMS = st.sampled_from(["data.x", "data", "text", "a", "1", "true", "data.x[0]", "text.matches('(a|b)*c')"])


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(ATOMS, bodies, max_leaves=8), st.sampled_from([0, 3, 200, 3000, 100_000]))
def test_any_expression_terminates_on_any_data(source: str, count: int) -> None:
    kind, _ = numbers(source, count)
    assert kind in ("refused", "failed", "value")


@pytest.mark.parametrize(
    "source",
    [
        "(" * 900 + "1" + ")" * 900,
        "!" * 1900 + "true",
        "-" * 1900 + "1",
        "data" + ".x" * 990,
        "data" + "[0]" * 600,
        "||".join(["true"] * 330),
        "+".join(["1"] * 990),
        "true?1:" * 280 + "1",
        "[" * 990 + "]" * 990,
        "{1:" * 400 + "1" + "}" * 400,
        "size(" * 300 + "text" + ")" * 300,
        "9" * 1900,
        "1" * 1900 + ".0",
        "'" + "x" * 1900 + "'",
        "text.matches('" + "(" * 900 + ")" * 900 + "')",
        "text.matches('(((((((a{99}){99}){99}){99}){99}){99}){99})')",
        "data.x" + ".map(a, a)" * 190,
        "x" * (MAX_LENGTH + 1),
    ],
)
def test_a_long_source_neither_hangs_nor_crashes(source: str) -> None:
    assert numbers(source, 20)[0] in ("refused", "failed", "value")


def test_syntax_known_only_to_the_evaluator_is_rejected() -> None:
    with pytest.raises(UnsupportedSyntax):
        parse_expression("a.?b")
    with pytest.raises(ExpressionError, match="cannot use"):
        Expression("Message{text: 'a'} == text", NAMES)


FIRST_USE = """
import threading
from roundel.workflow.expression import Expression

count, failed = 16, []
together = threading.Barrier(count)

def use(number):
    together.wait()
    try:
        assert Expression(f"data.x > {number}", ("data",)).evaluate({"data": {"x": 99}}) is True
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=use, args=(number,)) for number in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
"""


def test_first_use_in_many_threads_at_once() -> None:
    """The evaluator panics if it is loaded twice. In new processes, since each loads it once."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
