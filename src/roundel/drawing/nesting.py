"""What a drawing shows, and how it nests: a graph holds nodes and loops, a loop holds nodes and loops.

How a loop nests depends on where it is entered (plan/scope.py); a drawing takes the likeliest entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.scope import Scope, Unit


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A node, or a loop."""

    layer: int
    members: tuple[int, ...]
    node: NodePlan | None
    """None for a loop."""
    inner: Group | None = None
    """The loop."""
    bodies: tuple[Group, ...] = ()
    """The graphs that the node runs inside itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A whole graph, or a loop: what stands in one frame."""

    scope: Scope
    parts: tuple[Part, ...]
    """By layer, then in the order of the file."""
    bare: bool = False
    """One of several bodies, and just a node: that it starts there and ends there goes without saying."""

    @property
    def graph(self) -> GraphPlan:
        return self.scope.graph

    @property
    def entry(self) -> NodePlan | None:
        """None for a whole graph."""
        return None if self.scope.entry is None else self.graph.nodes[self.scope.entry]

    @property
    def members(self) -> list[NodePlan]:
        return [self.graph.nodes[index] for index in sorted(self.scope.members)]

    def starts(self, node: NodePlan) -> bool:
        return node.index in self.graph.start and not self.bare

    def ends(self, node: NodePlan) -> bool:
        return node.index in self.graph.ends and not self.bare

    def graphs(self) -> Iterator[Group]:
        """This graph, then those inside its nodes."""
        yield self
        for part in chain.from_iterable(group.parts for group in (self, *self.loops())):
            for body in part.bodies:
                yield from body.graphs()

    def loops(self) -> Iterator[Group]:
        """The free loops of this graph, outer ones first."""
        for part in self.parts:
            if part.node is None and part.inner is not None:
                yield part.inner
                yield from part.inner.loops()


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """An edge, as it lies to the loops."""

    edge: EdgePlan
    back: bool
    """It leads to the entry of a loop that it stays in: the way to the next round."""
    leaves: bool
    """It leaves a loop."""


def nest(graph: GraphPlan) -> Group:
    return _group(graph.root)


def wires(group: Group) -> list[Wire]:
    """The edges of a graph, in the order of the file."""
    homes = {node: path[-1].scope for node, path in paths(group).items()}
    return [_wire(edge, homes[edge.source]) for edge in group.graph.edges]


def paths(group: Group) -> dict[int, list[Group]]:
    """For each node the groups that it stands in, from the graph inwards."""
    found: dict[int, list[Group]] = {}
    for part in group.parts:
        if part.node is not None:
            found[part.node.index] = [group]
        elif part.inner is not None:
            found.update((node, [group, *path]) for node, path in paths(part.inner).items())
    return found


def _group(scope: Scope) -> Group:
    return Group(scope, tuple(_part(scope, unit) for unit in scope.units))


def _part(scope: Scope, unit: Unit) -> Part:
    if unit.node is None:
        inner = _group(scope.inner(unit, _entry(scope.graph, unit)))
        return Part(unit.layer, unit.members, None, inner)
    bodies = unit.node.bodies
    inside = tuple(_body(body, len(bodies) > 1) for body in bodies)
    return Part(unit.layer, unit.members, unit.node, bodies=inside)


def _body(graph: GraphPlan, among_others: bool) -> Group:
    group = nest(graph)
    just_a_node = len(graph.nodes) == 1 and not graph.edges and not graph.graph.is_majority_voting
    return replace(group, bare=True) if among_others and just_a_node else group


def _entry(graph: GraphPlan, loop: Unit) -> int:
    inside = frozenset(loop.members)
    starts = (node for node in graph.start if node in inside)
    entered = (
        edge.target
        for edge in graph.edges
        if edge.trigger and edge.target in inside and edge.source not in inside
    )
    return next(chain(starts, entered, loop.core))


def _wire(edge: EdgePlan, home: Scope) -> Wire:
    leaves = home.loops_left(edge.target)
    scope = home
    for _ in range(leaves):
        assert scope.parent is not None
        scope = scope.parent
    return Wire(edge, scope.entry == edge.target, leaves > 0)
