"""Reads a memory: what there is on its shelf and in its files that has to do with a question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from roundel.llm.meter import Meter
from roundel.memory.elsewhere import Elsewhere, Trouble
from roundel.memory.index import Index
from roundel.memory.ranking import Embedder, by_words, cosine, packed
from roundel.memory.shelves import Use
from roundel.memory.store import Entry, Match, MemoryStore, Shelf
from roundel.memory.words import asked, share
from roundel.nodes.threads import in_thread
from roundel.workflow.attachment import Blackboard, MemorySettings, Working
from roundel.workflow.file_access import FileAccess

CANDIDATES = 200
"""So many entries that share a word with the question are looked at more closely."""
AT_ONCE = 64
"""Texts in one request for vectors."""
HOUR = 3600


class Together:
    """What the agents of a run that read one shelf have in common: what one of them makes ready, the others
    wait for."""

    def __init__(self, index: Index | None, access: FileAccess) -> None:
        self.index = index
        self.access = access
        """Which files may be read."""
        self.making_vectors = asyncio.Lock()


class Reading:
    """One memory as one agent reads it."""

    def __init__(
        self,
        use: Use,
        shelf: Shelf,
        settings: MemorySettings,
        embedder: Embedder | None,
        together: Together,
    ) -> None:
        self._use, self._shelf, self._settings = use.use, shelf, settings
        self._config: Any = use.attachment.config
        path = getattr(self._config, "memory_path", "")
        self._index, self._making_vectors = together.index, together.making_vectors
        self._elsewhere = Elsewhere(path, use.attachment.folder, together.access) if path else None
        self._embedder = embedder
        self._made: dict[str, bytes] = {}
        """Vectors of texts that have no entry."""

    async def texts(
        self, memories: MemoryStore, question: str, now: float, meter: Meter
    ) -> tuple[list[str], list[str]]:
        """What it has to say, and what is wrong with it; raises if it cannot be read at all."""
        troubles: list[str] = []
        if self._index is not None:
            troubles += await self._index.refresh(memories, now)
        elsewhere: list[Match] = []
        if self._elsewhere is not None:
            try:
                elsewhere = await in_thread(self._elsewhere.matches)
            except Trouble as trouble:
                troubles.append(str(trouble))
        found = await self._found(memories, question, elsewhere, now, meter)
        return [entry.text for entry in found[: self._use.top_k]], troubles

    async def _found(
        self, memories: MemoryStore, question: str, elsewhere: list[Match], now: float, meter: Meter
    ) -> list[Entry]:
        if isinstance(self._config, Blackboard):
            return await self._last(memories, elsewhere, now)
        if isinstance(self._config, Working):
            since = now - self._settings.hours * HOUR
            newest = await memories.newest(self._shelf, self._settings.newest, now, since)
            return self._fitting(newest, asked(question))
        if self._embedder is not None:
            metered = _Metered(self._embedder, meter)
            return await self._alike(memories, metered, question, elsewhere, now)
        words = asked(question)
        matches = await memories.search(self._shelf, words, CANDIDATES, now)
        return self._fitting([match for match in (*matches, *elsewhere) if share(words, match.words)], words)

    async def _last(self, memories: MemoryStore, elsewhere: list[Match], now: float) -> list[Entry]:
        """What was said last, in the order in which it was said."""
        newest = await memories.newest(self._shelf, self._use.top_k, now)
        return [match.entry for match in (*elsewhere, *reversed(newest))][-self._use.top_k :]

    def _fitting(self, matches: Sequence[Match], words: Sequence[str]) -> list[Entry]:
        least = self._use.similarity_threshold
        ranked = by_words([match for match in matches if share(words, match.words) >= least], words)
        return [match.entry for match in ranked]

    # By vectors.

    async def _alike(
        self, memories: MemoryStore, embedder: _Metered, question: str, elsewhere: list[Match], now: float
    ) -> list[Entry]:
        if not question.strip():
            return []
        async with self._making_vectors:
            kept = await self._vectors(memories, embedder, now)
        kept += await self._made_now(embedder, [match.entry for match in elsewhere])
        (asked_for,) = await embedder.embed([question], question=True)
        ranked: list[Entry] = await in_thread(self._ranked, kept, packed(asked_for))
        return ranked

    def _ranked(self, kept: list[tuple[Entry, bytes]], question: bytes) -> list[Entry]:
        scored = [(cosine(vector, question), entry) for entry, vector in kept]
        fitting = [pair for pair in scored if pair[0] >= self._use.similarity_threshold]
        return [entry for _, entry in sorted(fitting, key=lambda pair: (-pair[0], -pair[1].time))]

    async def _vectors(
        self, memories: MemoryStore, embedder: _Metered, now: float
    ) -> list[tuple[Entry, bytes]]:
        """Of all entries; those that have none yet get theirs, and keep it."""
        known = await memories.vectors(self._shelf, embedder.name, now)
        kept = [(entry, vector) for entry, vector in known if vector is not None]
        new = [entry for entry, vector in known if vector is None]
        for first in range(0, len(new), AT_ONCE):
            some = new[first : first + AT_ONCE]
            made = [packed(vector) for vector in await embedder.embed([entry.text for entry in some])]
            await memories.keep_vectors(
                embedder.name, {entry.id: vector for entry, vector in zip(some, made, strict=True)}
            )
            kept += zip(some, made, strict=True)
        return kept

    async def _made_now(self, embedder: _Metered, entries: list[Entry]) -> list[tuple[Entry, bytes]]:
        new = [entry.text for entry in entries if entry.text not in self._made]
        for first in range(0, len(new), AT_ONCE):
            some = new[first : first + AT_ONCE]
            vectors = await embedder.embed(some)
            self._made.update(zip(some, map(packed, vectors), strict=True))
        return [(entry, self._made[entry.text]) for entry in entries]


class _Metered:
    """A maker of vectors with the meter of one reading."""

    def __init__(self, embedder: Embedder, meter: Meter) -> None:
        self._embedder, self._meter = embedder, meter
        self.name = embedder.name

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        return await self._embedder.embed(texts, self._meter, question=question)
