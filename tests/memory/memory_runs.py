"""Runs that remember, and what their models were shown."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import roundel
from roundel.memory.run_memory import RunMemory
from roundel.memory.store import Item, MemoryEntry, MemoryStore, Shelf
from roundel.nodes.loading import load
from roundel.nodes.middleware import Visit
from roundel.plan.graph import compile_workflow
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker

T = TypeVar("T")
BEGIN, END = "===== Related Memories =====", "===== End of Memory ====="


def do(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def agents(*memories: Any, memory: Any = (), group: str = "", **config: Any) -> dict[str, Any]:
    """One agent `A` with these memories, in a graph that may have some of its own."""
    node = {"id": "A", "type": "agent", "config": {"memories": list(memories), **config}}
    graph = {"id": "flow", "start": "A", "end": "A", "nodes": [node], "memory": list(memory)}
    return {"memory": {"group_id": group}, "graph": graph}


def run_reply(
    workflow: Any, reply: str, store: Path, input: str = "go", **options: Any
) -> list[roundel.Event]:
    """The events of a run in which A says something."""
    events: list[roundel.Event] = []
    script = {"A": [reply], **options.pop("script", {})}
    result = roundel.run(workflow, input, script=script, store=store, on_event=events.append, **options)
    assert result.completed, result.error
    return events


def troubles(events: Sequence[roundel.Event]) -> list[dict[str, Any]]:
    return [event.fields() for event in events if event.event == "memory_error"]


def stored_entries(store: Path, group: str, kind: str = "") -> list[MemoryEntry]:
    """What a group remembers."""

    async def look() -> list[MemoryEntry]:
        async with roundel.Memory(store) as memory:
            return await memory.list(group, kind)

    return do(look())


def texts(store: Path, group: str, kind: str = "") -> list[str]:
    return [entry.text for entry in stored_entries(store, group, kind)]


class Group:
    """The memory of a run that is not carried out: time, nodes and messages come from the test."""

    def __init__(
        self, name: str = "team", *, workflow: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        graph = {
            "start": "A",
            "nodes": [
                {"id": "A", "type": "agent"},
                {"id": "Person", "type": "human"},
                {"id": "Code", "type": "python", "config": {"function": "statistics:mean"}},
                {"id": "Text", "type": "literal", "config": {"content": "x"}},
            ],
        }
        given = workflow or {"graph": graph}
        self.plan = compile_workflow(load({**given, "memory": {"group_id": name, **settings}}))
        self.time = 1000.0
        self.memory = RunMemory(self.plan, SecretMasker(), lambda: self.time, lease=None)
        self.visits = 0

    def node(self, name: str) -> Node:
        return next(node.node for node in self.plan.sites if node.id == name)

    async def give(self, text: str, node: str = "A", *, key: str = "", **fields: Any) -> Visit:
        """A node is done, and has given a text."""
        self.visits += 1
        key = key or f"run:{node}[{self.visits}]"
        visit = Visit("run", self.node(node), f"{node}[{self.visits}]", (Message("asked"),), 0, 0, key)
        middleware = self.memory.middleware()
        if middleware.applies(visit.node):
            await middleware.after(visit, (Message(text, "assistant", **fields),))
        return visit

    async def working(self) -> list[str]:
        shelf = Shelf(self.memory.group, "working")
        return [match.entry.text for match in await self.memory.memories.newest(shelf, 1000, self.time)]


async def remember(
    memories: MemoryStore, shelf: Shelf, *texts: str, time: float = 1.0, **more: Any
) -> list[int]:
    return await memories.remember(shelf, [Item(text, time) for text in texts], **more)
