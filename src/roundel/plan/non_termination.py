"""Loops that never end: no edge leaves them, and each round triggers the next, whatever the nodes say.

This is an error, so it has to be true for every run that does not fail. What a round triggers with
certainty is computed unit by unit, in the order in which they run:

  - the entry runs, and so does each node that was certainly triggered in an earlier layer;
  - a node that runs and always sends a message triggers the targets of its unconditional edges;
  - a loop inside that is certainly entered, and at one node, triggers outside of it what each of its
    rounds does, since there is at least one; nothing else, because it may end without a trigger or be
    left elsewhere;
  - nothing is certain after a layer in which the loop may be left.

A loop in the body of a loop agent may also be ended by a `break` elsewhere in that body
(`breakable_graphs`).

Loops are examined from the inside out, so that the result of an inner loop is known when the outer one
needs it.
"""

from __future__ import annotations

from collections.abc import Iterator

from roundel.plan.components import reachable
from roundel.plan.edge_certainty import always_fires, always_speaks, may_jump, never
from roundel.plan.graph import GraphPlan, Plan
from roundel.plan.loops import EnteredLoop
from roundel.plan.scope import Scope, Unit
from roundel.workflow.diagnostics import Diagnostic, Report

MOST_NODES = 20
"""The number of nodes of a loop that a message names."""

Certain = dict[Scope, set[int]]
"""For each loop, the nodes inside and outside of it that each of its rounds certainly triggers."""


def check_ways_out(found: list[EnteredLoop], report: Report) -> None:
    """Reports the loops of a graph that never end."""
    for loop in non_terminating(found):
        report.add(_never_ends(loop))


def _never_ends(loop: EnteredLoop) -> Diagnostic:
    """The diagnostic: no edge leaves the loop, or its exits never fire or are unreachable."""
    leaving = loop.leaving()
    shown = [node.id for node in loop.nodes[:MOST_NODES]]
    shown += [f"… ({len(loop.nodes) - len(shown)} more)"] if len(shown) < len(loop.nodes) else []
    path = " → ".join([*shown, loop.nodes[0].id])
    message_start = f"the loop {path} never ends"
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


def non_terminating(found: list[EnteredLoop]) -> list[EnteredLoop]:
    """The loops that never end once they are entered. `found` has outer loops first."""
    certain: Certain = {}
    endless = []
    for loop in reversed(found):  # inner loops first
        runs = _runs(loop)
        triggered = certain[loop.scope] = _triggered(loop.scope, runs, certain)
        may_leave = any(edge.source in runs and not never(edge) for edge in loop.leaving())
        if loop.entry.index in triggered and not may_leave and _may_be_entered(loop):
            endless.append(loop)
    return endless[::-1]


def _runs(loop: EnteredLoop) -> set[int]:
    """The nodes of the loop that may run: an exit of any other node is out of reach."""
    follow: dict[int, list[int]] = {node.index: [] for node in loop.nodes}
    for edge in loop.edges():
        if edge.target in follow and not never(edge):
            follow[edge.source].append(edge.target)
    return reachable([loop.entry.index], follow)


def _triggered(scope: Scope, runs: set[int], certain: Certain) -> set[int]:
    """The nodes that a round of the loop triggers with certainty."""
    found: set[int] = set()
    last = min((unit.layer for unit in scope.units if _may_leave(unit, runs)), default=len(scope.units))
    for unit in scope.units:  # in the order of their layers
        if unit.layer > last:
            break
        entered = [node for node in unit.members if node in found or node == scope.entry]
        if unit.node is None:
            # With two entries the run fails, and nothing is certain about what follows.
            if len(entered) == 1:
                inner = scope.known_inner(unit, entered[0])
                inside = certain.get(inner, set()) if inner is not None else set()
                found |= inside.difference(unit.members)
        elif entered and always_speaks(unit.node):
            found.update(edge.target for edge in unit.node.edges if always_fires(edge))
    return found


def _may_leave(unit: Unit, runs: set[int]) -> bool:
    return any(edge.trigger and left and edge.source in runs and not never(edge) for edge, left in unit.out)


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
