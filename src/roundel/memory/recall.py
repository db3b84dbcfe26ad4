"""What an agent is reminded of before its model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from roundel.llm.meter import Meter
from roundel.memory.reading import Reading
from roundel.memory.sources import writable
from roundel.nodes.agent_config import MemoryUse, Stage
from roundel.nodes.services import Related

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

BEGIN, END = "===== Related Memories =====", "===== End of Memory ====="


class Recall:
    """The memories that one agent reads."""

    def __init__(
        self, memory: RunMemory, readings: Iterable[tuple[MemoryUse, Reading]], seconds: float
    ) -> None:
        self._memory = memory
        self._readings = list(readings)
        self._seconds = seconds
        """How long one of them may take."""

    async def related(self, stage: Stage, question: str) -> Related:
        """Never fails: what cannot be read is told of, and the agent goes on without it."""
        meter = Meter()
        readings = [(use, reading) for use, reading in self._readings if use.is_read(stage)]
        found = await asyncio.gather(*(self._read(use, one, question, meter) for use, one in readings))
        texts = dict.fromkeys(text for texts, _ in found for text in texts)
        events = tuple(("memory_error", data) for _, troubles in found for data in troubles)
        return Related(wrapped(texts), events, meter.usage())

    async def _read(
        self, use: MemoryUse, reading: Reading, question: str, meter: Meter
    ) -> tuple[list[str], list[dict[str, Any]]]:
        memory = self._memory
        texts: list[str] = []
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                texts, troubles = await reading.texts(memory.memories, question, memory.now(), meter)
        except Exception as error:
            troubles = [late(self._seconds) if limit.expired() else told(error)]
        return texts, [trouble_data(use.name, trouble, memory.mask) for trouble in troubles]


def wrapped(texts: Iterable[str]) -> str:
    """As one text between two lines that say what it is; empty if there is none."""
    plain = (
        text.replace(BEGIN, "").replace(END, "") for text in texts
    )  # nobody speaks for what stands around
    listed = [f"[{number}] {text}" for number, text in enumerate(plain, 1)]
    return "\n\n".join((BEGIN, *listed, END)) if listed else ""


def late(seconds: float) -> str:
    return f"no answer within {seconds:g} seconds"


def told(error: Exception) -> str:
    return str(error) or type(error).__name__


def trouble_data(store: str, error: str, mask: Callable[[str], str]) -> dict[str, Any]:
    return {"store": store, "error": writable(mask(error))}
