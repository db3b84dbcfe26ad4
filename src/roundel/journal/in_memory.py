"""InMemoryStore: runs in the memory of this process, for tests, and for programs that embed the engine.

The store has the same semantics as SqliteStore, and encodes facts and events in the same way, so that
what works here works there. What it cannot do is outlive its process. It needs no leases for the same
reason: an owner that dies takes the store with it. As a second implementation it is also the proof that
the protocol (store.py) is complete.

Every method does its work under one lock and without awaiting anything. So each is atomic for all event loops
and threads that share the store, and a caller that is cancelled finds either all of it done or nothing.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import msgspec
from msgspec import Struct, field

from roundel.journal.chunk_rows import (
    UPDATE_EVERY,
    ChunkRow,
    UnreadableEntry,
    decode_entries,
    decoding_entries,
    encode_fields,
    entries_among,
    gap_error,
    lost_claim_error,
    no_run_error,
    run_exists_error,
)
from roundel.journal.in_memory_documents import InMemoryDocumentStore
from roundel.journal.run_rows import excerpt_of
from roundel.journal.spending import (
    NOTHING,
    Amounts,
    Drawn,
    RunsAtOnce,
    SharedBudget,
    Shortage,
    Spent,
    TooManyRuns,
    find_shortage,
)
from roundel.journal.store import (
    ALL_RUNS,
    Appended,
    Busy,
    Chunk,
    Claim,
    ControlRequest,
    NewRun,
    Pinned,
    Progress,
    RequestKind,
    RunRow,
    RunTotals,
    Snapshot,
    StoreError,
)
from roundel.journal.waiting import AppendSignal
from roundel.kernel.events import EVENTS, Event, RunStatus, decode_event, encode_event, is_over
from roundel.kernel.facts import VERSION, Entry
from roundel.memory.process_store import ProcessMemoryStore

SCHEME = "memory:"
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
"""What SQLite calls lower case; `str.lower` knows more letters."""


class _StoredRun(Struct):
    """A run with everything that SqliteStore has in rows of several tables."""

    number: int
    new: NewRun
    updated: float
    status: RunStatus = "running"
    fence: int = 1
    owned: bool = True
    facts: int = 0
    seq: int | None = None
    """The number of the last event, if the last chunk says it."""
    position: int = 0
    """That of the last chunk."""
    chunks: list[ChunkRow] = field(default_factory=list)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    pieces: dict[str, bytes] = field(default_factory=dict)
    summary: bytes | None = None
    progress: bytes | None = None
    shown: float = 0.0
    """When the progress was last computed."""
    pruned: str = ""
    kept: list[bytes] | None = None


class _StoredRequest(Struct):
    run: int
    kind: RequestKind
    body: bytes
    outcome: str = ""


class InMemoryStore:
    """A store in memory. `name` appears in messages; `open_store` returns the same store for the same
    name."""

    def __init__(self, name: str = "", *, clock: Callable[[], float] = time.time) -> None:
        self._now = clock
        self.location = f"{SCHEME}{name}"
        self.workspaces = None
        self._lock = threading.RLock()
        self._runs: dict[str, _StoredRun] = {}
        """By id, the oldest first."""
        self._numbers = 0
        self._position = 0
        """The newest position. It only ever rises, so deleting runs gives none again."""
        self._appended: dict[int, Appended] = {}
        self._requests: dict[int, _StoredRequest] = {}
        self._request_number = 0
        self._reserved: dict[tuple[int, str], tuple[str, Sequence[str], Amounts]] = {}
        """By run and address: the day, the scopes and the amounts."""
        self._spent: dict[tuple[str, str], Amounts] = {}
        """By scope and day."""
        self._signal = AppendSignal()
        self._memory = ProcessMemoryStore()
        self._documents = InMemoryDocumentStore(clock)

    async def exists(self) -> bool:
        return True

    def memory(self) -> ProcessMemoryStore:
        return self._memory

    def documents(self) -> InMemoryDocumentStore:
        return self._documents

    async def size(self) -> int:
        with self._lock:
            return sum(
                sum(len(body) for *_, body in run.chunks)
                + sum(len(snapshot.body) for snapshot in run.snapshots.values())
                + sum(map(len, run.kept or ()))
                + sum(map(len, run.pieces.values()))
                for run in self._runs.values()
            )

    async def compact(self) -> None:
        """Nothing to do: the memory of deleted runs is free already."""

    async def set_room_aside(self) -> None:
        """Nothing to do: there is no disk."""

    async def use_room(self) -> bool:
        return False

    async def close(self) -> None:
        """Releases all claims. The runs stay, as long as there is a reference to the store."""
        self._signal.close(f"{self.location}: the store was closed while an append was waiting")
        with self._lock:
            for run in self._runs.values():
                run.owned = False

    # Writing runs.

    async def create(self, run: NewRun, *chunks: Chunk, room: Sequence[RunsAtOnce] = ()) -> Claim:
        """Nothing is awaited between the creation and the return, so no cancellation can lose the
        claim."""
        with self._lock:
            if run.id in self._runs:
                raise run_exists_error(run.id)
            for limit in room:
                if self._running(limit) >= limit.most:
                    raise TooManyRuns(limit)
            self._numbers += 1
            made = self._runs[run.id] = _StoredRun(self._numbers, run, run.created)
            made.progress, made.shown = encode_fields(run.progress), self._now()
            for chunk in chunks:
                self._add(made, chunk)
            return Claim(run.id, made.number, 1, made.facts, made.facts, position=made.position)

    async def claim(self, run_id: str, *, force: bool = False) -> Claim:
        """`owned` stands in for a lease: the owner is a task of this process, and cannot die without
        it."""
        with self._lock:
            run = self._run(run_id)
            if run.pruned:
                raise StoreError(
                    f"run {run_id} was pruned to its rounds '{run.pruned}', and cannot be resumed"
                )
            if run.owned and not force:
                raise Busy(f"another task owns run {run_id} (process {os.getpid()})")
            run.fence += 1
            run.owned = True
            last = max(run.snapshots, default=None)
            frozen = 0 if last is None else run.snapshots[last].facts
            return Claim(run_id, run.number, run.fence, run.facts, run.facts - frozen)

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
        """Checks fence and place as chunk_rows.py does in SQL. `quiet` means nothing here: there is no
        disk."""
        with self._lock:
            run = self._claimed(claim)
            if first != run.facts:
                if (first, chunk.count, VERSION, chunk.body) in run.chunks:
                    return 0  # repeated by a caller that did not know whether it succeeded
                raise gap_error(claim, run.facts, first, self.location)
            position = self._add(run, chunk)
            for digest, body in pieces.items():
                run.pieces.setdefault(digest, body)
            now = self._now()
            # As often as SQLite writes the row; computing it with each append would make runs slower.
            due = status != run.status or not run.shown <= now < run.shown + UPDATE_EVERY
            if progress is not None and (due or summary is not None or not chunk.count):
                run.progress, run.shown = encode_fields(progress()) or run.progress, now
            run.status, run.updated = status, now
            if summary is not None:
                run.summary = encode_fields(summary)
            for one in spent:
                self._book(run.number, one.address, one.amounts)
            if is_over(status):
                self._book_rest(run.number)
            return position

    def _add(self, run: _StoredRun, chunk: Chunk) -> int:
        """Appends a chunk at the next position, and returns that; 0 without facts. Called with the lock, so
        positions rise in the order of appends."""
        if not chunk.count:
            return 0
        self._position += 1
        self._appended[self._position] = Appended(self._position, run.new.id, run.facts, chunk.count)
        run.chunks.append((run.facts, chunk.count, VERSION, chunk.body))
        run.facts += chunk.count
        run.seq, run.position = chunk.seq, self._position
        self._signal.notify(self._position, run.new.id)
        return self._position

    async def appended(self, after: int = 0, limit: int = 1000) -> list[Appended]:
        with self._lock:
            # By position and not over the dictionary: its cost does not depend on what was read before.
            found: list[Appended] = []
            for position in range(after + 1, self._position + 1):
                if len(found) >= limit:
                    break
                if position in self._appended:
                    found.append(self._appended[position])
            return found

    async def wait_for_append(self, after: int, run_id: str = ALL_RUNS) -> int:
        async def newest() -> int:
            with self._lock:
                return self._run(run_id).position if run_id else self._position

        return await self._signal.wait(after, newest, run_id)

    async def lost(self, claims: Sequence[Claim]) -> list[Claim]:
        with self._lock:
            return [claim for claim in claims if not self._holds(claim)]

    async def crashes(self, run_id: str) -> int:
        """No owner dies without this store."""
        with self._lock:
            self._run(run_id)
            return 0

    async def release(self, claim: Claim) -> None:
        with self._lock:
            if self._holds(claim):
                self._runs[claim.run_id].owned = False

    async def save_snapshot(self, claim: Claim, snapshot: Snapshot, texts: Mapping[str, str]) -> None:
        with self._lock:
            run = self._claimed(claim)
            run.snapshots[snapshot.seq] = snapshot
            run.texts = {**texts, **run.texts}  # a digest has one text, so the first one stays

    # Budgets that runs share.

    async def reserve(
        self, claim: Claim, address: str, wanted: Amounts, budgets: Sequence[SharedBudget], day: str
    ) -> Shortage | None:
        with self._lock:
            self._claimed(claim)
            self._reserved.pop((claim.run, address), None)
            for budget in budgets:
                shortage = find_shortage(budget, self._drawn(budget), wanted)
                if shortage is not None:
                    return shortage
            scopes = [budget.scope for budget in budgets]
            self._reserved[claim.run, address] = (day, scopes, wanted)
            return None

    async def drawn(self, budgets: Sequence[SharedBudget]) -> list[Drawn]:
        with self._lock:
            return [self._drawn(budget) for budget in budgets]

    async def spenders(self) -> list[str]:
        with self._lock:
            reserved = {scope for _, scopes, _ in self._reserved.values() for scope in scopes}
            return sorted(reserved | {scope for scope, _ in self._spent})

    async def runs_at_once(self, limits: Sequence[RunsAtOnce]) -> list[int]:
        with self._lock:
            return [self._running(limit) for limit in limits]

    def _running(self, limit: RunsAtOnce) -> int:
        return sum(
            run.status == "running" and getattr(run.new, limit.of) == limit.name
            for run in self._runs.values()
        )

    def _drawn(self, budget: SharedBudget) -> Drawn:
        used, reserved = NOTHING, NOTHING
        for (scope, day), amounts in self._spent.items():
            if scope == budget.scope and day.startswith(budget.period):
                used += amounts
        for day, scopes, amounts in self._reserved.values():
            if budget.scope in scopes and day.startswith(budget.period):
                reserved += amounts
        return Drawn(used, reserved)

    def _book(self, run: int, address: str, amounts: Amounts | None) -> None:
        found = self._reserved.pop((run, address), None)
        if found is not None:
            day, scopes, reserved = found
            for scope in scopes:
                self._spent[scope, day] = self._spent.get((scope, day), NOTHING) + (amounts or reserved)

    def _book_rest(self, run: int) -> None:
        for number, address in list(self._reserved):
            if number == run:
                self._book(run, address, None)

    # Reading runs.

    async def snapshot(self, run_id: str, seq: int | None = None) -> Snapshot | None:
        with self._lock:
            run = self._runs.get(run_id)
            places = [] if run is None else [one for one in run.snapshots if seq is None or one <= seq]
            return run.snapshots[max(places)] if run is not None and places else None

    async def texts(self, run_id: str, digests: Sequence[str]) -> dict[str, str]:
        with self._lock:
            run = self._runs.get(run_id)
            known = run.texts if run is not None else {}
            return {digest: known[digest] for digest in digests if digest in known}

    async def pieces(self, run_id: str, digests: Sequence[str]) -> dict[str, bytes]:
        with self._lock:
            run = self._runs.get(run_id)
            known = run.pieces if run is not None else {}
            return {digest: known[digest] for digest in digests if digest in known}

    async def pieces_size(self, run_id: str) -> int:
        with self._lock:
            run = self._runs.get(run_id)
            return sum(map(len, run.pieces.values())) if run is not None else 0

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        with self._lock:
            run = self._run(run_id)
            if run.pruned:
                raise StoreError(
                    f"run {run_id} was pruned to its rounds '{run.pruned}'; its facts were deleted"
                )
            rows = [row for row in run.chunks if row[0] + row[1] > after]
            count = run.facts
        # Decoded outside of the lock, like below: chunks never change, and decoding takes the longest.
        with decoding_entries(self.location, run_id):
            return await decode_entries(rows, after, count)

    async def entries_at(self, run_id: str, numbers: Sequence[int]) -> dict[int, Entry]:
        with self._lock:
            rows = list(self._run(run_id).chunks)
        # A chunk is found by the largest first number at or before the fact.
        places = {bisect_right(rows, number, key=lambda row: row[0]) - 1 for number in numbers}
        wanted = [rows[place] for place in sorted(places) if place >= 0]
        with decoding_entries(self.location, run_id):
            if numbers and not wanted:
                raise UnreadableEntry(min(numbers), "it is missing")
            return entries_among(wanted, numbers)

    async def last_event(self, run_id: str) -> int | None:
        with self._lock:
            return self._run(run_id).seq

    async def row(self, run_id: str, excerpt: bool = False) -> RunRow:
        with self._lock:
            return _row(self._run(run_id), excerpt)

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
        wanted = text.translate(_ASCII_LOWER)

        def fits(run: _StoredRun) -> bool:
            new = run.new
            return (
                status in ("", run.status)
                and (not statuses or run.status in statuses)
                and name in ("", new.name)
                and saved_as in ("", new.saved_as)
                and (groups is None or new.group in groups)
                and (not before or run.number < before)
                and (not since or new.created > since)
                and any(wanted in part.translate(_ASCII_LOWER) for part in (new.id, new.name, new.input))
            )

        with self._lock:
            count = len(self._runs)
            newest = filter(fits, reversed(self._runs.values()))
            return [
                _row(run, excerpt)
                for run in islice(newest, count if limit is None else min(max(limit, 0), count))
            ]

    async def totals(self, groups: Sequence[str] | None = None, since: float = 0) -> RunTotals:
        with self._lock:
            runs = [run for run in self._runs.values() if groups is None or run.new.group in groups]
            statuses = Counter[str](run.status for run in runs)
            shown = [run.progress for run in runs if run.new.created > since]
        usages = [msgspec.json.decode(each).get("usage") or {} for each in shown if each is not None]
        costs = [usage["cost_usd"] for usage in usages if usage.get("cost_usd") is not None]
        return RunTotals(dict(statuses), len(shown), round(sum(costs), 9) if costs else None)

    async def matching(self, prefix: str, limit: int = 20) -> list[str]:
        with self._lock:
            return [run_id for run_id in reversed(self._runs) if run_id.startswith(prefix)][:limit]

    async def pinned(self, run_id: str) -> Pinned:
        with self._lock:
            return self._run(run_id).new.pinned

    # Retention.

    async def prune(self, run_id: str, events: Sequence[Event], policy: str) -> None:
        """`facts` stays: a row shows how many there were."""
        with self._lock:
            run = self._run(run_id)
            self._book_rest(run.number)
            run.kept, run.pruned = list(map(encode_event, events)), policy
            run.snapshots, run.texts, run.pieces = {}, {}, {}
            self._clear(run)

    async def kept(self, run_id: str) -> list[Event] | None:
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or run.kept is None:
                return None
            return [decode_event(line, EVENTS.version) for line in run.kept]

    async def delete(self, run_id: str) -> None:
        with self._lock:
            run = self._run(run_id)
            self._book_rest(run.number)
            self._clear(run)
            del self._runs[run_id]

    def _clear(self, run: _StoredRun) -> None:
        """Deletes the facts of a run and its control requests."""
        run.chunks, run.seq, run.position = [], None, 0
        self._signal.deleted(run.new.id)
        self._appended = {at: one for at, one in self._appended.items() if one.run_id != run.new.id}
        self._requests = {at: one for at, one in self._requests.items() if one.run != run.number}

    # Control requests.

    async def request(self, run_id: str, kind: RequestKind, body: dict[str, Any]) -> int:
        with self._lock:
            run = self._run(run_id)
            self._request_number += 1
            # Encoded, as in SQLite: the owner gets a copy, and values of other types as text.
            encoded = msgspec.json.encode(body, enc_hook=repr)
            self._requests[self._request_number] = _StoredRequest(run.number, kind, encoded)
            return self._request_number

    async def requests(self, claims: Sequence[Claim]) -> list[ControlRequest]:
        runs = {claim.run: claim.run_id for claim in claims}
        with self._lock:
            return [
                ControlRequest(number, runs[one.run], one.kind, msgspec.json.decode(one.body))
                for number, one in self._requests.items()
                if not one.outcome and one.run in runs
            ]

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        with self._lock:
            run = self._claimed(claim)
            for number in numbers:
                request = self._requests.get(number)
                if request is not None and request.run == run.number and not request.outcome:
                    request.outcome = outcome

    async def outcome(self, number: int) -> str:
        with self._lock:
            request = self._requests.get(number)
            return request.outcome if request is not None else ""

    async def withdraw(self, number: int) -> bool:
        """Atomic with `settle` by the lock: the first one to set the outcome decides."""
        with self._lock:
            request = self._requests.get(number)
            if request is None or request.outcome:
                return False
            request.outcome = "withdrawn"
            return True

    def _run(self, run_id: str) -> _StoredRun:
        """The run with this id; NoRun. Called with the lock, like the two below."""
        run = self._runs.get(run_id)
        if run is None:
            raise no_run_error(run_id)
        return run

    def _holds(self, claim: Claim) -> bool:
        """Whether a claim is valid. Also by number: a deleted run's id may have been given again."""
        run = self._runs.get(claim.run_id)
        return run is not None and (run.number, run.fence) == (claim.run, claim.fence)

    def _claimed(self, claim: Claim) -> _StoredRun:
        """The run of a claim; Fenced or Gone if the claim is old."""
        run = self._runs.get(claim.run_id)
        if run is None or not self._holds(claim):
            raise lost_claim_error(claim, run is not None and run.number == claim.run)
        return run


def _row(run: _StoredRun, excerpt: bool = False) -> RunRow:
    """The row as SqliteStore would have it. The summary is decoded anew, so that no caller shares it."""
    new = run.new
    summary = msgspec.json.decode(run.summary) if run.summary is not None else None
    if excerpt:
        summary = excerpt_of(summary)
    progress = msgspec.json.decode(run.progress) if run.progress is not None else None
    owner = f"process {os.getpid()}" if run.owned else ""
    origin = (new.parent, new.forked_at)
    times = (new.created, run.updated)
    return RunRow(
        new.id,
        new.name,
        run.status,
        *times,
        new.input,
        run.facts,
        owner,
        *origin,
        summary,
        run.pruned,
        new.group,
        new.started_by,
        run.number,
        progress,
        new.saved_as,
        new.workflow_version,
    )
