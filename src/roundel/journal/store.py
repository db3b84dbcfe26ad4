"""The protocol of a store of runs: everything that hosts, runs and commands use of one, and nothing
else.

Two implementations exist: SqliteStore (sqlite.py) and InMemoryStore (in_memory.py). Third parties add
others (registry.py). tests/journal/test_conformance.py applies to all of them; each sentence below has a
test there. It is a protocol and not a base class: shared behaviour would fix how stores write, and the
speed of a journal depends on what each database does best.

*Claims and fences.* A process that executes a run claims it first. A claim has a fence, a number that
rises with each claim of that run, and everything written for the run must carry the newest: a process
that was taken for dead and was not finds that its fence is old, and writes nothing.

*Leases.* A run that is claimed is owned until the claim is released, the store object is closed, or the
lease of its process expires because the process died or was suspended. A store renews its leases by
itself, without the help of an event loop.

*Positions.* Each append gets a position in commit order over all runs. A reader of the whole store continues
from the last position that it has seen, and misses nothing.

*Errors.* All are StoreErrors. Where a store can only be read, everything that reads works, and everything
that writes raises StoreError. Using a store after it was closed opens it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from roundel.kernel.events import Event, RunStatus
from roundel.kernel.facts import Entry
from roundel.memory.store import MemoryStore

if TYPE_CHECKING:  # it imports the errors from here
    from roundel.journal.documents import DocumentStore
    from roundel.journal.spending import Amounts, Drawn, RunsAtOnce, SharedBudget, Shortage, Spent

RequestKind = Literal[
    "pause", "resume", "retry", "stop", "answer", "lock", "unlock", "step", "breakpoints", "edit"
]


ALL_RUNS = ""
"""In place of the id of a run."""
EXCERPT = 500
"""Characters of the output of a run that an excerpt of its summary has."""
Progress = Callable[[], dict[str, Any] | None]
"""Computes how far a run is, for its row; None leaves what the row has."""


class StoreError(Exception):
    """An operation of a store failed; the text says what is wrong, where, and what to do."""


class StoreFailure(StoreError):
    """The store cannot be read or written: its path, the disk or what it contains is at fault."""


class Busy(StoreError):
    """Another process owns the run."""


class Fenced(StoreError):
    """Another process has taken the run over. The process that gets this must stop executing the run,
    and has written nothing."""


class Gone(StoreError):
    """The store, or a run in it, was deleted or replaced while it was in use."""


class NoRun(StoreError):
    """There is no such run."""


class RunExists(StoreError):
    """There is a run with this id already."""


class Pinned(Struct, frozen=True):
    """What a run was started with, which is all that reading it needs. Created by
    hosts/stored_run.py."""

    workflow: str
    """The loaded workflow (workflow/encoding.py)."""
    semantics: int
    """The version of the rules by which it is executed (kernel/step.py)."""
    limits: dict[str, float | str] = {}
    """The limits given for the run, in place of the workflow's; a fork with another workflow has them,
    too."""
    script: str = ""
    script_rights: tuple[str, ...] | None = None
    """What the script may do besides replying (llm/script.py). None without a script, and for runs that were
    stored before scripts had rights."""
    context_bytes: int | None = None
    """How many bytes the run may keep of what its model calls got; None if that was not chosen."""


class RunRow(Struct, frozen=True):
    """What a store knows of a run without reading its facts; for lists of runs."""

    id: str
    name: str
    status: RunStatus
    created: float
    updated: float
    input: str
    facts: int
    owner: str
    """The process that owns it, as text; empty if none does."""
    parent: str = ""
    forked_at: str = ""
    summary: dict[str, Any] | None = None
    pruned: str = ""
    """Which rounds are left of it, if it was pruned."""
    group: str = ""
    """The group of its memory, by which a server decides who may see it."""
    started_by: str = ""
    number: int = 0
    """Rises with each run of the store, so that a list can be continued below the last one seen."""
    progress: dict[str, Any] | None = None
    """How far the run is, in any status (kernel/progress.py). It may be about a second older than the last
    facts."""
    saved_as: str = ""
    """The name of the saved workflow that it was started from; empty if there is none."""
    workflow_version: str = ""
    """The version of that workflow."""


class RunTotals(Struct, frozen=True):
    """Figures over many runs, for the head of a list. Created by a store."""

    statuses: dict[str, int]
    """The number of runs in each status that occurs."""
    created: int
    """The number of runs that were created after the given time."""
    cost_usd: float | None
    """What these have cost; None if no price is known."""


class NewRun(Struct, frozen=True):
    """A run to create."""

    id: str
    name: str
    input: str
    pinned: Pinned
    created: float
    parent: str = ""
    forked_at: str = ""
    group: str = ""
    started_by: str = ""
    progress: dict[str, Any] | None = None
    saved_as: str = ""
    workflow_version: str = ""


class Claim(Struct, frozen=True):
    """The right to write a run, until another process claims it. Created by a store."""

    run_id: str
    run: int
    fence: int
    facts: int
    """How many facts the run had when it was claimed."""
    fresh: int = 0
    """How many of the facts are newer than the last snapshot."""
    crashes: int = 0
    """How many owners in a row have died while the run was running, without progress of the run."""
    position: int = 0
    """That of the last facts with which the run was created; 0 if it was there before."""


class Chunk(Struct, frozen=True):
    """Facts to be written, packed (journal/run_journal.py)."""

    count: int
    body: bytes
    seq: int | None = None
    """The number of the last event after these facts; None if it is not known."""


class Snapshot(Struct, frozen=True):
    """A run as it was between two steps (kernel/snapshot.py)."""

    facts: int
    """How many facts were applied to it."""
    seq: int
    """The number of its last event."""
    body: bytes


class Appended(Struct, frozen=True):
    """One append to one of the store's runs, as a reader of the whole store sees it."""

    position: int
    """Its number in commit order, over all runs of the store. Numbers may be missing, but a reader who
    has seen a position never finds a smaller one later."""
    run_id: str
    first: int
    """The number of its first fact."""
    count: int


class ControlRequest(Struct, frozen=True):
    """A request of one process to the process that owns a run: to pause it, to stop it, to apply an
    answer."""

    number: int
    """Rises over all runs of the store, in the order in which requests were made."""
    run_id: str
    kind: RequestKind
    body: dict[str, Any]


@runtime_checkable
class HasWriteQueue(Protocol):
    """A store that queues its writes. Apart from `Store`, since it only serves metrics."""

    @property
    def waiting_writes(self) -> int:
        """How many batches of writes of this process are not completed."""


@runtime_checkable
class HasFormats(Protocol):
    """A store whose file may have an older format. Apart from `Store`, since it only serves an upgrade."""

    async def migrate(self, check: bool = False) -> Conversion:
        """Converts the store to the current format, after a copy of it was made. With `check`, only says what
        would be done. StoreError if it cannot be converted, or another process owns runs of it."""


class Conversion(Struct, frozen=True):
    """What converting a store does, or would do."""

    before: int
    after: int
    """The formats."""
    steps: tuple[str, ...]
    """What each step does, for people."""
    copy: Path
    """The copy in the old format; there is none if there are no steps."""


@runtime_checkable
class Store(Protocol):
    """A store of runs. `open_store` (registry.py) creates one from a path or a URL.

    Every method that writes is durable when it returns, as far as the store promises durability, and is
    either done completely or not at all."""

    # The store itself.

    @property
    def location(self) -> str:
        """Where the store is, for messages: a path, or a URL without secrets."""

    @property
    def workspaces(self) -> Path | None:
        """The folder in which runs have their working folders; None if the store is not in a file system."""

    async def exists(self) -> bool:
        """Whether there is a store yet. Creates nothing; StoreError if something else is in its place."""

    def memory(self) -> MemoryStore:
        """The memories that belong to this store. StoreError if it has no place for them."""

    def documents(self) -> DocumentStore:
        """The documents that belong to this store. StoreError if it has no place for them."""

    async def size(self) -> int:
        """How many bytes the store takes."""

    async def compact(self) -> None:
        """Returns the space of deleted and pruned runs to the system."""

    async def set_room_aside(self) -> None:
        """Keeps some space on the disk for `use_room`. Nothing where there is no disk."""

    async def use_room(self) -> bool:
        """Returns to the store what was set aside, so that runs can be deleted although the disk is full.
        Whether there was anything."""

    async def close(self) -> None:
        """Completes what was requested and releases everything that this object uses: threads, files,
        and all its claims, so that other processes can take over their runs at once."""

    # Writing runs.

    async def create(self, run: NewRun, *chunks: Chunk, room: Sequence[RunsAtOnce] = ()) -> Claim:
        """Creates a run with its first facts, all of them or none, and claims it. RunExists if there is a
        run with this id; TooManyRuns if one of the limits of `room` is reached, whichever process started
        the others. If the caller is cancelled meanwhile, there is no such run: it would stay `running` with
        nobody to execute it."""

    async def claim(self, run_id: str, *, force: bool = False) -> Claim:
        """Takes a run over. NoRun; Busy if another process owns the run and its lease has not expired. If the
        caller is cancelled meanwhile, the run is as it was.

        If the run is running, and its owner died instead of releasing it, the claim counts that, in the same
        transaction (`Claim.crashes`).

        `force` takes the run over even from a live owner. The fence makes that safe: the next append of the
        old owner raises Fenced and writes nothing.

        The store renews the lease of a claim by itself until the claim is released."""

    async def append(
        self,
        claim: Claim,
        first: int,
        chunk: Chunk,
        status: RunStatus,
        summary: dict[str, Any] | None,
        quiet: bool = False,
        progress: Progress | None = None,
        spent: Sequence[Spent] = (),
        pieces: Mapping[str, bytes] = {},
    ) -> int:
        """Appends facts from number `first` on; they are durable when this returns. Returns their position; 0
        if nothing was appended, since there are no facts or the append is repeated. Fenced if the claim is
        old.

        `quiet`: the run has nothing else in flight, so waiting for the disk delays no work of it.

        `progress` is called, before anything is awaited, if this append also writes the row of the run: with
        each change of status, and otherwise about once a second.

        `spent` is booked with the facts, and ends the reservations of these calls. A status in which the run
        is over books what the run still has reserved.

        `pieces`, by digest, are stored with the facts: what model calls got (hosts/contexts.py). Those that
        the run has already are ignored.

        Appends are written in the order in which they are requested, and nothing behind a gap: once one
        fails, all that follow fail.

        Repeating an append with the same claim, number and chunk changes nothing and is no error, so a
        caller that does not know whether it succeeded may try again."""

    async def appended(self, after: int = 0, limit: int = 1000) -> list[Appended]:
        """The appends to any run after a position, in commit order, without deleted and pruned runs."""

    async def wait_for_append(self, after: int, run_id: str = ALL_RUNS) -> int:
        """Returns the newest position as soon as it is larger than `after`: at once if it already is, else
        when any process appends to any run. With `run_id`, only that run counts: appends to others do not
        wake the caller. Appends of this process wake the caller immediately, those of other processes within
        about 50 ms. StoreError if the store is closed meanwhile.

        A run that is deleted or pruned meanwhile has no further append; then this returns, too, so that the
        caller finds out by reading it. NoRun if there is no such run."""

    async def lost(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those of these claims that are not valid any more: another process has taken the run over, or the
        run was deleted. For runs that append nothing for a long time and would not notice otherwise."""

    async def crashes(self, run_id: str) -> int:
        """How many owners in a row have died, as claims have counted; 0 as soon as the run has made progress.
        NoRun."""

    async def release(self, claim: Claim) -> None:
        """Lets other processes claim the run. Changes nothing if another process has taken it over. Even if
        this raises StoreError, the claim is released for this process."""

    # Budgets that runs share (spending.py).

    async def reserve(
        self, claim: Claim, address: str, wanted: Amounts, budgets: Sequence[SharedBudget], day: str
    ) -> Shortage | None:
        """Reserves amounts for the call at an address, on a day, in all these budgets or in none; returns why
        they do not fit, or None. What several processes reserve never exceeds a budget together. It takes the
        place of an earlier reservation for that address. Fenced if the claim is old."""

    async def drawn(self, budgets: Sequence[SharedBudget]) -> list[Drawn]:
        """What is used and reserved of each budget."""

    async def spenders(self) -> list[str]:
        """The scopes for which anything was ever reserved or booked, in order."""

    async def runs_at_once(self, limits: Sequence[RunsAtOnce]) -> list[int]:
        """How many of the runs that each limit counts are `running`."""

    # Reading runs, and snapshots, which make that quick.

    async def save_snapshot(self, claim: Claim, snapshot: Snapshot, texts: Mapping[str, str]) -> None:
        """Adds a snapshot, and the long texts, by digest, that it refers to and that are in no fact.
        Fenced if the claim is old."""

    async def snapshot(self, run_id: str, seq: int | None = None) -> Snapshot | None:
        """The newest one, or the newest that was taken at or before an event; None if there is none."""

    async def texts(self, run_id: str, digests: Sequence[str]) -> dict[str, str]:
        """The texts that were saved with snapshots. Those that are missing or damaged are left out: the
        caller then replays facts instead of using the snapshot."""

    async def pieces(self, run_id: str, digests: Sequence[str]) -> dict[str, bytes]:
        """What was stored with facts as `pieces`; those that are missing are left out."""

    async def pieces_size(self, run_id: str) -> int:
        """How many bytes the pieces of a run take, and its other texts."""

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        """A run's entries, without the first `after`. StoreError if one of them cannot be read or is missing.
        NoRun."""

    async def entries_at(self, run_id: str, numbers: Sequence[int]) -> dict[int, Entry]:
        """Single entries by their numbers, from 0. StoreError if one of them cannot be read or is missing.
        NoRun."""

    async def last_event(self, run_id: str) -> int | None:
        """The number of the run's last event (`Chunk.seq` of its last chunk); None if it is not known, as for
        a run that was pruned. NoRun."""

    async def row(self, run_id: str, excerpt: bool = False) -> RunRow:
        """The row of a run. NoRun. `excerpt` is that of `rows`."""

    async def rows(
        self,
        limit: int | None = 100,
        status: str = "",
        *,
        statuses: Sequence[str] = (),
        name: str = "",
        groups: Sequence[str] | None = None,
        text: str = "",
        before: int = 0,
        since: float = 0,
        saved_as: str = "",
        excerpt: bool = False,
    ) -> list[RunRow]:
        """The newest runs first, all of them if `limit` is None. Only those that fit every filter:

        - `status`, or any of `statuses`, if they are not empty;
        - `name`: the name of the workflow, exactly;
        - `groups`: any of them; None means all, and an empty sequence none;
        - `text`: is found in the id, the name or the preview of the input, whatever the case of ASCII
          letters; no character has a special meaning;
        - `before`: has a smaller number, so that the number of the last row continues a list;
        - `since`: was created after this time;
        - `saved_as`: was started from the saved workflow with this name, exactly.

        With `excerpt`, a summary has only EXCERPT characters of its `output` and its `error`, neither `data`
        nor `warnings`, and in `output_length` the number of characters of the whole output: outputs may have
        megabytes."""

    async def totals(self, groups: Sequence[str] | None = None, since: float = 0) -> RunTotals:
        """How many runs of these groups there are in each status, and what those of them have cost that were
        created after a time. Reads no facts."""

    async def matching(self, prefix: str, limit: int = 20) -> list[str]:
        """The ids of runs that begin like this, the newest first."""

    async def pinned(self, run_id: str) -> Pinned:
        """What the run was started with. NoRun."""

    # Retention.

    async def prune(self, run_id: str, events: Sequence[Event], policy: str) -> None:
        """Replaces the facts, snapshots, texts, pieces and control requests of a run by these events. The run
        cannot be claimed any more, and its entries cannot be read. NoRun."""

    async def kept(self, run_id: str) -> list[Event] | None:
        """The events that are left of a pruned run; None if the run was not pruned."""

    async def delete(self, run_id: str) -> None:
        """Deletes a run and everything that belongs to it. NoRun. Positions are not given again."""

    # Control requests.

    async def request(self, run_id: str, kind: RequestKind, body: dict[str, Any]) -> int:
        """Leaves a control request for the process that owns a run; returns its number. NoRun."""

    async def requests(self, claims: Sequence[Claim]) -> list[ControlRequest]:
        """The open requests of all these runs, in the order in which they were made. Changes nothing, so
        that one poller can serve all runs of a process."""

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        """Closes requests of the run with an outcome, which must not be empty. A request that is closed
        already keeps its outcome. Fenced if the claim is old."""

    async def outcome(self, number: int) -> str:
        """The outcome with which a request was settled; empty while it is open."""

    async def withdraw(self, number: int) -> bool:
        """Closes an open request, so that no owner applies it; False if it was settled already. Exactly
        one of `settle` and `withdraw` succeeds."""
