"""Which guards bound a loop: those without which no round is followed by another.

A guard gives a message by its Nth run at the latest (`NodeType.bound`), and an edge that such a message
always takes leads out of the loop. If no round goes on without the guard having run in it, there are at
most N rounds each time that the loop is entered; a count from an earlier entry only makes them fewer.

That no round goes on without it is shown by a set of *watched* nodes: whenever one of them runs, the
guard runs in the same round, or the loop is left in it. The guard is watched; then

  - a node that always speaks is watched if one of its edges fires whatever it says, and leads out of the
    loop or to a watched node of another unit, which then runs later in the round. An edge that stays inside
    a folded loop shows nothing, since leaving that loop clears its marks;
  - the nodes of a unit are watched if each edge that may trigger it is: nothing but the entry runs in a
    round unless an edge fired in it. An edge is watched if its source is, or if another edge of its source,
    one that fires whenever it does, leads where the first rule says.

No round goes on without the guard if the entry, which runs in each, is watched, or each edge back to it is.
The rules speak of one round and nothing before it, so they hold for all rounds, whatever the nodes say.

Edges may bound a loop as well, by conditions such as `round < 5` (plan/rounds.py): from some round on they
cannot fire. If without them no round is followed by another, that round is the last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from roundel.plan.firing import always_speaks, never, sure
from roundel.plan.graph import EdgePlan, NodePlan
from roundel.plan.rounds import last_round
from roundel.plan.scope import Scope, Unit
from roundel.workflow.node_type import Bound

MOST_TRIED = 16
"""Of so many edges at most it is found out which of them are needed; of more, all are named."""


def guards(scope: Scope) -> list[tuple[NodePlan, Bound]]:
    """The guards that bound a loop, and how."""
    nodes = [unit.node for unit in scope.units if unit.node is not None]
    bounds = [(node, bound) for node in nodes if (bound := acts(node, scope)) is not None]
    return [(node, bound) for node, bound in bounds if Watch(scope, node).gap() is None]


def ends_at_once(scope: Scope) -> bool:
    """Whether no round is followed by another, guard or not."""
    return Watch(scope, None).gap() is None


def counting_edges(scope: Scope) -> tuple[list[EdgePlan], int] | None:
    """The edges whose conditions bound a loop together, and how many rounds they allow."""
    lasts = {edge: last for edge in _inner_edges(scope) if (last := last_round(edge)) is not None}

    def shut(most: int) -> list[EdgePlan]:
        return [edge for edge, last in lasts.items() if last <= most]

    steps = sorted(set(lasts.values()))
    # The more edges cannot fire, the sooner the loop ends; so the first step that is enough is searched for.
    first = bisect_left(steps, True, key=lambda most: _ends_without(scope, shut(most)))
    return None if first == len(steps) else (_needed(scope, shut(steps[first])), max(1, steps[first] + 1))


def _inner_edges(scope: Scope) -> list[EdgePlan]:
    """The triggering edges between nodes of a loop whose `round` is that of this loop, not of one inside."""
    nodes = (unit.node for unit in scope.units if unit.node is not None)
    edges = (edge for node in nodes for edge in node.edges if edge.trigger)
    return [edge for edge in edges if edge.target in scope.members]


def _ends_without(scope: Scope, shut: list[EdgePlan]) -> bool:
    return Watch(scope, None, shut).gap() is None


def _needed(scope: Scope, shut: list[EdgePlan]) -> list[EdgePlan]:
    needed = shut
    for edge in shut if len(shut) <= MOST_TRIED else ():
        fewer = [other for other in needed if other is not edge]
        needed = fewer if _ends_without(scope, fewer) else needed
    return needed


def acts(node: NodePlan, scope: Scope) -> Bound | None:
    """The node's bound, if what it says at its limit surely leaves the loop."""
    bound: Bound | None = node.kind.bound(node.config)
    # Parts of a dynamic edge are counted one by one, and there may be none at all.
    if bound is None or node.expands or (bound.rounds is None and bound.seconds is None):
        return None
    ways = (edge for edge in node.edges if edge.target not in scope.members)
    return bound if any(_fires(edge, None, bound.port) for edge in ways) else None


def _fires(edge: EdgePlan, condition: object, port: str | None) -> bool:
    """Whether the edge triggers its target by any message for which `condition` holds, at `port`."""
    return (
        edge.trigger
        and edge.process is None
        and not edge.consults
        and edge.port in (None, port)
        and edge.edge.condition in (None, condition)
    )


class Watch:
    """The nodes of a loop that do not run without a guard; with no guard, not unless the loop is left."""

    def __init__(self, scope: Scope, guard: NodePlan | None, shut: Sequence[EdgePlan] = ()) -> None:
        """`shut` are edges that are taken not to fire."""
        self.scope = scope
        self.shut = {edge.index for edge in shut}
        self.nodes = scope.graph.nodes
        self.home = {node: unit.index for unit in scope.units for node in unit.members}
        self.watched = {guard.index} if guard is not None else set()
        self.back: list[EdgePlan] = []
        self.into: dict[int, list[EdgePlan]] = {unit.index: [] for unit in scope.units}
        self._sort_edges()
        self._grow()

    def gap(self) -> EdgePlan | None:
        """An edge back to the entry that may begin a round though the guard did not run; None if none can."""
        if self.scope.entry in self.watched:
            return None
        return next((edge for edge in self.back if not self._watches(edge)), None)

    def _sort_edges(self) -> None:
        for node in sorted(self.scope.members):
            for edge in self.nodes[node].edges:
                if not edge.trigger or edge.target not in self.scope.members:
                    continue
                if never(edge) or edge.index in self.shut:
                    continue
                if edge.target == self.scope.entry:
                    self.back.append(edge)
                elif self.home[edge.target] != self.home[node]:
                    self.into[self.home[edge.target]].append(edge)

    def _grow(self) -> None:
        before = -1
        while before != len(self.watched):
            before = len(self.watched)
            for unit in reversed(self.scope.units):
                self.watched.update(node for node in unit.members if self._leads_on(node))
            for unit in self.scope.units:
                if self._comes_from_watched(unit):
                    self.watched.update(unit.members)

    def _leads_on(self, index: int) -> bool:
        node = self.nodes[index]
        return always_speaks(node) and any(sure(edge) and self._leads(edge) for edge in node.edges)

    def _comes_from_watched(self, unit: Unit) -> bool:
        if self.scope.entry in unit.members:
            return False
        return all(self._watches(edge) for edge in self.into[unit.index])

    def _leads(self, edge: EdgePlan) -> bool:
        """Whether the guard runs in this round, or the loop is left in it, once the edge has fired."""
        target = edge.target
        if target not in self.scope.members:
            return True
        return target in self.watched and self.home[target] != self.home[edge.source]

    def _watches(self, edge: EdgePlan) -> bool:
        source = self.nodes[edge.source]
        return edge.source in self.watched or any(self._comes_with(edge, other) for other in source.edges)

    def _comes_with(self, edge: EdgePlan, other: EdgePlan) -> bool:
        if not self._leads(other) or not _fires(other, edge.edge.condition, edge.port):
            return False
        # What stays in the loop (`Outcome.stay`) takes this edge and not one that leaves; only nodes
        # that may be silent do that. From inside a folded loop this edge leaves, so nothing stayed.
        inside = other.target in self.scope.members
        folded = self.scope.units[self.home[edge.source]].node is None
        return inside or folded or always_speaks(self.nodes[edge.source])
