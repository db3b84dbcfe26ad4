"""How often in a row the owner of a run has died, as claims count it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim
from roundel.kernel.events import RunStatus
from roundel.kernel.facts import Fact, Finished, Outcome, Paused, Reopened, Resumed, Unlocked
from roundel.workflow.message import Message
from tests.journal.stores import STARTED, chunk, new, query
from tests.journal.test_leases import Machine, run_with_machine

DONE = Finished("A", Outcome((Message("done"),)), 2.0)
UNLOCKED = Unlocked("repaired", "ann", ("cause_understood",), 2.0)


class Deaths:
    """A run whose owners die one after the other."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._pid = machine, 1

    async def begin(self) -> Claim:
        return await self._machine.store(1).create(new(), chunk(STARTED))

    async def take_over(self, *facts: Fact, status: RunStatus = "running") -> Claim:
        """The next process finds the owner dead, claims the run, and writes some facts."""
        del self._machine.running[1, self._pid]
        self._pid += 1
        store = self._machine.store(self._pid)
        claim = await store.claim("run")
        written = chunk(Reopened(1.0), *facts)
        await store.append(claim, claim.facts, written, status, None)
        return claim


def test_each_death_without_progress_counts(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        deaths = Deaths(machine)
        assert (await deaths.begin()).crashes == 0
        assert [(await deaths.take_over()).crashes for _ in range(4)] == [1, 2, 3, 4]
        assert await machine.store(99).crashes("run") == 4

    run_with_machine(tmp_path, story)


@pytest.mark.parametrize("progress", [DONE, UNLOCKED])
def test_progress_begins_the_count_anew(tmp_path: Path, progress: Fact) -> None:
    async def story(machine: Machine) -> None:
        deaths = Deaths(machine)
        await deaths.begin()
        assert (await deaths.take_over()).crashes == 1
        assert (await deaths.take_over(progress)).crashes == 2
        assert await machine.store(99).crashes("run") == 0
        assert (await deaths.take_over()).crashes == 1

    run_with_machine(tmp_path, story)


def test_pause_is_no_progress(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        deaths = Deaths(machine)
        await deaths.begin()
        facts = Paused("lunch", 1.0, interrupt=True), Resumed(1.0)
        assert [(await deaths.take_over(*facts)).crashes for _ in range(3)] == [1, 2, 3]

    run_with_machine(tmp_path, story)


def test_owner_of_a_run_that_waits_may_die(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        deaths = Deaths(machine)
        await deaths.begin()
        assert [(await deaths.take_over(status="waiting")).crashes for _ in range(3)] == [1, 1, 1]

    run_with_machine(tmp_path, story)


def test_release_and_a_closed_store_are_no_deaths(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        first, second = machine.store(1), machine.store(2)
        await first.release(await first.create(new(), chunk(STARTED)))
        assert (await second.claim("run")).crashes == 0
        await second.close()
        assert (await first.claim("run")).crashes == 0

    run_with_machine(tmp_path, story)


def test_count_stays_over_a_release(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        deaths = Deaths(machine)
        await deaths.begin()
        claim = await deaths.take_over()
        store = machine.store(50)
        await machine.store(2).release(claim)
        again = await store.claim("run")
        assert again.crashes == 1, "the one before still counts, and this is none"
        await store.release(again)
        await store.delete("run")
        assert query(machine.path, "SELECT * FROM takeovers") == []

    run_with_machine(tmp_path, story)


def test_suspended_process_that_claims_its_run_again_has_not_died(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        store = machine.store(1)
        await store.create(new(), chunk(STARTED))
        machine.now += 1e6
        assert (await store.claim("run")).crashes == 0

    run_with_machine(tmp_path, story)


def test_cancelled_claim_counts_no_death(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.store(1).create(new(), chunk(STARTED))
        del machine.running[1, 1]
        store = machine.store(2)
        claiming = asyncio.create_task(store.claim("run"))
        await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming])
        assert claiming.cancelled()
        assert await store.crashes("run") == 0
        assert (await machine.store(3).claim("run")).crashes == 1, "the death was not counted twice"

    run_with_machine(tmp_path, story)


def test_store_of_an_older_version_has_no_count(tmp_path: Path) -> None:
    async def work() -> None:
        store = SqliteStore(tmp_path / "runs.db", sync="off")
        await store.release(await store.create(new(), chunk(STARTED)))
        await store.close()
        query(tmp_path / "runs.db", "DROP TABLE takeovers")
        (tmp_path / "runs.db").chmod(0o444)
        assert await store.crashes("run") == 0
        await store.close()
        (tmp_path / "runs.db").chmod(0o644)
        assert (await store.claim("run")).crashes == 0
        await store.close()

    asyncio.run(work())
