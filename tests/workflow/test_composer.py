"""The tree: where its values stand, what is refused, and what aliases may do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text
from roundel.workflow.yaml_parser import MAX_ALIASED
from tests.workflow.parsing import PARSERS, parsed_by, problems, read

# Places


def test_values_and_keys_know_their_line_and_column() -> None:
    root = read_text("graph:\n  nodes:\n    - id: Writer\n    - {id: Ünï, x: 1}\n", Report())
    assert root is not None and isinstance(root.value, dict)
    graph = root.value["graph"]
    assert isinstance(graph.value, dict)
    nodes = graph.value["nodes"]
    assert isinstance(nodes.value, list)
    last = nodes.value[1]
    assert isinstance(last.value, dict)
    assert (root.line, root.column, root.keys) == (1, 1, {"graph": (1, 1)})
    assert (graph.line, graph.column, graph.keys) == (2, 3, {"nodes": (2, 3)})
    assert (nodes.line, nodes.column, nodes.keys) == (3, 5, None)
    assert (last.line, last.column, last.keys) == (4, 7, {"id": (4, 8), "x": (4, 17)})
    assert (last.value["x"].line, last.value["x"].column) == (4, 20)


def test_keys_are_the_text_as_written() -> None:
    assert read("1: a\ntrue: b\nno: c\n'q': d\n0x1: e\n'': f") == {
        "1": "a",
        "true": "b",
        "no": "c",
        "q": "d",
        "0x1": "e",
        "": "f",
    }


# Refusals


def test_every_duplicate_key_is_named_with_the_line_of_the_first() -> None:
    report = Report()
    root = read_text("a: 1\nb:\n  a: 2\n  c: 3\n  c: 4\na: 5\na: 6\n", report)
    assert [(found.line, found.column, found.message) for found in report.errors] == [
        (5, 3, "the key 'c' is already on line 4"),
        (6, 1, "the key 'a' is already on line 1"),
        (7, 1, "the key 'a' is already on line 1"),
    ]
    assert root is not None and root.plain() == {"a": 1, "b": {"a": 2, "c": 3}}


def test_tags_are_rejected_everywhere() -> None:
    text = "a: !!python/object:os.system x\nb: !mine {c: 1}\n!k d: ! e\nf: !!seq [1]\n"
    assert problems(text) == [("tag", 1, 4), ("tag", 2, 4), ("tag", 3, 1), ("tag", 3, 7), ("tag", 4, 4)]


def test_the_message_names_the_tag() -> None:
    report = Report()
    read_text("a: !!binary aGk=", report)
    assert "'!!binary'" in report.errors[0].message


@pytest.mark.parametrize("text", ["? [a, b]\n: 1\nc: 1\nc: 2", "? {a: b}\n: 1\nc: 1\nc: 2"])
def test_complex_key_is_rejected_and_parsing_continues(text: str) -> None:
    assert problems(text) == [("complex-key", 1, 3), ("duplicate-key", 4, 1)]


def test_a_template_in_braces_gets_a_hint_to_use_quotes() -> None:
    report = Report()
    read_text("prompt: {{ name }}", report)
    assert "needs quotes" in report.errors[0].hint


def test_several_kinds_of_problems_are_found_in_one_pass() -> None:
    text = "a: !x 1\na: 2\nb: *nowhere\nc: {[d]: 1}\ne: &e [*e]\nf: [1\n"
    assert [code for code, _, _ in problems(text)] == [
        "tag",
        "duplicate-key",
        "unknown-alias",
        "complex-key",
        "recursive-alias",
        "syntax",
    ]


def test_a_second_document_is_refused() -> None:
    report = Report()
    root = read_text("---\na: 1\n---\nb: 2\n", report)
    assert [(found.code, found.line) for found in report.errors] == [("several-documents", 3)]
    assert root is not None and root.plain() == {"a": 1}


def test_document_markers_are_accepted() -> None:
    assert read("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment\n", "---\n", "--- # nothing\n...\n", "\ufeff"]
)
def test_a_file_with_nothing_in_it_is_empty(text: str) -> None:
    report = Report()
    assert read_text(text, report) is None
    assert [found.message for found in report.errors] == ["the file is empty"]


def test_half_a_surrogate_pair_is_refused() -> None:
    assert problems(r'{"a": "\ud83d", "b": ["\ude00\ud83d"], "\udc00": 1}') == [
        ("lone-surrogate", 1, 7),
        ("lone-surrogate", 1, 23),
        ("lone-surrogate", 1, 40),
    ]


def test_the_slower_parser_joins_surrogate_pairs() -> None:
    with parsed_by(yaml.SafeLoader):
        assert read(r'a: "\ud83d\ude00"') == {"a": "😀"}
        assert problems(r'a: "\ud83d"') == [("lone-surrogate", 1, 4)]


# Anchors


def test_aliases_share_the_anchored_value() -> None:
    root = read_text("a: &x {k: [1, 2]}\nb: *x\nc: [*x, &y 5, *y]\n", Report())
    assert root is not None and isinstance(root.value, dict)
    assert root.value["b"] is root.value["a"]
    assert root.plain() == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": [{"k": [1, 2]}, 5, 5]}


def test_anchor_may_be_redefined_and_may_be_on_a_key() -> None:
    assert read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n&k e: *k\n") == {"a": 1, "b": 1, "c": 2, "d": 2, "e": "e"}


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: [*x]}", "a: &x 1\nb: &x [*x]", "a: &x {<<: *x}"])
def test_an_alias_inside_its_own_anchor_is_refused(text: str) -> None:
    assert [code for code, _, _ in problems(text)] == ["recursive-alias"]


def test_unknown_alias_hints_at_missing_quotes() -> None:
    report = Report()
    read_text("a: *important", report)
    assert report.errors[0].code == "unknown-alias"
    assert "quotes" in report.errors[0].hint


def test_values_expanded_by_aliases_are_counted() -> None:
    within = f"a: &x [{'1,' * 999}]\nb: [{'*x,' * (MAX_ALIASED // 1000)}]\n"
    assert problems(within) == []
    assert problems(within + "c: *x\n") == [("alias-bomb", 3, 4)]


def test_alias_bomb_is_rejected_quickly() -> None:
    levels = [f"l{n}: &l{n} [{f'*l{n - 1}, ' * 9}]" for n in range(1, 40)]
    found = problems("\n".join(["l0: &l0 [x]", *levels]))
    assert [code for code, _, _ in found] == ["alias-bomb"]


def test_aliases_cannot_nest_deeper_than_brackets() -> None:
    def tower(levels: int) -> str:
        return "\n".join(["a0: &a0 [x]", *[f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, levels)]])

    assert problems(tower(99)) == []
    assert problems(tower(100)) == [("too-deep", 100, 12)]


def test_own_keys_override_merged_keys() -> None:
    root = read_text("base: &b {x: 1, y: 2}\nuse:\n  y: 3\n  <<: *b\n  z: 4\n", Report())
    assert root is not None and isinstance(root.value, dict)
    assert root.value["use"].plain() == {"x": 1, "y": 3, "z": 4}
    assert root.value["use"].keys == {"x": (1, 11), "y": (3, 3), "z": (5, 3)}
    assert root.value["base"].plain() == {"x": 1, "y": 2}


def test_first_of_several_merged_mappings_wins() -> None:
    text = "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b, {z: 3}]}\nd: {<<: {x: 5}}\n"
    assert read(text)["c"] == {"x": 1, "y": 2, "z": 3}
    assert read(text)["d"] == {"x": 5}


def test_merged_mappings_can_be_merged_again() -> None:
    assert read("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}")["c"] == {"x": 1, "y": 2, "z": 3}


def test_only_mappings_can_be_merged_and_only_once() -> None:
    assert problems("a: {<<: 5}\nb: {<<: [{x: 1}, y]}") == [("bad-merge", 1, 5), ("bad-merge", 2, 5)]
    assert problems("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n") == [("duplicate-key", 4, 3)]


def test_quoted_merge_key_is_an_ordinary_key() -> None:
    assert read('a: {"<<": {x: 1}}') == {"a": {"<<": {"x": 1}}}


# Depth


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("{a: ", "}"), ("- ", "")])
def test_nesting_is_limited_to_a_hundred_levels(parser: Any, opening: str, closing: str) -> None:
    with parsed_by(parser):
        assert problems(opening * 100 + "1" + closing * 100) == []
        assert problems(opening * 101 + "1" + closing * 101) == [("too-deep", 1, 100 * len(opening) + 1)]


@pytest.mark.parametrize("piece", ["[", "{", "- ", "? ", '{"a":', "[{a: "])
def test_extreme_nesting_is_rejected_quickly(piece: str) -> None:
    assert problems(piece * 200_000)[-1][0] == "too-deep"


def test_deep_json_that_is_closed_is_refused_too() -> None:
    assert problems("[" * 100_000 + "]" * 100_000) == [("too-deep", 1, 101)]
