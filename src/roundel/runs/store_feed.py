"""The events of all runs of a store, in commit order, for as long as somebody reads.

Events are not stored: they are made by replaying the facts of each run. A feed reads the appends of the whole
store by their positions (journal/store.py), and has a replay of each run that was appended to lately. So an
append costs a reader the replay of its own facts, whichever of the runs it belongs to. The replays are in a
`ReplayPool` of bounded size, which several feeds may share; one that was dropped is made again from the last
snapshot before the append. What an engine of this process has committed is not replayed: a feed that is given
its `CommitCache` (hosts/live_events.py) finds the events there by their positions.

*Batches.* One append may cause several events, and a position belongs to the append. So a feed gives all
events of an append together with its position: a reader who has handled a batch and continues after its
position misses nothing and gets nothing twice, after a restart as well. Appends without events are left out.

*Deleted and pruned runs* have no facts any more, so their events are missing, also for a reader who is
behind. A run that cannot be read (it is damaged, or needs a node type that is not installed here) is logged
and left out: it must not end the feed of all others.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence

from msgspec import Struct

from roundel.hosts.live_events import CommitCache
from roundel.hosts.stored_run import apply_revision, pinned_plan
from roundel.journal.run_journal import Replay, restore_state
from roundel.journal.store import Appended, NoRun, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry, Revised
from roundel.kernel.state import Run
from roundel.plan.graph import Plan

MAX_REPLAYS = 200
"""How many replays a pool has before it drops the one that was not used for longest."""
MAX_GROUPS = 10_000
"""How many runs a feed remembers the groups of."""
PAGE = 100
"""How many appends are read together."""
EventBatch = tuple[int, list[Event]]
"""The position of an append, and the events that it caused."""
logger = logging.getLogger("roundel")


class RunReplay(Struct):
    """A run up to a fact. Created by StoreFeed."""

    replay: Replay
    facts: int
    """How many facts were applied."""


class ReplayPool:
    """The replays of one or more feeds. Each feed has its own, since each is somewhere else in a run."""

    def __init__(self, size: int = MAX_REPLAYS) -> None:
        self._size = size
        self._replays: dict[tuple[object, str], RunReplay] = {}
        """By feed and run, the one that was used last at the end."""

    def __len__(self) -> int:
        return len(self._replays)

    def take(self, feed: object, run_id: str) -> RunReplay | None:
        return self._replays.pop((feed, run_id), None)

    def keep(self, feed: object, run_id: str, replay: RunReplay) -> None:
        self._replays[feed, run_id] = replay
        while len(self._replays) > self._size:
            del self._replays[next(iter(self._replays))]


class StoreFeed:
    """One reader of all runs of a store, or of those of some groups. Created by `Runs.follow_all`."""

    def __init__(
        self,
        store: Store,
        groups: Collection[str] | None = None,
        pool: ReplayPool | None = None,
        commits: CommitCache | None = None,
    ) -> None:
        self._store, self._commits = store, commits
        self._wanted_groups = None if groups is None else frozenset(groups)
        self._pool = pool if pool is not None else ReplayPool()
        self._key = object()
        """Stands for this feed in the pool, which must not keep it alive."""
        self._groups: dict[str, str] = {}
        """The groups of runs, which never change."""
        self._unreadable: set[str] = set()

    async def follow(self, after: int = 0, *, live: bool = True) -> AsyncIterator[EventBatch]:
        """The batches after a position; with `live`, also those that any process commits from now on."""
        newest = after
        while True:
            page = await self._store.appended(after, PAGE)
            for batch in await self._read(page):
                yield batch
            after = page[-1].position if page else after
            if len(page) < PAGE:
                # Everything up to `newest` was committed before it was read here, so it has been seen, even
                # if the newest position belongs to a run that was deleted.
                after = max(after, newest)
                if not live:
                    return
                newest = await self._store.wait_for_append(after)

    async def _read(self, page: Sequence[Appended]) -> list[EventBatch]:
        """The events of these appends, in the order of their positions. The facts of each run are read
        together."""
        by_run: dict[str, list[Appended]] = {}
        for append in page:
            by_run.setdefault(append.run_id, []).append(append)
        batches: list[EventBatch] = []
        for run_id, appends in by_run.items():
            if run_id in self._unreadable:
                continue
            try:
                if await self._is_wanted(run_id):
                    batches += await self._read_run(run_id, appends)
            except StoreError as error:
                self._pool.take(self._key, run_id)
                await self._check_readable(run_id, error)
        return sorted(batches, key=lambda batch: batch[0])

    async def _is_wanted(self, run_id: str) -> bool:
        if self._wanted_groups is None:
            return True
        if run_id not in self._groups:
            if len(self._groups) >= MAX_GROUPS:
                self._groups.clear()
            self._groups[run_id] = (await self._store.row(run_id)).group
        return self._groups[run_id] in self._wanted_groups

    async def _read_run(self, run_id: str, appends: Sequence[Appended]) -> list[EventBatch]:
        batches, others = await self._take_committed(run_id, appends)
        numbers = [append.first + at for append in others for at in range(append.count)]
        entries = await self._store.entries_at(run_id, numbers) if numbers else {}
        for append in others:
            known = self._pool.take(self._key, run_id)
            if known is None or known.facts != append.first:
                known = await self._rebuild(run_id, append.first)
            own = [entries[append.first + at] for at in range(append.count)]
            events = [event for _, made in known.replay.apply(own, append.first) for event in made]
            known.facts += append.count
            if not known.replay.state.over:  # if it is retried, it is rebuilt
                self._pool.keep(self._key, run_id, known)
            if events:
                batches.append((append.position, events))
        return batches

    async def _take_committed(
        self, run_id: str, appends: Sequence[Appended]
    ) -> tuple[list[EventBatch], list[Appended]]:
        """The events that need no replay, and the appends that do."""
        if self._commits is None:
            return [], list(appends)
        batches: list[EventBatch] = []
        others: list[Appended] = []
        for append in appends:
            events = await self._commits.find(append.position, run_id)
            if events is None:
                others.append(append)
            elif events:
                batches.append((append.position, events))
        if len(others) < len(appends):
            self._pool.take(self._key, run_id)  # it is behind, and perhaps not needed again
        return batches, others

    async def _rebuild(self, run_id: str, facts: int) -> RunReplay:
        """A replay of the first facts of a run."""
        pinned = await self._store.pinned(run_id)
        state, after = await restore_before(self._store, run_id, pinned_plan(pinned), facts)
        found = await self._store.entries_at(run_id, range(after, facts))
        entries: list[Entry] = [found[number] for number in range(after, facts)]
        # What came before the last revision is part of it.
        last = max((at for at, entry in enumerate(entries) if isinstance(entry.fact, Revised)), default=0)
        replay = Replay(state, run_id, lambda fact: pinned_plan(apply_revision(pinned, fact)))
        for _ in replay.apply(entries[last:], after + last):
            pass
        return RunReplay(replay, facts)

    async def _check_readable(self, run_id: str, error: StoreError) -> None:
        """Finds out why a run could not be read. Raises if the store itself cannot be read."""
        try:
            row = await self._store.row(run_id)
        except NoRun:
            return
        if not row.pruned:
            self._unreadable.add(run_id)
            logger.warning("the events of run %s are left out: %s", run_id, error)


async def restore_before(store: Store, run_id: str, plan: Plan, facts: int) -> tuple[Run, int]:
    """The state of a run from its last snapshot with at most so many facts, and how many those are; a new
    state if there is none.

    Snapshots are found by their events, whose numbers rise with the facts, so this is a binary search. Most
    readers are not far behind, and need the newest one."""
    newest = await store.snapshot(run_id) if facts else None
    if newest is None:
        return Run(plan), 0
    best = newest.seq if newest.facts <= facts else None
    low, high = 0, newest.seq - 1
    while best != newest.seq and low <= high:
        middle = (low + high) // 2
        found = await store.snapshot(run_id, middle)
        if found is not None and found.facts > facts:
            high = found.seq - 1
        else:
            best = found.seq if found is not None else best
            low = middle + 1
    return await restore_state(store, run_id, plan, best) if best is not None else (Run(plan), 0)
