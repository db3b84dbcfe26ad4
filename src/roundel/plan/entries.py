"""Loops that may be entered at two nodes at once, which fails a run.

A loop inside a scope is entered where edges have triggered it by the time that it comes up: at one of its
nodes, or at more. So two edges that lead to different nodes of it must not both fire in one round of the
scope. That they cannot is certain if

  - they start at the same node, and exclude each other: different ports; or keyword conditions one of which
    asks for a word that the other forbids, if the node gives no more than one message a run;
  - they start in the same loop, and leave it from different layers, since a loop is left by one layer alone;
  - one of them excludes each edge that may trigger the source of the other, or that is certain in turn.

Everything else is taken to be possible, so no run fails in this way without a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import msgspec
from msgspec import Struct

from roundel.plan.edge_certainty import never
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.loops import EnteredLoop, entries
from roundel.plan.scope import Scope, Unit
from roundel.workflow.condition import Condition, Keyword

MOST_PAIRS = 20_000
"""So many pairs of edges of a graph are looked at; all others are taken to fire together."""

Pair = tuple[int, int]
"""Two edges, by their numbers."""


class WayIn(Struct, frozen=True, eq=False):
    """A way into a loop: an edge, or for a node of `start` none."""

    target: int
    edge: EdgePlan | None


class Clash(Struct, frozen=True, eq=False):
    """Two ways into a loop that may be taken at once."""

    unit: Unit
    ways: tuple[WayIn, WayIn]


def clashes(
    graph: GraphPlan, found: list[EnteredLoop], single: Callable[[NodePlan], bool]
) -> Iterator[Clash]:
    """One for each loop that may be entered at two nodes at once, however it nests.

    `found` are the loops of the graph; `single` says of a node that it gives at most one message a run."""
    finder = _ClashFinder(single)
    reached = {graph.root}
    known: set[tuple[int, ...]] = set()
    yield from _in_scope(finder.round_of(graph.root), known)
    for loop in found:  # outer ones first
        parent = loop.scope.parent
        if parent is not None and parent in reached and finder.round_of(parent).enters(loop.entry.index):
            reached.add(loop.scope)
            yield from _in_scope(finder.round_of(loop.scope), known)


def _in_scope(round_: _ScopeRound, known: set[tuple[int, ...]]) -> Iterator[Clash]:
    for unit in round_.scope.units:
        if unit.node is None and unit.members not in known:
            clash = round_.clash(unit)
            if clash is not None:
                known.add(unit.members)
                yield clash


class _ClashFinder:
    """What is known of each scope, and how much has been looked at."""

    def __init__(self, single: Callable[[NodePlan], bool]) -> None:
        self.single = single
        self.pairs = 0
        self._rounds: dict[Scope, _ScopeRound] = {}

    def round_of(self, scope: Scope) -> _ScopeRound:
        if scope not in self._rounds:
            self._rounds[scope] = _ScopeRound(scope, self)
        return self._rounds[scope]


class _ScopeRound:
    """What may happen in one round of a scope: of a loop, or of the whole graph, which has just one."""

    def __init__(self, scope: Scope, finder: _ClashFinder) -> None:
        self.scope = scope
        self.finder = finder
        self.home = {node: unit for unit in scope.units for node in unit.members}
        self.into: dict[int, list[EdgePlan]] = {unit.index: [] for unit in scope.units}
        self.active: set[int] = set()
        """The units that may run."""
        self._apart: set[Pair] = set()
        """Pairs of edges that are known not to fire together."""
        for unit in scope.units:  # in the order of their layers, so what leads to one comes before it
            if self._begins(unit) or self.into[unit.index]:
                self.active.add(unit.index)
                self._follow(unit)

    def _begins(self, unit: Unit) -> bool:
        """Whether it runs in each round, whatever leads to it."""
        if self.scope.entry is not None:
            return self.scope.entry in unit.members
        return any(node in self.scope.graph.start for node in unit.members)

    def _follow(self, unit: Unit) -> None:
        for edge, _ in unit.out:
            inside = edge.target in self.scope.members and edge.target != self.scope.entry
            if inside and edge.trigger and not never(edge) and self.home[edge.target] is not unit:
                self.into[self.home[edge.target].index].append(edge)

    def enters(self, node: int) -> bool:
        return any(way.target == node for way in self.ways(self.home[node]))

    def ways(self, unit: Unit) -> list[WayIn]:
        starts = self.scope.graph.start if self.scope.entry is None else ()
        found = [WayIn(node, None) for node in starts if node in unit.core]
        return found + [WayIn(edge.target, edge) for edge in self.into[unit.index]]

    def clash(self, unit: Unit) -> Clash | None:
        ways = self.ways(unit)
        if len({way.target for way in ways}) < 2:
            return None
        for one, other in combinations(ways, 2):
            if one.target != other.target and self._taken_together(one, other):
                return Clash(unit, (one, other))
        return None

    def _taken_together(self, one: WayIn, other: WayIn) -> bool:
        return one.edge is None or other.edge is None or self._fire_together(one.edge, other.edge)

    def _fire_together(self, one: EdgePlan, other: EdgePlan) -> bool:
        """Whether two edges may both fire: looked for backwards, by the edges that must have fired before."""
        pending, seen = [(one, other)], set[Pair]()
        for first, second in pending:  # grows while we walk it
            self.finder.pairs += 1
            possible = self.finder.pairs > MOST_PAIRS or self._at_one_place(first, second)
            if possible:
                return True
            for pair in self._before(first, second) if possible is None else ():
                key = (pair[0].index, pair[1].index)
                if key not in seen and key not in self._apart:
                    seen.add(key)
                    pending.append(pair)
        self._apart |= seen
        return False

    def _at_one_place(self, one: EdgePlan, other: EdgePlan) -> bool | None:
        """Whether they may both fire, if that is seen where they start; None if it is not."""
        if one.source == other.source:
            return not self._exclude(one, other)
        here, there = self.home[one.source], self.home[other.source]
        if here is there:
            inner = (self.scope.known_inner(here, entry) for entry in entries(self.scope, here))
            # One that is unknown has not been analysed, since there are too many loops.
            return any(
                loop is None or self.finder.round_of(loop)._leave_together(one, other) for loop in inner
            )
        return True if self._begins(here) and self._begins(there) else None

    def _leave_together(self, one: EdgePlan, other: EdgePlan) -> bool:
        here, there = self.home[one.source], self.home[other.source]
        return here.layer == there.layer and self._fire_together(one, other)

    def _before(self, one: EdgePlan, other: EdgePlan) -> list[tuple[EdgePlan, EdgePlan]]:
        """The pairs of which one must have fired: what led to the source that comes later, and the other."""
        here, there = self.home[one.source], self.home[other.source]
        if self._begins(there) or (here.layer > there.layer and not self._begins(here)):
            return [(before, other) for before in self.into[here.index]]
        return [(one, before) for before in self.into[there.index]]

    def _exclude(self, one: EdgePlan, other: EdgePlan) -> bool:
        """Whether two edges of a node cannot both fire in one run of it."""
        source = self.scope.graph.nodes[one.source]
        if source.has_dynamic_input:  # each part has an outcome of its own
            return False
        if one.port is not None and other.port is not None and one.port != other.port:
            return True
        return self.finder.single(source) and are_exclusive(one.edge.condition, other.edge.condition)


def are_exclusive(one: Condition | None, other: Condition | None) -> bool:
    """Whether two conditions cannot both hold of a message: what one asks for, the other forbids."""
    return _forbids(one, other) or _forbids(other, one)


def _forbids(one: Condition | None, other: Condition | None) -> bool:
    first = None if one is None else one.keyword
    second = None if other is None else other.keyword
    if first is None or second is None or _way_of_matching(first) != _way_of_matching(second):
        return False
    # Without `any` or `regex` it asks for nothing; what a pattern finds may be anything.
    return bool(first.any) and not first.regex and set(first.any) <= set(second.none)


def _way_of_matching(keyword: Keyword) -> Keyword:
    """Its settings without its words: a word may be found in one way and not in another."""
    return msgspec.structs.replace(keyword, any=(), none=(), regex=())
