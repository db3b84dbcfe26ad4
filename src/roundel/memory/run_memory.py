"""What one run remembers, and where: its group, the memories of its agents, the store behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from roundel.llm.resource_pool import ResourceLease
from roundel.memory.index import FileIndex
from roundel.memory.middleware import MemoryMiddleware
from roundel.memory.process_store import ProcessMemoryStore
from roundel.memory.ranking import Embedder
from roundel.memory.reading import MemoryQuery, SharedSources
from roundel.memory.recall import AgentMemoryReader
from roundel.memory.shelves import MemoryBinding, bind_memories, shelf_of
from roundel.memory.store import MemoryStore, Shelf
from roundel.plan.graph import Plan
from roundel.workflow.attachment import Embedding, Files
from roundel.workflow.graph import Node
from roundel.workflow.secrets import Secrets

NODE_TIME_SHARE = 0.25
"""Of the time that a node has, for its memories."""


class RunMemory:
    """Without a lease on the process's clients no model is asked: none makes vectors, and texts are found by
    their words."""

    def __init__(
        self, plan: Plan, secrets: Secrets, clock: Callable[[], float], *, lease: ResourceLease | None
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
            files = isinstance(config, Files)
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
