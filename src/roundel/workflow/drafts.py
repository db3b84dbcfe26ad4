"""Drafts: what could be read of a faulty workflow, so that it can be drawn while a person repairs it.

The loader reads on after each problem and gives a workflow only if there is none. What it has read until then
is worth showing: `GraphReader.drafts` collects the nodes and graphs of the place that is being read, and a
stand-in takes the place of each node that could not be read, or that does not exist. A stand-in keeps what
is known of the node: its id, its type, and the graphs inside it.

A draft can be compiled and drawn, never run: its report has an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from roundel.workflow.fields import Place
from roundel.workflow.graph import Edge, Graph, Node
from roundel.workflow.located import Located
from roundel.workflow.node_type import NodeType

NAMELESS = "?"
"""What a node without an id, or a type that is no text, is called."""


class Unread(Struct, frozen=True):
    """The config of a stand-in."""

    bodies: tuple[Graph, ...] = ()
    missing: bool = False


def stand_in(
    name: str, type_: str, known: NodeType | None, inside: Iterable[Node | Graph], at: Place
) -> Node:
    """A node in the place of one that could not be read. `known` is its type, if there is one."""
    config = Unread(tuple(_body(held) for held in inside))
    return Node(name, type_, config, _kind(type_, known), at=at)


def missing_node(name: str) -> Node:
    """A node that an edge, `start` or `end` names, but that does not exist."""
    return Node(name, "missing", Unread(missing=True), _kind("missing", None))


def is_unread(node: Node) -> bool:
    return isinstance(node.config, Unread)


def is_missing(node: Node) -> bool:
    return isinstance(node.config, Unread) and node.config.missing


def unread_edge(item: Located, file: str) -> Edge | None:
    """The ends, the port and the trigger of an edge that could not be read; None if an end is not named."""
    source, target, port = word(item, "from"), word(item, "to"), word(item, "port")
    if not source or not target:
        return None
    assert isinstance(item.value, dict)
    trigger = item.value.get("trigger")
    triggers = trigger is None or trigger.value is not False
    return Edge(source, target, triggers, port=port or None, at=Place(file, item.line, item.column))


def draft_graph(
    nodes: Iterable[Node], edges: Iterable[Edge], start: Iterable[str], end: Iterable[str], **more: Any
) -> Graph:
    """A graph in which every name is that of a node, with stand-ins for those that are missing.

    Of several nodes with the same id the last one has the edges (plan/graph.py), so the one that is first in
    the file is put behind the others."""
    first: dict[str, Node] = {}
    again = [node for node in nodes if first.setdefault(node.id, node) is not node]
    edges, start, end = tuple(edges), tuple(dict.fromkeys(start)), tuple(dict.fromkeys(end))
    used = [*start, *end, *(name for edge in edges for name in (edge.source, edge.target))]
    missing = [missing_node(name) for name in dict.fromkeys(used) if name not in first]
    return Graph(nodes=(*again, *first.values(), *missing), edges=edges, start=start, end=end, **more)


def word(at: Located, key: str) -> str | None:
    """The text behind a key; also a number, which was probably meant as text."""
    place = at.value.get(key) if isinstance(at.value, dict) else None
    return None if place is None else scalar(place)


def scalar(at: Located) -> str | None:
    plain = isinstance(at.value, (str, int, float)) and not isinstance(at.value, bool)
    return str(at.value) if plain else None


def _body(held: Node | Graph) -> Graph:
    return held if isinstance(held, Graph) else Graph(nodes=(held,), start=(held.id,), at=held.at)


def _bodies(config: Unread) -> tuple[Graph, ...]:
    return config.bodies


def _never_runs(node: Any, _services: Any) -> Any:
    raise RuntimeError(f"'{node.id}' stands in for a node that could not be read, so it cannot run")


def _kind(name: str, known: NodeType | None) -> NodeType:
    return NodeType(
        name,
        Unread,
        "a node that could not be read",
        _never_runs,
        bodies=_bodies,
        loops=known is not None and known.loops,
        guard=known is not None and known.guard,
    )
