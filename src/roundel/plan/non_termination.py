"""Loops that never end: no edge leaves them, and each round triggers the next, whatever the nodes say.

This is an error, so it has to be true for every run that does not fail. A round triggers the next if its
entry *returns*, where

  - a node returns if in each of the ways in which it may end (edge_certainty.py) an edge fires for
    certain, and leads to the entry or to a node that returns;
  - a node of a loop inside returns if each round of that loop, entered at this node, certainly triggers
    the entry or a node that returns. There is at least one such round; nothing else is certain of it,
    because it may end without a trigger or be left elsewhere.

What a round of a loop inside triggers with certainty is computed unit by unit, in the order in which they
run:

  - the entry runs, and so does each node that was certainly triggered in an earlier layer;
  - a node that runs triggers what it triggers in each of the ways in which it may end;
  - a loop inside that is certainly entered, and at one node, triggers outside of it what each of its
    rounds does;
  - nothing is certain after a layer in which the loop may be left.

A loop in the body of a loop agent may also be ended by a `break` elsewhere in that body
(`breakable_graphs`).

Loops are examined from the inside out, so that the result of an inner loop is known when the outer one
needs it.

A loop that only a failure leaves (`port: error`) is no error, since it ends in some runs; but nobody plans
with a failure, so it is a warning. It is found by the same analysis on the assumption that no node fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from roundel.plan.components import reachable
from roundel.plan.edge_certainty import (
    Way,
    handling_edges,
    is_certain,
    may_jump,
    never,
    possible_ways,
    way_of,
)
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.loops import EnteredLoop
from roundel.plan.scope import Scope, Unit
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.node_type import ERROR_PORT

MOST_NODES = 20
"""The number of nodes of a loop that a message names."""

Certain = dict[Scope, set[int]]
"""For each loop, the nodes inside and outside of it that each of its rounds certainly triggers."""


def check_ways_out(found: list[EnteredLoop], report: Report) -> None:
    """Reports the loops of a graph that never end, and those that end only if a node fails."""
    endless = non_terminating(found)
    for loop in endless:
        report.add(_never_ends(loop))
    if any(node.has_error_edges for loop in found for node in loop.nodes):
        for loop in non_terminating(found, failing=False):
            if loop not in endless:
                report.add(_ends_by_failure(loop))


def _path(loop: EnteredLoop) -> str:
    shown = [node.id for node in loop.nodes[:MOST_NODES]]
    shown += [f"… ({len(loop.nodes) - len(shown)} more)"] if len(shown) < len(loop.nodes) else []
    return " → ".join([*shown, loop.nodes[0].id])


def _ends_by_failure(loop: EnteredLoop) -> Diagnostic:
    """The diagnostic: each round that does not fail triggers the next."""
    edges = [edge for edge in loop.leaving() if edge.port == ERROR_PORT and not never(edge)]
    message = f"the loop {_path(loop)} ends only if a node fails"
    if edges:
        more = f" and {len(edges) - 1} more" if len(edges) > 1 else ""
        message += f": nothing leaves it but {edges[0].edge}{more}"
    hint = "add an edge out of the loop that fires without a failure, with a condition or from a loop_counter"
    at = edges[0].edge.at if edges else loop.entry.node.at
    return at.diagnostic("warning", "ends-by-failure", message, hint)


def _never_ends(loop: EnteredLoop) -> Diagnostic:
    """The diagnostic: no edge leaves the loop, or its exits never fire or are unreachable."""
    leaving = loop.leaving()
    message_start = f"the loop {_path(loop)} never ends"
    if not leaving:
        hint = "add an edge out of the loop, with a condition or from a loop_counter"
        return loop.entry.node.at.diagnostic(
            "error", "no-way-out", f"{message_start}: no edge leaves it", hint
        )
    edge = next((edge for edge in leaving if not never(edge)), leaving[0])
    message_start += f": its way out, {edge.edge},"
    if never(edge):
        message = f"{message_start} has `condition: false` and never fires"
        hint = "give it a condition that may hold, or lead out of the loop elsewhere"
        return edge.edge.at.diagnostic("error", "no-way-out", message, hint)
    hint = f"'{edge.source_id}' never runs; let an edge of the loop lead to it"
    return edge.edge.at.diagnostic("error", "unreachable-exit", f"{message_start} is out of reach", hint)


def non_terminating(found: list[EnteredLoop], *, failing: bool = True) -> list[EnteredLoop]:
    """The loops that never end once they are entered. `found` has outer loops first.

    Without `failing` it is assumed that no node fails, so no error edge fires.
    """
    analysis = _Rounds(failing)
    endless = []
    for loop in reversed(found):  # inner loops first
        runs = analysis.runs(loop)
        analysis.certain[loop.scope] = analysis.triggered(loop.scope, runs)
        may_leave = any(edge.source in runs and analysis.may_fire(edge) for edge in loop.leaving())
        if not may_leave and _may_be_entered(loop) and analysis.returns(loop):
            endless.append(loop)
    return endless[::-1]


class _Rounds:
    """What the rounds of loops trigger, found from the inside out."""

    def __init__(self, failing: bool) -> None:
        self.failing = failing
        """Whether nodes may fail."""
        self.certain: Certain = {}

    def may_fire(self, edge: EdgePlan) -> bool:
        return not never(edge) and (self.failing or edge.port != ERROR_PORT)

    def runs(self, loop: EnteredLoop) -> set[int]:
        """The nodes of the loop that may run: an exit of any other node is out of reach."""
        follow: dict[int, list[int]] = {node.index: [] for node in loop.nodes}
        for edge in loop.edges():
            if edge.target in follow and self.may_fire(edge):
                follow[edge.source].append(edge.target)
        return reachable([loop.entry.index], follow)

    def returns(self, loop: EnteredLoop) -> bool:
        """Whether each round of the loop triggers the next. Nothing may leave it."""
        scope, entry = loop.scope, loop.entry.index
        returning: set[int] = set()

        def leads_back(targets: set[int]) -> bool:
            return entry in targets or not returning.isdisjoint(targets)

        for unit in reversed(scope.units):  # the targets of a unit come before it
            if unit.node is not None:
                if all(leads_back(_certain_targets(unit.node, way)) for way in self._ways(unit.node)):
                    returning.add(unit.node.index)
                continue
            inner = ((node, scope.known_inner(unit, node)) for node in unit.members)
            certain = {node: self.certain.get(loop, set()) for node, loop in inner if loop is not None}
            returning.update([node for node, targets in certain.items() if leads_back(targets)])
        return entry in returning

    def _ways(self, node: NodePlan) -> set[Way]:
        return possible_ways(node) - (set() if self.failing else {ERROR_PORT})

    def triggered(self, scope: Scope, runs: set[int]) -> set[int]:
        """The nodes that a round of the loop triggers with certainty."""
        found: set[int] = set()
        last = min(
            (unit.layer for unit in scope.units if self._may_leave(unit, runs)), default=len(scope.units)
        )
        for unit in scope.units:  # in the order of their layers
            if unit.layer > last:
                break
            entered = [node for node in unit.members if node in found or node == scope.entry]
            if unit.node is None:
                # With two entries the run fails, and nothing is certain about what follows.
                if len(entered) == 1:
                    inner = scope.known_inner(unit, entered[0])
                    inside = self.certain.get(inner, set()) if inner is not None else set()
                    found |= inside.difference(unit.members)
            elif entered:
                found |= self._always_triggered(unit.node)
        return found

    def _may_leave(self, unit: Unit, runs: set[int]) -> bool:
        return any(
            edge.trigger and left and edge.source in runs and self.may_fire(edge) for edge, left in unit.out
        )

    def _always_triggered(self, node: NodePlan) -> set[int]:
        """The nodes that each run of a node triggers, in whichever way it ends."""
        return set.intersection(*(_certain_targets(node, way) for way in self._ways(node)))


def _certain_targets(node: NodePlan, way: Way) -> set[int]:
    """The nodes that each run of a node triggers if it ends in this way."""
    certain = (edge for edge in node.edges if way_of(edge) == way and is_certain(edge, node))
    handling = {edge.target for edge in handling_edges(node)} if way == ERROR_PORT else set()
    return {edge.target for edge in certain} | (handling if len(handling) == 1 else set())


def _may_be_entered(loop: EnteredLoop) -> bool:
    """Whether anything leads into the loop; one that is never entered does no harm."""
    graph, parent, entry = loop.scope.graph, loop.scope.parent, loop.entry.index
    assert parent is not None
    if parent.entry is None and entry in graph.start:
        return True
    outside = (
        edge
        for edge in graph.nodes[entry].into
        if edge.source in parent.members and edge.source not in loop.scope.members
    )
    return any(edge.trigger and not never(edge) for edge in outside)


def breakable_graphs(plan: Plan) -> set[GraphPlan]:
    """The graphs that a `break` or `continue` may end while their loops are running."""
    found: set[GraphPlan] = set()
    for body in (body for node in plan.sites if node.kind.loops for body in node.bodies):
        inside = list(_graphs(body))
        if any(may_jump(node) for graph in inside for node in graph.nodes):
            found.update(inside)
    return found


def _graphs(graph: GraphPlan) -> Iterator[GraphPlan]:
    pending = [graph]
    for inner in pending:  # grows during the iteration
        yield inner
        pending += [body for node in inner.nodes for body in node.bodies]
