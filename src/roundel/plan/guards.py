"""Guards: which nodes and edges bound a loop, because no round is followed by another without them.

A guard sends a message in its Nth run at the latest (`NodeType.bound`), and an edge that such a message
always takes leads out of the loop. If no round is followed by another unless the guard has run in it,
there are at most N rounds per entry; a count from an earlier entry only makes them fewer.

This is shown by a set of *watched* nodes: whenever one of them runs, the guard runs in the same round
and does not fail, or the loop is left in it. A run of a node ends in one of several ways
(edge_certainty.py): ordinarily, by a failure that an error edge handles, by a timeout, or by an exit. A
node is watched if all of its ways are. The ordinary way of the guard is watched: a guard that fails does
not count. Then

  - a way of a node is watched if one of its edges fires whenever a run ends this way, and leads out of
    the loop or to a watched node of another unit, which then runs later in the round. An edge that
    stays inside a folded loop shows nothing, since leaving that loop clears its marks. A failure is
    handled only if some error edge fires, so it is watched as well if all of them lead there. And it is
    watched if two edges lead there of which each message takes one: with the same keywords, and `negate`
    on one of them;
  - the nodes of a unit are watched if each edge that may trigger it is watched: nothing but the entry
    runs in a round unless an edge fired in it. An edge is watched if its source or its way is, or if
    another edge of its source, which fires whenever it does, leads where the first rule requires.

No round is followed by another without the guard if the entry, which runs in each round, is watched, or
each edge back to it is. The rules speak about one round and nothing before it, so they apply to all
rounds, whatever the nodes say.

Edges can bound a loop as well, by conditions such as `round < 5` (edge_certainty.py): from some round on
they cannot fire. If no round is followed by another without them, that round is the last.

The set grows from the guard with a worklist, and each edge is counted once, so the analysis of one guard
is linear in the size of the loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from roundel.plan.edge_certainty import (
    Way,
    always_speaks,
    handling_edges,
    is_certain,
    last_round,
    negation_of,
    never,
    possible_ways,
    way_of,
)
from roundel.plan.graph import EdgePlan, NodePlan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.condition import Condition
from roundel.workflow.node_type import ERROR_PORT, Bound

MOST_TRIED = 16
"""Among at most this many counting edges, unneeded ones are left out of the message; each costs an
analysis."""


def guards(scope: Scope) -> list[tuple[NodePlan, Bound]]:
    """The guards that bound a loop, with their bounds, ordered by id: the order of the file has no
    meaning here."""
    nodes = sorted((unit.node for unit in scope.units if unit.node is not None), key=lambda node: node.id)
    bounds = [(node, bound) for node in nodes if (bound := effective_bound(node, scope)) is not None]
    ways = LoopEdges(scope) if bounds else None
    return [(node, bound) for node, bound in bounds if WatchedNodes(scope, node, ways=ways).gap() is None]


def analysis_cost(scope: Scope) -> int:
    """How often the edges of a loop are examined to find what bounds it, besides the first time.

    The budget of the survey (loops.py) is counted in this unit.
    """
    acting = sum(
        unit.node is not None and effective_bound(unit.node, scope) is not None for unit in scope.units
    )
    lasts = _last_rounds(scope)
    return acting + len(set(lasts.values())).bit_length() + min(len(lasts), MOST_TRIED)


def never_repeats(scope: Scope) -> bool:
    """Whether no round can be followed by another, even without a guard."""
    return WatchedNodes(scope, None).gap() is None


def counting_edges(scope: Scope) -> tuple[list[EdgePlan], int] | None:
    """The edges whose conditions bound a loop together, and the number of rounds that they allow."""
    lasts = _last_rounds(scope)
    if not lasts:
        return None
    ways = LoopEdges(scope)

    def shut(most: int) -> list[EdgePlan]:
        return [edge for edge, last in lasts.items() if last <= most]

    steps = sorted(set(lasts.values()))
    # Closing more edges never lets a loop continue, so the test is monotonic and a binary search finds
    # the first round from which on enough edges are closed.
    first = bisect_left(steps, True, key=lambda most: _ends_without(ways, shut(most)))
    return None if first == len(steps) else (_needed(ways, shut(steps[first])), max(1, steps[first] + 1))


def _last_rounds(scope: Scope) -> dict[EdgePlan, int]:
    """The edges that cannot fire after some round of the loop, with that round."""
    inside = sorted(inner_edges(scope), key=lambda edge: str(edge.edge))
    return {edge: last for edge in inside if (last := last_round(edge)) is not None}


def inner_edges(scope: Scope) -> list[EdgePlan]:
    """The triggering edges inside a loop whose `round` is that of this loop, not of a loop inside it."""
    nodes = (unit.node for unit in scope.units if unit.node is not None)
    edges = (edge for node in nodes for edge in node.edges if edge.trigger)
    return [edge for edge in edges if edge.target in scope.members]


def _ends_without(ways: LoopEdges, shut: list[EdgePlan]) -> bool:
    return WatchedNodes(ways.scope, None, shut, ways).gap() is None


def _needed(ways: LoopEdges, shut: list[EdgePlan]) -> list[EdgePlan]:
    """Leaves out edges that are not needed to end the loop, one after the other."""
    needed = shut
    for edge in shut if len(shut) <= MOST_TRIED else ():
        fewer = [other for other in needed if other is not edge]
        needed = fewer if _ends_without(ways, fewer) else needed
    return needed


def effective_bound(node: NodePlan, scope: Scope) -> Bound | None:
    """The bound of a node, if the message that it sends at its limit is certain to leave the loop."""
    bound: Bound | None = node.kind.bound(node.config)
    # A dynamic edge runs the guard once per part, and there may be no parts at all.
    if bound is None or node.has_dynamic_input or (bound.rounds is None and bound.seconds is None):
        return None
    ways = (edge for edge in node.edges if edge.target not in scope.members and edge.edge.condition is None)
    return bound if any(_takes_all(edge) and edge.port in (None, bound.port) for edge in ways) else None


def _takes_all(edge: EdgePlan) -> bool:
    """Whether the edge triggers its target for each message that meets its condition and port."""
    return edge.trigger and edge.process is None and not edge.has_host_functions


class LoopEdges:
    """The edges of a loop, sorted by their role; shared by the analyses of all guards of the loop."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.nodes = scope.graph.nodes
        self.home = {node: unit.index for unit in scope.units for node in unit.members}
        self.back: list[EdgePlan] = []
        self.into = [0] * len(scope.units)
        """The number of edges that may trigger each unit."""
        self.out: dict[int, dict[Condition | None, list[EdgePlan]]] = {}
        """Those edges, by source and condition."""
        self.leaving: list[EdgePlan] = []
        for node in sorted(scope.members):
            for edge in self.nodes[node].edges:
                self._sort(edge)

    def _sort(self, edge: EdgePlan) -> None:
        scope, home = self.scope, self.home
        if edge.target not in scope.members:
            self.leaving.append(edge)
        elif not edge.trigger or never(edge):
            return
        elif edge.target == scope.entry:
            self.back.append(edge)
        elif home[edge.target] != home[edge.source]:
            self.into[home[edge.target]] += 1
            self.out.setdefault(edge.source, {}).setdefault(edge.edge.condition, []).append(edge)

    def leading_to(self, target: int) -> Iterator[EdgePlan]:
        """The edges to a node from other units of the loop."""
        home = self.home
        return (
            edge for edge in self.nodes[target].into if home.get(edge.source, home[target]) != home[target]
        )


class WatchedNodes:
    """The nodes of a loop that never run without the guard; with no guard, not unless the loop is left.
    The same for single ways in which they end.

    Each node is visited once, with its edges, when it becomes watched, so a large loop costs a few
    visits per edge.
    """

    def __init__(
        self,
        scope: Scope,
        guard: NodePlan | None,
        shut: Sequence[EdgePlan] = (),
        ways: LoopEdges | None = None,
    ) -> None:
        """`shut` are edges that are assumed not to fire; `ways` saves sorting the edges again for each
        guard."""
        self.scope = scope
        self.shut = {edge.index for edge in shut}
        self.ways = ways or LoopEdges(scope)
        self.watched: set[int] = set()
        self.watched_ways: dict[int, set[Way]] = {}
        self.unhandled: dict[int, set[int]] = {}
        """For each node of which an error edge leads somewhere: its other error edges."""
        self.covers: dict[int, set[tuple[Condition | None, str | None]]] = {}
        """For each node, the conditions and ports of its edges to watched nodes or out of the loop."""
        self.done: set[int] = set()
        """The watched edges between units."""
        self.open = list(self.ways.into)
        """The number of edges into each unit that are not watched."""
        self.pending: list[int] = []
        if guard is not None:
            self._watch_way(guard, None)
        for edge in self.ways.leaving:
            self._lead(edge)
        self._count(edge for edge in shut if edge.target != scope.entry)
        for edge in shut:
            self._lead_failure(edge, self.ways.nodes[edge.source])
        for unit in scope.units:
            self._watch_unit(unit)
        self._grow()

    def gap(self) -> EdgePlan | None:
        """An edge back to the entry that may start a round without the guard; None if the guard bounds
        the loop."""
        if self.scope.entry in self.watched:
            return None
        back = (edge for edge in self.ways.back if edge.index not in self.shut)
        return next((edge for edge in back if not self._watches(edge)), None)

    def _grow(self) -> None:
        while self.pending:
            node = self.pending.pop()
            for edges in self.ways.out.get(node, {}).values():
                self._count(edges)
            for edge in self.ways.leading_to(node):
                self._lead(edge)

    def _watch(self, node: int) -> None:
        if node not in self.watched:
            self.watched.add(node)
            self.pending.append(node)

    def _watch_way(self, node: NodePlan, way: Way) -> None:
        """Watches a node that ends in this way, and the node itself if it cannot end in another."""
        known = self.watched_ways.setdefault(node.index, set())
        if way not in known:
            known.add(way)
            for edges in self.ways.out.get(node.index, {}).values():
                self._count(edge for edge in edges if way_of(edge) == way)
            if known >= possible_ways(node):
                self._watch(node.index)

    def _lead(self, edge: EdgePlan) -> None:
        """Handles an edge after which the guard runs in the same round, or the loop is left."""
        source = self.ways.nodes[edge.source]
        if is_certain(edge, source):
            self._watch_way(source, way_of(edge))
        self._lead_failure(edge, source)
        if self._covers(edge, source):
            self._cover(source.index, edge.edge.condition, edge.port)
            # Each message takes this edge, or the one with the same keywords and `negate`.
            rest = negation_of(edge.edge.condition)
            if rest is not None and (rest, edge.port) in self.covers[source.index]:
                self._cover(source.index, None, edge.port)
                if edge.explicit or (edge.port is None and always_speaks(source)):
                    self._watch_way(source, way_of(edge))

    def _cover(self, source: int, condition: Condition | None, port: str | None) -> None:
        known = self.covers.setdefault(source, set())
        if (condition, port) not in known:
            known.add((condition, port))
            self._count_covered(source, condition, port)

    def _lead_failure(self, edge: EdgePlan, source: NodePlan) -> None:
        """Handles an error edge that leads there, or that cannot fire."""
        if edge.port == ERROR_PORT and edge.explicit:
            if source.index not in self.unhandled:
                self.unhandled[source.index] = {other.index for other in handling_edges(source)}
            others = self.unhandled[source.index]
            if edge.index in others:
                others.discard(edge.index)
                if not others:
                    self._watch_way(source, ERROR_PORT)

    def _covers(self, edge: EdgePlan, source: NodePlan) -> bool:
        """Whether the edge fires whenever another edge of its source with the same condition and port
        does."""
        if not _takes_all(edge):
            return False
        # An outcome with `Outcome.stay` takes edges inside the loop and none that leaves. Only nodes
        # that may be silent return one, and only if they end ordinarily. An edge out of a folded loop
        # leaves that loop, so the outcome did not stay.
        inside = edge.target in self.scope.members
        folded = self.scope.units[self.ways.home[source.index]].node is None
        return inside or folded or edge.explicit or always_speaks(source)

    def _count_covered(self, source: int, condition: Condition | None, port: str | None) -> None:
        out = self.ways.out.get(source, {})
        for edges in out.values() if condition is None else (out.get(condition, []),):
            self._count(edge for edge in edges if port in _ports_that_cover(edge))

    def _count(self, edges: Iterable[EdgePlan]) -> None:
        """Records edges between units that are watched or cannot fire."""
        for edge in edges:
            if edge.index not in self.done:
                self.done.add(edge.index)
                unit = self.ways.home[edge.target]
                self.open[unit] -= 1
                self._watch_unit(self.scope.units[unit])

    def _watch_unit(self, unit: Unit) -> None:
        """Watches the nodes of a unit if only watched edges trigger it."""
        if not self.open[unit.index] and self.scope.entry not in unit.members:
            for node in unit.members:
                self._watch(node)

    def _watches(self, edge: EdgePlan) -> bool:
        """Whether an edge back to the entry is watched: by its source, or by an edge that fires with
        it."""
        if edge.source in self.watched or way_of(edge) in self.watched_ways.get(edge.source, ()):
            return True
        covers, condition = self.covers.get(edge.source, ()), edge.edge.condition
        return any((one, port) in covers for one in {condition, None} for port in _ports_that_cover(edge))


def _ports_that_cover(edge: EdgePlan) -> set[str | None]:
    """The ports of edges that take each message which this edge takes."""
    return {edge.port} if edge.explicit else {edge.port, None}
