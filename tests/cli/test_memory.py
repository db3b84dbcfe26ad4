"""`roundel memory`: what groups remember, seen and changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stored_runs import roundel

FLOW = """
memory: {group_id: team}
graph:
  id: tea
  start: A
  memory: [{name: notes, type: simple, config: {memory_path: notes.json}}]
  nodes:
    - {id: A, type: agent, config: {memories: notes}}
    - {id: B, type: agent}
  edges: [{from: A, to: B}]
"""
SCRIPT = """
A: [{text: oolong tastes of peaches, data: {confidence: 0.9}}]
B: [{text: who knows, data: {confidence: 0.3}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    done = roundel(tmp_path, "run", "flow.yaml", "--script", "script.yaml", "--input", "taste!")
    assert done.exit_code == 0, done.stderr
    return tmp_path


def entries(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = roundel(folder, "memory", *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_shows_the_memory_of_a_group(folder: Path) -> None:
    shown = roundel(folder, "memory", "list", "--group", "team").stdout.splitlines()
    assert [line.split()[1] for line in shown] == ["path:notes.json", "working"]
    assert all(line.endswith("oolong tastes of peaches") for line in shown)
    (entry,) = entries(folder, "list", "--group", "team", "--kind", "working")
    assert (entry["group"], entry["node"], entry["address"], entry["confidence"]) == ("team", "A", "A", 0.9)
    assert entry["time"].endswith("Z")
    (entry,) = entries(folder, "list", "--group", "team", "--kind", "notes.json")
    assert entry["about"] == {"input": "taste!"}


def test_list_and_search_hide_other_groups(folder: Path) -> None:
    done = roundel(folder, "memory", "list", "--group", "others")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "group 'others' has no entries" in done.stderr
    assert entries(folder, "search", "oolong", "--group", "others") == []


def test_run_with_a_group_option_remembers_in_that_group(folder: Path) -> None:
    roundel(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "x", "--group", "others")
    assert len(entries(folder, "list", "--group", "others")) == 2
    assert len(entries(folder, "list", "--group", "team")) == 2


def test_search(folder: Path) -> None:
    (found,) = entries(folder, "search", "peaches?", "--group", "team", "--kind", "working")
    assert found["text"] == "oolong tastes of peaches"
    assert len(entries(folder, "search", "peaches", "--group", "team", "--limit", "1")) == 1
    done = roundel(folder, "memory", "search", "milk", "--group", "team")
    assert done.exit_code == 0 and "no entries with these words" in done.stderr


def test_promote_and_forget(folder: Path) -> None:
    (known,) = entries(folder, "list", "--group", "team", "--kind", "working")
    done = roundel(folder, "memory", "promote", "--group", "team", str(known["id"]))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, "promoted 1 passage for group 'team'")
    (other,) = entries(folder, "promote", "--group", "team", "--run", "last", "--at", "B")
    assert other["text"] == "who knows"
    entries(folder, "promote", "--group", "team", "--text", "tea is a drink")
    promoted = entries(folder, "list", "--group", "team", "--kind", "long_term")
    assert [entry["text"] for entry in promoted] == [
        "tea is a drink",
        "who knows",
        "oolong tastes of peaches",
    ]
    done = roundel(folder, "memory", "forget", "--group", "team", str(other["id"]))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, "forgot 1 entry")
    done = roundel(folder, "memory", "forget", "--group", "others", str(known["id"]))
    assert done.exit_code == 1 and "group 'others' had none of these entries" in done.stderr
    done = roundel(folder, "memory", "forget", "--group", "team", "--all")
    assert done.stderr.splitlines()[0] == "forgot 4 entries"
    assert entries(folder, "list", "--group", "team") == []


def test_quarantine(folder: Path) -> None:
    shown = roundel(folder, "memory", "quarantine", "last").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in shown] == [
        "A  0.9  oolong tastes of peaches",
        "B  0.3  who knows",
    ]
    told = entries(folder, "quarantine", "last")
    assert [one["metadata"]["confidence"] for one in told] == [0.9, 0.3]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["list"], 2, "Missing option '--group'"),
        (["promote", "--group", "team"], 2, "give the ID of an entry, --run with --at, or --text"),
        (["promote", "--group", "team", "1", "--text", "x"], 2, "give the ID of an entry"),
        (["promote", "--group", "team", "--run", "last"], 2, "--run with --at"),
        (["promote", "--group", "team", "99"], 1, "group 'team' has no entry 99"),
        (["promote", "--group", "", "--text", "x"], 1, "long-term memory belongs to a group"),
        (["promote", "--group", "team", "--run", "last", "--at", "Z"], 1, "no node has an output at 'Z'"),
        (["promote", "--group", "team", "--run", "zz", "--at", "A"], 2, "there is no run 'zz'"),
        (["promote", "--group", "team", "one"], 2, "'one' is not a valid integer"),
        (["forget", "--group", "team"], 2, "name the entries by their ids, or give --all"),
        (["forget", "--group", "team", "1", "--all"], 2, "or give --all"),
        (["quarantine", "zz"], 2, "there is no run 'zz'"),
        (["list", "--group", "team", "--store", "none.db"], 2, "there is no store at none.db"),
        (["lost", "--group", "team"], 2, "No such command 'lost'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_invalid_memory_commands_are_rejected(
    folder: Path, arguments: list[str], code: int, message: str
) -> None:
    done = roundel(folder, "memory", *arguments)
    assert done.exit_code == code, done.stderr
    assert message in done.stderr
    assert done.stdout == ""


def test_promote_works_before_the_first_run_of_a_group(tmp_path: Path) -> None:
    done = roundel(tmp_path, "memory", "promote", "--group", "team", "--text", "tea is hot")
    assert done.exit_code == 0, done.stderr
    assert [entry["text"] for entry in entries(tmp_path, "list", "--group", "team")] == ["tea is hot"]
