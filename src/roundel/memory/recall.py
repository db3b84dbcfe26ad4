"""What an agent is reminded of before its model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from roundel.llm.meter import EmbeddingMeter
from roundel.memory.reading import MemoryQuery
from roundel.memory.sources import valid_unicode
from roundel.nodes.agent_config import MemoryStage, MemoryUse
from roundel.nodes.services import Related

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

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

    async def related(self, stage: MemoryStage, question: str) -> Related:
        """Never fails: what cannot be read is told of, and the agent goes on without it."""
        meter = EmbeddingMeter()
        queries = [(use, reading) for use, reading in self._queries if use.is_read(stage)]
        found = await asyncio.gather(*(self._read(use, one, question, meter) for use, one in queries))
        texts = dict.fromkeys(text for texts, _ in found for text in texts)
        events = tuple(("memory_error", data) for _, problems in found for data in problems)
        return Related(format_memories(texts), events, meter.usage())

    async def _read(
        self, use: MemoryUse, reading: MemoryQuery, question: str, meter: EmbeddingMeter
    ) -> tuple[list[str], list[dict[str, Any]]]:
        memory = self._memory
        texts: list[str] = []
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                texts, problems = await reading.texts(memory.memories, question, memory.now(), meter)
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
