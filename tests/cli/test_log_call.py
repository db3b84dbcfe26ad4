"""`roundel log --call`: what one call got."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.stored_runs import roundel

FLOW = """
models: {default: {model: "openai:gpt-4o", params: {temperature: 0.5}}}
tools: {look: {python: "tests.llm.tools:look"}}
graph:
  start: A
  end: A
  nodes: [{id: A, type: agent, config: {role: Be brief., tools: [look], approval: [look]}}]
"""
SCRIPT = """
A:
  - tool_calls: [{name: look, arguments: {place: Oslo}, result: rain}]
  - tokens: {input: 1200, output: 30}
    text: It rains.
A/look: '{"place": "Bergen"}'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def run(folder: Path, *more: str) -> None:
    words = ("run", "flow.yaml", "--script", "script.yaml", "--input", "How is it?", *more)
    assert roundel(folder, *words).exit_code == 0


def test_a_call_is_shown_as_text(folder: Path) -> None:
    run(folder)
    shown = roundel(folder, "log", "last", "--call", "A")
    assert shown.exit_code == 0
    assert shown.stdout == (
        "A  call 2 of 2  openai:gpt-4o\n1,200 tokens in, 30 out\nstopped: stop\ntemperature: 0.5\n\n"
        "system\nBe brief.\n\n"
        "user\nHow is it?\n\n"
        'round 1 of tools\nlook({"place":"Oslo"})\n  completed: rain\n\n'
        "tools\nlook: Looks at a place.\n\n"
        "answer\nIt rains.\n\n"
    )
    first = roundel(folder, "log", "last", "--call", "A", "--call-number", "1")
    assert (
        "A  call 1 of 2  openai:gpt-4o\nstopped: tool_calls\n" in first.stdout
        and 'answer\nlook({"place":"Oslo"})\n' in first.stdout
    )
    tool = roundel(folder, "log", "last", "--call", "A[1]/look").stdout
    assert tool.startswith("A[1]/look  tool look  completed\n")
    for heading, place in (("arguments", "Oslo"), ("arguments that a person allowed", "Bergen")):
        assert f'{heading}\n{{\n  "place": "{place}"\n}}\n' in tool
    assert "result\nrain\n" in tool


def test_a_call_is_shown_as_json(folder: Path) -> None:
    run(folder)
    shown = json.loads(roundel(folder, "log", "last", "--call", "A", "--json").stdout)
    assert (shown["call"], shown["complete"], shown["system"]["text"]) == (2, True, "Be brief.")


def test_without_bytes_it_says_that_nothing_was_kept(folder: Path) -> None:
    run(folder, "--context-bytes", "0")
    shown = roundel(folder, "log", "last", "--call", "A").stdout
    assert "not complete: what this call got was not kept" in shown
    assert "Be brief." not in shown and "answer\nIt rains." in shown


def test_wrong_usage_is_explained(folder: Path) -> None:
    run(folder)
    for words, why in (
        (["--call-number", "1"], "belongs to --call"),
        (["--call", "A", "--follow"], "leave out"),
        (["--call", "A", "--after", "3"], "leave out"),
        (["--call", "A", "--round", "A"], "leave out"),
    ):
        result = roundel(folder, "log", "last", *words)
        assert result.exit_code == 2 and why in result.stderr
    missing = roundel(folder, "log", "last", "--call", "B")
    assert missing.exit_code == 1 and "no place 'B'" in missing.stderr
    assert "roundel log" in missing.stderr, "the events have the addresses"
