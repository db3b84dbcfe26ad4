"""The analysis of loops worked out again, step by step as the rules are written, however long that takes."""

from __future__ import annotations

from collections.abc import Sequence

from roundel.plan.edge_certainty import always_fires, always_speaks, never
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.scope import Scope, SideCandidate, Unit

Pair = tuple[tuple[int, ...], int, int]
"""The nodes of a loop, its entry, its depth."""


def pairs(graph: GraphPlan) -> list[tuple[Pair, Scope]]:
    """Every loop as it may be entered, outer ones first; several times if it is entered by several ways."""
    found = []
    pending = [(graph.root, 0)]
    for scope, depth in pending:  # grows while we walk it
        for unit in scope.units:
            for entry in entries(scope, unit) if unit.node is None else ():
                inner = scope.inner(unit, entry)
                found.append(((unit.members, entry, depth), inner))
                pending.append((inner, depth + 1))
    return found


def entries(scope: Scope, unit: Unit) -> list[int]:
    graph = scope.graph
    led = {
        edge.target
        for edge in graph.edges
        if edge.trigger
        and edge.target in unit.members
        and edge.source in scope.members
        and edge.source not in unit.members
    }
    started = {node for node in graph.start if node in unit.members and scope.entry is None}
    return sorted(led | started) or [unit.core[0]]


def gap(scope: Scope, guard: NodePlan | None, shut: Sequence[EdgePlan] = ()) -> EdgePlan | None:
    """What `plan.guards.Watch.gap` gives, by applying its rules to all nodes until nothing changes."""
    home = {node: unit.index for unit in scope.units for node in unit.members}
    watched = {guard.index} if guard is not None else set()

    def leads(edge: EdgePlan) -> bool:
        if edge.target not in scope.members:
            return True
        return edge.target in watched and home[edge.target] != home[edge.source]

    def comes_with(edge: EdgePlan, other: EdgePlan) -> bool:
        fires = other.trigger and other.process is None and not other.has_host_functions
        fires = fires and other.port in (None, edge.port)
        fires = fires and other.edge.condition in (None, edge.edge.condition)
        inside = other.target in scope.members
        folded = scope.units[home[edge.source]].node is None
        return leads(other) and fires and (inside or folded or always_speaks(scope.graph.nodes[edge.source]))

    def watches(edge: EdgePlan) -> bool:
        others = scope.graph.nodes[edge.source].edges
        return edge.source in watched or any(comes_with(edge, other) for other in others)

    inside = [
        edge
        for node in sorted(scope.members)
        for edge in scope.graph.nodes[node].edges
        if edge.trigger and edge.target in scope.members and not never(edge) and edge not in shut
    ]
    back = [edge for edge in inside if edge.target == scope.entry]
    before = -1
    while before != len(watched):
        before = len(watched)
        for index in scope.members:
            node = scope.graph.nodes[index]
            if always_speaks(node) and any(always_fires(edge) and leads(edge) for edge in node.edges):
                watched.add(index)
        for unit in scope.units:
            into = (
                edge
                for edge in inside
                if home[edge.target] == unit.index != home[edge.source] and edge.target != scope.entry
            )
            if scope.entry not in unit.members and all(watches(edge) for edge in into):
                watched.update(unit.members)
    if scope.entry in watched:
        return None
    return next((edge for edge in back if not watches(edge)), None)


def leading_back(core: frozenset[int], beside: list[SideCandidate]) -> list[SideCandidate]:
    """What `plan.sides.leading_back` gives, found again from the start whenever one is left out."""
    while True:
        reached, before = set(core), 0
        while before != len(reached):
            before = len(reached)
            reached.update(each.node for each in beside if not reached.isdisjoint(each.targets))
        kept = [each for each in beside if each.node in reached and each.targets <= reached]
        if len(kept) == len(beside):
            return kept
        beside = kept
