"""Facts as they are added: in order, by whoever has the newest claim, whether a run is alone or not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roundel.journal.appending import TELL_EVERY
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim, Fenced, StoreError
from roundel.kernel.facts import Waited
from tests.journal.stores import STARTED, chunk, new, query, using, waits


async def begun(store: SqliteStore, runs: int) -> list[Claim]:
    return [await store.create(new(f"run{number}"), chunk(STARTED)) for number in range(runs)]


async def append(store: SqliteStore, claim: Claim, first: int, quiet: bool = True) -> None:
    await store.append(claim, first, chunk(Waited(first)), "running", None, quiet)


def test_how_many_facts_there_are_follows_from_the_chunks(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def write(store: SqliteStore) -> None:
        (claim,) = await begun(store, 1)
        for first in range(1, 6):
            await append(store, claim, first)
        await store.save_snapshot(claim, 4, b"")
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


def test_a_runs_row_is_told_now_and_then_and_of_every_status(tmp_path: Path) -> None:
    now = 1000.0
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        nonlocal now
        (claim,) = await begun(store, 1)
        seen = []
        for first, (later, status) in enumerate(moments, 1):
            now += later
            await store.append(claim, first, chunk(Waited(first)), status, None)
            seen += query(path, "SELECT updated, facts, status FROM runs")
        assert seen == [
            (1.0, 1, "running"),
            (1000.0 + 1.5 * TELL_EVERY, 3, "running"),
            (1000.0 + 1.6 * TELL_EVERY, 4, "waiting"),
            (1000.0 + 1.6 * TELL_EVERY, 4, "waiting"),
            (990.0 + 1.6 * TELL_EVERY, 6, "waiting"),  # the clock was put back
        ]

    moments = [
        (0.5 * TELL_EVERY, "running"),
        (TELL_EVERY, "running"),
        (0.1 * TELL_EVERY, "waiting"),
        (0.0, "waiting"),
        (-10.0, "waiting"),
    ]
    asyncio.run(using(path, story, clock=lambda: now))


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("sync", ["full", "off"])
def test_a_stolen_run_is_not_written_to(runs: int, sync: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claim = (await begun(store, runs))[0]
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
def test_nothing_is_written_behind_a_gap_or_twice(runs: int, status: str, tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim = (await begun(store, runs))[0]
        await append(store, claim, 1)
        for first in (0, 1, 3, 4):
            with pytest.raises(StoreError, match=rf"runs.db: run run0 has 2 facts where {first} should be"):
                await store.append(claim, first, chunk(*waits(7, 8)), status, None, True)
        await append(store, claim, 2)
        assert await store.facts("run0") == [STARTED, *waits(1, 2)]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_one_of_many_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        claims = await begun(store, 20)
        query(path, "UPDATE runs SET fence = fence + 1 WHERE id = 'run3'")
        before = store.commits
        told = await asyncio.gather(
            *(append(store, claim, 2 if claim.run_id == "run7" else 1) for claim in claims),
            return_exceptions=True,
        )
        assert store.commits == before + 1
        assert [number for number, failure in enumerate(told) if failure] == [3, 7]
        assert isinstance(told[3], Fenced)
        assert "run run7 has 1 facts where 2 should be" in str(told[7])
        assert [row.facts for row in await store.rows()] == [
            1 if number in (3, 7) else 2 for number in reversed(range(20))
        ]

    asyncio.run(using(path, story))


def test_once_one_is_lost_all_that_follow_are_refused(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim, _ = await begun(store, 2)
        lost = (append(store, claim, first) for first in range(2, 8))
        told = await asyncio.gather(*lost, return_exceptions=True)
        assert all("has 1 facts where" in str(failure) for failure in told)
        assert await store.facts("run0") == [STARTED]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_runs_beside_each_other_do_not_mix(tmp_path: Path) -> None:
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
    assert query(path, "SELECT place >> 32, count FROM chunks") == [(2, 1)]
    assert query(path, "SELECT run FROM pins ORDER BY run") == [(2,), (3,)]
