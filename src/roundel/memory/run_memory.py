"""How sure a node is of what it said, and whether that is enough for working memory.

Writes what nodes give into memory: into that of the group, and into those that agents name.

It changes nothing of what a node gives, and never fails a node: what cannot be written is told of.

What one run remembers, and where: its group, the memories of its agents, the store behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf, isnan
from typing import Any

import msgspec

from roundel.llm.resource_pool import ResourceLease
from roundel.memory.files import FileIndex
from roundel.memory.namespaces import MemoryBinding, bind_memories, shelf_of
from roundel.memory.process_store import ProcessMemoryStore
from roundel.memory.recall import (
    AgentMemoryReader,
    MemoryQuery,
    SharedSources,
    describe_error,
    error_data,
    timeout_text,
)
from roundel.memory.search import Embedder
from roundel.memory.store import Item, MemoryStore, Shelf
from roundel.nodes.agent_config import Config
from roundel.nodes.middleware import Middleware, Visit
from roundel.plan.graph import Plan
from roundel.workflow.graph import Node
from roundel.workflow.memory_config import (
    WORKING,
    BlackboardMemory,
    Embedding,
    FileMemory,
    SimpleMemory,
    WorkingMemory,
)
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker

CONFIDENCE = "confidence"


def confidence_of(message: Message) -> float | None:
    """A number in the metadata or, if there is none, in the data of a message."""
    for fields in (message.metadata, message.data):
        found = (fields or {}).get(CONFIDENCE)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            number = _as_float(found)
            if not isnan(number):
                return number
    return None


def _as_float(found: float) -> float:
    try:
        return float(found)
    except OverflowError:  # more digits than a float has room for
        return inf if found > 0 else -inf


def is_confident(message: Message, node: Node, least: float) -> bool:
    """What agents and people say without a word on it is taken; of other nodes only what says so itself."""
    confidence = confidence_of(message)
    if confidence is None:
        return node.kind.speaks or node.kind.asks
    return confidence >= least


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
        named = [use for use in self._memory.uses(node) if isinstance(use.attachment.config, WorkingMemory)]
        allowed = any(use.use.write for use in named) if named else node.log_output
        return bool(self._memory.group) and not node.kind.pure and allowed

    def _written_bindings(self, node: Node) -> list[MemoryBinding]:
        kinds = (SimpleMemory, BlackboardMemory)
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
            if isinstance(config, BlackboardMemory)
            else (MAX_SIMPLE_ENTRIES, _last_input(visit))
        )
        input_text = self._memory.mask(input_text)[:MAX_TEXT_LENGTH]
        about = {"input": input_text} if input_text else {}
        items = self._items(visit, messages, about=about, found_by=input_text)
        if items:
            await self._memory.memories.remember(shelf, items, most)

    def _items(self, visit: Visit, messages: Sequence[Message], **fields: Any) -> list[Item]:
        now, mask = self._memory.now(), self._memory.mask
        error_answer = _error_prefix(visit.node)
        said = (
            (message, _shorten(mask(message.text)))
            for message in messages
            if not error_answer or not message.text.startswith(error_answer)
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
    return config.error_answer("") if isinstance(config, Config) and config.on_error == "message" else ""


def _last_input(visit: Visit) -> str:
    return visit.inputs[-1].text if visit.inputs else ""


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"


NODE_TIME_SHARE = 0.25
"""Of the time that a node has, for its memories."""


class RunMemory:
    """Without a lease on the process's clients no model is asked: none makes vectors, and texts are found by
    their words."""

    def __init__(
        self, plan: Plan, secrets: SecretMasker, clock: Callable[[], float], *, lease: ResourceLease | None
    ) -> None:
        self.now = clock
        self.mask = secrets.mask
        self.settings = plan.workflow.memory
        self._workflow, self._secrets, self._lease = plan.workflow, secrets, lease
        self._plan = plan  # its nodes are known by their identity
        self._uses = bind_memories(plan)
        self._memories: MemoryStore | None = None
        self._embedders: dict[bytes, Any] = {}
        self._shared: dict[Shelf, SharedSources] = {}

    @property
    def group(self) -> str:
        return self.settings.group_id

    @property
    def memories(self) -> MemoryStore:
        if self._memories is None:
            self._memories = ProcessMemoryStore()
        return self._memories

    @memories.setter
    def memories(self, memories: MemoryStore) -> None:
        self._memories = memories

    def uses(self, node: Node) -> tuple[MemoryBinding, ...]:
        return self._uses.get(id(node), ())

    def shelf(self, use: MemoryBinding) -> Shelf | None:
        return shelf_of(use, self.group)

    def recall(self, node: Node) -> AgentMemoryReader:
        """What an agent reads; nothing of working and long-term memory if there is no group."""
        queries = [
            (use.use, self._make_query(use, shelf))
            for use in self.uses(node)
            if (shelf := self.shelf(use)) is not None
        ]
        # An agent with a timeout of its own is not to lose it over its memories.
        seconds = self.settings.timeout
        if node.timeout is not None:
            seconds = min(seconds, node.timeout * NODE_TIME_SHARE)
        return AgentMemoryReader(self, queries, seconds)

    def _make_query(self, use: MemoryBinding, shelf: Shelf) -> MemoryQuery:
        if shelf not in self._shared:
            config, folder = use.attachment.config, use.attachment.folder
            files = isinstance(config, FileMemory)
            access = self._workflow.access
            self._shared[shelf] = SharedSources(
                FileIndex(config, folder, shelf, access, self.mask) if files else None, access
            )
        embedder = self._embedder(use.attachment.embedding)
        return MemoryQuery(use, shelf, self.settings, embedder, self._shared[shelf])

    def middleware(self) -> MemoryMiddleware:
        return MemoryMiddleware(self)

    def _embedder(self, config: Embedding | None) -> Embedder | None:
        if config is None or self._lease is None:
            return None
        key = msgspec.json.encode(config)
        if key not in self._embedders:
            from roundel.llm.embedding import ClientEmbedder
            from roundel.llm.prices import Prices

            self._embedders[key] = ClientEmbedder(
                config, self._secrets, Prices(self._workflow.models), self._lease
            )
        embedder: Embedder = self._embedders[key]
        return embedder

    async def close(self) -> None:
        if self._memories is not None:
            await self._memories.close()
