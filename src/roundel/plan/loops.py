"""The loops of a graph as they may be entered, found without running it.

How a loop nests depends on where it is entered, so n nodes can have far more than n (loop, entry) pairs: if
every node leads to every other, more than n factorial. Therefore a survey has a budget, which is shared by
all graphs of a workflow. It goes from the outermost loops inwards, in an order that depends on nothing but
the workflow, and a pair whose analysis no longer fits is recorded as *unseen*. Nothing is claimed about an
unseen pair, nor about the loops inside it, but that its cap ends it; `check` reports it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.guards import analysis_cost
from roundel.plan.scope import Scope, Unit

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
