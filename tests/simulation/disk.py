"""The store as a simulated process sees it.

All processes share one `InMemoryStore`, which satisfies the same protocol as a database, by the same tests.
Each process has a `Connection` to it, and everything that surrounds a store happens there:

    time        each operation takes some time, so that others happen in between
    disk        while the disk is full, everything that writes raises StoreFailure and writes nothing
    death       a process may die before an operation, or after it is durable and before it learns of it

When a process dies, its claims lose their owner, as the lease of a dead process does.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from typing import Any

import msgspec

from roundel.journal.chunk_rows import entries_in
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.store import Claim, StoreFailure
from roundel.journal.takeovers import PROGRESS
from roundel.kernel.facts import Paused, Resumed, Unlocked

WRITING = frozenset(
    {
        "create",
        "claim",
        "append",
        "release",
        "save_snapshot",
        "prune",
        "delete",
        "request",
        "settle",
        "withdraw",
    }
)
DOCUMENTS_WRITING = frozenset({"put", "delete", "append", "forget"})
"""Without `expire`, which writes nothing as long as nothing has expired."""

DELAYS = (0.0, 0.0, 0.0, 0.001, 0.02)
SLOW_DELAYS = (0.0, 0.01, 0.1, 0.3)
"""Seconds that an operation may take."""


class Disk:
    """The disk of a world."""

    def __init__(self, dice: random.Random) -> None:
        self.full = False
        self._dice, self._delays = dice, dice.choice((DELAYS, DELAYS, SLOW_DELAYS))

    def delay(self) -> float:
        """How long an operation takes."""
        return self._dice.choice(self._delays)

    def check(self) -> None:
        if self.full:
            raise StoreFailure("runs.db: database or disk is full; make room")


class SharedStore(InMemoryStore):
    """The data of a world. It outlives the processes that use it, so it counts crashes, as SQLite does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock=clock)
        self._abandoned: set[str] = set()
        """Runs whose owner died, and that nobody has claimed since."""
        self._takeovers: dict[str, tuple[int, int]] = {}
        """The facts of a run at its last take-over, and how many there were in a row."""

    def abandon(self, claim: Claim) -> None:
        """What the death of a process does to a claim."""
        if self._holds(claim):
            self._runs[claim.run_id].owned = False
            self._abandoned.add(claim.run_id)

    async def claim(self, run_id: str, *, force: bool = False) -> Claim:
        died = self._run(run_id).status == "running" and run_id in self._abandoned
        claim = await super().claim(run_id, force=force)
        self._abandoned.discard(run_id)
        crashes = await self.crashes(run_id) + died
        self._takeovers[run_id] = (claim.facts, crashes)
        return msgspec.structs.replace(claim, crashes=crashes)

    async def crashes(self, run_id: str) -> int:
        facts, count = self._takeovers.get(run_id, (0, 0))
        later = await self.entries(run_id, facts) if count else []
        return 0 if any(isinstance(entry.fact, PROGRESS) for entry in later) else count

    def is_paused(self, name: str) -> bool:
        """Whether a pause of the run with this input is stored, and nothing that ends it."""
        for run in self._runs.values():
            if run.new.input == name:
                entries = entries_in(run.chunks, 0, run.facts)
                facts = [one.fact for one in entries if isinstance(one.fact, (Paused, Resumed, Unlocked))]
                return bool(facts) and isinstance(facts[-1], Paused)
        return False

    def statuses(self) -> dict[str, str]:
        return {run_id: run.status for run_id, run in self._runs.items()}

    def owned(self) -> set[str]:
        return {run_id for run_id, run in self._runs.items() if run.owned}


class Connection:
    """The store of one process. Looks like the store itself."""

    def __init__(
        self, store: SharedStore, disk: Disk, dice: random.Random, die: Callable[[], None], lethal: float
    ) -> None:
        self._store, self._disk, self._dice, self._die, self.lethal = store, disk, dice, die, lethal
        self.claims: dict[str, Claim] = {}
        self._documents = _Documents(self, store.documents())

    def documents(self) -> Any:
        return self._documents

    async def close(self) -> None:
        for claim in list(self.claims.values()):
            await self.release(claim)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found) or name == "wait_for_append":
            return found

        async def operation(*arguments: Any, **options: Any) -> Any:
            return await self.perform(found, name in WRITING, *arguments, **options)

        setattr(self, name, operation)
        return operation

    async def claim(self, run_id: str, **options: Any) -> Claim:
        claim: Claim = await self.perform(self._store.claim, True, run_id, **options)
        return claim

    async def create(self, *arguments: Any, **options: Any) -> Claim:
        claim: Claim = await self.perform(self._store.create, True, *arguments, **options)
        return claim

    async def release(self, claim: Claim) -> None:
        try:
            await self.perform(self._store.release, True, claim)
        except StoreFailure:
            await self._store.release(claim)  # the heartbeat does so as soon as that is possible
            raise
        finally:
            # Not before: a process that dies here dies with the claim.
            if self.claims.get(claim.run_id) == claim:
                del self.claims[claim.run_id]

    async def perform(
        self, function: Callable[..., Any], writes: bool, *arguments: Any, **options: Any
    ) -> Any:
        """One operation, with what may happen around it."""
        fate = self._dice.random()
        await asyncio.sleep(self._disk.delay())
        if writes:
            self._disk.check()
            if fate < self.lethal:
                await self._end()
        result = await function(*arguments, **options)
        if isinstance(result, Claim):
            self.claims[result.run_id] = result
        if writes and self.lethal <= fate < 2 * self.lethal:
            await self._end()
        if not isinstance(result, Claim):  # a caller that is cancelled here would lose its claim
            await asyncio.sleep(0)
        return result

    async def _end(self) -> None:
        self._die()
        await asyncio.get_running_loop().create_future()  # never: its loop does not run again


class _Documents:
    """The documents of one process's store."""

    def __init__(self, connection: Connection, documents: Any) -> None:
        self._connection, self._of_store = connection, documents

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of_store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def operation(*arguments: Any, **options: Any) -> Any:
            return await self._connection.perform(found, name in DOCUMENTS_WRITING, *arguments, **options)

        setattr(self, name, operation)
        return operation
