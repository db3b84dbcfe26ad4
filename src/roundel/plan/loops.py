"""The loops of a graph as they may be entered, found without running it; and loops with two possible
entries.

Survey
------
The nesting of a loop depends on where it is entered, so n nodes can have far more than n (loop, entry)
pairs: if every node leads to every other, more than n factorial. Therefore a survey has a budget, which
all graphs of a workflow share. It proceeds from the outermost loops inwards, in an order that depends
only on the workflow, and a pair whose analysis no longer fits is recorded as *unanalysed*. Nothing is
claimed about such a pair, nor about the loops inside it, except that its cap ends it; `check` reports
it. A budget in seconds would give different results on different machines.

Clashes
-------
A loop that is entered at two nodes at once fails the run: it is not clear where a round begins. A loop
inside a scope is entered at the nodes that edges have triggered by the time that it is ready, so two
edges to different nodes of it must not both fire in one round of the scope. It is certain that they
cannot if

  - they start at the same node and exclude each other: different ports, or an explicit port (`error`)
    and none; or keyword conditions of which one asks for a word that the other forbids, if the node
    sends no more than one message per run;
  - they start in the same loop and leave it from different layers, since only one layer leaves a loop;
  - one of them excludes each edge that may trigger the source of the other, or that is certain in turn.

Everything else is assumed to be possible, so no run fails in this way without a warning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import combinations

from msgspec import Struct

from roundel.plan.edge_certainty import are_exclusive, never
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.guards import analysis_cost
from roundel.plan.scope import Scope, Unit

BUDGET = 600_000
"""The budget of the survey of a workflow, in visits of a node or an edge for one guard."""
SMALLEST = 20
"""The fixed cost of a loop, as a number of nodes and edges."""
COMPILING = 5
"""The cost of compiling a loop and examining its rounds, relative to the analysis of one guard."""


class EnteredLoop(Struct, frozen=True, eq=False):
    """A loop as it is entered at one of its nodes. The survey creates it."""

    scope: Scope
    entry: NodePlan
    nodes: tuple[NodePlan, ...]
    depth: int
    """The number of loops of this graph around it."""

    @property
    def id(self) -> str:
        return self.entry.id

    def edges(self) -> Iterator[EdgePlan]:
        """The triggering edges that start in it."""
        return (edge for node in self.nodes for edge in node.edges if edge.trigger)

    def leaving(self) -> list[EdgePlan]:
        """The triggering edges that leave it."""
        memo = self.scope.memo  # needed for each guard of the loop
        if "leaving" not in memo:
            memo["leaving"] = [edge for edge in self.edges() if edge.target not in self.scope.members]
        found: list[EdgePlan] = memo["leaving"]
        return found


class UnanalysedLoop(Struct, frozen=True, eq=False):
    """A loop whose analysis for this entry did not fit into the budget."""

    scope: Scope
    """The scope that contains it, which was analysed."""
    unit: Unit
    entry: NodePlan
    depth: int


class Survey(Struct, eq=False):
    """The loops of one graph."""

    found: list[EnteredLoop] = []
    """The analysed loops, outer ones before those inside them."""
    unanalysed: list[UnanalysedLoop] = []
    _opaque: frozenset[int] | None = None
    _around: dict[int, list[EnteredLoop]] | None = None

    @property
    def opaque(self) -> frozenset[int]:
        """The nodes inside an unanalysed loop: not all loops around them are known."""
        if self._opaque is None:
            units = {id(unanalysed.unit): unanalysed.unit for unanalysed in self.unanalysed}
            self._opaque = frozenset(node for unit in units.values() for node in unit.members)
        return self._opaque

    def around(self, node: NodePlan) -> list[EnteredLoop]:
        """The analysed loops that contain the node directly, not in a loop inside."""
        if self._around is None:
            self._around = {}
            for loop in self.found:
                for unit in loop.scope.units:
                    if unit.node is not None:
                        self._around.setdefault(unit.node.index, []).append(loop)
        return self._around.get(node.index, [])


def loops(graph: GraphPlan) -> list[EnteredLoop]:
    """The loops of a graph, once for each node at which they may be entered, outer ones first."""
    return survey(graph).found


def survey(graph: GraphPlan) -> Survey:
    """The survey of a graph. The first call surveys all graphs of its workflow, since they share a
    budget."""
    if graph._survey is None:
        for member, found in survey_graphs(graph.family):
            member._survey = found
    known: Survey = graph._survey
    return known


def survey_graphs(graphs: list[GraphPlan], limit: int = BUDGET) -> list[tuple[GraphPlan, Survey]]:
    """Surveys the graphs with one common budget.

    Breadth first, so that the budget is spent on outer loops of all graphs before inner ones of any.
    """
    surveys = [(graph, Survey()) for graph in reversed(graphs)]  # outer graphs were compiled last
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
    """Counts down. A cost that does not fit is refused, and smaller ones may still fit afterwards."""

    def __init__(self, left: int) -> None:
        self.left = left

    def try_spend(self, cost: int) -> bool:
        fits = cost <= self.left
        self.left -= cost if fits else 0
        return fits


def _entered(
    scope: Scope, unit: Unit, depth: int, budget: AnalysisBudget
) -> Iterator[EnteredLoop | UnanalysedLoop]:
    """A folded loop once for each node at which it may be entered, analysed or not.

    Paid in two parts: compiling it first, since only then the number of its guards is known.
    """
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
    """The nodes at which a folded loop may be entered; its first node if nothing leads to it."""
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


MOST_PAIRS = 20_000
"""The number of pairs of edges of a graph that are examined; all others are assumed to fire together."""

Pair = tuple[int, int]
"""Two edges, by index."""


class WayIn(Struct, frozen=True, eq=False):
    """A way into a loop: an edge, or None for a node of `start`."""

    target: int
    edge: EdgePlan | None


class Clash(Struct, frozen=True, eq=False):
    """Two ways into a loop at different nodes that may be taken in the same round."""

    unit: Unit
    ways: tuple[WayIn, WayIn]


def clashes(
    graph: GraphPlan, found: list[EnteredLoop], single: Callable[[NodePlan], bool]
) -> Iterator[Clash]:
    """One clash for each loop that may be entered at two nodes at once, however it nests.

    `found` are the loops of the graph; `single` tells whether a node sends at most one message per run.
    """
    finder = _ClashFinder(single)
    reached = {graph.root}
    known: set[tuple[int, ...]] = set()
    yield from _in_scope(finder.round_of(graph.root), known)
    for loop in found:  # outer loops first, so that `reached` contains the parents
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
    """The state of one search: the analysed scopes, and the number of pairs examined."""

    def __init__(self, single: Callable[[NodePlan], bool]) -> None:
        self.single = single
        self.pairs = 0
        self._rounds: dict[Scope, _ScopeRound] = {}

    def round_of(self, scope: Scope) -> _ScopeRound:
        if scope not in self._rounds:
            self._rounds[scope] = _ScopeRound(scope, self)
        return self._rounds[scope]


class _ScopeRound:
    """What may happen in one round of a scope; the whole graph has just one round."""

    def __init__(self, scope: Scope, finder: _ClashFinder) -> None:
        self.scope = scope
        self.finder = finder
        self.home = {node: unit for unit in scope.units for node in unit.members}
        self.into: dict[int, list[EdgePlan]] = {unit.index: [] for unit in scope.units}
        self.active: set[int] = set()
        """Units that may run."""
        self._apart: set[Pair] = set()
        """Pairs of edges that are known to exclude each other."""
        for unit in scope.units:  # in the order of layers, so the sources of a unit come before it
            if self._begins(unit) or self.into[unit.index]:
                self.active.add(unit.index)
                self._follow(unit)

    def _begins(self, unit: Unit) -> bool:
        """Whether the unit runs in each round, without an edge to trigger it."""
        if self.scope.entry is not None:
            return self.scope.entry in unit.members
        return any(self.scope.graph.nodes[node].is_start for node in unit.members)

    def _follow(self, unit: Unit) -> None:
        for edge, _ in unit.out:
            inside = edge.target in self.scope.members and edge.target != self.scope.entry
            if inside and edge.trigger and not never(edge) and self.home[edge.target] is not unit:
                self.into[self.home[edge.target].index].append(edge)

    def enters(self, node: int) -> bool:
        """Whether some way leads into a loop at this node."""
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
        """Whether two edges may both fire: searched backwards, through the edges that must have fired
        before.

        A worklist instead of recursion, since the graph may be deep. If no pair is possible, all pairs
        seen are impossible and are remembered for the next search.
        """
        pending, seen = [(one, other)], set[Pair]()
        for first, second in pending:  # grows during the iteration
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
        """Whether both may fire, if their sources alone decide it; None if what happened before
        matters."""
        if one.source == other.source:
            return not self._exclude(one, other)
        here, there = self.home[one.source], self.home[other.source]
        if here is there:
            inner = (self.scope.known_inner(here, entry) for entry in entries(self.scope, here))
            # An unknown scope was not analysed because of the budget; everything is possible there.
            return any(
                loop is None or self.finder.round_of(loop)._leave_together(one, other) for loop in inner
            )
        return True if self._begins(here) and self._begins(there) else None

    def _leave_together(self, one: EdgePlan, other: EdgePlan) -> bool:
        """Whether two edges may leave this loop together: only one layer leaves a loop."""
        here, there = self.home[one.source], self.home[other.source]
        return here.layer == there.layer and self._fire_together(one, other)

    def _before(self, one: EdgePlan, other: EdgePlan) -> list[tuple[EdgePlan, EdgePlan]]:
        """The pairs of which one must have fired before: a trigger of the later source, with the other
        edge."""
        here, there = self.home[one.source], self.home[other.source]
        if self._begins(there) or (here.layer > there.layer and not self._begins(here)):
            return [(before, other) for before in self.into[here.index]]
        return [(one, before) for before in self.into[there.index]]

    def _exclude(self, one: EdgePlan, other: EdgePlan) -> bool:
        """Whether two edges of a node cannot both fire in one run of it."""
        source = self.scope.graph.nodes[one.source]
        if source.has_dynamic_input:  # each part has an outcome of its own
            return False
        if one.port != other.port and (None not in (one.port, other.port) or one.explicit or other.explicit):
            return True
        return self.finder.single(source) and are_exclusive(one.edge.condition, other.edge.condition)
