"""The memories of one run: where they are stored, who reads them, and what is written into them.

`RunMemory` connects the memories that a workflow declares with a store. `MemoryMiddleware` writes the
output of nodes; `confidence_of` and `is_confident` decide what is certain enough for working memory,
which all runs of a group read. Reading is in recall.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf, isnan
from typing import Any

import msgspec

from roundel.kernel.payloads import MemoryFailed
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
from roundel.workflow.document import FileAccess
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
    """How sure a node is of a message: a number in its metadata or else in its data; None if there is
    none."""
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
    except OverflowError:  # an integer that is too large for a float
        return inf if found > 0 else -inf


def is_confident(message: Message, node: Node, least: float) -> bool:
    """Whether a message goes into working memory. Messages of agents and people do unless they state a
    low confidence; messages of other nodes, such as functions, only if they state a sufficient one."""
    confidence = confidence_of(message)
    if confidence is None:
        return node.kind.speaks or node.kind.asks
    return confidence >= least


MAX_TEXT_LENGTH = 4000
"""Characters of a text that are stored."""
MAX_SIMPLE_ENTRIES = 1000
"""Entries of a `simple` memory; the oldest are deleted."""
HOUR = 3600


class MemoryMiddleware(Middleware):
    """Writes the output of nodes into memory: into the working memory of the group, and into the
    memories that agents name. `RunMemory.middleware` creates it, and the host adds it to the run.

    It never changes an output and never fails a node: a write that fails is an event. It writes in a
    transaction of its own, behind that of the journal, and with the key of the execution, so that a
    repetition after a crash writes the same entries again instead of more (decision 11)."""

    def __init__(self, memory: RunMemory) -> None:
        self._memory = memory

    def applies(self, node: Node) -> bool:
        return self._writes_working_memory(node) or bool(self._written_bindings(node))

    def _writes_working_memory(self, node: Node) -> bool:
        """Whether the output of a node goes into working memory. Pure nodes (pass-through, counters,
        literals) have no output of their own. The output of a node with `log_output: false` does not
        appear in events, so other runs must not read it either, unless the agent names working memory
        itself."""
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
        """Awaits a write with a time limit; an error becomes an event."""
        memory, seconds = self._memory, self._memory.settings.timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await write
        except Exception as error:
            problem = timeout_text(seconds) if limit.expired() else describe_error(error)
            visit.events.append((MemoryFailed.event, error_data(name, problem, memory.mask)))

    async def _write_working(self, visit: Visit, messages: tuple[Message, ...]) -> None:
        memory, settings = self._memory, self._memory.settings
        confident = [one for one in messages if is_confident(one, visit.node, settings.confidence)]
        until = memory.now() + settings.hours * HOUR
        items = self._items(visit, confident, until=until)
        # Without items there is no call: an empty write would still take a transaction.
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
        # Mask first, then cut: half a secret would not be recognised.
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
    """The beginning of an error answer (`on_error: message`), which is not stored; empty if the node
    gives none."""
    config = node.config
    return config.error_answer("") if isinstance(config, Config) and config.on_error == "message" else ""


def _last_input(visit: Visit) -> str:
    return visit.inputs[-1].text if visit.inputs else ""


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"


NODE_TIME_SHARE = 0.25
"""The share of a node's timeout that reading its memories may take."""


class RunMemory:
    """The memories of one run: its group, the memories of its agents, and the store behind them. The
    host creates it.

    Without a lease on the clients of the process, as in a scripted run, no embedding model is called,
    and texts are found by their words."""

    def __init__(
        self,
        plan: Plan,
        secrets: SecretMasker,
        clock: Callable[[], float],
        *,
        lease: ResourceLease | None,
        access: FileAccess | None = None,
    ) -> None:
        self.now = clock
        self.mask = secrets.mask
        self.settings = plan.workflow.memory
        self._workflow, self._secrets, self._lease = plan.workflow, secrets, lease
        self._access = plan.workflow.access if access is None else access
        self._plan = plan  # keeps the nodes alive, since `_uses` has their identities as keys
        self._uses = bind_memories(plan)
        self._memories: MemoryStore | None = None
        self._embedders: dict[bytes, Any] = {}
        self._shared: dict[Shelf, SharedSources] = {}

    @property
    def group(self) -> str:
        return self.settings.group_id

    @property
    def memories(self) -> MemoryStore:
        """The store. A host with a store sets it; otherwise memories last as long as the process works
        on the run."""
        if self._memories is None:
            self._memories = ProcessMemoryStore()
        return self._memories

    @memories.setter
    def memories(self, memories: MemoryStore) -> None:
        self._memories = memories

    def uses(self, node: Node) -> tuple[MemoryBinding, ...]:
        return self._uses.get(id(node), ())

    def shelf(self, use: MemoryBinding) -> Shelf | None:
        return shelf_of(use, self.group, self._access)

    def recall(self, node: Node) -> AgentMemoryReader:
        """The reader of an agent. Without a group, working and long-term memory are empty."""
        queries = [
            (use.use, self._make_query(use, shelf))
            for use in self.uses(node)
            if (shelf := self.shelf(use)) is not None
        ]
        # A slow memory must not use up the timeout of the agent, which the model needs.
        seconds = self.settings.timeout
        if node.timeout is not None:
            seconds = min(seconds, node.timeout * NODE_TIME_SHARE)
        return AgentMemoryReader(self, queries, seconds)

    def _make_query(self, use: MemoryBinding, shelf: Shelf) -> MemoryQuery:
        if shelf not in self._shared:
            config, folder = use.attachment.config, use.attachment.folder
            files = isinstance(config, FileMemory)
            access = self._access
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
            from roundel.nodes.prices import Prices

            self._embedders[key] = ClientEmbedder(
                config, self._secrets, Prices(self._workflow.models), self._lease
            )
        embedder: Embedder = self._embedders[key]
        return embedder

    async def close(self) -> None:
        if self._memories is not None:
            await self._memories.close()
