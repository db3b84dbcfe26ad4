"""The journal of one run: packs its facts, commits them together, takes snapshots, and rebuilds its
state.

RunJournal is what a host writes to while it executes a run; the other functions read. All of it works
with any store (store.py).

*Packing.* Facts are written in chunks, many in one row, so that what is written together is read
together and takes little space. A chunk contains its entries, a line of JSON each, compressed if that
makes it smaller. Each chunk has the version of its entries; older ones are upgraded as they are read,
one version at a time.

*Facts and not states or events.* Everything else follows from facts: resume, replay, forks. States grow
with the history: a loop of 1,000 rounds that adds 1 KB each would write 500 MB instead of 0.8. Events
are many and worded for people: a better word would make old runs unreadable.

*Snapshots only save time.* A run has many, each with the number of its last event. To read events from a
number on, the newest snapshot at or before it is restored, and only the facts behind it are replayed:
that costs as much at event 25,000 as at event 250. A snapshot of another version, of another workflow,
or with a text missing is not used, and the facts are replayed from the first.

*How many snapshots.* One is taken after SNAPSHOT_FACTS facts, but not before SNAPSHOT_SHARE times the
size of the last one has been added to the journal since, where a fact counts for at least FACT_SIZE
bytes. So all snapshots together stay a fraction of the journal, however large the state is, and none
ever has to be deleted. Where a state is large, more facts are replayed, in proportion to what it costs
to restore it.

*What snapshots refer to.* Long texts of the state are in facts, as a rule, and a snapshot refers to the
fact. To know which, the facts since the last snapshot are read back when the next one is taken, once for
many of them. A text that is in no fact (a prompt that was put together from several texts, say) is
stored once per run, by digest.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from roundel.journal.spending import Spent
from roundel.journal.store import Chunk, Claim, Snapshot, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    UNMASKED_FIELDS,
    VERSION,
    DecisionMismatch,
    Entry,
    Fact,
    Revised,
    decode_entry,
    decode_fact,
    encode_fact,
    with_decisions,
)
from roundel.kernel.payloads import RunProgress
from roundel.kernel.progress import progress
from roundel.kernel.snapshot import (
    PlanIndex,
    SnapshotError,
    TextSource,
    decode,
    digest_of,
    freeze,
    texts_in,
    thaw,
)
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, revise, step
from roundel.plan.graph import Plan
from roundel.workflow.secrets import SecretMasker

logger = logging.getLogger("roundel")
PLAIN, PACKED = b"j", b"d"
"""The first byte of a chunk says how the rest is encoded."""
WORTH_PACKING = 300
"""Bytes from which on compression is worth its time: less takes longer to compress than to write."""
DICTIONARY = (
    b'"error":"","arguments":{"tool_calls":[{"id":"call_"metadata":{"source":"","role":"tool""role":"user"'
    b'{"type":"consulted","verdicts":[{"edge":0,"message":0,"fires":true,"result":{"type":"answered"'
    b'"state":{"reply":{"text":""usage":{"model_calls":1,"input_tokens":1,"output_tokens":1,"cost_usd":0.0,'
    b'"model":"","port":"continue","reason":"","data":{"state":1,"report":{"count":1,"max_iterations":10}}'
    b',"outcome":{"messages":[{"content":"","role":"assistant"}]},"time":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"state":1,"report":{"count":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"messages":[{"content":"'
)
"""What nearly all entries contain, for zlib to refer to: most chunks contain one or two entries, which
have little of their own to repeat. The most frequent texts are at the end, which zlib refers to with
fewer bits.

It is part of the format. `consulted` and `verdicts` are words of facts that no longer exist, but zlib writes
positions in the dictionary: without them, no older chunk could be read. Another dictionary needs another
letter than PACKED, and this one as well for ever, to save a few bytes in rare facts."""


def pack(lines: Iterable[bytes]) -> bytes:
    """The body of a chunk with these entries."""
    body = b"\n".join(lines)
    if len(body) >= WORTH_PACKING:
        compressor = zlib.compressobj(6, zdict=DICTIONARY)
        packed = compressor.compress(body) + compressor.flush()
        if len(packed) < len(body):
            return PACKED + packed
    return PLAIN + body


def unpack(body: bytes, version: int = VERSION) -> list[Entry]:
    """The entries of a chunk, upgraded to the current version; ValueError if it cannot be read."""
    try:
        text = _decompress(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error as error:
        raise ValueError(f"the facts are damaged: {error}") from None
    lines = text.split(b"\n") if text else []
    return [decode_entry(line, version) for line in lines]


def _decompress(packed: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=DICTIONARY)
    text = decompressor.decompress(packed)
    if not decompressor.eof:  # zlib reports damage, but not a body that was cut off
        raise zlib.error("they are incomplete")
    return text


SNAPSHOT_FACTS = 200
"""Fewer facts than this are replayed quicker than a snapshot is restored."""
SNAPSHOT_SHARE = 12
"""How much larger than its snapshots the journal stays, roughly."""
FACT_SIZE = 64
"""Facts of pure nodes are packed to a few bytes each, and take as long to replay as others."""
MANY_FACTS = 1_000
"""What is done with more facts at once is done in a thread: each thousand takes some ten milliseconds."""
NEVER = 1 << 60
"""The size of a snapshot that is never followed by another."""


class Snapshotter:
    """Takes the snapshots of a run while it is executed. Created by RunJournal."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._facts = claim.fresh
        self._bytes = self._size = 0
        """Bytes written since the last snapshot, and the size of that one."""
        self._index: PlanIndex | None = None
        self._sources: dict[str, TextSource] | None = None
        """Where the long texts of the last snapshot are stored, by digest; None until that was read. It
        grows with the state, not with the journal: a text that left the state comes back only by another
        fact."""
        self._searched_facts = claim.facts - claim.fresh
        """How many facts were searched for texts. Those before the last snapshot need no search: the
        texts that are still in the state are among that snapshot's."""

    def count(self, chunk: Chunk) -> None:
        """Counts a chunk that was written to the journal."""
        self._facts += chunk.count
        self._bytes += max(len(chunk.body), FACT_SIZE * chunk.count)

    @property
    def is_due(self) -> bool:
        return self._facts >= SNAPSHOT_FACTS and self._bytes >= SNAPSHOT_SHARE * self._size

    async def take(self, run: Run, facts: int) -> None:
        """Takes a snapshot. `facts` is how many facts were applied to the run, all of which are
        written."""
        self._facts = self._bytes = 0
        self._index = self._index or PlanIndex(run.plan)
        try:
            # Before anything is awaited: a request beside a call may change the run meanwhile.
            frozen = freeze(run, self._index)
        except SnapshotError:
            self._size = NEVER  # the state contains what no snapshot can; its facts are enough
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

    async def _find_sources(self, digests: Sequence[str], facts: int) -> dict[str, TextSource]:
        """Where texts are stored, as far as they are; searches the facts since the last snapshot for new
        ones."""
        run_id = self._claim.run_id
        if self._sources is None:
            self._sources = await self._read_last_sources() if digests else {}
        if all(digest in self._sources for digest in digests):
            return self._sources
        entries = await self._store.entries(run_id, self._searched_facts)
        written = entries[: facts - self._searched_facts]
        if len(written) > MANY_FACTS:  # the fork of a long run
            new = await asyncio.to_thread(_find_texts, written, self._searched_facts)
        else:
            new = _find_texts(written, self._searched_facts)
        self._searched_facts = facts
        return new | self._sources

    async def _read_last_sources(self) -> dict[str, TextSource]:
        """The texts of the last snapshot, which another process may have taken."""
        assert self._index is not None
        last = await self._store.snapshot(self._claim.run_id) if self._searched_facts else None
        try:
            if last is not None:
                sources = decode(last.body, self._index).sources
                texts = await fetch_texts(self._store, self._claim.run_id, sources)
                return dict(zip(map(digest_of, texts), sources, strict=True))
        except SnapshotError:
            self._searched_facts = 0  # made by another version, say: all facts are searched, once
        return {}


def _find_texts(entries: Iterable[Entry], first: int) -> dict[str, TextSource]:
    """The long texts of entries by digest, each with the number of its first entry and its ordinal
    there."""
    found: dict[str, TextSource] = {}
    for number, entry in enumerate(entries, first):
        for ordinal, text in enumerate(texts_in(entry)):
            found.setdefault(digest_of(text), [number, ordinal])
    return found


async def fetch_texts(store: Store, run_id: str, sources: Sequence[TextSource]) -> list[str]:
    """The texts that a snapshot refers to; SnapshotError if one is missing."""
    facts = {source[0] for source in sources if not isinstance(source, str)}
    digests = [source for source in sources if isinstance(source, str)]
    entries = await store.entries_at(run_id, sorted(facts)) if facts else {}
    texts = await store.texts(run_id, digests) if digests else {}
    in_facts = {number: texts_in(entry) for number, entry in entries.items()}
    try:
        return [_resolve_text(source, in_facts, texts) for source in sources]
    except (LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"one of its texts is missing: {error!r}") from None


def _resolve_text(source: TextSource, in_facts: Mapping[int, list[str]], texts: Mapping[str, str]) -> str:
    if isinstance(source, str):
        return texts[source]
    number, ordinal = source
    return in_facts[number][ordinal]


PlanOf = Callable[[Revised], Plan]
"""The plan of a run after it was retried with another workflow."""


async def restore_state(
    store: Store, run_id: str, plan: Plan, seq: int | None = None, revision: int = 0
) -> tuple[Run, int]:
    """A state of a run, and how many facts were applied to it: the newest one, or that at or before an
    event.

    Without a snapshot that fits (there is none, another version or another workflow made it, it is damaged),
    the state is a new one, to be rebuilt from the first fact on. `plan` is that of this revision of the
    run."""
    found = await store.snapshot(run_id, seq)
    if found is not None:
        index = PlanIndex(plan)
        try:
            stored = decode(found.body, index)
            state = thaw(stored, await fetch_texts(store, run_id, stored.sources), index)
            if state.revision == revision:
                return state, found.facts
        except SnapshotError:
            pass
    return Run(plan), 0


async def rebuild(
    store: Store,
    run_id: str,
    plan: Plan,
    pending: Sequence[Entry] = (),
    *,
    revision: int = 0,
    plan_of: PlanOf | None = None,
) -> Replay:
    """Replays the entries of a run: those in the store, then `pending` ones, which are not written yet.

    `plan` is that of this revision of the run, and `plan_of` gives those of later ones; without it there
    are none."""
    state, after = await restore_state(store, run_id, plan, revision=revision)
    entries = [*await store.entries(run_id, after), *pending]
    replay = Replay(state, run_id, plan_of or (lambda _fact: plan))
    # What came before the last revision is part of it.
    last = max((number for number, entry in enumerate(entries) if isinstance(entry.fact, Revised)), default=0)
    for _ in replay.apply(entries[last:], after + last):
        pass
    return replay


class Replay:
    """Replays the entries of a run. Created by those who read stored runs."""

    def __init__(self, state: Run, run_id: str, plan_of: PlanOf) -> None:
        self.state = state
        """The state after the entries so far; another object after a revision."""
        self.revised: Revised | None = None
        """The last revision among them."""
        self._run_id, self._plan_of = run_id, plan_of

    def apply(self, entries: Iterable[Entry], first: int = 0) -> Iterator[tuple[Fact, list[Event]]]:
        """Replays entries one by one; StoreError where they do not fit the run."""
        for number, (fact, decisions) in enumerate(entries, first):
            try:
                if isinstance(fact, Revised):
                    self.state, events = revise(fact, self._plan_of(fact), self.state.seq)
                    self.revised = fact
                else:
                    events = step(self.state, fact, decisions)[1]
            except (DecisionMismatch, IllegalFact) as error:
                raise StoreError(
                    f"run {self._run_id} does not fit its workflow at fact {number}: {error}"
                ) from error
            yield fact, events


MAX_PENDING_FACTS = 500
"""Pure nodes alone need no commit; this many facts do."""


def row_progress(run: Run) -> dict[str, Any] | None:
    """What the row of a run shows, as JSON values; None if that cannot be computed."""
    found = progress_of(run)
    return msgspec.to_builtins(found, enc_hook=repr) if found is not None else None


def progress_of(run: Run) -> RunProgress | None:
    """How far a run is; None if that cannot be computed. Node types of other packages take part in it, and a
    run must not end because of what a list shows of it."""
    try:
        return progress(run)
    except Exception:
        logger.exception("the progress of run %s cannot be shown", run.run_id)
        return None


class RunJournal:
    """Gathers the facts of one run and commits them together. Created by an engine, with its claim on
    the run.

    It owns the claim: `close` releases it. Not safe for concurrent commits; the driver makes one at a
    time."""

    def __init__(self, store: Store, claim: Claim, started: Entry | None = None) -> None:
        self.store = store
        self.claim = claim
        self.started = started
        """The first entry of a new run, which is written already; None for a resumed run."""
        self._first = claim.facts
        """The number of the first fact that is not written yet."""
        self._lines: list[bytes] = []
        """The encoded facts that are not written yet."""
        self._status = ""
        """The status as it was last written."""
        self.spent: list[Spent] = []
        """What calls have used that had reserved something; booked with the next commit."""
        self.pieces: dict[str, bytes] = {}
        """What model calls got, by digest; stored with the facts that name it."""
        self._snapshots = Snapshotter(store, claim)

    def add(self, fact: Fact, secrets: SecretMasker | None = None) -> Fact:
        """Encodes a fact, without these secrets, and returns it decoded again. The run has to get the
        decoded one: then a run that is resumed after a crash knows exactly what it would have known
        without the crash. ValueError if the fact cannot be encoded."""
        try:
            line = encode_fact(fact)
            # Searched in the encoded line, which is one pass for all fields; masked field by field only
            # if something was found, which is rare.
            if secrets is not None and secrets.found_in(line):
                line = encode_fact(secrets.mask_value(fact, UNMASKED_FIELDS))
            read = decode_fact(line)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(f"it cannot be written as JSON: {error}") from error
        self._lines.append(line)
        return read

    def add_decisions(self, decisions: Sequence[Any]) -> None:
        """Adds the decisions of the step that the last fact caused, to the same line."""
        if decisions:
            self._lines[-1] = with_decisions(self._lines[-1], decisions)

    def discard_last(self) -> None:
        """Removes the last fact: the run did not allow it, or the step broke off."""
        self._lines.pop()

    async def rebuild(self, plan: Plan, revision: int) -> Run:
        """Replays the run, including the facts that are not written yet."""
        pending = [decode_entry(line) for line in self._lines]
        return (await rebuild(self.store, self.claim.run_id, plan, pending, revision=revision)).state

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= MAX_PENDING_FACTS

    async def commit(self, run: Run) -> None:
        """Writes everything so far, and takes a snapshot if one is due."""
        await self.write(run)
        await self.take_snapshot(run)

    async def write(self, run: Run, quiet: bool = False) -> int:
        """Writes everything so far; it is durable when this returns. Returns the position, 0 if no facts
        were written. `quiet`: the run has nothing in flight."""
        if not self._lines and run.status in ("new", self._status):
            return 0
        assert run.status != "new", "the first fact of a run starts it"
        # Taken before the await: facts that are added meanwhile belong to the next chunk.
        lines, self._lines = self._lines, []
        chunk = Chunk(len(lines), pack(lines), run.seq)
        summary = None if run.status == "running" else run.result_summary()
        # Counted before it is written: if the caller is cancelled while it waits, the write completes
        # all the same, and the fact that the run was stopped follows it. If the chunk cannot be written,
        # the store accepts nothing behind the gap either.
        first, status = self._first, run.status
        self._first += chunk.count
        spent, self.spent = self.spent, []
        pieces, self.pieces = self.pieces, {}
        position = await self.store.append(
            self.claim, first, chunk, status, summary, quiet, lambda: row_progress(run), spent, pieces
        )
        self._status = status
        self._snapshots.count(chunk)
        return position

    async def take_snapshot(self, run: Run) -> None:
        """Takes a snapshot if one is due."""
        # Not while there are new facts: the state must not be ahead of the facts that were written.
        if self._snapshots.is_due and not self._lines:
            await self._snapshots.take(run, self._first)

    async def close(self) -> None:
        """Releases the claim: other processes may resume the run."""
        await self.store.release(self.claim)
