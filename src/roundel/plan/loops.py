"""The loops of a graph as they may be entered, found without running it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.scope import Scope, Unit

MOST = 2000
"""How many (loop, entry) pairs of one graph are looked at; a tangle can have very many."""


class Loop(Struct, frozen=True, eq=False):
    scope: Scope
    entry: NodePlan
    nodes: tuple[NodePlan, ...]
    depth: int
    """0 for a loop that stands in no other."""

    @property
    def id(self) -> str:
        return self.entry.id

    def edges(self) -> Iterator[EdgePlan]:
        """The triggering edges that start in it."""
        return (edge for node in self.nodes for edge in node.edges if edge.trigger)

    def leaving(self) -> list[EdgePlan]:
        return [edge for edge in self.edges() if edge.target not in self.scope.members]


def loops(graph: GraphPlan) -> list[Loop]:
    """Each loop once for each node at which it may be entered, outer ones before those inside them."""
    found: list[Loop] = []
    pending = [(graph.root, 0)]
    while pending and len(found) < MOST:
        scope, depth = pending.pop(0)
        for unit in scope.units:
            if unit.node is not None:
                continue
            for entry in entries(scope, unit):
                inner = scope.inner(unit, entry)
                nodes = tuple(graph.nodes[member] for member in unit.members)
                found.append(Loop(inner, graph.nodes[entry], nodes, depth))
                pending.append((inner, depth + 1))
    return found


def entries(scope: Scope, unit: Unit) -> list[int]:
    """The nodes of a folded loop at which it may be entered; its first node if nothing leads to it."""
    graph, members = scope.graph, set(unit.members)
    outside = scope.members - members
    found = {member for member in members if member in graph.start and scope.entry is None}
    for node in outside:
        found.update(
            edge.target for edge in graph.nodes[node].edges if edge.trigger and edge.target in members
        )
    return sorted(found) or [unit.core[0]]
