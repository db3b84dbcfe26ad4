"""Which shelf of the store a memory of a workflow stands for, and who may use which."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from roundel.memory.store import Shelf
from roundel.nodes import subgraph
from roundel.nodes.agent_config import MemoryUse
from roundel.plan.graph import GraphPlan, Plan
from roundel.workflow.attachment import (
    ALWAYS_THERE,
    AUTO,
    LONG_TERM,
    WORKING,
    Attachment,
    Files,
    LongTerm,
    Mem0,
    Working,
    built_in,
)
from roundel.workflow.graph import Node, Workflow

Scope = Mapping[str, Attachment]
BUILT_IN: Scope = {name: built_in(name) for name in ALWAYS_THERE}
BY_PATH, BY_NAME, OF_FILES = "path:", "name:", "files:"
"""How the shelves of attachments begin, so that none is ever called as working memory is."""


class Use(Struct, frozen=True):
    """A memory as one agent uses it."""

    use: MemoryUse
    attachment: Attachment


def uses_of(plan: Plan) -> dict[int, tuple[Use, ...]]:
    """The memories of each node that has any, by the identity of the node."""
    found = _within(plan.graph, BUILT_IN)
    return {id(node): uses for node, uses in found if uses}


def _within(graph: GraphPlan, around: Scope) -> Iterator[tuple[Node, tuple[Use, ...]]]:
    scope = {**around, **{one.name: one for one in graph.graph.memory}}
    for node in graph.nodes:
        named: tuple[MemoryUse, ...] = getattr(node.config, "memories", ())
        uses = (Use(use, scope[use.name]) for use in named)
        yield node.node, tuple(use for use in uses if not isinstance(use.attachment.config, Mem0))
        # A file has only its own.
        apart = isinstance(node.config, subgraph.Config) and node.config.path
        for body in node.bodies:
            yield from _within(body, BUILT_IN if apart else scope)


def shelf_of(attachment: Attachment, workflow: Workflow) -> Shelf | None:
    """None for working and long-term memory without a group: there is none."""
    config, group = attachment.config, workflow.memory.group_id
    if isinstance(config, (Working, LongTerm)):
        return Shelf(group, WORKING if isinstance(config, Working) else LONG_TERM) if group else None
    if isinstance(config, Files):
        # What stands in files belongs to no group.
        told = msgspec.json.encode((str(attachment.folder or Path.cwd()), config.file_sources))
        return Shelf("", OF_FILES + hashlib.blake2b(told, digest_size=12).hexdigest())
    path = config.memory_path
    if path and path != AUTO:
        return Shelf(group, BY_PATH + posixpath.normpath(path))
    name = workflow.graph.id or (Path(workflow.file).stem if workflow.file else "workflow")
    return Shelf(group, f"{BY_NAME}{name}/{attachment.name}")
