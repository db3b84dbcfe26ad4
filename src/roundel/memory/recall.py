"""Read memories for an agent before its model is called.

`AgentMemoryReader` reads all memories of an agent at the same time, each with a time limit, and formats
what was found as one block for the prompt. `MemoryQuery` searches one memory: its shelf in the store,
its files, and its JSON import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from roundel.memory.files import FileIndex, JsonImport, JsonImportError, valid_unicode
from roundel.memory.namespaces import MemoryBinding
from roundel.memory.search import Embedder, cosine, pack_vector, query_words, rank_by_words, word_overlap
from roundel.memory.store import Match, MemoryEntry, MemoryStore, Shelf
from roundel.nodes.agent_config import MemoryStage, MemoryUse
from roundel.nodes.prices import EmbeddingMeter
from roundel.nodes.services import RecalledMemories
from roundel.nodes.user_code import run_in_thread
from roundel.workflow.document import FileAccess
from roundel.workflow.memory_config import BlackboardMemory, MemorySettings, WorkingMemory

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

CANDIDATES = 200
"""Entries that share a word with the question and are ranked; the store preselects them."""
EMBEDDING_BATCH = 64
"""Texts in one request to an embedding model."""
HOUR = 3600


class SharedSources:
    """What the agents of a run that read the same shelf share, so that files are indexed and entries
    embedded once: one agent does the work, and the others wait for it."""

    def __init__(self, index: FileIndex | None, access: FileAccess) -> None:
        self.index = index
        self.access = access
        """The rules for files that may be read."""
        self.embedding_lock = asyncio.Lock()
        """Without it, agents that run at the same time would pay for the same vectors."""


class MemoryQuery:
    """The search of one agent in one memory. `RunMemory` creates it.

    How entries are found depends on the kind of memory: a blackboard gives its newest entries, working
    memory ranks its newest entries by words, and all others search by vectors if an embedding is
    configured, else by words."""

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
        """Vectors of texts from a JSON file, which have no entry in the store that could keep them."""

    async def texts(
        self, memories: MemoryStore, question: str, now: float, meter: EmbeddingMeter
    ) -> tuple[list[str], list[str]]:
        """The texts that fit a question, and problems with parts of the memory; raises if nothing can be
        read."""
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
        """The newest entries in the order in which they were written, for a model to read as a
        conversation."""
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
        # The lock covers the store's entries only. The question is embedded outside, so that agents do
        # not wait for it.
        async with self._embedding_lock:
            embedded = await self._embed_entries(memories, embedder, now)
        embedded += await self._embed_imported(embedder, [match.entry for match in imported])
        (query_vector,) = await embedder.embed([question], question=True)
        # In a thread: comparing thousands of vectors would block the event loop.
        ranked: list[MemoryEntry] = await run_in_thread(self._ranked, embedded, pack_vector(query_vector))
        return ranked

    def _ranked(self, embedded: list[tuple[MemoryEntry, bytes]], question: bytes) -> list[MemoryEntry]:
        scored = [(cosine(vector, question), entry) for entry, vector in embedded]
        fitting = [pair for pair in scored if pair[0] >= self._use.similarity_threshold]
        return [entry for _, entry in sorted(fitting, key=lambda pair: (-pair[0], -pair[1].time))]

    async def _embed_entries(
        self, memories: MemoryStore, embedder: _MeteredEmbedder, now: float
    ) -> list[tuple[MemoryEntry, bytes]]:
        """All entries of the shelf with their vectors. Missing vectors are made and stored batch by
        batch, so that a time limit loses at most one batch that was paid for."""
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
        """The entries of a JSON file with their vectors, which are made once for each run."""
        new = [entry.text for entry in entries if entry.text not in self._imported_vectors]
        for first in range(0, len(new), EMBEDDING_BATCH):
            some = new[first : first + EMBEDDING_BATCH]
            vectors = await embedder.embed(some)
            self._imported_vectors.update(zip(some, map(pack_vector, vectors), strict=True))
        return [(entry, self._imported_vectors[entry.text]) for entry in entries]


class _MeteredEmbedder:
    """An embedder that counts its usage on the meter of one reading."""

    def __init__(self, embedder: Embedder, meter: EmbeddingMeter) -> None:
        self._embedder, self._meter = embedder, meter
        self.name = embedder.name

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        return await self._embedder.embed(texts, self._meter, question=question)


BLOCK_BEGIN, BLOCK_END = "===== Related Memories =====", "===== End of Memory ====="


class AgentMemoryReader:
    """The memories that one agent reads: the `MemoryReader` of nodes/services.py."""

    def __init__(
        self, memory: RunMemory, queries: Iterable[tuple[MemoryUse, MemoryQuery]], seconds: float
    ) -> None:
        self._memory = memory
        self._queries = list(queries)
        self._seconds = seconds
        """The time limit for each memory. They are read at the same time, so it is that of all of them
        too."""

    async def related(self, stage: MemoryStage, question: str) -> RecalledMemories:
        """Searches all memories of a stage. It never raises: a memory that cannot be read becomes an
        event, and the agent continues without it. Memory improves an answer, but there is an answer
        without it (decision 11)."""
        meter = EmbeddingMeter()
        queries = [(use, query) for use, query in self._queries if use.is_read_at(stage)]
        found = await asyncio.gather(*(self._read(use, one, question, meter) for use, one in queries))
        # In the order of the agent's memories; a text that two of them have is shown once.
        texts = dict.fromkeys(text for texts, _ in found for text in texts)
        events = tuple(("memory_error", data) for _, problems in found for data in problems)
        return RecalledMemories(format_memories(texts), events, meter.usage())

    async def _read(
        self, use: MemoryUse, query: MemoryQuery, question: str, meter: EmbeddingMeter
    ) -> tuple[list[str], list[dict[str, Any]]]:
        memory = self._memory
        texts: list[str] = []
        limit = asyncio.timeout(self._seconds)  # `expired` tells our limit from a TimeoutError of the store
        try:
            async with limit:
                texts, problems = await query.texts(memory.memories, question, memory.now(), meter)
        except Exception as error:
            problems = [timeout_text(self._seconds) if limit.expired() else describe_error(error)]
        return texts, [error_data(use.name, problem, memory.mask) for problem in problems]


def format_memories(texts: Iterable[str]) -> str:
    """The texts as one block for a prompt; empty if there are none. The markers are removed from the
    texts: an entry must not end the block and continue as if it were the prompt."""
    plain = (text.replace(BLOCK_BEGIN, "").replace(BLOCK_END, "") for text in texts)
    numbered = [f"[{number}] {text}" for number, text in enumerate(plain, 1)]
    return "\n\n".join((BLOCK_BEGIN, *numbered, BLOCK_END)) if numbered else ""


def timeout_text(seconds: float) -> str:
    return f"no answer within {seconds:g} seconds"


def describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__


def error_data(store: str, error: str, mask: Callable[[str], str]) -> dict[str, Any]:
    return {"store": store, "error": valid_unicode(mask(error))}
