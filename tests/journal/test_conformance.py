"""What every store does, whatever it keeps its runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Busy, Fenced, Gone, NoRun, Snapshot, Store, StoreError
from tests.journal.stores import STARTED, chunk, new, waits

Open = Callable[[], Awaitable[Store]]
"""Opens the same store once more, as another process would."""
Story = Callable[[Open], Awaitable[None]]
Stores = Callable[[Story], None]


@pytest.fixture(params=["sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Runs a story with an empty store, which is closed afterwards."""

    async def tell(story: Story) -> None:
        async with AsyncExitStack() as opened:

            async def open_store() -> Store:
                store = SqliteStore(tmp_path / "runs.db", sync="off")
                opened.push_async_callback(store.close)
                return store

            await story(open_store)

    return lambda story: asyncio.run(tell(story))


# Claims.


def test_force_takes_a_run_over_from_a_live_owner(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        first, second = await open_store(), await open_store()
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


# Waiting for appends.


def test_a_waiter_is_woken_by_an_append_to_any_run(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, reader = await open_store(), await open_store()
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


def test_a_waiter_that_is_alone_with_one_run_is_woken_too(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = await open_store()
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
        store = await open_store()
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


def test_closing_a_store_ends_the_wait(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store = await open_store()
        await store.create(new(), chunk(STARTED))
        waiting = asyncio.create_task(store.wait_for_append(await store.wait_for_append(0)))
        await asyncio.wait([waiting], timeout=0.01)
        await store.close()
        with pytest.raises(StoreError, match="the store was closed"):
            await waiting

    stores(story)


# Control requests.


def test_one_query_gives_the_open_requests_of_many_runs(stores: Stores) -> None:
    async def story(open_store: Open) -> None:
        store, other = await open_store(), await open_store()
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
        store = await open_store()
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
        store, other = await open_store(), await open_store()
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
