"""What a store of runs does. SQLite is one (sqlite.py); others do the same behind the same few calls.

Whoever works on a run claims it. A claim has a number that rises with each claim of that run, and everything
written for it must carry the newest: a process that was thought dead, and was not, finds that its number is
old and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from roundel.kernel.events import Event
from roundel.kernel.facts import Entry

Wish = Literal["pause", "resume", "stop", "answer", "unlock"]


class StoreError(Exception):
    """The store cannot do it: the text says what is wrong, where, and what to do."""


class Busy(StoreError):
    """Somebody else is at work on the run."""


class Fenced(StoreError):
    """Somebody else has taken the run over."""


class Gone(StoreError):
    """The store, or a run in it, was deleted or replaced while it was in use."""


class NoRun(StoreError):
    """There is no such run."""


class Pinned(Struct, frozen=True):
    """What a run was started with: all that is needed to read it."""

    workflow: str
    """The loaded workflow (workflow/encoding.py)."""
    semantics: int
    """The version of what it means (kernel/step.py)."""
    limits: dict[str, float] = {}
    """Those given for the run, in place of the workflow's; a fork with another workflow keeps them."""
    script: str = ""


class RunRow(Struct, frozen=True):
    """What a store knows of a run without reading its facts."""

    id: str
    name: str
    status: str
    created: float
    updated: float
    input: str
    facts: int
    owner: str
    """Who is at work on it; empty if nobody is."""
    parent: str = ""
    forked_at: str = ""
    summary: dict[str, Any] | None = None
    pruned: str = ""
    """How much was kept of it, if not everything."""


class NewRun(Struct, frozen=True):
    id: str
    name: str
    input: str
    pinned: Pinned
    created: float
    parent: str = ""
    forked_at: str = ""


class Claim(Struct, frozen=True):
    run_id: str
    run: int
    fence: int
    facts: int
    """How many facts there are."""
    owner: str = ""
    fresh: int = 0
    """How many of the facts are newer than the last snapshot."""


class Chunk(Struct, frozen=True):
    """Facts to be written: how many, and packed."""

    count: int
    body: bytes


class Snapshot(Struct, frozen=True):
    """A run as it was between two steps (kernel/snapshot.py)."""

    facts: int
    """How many facts it had been told."""
    seq: int
    """The number of its last event."""
    body: bytes


class Appended(Struct, frozen=True):
    """One append to one of the store's runs, as a reader of the whole store sees it."""

    position: int
    """Its number in commit order, over all runs of the store. Numbers may be left out, but a reader who has
    seen a position never finds a smaller one later."""
    run_id: str
    first: int
    """The number of its first fact."""
    count: int


class Control(Struct, frozen=True):
    """What somebody wants of a run that another process is at work on."""

    number: int
    wish: Wish
    body: dict[str, Any]


class Store(Protocol):
    @property
    def folder(self) -> Path:
        """Where there is room for what belongs to its runs."""

    async def create(self, run: NewRun, chunk: Chunk | None = None) -> Claim:
        """A new run, claimed. If the caller is cancelled meanwhile, there is no such run."""

    async def claim(self, run_id: str) -> Claim:
        """NoRun; Busy if a process that is alive is at work on it. If the caller is cancelled meanwhile, the
        run is as it was."""

    async def append(
        self,
        claim: Claim,
        first: int,
        chunk: Chunk,
        status: str,
        summary: dict[str, Any] | None,
        quiet: bool = False,
    ) -> None:
        """Facts from number `first` on; they are safe when this returns. Fenced if the claim is old.

        `quiet`: the run has nothing else at work, so nobody in it minds to wait for the disk.

        What is appended in order is written in order, and nothing behind a gap: once one fails, all do.

        Repeating an append with the same claim, number and chunk changes nothing and is no error, so a
        caller that does not know whether it succeeded may try again."""

    async def appended(self, after: int = 0, limit: int = 1000) -> list[Appended]:
        """What was appended to any run behind a position, in commit order."""

    async def renew(self, claim: Claim) -> None: ...

    async def release(self, claim: Claim) -> None:
        """Nobody is at work on the run any more."""

    async def save_snapshot(self, claim: Claim, snapshot: Snapshot, texts: Mapping[str, str]) -> None:
        """Adds a snapshot, and the long texts by digest that it refers to and that stand in no fact. Fenced
        if the claim is old."""

    async def snapshot(self, run_id: str, seq: int | None = None) -> Snapshot | None:
        """The newest one, or the newest that was taken at or before an event."""

    async def texts(self, run_id: str, digests: Sequence[str]) -> dict[str, str]:
        """The texts that were saved with snapshots, as far as they are there and can be read."""

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        """A run's journal, from an entry on. StoreError if one of them cannot be read, or is not there."""

    async def entries_at(self, run_id: str, numbers: Sequence[int]) -> dict[int, Entry]:
        """Single entries by their numbers; StoreError if one of them cannot be read, or is not there."""

    async def row(self, run_id: str) -> RunRow: ...

    async def pinned(self, run_id: str) -> Pinned: ...

    async def kept(self, run_id: str) -> list[Event] | None:
        """What is left of a run that was pruned; None if all of it is there."""

    async def rows(self, limit: int = 100, status: str = "") -> list[RunRow]: ...

    async def ask(self, run_id: str, wish: Wish, body: dict[str, Any]) -> int:
        """Leaves a wish for the process that is at work on a run."""

    async def controls(self, claim: Claim) -> list[Control]:
        """The wishes that nobody has looked at yet."""

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None: ...

    async def outcome(self, number: int) -> str:
        """What became of a wish; empty while nobody has looked at it."""

    async def withdraw(self, number: int) -> bool:
        """Takes a wish back; False if somebody has looked at it already."""

    async def close(self) -> None: ...
