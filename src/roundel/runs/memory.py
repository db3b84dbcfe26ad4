"""Memory for programs: `Memory` does what `roundel memory` does, and `quarantine` shows what a run's
nodes returned.

The quarantine of a run is its journal, replayed: every message that its nodes returned. No agent reads
it, until a person promotes something of it into long-term memory. It is not stored a second time: a
second log could differ from the first, and nothing in a journal can be changed afterwards.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from msgspec import Struct

from roundel.hosts.stored_run import start_replay
from roundel.journal.store import Store, StoreError
from roundel.kernel.commands import Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import Answered, Finished, Intercepted
from roundel.kernel.payloads import NodeCompleted
from roundel.memory.files import split_passages
from roundel.memory.namespaces import NAME_PREFIX, PATH_PREFIX, escape_name
from roundel.memory.run_memory import confidence_of
from roundel.memory.search import query_words, rank_by_words
from roundel.memory.store import Item, Match, MemoryEntry, Shelf
from roundel.runs.lookup import StoreClient, StoreLocation, find
from roundel.workflow.memory_config import LONG_TERM
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker


class Quarantined(Struct, frozen=True):
    """A message that a node returned."""

    address: str
    node: str
    time: float
    content: str
    metadata: dict[str, Any] = {}
    """Its metadata and its data."""
    confidence: float | None = None


async def quarantine(store: Store, run_id: str) -> list[Quarantined]:
    """The messages of a run's nodes, in order; for a pruned run, those that are left.

    Messages of nodes with `log_output: false` are not shown."""
    async with aclosing(_quarantined_messages(store, run_id, 0)) as steps:
        return [one async for _, found in steps for one in found]


PAGE_BYTES = 1_000_000
"""A page of messages ends when they have so many characters."""
PAGE_EVENTS = 20_000
"""And after so many events, if few of them have messages."""


async def quarantine_page(
    store: Store, run_id: str, after: int = 0, limit: int = 50
) -> tuple[list[Quarantined], int | None]:
    """The messages that belong to the events after a number, as many as `quarantine` has or some `limit` of
    them, and the number after which the next page begins; None if nothing is left. Costs no more at the end
    of a long run than at its beginning. A page may have no messages although others follow."""
    page: list[Quarantined] = []
    size = 0
    async with aclosing(_quarantined_messages(store, run_id, after)) as steps:
        async for seq, found in steps:
            page += found
            size += sum(len(one.content) for one in found)
            if len(page) >= limit or size >= PAGE_BYTES or seq - after >= PAGE_EVENTS:
                return page, seq
    return page, None


async def _quarantined_messages(
    store: Store, run_id: str, after: int
) -> AsyncGenerator[tuple[int, list[Quarantined]]]:
    """The messages of a run by step, each with the number of the last event of the step. Facts have the
    messages, with metadata; events say when a node is completed, and whether its output may be shown. So a
    message waits for its event."""
    kept = await store.kept(run_id)
    if kept is not None:
        for event in kept[bisect_right(kept, after, key=lambda event: event.seq) :]:
            if _shows_output(event):
                yield event.seq, [_quarantined_from_event(event, _seconds(event))]
        return
    replay = await start_replay(store, run_id, after)
    # Of calls that had finished when the snapshot was taken, while middleware had their messages.
    messages: dict[str, tuple[Message, ...]] = {
        address: execution.command.messages
        for address, execution in replay.state.calls.items()
        if isinstance(execution.command, Intercept) and execution.command.messages is not None
    }
    """The messages of calls by address, until the event that their node is completed."""
    async with aclosing(replay.stored()) as steps:
        async for fact, events in steps:
            if isinstance(fact, Finished):
                messages[fact.address] = fact.outcome.messages
            elif isinstance(fact, Answered):
                messages[fact.address] = (fact.message,)
            elif isinstance(fact, Intercepted) and fact.messages is not None:
                messages[fact.address] = fact.messages
            found: list[Quarantined] = []
            for event in filter(_shows_output, events):
                # A node that contains a graph or has a conversation with its model has no messages of a
                # single call; its event has its output.
                given_messages = messages.pop(event.address or "", ())
                if event.seq <= after:
                    continue
                if given_messages:
                    found += [_quarantined(event, message, fact.time) for message in given_messages]
                else:
                    found.append(_quarantined_from_event(event, fact.time))
            if events and events[-1].seq > after:
                yield events[-1].seq, found


def _shows_output(event: Event) -> bool:
    """Whether an event says that a node is completed, with an output that may be shown."""
    return isinstance(event.data, NodeCompleted) and event.data.output is not None


def _quarantined(event: Event, message: Message, time: float) -> Quarantined:
    fields = {**(message.metadata or {}), **(message.data or {})}
    confidence = confidence_of(message)
    return Quarantined(event.address or "", event.node_id or "", time, message.text, fields, confidence)


def _quarantined_from_event(event: Event, time: float) -> Quarantined:
    """A message as far as the event contains it: without metadata."""
    assert isinstance(event.data, NodeCompleted)
    message = Message(event.data.output or "", data=event.data.data)
    return _quarantined(event, message, time)


def _seconds(event: Event) -> float:
    return datetime.fromisoformat(event.timestamp).timestamp()


PAGE = 100
"""Entries that are read at once, where only some of them may be of the wanted kind."""
CANDIDATES = 200
"""Entries of each namespace that a search ranks."""
Entries = list[MemoryEntry]


class Memory(StoreClient):
    """The memories of a store, for programs: `async with Memory() as memory:`. StoreError if an
    operation fails.

    Every method works with the entries of one group only, so that no group sees those of another.
    Entries without a group have the group ''."""

    def __init__(self, store: StoreLocation = None, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(store)
        self._memories = self._store.memory()
        self._secrets = SecretMasker()
        self._now = clock

    async def list(self, group: str, kind: str = "") -> Entries:
        """The entries of a group by namespace, the newest first. `kind` is working, long_term, or the
        name or path of another memory."""
        entries = await self._memories.entries(group, self._now())
        return [entry for entry in entries if not kind or _matches_kind(entry.shelf, kind)]

    async def page(self, group: str, kind: str = "", *, before: int = 0, limit: int = 50) -> Entries:
        """At most `limit` entries of a group by id, the largest first; with `before`, only those with a
        smaller id. The store reads no more than it has to, also for a group with many entries."""
        found: list[MemoryEntry] = []
        while len(found) < limit:
            size = max(limit, PAGE)
            read = await self._memories.page(group, self._now(), size, before)
            found += [entry for entry in read if not kind or _matches_kind(entry.shelf, kind)]
            if len(read) < size:
                break
            before = read[-1].id
        return found[:limit]

    async def search(self, group: str, text: str, kind: str = "", limit: int = 10) -> Entries:
        """The entries that share words with a text, the best first."""
        words = query_words(text)
        shelves = dict.fromkeys(entry.shelf for entry in await self.list(group, kind))
        found: list[Match] = []
        for shelf in shelves:
            found += await self._memories.search(Shelf(group, shelf), words, CANDIDATES, self._now())
        return [match.entry for match in rank_by_words(found, words)[:limit]]

    async def promote(
        self,
        group: str,
        entry: int | None = None,
        *,
        run: str = "",
        at: str = "",
        text: str = "",
    ) -> Entries:
        """Adds something to long-term memory, in passages: an entry of the group, what a node of a run
        returned at an address, or a text. Returns the new entries."""
        if not group:
            raise StoreError("long-term memory belongs to a group; name one")
        items = await self._items_to_promote(group, entry, run, at, text)
        if not items:
            raise StoreError("the content to promote has no text")
        ids = await self._memories.remember(Shelf(group, LONG_TERM), items)
        entries = {one.id: one for one in await self.list(group, LONG_TERM)}
        return [entries[number] for number in dict.fromkeys(ids) if number in entries]

    async def _items_to_promote(
        self, group: str, entry: int | None, run: str, at: str, text: str
    ) -> Sequence[Item]:
        """The passages to promote, with their origin. StoreError unless exactly one source was given."""
        if sum((entry is not None, bool(run), bool(text))) != 1:
            raise StoreError(
                "promote one thing: an entry by its id, the output of a node of a run, or a text"
            )
        if entry is not None:
            known = await self._find_entry(group, entry)
            return self._items(known.text, known.run_id, known.node, known.address, known.confidence)
        if run:
            given = await self._find_quarantined(run, at)
            run_id = await find(self._store, run)
            parts = (self._items(one.content, run_id, one.node, one.address, one.confidence) for one in given)
            return [item for part in parts for item in part]
        return self._items(text)

    async def _find_entry(self, group: str, number: int) -> MemoryEntry:
        for entry in await self.list(group):
            if entry.id == number:
                return entry
        raise StoreError(
            f"group '{group}' has no entry {number}; `roundel memory list --group {group}` lists them"
        )

    async def _find_quarantined(self, run: str, at: str) -> Sequence[Quarantined]:
        if not at:
            raise StoreError("name the address in the run; `roundel memory quarantine RUN` lists them")
        given = [one for one in await self.quarantine(run) if one.address == at]
        if not given:
            raise StoreError(
                f"no node has an output at '{at}'; `roundel memory quarantine {run}` shows where"
            )
        return given

    def _items(self, text: str, *origin: Any) -> Sequence[Item]:
        """A text in passages, without the secrets of the environment: it may come from a person, and has
        then not passed through any fact."""
        run_id, node, address, confidence = origin or ("", "", "", None)
        return [
            Item(piece, self._now(), "", run_id, node, address, confidence)
            for piece in split_passages(self._secrets.mask(text))
        ]

    async def forget(self, group: str, *entries: int) -> int:
        """Deletes entries of a group; returns how many of them there were."""
        return await self._memories.forget(group, entries)

    async def forget_all(self, group: str) -> int:
        """Deletes all entries of a group; returns how many there were."""
        return await self._memories.forget(group)

    async def quarantine(self, run: str) -> Sequence[Quarantined]:
        """All messages that the nodes of a run returned."""
        return await quarantine(self._store, await find(self._store, run))

    async def quarantine_page(
        self, run: str, *, after: int = 0, limit: int = 50
    ) -> tuple[Sequence[Quarantined], int | None]:
        """Some `limit` of these messages, of the events after a number, and the number to continue after;
        None if nothing is left."""
        return await quarantine_page(self._store, await find(self._store, run), after, limit)


def _matches_kind(shelf: str, kind: str) -> bool:
    """Whether a namespace is of a kind, by the ways in which memory/namespaces.py names them."""
    if shelf.startswith(NAME_PREFIX):
        return shelf.endswith(f"/{escape_name(kind)}")
    return shelf in (kind, PATH_PREFIX + kind) or shelf.endswith(f"/{kind}")
