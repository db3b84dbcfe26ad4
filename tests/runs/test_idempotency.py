"""Starts with an idempotency key: repeated, at the same time, after crashes, and with other content."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roundel
from roundel.journal.documents import DocumentStore
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.in_memory_documents import InMemoryDocumentStore
from roundel.journal.store import Chunk, Claim, NewRun
from roundel.runs.idempotency import COLLECTION, KEPT_SECONDS, IdempotencyConflict
from tests.runs.start_process import GRAPH, start

STORES = ["memory", "file"]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemoryStore() if request.param == "memory" else tmp_path / "runs.db"


def using(place: Any, story: Callable[[roundel.Runs], Awaitable[None]]) -> None:
    async def main() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)

    asyncio.run(main())


def test_a_repeated_start_returns_the_first_run(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        first = await start(runs, 1)
        assert (await runs.wait(first)).status == "waiting"
        assert await start(runs, 1) == first
        other = await start(runs, 2)
        assert other != first
        assert await start(runs, 1, started_by="ann") not in (first, other), "callers have their own keys"
        assert len(await runs.list()) == 3
        plain = await runs.start(GRAPH, "input 1")
        assert plain not in (first, other)

    using(place, story)


def test_starts_at_the_same_time_create_one_run(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        async with roundel.Runs(runs.store) as others:
            ids = await asyncio.gather(*(start((runs, others)[number % 2], 1) for number in range(20)))
            assert len(set(ids)) == 1
            assert [row.id for row in await runs.list()] == ids[:1]
            assert (await runs.result(ids[0])).status == "waiting"

    using(place, story)


@pytest.mark.parametrize(
    "changed",
    [
        {"input": "other"},
        {"input": roundel.Message("tea", "user", data={"n": 1})},
        {"workflow": {"graph": {"id": "other", **GRAPH["graph"]}}},
        {"script": {"A": "yes"}},
        {"limits": {"steps": 5}},
        {"variables": {"KEY": "1234"}},
        {"group": "red"},
        {"breakpoints": ["A"]},
        {"paused": True},
    ],
)
def test_other_content_under_the_same_key_is_refused(place: Any, changed: dict[str, Any]) -> None:
    async def story(runs: roundel.Runs) -> None:
        given: dict[str, Any] = {"workflow": GRAPH, "input": "tea"}
        first = await runs.start(**given, idempotency_key="key")
        with pytest.raises(IdempotencyConflict, match=f"was used to start run {first} with another"):
            await runs.start(**{**given, **changed}, idempotency_key="key")
        assert await runs.start(**given, idempotency_key="key") == first
        assert len(await runs.list()) == 1
        # Neither the key nor the variables can be read from what is stored.
        (document,) = await runs.store.documents().list(COLLECTION)
        assert "key" not in document.key
        assert set(document.body) == {"run", "digest"}
        assert document.expires == pytest.approx(document.updated + KEPT_SECONDS, abs=60)

    using(place, story)


def test_a_run_that_is_not_stored_has_no_key() -> None:
    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(ValueError, match="requires a stored run"):
            await runs.start(GRAPH, idempotency_key="key", stored=False)

    using(InMemoryStore(), story)


def test_a_key_that_has_expired_starts_a_new_run() -> None:
    later = [0.0]

    async def story(runs: roundel.Runs) -> None:
        first = await start(runs, 1)
        later[0] = KEPT_SECONDS - 600
        assert await start(runs, 1) == first
        later[0] = KEPT_SECONDS + 600
        assert await start(runs, 1) != first

    using(InMemoryStore(clock=lambda: time.time() + later[0]), story)


# Crashes.

MOMENTS = ("before the document", "after the document", "before the run", "after the run", "never")


class Crash(BaseException):
    """The process ends here."""


class CrashingDocuments(InMemoryDocumentStore):
    moment = "never"

    async def put(self, *names: Any, **options: Any) -> int:
        _crash_at(self.moment, "before the document")
        version = await super().put(*names, **options)
        _crash_at(self.moment, "after the document")
        return version


class CrashingStore(InMemoryStore):
    """A store that outlives the crashes of its processes."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = "never"
        self._crashing = CrashingDocuments(self._now)

    def documents(self) -> InMemoryDocumentStore:
        self._crashing.moment = self.moment
        return self._crashing

    async def create(self, run: NewRun, *chunks: Chunk, **room: Any) -> Claim:
        _crash_at(self.moment, "before the run")
        claim = await super().create(run, *chunks, **room)
        if self.moment == "after the run":
            await self.release(claim)  # its lease ends with the process
        _crash_at(self.moment, "after the run")
        return claim


def _crash_at(chosen: str, moment: str) -> None:
    if chosen == moment:
        raise Crash


@given(st.lists(st.sampled_from(MOMENTS), max_size=5))
@settings(max_examples=50, deadline=None)
def test_whenever_a_start_crashes_repeating_it_leads_to_one_run(moments: list[str]) -> None:
    async def story() -> None:
        store = CrashingStore()
        ids: set[str] = set()
        for moment in [*moments, "never", "never"]:
            store.moment = moment
            runs = roundel.Runs(store)
            try:
                ids.add(await start(runs, 1))
            except Crash:
                continue
            assert len(ids) == 1
            assert [row.id for row in await store.rows()] == list(ids)

    asyncio.run(story())


def processes(path: Path, *crashes: tuple[int, str], keys: int) -> list[list[list[str]]]:
    """Starts all keys in several processes at once; the keys and run ids that each of them reports."""
    command = [sys.executable, "-m", "tests.runs.start_process", str(path), str(keys)]
    started = [
        subprocess.Popen(
            [*command, str(left), moment], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for left, moment in crashes
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [[line.split() for line in process.communicate()[0].splitlines()] for process in started]


def test_processes_that_start_and_crash_create_one_run_for_each_key(tmp_path: Path) -> None:
    path, keys = tmp_path / "runs.db", 12
    reported = [
        *processes(path, (3, "before"), (2, "after"), keys=keys),
        *processes(path, (2, "after"), (0, ""), keys=keys),
        *processes(path, (0, ""), keys=keys),
    ]
    found: dict[str, set[str]] = {}
    for lines in reported:
        for key, run_id in lines:
            found.setdefault(key, set()).add(run_id)
    assert sorted(map(int, found)) == list(range(keys))
    assert all(len(ids) == 1 for ids in found.values()), "all processes got the same run"

    async def story(runs: roundel.Runs) -> None:
        rows = await runs.list(limit=None)
        assert {row.id for row in rows} == {run_id for ids in found.values() for run_id in ids}
        assert sorted(row.input for row in rows) == sorted(f"input {key}" for key in range(keys))
        documents: DocumentStore = runs.store.documents()
        assert len(await documents.list(COLLECTION, limit=1000)) == keys

    using(path, story)
