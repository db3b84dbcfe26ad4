"""The behaviour that every store must have: each sentence of the protocol (journal/store.py).

Another implementation joins by an entry in STORES: a function that opens the same store each time that it is
called, as further processes would.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.journal import sqlite as sqlite_store
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.spending import Amounts, Drawn, RunsAtOnce, SharedBudget, Spent, TooManyRuns
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import (
    Appended,
    Busy,
    Chunk,
    Claim,
    Fenced,
    Gone,
    NewRun,
    NoRun,
    Pinned,
    RunExists,
    RunTotals,
    Snapshot,
    Store,
    StoreError,
)
from roundel.kernel.events import RunStatus
from roundel.kernel.facts import Fact
from roundel.memory.store import Item, Shelf
from tests.events import event_of
from tests.journal.stores import STARTED, chunk, new, waits

Open = Callable[[], Store]
"""Opens the same store once more."""
Story = Callable[[Open], Awaitable[None]]
Stores = Callable[[Story], None]


def sqlite(folder: Path) -> Open:
    return lambda: SqliteStore(folder / "runs.db", sync="off")


def in_memory(_folder: Path) -> Open:
    store = InMemoryStore("test")
    return lambda: store


STORES = {"sqlite": sqlite, "in memory": in_memory}


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Tells a story with an empty store; what was opened is closed afterwards."""

    async def run_story_on(story: Story) -> None:
        opener = STORES[request.param](tmp_path)
        async with AsyncExitStack() as opened:

            def open_store() -> Store:
                store = opener()
                opened.push_async_callback(store.close)
                return store

            await story(open_store)

    return lambda story: asyncio.run(run_story_on(story))


async def facts(store: Store, run_id: str = "run", after: int = 0) -> list[Fact]:
    return [entry.fact for entry in await store.entries(run_id, after)]


async def append(store: Store, claim: Claim, first: int, *times: float, status: RunStatus = "running") -> int:
    return await store.append(claim, first, chunk(*waits(*times)), status, None)


def test_the_last_event_is_that_of_the_last_chunk(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        with pytest.raises(NoRun):
            await store.last_event("run")
        claim = await store.create(new(), msgspec.structs.replace(chunk(STARTED), seq=3))
        assert await open_store().last_event("run") == 3
        appends: tuple[tuple[int, int | None, RunStatus], ...] = (
            (1, 7, "running"),
            (2, 9, "paused"),
            (3, None, "paused"),
        )
        for first, seq, status in appends:
            written = msgspec.structs.replace(chunk(*waits(2.0)), seq=seq)
            for _ in range(2):  # a repetition changes nothing
                await store.append(claim, first, written, status, None)
            assert await open_store().last_event("run") == seq
        await store.append(claim, 4, msgspec.structs.replace(chunk(*waits(2.0)), seq=11), "stopped", None)
        await store.append(claim, 5, Chunk(0, b""), "stopped", None)
        assert await store.last_event("run") == 11
        await store.release(claim)
        await store.prune("run", [event_of("run_started")], "first")
        assert await store.last_event("run") is None
        await store.delete("run")
        with pytest.raises(NoRun):
            await store.last_event("run")

    stores(story)


# The store itself.


def test_store_implements_the_protocol_and_reports_its_location(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        assert isinstance(store, Store)
        assert store.location
        assert store.workspaces is None or store.workspaces.parent.is_dir()

    stores(story)


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def test_exists_creates_nothing(stores: Stores, tmp_path: Path) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        before = await store.exists()
        assert is_empty(tmp_path)
        await store.create(new(), chunk(STARTED))
        assert await store.exists() >= before
        assert await store.exists()

    stores(story)


def test_compact_reclaims_space_of_deleted_and_pruned_runs(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        for name in ("pruned", "deleted"):
            claim = await store.create(new(name), Chunk(1, b"j" + b"x" * 500_000))
            await store.release(claim)
        before = await store.size()
        assert before > 1_000_000
        await store.prune("pruned", [], "last")
        await store.compact()
        assert await store.size() < before - 400_000
        await store.delete("deleted")
        await store.compact()
        assert await store.size() < before - 900_000

    stores(story)


def test_a_run_is_created_with_several_chunks(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED, *waits(1)), chunk(*waits(2, 3)))
        assert claim.facts == claim.fresh == (await store.row("run")).facts == 4
        assert await facts(store) == [STARTED, *waits(1, 2, 3)]
        assert [(one.first, one.count) for one in await store.appended()] == [(0, 2), (2, 2)]
        await append(store, claim, 4, 4.0)
        assert await facts(open_store(), after=3) == waits(3, 4)

    stores(story)


def test_an_excerpt_of_a_summary_has_no_long_texts(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        loops = {"Writer": {"rounds": 2}}
        for size in (3, 600, 5_000):  # characters of three bytes
            text, error = "茶" * size, "no" * size
            given = {"output": text, "error": error, "data": {"tea": text}, "warnings": [], "loops": loops}
            for progress in (None, {"score": 1.0, "excerpt_of": '"excerpt":'}):
                name = f"{size} {progress is None}"
                claim = await store.create(new(name), chunk(STARTED))
                shown = None if progress is None else (lambda given=progress: given)
                await store.append(claim, 1, chunk(*waits(1)), "failed", given, progress=shown)
                [row] = await store.rows(1, excerpt=True)
                assert row == await store.row(name, excerpt=True)
                assert row.summary == {
                    "output": text[:500],
                    "output_length": size,
                    "error": error[:500],
                    "loops": loops,
                }
                whole = await store.row(name)
                assert whole.summary == given and whole.progress == row.progress == progress
        await store.create(new("none"), chunk(STARTED))
        assert (await store.row("none", excerpt=True)).summary is None

    stores(story)


def test_a_closed_store_owns_nothing_and_opens_again(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        await store.create(new(), chunk(STARTED))
        await store.close()
        assert (await other.row("run")).owner == ""
        claim = await other.claim("run")
        await other.release(claim)
        assert await facts(store) == [STARTED]
        again = await store.claim("run")
        await append(store, again, 1, 1.0)
        assert await facts(other) == [STARTED, *waits(1)]

    stores(story)


def test_a_store_has_memories(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        first, second = open_store(), open_store()
        shelf = Shelf("group", "shelf")
        (number,) = await first.memory().remember(shelf, [Item("tea", 1.0)])
        assert [match.entry.id for match in await second.memory().newest(shelf, 9, 9)] == [number]
        await first.memory().close()  # the store stays open
        assert [match.entry.id for match in await first.memory().newest(shelf, 9, 9)] == [number]

    stores(story)


# Creating and appending.


def test_create_stores_first_facts_and_claims_the_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        pinned = Pinned("{}", 1, {"max_cost": 2.0}, "script")
        made = NewRun("run", "flow", "go", pinned, 5.0, "parent", "[1]/A", "red", "ann", None, "tea", "3")
        claim = await store.create(made, chunk(STARTED, *waits(1)))
        assert (claim.run_id, claim.facts, claim.fresh) == ("run", 2, 2)
        row = await store.row("run")
        assert (row.id, row.name, row.status, row.input) == ("run", "flow", "running", "go")
        assert (row.created, row.parent, row.forked_at, row.facts) == (5.0, "parent", "[1]/A", 2)
        assert (row.summary, row.pruned, row.group, row.started_by) == (None, "", "red", "ann")
        assert (row.saved_as, row.workflow_version) == ("tea", "3")
        assert [row.id for row in await store.rows(saved_as="tea")] == ["run"]
        assert await store.rows(saved_as="te") == []
        assert row.owner
        assert await store.pinned("run") == pinned
        assert await facts(store) == [STARTED, *waits(1)]
        assert (await store.create(new("empty"))).facts == 0
        assert await facts(store, "empty") == []

    stores(story)


def test_duplicate_run_id_is_rejected(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        with pytest.raises(RunExists, match="there is a run 'run' in this store already"):
            await open_store().create(new(), chunk(*waits(1)))
        await append(store, claim, 1, 2.0)
        assert await facts(store) == [STARTED, *waits(2)]

    stores(story)


def test_facts_are_read_in_order_from_any_offset(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await append(store, claim, 1, 1, 2)
        await store.append(claim, 3, chunk(*waits(3, 4, 5)), "waiting", {"output": "x"})
        everything = [STARTED, *waits(1, 2, 3, 4, 5)]
        for after in range(7):
            assert await facts(store, after=after) == everything[after:]
        row = await store.row("run")
        assert (row.status, row.facts, row.summary) == ("waiting", 6, {"output": "x"})
        found = await store.entries_at("run", [5, 0, 2])
        assert {number: entry.fact for number, entry in found.items()} == {
            number: everything[number] for number in (0, 2, 5)
        }
        assert await store.entries_at("run", []) == {}

    stores(story)


def test_missing_or_damaged_facts_raise(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        for numbers in ([1], [0, 1], [99]):
            with pytest.raises(StoreError, match="cannot be read at fact"):
                await store.entries_at("run", numbers)
        await store.append(claim, 1, Chunk(1, b"j{"), "running", None)
        for reading in (store.entries("run"), store.entries_at("run", [1])):
            with pytest.raises(StoreError, match="run run cannot be read at fact 1"):
                await reading
        for missing in (store.entries("other"), store.entries_at("other", [0])):
            with pytest.raises(NoRun):
                await missing

    stores(story)


def test_a_status_can_change_without_facts(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await append(store, claim, 1, status="paused")
        row = await store.row("run")
        assert (row.status, row.facts) == ("paused", 1)
        assert len(await store.appended()) == 1

    stores(story)


def test_append_after_a_gap_is_rejected(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        for first in (0, 2, 3):
            with pytest.raises(StoreError, match=f"1 facts where {first} should be.*roundel resume run"):
                await append(store, claim, first, 1.0)
        assert await facts(store) == [STARTED]

    stores(story)


def test_concurrent_appends_are_written_in_order(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claims = [await store.create(new(name), chunk(STARTED)) for name in ("a", "b")]
        appends = (append(store, claim, first, first) for first in range(1, 30) for claim in claims)
        await asyncio.gather(*appends)
        for name in ("a", "b"):
            assert await facts(store, name) == [STARTED, *waits(*range(1, 30))]

    stores(story)


def test_repeating_an_append_changes_nothing(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await append(store, claim, 1, 1, 2)
        for _ in range(2):
            await append(store, claim, 1, 1, 2)
        await append(store, claim, 3, 3)
        await append(store, claim, 1, 1, 2)
        assert await facts(store) == [STARTED, *waits(1, 2, 3)]
        assert len(await store.appended()) == 3
        with pytest.raises(StoreError, match="4 facts where 1 should be"):  # not the same chunk
            await append(store, claim, 1, 1, 9)

    stores(story)


def test_an_append_returns_its_position(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        claims = [await store.create(new(name), chunk(STARTED)) for name in "ab"]
        claims.append(await other.create(new("c"), chunk(STARTED), chunk(*waits(1.0))))
        given = [(claim.position, claim.run_id) for claim in claims]
        for first in (2, 4):
            for writer, claim in ((store, claims[0]), (store, claims[1]), (other, claims[2])):
                count = first - 1 if claim is not claims[2] else first
                given.append((await append(writer, claim, count, 1, 2), claim.run_id))
        # Together with others, at once or with the row of the run.
        statuses: list[RunStatus] = ["running", "running", "waiting"]
        many = [
            append(writer, claim, 5 + (claim is claims[2]), 3, status=status)
            for writer, claim, status in zip((store, store, other), claims, statuses, strict=True)
        ]
        given += zip(await asyncio.gather(*many), "abc", strict=True)
        newest = {run_id: position for position, run_id in given}
        assert sorted(given) == [
            (one.position, one.run_id)
            for one in await store.appended()
            if (one.run_id, one.first) != ("c", 0)
        ]
        assert [await other.wait_for_append(0, run_id) for run_id in "abc"] == list(map(newest.get, "abc"))
        assert await append(store, claims[0], 5, 3) == 0, "it is there already"
        assert await store.append(claims[0], 6, chunk(), "waiting", None) == 0, "there are no facts"
        assert (await other.claim("a", force=True)).position == 0

    stores(story)


def test_cancelled_append_is_atomic(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        first = 1
        for turns in range(8):
            task = asyncio.create_task(append(store, claim, first, 1, 2))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await append(store, claim, first, 1, 2)  # so it may be repeated
            first += 2
        assert await facts(store) == [STARTED, *waits(*[1, 2] * 8)]

    stores(story)


def test_a_run_is_read_while_it_is_written(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        writing = asyncio.gather(*(append(store, claim, first, first) for first in range(1, 100)))
        everything, seen = [STARTED, *waits(*range(1, 100))], 0
        while seen < 100:
            found = await facts(reader)
            assert found == everything[: len(found)]
            assert len(found) >= seen
            seen = len(found)
            await asyncio.sleep(0)
        await writing

    stores(story)


# Claims.


def test_only_one_process_can_claim_a_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        for one in (store, other):
            with pytest.raises(Busy, match="owns run run"):
                await one.claim("run")
        await store.release(claim)
        assert (await other.row("run")).owner == ""
        claims = (one.claim("run") for one in (store, other) for _ in range(10))
        won = await asyncio.gather(*claims, return_exceptions=True)
        assert sorted(type(one).__name__ for one in won) == ["Busy"] * 19 + ["Claim"]
        with pytest.raises(NoRun, match="there is no run 'other' in this store; `roundel runs` lists them"):
            await store.claim("other")

    stores(story)


def test_claim_reports_fence_facts_and_facts_since_snapshot(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await append(store, claim, 1, 1, 2, 3)
        await store.save_snapshot(claim, Snapshot(3, 7, b"state"), {})
        await store.release(claim)
        again = await open_store().claim("run")
        assert (again.fence, again.facts, again.fresh) == (claim.fence + 1, 4, 1)

    stores(story)


def test_cancelled_claim_or_create_leaves_nothing(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        await store.release(await store.create(new(), chunk(STARTED)))
        for turns in range(1, 6):
            claiming = asyncio.create_task(other.claim("run"))
            creating = asyncio.create_task(other.create(new(f"new {turns}"), chunk(STARTED)))
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in (claiming, creating):
                task.cancel()
            await asyncio.wait([claiming, creating])
            if claiming.cancelled():
                assert (await store.row("run")).owner == ""
            else:
                await other.release(claiming.result())
            made = [row.id for row in await store.rows()]
            assert made.count(f"new {turns}") == (not creating.cancelled())

    stores(story)


def test_forced_claim_takes_over_from_a_live_owner(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        first, second = open_store(), open_store()
        old = await first.create(new(), chunk(STARTED))
        with pytest.raises(Busy):
            await second.claim("run")
        claim = await second.claim("run", force=True)
        assert (claim.fence, claim.facts) == (old.fence + 1, 1)
        assert await first.lost([old]) == [old]
        with pytest.raises(Fenced):
            await first.append(old, 1, chunk(*waits(1)), "running", None)
        with pytest.raises(Fenced):
            await first.save_snapshot(old, Snapshot(1, 1, b"old"), {})
        await first.release(old)
        await second.append(claim, 1, chunk(*waits(2)), "running", None)
        assert await second.lost([claim]) == []
        assert [entry.fact for entry in await first.entries("run")] == [STARTED, *waits(2)]
        with pytest.raises(Busy):  # the old owner has released nothing but its own claim
            await first.claim("run")
        with pytest.raises(NoRun):
            await second.claim("other", force=True)

    stores(story)


def test_cancelled_forced_claim_leaves_the_run_to_its_owner(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        for turns in range(1, 6):
            claiming = asyncio.create_task(other.claim("run", force=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            claiming.cancel()
            await asyncio.wait([claiming])
            if not claiming.cancelled():
                return  # a store that claims without awaiting anything cannot be cancelled in the middle
            assert await store.lost([claim]) == []
            await append(store, claim, turns, turns)
            with pytest.raises(Busy):
                await other.claim("run")

    stores(story)


def test_a_released_claim_can_be_released_again(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        old = await store.create(new(), chunk(STARTED))
        await store.release(old)
        claim = await other.claim("run")
        await store.release(old)
        assert (await store.row("run")).owner
        assert await other.lost([claim]) == []

    stores(story)


def test_deleted_run_is_lost_to_its_owner(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        await other.delete("run")
        assert await store.lost([claim]) == [claim]
        for work in (
            append(store, claim, 1, 1.0),
            store.save_snapshot(claim, Snapshot(1, 1, b""), {}),
            store.settle(claim, [1], "done"),
        ):
            with pytest.raises(Gone, match="run run is no longer in the store"):
                await work
        await store.release(claim)
        await other.create(new(), chunk(STARTED))  # another run with the same id
        with pytest.raises(Gone):
            await append(store, claim, 1, 1.0)
        assert await store.lost([claim]) == [claim]

    stores(story)


# Positions.


def test_positions_rise_in_commit_order_over_all_runs(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        a = await store.create(new("a"), chunk(STARTED))
        b = await other.create(new("b"), chunk(STARTED, *waits(1)))
        await append(store, a, 1, 1, 2)
        await append(other, b, 2, 3)
        found = await store.appended()
        shown = [("a", 0, 1), ("b", 0, 2), ("a", 1, 2), ("b", 2, 1)]
        assert [(one.run_id, one.first, one.count) for one in found] == shown
        positions = [one.position for one in found]
        assert positions == sorted(set(positions))
        assert await other.appended(positions[1]) == found[2:]
        assert await other.appended(positions[0], 2) == found[1:3]
        assert await other.appended(positions[-1]) == []

    stores(story)


def test_positions_are_not_reused_after_delete_or_prune(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        for keep in ("delete", "prune"):
            await store.create(new("first"), chunk(STARTED))
            await store.create(new("last"), chunk(STARTED))
            seen = await store.appended()
            await (store.delete("last") if keep == "delete" else store.prune("last", [], "last"))
            await store.delete("first")
            assert await store.appended() == []
            await store.create(new("new"), chunk(STARTED))
            (appended,) = await store.appended(seen[-1].position)
            assert isinstance(appended, Appended)
            assert appended.run_id == "new"
            await store.delete("new")
            if keep == "prune":
                await store.delete("last")

    stores(story)


# Waiting for appends.


def test_a_waiter_is_woken_by_an_append_to_any_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claims = [await store.create(new(name), chunk(STARTED)) for name in ("a", "b")]
        position = await store.wait_for_append(0)
        assert position == (await store.appended())[-1].position
        for first in (1, 2, 3):
            for claim in claims:
                waiting = [asyncio.create_task(one.wait_for_append(position)) for one in (store, reader)]
                await asyncio.wait(waiting, timeout=0.01)
                assert not any(one.done() for one in waiting)
                await store.append(claim, first, chunk(*waits(first)), "running", None, quiet=True)
                found = await asyncio.gather(*waiting)
                (appended,) = await store.appended(position)
                assert (appended.run_id, appended.first) == (claim.run_id, first)
                assert found == [appended.position] * 2
                position = appended.position

    stores(story)


def test_an_append_wakes_only_those_who_wait_for_its_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claims = {name: await store.create(new(name), chunk(STARTED)) for name in "ab"}
        seen = {name: await reader.wait_for_append(0, name) for name in "ab"}
        waiting = {
            (number, name): asyncio.create_task(one.wait_for_append(seen[name], name))
            for number, one in enumerate((store, reader))
            for name in "ab"
        }
        await asyncio.wait(waiting.values(), timeout=0.01)
        for first in (1, 2, 3):
            position = await append(store, claims["a"], first, first)
            assert [await waiting[number, "a"] for number in (0, 1)] == [position] * 2
            # The poll that has found it for the reader has seen the other run, too.
            assert not any(waiting[number, "b"].done() for number in (0, 1))
            for number, one in enumerate((store, reader)):
                waiting[number, "a"] = asyncio.create_task(one.wait_for_append(position, "a"))
            await asyncio.wait([waiting[0, "a"], waiting[1, "a"]], timeout=0.01)
        position = await append(store, claims["b"], 1, 1)
        assert [await waiting[number, "b"] for number in (0, 1)] == [position] * 2
        assert not any(waiting[number, "a"].done() for number in (0, 1))
        for task in waiting.values():
            task.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)

    stores(story)


@pytest.mark.parametrize("end", ["delete", "prune"])
def test_waiting_for_a_run_ends_when_it_has_no_facts_any_more(stores: Stores, end: str) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        with pytest.raises(NoRun):
            await store.wait_for_append(0, "run")
        claim = await store.create(new(), chunk(STARTED))
        await store.create(new("other"), chunk(STARTED))
        waiting = [asyncio.create_task(one.wait_for_append(claim.position, "run")) for one in (store, reader)]
        await asyncio.wait(waiting, timeout=0.01)
        assert not any(one.done() for one in waiting)
        await store.release(claim)
        await (store.delete("run") if end == "delete" else store.prune("run", [], "last"))
        await asyncio.gather(*waiting)

    stores(story)


def test_a_waiter_finds_its_run_among_very_many_appends(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "MANY_APPENDS", 0)

    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claims = [await store.create(new(name), chunk(STARTED)) for name in "ab"]
        waiting = [
            asyncio.create_task(reader.wait_for_append(claims[-1].position, name)) for name in ("a", "")
        ]
        await asyncio.wait(waiting, timeout=0.01)
        for first in range(1, 4):
            await append(store, claims[1], first, 1)
        assert await waiting[1] > claims[1].position
        assert not waiting[0].done()
        position = await append(store, claims[0], 1, 1)
        assert await waiting[0] == position

    stores(story)


def test_waiter_is_woken_by_quiet_appends_of_a_single_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await store.append(claim, 1, chunk(*waits(1)), "running", None, quiet=True)
        position = (await store.appended())[-1].position
        for first in range(2, 20):
            waiting = asyncio.create_task(store.wait_for_append(position))
            await asyncio.wait([waiting], timeout=0.001)
            await store.append(claim, first, chunk(*waits(first)), "running", None, quiet=True)
            assert await waiting > position
            position = await waiting

    stores(story)


def test_a_waiter_may_be_cancelled(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        position = await store.wait_for_append(0)
        for turns in range(10):
            cancelled, waiting = (asyncio.create_task(store.wait_for_append(position)) for _ in range(2))
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            assert cancelled.cancelled()
            await store.append(claim, 1 + turns, chunk(*waits(turns)), "running", None)
            position = await waiting

    stores(story)


def test_closing_a_store_ends_wait_for_append(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        await store.create(new(), chunk(STARTED))
        waiting = asyncio.create_task(store.wait_for_append(await store.wait_for_append(0)))
        await asyncio.wait([waiting], timeout=0.01)
        await store.close()
        with pytest.raises(StoreError, match="the store was closed"):
            await waiting

    stores(story)


# Control requests.


def test_requests_returns_open_requests_of_several_runs(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        a, b, _ = [await store.create(new(name), chunk(STARTED)) for name in ("a", "b", "c")]
        for run_id, kind in (("b", "pause"), ("a", "stop"), ("c", "stop"), ("b", "resume")):
            await other.request(run_id, kind, {"to": run_id})  # type: ignore[arg-type]
        found = await store.requests([a, b])
        assert [(one.run_id, one.kind) for one in found] == [("b", "pause"), ("a", "stop"), ("b", "resume")]
        assert [one.body for one in found] == [{"to": "b"}, {"to": "a"}, {"to": "b"}]
        assert [one.number for one in found] == sorted(one.number for one in found)
        assert await store.requests([]) == []
        await store.settle(a, [one.number for one in found], "done")  # those of its own run only
        assert [one.run_id for one in await store.requests([a, b])] == ["b", "b"]

    stores(story)


def test_a_request_is_settled_or_withdrawn_never_both(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        settled, withdrawn = await store.request("run", "pause", {}), await store.request("run", "stop", {})
        await store.settle(claim, [settled], "done")
        assert not await store.withdraw(settled)
        assert await store.withdraw(withdrawn)
        await store.settle(claim, [settled, withdrawn], "too late")
        assert await store.outcome(settled) == "done"
        assert await store.outcome(withdrawn) == "withdrawn"
        assert await store.requests([claim]) == []
        with pytest.raises(NoRun):
            await store.request("other", "pause", {})

    stores(story)


def test_only_the_owner_settles_requests(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = open_store(), open_store()
        old = await store.create(new(), chunk(STARTED))
        number = await other.request("run", "pause", {})
        claim = await other.claim("run", force=True)
        with pytest.raises(Fenced):
            await store.settle(old, [number], "done")
        assert [one.number for one in await other.requests([claim])] == [number]
        await other.delete("run")
        with pytest.raises(Gone):
            await other.settle(claim, [number], "done")

    stores(story)


def test_requests_are_deleted_with_their_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        numbers = [await store.request("run", "pause", {})]
        await store.prune("run", [], "last")
        assert await store.requests([claim]) == []
        numbers.append(await store.request("run", "stop", {"odd": {1}.__class__}))
        assert (await store.requests([claim]))[0].body == {"odd": "<class 'set'>"}
        await store.delete("run")
        assert [await store.outcome(number) for number in numbers] == ["", ""]
        assert not await store.withdraw(numbers[1])
        await store.create(new("other"), chunk(STARTED))
        assert await store.request("other", "stop", {}) > numbers[1]

    stores(story)


# Snapshots.


def test_snapshot_lookup_returns_the_newest_at_or_before_an_event(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        assert await reader.snapshot("run") is None
        taken = [Snapshot(facts, facts * 10, f"state {facts}".encode()) for facts in (1, 2, 3)]
        for snapshot in taken:
            await store.save_snapshot(claim, snapshot, {})
        assert await reader.snapshot("run") == taken[2]
        expected = [(9, None), (10, taken[0]), (19, taken[0]), (20, taken[1]), (99, taken[2])]
        for seq, found in expected:
            assert await reader.snapshot("run", seq) == found
        again = Snapshot(3, 30, b"another")
        await store.save_snapshot(claim, again, {})
        assert await reader.snapshot("run") == again
        assert await reader.snapshot("other") is None

    stores(story)


def test_texts_of_snapshots_are_stored_once_per_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim, other = [await store.create(new(name), chunk(STARTED)) for name in ("run", "other")]
        await store.save_snapshot(claim, Snapshot(1, 1, b"1"), {"aa": "tea", "bb": "東京"})
        await store.save_snapshot(claim, Snapshot(1, 2, b"2"), {"aa": "tea", "cc": ""})
        await store.save_snapshot(other, Snapshot(1, 1, b"1"), {"dd": "not theirs"})
        assert await store.texts("run", ["aa", "cc", "dd", "ee"]) == {"aa": "tea", "cc": ""}
        assert await store.texts("run", ["bb"]) == {"bb": "東京"}
        assert await store.texts("nobody", ["aa"]) == {}

    stores(story)


def test_pieces_are_stored_with_the_facts_that_name_them(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim, other = [await store.create(new(name), chunk(STARTED)) for name in ("run", "other")]
        statuses: tuple[RunStatus, ...] = ("running", "running", "paused")
        for first, status in enumerate(statuses, 1):
            for _ in range(2):  # a repetition changes nothing
                given = {"aa": b"tea" * 500, f"0{first}": bytes([first])}
                await store.append(claim, first, chunk(*waits(2.0)), status, None, pieces=given)
        await store.append(other, 1, chunk(*waits(2.0)), "running", None, pieces={"aa": b"coffee"})
        there = {"aa": b"tea" * 500, "01": b"\1", "03": b"\3"}
        assert await reader.pieces("run", ["aa", "01", "03", "04"]) == there
        assert await reader.pieces("other", ["aa", "01"]) == {"aa": b"coffee"}
        assert await reader.pieces("nobody", ["aa"]) == {}
        sizes = [await reader.pieces_size(name) for name in ("run", "other", "nobody")]
        assert sizes[0] >= 6 and sizes[1] >= 6 and sizes[2] == 0
        taken = await store.claim("run", force=True)
        with pytest.raises(Fenced):
            await store.append(claim, 4, chunk(*waits(2.0)), "paused", None, pieces={"bb": b"late"})
        with pytest.raises(StoreError):
            await store.append(taken, 9, chunk(*waits(2.0)), "paused", None, pieces={"bb": b"late"})
        assert await reader.pieces("run", ["bb"]) == {}

    stores(story)


# Rows and retention.


def test_runs_are_listed_the_newest_first(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claims = [await store.create(new(f"{number:03}"), chunk(STARTED)) for number in range(105)]
        await append(store, claims[1], 1, 1.0, status="waiting")
        await append(store, claims[3], 1, 1.0, status="waiting")
        names = [f"{number:03}" for number in reversed(range(105))]
        assert [row.id for row in await reader.rows(None)] == names
        assert [row.id for row in await reader.rows()] == names[:100]
        assert [row.id for row in await reader.rows(2)] == names[:2]
        assert [row.id for row in await reader.rows(status="waiting")] == ["003", "001"]
        assert [row.id for row in await reader.rows(1, "waiting")] == ["003"]
        assert await reader.matching("00") == [f"{number:03}" for number in reversed(range(10))]
        assert await reader.matching("00", 2) == ["009", "008"]
        assert len(await reader.matching("")) == 20
        assert await reader.matching("x") == await reader.matching("_0%") == []
        for missing in (reader.row("x"), reader.pinned("x")):
            with pytest.raises(NoRun):
                await missing

    stores(story)


def test_a_list_is_continued_below_the_last_number(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        for number in range(7):
            await store.create(new(f"run {number}"), chunk(STARTED))
        await store.delete("run 6")
        await store.create(new("run 7"), chunk(STARTED))
        pages, before = [], 0
        while page := await reader.rows(3, before=before):
            pages.append([row.id for row in page])
            before = page[-1].number
            await store.create(new(f"added meanwhile, {before}"), chunk(STARTED))
        assert pages == [["run 7", "run 5", "run 4"], ["run 3", "run 2", "run 1"], ["run 0"]]
        numbers = [row.number for row in await reader.rows(None)]
        assert numbers == sorted(set(numbers), reverse=True)
        assert (await reader.row("run 7")).number > (await reader.row("run 5")).number + 1

    stores(story)


def test_rows_are_filtered_by_statuses_name_groups_and_text(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        for run_id, name, group, text in (
            ("a", "letter", "red", "100% Tea"),
            ("b", "letter", "blue", "tea_time"),
            ("c", "poem", "red", "ÄPFEL"),
            ("d", "Tea", "", "rain"),
        ):
            await store.create(new(run_id, name=name, group=group, text=text), chunk(STARTED))
        claim = await store.claim("b", force=True)
        await append(store, claim, 1, 1.0, status="waiting")

        async def found(**filters: Any) -> str:
            return "".join(row.id for row in await store.rows(**filters))

        assert await found() == "dcba"
        assert await found(statuses=("waiting", "paused")) == "b"
        assert await found(statuses=["waiting", "running"], name="letter") == "ba"
        assert await found(status="waiting", statuses=("running",)) == ""
        assert await found(name="Letter") == ""
        assert await found(groups=["red"]) == "ca"
        assert await found(groups=["", "blue"]) == "db"
        assert await found(groups=()) == ""
        assert await found(text="TEA") == "dba"
        assert await found(text="%") == "a"
        assert await found(text="_") == "b"
        assert await found(text="äpfel") == ""  # the case of other letters than ASCII counts
        assert await found(text="Äpfel") == "c"
        assert await found(text="' OR 1 --") == ""
        assert await found(text="\ud800") == await found(groups=["\udfff"]) == ""
        assert await found(text="tea", groups=("red",), limit=5) == "a"
        assert await found(limit=0) == await found(limit=-1) == await found(before=-(1 << 70)) == ""
        assert await found(limit=1 << 70, before=1 << 70) == "dcba"

    stores(story)


def test_rows_are_filtered_by_time_and_counted(stores: Stores) -> None:
    def costing(cost: float | None) -> dict[str, Any]:
        return {"usage": {"cost_usd": cost}}

    async def story(open_store: Open) -> None:
        store = open_store()
        assert await store.totals() == RunTotals({}, 0, None)
        for run_id, group, created, progress in (
            ("a", "red", 10.0, costing(0.5)),
            ("b", "blue", 20.0, costing(0.25)),
            ("c", "red", 30.5, costing(None)),
            ("d", "", 40.0, None),
            ("e", "red", 50.0, costing(0.125)),
        ):
            made = msgspec.structs.replace(new(run_id, group=group), created=created, progress=progress)
            await store.create(made, chunk(STARTED))
        claim = await store.claim("a", force=True)
        await append(store, claim, 1, 1.0, status="waiting")
        assert [row.id for row in await store.rows(since=20.0)] == ["e", "d", "c"]
        assert [row.id for row in await store.rows(since=19.9, groups=["blue"])] == ["b"]
        assert await store.rows(since=1e300) == []
        assert len(await store.rows(since=-5.0)) == 5
        assert await store.totals() == RunTotals({"running": 4, "waiting": 1}, 5, 0.875)
        assert await store.totals(since=10.0) == RunTotals({"running": 4, "waiting": 1}, 4, 0.375)
        assert await store.totals(["red"], 20.0) == RunTotals({"running": 2, "waiting": 1}, 2, 0.125)
        assert await store.totals([""]) == RunTotals({"running": 1}, 1, None)
        assert await store.totals([]) == await store.totals(["\ud800"]) == RunTotals({}, 0, None)

    stores(story)


FEW = st.sampled_from(["", "a", "B", "b%", "_", "Ä", "ä", "tea", "TEA time", "x\0y", "y", "'", "\ud800"])
STORED = FEW.filter(lambda text: text != "\ud800")
STATUS = st.sampled_from(["running", "waiting", "completed"])
RUNS = st.lists(st.tuples(STORED, STORED, STORED, STATUS), max_size=8)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.none() | st.integers(-1, 9),
        "status": st.just("") | STATUS,
        "statuses": st.lists(STATUS, max_size=2),
        "name": FEW,
        "groups": st.none() | st.lists(FEW, max_size=3),
        "text": FEW,
        "before": st.integers(0, 9),
    },
)


@given(runs=RUNS, filters=st.lists(FILTERS, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_all_stores_answer_random_filters_alike(runs: list[Any], filters: list[dict[str, Any]]) -> None:
    async def answers(store: Store) -> list[Any]:
        for number, (name, group, text, status) in enumerate(runs):
            run = new(f"Run {number}", name=name, group=group, text=text)
            claim = await store.create(run, chunk(STARTED))
            await append(store, claim, 1, 1.0, status=status)
        found = [await store.rows(**chosen) for chosen in filters]
        await store.close()
        return [[(row.id, row.number, row.group, row.status) for row in rows] for rows in found]

    with tempfile.TemporaryDirectory() as folder:
        first, *others = [asyncio.run(answers(make(Path(folder))())) for make in STORES.values()]
    assert all(other == first for other in others)


def test_a_row_shows_progress_from_the_beginning(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        begun = msgspec.structs.replace(new(), progress={"step": 0})
        claim = await store.create(begun, chunk(STARTED))
        assert (await reader.row("run")).progress == {"step": 0}
        odd = {"step": 1, "odd": {1}.__class__}
        await store.append(claim, 1, chunk(*waits(1)), "waiting", {}, False, lambda: odd)
        assert (await reader.row("run")).progress == {"step": 1, "odd": "<class 'set'>"}
        await store.append(claim, 2, chunk(), "waiting", {}, False, lambda: None)
        await store.append(claim, 2, chunk(), "paused", {})
        (row,) = await reader.rows()
        assert row.progress == {"step": 1, "odd": "<class 'set'>"}
        await store.append(claim, 2, chunk(*waits(2)), "completed", {}, False, lambda: {"step": 2})
        await store.release(claim)
        await store.prune("run", [], "last")
        assert (await reader.row("run")).progress == {"step": 2}
        await store.create(new("other"), chunk(STARTED))
        assert (await reader.row("other")).progress is None

    stores(story)


@pytest.mark.parametrize("kind", ["sqlite", "in memory"])
def test_progress_is_computed_when_the_row_is_written_and_not_otherwise(tmp_path: Path, kind: str) -> None:
    now, called = [100.0], []

    def progress() -> dict[str, Any]:
        called.append(now[0])
        return {"time": now[0]}

    async def story(store: Store) -> None:
        claim = await store.create(new(), chunk(STARTED))
        for first, time in enumerate((100.0, 100.5, 100.9, 101.2, 101.3, 102.1, 102.3, 99.0), 1):
            now[0] = time
            await store.append(claim, first, chunk(*waits(first)), "running", None, True, progress)
        assert called == [101.2, 102.3, 99.0], "once a second, and if the clock was set back"
        assert (await store.row("run")).progress == {"time": 99.0}
        await store.append(claim, 9, chunk(*waits(9)), "waiting", {}, True, progress)
        await store.append(claim, 10, chunk(), "running", None, True, progress)
        assert len(called) == 5
        await store.close()

    clock = partial(now.__getitem__, 0)
    on_disk = kind == "sqlite"
    asyncio.run(
        story(
            SqliteStore(tmp_path / "runs.db", sync="off", clock=clock)
            if on_disk
            else InMemoryStore(clock=clock)
        )
    )


def test_pruned_run_keeps_only_the_chosen_events(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED, *waits(1, 2)))
        await store.save_snapshot(claim, Snapshot(3, 3, b"state"), {"aa": "tea"})
        await store.append(claim, 3, chunk(), "completed", {"output": "x"}, pieces={"bb": b"got"})
        await store.release(claim)
        assert await reader.kept("run") is None
        events = [event_of("run_started", seq, timestamp=f"2026-01-0{seq}") for seq in (1, 3)]
        await store.prune("run", events, "first,last")
        assert await reader.kept("run") == events
        row = await reader.row("run")
        assert (row.pruned, row.facts, row.status, row.summary) == (
            "first,last",
            3,
            "completed",
            {"output": "x"},
        )
        assert await reader.snapshot("run") is None
        assert await reader.texts("run", ["aa"]) == {} == await reader.pieces("run", ["bb"])
        with pytest.raises(StoreError, match="run run was pruned to its rounds 'first,last'; its facts"):
            await reader.entries("run")
        for force in (False, True):
            with pytest.raises(StoreError, match="was pruned to its rounds 'first,last'"):
                await store.claim("run", force=force)

    stores(story)


def test_delete_removes_everything_of_a_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        await store.save_snapshot(claim, Snapshot(1, 1, b"state"), {"aa": "tea"})
        await store.release(claim)
        await store.prune("run", [], "last")
        await store.delete("run")
        assert await reader.rows() == []
        assert await reader.kept("run") is None
        for work in (
            store.delete("run"),
            store.prune("run", [], "last"),
            store.row("run"),
            store.claim("run"),
        ):
            with pytest.raises(NoRun):
                await work
        await store.create(new(), chunk(STARTED))
        assert await facts(reader) == [STARTED]
        assert await reader.snapshot("run") is None
        assert await reader.texts("run", ["aa"]) == {}

    stores(story)


# Budgets that runs share.

TODAY = "2026-11-30"


def budget(calls: int, scope: str = "group:ada", period: str = TODAY) -> SharedBudget:
    return SharedBudget(scope, period, {"model_calls": calls})


def test_what_is_reserved_never_exceeds_a_budget(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        opened = [open_store(), open_store()]
        claims = [await store.create(new(f"run{number}")) for number, store in enumerate(opened)]
        tries = [
            store.reserve(claim, f"A[{number}]", Amounts(1), [budget(7)], TODAY)
            for number in range(10)
            for store, claim in zip(opened, claims, strict=True)
        ]
        refused = [shortage for shortage in await asyncio.gather(*tries) if shortage is not None]
        assert len(refused) == 13
        assert (refused[0].what, refused[0].used, refused[0].reserved, refused[0].wanted) == (
            "model_calls",
            0,
            7,
            1,
        )
        assert await opened[0].drawn([budget(0)]) == [Drawn(reserved=Amounts(7))]

    stores(story)


def test_a_reservation_is_made_in_all_budgets_or_in_none(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new())
        both = [budget(5), budget(1, "token:t")]
        assert await store.reserve(claim, "A", Amounts(1), both, TODAY) is None
        shortage = await store.reserve(claim, "B", Amounts(1), both, TODAY)
        assert shortage is not None and shortage.budget.scope == "token:t"
        assert await store.drawn(both) == [Drawn(reserved=Amounts(1))] * 2
        assert await store.spenders() == ["group:ada", "token:t"]

    stores(story)


def test_a_result_books_what_its_call_has_used_once(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = open_store(), open_store()
        claim = await store.create(new(), chunk(STARTED))
        for _ in range(2):  # as after a crash
            assert await store.reserve(claim, "A", Amounts(1, 10, 100), [budget(1)], TODAY) is None
        spent = [Spent("A", Amounts(1, 25, 200))]
        for _ in range(2):  # the caller did not know whether it had succeeded
            await store.append(claim, 1, chunk(*waits(2)), "running", None, spent=spent)
        assert await reader.drawn([budget(1)]) == [Drawn(Amounts(1, 25, 200))]
        assert await store.reserve(claim, "A", Amounts(1), [budget(1)], TODAY) is not None
        # Another day of the same month has room, but not the month.
        assert (
            await store.reserve(claim, "A", Amounts(1), [budget(1, period="2026-12-01")], "2026-12-01")
            is None
        )
        month, total = budget(1, period="2026-11"), budget(1, period="")
        assert await reader.drawn([month, total]) == [
            Drawn(Amounts(1, 25, 200)),
            Drawn(Amounts(1, 25, 200), Amounts(1)),
        ]

    stores(story)


@pytest.mark.parametrize("how", ["stopped", "failed", "deleted", "pruned"])
def test_what_a_run_has_reserved_is_booked_when_it_ends(
    how: Literal["stopped", "failed", "deleted", "pruned"], stores: Stores
) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        claim = await store.create(new(), chunk(STARTED))
        await store.reserve(claim, "A", Amounts(1, 10), [budget(9)], TODAY)
        if how in ("stopped", "failed"):
            await store.append(claim, 1, chunk(*waits(2)), how, {})
        else:
            await store.release(claim)
            await (store.delete("run") if how == "deleted" else store.prune("run", [], "last"))
        assert await store.drawn([budget(9)]) == [Drawn(Amounts(1, 10))]

    stores(story)


def test_only_the_newest_claim_may_reserve(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        old = await store.create(new())
        await store.claim("run", force=True)
        with pytest.raises(Fenced):
            await store.reserve(old, "A", Amounts(1), [budget(1)], TODAY)
        assert await store.spenders() == []

    stores(story)


def test_runs_at_once_are_counted_where_they_are_created(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        opened = [open_store(), open_store()]
        of_group, of_token = RunsAtOnce("group", "ada", 3), RunsAtOnce("started_by", "t", 2)
        tries = [
            store.create(new(f"{number} {place}", group="ada"), chunk(STARTED), room=[of_group])
            for number in range(5)
            for place, store in enumerate(opened)
        ]
        made = await asyncio.gather(*tries, return_exceptions=True)
        claims = [one for one in made if isinstance(one, Claim)]
        assert len(claims) == 3
        assert all(isinstance(one, TooManyRuns) for one in made if one not in claims)
        assert len(await opened[0].rows()) == 3
        owner = opened[int(claims[0].run_id[-1])]
        await append(owner, claims[0], 1, 2, status="waiting")
        await owner.create(new("next", group="ada", by="t"), room=[of_group, of_token])
        assert await owner.runs_at_once([of_group, of_token]) == [3, 1]
        with pytest.raises(TooManyRuns, match="3 runs of the group 'ada' are running"):
            await owner.create(new("more", group="ada"), room=[of_group])

    stores(story)


def test_released_runs_have_no_crashes(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        await store.release(await store.create(new(), chunk(STARTED)))
        assert ((await store.claim("run")).crashes, await store.crashes("run")) == (0, 0)
        with pytest.raises(NoRun):
            await store.crashes("other")

    stores(story)


def test_room_is_set_aside_and_used(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = open_store()
        await store.release(await store.create(new(), chunk(STARTED)))
        await store.set_room_aside()
        await store.set_room_aside()
        await store.use_room()
        assert not await store.use_room(), "it is used up"
        assert (await store.row("run")).facts == 1

    stores(story)
