"""Writes what nodes give into memory: into that of the group, and into those that agents name.

It changes nothing of what a node gives, and never fails a node: what cannot be written is told of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from roundel.memory.confidence import confidence_of, is_confident
from roundel.memory.recall import describe_error, error_data, timeout_text
from roundel.memory.shelves import MemoryBinding
from roundel.memory.store import Item, Shelf
from roundel.nodes.agent_config import Config
from roundel.nodes.middleware import Middleware, Visit
from roundel.workflow.attachment import WORKING, Blackboard, Simple, Working
from roundel.workflow.graph import Node
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

MAX_TEXT_LENGTH = 4000
"""Characters of a text that are remembered."""
MAX_SIMPLE_ENTRIES = 1000
"""Entries of a `simple` memory."""
HOUR = 3600


class MemoryMiddleware(Middleware):
    def __init__(self, memory: RunMemory) -> None:
        self._memory = memory

    def applies(self, node: Node) -> bool:
        return self._writes_working_memory(node) or bool(self._written_bindings(node))

    def _writes_working_memory(self, node: Node) -> bool:
        """Nodes that only hand on, count or stand for a text have nothing of their own to say. And what is
        kept out of the events of a run is not to be read in others, unless its agent names working memory."""
        named = [use for use in self._memory.uses(node) if isinstance(use.attachment.config, Working)]
        allowed = any(use.use.write for use in named) if named else node.log_output
        return bool(self._memory.group) and not node.kind.pure and allowed

    def _written_bindings(self, node: Node) -> list[MemoryBinding]:
        kinds = (Simple, Blackboard)
        uses = self._memory.uses(node)
        return [use for use in uses if use.use.write and isinstance(use.attachment.config, kinds)]

    async def after(self, visit: Visit, messages: tuple[Message, ...]) -> None:
        writes = [
            self._write_safely(visit, use.use.name, self._write(visit, use, messages))
            for use in self._written_bindings(visit.node)
        ]
        if self._writes_working_memory(visit.node):
            writes.append(self._write_safely(visit, WORKING, self._write_working(visit, messages)))
        await asyncio.gather(*writes)

    async def _write_safely(self, visit: Visit, name: str, write: Awaitable[None]) -> None:
        """Whatever goes wrong is told of, and no more."""
        memory, seconds = self._memory, self._memory.settings.timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await write
        except Exception as error:
            problem = timeout_text(seconds) if limit.expired() else describe_error(error)
            visit.tell("memory_error", **error_data(name, problem, memory.mask))

    async def _write_working(self, visit: Visit, messages: tuple[Message, ...]) -> None:
        memory, settings = self._memory, self._memory.settings
        confident = [one for one in messages if is_confident(one, visit.node, settings.confidence)]
        until = memory.now() + settings.hours * HOUR
        items = self._items(visit, confident, until=until)
        if items:
            await memory.memories.remember(Shelf(memory.group, WORKING), items, settings.newest)

    async def _write(self, visit: Visit, use: MemoryBinding, messages: tuple[Message, ...]) -> None:
        config, shelf = use.attachment.config, self._memory.shelf(use)
        assert shelf is not None
        most, input_text = (
            (config.max_items, "")
            if isinstance(config, Blackboard)
            else (MAX_SIMPLE_ENTRIES, _last_input(visit))
        )
        input_text = self._memory.mask(input_text)[:MAX_TEXT_LENGTH]
        about = {"input": input_text} if input_text else {}
        items = self._items(visit, messages, about=about, found_by=input_text)
        if items:
            await self._memory.memories.remember(shelf, items, most)

    def _items(self, visit: Visit, messages: Sequence[Message], **fields: Any) -> list[Item]:
        now, mask = self._memory.now(), self._memory.mask
        excuse = _error_prefix(visit.node)
        said = (
            (message, _shorten(mask(message.text)))
            for message in messages
            if not excuse or not message.text.startswith(excuse)
        )
        return [
            Item(
                text,
                now,
                visit.key,
                visit.run_id,
                visit.node.id,
                visit.address,
                confidence_of(message),
                **fields,
            )
            for message, text in said
            if text
        ]


def _error_prefix(node: Node) -> str:
    """How an agent begins that says why it has no answer; that is nothing to remember."""
    config = node.config
    return config.excuse("") if isinstance(config, Config) and config.on_error == "message" else ""


def _last_input(visit: Visit) -> str:
    return visit.inputs[-1].text if visit.inputs else ""


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
