"""Breakpoints as texts and mappings, in files and from programs, and the addresses that each one means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.workflow.breakpoints import (
    Breakpoint,
    BreakpointError,
    address_pattern,
    parse_breakpoint,
)
from roundel.workflow.diagnostics import Diagnostic, WorkflowError

A = {"id": "A", "type": "agent"}


@pytest.mark.parametrize(
    ("source", "at", "cel"),
    [
        ("Reviewer", "Reviewer", ""),
        ("  Reviewer ", "Reviewer", ""),
        ("Writer[3]", "Writer[3]", ""),
        ("Outer[2].Inner[5]/Reviewer", "Outer[2].Inner[5]/Reviewer", ""),
        ("v1.2: draft", "v1.2: draft", ""),
        ("作家[3]", "作家[3]", ""),
        ("cel: round > 3", "", "round > 3"),
        ("cel:true", "", "true"),
        ("  cel:  text == 'cel: x'", "", "text == 'cel: x'"),
        ("{cel: round > 3}", "", "round > 3"),
        ('{"cel": "data.score < 50"}', "", "data.score < 50"),
        ("{at: 'Writer[3]'}", "Writer[3]", ""),
        ({"at": "Writer[3]"}, "Writer[3]", ""),
        ({"cel": "address.startsWith('Writer')"}, "", "address.startsWith('Writer')"),
        (Breakpoint("Writer[3]"), "Writer[3]", ""),
    ],
)
def test_a_breakpoint_is_a_text_or_a_mapping(source: Any, at: str, cel: str) -> None:
    parsed = parse_breakpoint(source)
    assert (parsed.at, parsed.cel) == (at, cel)
    assert parse_breakpoint(str(parsed)) == parsed, "what is shown can be given again"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "  ",
        "cel:",
        "{",
        "{}",
        "{a: b}",
        "{at: A, cel: 'true'}",
        "{cel: [1]}",
        "{cel: text == 'a: b'}",
        {},
        {"at": ""},
        {"at": "A", "cel": "true"},
        {"node": "A"},
        {"at": 5},
        {"cel": None},
    ],
)
def test_what_is_no_breakpoint_is_refused_with_the_forms_that_are(source: Any) -> None:
    with pytest.raises(BreakpointError) as caught:
        parse_breakpoint(source)
    assert str(caught.value) == (
        f"'{source}' is no breakpoint; give a node, a round such as 'Writer[3]', an address, or "
        "'cel: CONDITION'"
    )


@pytest.mark.parametrize(
    ("cel", "text"),
    [
        ("round >", "cannot read `round >`"),
        ("score > 3", "uses the name 'score', which is not known here; known names: node, address, round, "),
        ("text.lower() == 'a'", "calls 'lower', which is not a CEL function"),
    ],
)
def test_a_wrong_condition_is_refused_with_the_reason(cel: str, text: str) -> None:
    for source in (f"cel: {cel}", {"cel": cel}):
        with pytest.raises(BreakpointError) as caught:
            parse_breakpoint(source)
        assert text in str(caught.value)


@pytest.mark.parametrize("name", ["node", "address", "round", "text", "data", "state", "run", "vars"])
def test_a_condition_may_use_every_documented_name(name: str) -> None:
    assert parse_breakpoint(f"cel: {name} == {name}").cel == f"{name} == {name}"


def match_end(at: str, address: str) -> str | None:
    """The part of an address up to the end of what a breakpoint names."""
    found = address_pattern(at).search(address)
    return None if found is None else address[: found.end()]


@pytest.mark.parametrize(
    ("at", "address", "part"),
    [
        ("Writer[3]", "Writer[3]/Reviewer", "Writer[3]"),
        ("Writer[3]", "Outer[2].Writer[3]/Reviewer", "Outer[2].Writer[3]"),
        ("Writer[3]", "Part/Writer[3]/Reviewer", "Part/Writer[3]"),
        ("Writer[3]", "Debate[1]#2.Writer[3]/Reviewer", "Debate[1]#2.Writer[3]"),
        ("Writer[3]", "Part#2/Writer[3]#4/A", "Part#2/Writer[3]"),
        ("Writer[3]", "Writer[3].Inner[1]/A", "Writer[3]"),
        ("Writer[3]/Reviewer", "Outer[2].Writer[3]/Reviewer", "Outer[2].Writer[3]/Reviewer"),
        ("Outer[2].Inner[5]", "Outer[2].Inner[5]/A", "Outer[2].Inner[5]"),
        ("v1.2[3]", "Outer[1].v1.2[3]/A", "Outer[1].v1.2[3]"),
        ("a%2Fb[2]", "a%2Fb[2]/a%2Fb", "a%2Fb[2]"),
        # A whole name, and not the end or the beginning of a longer one.
        ("Writer[3]", "Ghostwriter[3]/A", None),
        ("Writer[3]", "Ghost.Writer[3]/A", None),
        ("Writer[3]", "Writer[33]/A", None),
        ("Writer[3]", "Writer[1]/Reviewer", None),
        ("2[3]", "v1.2[3]/A", None),
        # A loop with the same name is around it.
        ("Writer[3]", "Writer[3]/Writer/Writer[3]/Writer", "Writer[3]/Writer/Writer[3]"),
        ("Writer[3]", "Writer[3]/Writer/Writer[1]/Writer", "Writer[3]"),
        ("Writer[2]/Writer", "Writer[2]/Writer/Writer[2]/Writer", "Writer[2]/Writer/Writer[2]/Writer"),
    ],
)
def test_a_place_is_the_end_of_an_address_cut_between_parts(at: str, address: str, part: str | None) -> None:
    assert match_end(at, address) == part


# Files.


def workflow(**root: Any) -> dict[str, Any]:
    graph = {"id": "flow", "nodes": [A], "start": "A", **root.pop("graph", {})}
    return {"graph": graph, **root}


def errors(source: dict[str, Any]) -> list[Diagnostic]:
    with pytest.raises(WorkflowError) as caught:
        roundel.load(source)
    return list(caught.value.diagnostics)


def texts(source: dict[str, Any] | Path) -> list[str]:
    return list(map(str, roundel.prepare(source).breakpoints))


def test_breakpoints_may_be_one_or_a_list_at_the_root_or_in_the_graph() -> None:
    assert texts(workflow(debug={"break_at": "A"})) == ["A"]
    assert texts(workflow(debug={"break_at": ["A", {"cel": "round > 3"}]})) == ["A", "cel: round > 3"]
    assert texts(workflow(debug={"break_at": "cel: true"}, graph={"debug": {"break_at": [{"at": "A"}]}})) == [
        "cel: true",
        "A",
    ]
    assert texts(workflow()) == texts(workflow(debug={})) == texts(workflow(debug=None)) == []


def test_breakpoints_of_a_subgraph_file_join_those_of_the_workflow(tmp_path: Path) -> None:
    inner = tmp_path / "inner.yaml"
    inner.write_text("debug: {break_at: X}\ngraph: {start: X, nodes: [{id: X, type: agent}]}\n")
    outer = tmp_path / "outer.yaml"
    outer.write_text(
        "debug: {break_at: A}\ngraph:\n  start: A\n  nodes:\n"
        "    - {id: A, type: subgraph, config: {type: file, config: {path: inner.yaml}}}\n"
    )
    assert texts(outer) == ["A", "X"]


@pytest.mark.parametrize(
    ("break_at", "code", "text"),
    [
        ({"at": "A", "cel": "true"}, "bad-breakpoint", "has either 'at'"),
        ({}, "bad-breakpoint", "has either 'at'"),
        ("cel:", "bad-breakpoint", "'cel:' is no breakpoint"),
        ({"cel": "round >"}, "bad-expression", "cannot read `round >`"),
        ("cel: round >", "bad-breakpoint", "cannot read `round >`"),
        ({"at": 5}, "wrong-type", "'at' of a breakpoint must be text"),
        (5, "wrong-type", "a breakpoint must be"),
        ("B", "unknown-breakpoint", "no breakpoint can be at 'B'"),
        ("A[2]", "unknown-breakpoint", "the workflow has no such loop"),
    ],
)
def test_a_wrong_breakpoint_of_a_file_is_an_error(break_at: Any, code: str, text: str) -> None:
    for source in (
        workflow(debug={"break_at": [break_at]}),
        workflow(graph={"debug": {"break_at": [break_at]}}),
    ):
        [found] = errors(source)
        assert found.code == code
        assert text in found.message


def test_every_wrong_breakpoint_is_reported_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(
        "debug:\n  break_at:\n    - Nobody\n    - A\n    - {at: 'A[0]'}\n"
        "graph:\n  start: A\n  debug: {break_at: [Somebody]}\n  nodes:\n    - {id: A, type: agent}\n"
    )
    _, report = roundel.check(path)
    assert [(found.line, found.code) for found in report.errors] == [
        (3, "unknown-breakpoint"),
        (5, "unknown-breakpoint"),
        (8, "unknown-breakpoint"),
    ]
