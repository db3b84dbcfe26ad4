"""Stores of earlier commits open, are converted with nothing lost, and their runs continue to the end.

`make_old_store.py` made each store, and recorded what it said about its runs, with the code of the commit.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from roundel.cli import cli
from roundel.hosts.stored_run import decode_pinned
from roundel.journal.schema import FORMAT
from roundel.journal.store import Pinned, StoreError
from roundel.nodes import TYPES
from roundel.plan.graph import SEMANTICS
from roundel.runs.runs import Runs
from roundel.workflow.encoding import decode_workflow, encode_workflow
from tests.golden.make_old_store import FOLDER, KEY, SHOWN, tell
from tests.golden.typed import comparable, newest, upgraded

FORMATS = {"d97c17d": 6, "b9546ca": 7, "191e8ac": 7}
"""The format of the store of each commit; that of 5c60b12 is the matter of test_golden_stores.py."""
UNTOUCHED = ("runs", "pins", "chunks", "kept", "controls", "memories", "documents", "document_versions")


@cache
def body(commit: str) -> bytes:
    return lzma.decompress((FOLDER / f"{commit}.db.xz").read_bytes())


@cache
def recorded(commit: str) -> dict[str, dict[str, Any]]:
    return dict(json.loads((FOLDER / f"{commit}.expected.json").read_text("utf-8")))


def unpacked(commit: str, folder: Path) -> Path:
    path = folder / "runs.db"
    path.write_bytes(body(commit))
    return path


def converted(commit: str, folder: Path) -> Path:
    path = unpacked(commit, folder)
    done = CliRunner().invoke(cli, ["store", "migrate", "--store", str(path)])
    assert done.exit_code == 0, done.stderr
    return path


def rows(path: Path, table: str) -> set[str]:
    """The rows of a table by the names of their columns, without those that a format has added."""
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        found = [dict(row) for row in database.execute(f"SELECT * FROM {table}")]
    added = ("group_id", "started_by", "progress", "seq")
    return {repr(sorted((key, row[key]) for key in row if key not in added)) for row in found}


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def every_run() -> list[tuple[str, str]]:
    return [(commit, name) for commit in FORMATS for name in recorded(commit)]


@pytest.fixture(autouse=True)
def more_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more events now, and as many of the old ones have to be among the newest."""
    monkeypatch.setattr("tests.golden.make_old_store.SHOWN", 10 * SHOWN)


def assert_same(told: dict[str, Any], expected: dict[str, Any]) -> None:
    now, then = comparable(json.loads(json.dumps(told))), upgraded(expected)
    most = min(len(now["events"]), len(then["events"]))
    assert newest(now, most) == newest(then, most)
    assert most == len(then["events"]) or most > SHOWN // 3


@pytest.mark.parametrize(("commit", "name"), every_run())
def test_a_run_reads_and_ends_as_it_did(commit: str, name: str, tmp_path: Path) -> None:
    expected = recorded(commit)[name]
    told = asyncio.run(tell(converted(commit, tmp_path), name, expected["id"]))
    assert_same(told, expected)


@pytest.mark.parametrize("commit", FORMATS)
def test_conversion_loses_nothing_and_keeps_a_copy(commit: str, tmp_path: Path) -> None:
    path = converted(commit, tmp_path)
    copy = path.with_name(f"runs.db.v{FORMATS[commit]}")
    assert tables(path) >= tables(copy)
    for table in UNTOUCHED:
        if table in tables(copy):
            assert rows(path, table) == rows(copy, table)
            assert rows(copy, table) or table in ("controls", "kept")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("commit", FORMATS)
def test_every_status_is_there(commit: str) -> None:
    statuses = {told["row"][2] for told in recorded(commit).values()}
    assert statuses == {"running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"}


def test_a_store_of_format_6_needs_the_command(tmp_path: Path) -> None:
    path = unpacked("d97c17d", tmp_path)
    with pytest.raises(StoreError, match="`roundel store migrate --store"):
        asyncio.run(tell(path, "completed", recorded("d97c17d")["completed"]["id"]))
    assert path.read_bytes() == body("d97c17d")


@pytest.mark.parametrize("commit", [commit for commit, number in FORMATS.items() if number == 7])
def test_a_store_of_format_7_is_converted_when_it_is_opened(commit: str, tmp_path: Path) -> None:
    path = unpacked(commit, tmp_path)
    expected = recorded(commit)["locked"]
    told = asyncio.run(tell(path, "locked", expected["id"]))
    assert_same(told, expected)


@pytest.mark.parametrize("commit", FORMATS)
def test_pinned_workflows_decode_and_are_encoded_by_tags(commit: str, tmp_path: Path) -> None:
    path = converted(commit, tmp_path)

    async def story() -> None:
        async with Runs(path) as runs:
            for row in await runs.list():
                pinned = await runs.store.pinned(row.id)
                workflow = decode_pinned(pinned)
                again = encode_workflow(workflow)
                assert decode_workflow(again, TYPES) == workflow
                assert encode_workflow(decode_workflow(again, TYPES)) == again
                assert "roundel." not in again
                assert KEY not in pinned.workflow

    asyncio.run(story())


def test_there_is_a_store_for_each_earlier_version_of_the_semantics(tmp_path: Path) -> None:
    async def versions(path: Path) -> set[int]:
        async with Runs(path) as runs:
            return {(await runs.store.pinned(row.id)).semantics for row in await runs.list()}

    found: set[int] = set()
    for commit in FORMATS:
        folder = tmp_path / commit
        folder.mkdir()
        found |= asyncio.run(versions(converted(commit, folder)))
    assert found == set(range(SEMANTICS))


def test_a_run_of_newer_semantics_is_refused_and_names_what_to_do() -> None:
    with pytest.raises(StoreError, match=f"version {SEMANTICS + 1} of the semantics.*that wrote it"):
        decode_pinned(Pinned("{}", SEMANTICS + 1))


def test_groups_and_memory_of_format_6_are_kept(tmp_path: Path) -> None:
    path = converted("d97c17d", tmp_path)

    async def story() -> None:
        async with Runs(path) as runs:
            groups = {row.name: row.group for row in await runs.list()}
            assert groups["memory"] == "team"
            assert groups["completed"] == ""

    asyncio.run(story())


@pytest.mark.parametrize("commit", FORMATS)
def test_the_number_of_the_last_event_is_known_from_the_next_fact_on(commit: str, tmp_path: Path) -> None:
    path = converted(commit, tmp_path)
    run_id = recorded(commit)["locked"]["id"]

    async def last() -> tuple[int | None, int]:
        async with Runs(path) as runs:
            return await runs.store.last_event(run_id), (await runs.inspect(run_id)).state.seq

    known, seq = asyncio.run(last())
    assert known is None
    asyncio.run(tell(path, "locked", run_id))
    known, newer = asyncio.run(last())
    assert known == newer > seq


def test_no_store_contains_a_secret() -> None:
    for commit in FORMATS:
        assert KEY.encode() not in body(commit)
