"""Wishes that nobody looks at, or that come too late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim, StoreError
from roundel.sessions import control
from tests.sessions.polishing import ALONE, in_store, kept


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def asked(store: SqliteStore, claim: Claim) -> None:
    """Until somebody wishes something of the run."""
    while not await store.requests([claim]):
        pass


def test_a_wish_that_nobody_looks_at_is_taken_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = kept(place, ALONE).run_id
    monkeypatch.setattr(control, "PATIENCE", 0.0)

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)  # at work, and deaf
        with pytest.raises(StoreError, match="did not look at it in time; try again"):
            await control.stop(store, run_id)
        assert await store.requests([claim]) == [], "it must not be obeyed some day"
        await store.release(claim)
        await control.stop(store, run_id)
        assert (await store.row(run_id)).status == "stopped"

    in_store(place, story)


def test_a_wish_to_a_process_that_ends_is_done_in_the_store(place: Path) -> None:
    run_id = kept(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)

        async def end_when_asked() -> None:
            await asked(store, claim)
            await store.release(claim)

        ending = asyncio.create_task(end_when_asked())
        await control.pause(store, run_id)
        await ending
        assert (await store.row(run_id)).status == "paused"

    in_store(place, story)


def test_whoever_stops_waiting_takes_the_wish_back(place: Path) -> None:
    run_id = kept(place, ALONE).run_id

    async def story(store: SqliteStore) -> None:
        claim = await store.claim(run_id)
        asking = asyncio.create_task(control.stop(store, run_id))
        await asked(store, claim)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await store.requests([claim]) == []

    in_store(place, story)


def test_to_resume_a_run_that_nobody_is_at_work_on_is_left_to_others(place: Path) -> None:
    run_id = kept(place, ALONE).run_id
    assert in_store(place, lambda store: control.resume(store, run_id)) is False
