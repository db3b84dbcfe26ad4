"""Which process owns a run, with a clock and processes of the test, and with real processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from roundel.journal.leases import Process
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Busy, Claim, Fenced
from tests.journal.stores import STARTED, chunk, new, query, using, waits

LEASE = 10_000.0
"""Far longer than a test in real time, so that no store sends a heartbeat by itself."""


class Machine:
    """A clock, and the processes that are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1e9
        self.running: dict[tuple[int, int], str] = {}
        self._opened = AsyncExitStack()

    def store(
        self, pid: int, namespace: int = 1, boot_id: str = "boot", started: str = "5", lease: float = LEASE
    ) -> SqliteStore:
        """The store as a process sees it."""
        if boot_id:
            self.running[namespace, pid] = started
        process = Process(boot_id, namespace, pid, started, "box")
        store = SqliteStore(
            self.path,
            sync="off",
            clock=lambda: self.now,
            lease_seconds=lease,
            processes=Seen(self, process),
        )
        self._opened.push_async_callback(store.close)
        return store

    async def beat(self, store: SqliteStore) -> None:
        await store._writer.write(store._send_heartbeat)

    async def close(self) -> None:
        await self._opened.aclose()


class Seen:
    """What one process sees of the machine."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine, self._process = machine, process

    def current(self) -> Process:
        return self._process

    def start_time(self, pid: int) -> str | None:
        return self._machine.running.get((self._process.pid_namespace, pid))


Story = Callable[[Machine], Awaitable[None]]


def run_with_machine(path: Path, story: Story) -> None:
    async def run_story() -> None:
        machine = Machine(path / "runs.db")
        try:
            await story(machine)
        finally:
            await machine.close()

    asyncio.run(run_story())


async def is_owned(store: SqliteStore) -> bool:
    """Whether a run has an owner: its row says the same as an attempt to claim it."""
    owner = (await store.row("run")).owner
    try:
        claim = await store.claim("run")
    except Busy as busy:
        shown = str(busy)
        return bool(owner) and owner in shown
    assert not owner
    await store.release(claim)
    return False


def test_a_run_is_owned_while_heartbeats_come(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1), machine.store(2)
        await owner.create(new(), chunk(STARTED))
        for _ in range(5):
            machine.now += LEASE - 1
            assert await is_owned(other)
            await machine.beat(owner)
        machine.now += LEASE
        assert not await is_owned(other)

    run_with_machine(tmp_path, story)


def test_one_heartbeat_renews_all_runs_of_a_process(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1), machine.store(2)
        for number in range(50):
            await owner.create(new(f"run {number}"), chunk(STARTED))
        machine.now += LEASE - 1
        await machine.beat(owner)
        machine.now += LEASE - 1
        assert all(row.owner == "process 1" for row in await other.rows())
        assert len(query(machine.path, "SELECT * FROM owners")) == 1

    run_with_machine(tmp_path, story)


def test_suspended_process_is_fenced_if_its_run_was_claimed(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        stopped, other = machine.store(1), machine.store(2)
        old = await stopped.create(new(), chunk(STARTED))
        machine.now += LEASE
        claim = await other.claim("run")
        await machine.beat(stopped)
        assert (await stopped.row("run")).owner == "process 2"
        assert await stopped.lost([old]) == [old]
        with pytest.raises(Fenced):
            await stopped.append(old, 1, chunk(*waits(1)), "running", None)
        await other.append(claim, 1, chunk(*waits(2)), "running", None)

    run_with_machine(tmp_path, story)


def test_suspended_process_continues_if_its_run_was_not_claimed(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        stopped, other = machine.store(1), machine.store(2)
        claim = await stopped.create(new(), chunk(STARTED))
        machine.now += 3 * 86400
        assert not (await other.row("run")).owner
        await other.create(new("other"), chunk(STARTED))  # deletes the rows of processes that are long dead
        assert len(query(machine.path, "SELECT * FROM owners")) == 1
        await stopped.append(claim, 1, chunk(*waits(1)), "running", None)
        await machine.beat(stopped)
        assert (await other.row("run")).owner == "process 1"
        assert await stopped.lost([claim]) == []

    run_with_machine(tmp_path, story)


def test_dead_process_loses_its_runs_immediately(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        dead, other = machine.store(1), machine.store(2)
        await dead.create(new(), chunk(STARTED))
        assert await is_owned(other)
        machine.running[1, 1] = "9"  # another process has its pid
        assert not await is_owned(other)

    run_with_machine(tmp_path, story)


@pytest.mark.parametrize(("namespace", "boot_id"), [(2, "boot"), (1, "other"), (0, "")])
def test_unobservable_process_keeps_its_runs_until_the_lease_expires(
    tmp_path: Path, namespace: int, boot_id: str
) -> None:
    """In a container with the same host name, on another machine, on a system that tells nothing."""

    async def story(machine: Machine) -> None:
        owner, other = machine.store(7, namespace, boot_id), machine.store(2)
        await owner.create(new(), chunk(STARTED))
        machine.running.pop((namespace, 7), None)
        machine.now += LEASE - 1
        assert await is_owned(other)
        assert (await other.row("run")).owner == "process 7 on box"
        machine.now += 1
        assert not await is_owned(other)

    run_with_machine(tmp_path, story)


def test_clock_set_back_does_not_extend_leases_of_dead_processes(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        dead, other = machine.store(1, boot_id=""), machine.store(2)
        await dead.create(new(), chunk(STARTED))
        machine.now -= 1e6
        assert await is_owned(other)  # from now on it has one lease, not a million seconds more
        machine.now += LEASE - 1
        assert await is_owned(other)
        machine.now += 1
        assert not await is_owned(other)

    run_with_machine(tmp_path, story)


def test_clock_set_back_does_not_expire_live_leases(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1, boot_id="", lease=4 * LEASE), machine.store(2)
        await owner.create(new(), chunk(STARTED))
        machine.now -= 1e6
        for _ in range(10):
            assert await is_owned(other)
            machine.now += 3 * LEASE  # its lease is longer than that of the reader, and counts
            await machine.beat(owner)

    run_with_machine(tmp_path, story)


def test_closing_a_store_releases_its_runs(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1), machine.store(2)
        await owner.create(new(), chunk(STARTED))
        await owner.close()
        assert not await is_owned(other)
        assert (await other.claim("run")).fence == 3

    run_with_machine(tmp_path, story)


def test_failed_release_is_retried(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1), machine.store(2)
        claim = await owner.create(new(), chunk(STARTED))
        await owner.create(new("other run"), chunk(STARTED))
        query(
            machine.path, "CREATE TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT raise(ABORT, 'full'); END"
        )
        with pytest.raises(Exception, match="full"):
            await owner.release(claim)
        assert (await other.row("run")).owner
        assert not (await owner.row("run")).owner  # it knows better
        query(machine.path, "DROP TRIGGER full")
        await machine.beat(owner)
        assert not (await other.row("run")).owner
        assert (await other.row("other run")).owner

    run_with_machine(tmp_path, story)


def test_cancelled_claim_leaves_the_run_unowned(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        owner, other = machine.store(1), machine.store(2)
        claim = await owner.create(new(), chunk(STARTED))
        await owner.release(claim)
        for turns in range(4):
            claiming = asyncio.create_task(other.claim("run"))
            creating = asyncio.create_task(other.create(new(f"new {turns}"), chunk(STARTED)))
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in (claiming, creating):
                task.cancel()
            await asyncio.wait([claiming, creating])
            assert claiming.cancelled()
            assert creating.cancelled()
            assert [row.id for row in await owner.rows()] == ["run"]
            assert not await is_owned(owner)

    run_with_machine(tmp_path, story)


# Real processes.


@contextmanager
def owner_of(path: Path, lease: float, *before: str) -> Iterator[subprocess.Popen[str]]:
    """A process that owns a run (owning.py)."""
    command = [*before, sys.executable, "-m", "tests.journal.owner_process", str(path), str(lease)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "owns\n"
            yield owner
        finally:
            owner.kill()


def says(owner: subprocess.Popen[str]) -> str:
    """What it says after it has tried to append a fact."""
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.stdin.write("\n")
    owner.stdin.flush()
    return owner.stdout.readline().strip()


async def claim_when_possible(store: SqliteStore) -> Claim:
    """Claims the run as soon as that is possible."""
    while True:
        try:
            return await store.claim("run")
        except Busy:
            await asyncio.sleep(0.01)


def test_killed_process_loses_its_run_immediately(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        with owner_of(path, 1e6) as owner:
            assert (await store.row("run")).owner == f"process {owner.pid}"
            with pytest.raises(Busy):
                await store.claim("run")
            owner.kill()
            owner.wait()
            assert (await store.claim("run")).fence == 2

    asyncio.run(using(path, story))


def test_a_suspended_process_loses_its_run_when_its_lease_expires(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        with owner_of(path, 1.0) as owner:
            os.kill(owner.pid, signal.SIGSTOP)
            claim = await claim_when_possible(store)
            await store.append(claim, 1, chunk(*waits(1)), "running", None)
            os.kill(owner.pid, signal.SIGCONT)
            assert says(owner) == "fenced"
        assert [entry.fact for entry in await store.entries("run")] == [STARTED, *waits(1)]

    asyncio.run(using(path, story))


def test_a_process_whose_event_loop_is_blocked_keeps_its_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        with owner_of(path, 1.0) as owner:  # it reads from a pipe, in its event loop
            first = last = query(path, "SELECT alive_until FROM owners")
            while last[0][0] < first[0][0] + 2.0:  # twice as long as its lease
                assert (await store.row("run")).owner
                await asyncio.sleep(0.05)
                last = query(path, "SELECT alive_until FROM owners")
            assert says(owner) == "appended"

    asyncio.run(using(path, story))


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_process_in_another_pid_namespace_keeps_its_run(tmp_path: Path) -> None:
    """It has the same host name, and a pid that means another process here, or none."""
    path, inside = tmp_path / "runs.db", ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespaces here")

    async def story(store: SqliteStore) -> None:
        with owner_of(path, 1e6, *inside) as owner:
            with pytest.raises(Busy, match=r"process 1 on "):
                await store.claim("run")
            assert says(owner) == "appended"
            await store.claim("run", force=True)
            assert says(owner) == "fenced"

    asyncio.run(using(path, story))
