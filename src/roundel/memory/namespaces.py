"""Which shelf of the store a memory of a workflow uses, and which memories an agent may name.

A shelf has a group and a name. Working and long-term memory have one shelf for each group. A memory that
a graph declares has a shelf by its path or by its owner and name, so that memories of two workflows are
apart unless they name the same path. Names follow the nesting of graphs: an agent may name the memories
of all graphs around it, up to the file.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from roundel.memory.files import display_path
from roundel.memory.store import Shelf
from roundel.nodes import subgraph
from roundel.nodes.agent_config import MemoryUse
from roundel.plan.graph import GraphPlan, Plan
from roundel.workflow.document import FileAccess
from roundel.workflow.graph import Node, workflow_name
from roundel.workflow.memory_config import (
    AUTO,
    BUILTIN_MEMORIES,
    LONG_TERM,
    WORKING,
    FileMemory,
    LongTermMemory,
    Mem0,
    MemoryDeclaration,
    WorkingMemory,
    builtin_memory,
    find_path,
)

MemoryScope = Mapping[str, tuple[MemoryDeclaration, str]]
"""The memories that an agent may name: the declaration of each, and the graph that owns it."""
BUILT_IN: MemoryScope = {name: (builtin_memory(name), "") for name in BUILTIN_MEMORIES}
PATH_PREFIX, NAME_PREFIX, FILES_PREFIX = "path:", "name:", "files:"
"""Prefixes of the shelves of declared memories, so that none can have the name of working or long-term
memory."""


class MemoryBinding(Struct, frozen=True):
    """A memory as one agent uses it: its settings for the agent, and the declaration. `bind_memories`
    creates it."""

    use: MemoryUse
    attachment: MemoryDeclaration
    owner: str
    """The graph that declares it: the names of the workflow and of the nodes around it, separated by
    slashes."""


def bind_memories(plan: Plan) -> dict[int, tuple[MemoryBinding, ...]]:
    """The memories of each node that has any, by the identity of the node. Ids of nodes are unique only
    within their graph, so they cannot be keys; the caller has to keep the plan alive."""
    found = _bind_graph(plan.graph, BUILT_IN, escape_name(plan.workflow.name))
    return {id(node): uses for node, uses in found if uses}


def _bind_graph(
    graph: GraphPlan, outer_scope: MemoryScope, owner: str
) -> Iterator[tuple[Node, tuple[MemoryBinding, ...]]]:
    scope = {**outer_scope, **{one.name: (one, owner) for one in graph.graph.memory}}
    for node in graph.nodes:
        memory_uses: tuple[MemoryUse, ...] = getattr(node.config, "memories", ())
        uses = (MemoryBinding(use, *scope[use.name]) for use in memory_uses)
        yield node.node, tuple(use for use in uses if not isinstance(use.attachment.config, Mem0))
        # A graph from a file has only its own memories, under the same name whichever workflow uses it.
        path = node.config.path if isinstance(node.config, subgraph.Config) else ""
        for body in node.bodies:
            name = escape_name(workflow_name(body.graph, path)) if path else f"{owner}/{escape_name(node.id)}"
            yield from _bind_graph(body, BUILT_IN if path else scope, name)


def escape_name(name: str) -> str:
    """A name as a part of the name of a shelf: slashes are escaped, so that different owners never
    collide."""
    return name.replace("%", "%25").replace("/", "%2F")


def shelf_of(use: MemoryBinding, group: str, access: FileAccess) -> Shelf | None:
    """The shelf of a memory for a group; None for working and long-term memory without a group, which do
    not exist."""
    attachment, config = use.attachment, use.attachment.config
    if isinstance(config, (WorkingMemory, LongTermMemory)):
        return Shelf(group, WORKING if isinstance(config, WorkingMemory) else LONG_TERM) if group else None
    if isinstance(config, FileMemory):
        # Files are the same for all groups, so they are read and embedded once.
        return Shelf("", FILES_PREFIX + _index_name(config, attachment.folder, access))
    path = config.memory_path
    if path and path != AUTO:
        return Shelf(group, PATH_PREFIX + posixpath.normpath(path))
    return Shelf(group, f"{NAME_PREFIX}{use.owner}/{escape_name(attachment.name)}")


def _index_name(config: FileMemory, folder: Path | None, access: FileAccess) -> str:
    """A name from the resolved places of the files: the same relative path may mean another file
    elsewhere. Under a policy it depends on the allowed folders, and nothing else is looked at."""
    if access.confined:
        encoded = msgspec.json.encode((list(map(display_path, access.allowed)), config.file_sources))
    else:
        beside = folder or Path.cwd()
        places = [
            display_path(find_path(source.path, folder) or beside / source.path)
            for source in config.file_sources
        ]
        encoded = msgspec.json.encode((places, config.file_sources))
    return hashlib.blake2b(encoded, digest_size=12).hexdigest()
