"""Snapshots of a run: events from any number on, long texts by reference, rebuilt if unreadable."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import roundel
from roundel.hosts.stored_run import open_run, read_events
from roundel.journal import run_journal
from roundel.journal.run_journal import restore_state
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.facts import Entry
from roundel.kernel.snapshot import LONG, SNAPSHOTS, VERSION, StoredSnapshot
from tests.journal.stores import query, resumed, using

SHARE = run_journal.SNAPSHOT_SHARE
LONG_TEXT = " ".join(map(str, range(LONG)))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after 20 facts, whatever its size, so that short runs have many."""
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 20)
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", 0)


class Counting(SqliteStore):
    """A store that counts the facts that are read from it."""

    read = 0

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        found = await super().entries(run_id, after)
        self.read += len(found)
        return found

    async def entries_at(self, run_id: str, numbers: Any) -> dict[int, Entry]:
        found = await super().entries_at(run_id, numbers)
        self.read += len(found)
        return found


def speaking_loop(
    rounds: int, text: str = "", reached: Callable[[int], None] | None = None, **say: Any
) -> roundel.Graph:
    """A loop in which one function speaks."""
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": rounds + 1})

    @graph.function("Say", **say)
    async def speak(round: int) -> str:
        if reached is not None:
            reached(round)
        return f"{text}{round}"

    graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
    return graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")


def run_in(path: Path, graph: roundel.Graph, text: str = "go") -> tuple[str, list[roundel.Event]]:
    """Runs a graph; its id, and what was shown of it."""
    shown: list[roundel.Event] = []
    store = SqliteStore(path, sync="off")
    result = roundel.run(graph, text, store=store, on_event=shown.append)
    asyncio.run(store.close())
    assert result.completed
    return result.run_id, shown


@pytest.mark.parametrize("say", [{}, {"context_window": -1}], ids=["small state", "growing state"])
def test_events_can_be_read_from_any_sequence_number(tmp_path: Path, say: dict[str, Any]) -> None:
    path, graph = tmp_path / "runs.db", speaking_loop(60, LONG_TEXT, **say)
    run_id, shown = run_in(path, graph)

    async def story(store: SqliteStore) -> None:
        for after in (0, 1, *range(2, len(shown), 7), len(shown) - 1, len(shown), len(shown) + 9):
            assert await read_events(store, run_id, after=after) == shown[after:]

    asyncio.run(using(path, story))
    assert query(path, "SELECT count(*) FROM snapshots")[0][0] >= 3


def test_reading_the_tail_of_a_long_run_reads_few_facts(tmp_path: Path) -> None:
    async def facts_read(rounds: int) -> int:
        path, graph = tmp_path / f"{rounds}.db", speaking_loop(rounds)
        run_id, shown = await asyncio.to_thread(run_in, path, graph)
        store = Counting(path)
        for after in (len(shown) // 2, len(shown) - 10):
            # Not the end of the run: what is behind an event has to be read in any case.
            state, _ = await restore_state(store, run_id, roundel.prepare(graph), after)
            assert state.seq <= after
            between = [event for event in shown if state.seq < event.seq <= after]
            assert len(between) <= 4 * 5 * 20  # events of 20 facts, and of those until the next commit
        assert await read_events(store, run_id, after=len(shown) - 10) == shown[-10:]
        await store.close()
        return store.read

    short, long = asyncio.run(facts_read(20)), asyncio.run(facts_read(1000))
    assert long <= short + 20


def test_snapshots_stay_a_fraction_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the state is: here it holds all that was ever said."""
    path = tmp_path / "runs.db"
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", SHARE)
    run_in(path, speaking_loop(400, context_window=-1))
    ((many, taken),) = query(path, "SELECT count(*), sum(length(body)) FROM snapshots")
    ((largest,),) = query(path, "SELECT max(length(body)) FROM snapshots")
    chunks = query(path, "SELECT count, length(body) FROM chunks")
    written = sum(max(size, run_journal.FACT_SIZE * count) for count, size in chunks)
    assert many >= 3
    # The first comes as soon as it is due, whatever its size.
    assert taken <= written / SHARE + largest


def test_small_facts_trigger_snapshots_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pure nodes, hundreds of which are packed into one chunk."""
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", SHARE)
    rounds = 1500
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": rounds + 1})
    graph.node("Say", "literal", content="word").node("Out", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=rounds)
    graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")
    run_in(tmp_path / "runs.db", graph)
    ((chunks,),) = query(tmp_path / "runs.db", "SELECT count(*) FROM chunks WHERE count > 100")
    assert 4 <= chunks <= len(bodies(tmp_path / "runs.db"))


def bodies(path: Path) -> list[StoredSnapshot]:
    found = query(path, "SELECT body FROM snapshots ORDER BY place")
    return [SNAPSHOTS.decode_versioned(zlib.decompress(body)) for (body,) in found]


def test_snapshots_reference_long_texts_in_the_facts(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    run_id, shown = run_in(path, speaking_loop(60, LONG_TEXT, context_window=-1), LONG_TEXT)
    taken = bodies(path)
    assert len(taken) >= 2
    assert all(LONG_TEXT not in msgspec.json.encode(body).decode() for body in taken)
    assert query(path, "SELECT * FROM texts") == []

    async def story(store: SqliteStore) -> None:
        state = (await open_run(store, run_id)).state
        assert await read_events(store, run_id, after=len(shown) - 3) == shown[-3:]
        assert state.input[0].text == LONG_TEXT

    asyncio.run(using(path, story))


def gathering(rounds: int) -> roundel.Graph:
    """A list whose elements become one text again: no fact holds it, and a loop sees it in each round."""
    graph = roundel.Graph(start="Each", end="Out", limits={"rounds": rounds + 1})
    body = {"nodes": [{"id": "Same", "type": "passthrough"}], "start": "Same", "end": "Same"}
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body)

    @graph.function("Say", context_window=-1)
    async def speak(round: int) -> str:
        return f"round {round}"

    graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
    graph.edge("Each", "Say").edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say")
    return graph.edge("Guard", "Out")


def test_long_text_without_a_fact_is_stored_once(tmp_path: Path) -> None:
    path, graph = tmp_path / "runs.db", gathering(60)
    items = msgspec.json.encode([f"{number} {'word ' * 20}" for number in range(5)]).decode()
    run_id, shown = run_in(path, graph, items)
    ((digests,),) = query(path, "SELECT count(*) FROM texts")
    assert digests == 1
    assert len(bodies(path)) >= 3

    async def last(store: SqliteStore) -> list[roundel.Event]:
        return await read_events(store, run_id, after=len(shown) - 10)

    assert asyncio.run(using(path, last)) == shown[-10:]
    for damage in ("UPDATE texts SET body = X'00'", "DELETE FROM texts"):
        query(path, damage)
        assert asyncio.run(using(path, last)) == shown[-10:]


def other_version(body: bytes) -> bytes:
    _, _, encoded = zlib.decompress(body).partition(b" ")
    return zlib.compress(b"%d %b" % (VERSION - 1, encoded))


def other_texts(body: bytes) -> bytes:
    """Its references lead to other texts than those that it was made with."""
    stored = SNAPSHOTS.decode_versioned(zlib.decompress(body))
    return zlib.compress(SNAPSHOTS.encode_versioned(replace(stored, sources=stored.sources[::-1])))


@pytest.mark.parametrize(
    "damage",
    [other_version, other_texts, lambda _body: b"", lambda body: body[:-9]],
    ids=["another version", "other texts", "empty", "cut off"],
)
def test_unreadable_snapshot_is_rebuilt_from_the_facts(tmp_path: Path, damage: Any) -> None:
    path, graph = tmp_path / "runs.db", speaking_loop(60, LONG_TEXT, context_window=-1)
    run_id, shown = run_in(path, graph)
    for place, body in query(path, "SELECT place, body FROM snapshots"):
        query(path, "UPDATE snapshots SET body = ? WHERE place = ?", damage(body), place)

    async def story(store: SqliteStore) -> None:
        state, known = await restore_state(store, run_id, roundel.prepare(graph))
        assert (state.status, known) == ("new", 0)
        assert await read_events(store, run_id, after=len(shown) - 10) == shown[-10:]
        assert (await open_run(store, run_id)).state.status == "completed"

    asyncio.run(using(path, story))


@pytest.mark.parametrize("readable", [True, False])
def test_resumed_run_still_references_its_long_texts(tmp_path: Path, readable: bool) -> None:
    """The state holds texts from before: those that the last snapshot knew, and those behind it."""
    whole, path = tmp_path / "whole.db", tmp_path / "runs.db"

    def reached(round: int) -> None:
        """Here the process is killed, as far as a copy of the file knows."""
        if round == 35 and not path.exists():
            with closing(sqlite3.connect(whole)) as database, closing(sqlite3.connect(path)) as copy:
                database.backup(copy)

    run_id, _ = run_in(whole, graph := speaking_loop(60, LONG_TEXT, reached, context_window=-1), LONG_TEXT)
    before = len(bodies(path))
    assert before >= 2
    if not readable:
        query(path, "UPDATE snapshots SET body = X'00'")

    async def story(store: SqliteStore) -> None:
        assert (await resumed(store, run_id, workflow=graph)).completed
        everything = await read_events(store, run_id)
        assert await read_events(store, run_id, after=len(everything) - 10) == everything[-10:]

    asyncio.run(using(path, story))
    assert query(path, "SELECT count(*) FROM texts") == [(0,)]
    ((after, last),) = query(path, "SELECT count(*), max(length(body)) FROM snapshots")
    assert after > before
    assert last < 60 * LONG


def test_snapshots_are_deleted_with_their_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    items = msgspec.json.encode([f"{number} {'word ' * 20}" for number in range(5)]).decode()
    pruned, _ = run_in(path, gathering(60), items)
    deleted, _ = run_in(path, gathering(60), items)

    async def story(store: SqliteStore) -> None:
        await store.prune(pruned, [], "last")
        assert await store.snapshot(pruned) is None
        assert await store.snapshot(deleted) is not None
        await store.delete(deleted)

    asyncio.run(using(path, story))
    assert query(path, "SELECT count(*) FROM snapshots") == [(0,)]
    assert query(path, "SELECT count(*) FROM texts") == [(0,)]
