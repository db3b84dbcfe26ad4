"""Two groups under load: no entry ever crosses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from roundel.journal.sqlite import SqliteStore
from roundel.memory.search import query_words
from roundel.memory.store import Shelf
from tests.journal.stores import query
from tests.memory.concurrent_runs import GROUPS
from tests.memory.memory_runs import agents, do, remember, run_reply, stored_entries, texts

PROCESSES, ROUNDS = 3, 12
ROOT = Path(__file__).parents[2]


def test_two_groups_stay_separate_under_load(store: Path) -> None:
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.memory.concurrent_runs", str(store), str(number), str(ROUNDS)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    reported = [one.communicate(timeout=110) for one in crowd]
    assert [one.returncode for one in crowd] == [0] * PROCESSES, reported
    assert sum(int(out) for out, _ in reported) > 2000  # entries that were read
    for group in GROUPS:
        found = stored_entries(store, group)
        assert {entry.shelf for entry in found} == {
            "working",
            "long_term",
            "path:shared.json",
            "name:crowd/board",
        }
        assert all(entry.text.endswith(f"belongs to {group}") for entry in found)
        runs = PROCESSES * ROUNDS * 2
        assert len(texts(store, group, "board")) == runs * 3
        assert len(texts(store, group, "long_term")) == runs
        assert len(texts(store, group, "working")) == 50
    assert not query(store, "SELECT * FROM memories WHERE group_id NOT IN ('red', 'blue')")


def test_groups_with_similar_names_are_separate(store: Path) -> None:
    names = ["team", "Team", "team ", "team/working", "team%", "te_m", "", "team\x00", "tëam"]
    for name in names:
        run_reply(
            agents("notes", "working", memory=[{"name": "notes", "type": "simple"}]),
            f"of {name!r}",
            store,
            group=name,
        )
    for name in names:
        assert set(texts(store, name)) == {f"of {name!r}"}


def test_search_ranking_ignores_other_groups(store: Path) -> None:
    """Were words counted over all groups, one that is common elsewhere would count for less here."""
    wanted, common = [f"oolong {number}" for number in range(3)], [f"rice {number}" for number in range(9)]

    async def found(group: str) -> list[str]:
        shelf = Shelf(group, "long_term")
        opened = SqliteStore(store, sync="off")
        memories = opened.memory()
        await remember(memories, shelf, *common, *wanted)
        matches = await memories.search(shelf, query_words("oolong rice"), 3, 2.0)
        await opened.close()
        return sorted(match.entry.text for match in matches)

    async def crowd() -> None:
        opened = SqliteStore(store, sync="off")
        memories = opened.memory()
        await remember(
            memories, Shelf("crowd", "long_term"), *(f"oolong and {number}" for number in range(300))
        )
        await opened.close()

    assert do(found("a")) == wanted
    do(crowd())
    assert do(found("b")) == wanted


def test_a_path_is_shared_by_memories_but_not_by_groups(store: Path) -> None:
    one = agents(
        "one", memory=[{"name": "one", "type": "simple", "config": {"memory_path": "./x/../notes.json"}}]
    )
    two = agents(
        "two", memory=[{"name": "two", "type": "blackboard", "config": {"memory_path": "notes.json"}}]
    )
    for group in ("a", "b"):
        run_reply(one, f"{group}1", store, group=group)
        run_reply(two, f"{group}2", store, group=group)
    assert texts(store, "a", "notes.json") == ["a2", "a1"]
    assert texts(store, "b", "notes.json") == ["b2", "b1"]


def test_auto_path_uses_workflow_and_memory_name(store: Path) -> None:
    for name in ("first", "second"):
        flow = agents(
            "notes", memory=[{"name": "notes", "type": "simple", "config": {"memory_path": "auto"}}]
        )
        flow["graph"]["id"] = name
        run_reply(flow, f"of {name}", store)
    assert [(entry.shelf, entry.text) for entry in stored_entries(store, "")] == [
        ("name:first/notes", "of first"),
        ("name:second/notes", "of second"),
    ]


def test_names_with_slashes_do_not_collide(store: Path) -> None:
    for workflow, name in (("a", "b/c"), ("a/b", "c")):
        flow = agents(name, memory=[{"name": name, "type": "simple"}])
        flow["graph"]["id"] = workflow
        run_reply(flow, f"{name} of {workflow}", store)
        assert texts(store, "", name) == [f"{name} of {workflow}"]


def test_path_cannot_alias_working_memory(store: Path) -> None:
    flow = agents("x", memory=[{"name": "x", "type": "simple", "config": {"memory_path": "working"}}])
    run_reply({**flow, "graph": {**flow["graph"], "id": "w"}}, "tea", store, group="team")
    assert [entry.shelf for entry in stored_entries(store, "team")] == ["path:working", "working"]
