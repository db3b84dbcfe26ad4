"""Control requests that no process answers, or that arrive too late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import roundel
from roundel.hosts import local
from roundel.hosts.control import Resume
from roundel.hosts.engine import Attachment
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim, Fenced, StoreError
from tests.journal.stores import chunk, using, waits
from tests.runs.polish_workflow import ALONE, in_store, run_stored


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def wait_for_request(store: SqliteStore, claim: Claim) -> None:
    """Until there is a request for the run."""
    while not await store.requests([claim]):
        pass


async def ended(runs: roundel.Runs, run_id: str) -> None:
    """Until this process does not execute the run any more."""
    for _ in range(5000):
        if not runs.engine.knows(run_id):
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it is still executed")


def test_unanswered_request_is_withdrawn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = run_stored(place, ALONE).run_id
    monkeypatch.setattr(local, "REQUEST_SECONDS", 0.0)

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)  # its process lives, and answers nothing
        with pytest.raises(StoreError, match="did not answer within 0 seconds; try again, or stop the run"):
            await roundel.Runs(store).pause(run_id)
        assert await store.requests([claim]) == [], "it must not be applied some day"

    in_store(place, story)


def test_run_of_an_unresponsive_process_can_be_stopped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = run_stored(place, ALONE).run_id
    monkeypatch.setattr(local, "REQUEST_SECONDS", 0.0)

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)
        await roundel.Runs(store).stop(run_id, "enough")
        row = await store.row(run_id)
        assert (row.status, row.owner) == ("stopped", "")
        assert await store.lost([claim]) == [claim]
        with pytest.raises(Fenced):
            await store.append(claim, claim.facts, chunk(*waits(9.0)), "waiting", None)

    in_store(place, story)


def test_a_request_to_a_process_that_ends_is_applied_to_the_store(place: Path) -> None:
    run_id = run_stored(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)

        async def end_when_asked() -> None:
            await wait_for_request(store, claim)
            await store.release(claim)

        ending = asyncio.create_task(end_when_asked())
        await roundel.Runs(store).pause(run_id)
        await ending
        assert (await store.row(run_id)).status == "paused"

    in_store(place, story)


def test_cancelled_caller_withdraws_its_request(place: Path) -> None:
    run_id = run_stored(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)
        asking = asyncio.create_task(roundel.Runs(store).stop(run_id))
        await wait_for_request(store, claim)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await store.requests([claim]) == []

    in_store(place, story)


def test_resume_without_execution_changes_nothing(place: Path) -> None:
    run_id = run_stored(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        before = await store.row(run_id)
        assert await roundel.Runs(store).engine.control(run_id, Resume()) is False
        assert await store.row(run_id) == before

    in_store(place, story)


def test_wait_returns_the_result_of_a_run_that_is_already_idle(place: Path) -> None:
    """The answer ends the run, and the task that executes it, before `answer` returns."""
    run_id = run_stored(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        runs = roundel.Runs(store)
        await runs.answer(run_id, "ACCEPT", execute=Attachment())
        await ended(runs, run_id)
        result = await runs.wait(run_id)
        assert result == await runs.result(run_id)
        assert result.status == (await store.row(run_id)).status

    in_store(place, story)


def test_result_raises_when_the_run_fails_in_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = roundel.Graph(start="A", end="A")
    has_started, go = asyncio.Event(), asyncio.Event()

    @graph.function("A")
    async def a() -> str:
        has_started.set()
        await go.wait()
        return "done"

    async def broken(*_arguments: object) -> None:
        raise StoreError("the disk is gone")

    async def story(store: SqliteStore) -> None:
        runs = roundel.Runs(store)
        run_id = await runs.start(graph)
        await has_started.wait()
        monkeypatch.setattr(store, "append", broken)
        go.set()
        await ended(runs, run_id)
        with pytest.raises(StoreError, match="the disk is gone"):
            await runs.result(run_id)

    asyncio.run(using(tmp_path / "runs.db", story))
