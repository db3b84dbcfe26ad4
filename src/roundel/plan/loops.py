"""Loops that may be entered at two nodes at once, which fails a run.

A loop inside a scope is entered where edges have triggered it by the time that it comes up: at one of its
nodes, or at more. So two edges that lead to different nodes of it must not both fire in one round of the
scope. That they cannot is certain if

  - they start at the same node, and exclude each other: different ports; or keyword conditions one of which
    asks for a word that the other forbids, if the node gives no more than one message a run;
  - they start in the same loop, and leave it from different layers, since a loop is left by one layer alone;
  - one of them excludes each edge that may trigger the source of the other, or that is certain in turn.

Everything else is taken to be possible, so no run fails in this way without a warning.

The loops of a graph as they may be entered, found without running it.

How a loop nests depends on where it is entered, so n nodes can have far more than n (loop, entry) pairs: if
every node leads to every other, more than n factorial. Therefore a survey has a budget, which is shared by
all graphs of a workflow. It goes from the outermost loops inwards, in an order that depends on nothing but
the workflow, and a pair whose analysis no longer fits is recorded as *unseen*. Nothing is claimed about an
unseen pair, nor about the loops inside it, but that its cap ends it; `check` reports it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import combinations

import msgspec
from msgspec import Struct

from roundel.plan.edge_certainty import never
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.guards import analysis_cost
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


BUDGET = 600_000
"""What the survey of a workflow may cost: so many times a node or an edge is looked at for a guard."""
SMALLEST = 20
"""The smallest loop costs as much as one of so many nodes and edges would if size were all that counts."""
COMPILING = 5
"""It costs about so much more to compile a loop, and to look at its rounds, than to look at one guard."""


class EnteredLoop(Struct, frozen=True, eq=False):
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
        memo = self.scope.memo  # asked for each guard of the loop
        if "leaving" not in memo:
            memo["leaving"] = [edge for edge in self.edges() if edge.target not in self.scope.members]
        found: list[EdgePlan] = memo["leaving"]
        return found


class UnanalysedLoop(Struct, frozen=True, eq=False):
    """A loop that was not analysed as it is entered at `entry`."""

    scope: Scope
    """The scope that it stands in, which was analysed."""
    unit: Unit
    entry: NodePlan
    depth: int


class Survey(Struct, eq=False):
    found: list[EnteredLoop] = []
    """The loops that were analysed, outer ones before those inside them."""
    unanalysed: list[UnanalysedLoop] = []
    _opaque: frozenset[int] | None = None
    _around: dict[int, list[EnteredLoop]] | None = None

    @property
    def opaque(self) -> frozenset[int]:
        """The nodes that stand in an unseen loop: not all loops around them are known."""
        if self._opaque is None:
            units = {id(unanalysed.unit): unanalysed.unit for unanalysed in self.unanalysed}
            self._opaque = frozenset(node for unit in units.values() for node in unit.members)
        return self._opaque

    def around(self, node: NodePlan) -> list[EnteredLoop]:
        """The loops that were analysed and of which it is a node, but not one of a loop inside."""
        if self._around is None:
            self._around = {}
            for loop in self.found:
                for unit in loop.scope.units:
                    if unit.node is not None:
                        self._around.setdefault(unit.node.index, []).append(loop)
        return self._around.get(node.index, [])


def loops(graph: GraphPlan) -> list[EnteredLoop]:
    """Each loop once for each node at which it may be entered, outer ones before those inside them."""
    return survey(graph).found


def survey(graph: GraphPlan) -> Survey:
    if graph._survey is None:
        for member, found in survey_graphs(graph.family):
            member._survey = found
    known: Survey = graph._survey
    return known


def survey_graphs(graphs: list[GraphPlan], limit: int = BUDGET) -> list[tuple[GraphPlan, Survey]]:
    """A survey of each of the graphs, all from one budget."""
    surveys = [(graph, Survey()) for graph in reversed(graphs)]  # those inside a node were compiled before it
    pending = deque((graph.root, 0, found) for graph, found in surveys)
    budget = AnalysisBudget(limit)
    while pending:
        scope, depth, found = pending.popleft()
        for unit in scope.units:
            for loop in _entered(scope, unit, depth, budget) if unit.node is None else ():
                if isinstance(loop, UnanalysedLoop):
                    found.unanalysed.append(loop)
                else:
                    found.found.append(loop)
                    pending.append((loop.scope, depth + 1, found))
    return surveys


class AnalysisBudget:
    """Counts down. What does not fit is refused, so that smaller things may still fit."""

    def __init__(self, left: int) -> None:
        self.left = left

    def try_spend(self, cost: int) -> bool:
        fits = cost <= self.left
        self.left -= cost if fits else 0
        return fits


def _entered(
    scope: Scope, unit: Unit, depth: int, budget: AnalysisBudget
) -> Iterator[EnteredLoop | UnanalysedLoop]:
    """A folded loop once for each node at which it may be entered.

    Its nodes and edges are looked at when it is compiled, and again for each guard that it has then."""
    nodes = tuple(scope.graph.nodes[member] for member in unit.members)
    size = SMALLEST + sum(1 + len(node.edges) for node in nodes)
    for entry in entries(scope, unit):
        node = scope.graph.nodes[entry]
        if budget.try_spend(COMPILING * size):
            inner = scope.inner(unit, entry)
            if budget.try_spend(size * analysis_cost(inner)):
                yield EnteredLoop(inner, node, nodes, depth)
                continue
        yield UnanalysedLoop(scope, unit, node, depth)


def entries(scope: Scope, unit: Unit) -> list[int]:
    """The nodes of a folded loop at which it may be entered; its first node if nothing leads to it."""
    nodes, members = scope.graph.nodes, frozenset(unit.members)
    found = {
        edge.target
        for member in unit.members
        for edge in nodes[member].into
        if edge.trigger and edge.source in scope.members and edge.source not in members
    }
    if scope.entry is None:
        found.update(members.intersection(scope.graph.start))
    return sorted(found) or [unit.core[0]]
