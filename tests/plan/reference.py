"""The analysis of loops worked out again, step by step as the rules are written, however long that takes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import to_builtins

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
    """What `plan.guards.WatchedNodes.gap` gives, by applying its rules to all nodes until nothing changes."""
    home = {node: unit.index for unit in scope.units for node in unit.members}
    watched: set[int] = set()

    def may_fire(edge: EdgePlan) -> bool:
        return edge.trigger and not never(edge) and edge not in shut

    def way(edge: EdgePlan) -> str | None:
        return edge.port if edge.explicit else None

    def ways(node: NodePlan) -> set[str | None]:
        failures = {
            edge.port for edge in node.edges if edge.port == "error" and edge.trigger and not never(edge)
        }
        others = {edge.port for edge in node.edges if edge.explicit and edge.port != "error"}
        return {None, *failures, *others}

    def leads(edge: EdgePlan) -> bool:
        if edge.target not in scope.members:
            return True
        return edge.target in watched and home[edge.target] != home[edge.source]

    def way_is_watched(node: NodePlan, how: str | None) -> bool:
        edges = [edge for edge in node.edges if way(edge) == how]
        if how is None:
            sure = any(always_fires(edge) and leads(edge) for edge in edges) or splits(node, None)
            return (sure and always_speaks(node)) or node is guard
        # Nothing that fires has a condition, or all that may fire lead on, of which one must.
        plain = [edge for edge in edges if edge.trigger and edge.test is None and edge.process is None]
        if any(leads(edge) and not edge.has_host_functions for edge in plain) or splits(node, how):
            return True
        open_ = [edge for edge in edges if may_fire(edge)]
        return how == "error" and all(leads(edge) for edge in open_)

    def is_rest(one: EdgePlan, other: EdgePlan) -> bool:
        """Whether two edges have the same keywords, and one of them `negate`."""
        first, second = one.edge.condition, other.edge.condition
        if first is None or second is None or first.keyword is None or second.keyword is None:
            return False
        keyword, rest = to_builtins(first.keyword), to_builtins(second.keyword)
        return bool(keyword.pop("negate", False) != rest.pop("negate", False) and keyword == rest)

    def splits(node: NodePlan, port: str | None) -> bool:
        """Whether each message of the port takes one of two edges that lead on."""
        open_ = [
            edge
            for edge in node.edges
            if edge.port == port
            and leads(edge)
            and edge.trigger
            and edge.process is None
            and (edge.target in scope.members or folded(edge) or edge.explicit or always_speaks(node))
        ]
        return any(is_rest(one, other) for one in open_ for other in open_)

    def folded(edge: EdgePlan) -> bool:
        return scope.units[home[edge.source]].node is None

    def comes_with(edge: EdgePlan, other: EdgePlan) -> bool:
        fires = other.trigger and other.process is None and not other.has_host_functions
        fires = fires and (other.port == edge.port or (other.port is None and not edge.explicit))
        fires = fires and other.edge.condition in (None, edge.edge.condition)
        inside = other.target in scope.members
        goes = edge.explicit or always_speaks(scope.graph.nodes[edge.source])
        return leads(other) and fires and (inside or folded(edge) or goes)

    def watches(edge: EdgePlan) -> bool:
        source = scope.graph.nodes[edge.source]
        if edge.source in watched or way_is_watched(source, way(edge)):
            return True
        ports = {edge.port} if edge.explicit else {edge.port, None}
        return any(comes_with(edge, other) for other in source.edges) or any(
            splits(source, port) for port in ports
        )

    inside = [
        edge
        for node in sorted(scope.members)
        for edge in scope.graph.nodes[node].edges
        if edge.target in scope.members and may_fire(edge)
    ]
    back = [edge for edge in inside if edge.target == scope.entry]
    before = -1
    while before != len(watched):
        before = len(watched)
        for index in scope.members:
            node = scope.graph.nodes[index]
            if all(way_is_watched(node, how) for how in ways(node)):
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
