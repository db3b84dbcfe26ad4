"""Snapshots of a run: when one is taken, what it refers to, and how a state is restored from one.

A run has many snapshots, each with the number of its last event. To read events from a number on, the newest
snapshot at or before it is restored, and only the facts behind it are replayed: that costs as much at event
25,000 as at event 250.

How many there are. A snapshot is taken after SNAPSHOT_FACTS facts, but not before SNAPSHOT_SHARE times the
size of the last one has been added to the journal since, where a fact counts for at least FACT_SIZE bytes. So
all snapshots together stay a fraction of the journal, however large the state is, and none ever has to be
deleted. Where a state is large, more facts are replayed, in proportion to what it costs to restore it.

What they refer to. Long texts of the state stand in facts, as a rule: a snapshot names the fact. To know
which, the facts since the last snapshot are read back when the next one is taken, once for many of them. What
stands in no fact (a prompt that was put together from several texts, say) is stored once per run, by digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from roundel.journal.store import Chunk, Claim, Snapshot, Store
from roundel.kernel.facts import Entry
from roundel.kernel.plan_index import PlanIndex
from roundel.kernel.snapshot import (
    SnapshotError,
    Source,
    decode,
    digest_of,
    freeze,
    texts_in,
    thaw,
)
from roundel.kernel.state import Run
from roundel.plan.graph import Plan

SNAPSHOT_FACTS = 200
"""Fewer facts than this are replayed quicker than a snapshot is restored."""
SNAPSHOT_SHARE = 12
FACT_SIZE = 64
"""Facts of pure nodes are packed to a few bytes each, and take as long to replay as others."""
NEVER = 1 << 60


class Snapshots:
    """Takes the snapshots of a run while it is at work. Created by the run's journal."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._facts = claim.fresh
        self._bytes = self._size = 0
        """What was written since the last snapshot, and how large that one was."""
        self._index: PlanIndex | None = None
        self._sources: dict[str, Source] | None = None
        """Where the long texts of the last snapshot are stored, by digest; None until that is known. It grows
        with the state, not with the journal: a text that left the state comes back only by another fact."""
        self._searched = claim.facts - claim.fresh
        """How many facts were searched for texts."""

    def count(self, chunk: Chunk) -> None:
        """A chunk was written to the journal."""
        self._facts += chunk.count
        self._bytes += max(len(chunk.body), FACT_SIZE * chunk.count)

    @property
    def due(self) -> bool:
        return self._facts >= SNAPSHOT_FACTS and self._bytes >= SNAPSHOT_SHARE * self._size

    async def take(self, run: Run, facts: int) -> None:
        """Takes one; `facts` is how many the run has been told, all of which are written."""
        self._facts = self._bytes = 0
        self._index = self._index or PlanIndex(run.plan)
        try:
            frozen = freeze(run, self._index)  # before anything is awaited: the run goes on meanwhile
        except SnapshotError:
            self._size = NEVER  # this run has to do with its facts alone
            return
        seq = run.seq
        digests = list(map(digest_of, frozen.texts))
        known = await self._known(digests, facts)
        unknown = {
            digest: text for digest, text in zip(digests, frozen.texts, strict=True) if digest not in known
        }
        self._sources = {digest: known.get(digest, digest) for digest in digests}
        body = frozen.encode([self._sources[digest] for digest in digests])
        self._size = len(body)
        await self._store.save_snapshot(self._claim, Snapshot(facts, seq, body), unknown)

    async def _known(self, digests: Sequence[str], facts: int) -> dict[str, Source]:
        """Where texts are stored, as far as they are; looks for those that are new."""
        run_id = self._claim.run_id
        if self._sources is None:
            self._sources = await self._of_last_snapshot() if digests else {}
        if all(digest in self._sources for digest in digests):
            return self._sources
        entries = await self._store.entries(run_id, self._searched)
        new = _sources_in(entries[: facts - self._searched], self._searched)
        self._searched = facts
        return new | self._sources

    async def _of_last_snapshot(self) -> dict[str, Source]:
        """What the process before this one knew."""
        assert self._index is not None
        last = await self._store.snapshot(self._claim.run_id) if self._searched else None
        try:
            if last is not None:
                sources = decode(last.body, self._index).sources
                texts = await fetch(self._store, self._claim.run_id, sources)
                return dict(zip(map(digest_of, texts), sources, strict=True))
        except SnapshotError:
            self._searched = 0  # of another version, say: all facts are searched, once
        return {}


def _sources_in(entries: Iterable[Entry], first: int) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for number, entry in enumerate(entries, first):
        for ordinal, text in enumerate(texts_in(entry)):
            found.setdefault(digest_of(text), [number, ordinal])
    return found


async def fetch(store: Store, run_id: str, sources: Sequence[Source]) -> list[str]:
    """The texts that are stored there; SnapshotError if one is not."""
    facts = {source[0] for source in sources if not isinstance(source, str)}
    digests = [source for source in sources if isinstance(source, str)]
    entries = await store.entries_at(run_id, sorted(facts)) if facts else {}
    texts = await store.texts(run_id, digests) if digests else {}
    in_facts = {number: texts_in(entry) for number, entry in entries.items()}
    try:
        return [_text(source, in_facts, texts) for source in sources]
    except (LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"one of its texts is missing: {error!r}") from None


def _text(source: Source, in_facts: Mapping[int, list[str]], texts: Mapping[str, str]) -> str:
    if isinstance(source, str):
        return texts[source]
    number, ordinal = source
    return in_facts[number][ordinal]


async def restore(store: Store, run_id: str, plan: Plan, seq: int | None = None) -> tuple[Run, int]:
    """A state of a run, and how many facts it has been told: the newest one, or that at or before an event.

    Without a snapshot that fits (there is none, another version or another workflow made it, it is damaged),
    the state is a new one, to be rebuilt from the first fact on."""
    found = await store.snapshot(run_id, seq)
    if found is not None:
        index = PlanIndex(plan)
        try:
            stored = decode(found.body, index)
            return thaw(stored, await fetch(store, run_id, stored.sources), index), found.facts
        except SnapshotError:
            pass
    return Run(plan), 0
