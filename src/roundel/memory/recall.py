"""Reads a memory: what there is on its shelf and in its files that has to do with a question.

What an agent is reminded of before its model is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from roundel.llm.prices import EmbeddingMeter
from roundel.memory.files import FileIndex, JsonImport, JsonImportError, valid_unicode
from roundel.memory.namespaces import MemoryBinding
from roundel.memory.search import Embedder, cosine, pack_vector, query_words, rank_by_words, word_overlap
from roundel.memory.store import Match, MemoryEntry, MemoryStore, Shelf
from roundel.nodes.agent_config import MemoryStage, MemoryUse
from roundel.nodes.services import RecalledMemories
from roundel.nodes.user_code import run_in_thread
from roundel.workflow.document import FileAccess
from roundel.workflow.memory_config import BlackboardMemory, MemorySettings, WorkingMemory

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

CANDIDATES = 200
"""So many entries that share a word with the question are looked at more closely."""
EMBEDDING_BATCH = 64
"""Texts in one request for vectors."""
HOUR = 3600


class SharedSources:
    """What the agents of a run that read one shelf have in common: what one of them makes ready, the others
    wait for."""

    def __init__(self, index: FileIndex | None, access: FileAccess) -> None:
        self.index = index
        self.access = access
        """Which files may be read."""
        self.embedding_lock = asyncio.Lock()


class MemoryQuery:
    """One memory as one agent reads it."""

    def __init__(
        self,
        use: MemoryBinding,
        shelf: Shelf,
        settings: MemorySettings,
        embedder: Embedder | None,
        shared: SharedSources,
    ) -> None:
        self._use, self._shelf, self._settings = use.use, shelf, settings
        self._config: Any = use.attachment.config
        path = getattr(self._config, "memory_path", "")
        self._index, self._embedding_lock = shared.index, shared.embedding_lock
        self._json_import = JsonImport(path, use.attachment.folder, shared.access) if path else None
        self._embedder = embedder
        self._imported_vectors: dict[str, bytes] = {}
        """Vectors of texts that have no entry."""

    async def texts(
        self, memories: MemoryStore, question: str, now: float, meter: EmbeddingMeter
    ) -> tuple[list[str], list[str]]:
        """What it has to say, and what is wrong with it; raises if it cannot be read at all."""
        problems: list[str] = []
        if self._index is not None:
            problems += await self._index.refresh(memories, now)
        imported: list[Match] = []
        if self._json_import is not None:
            try:
                imported = await run_in_thread(self._json_import.matches)
            except JsonImportError as problem:
                problems.append(str(problem))
        found = await self._search(memories, question, imported, now, meter)
        return [entry.text for entry in found[: self._use.top_k]], problems

    async def _search(
        self, memories: MemoryStore, question: str, imported: list[Match], now: float, meter: EmbeddingMeter
    ) -> list[MemoryEntry]:
        if isinstance(self._config, BlackboardMemory):
            return await self._newest_entries(memories, imported, now)
        if isinstance(self._config, WorkingMemory):
            since = now - self._settings.hours * HOUR
            newest = await memories.newest(self._shelf, self._settings.newest, now, since)
            return self._rank_by_words(newest, query_words(question))
        if self._embedder is not None:
            metered = _MeteredEmbedder(self._embedder, meter)
            return await self._search_by_vectors(memories, metered, question, imported, now)
        words = query_words(question)
        matches = await memories.search(self._shelf, words, CANDIDATES, now)
        return self._rank_by_words(
            [match for match in (*matches, *imported) if word_overlap(words, match.words)], words
        )

    async def _newest_entries(
        self, memories: MemoryStore, imported: list[Match], now: float
    ) -> list[MemoryEntry]:
        """What was said last, in the order in which it was said."""
        newest = await memories.newest(self._shelf, self._use.top_k, now)
        return [match.entry for match in (*imported, *reversed(newest))][-self._use.top_k :]

    def _rank_by_words(self, matches: Sequence[Match], words: Sequence[str]) -> list[MemoryEntry]:
        least = self._use.similarity_threshold
        ranked = rank_by_words(
            [match for match in matches if word_overlap(words, match.words) >= least], words
        )
        return [match.entry for match in ranked]

    # By vectors.

    async def _search_by_vectors(
        self,
        memories: MemoryStore,
        embedder: _MeteredEmbedder,
        question: str,
        imported: list[Match],
        now: float,
    ) -> list[MemoryEntry]:
        if not question.strip():
            return []
        async with self._embedding_lock:
            embedded = await self._embed_entries(memories, embedder, now)
        embedded += await self._embed_imported(embedder, [match.entry for match in imported])
        (query_vector,) = await embedder.embed([question], question=True)
        ranked: list[MemoryEntry] = await run_in_thread(self._ranked, embedded, pack_vector(query_vector))
        return ranked

    def _ranked(self, embedded: list[tuple[MemoryEntry, bytes]], question: bytes) -> list[MemoryEntry]:
        scored = [(cosine(vector, question), entry) for entry, vector in embedded]
        fitting = [pair for pair in scored if pair[0] >= self._use.similarity_threshold]
        return [entry for _, entry in sorted(fitting, key=lambda pair: (-pair[0], -pair[1].time))]

    async def _embed_entries(
        self, memories: MemoryStore, embedder: _MeteredEmbedder, now: float
    ) -> list[tuple[MemoryEntry, bytes]]:
        """Of all entries; those that have none yet get theirs, and keep it."""
        known = await memories.vectors(self._shelf, embedder.name, now)
        embedded = [(entry, vector) for entry, vector in known if vector is not None]
        new = [entry for entry, vector in known if vector is None]
        for first in range(0, len(new), EMBEDDING_BATCH):
            some = new[first : first + EMBEDDING_BATCH]
            made = [pack_vector(vector) for vector in await embedder.embed([entry.text for entry in some])]
            await memories.keep_vectors(
                embedder.name, {entry.id: vector for entry, vector in zip(some, made, strict=True)}
            )
            embedded += zip(some, made, strict=True)
        return embedded

    async def _embed_imported(
        self, embedder: _MeteredEmbedder, entries: list[MemoryEntry]
    ) -> list[tuple[MemoryEntry, bytes]]:
        new = [entry.text for entry in entries if entry.text not in self._imported_vectors]
        for first in range(0, len(new), EMBEDDING_BATCH):
            some = new[first : first + EMBEDDING_BATCH]
            vectors = await embedder.embed(some)
            self._imported_vectors.update(zip(some, map(pack_vector, vectors), strict=True))
        return [(entry, self._imported_vectors[entry.text]) for entry in entries]


class _MeteredEmbedder:
    """A maker of vectors with the meter of one reading."""

    def __init__(self, embedder: Embedder, meter: EmbeddingMeter) -> None:
        self._embedder, self._meter = embedder, meter
        self.name = embedder.name

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        return await self._embedder.embed(texts, self._meter, question=question)


BLOCK_BEGIN, BLOCK_END = "===== Related Memories =====", "===== End of Memory ====="


class AgentMemoryReader:
    """The memories that one agent reads."""

    def __init__(
        self, memory: RunMemory, queries: Iterable[tuple[MemoryUse, MemoryQuery]], seconds: float
    ) -> None:
        self._memory = memory
        self._queries = list(queries)
        self._seconds = seconds
        """How long one of them may take."""

    async def related(self, stage: MemoryStage, question: str) -> RecalledMemories:
        """Never fails: what cannot be read is told of, and the agent goes on without it."""
        meter = EmbeddingMeter()
        queries = [(use, query) for use, query in self._queries if use.is_read_at(stage)]
        found = await asyncio.gather(*(self._read(use, one, question, meter) for use, one in queries))
        texts = dict.fromkeys(text for texts, _ in found for text in texts)
        events = tuple(("memory_error", data) for _, problems in found for data in problems)
        return RecalledMemories(format_memories(texts), events, meter.usage())

    async def _read(
        self, use: MemoryUse, query: MemoryQuery, question: str, meter: EmbeddingMeter
    ) -> tuple[list[str], list[dict[str, Any]]]:
        memory = self._memory
        texts: list[str] = []
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                texts, problems = await query.texts(memory.memories, question, memory.now(), meter)
        except Exception as error:
            problems = [timeout_text(self._seconds) if limit.expired() else describe_error(error)]
        return texts, [error_data(use.name, problem, memory.mask) for problem in problems]


def format_memories(texts: Iterable[str]) -> str:
    """As one text between two lines that say what it is; empty if there is none."""
    plain = (
        text.replace(BLOCK_BEGIN, "").replace(BLOCK_END, "") for text in texts
    )  # nobody speaks for what stands around
    numbered = [f"[{number}] {text}" for number, text in enumerate(plain, 1)]
    return "\n\n".join((BLOCK_BEGIN, *numbered, BLOCK_END)) if numbered else ""


def timeout_text(seconds: float) -> str:
    return f"no answer within {seconds:g} seconds"


def describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__


def error_data(store: str, error: str, mask: Callable[[str], str]) -> dict[str, Any]:
    return {"store": store, "error": valid_unicode(mask(error))}
