"""Facts as rows: many in one, so that what is written together is read together and takes little room.

A chunk holds its entries, a line of JSON each, compressed if that makes it smaller. Each chunk has the
version of its entries; older ones are brought up to date as they are read, one version at a time.

Snapshots of a run: when one is taken, what it refers to, and how a state is restored from one.

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

Rebuilds a run from its journal: from its last snapshot, and the entries that follow it.

The journal of one run while it is at work: gathers facts, commits them together, takes snapshots.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from roundel.journal.store import Chunk, Claim, Snapshot, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    UNMASKED_FIELDS,
    VERSION,
    DecisionMismatch,
    Entry,
    Fact,
    decode_entry,
    decode_fact,
    encode_fact,
    with_decisions,
)
from roundel.kernel.snapshot import (
    PlanIndex,
    SnapshotError,
    Source,
    decode,
    digest_of,
    freeze,
    texts_in,
    thaw,
)
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.plan.graph import Plan
from roundel.workflow.secrets import SecretMasker

PLAIN, PACKED = b"j", b"d"
WORTH_PACKING = 300
"""Bytes from which on the room is worth the time: less is compressed slower than it is written."""
DICTIONARY = (
    b'"error":"","arguments":{"tool_calls":[{"id":"call_"metadata":{"source":"","role":"tool""role":"user"'
    b'{"type":"consulted","verdicts":[{"edge":0,"message":0,"fires":true,"result":{"type":"answered"'
    b'"state":{"reply":{"text":""usage":{"model_calls":1,"input_tokens":1,"output_tokens":1,"cost_usd":0.0,'
    b'"model":"","port":"continue","reason":"","data":{"state":1,"report":{"count":1,"max_iterations":10}}'
    b',"outcome":{"messages":[{"content":"","role":"assistant"}]},"time":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"state":1,"report":{"count":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"messages":[{"content":"'
)
"""What nearly all entries contain, for zlib to refer to: most chunks hold one or two entries, which have
little of their own to repeat. It is part of the format. Another one needs another letter than PACKED."""


def pack(lines: Iterable[bytes]) -> bytes:
    body = b"\n".join(lines)
    if len(body) >= WORTH_PACKING:
        compressor = zlib.compressobj(6, zdict=DICTIONARY)
        packed = compressor.compress(body) + compressor.flush()
        if len(packed) < len(body):
            return PACKED + packed
    return PLAIN + body


def unpack(body: bytes, version: int = VERSION) -> list[Entry]:
    """ValueError if it cannot be read."""
    try:
        text = _decompress(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error as error:
        raise ValueError(f"the facts are damaged: {error}") from None
    lines = text.split(b"\n") if text else []
    return [decode_entry(line, version) for line in lines]


def _decompress(packed: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=DICTIONARY)
    text = decompressor.decompress(packed)
    if not decompressor.eof:
        raise zlib.error("they are incomplete")
    return text


SNAPSHOT_FACTS = 200
"""Fewer facts than this are replayed quicker than a snapshot is restored."""
SNAPSHOT_SHARE = 12
FACT_SIZE = 64
"""Facts of pure nodes are packed to a few bytes each, and take as long to replay as others."""
NEVER = 1 << 60


class Snapshotter:
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
        self._searched_facts = claim.facts - claim.fresh
        """How many facts were searched for texts."""

    def count(self, chunk: Chunk) -> None:
        """A chunk was written to the journal."""
        self._facts += chunk.count
        self._bytes += max(len(chunk.body), FACT_SIZE * chunk.count)

    @property
    def is_due(self) -> bool:
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
        known = await self._find_sources(digests, facts)
        unknown = {
            digest: text for digest, text in zip(digests, frozen.texts, strict=True) if digest not in known
        }
        self._sources = {digest: known.get(digest, digest) for digest in digests}
        body = frozen.encode([self._sources[digest] for digest in digests])
        self._size = len(body)
        await self._store.save_snapshot(self._claim, Snapshot(facts, seq, body), unknown)

    async def _find_sources(self, digests: Sequence[str], facts: int) -> dict[str, Source]:
        """Where texts are stored, as far as they are; looks for those that are new."""
        run_id = self._claim.run_id
        if self._sources is None:
            self._sources = await self._read_last_sources() if digests else {}
        if all(digest in self._sources for digest in digests):
            return self._sources
        entries = await self._store.entries(run_id, self._searched_facts)
        new = _find_texts(entries[: facts - self._searched_facts], self._searched_facts)
        self._searched_facts = facts
        return new | self._sources

    async def _read_last_sources(self) -> dict[str, Source]:
        """What the process before this one knew."""
        assert self._index is not None
        last = await self._store.snapshot(self._claim.run_id) if self._searched_facts else None
        try:
            if last is not None:
                sources = decode(last.body, self._index).sources
                texts = await fetch_texts(self._store, self._claim.run_id, sources)
                return dict(zip(map(digest_of, texts), sources, strict=True))
        except SnapshotError:
            self._searched_facts = 0  # of another version, say: all facts are searched, once
        return {}


def _find_texts(entries: Iterable[Entry], first: int) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for number, entry in enumerate(entries, first):
        for ordinal, text in enumerate(texts_in(entry)):
            found.setdefault(digest_of(text), [number, ordinal])
    return found


async def fetch_texts(store: Store, run_id: str, sources: Sequence[Source]) -> list[str]:
    """The texts that are stored there; SnapshotError if one is not."""
    facts = {source[0] for source in sources if not isinstance(source, str)}
    digests = [source for source in sources if isinstance(source, str)]
    entries = await store.entries_at(run_id, sorted(facts)) if facts else {}
    texts = await store.texts(run_id, digests) if digests else {}
    in_facts = {number: texts_in(entry) for number, entry in entries.items()}
    try:
        return [_resolve_text(source, in_facts, texts) for source in sources]
    except (LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"one of its texts is missing: {error!r}") from None


def _resolve_text(source: Source, in_facts: Mapping[int, list[str]], texts: Mapping[str, str]) -> str:
    if isinstance(source, str):
        return texts[source]
    number, ordinal = source
    return in_facts[number][ordinal]


async def restore_state(store: Store, run_id: str, plan: Plan, seq: int | None = None) -> tuple[Run, int]:
    """A state of a run, and how many facts it has been told: the newest one, or that at or before an event.

    Without a snapshot that fits (there is none, another version or another workflow made it, it is damaged),
    the state is a new one, to be rebuilt from the first fact on."""
    found = await store.snapshot(run_id, seq)
    if found is not None:
        index = PlanIndex(plan)
        try:
            stored = decode(found.body, index)
            return thaw(stored, await fetch_texts(store, run_id, stored.sources), index), found.facts
        except SnapshotError:
            pass
    return Run(plan), 0


async def rebuild(store: Store, run_id: str, plan: Plan, pending: Sequence[Entry] = ()) -> Run:
    """The run as its entries make it: those in the store, then those that are not written yet."""
    state, after = await restore_state(store, run_id, plan)
    entries = await store.entries(run_id, after)
    for _ in replay_entries(state, (*entries, *pending), run_id, after):
        pass
    return state


def replay_entries(
    state: Run, entries: Iterable[Entry], run_id: str, first: int = 0
) -> Iterator[tuple[Fact, list[Event]]]:
    """Replays entries one by one; StoreError where they do not fit the run."""
    for number, (fact, decisions) in enumerate(entries, first):
        try:
            yield fact, step(state, fact, decisions)[1]
        except (DecisionMismatch, IllegalFact) as error:
            raise StoreError(f"run {run_id} does not fit its workflow at fact {number}: {error}") from error


MAX_PENDING_FACTS = 500
"""Pure nodes alone ask for no commit; this many facts do."""


class RunJournal:
    def __init__(self, store: Store, claim: Claim, started: Entry | None = None) -> None:
        self.store = store
        self.claim = claim
        self.started = started
        """What the run begins with; it is written already."""
        self._first = claim.facts
        self._lines: list[bytes] = []
        self._status = ""
        self._snapshots = Snapshotter(store, claim)

    def add(self, fact: Fact, secrets: SecretMasker | None = None) -> Fact:
        """The fact as it will be read again, which is what the run has to get: then a run that is resumed
        after a crash knows just what it would have known without it. ValueError if it cannot be written.

        The fact is written without these secrets."""
        try:
            line = encode_fact(fact)
            if secrets is not None and secrets.found_in(line):
                line = encode_fact(secrets.mask_value(fact, UNMASKED_FIELDS))
            read = decode_fact(line)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(f"it cannot be written as JSON: {error}") from error
        self._lines.append(line)
        return read

    def add_decisions(self, decisions: Sequence[Any]) -> None:
        """What the step decided that the last fact caused."""
        if decisions:
            self._lines[-1] = with_decisions(self._lines[-1], decisions)

    def discard_last(self) -> None:
        """The last fact was not true."""
        self._lines.pop()

    async def rebuild(self, plan: Plan) -> Run:
        """The run as its facts make it, those included that are not written yet."""
        return await rebuild(
            self.store, self.claim.run_id, plan, [decode_entry(line) for line in self._lines]
        )

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= MAX_PENDING_FACTS

    async def commit(self, run: Run, quiet: bool = False) -> None:
        """Everything so far is safe when this returns. `quiet`: the run has nothing at work."""
        if not self._lines and run.status == self._status:
            return
        lines, self._lines = self._lines, []
        chunk = Chunk(len(lines), pack(lines))
        summary = None if run.status == "running" else run.summary()
        # Counted before it is written: the caller may be cancelled while it waits, and then adds that the run
        # was stopped. If the chunk cannot be written, the store accepts nothing that follows it either.
        first, status = self._first, run.status
        self._first += chunk.count
        await self.store.append(self.claim, first, chunk, status, summary, quiet)
        self._status = status
        self._snapshots.count(chunk)
        # The state must not be ahead of the facts that were written.
        if self._snapshots.is_due and not self._lines:
            await self._snapshots.take(run, self._first)

    async def close(self) -> None:
        """Others may go on with the run."""
        await self.store.release(self.claim)
