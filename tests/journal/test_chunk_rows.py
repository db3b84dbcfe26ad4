"""Facts are appended in order, and only under the newest claim, for a lone run and for many."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from roundel.journal.chunk_rows import UPDATE_EVERY
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim, Fenced, Snapshot, StoreError
from roundel.kernel.events import RunStatus
from roundel.kernel.facts import Waited
from tests.journal.stores import STARTED, chunk, new, query, using, waits


async def create_runs(store: SqliteStore, runs: int) -> list[Claim]:
    return [await store.create(new(f"run{number}"), chunk(STARTED)) for number in range(runs)]


async def append(store: SqliteStore, claim: Claim, first: int, quiet: bool = True) -> None:
    await store.append(claim, first, chunk(Waited(first)), "running", None, quiet)


def test_fact_count_is_derived_from_the_chunks(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def write(store: SqliteStore) -> None:
        (claim,) = await create_runs(store, 1)
        for first in range(1, 6):
            await append(store, claim, first)
        await store.save_snapshot(claim, Snapshot(4, 9, b""), {})
        assert (await store.row("run0")).facts == 6
        await store.release(claim)

    async def read(store: SqliteStore) -> None:
        assert [row.facts for row in await store.rows()] == [6]
        claim = await store.claim("run0")
        assert (claim.facts, claim.fresh) == (6, 2)
        await append(store, claim, 6)
        assert await store.facts("run0", 5) == waits(5, 6)

    asyncio.run(using(path, write, clock=lambda: 1.0))
    assert query(path, "SELECT facts FROM runs") == [(1,)]
    asyncio.run(using(path, read))


def test_a_runs_row_is_updated_once_a_second_and_on_every_status(tmp_path: Path) -> None:
    now = 1000.0
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        nonlocal now
        (claim,) = await create_runs(store, 1)
        seen = []
        for first, (later, status) in enumerate(moments, 1):
            now += later
            await store.append(claim, first, chunk(Waited(first)), status, None)
            seen += query(path, "SELECT updated, facts, status FROM runs")
        assert seen == [
            (1.0, 1, "running"),
            (1000.0 + 1.5 * UPDATE_EVERY, 3, "running"),
            (1000.0 + 1.6 * UPDATE_EVERY, 4, "waiting"),
            (1000.0 + 1.6 * UPDATE_EVERY, 4, "waiting"),
            (990.0 + 1.6 * UPDATE_EVERY, 6, "waiting"),  # the clock was put back
        ]

    moments: list[tuple[float, RunStatus]] = [
        (0.5 * UPDATE_EVERY, "running"),
        (UPDATE_EVERY, "running"),
        (0.1 * UPDATE_EVERY, "waiting"),
        (0.0, "waiting"),
        (-10.0, "waiting"),
    ]
    asyncio.run(using(path, story, clock=lambda: now))


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("sync", ["full", "off"])
def test_fenced_run_is_not_written_to(runs: int, sync: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claim = (await create_runs(store, runs))[0]
        await append(store, claim, 1)
        query(path, "UPDATE runs SET fence = fence + 1 WHERE id = 'run0'")
        before = query(path, "SELECT * FROM runs"), query(path, "SELECT * FROM chunks")
        for status in ("running", "waiting"):
            with pytest.raises(Fenced, match="another process has taken over run run0; this one has stopped"):
                await store.append(claim, 2, chunk(Waited(2)), status, None, True)
        assert before == (query(path, "SELECT * FROM runs"), query(path, "SELECT * FROM chunks"))

    asyncio.run(using(path, story, sync=sync))


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("status", ["running", "waiting"])
def test_append_that_leaves_a_gap_or_overlaps_is_rejected(
    runs: int, status: RunStatus, tmp_path: Path
) -> None:
    async def story(store: SqliteStore) -> None:
        claim = (await create_runs(store, runs))[0]
        await append(store, claim, 1)
        for first in (0, 1, 3, 4):
            with pytest.raises(StoreError, match=rf"runs.db: run run0 has 2 facts where {first} should be"):
                await store.append(claim, first, chunk(*waits(7, 8)), status, None, True)
        await append(store, claim, 2)
        assert await store.facts("run0") == [STARTED, *waits(1, 2)]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_rejected_append_in_a_batch_does_not_affect_the_others(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claims = await create_runs(store, 20)
        query(path, "UPDATE runs SET fence = fence + 1 WHERE id = 'run3'")
        before = store.commits
        reported = await asyncio.gather(
            *(append(store, claim, 2 if claim.run_id == "run7" else 1) for claim in claims),
            return_exceptions=True,
        )
        assert store.commits == before + 1
        assert [number for number, failure in enumerate(reported) if failure] == [3, 7]
        assert isinstance(reported[3], Fenced)
        assert "run run7 has 1 facts where 2 should be" in str(reported[7])
        assert [row.facts for row in await store.rows()] == [
            1 if number in (3, 7) else 2 for number in reversed(range(20))
        ]

    asyncio.run(using(path, story))


def test_appends_after_a_lost_one_are_rejected(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim, _ = await create_runs(store, 2)
        lost = (append(store, claim, first) for first in range(2, 8))
        reported = await asyncio.gather(*lost, return_exceptions=True)
        assert all("has 1 facts where" in str(failure) for failure in reported)
        assert await store.facts("run0") == [STARTED]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_chunks_of_different_runs_stay_separate(tmp_path: Path) -> None:
    """Their chunks stand in one table, one run's behind the other's."""

    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run{number}"), Chunk(0, b"")) for number in range(3)]
        for first in range(3):
            for claim in (claims[2], claims[0]):
                await append(store, claim, first)
        assert (await store.row("run1")).facts == 0
        await append(store, claims[1], 0)
        for claim in claims:
            await store.release(claim)
        await store.delete("run0")
        await store.prune("run2", [], "last")
        assert await store.facts("run1") == waits(0)
        assert [(row.id, row.facts) for row in await store.rows()] == [("run2", 3), ("run1", 1)]

    path = tmp_path / "runs.db"
    asyncio.run(using(path, story))
    assert query(path, "SELECT place >> 32, count FROM chunks WHERE place > 0") == [(2, 1)]
    assert query(path, "SELECT run FROM pins ORDER BY run") == [(2,), (3,)]


# Repeating an append whose outcome is not known.


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("status", ["running", "waiting"])
def test_an_append_may_be_repeated(runs: int, status: RunStatus, tmp_path: Path) -> None:
    """Alone it is written at once, with others by the thread, with another status in a job of its own."""
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claim = (await create_runs(store, runs))[0]
        for first in (1, 2):
            await store.append(claim, first, chunk(Waited(first)), status, None, True)
        before = query(path, "SELECT * FROM chunks"), query(path, "SELECT * FROM runs")
        for first in (2, 1):
            await store.append(claim, first, chunk(Waited(first)), status, None, True)
        assert before == (query(path, "SELECT * FROM chunks"), query(path, "SELECT * FROM runs"))
        await append(store, claim, 3)
        assert await store.facts("run0") == [STARTED, *waits(1, 2, 3)]

    asyncio.run(using(path, story, clock=lambda: 1.0))


@pytest.mark.parametrize("runs", [1, 2])
def test_an_append_of_an_old_claim_may_not_be_repeated(runs: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claim = (await create_runs(store, runs))[0]
        await append(store, claim, 1)
        query(path, "UPDATE runs SET fence = fence + 1 WHERE id = 'run0'")
        with pytest.raises(Fenced):
            await append(store, claim, 1)

    asyncio.run(using(path, story))


def test_repeated_append_in_a_batch_does_not_affect_the_others(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claims = await create_runs(store, 5)
        await append(store, claims[2], 1)
        await asyncio.gather(*(append(store, claim, 1) for claim in claims))
        for claim in claims:
            assert await store.facts(claim.run_id) == [STARTED, *waits(1)]

    asyncio.run(using(tmp_path / "runs.db", story))


# The position of an append among those of all runs.


def test_appends_are_read_in_the_order_of_their_commits(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        one, other = await create_runs(store, 2)
        await append(store, other, 1)
        await append(store, one, 1)
        await store.append(other, 2, chunk(*waits(2, 3)), "waiting", None)
        found = await store.appended()
        assert [(chunk.run_id, chunk.first, chunk.count) for chunk in found] == [
            ("run0", 0, 1),
            ("run1", 0, 1),
            ("run1", 1, 1),
            ("run0", 1, 1),
            ("run1", 2, 2),
        ]
        assert await store.appended(found[2].position) == found[3:]
        assert await store.appended(found[2].position, 1) == found[3:4]
        assert await store.appended(found[-1].position) == []

    asyncio.run(using(tmp_path / "runs.db", story))


def test_positions_are_never_reused(tmp_path: Path) -> None:
    """The newest run is deleted, and another takes its place at the end of the table."""

    async def story(store: SqliteStore) -> None:
        seen: list[int] = []
        for number in range(6):
            claim = await store.create(new(f"run{number}"), chunk(STARTED))
            await append(store, claim, 1)
            await store.release(claim)
            found = await store.appended(seen[-1] if seen else 0)
            assert [appended.run_id for appended in found] == [f"run{number}"] * 2
            seen += [appended.position for appended in found]
            if number % 2:
                await store.delete(f"run{number}")
            else:
                await store.prune(f"run{number}", [], "last")
            assert await store.appended() == []
        assert seen == sorted(set(seen))

    path = tmp_path / "runs.db"
    asyncio.run(using(path, story))
    assert query(path, "SELECT count(*) FROM chunks") == [(1,)]


WRITES = """
import asyncio, sys
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.facts import Waited
from tests.journal.stores import STARTED, chunk, new

async def main(path, name, count):
    store = SqliteStore(path, sync="off", busy_seconds=60)
    claim = await store.create(new(name), chunk(STARTED))
    for first in range(1, count):
        await store.append(claim, first, chunk(Waited(first)), "running", None, True)
    await store.release(claim)
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_reader_sees_every_chunk_while_several_processes_write(tmp_path: Path) -> None:
    """It goes on from the last position that it has seen, and finds every chunk of every run, once."""
    path, count = tmp_path / "runs.db", 150
    names = [f"run{number}" for number in range(3)]

    async def read(store: SqliteStore) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {name: [] for name in names}
        await store.rows()
        writers = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", WRITES, str(path), name, str(count))
            for name in names
        ]
        position = 0
        while True:
            over = all(writer.returncode is not None for writer in writers)
            appended = await store.appended(position, 40)
            for one in appended:
                assert one.position > position
                position = one.position
                found[one.run_id].append(one.first)
            if over and not appended:
                break
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        return found

    found = asyncio.run(using(path, read, busy_seconds=60))
    assert found == {name: list(range(count)) for name in names}
