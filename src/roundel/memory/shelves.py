"""Which shelf of the store a memory of a workflow stands for, and who may use which."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from roundel.memory.sources import named
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
    find_path,
)
from roundel.workflow.graph import Node, name_of

Scope = Mapping[str, tuple[Attachment, str]]
"""The memories that an agent may name, and whose they are."""
BUILT_IN: Scope = {name: (built_in(name), "") for name in ALWAYS_THERE}
BY_PATH, BY_NAME, OF_FILES = "path:", "name:", "files:"
"""How the shelves of attachments begin, so that none is ever called as working memory is."""


class Use(Struct, frozen=True):
    """A memory as one agent uses it."""

    use: MemoryUse
    attachment: Attachment
    owner: str
    """The graph that it is declared in, as `_within` calls it."""


def uses_of(plan: Plan) -> dict[int, tuple[Use, ...]]:
    """The memories of each node that has any, by the identity of the node."""
    found = _within(plan.graph, BUILT_IN, label(plan.workflow.name))
    return {id(node): uses for node, uses in found if uses}


def _within(graph: GraphPlan, around: Scope, owner: str) -> Iterator[tuple[Node, tuple[Use, ...]]]:
    scope = {**around, **{one.name: (one, owner) for one in graph.graph.memory}}
    for node in graph.nodes:
        named: tuple[MemoryUse, ...] = getattr(node.config, "memories", ())
        uses = (Use(use, *scope[use.name]) for use in named)
        yield node.node, tuple(use for use in uses if not isinstance(use.attachment.config, Mem0))
        # A file has only its own, and is a workflow whoever uses it.
        path = node.config.path if isinstance(node.config, subgraph.Config) else ""
        for body in node.bodies:
            name = label(name_of(body.graph, path)) if path else f"{owner}/{label(node.id)}"
            yield from _within(body, BUILT_IN if path else scope, name)


def label(name: str) -> str:
    """A name as it stands between the slashes of a shelf's name."""
    return name.replace("%", "%25").replace("/", "%2F")


def shelf_of(use: Use, group: str) -> Shelf | None:
    """None for working and long-term memory without a group: there is none."""
    attachment, config = use.attachment, use.attachment.config
    if isinstance(config, (Working, LongTerm)):
        return Shelf(group, WORKING if isinstance(config, Working) else LONG_TERM) if group else None
    if isinstance(config, Files):
        # What stands in files belongs to no group.
        return Shelf("", OF_FILES + _index_name(config, attachment.folder))
    path = config.memory_path
    if path and path != AUTO:
        return Shelf(group, BY_PATH + posixpath.normpath(path))
    return Shelf(group, f"{BY_NAME}{use.owner}/{label(attachment.name)}")


def _index_name(config: Files, folder: Path | None) -> str:
    """By the places that the paths mean from here: from another working folder they may mean others."""
    beside = folder or Path.cwd()
    places = [named(find_path(source.path, folder) or beside / source.path) for source in config.file_sources]
    told = msgspec.json.encode((places, config.file_sources))
    return hashlib.blake2b(told, digest_size=12).hexdigest()
