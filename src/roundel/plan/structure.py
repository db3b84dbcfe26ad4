"""What can be said against a workflow before it runs.

Errors are what cannot work whatever the nodes say; warnings are what is probably a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

from roundel.plan.components import reachable
from roundel.plan.endless import check_ways_out, cut_short
from roundel.plan.firing import never, sure
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.loops import Loop, entries, loops
from roundel.plan.scope import Scope, Unit
from roundel.workflow.diagnostics import Report, Severity
from roundel.workflow.fields import Place


def check_structure(plan: Plan, report: Report) -> None:
    graphs = [plan.graph, *(body for node in plan.sites for body in node.bodies)]
    cut = cut_short(plan)
    for graph in graphs:
        if not graph.graph.is_majority_voting:
            _check_graph(graph, graph in cut, report)
    _check_jumps(plan.graph, report)


def _check_jumps(graph: GraphPlan, report: Report) -> None:
    """Outside of all nodes that run in rounds: whatever stands in the body of one may end its round."""
    for node in graph.nodes:
        if node.kind.name in ("break", "continue"):
            around = "no node with rounds of its own, a loop_agent or debate, is around this"
            message = f"'{node.id}' has nothing to end: {around} {node.kind.name}"
            hint = "put it into the body of a loop_agent or a participant of a debate"
            hint += "; a free cycle is left by an edge"
            _say(report, "error", "misplaced-jump", message, node.node.at, hint)
        for body in () if node.kind.loops else node.bodies:
            _check_jumps(body, report)


def _check_graph(graph: GraphPlan, cut: bool, report: Report) -> None:
    found = loops(graph)
    _check_reach(graph, report)
    _check_entries(graph, report)
    if not cut:
        check_ways_out(found, report)
    _check_guards(graph, found, report)


def _say(report: Report, severity: Severity, code: str, message: str, at: Place, hint: str = "") -> None:
    report.add(at.diagnostic(severity, code, message, hint))


def _check_reach(graph: GraphPlan, report: Report) -> None:
    follow = {node.index: [edge.target for edge in node.edges if edge.trigger] for node in graph.nodes}
    runs = reachable(graph.start, follow)
    for node in graph.nodes:
        if node.index not in runs:
            message = f"'{node.id}' never runs: no triggering edge leads to it from 'start'"
            _say(
                report,
                "warning",
                "never-runs",
                message,
                node.node.at,
                "add an edge to it, or name it in 'start'",
            )
    if graph.ends and not runs.intersection(graph.ends):
        names = ", ".join(f"'{graph.nodes[end].id}'" for end in graph.ends)
        _say(
            report,
            "warning",
            "end-not-reached",
            f"no run can reach {names}, so it has no output",
            graph.graph.at,
        )
    if not graph.ends:
        message = "every node has an edge to another, and no 'end' says whose output is the result"
        _say(report, "warning", "no-end", message, graph.graph.at, "name the nodes in 'end', best one first")


def _check_entries(graph: GraphPlan, report: Report) -> None:
    for scope, unit in _folded(graph):
        members = set(unit.members)
        starts = [graph.nodes[node] for node in graph.start if node in members]
        if len(starts) > 1 and scope.entry is None:
            _entered_twice(starts, "'start' names both", starts[1].node.at, report)
        for node in graph.nodes:
            if node.index in scope.members and node.index not in members:
                targets = [
                    graph.nodes[edge.target] for edge in node.edges if edge.target in members and sure(edge)
                ]
                if len(targets) > 1:
                    _entered_twice(targets, f"'{node.id}' leads to both", node.node.at, report)


def _folded(graph: GraphPlan) -> Iterator[tuple[Scope, Unit]]:
    """The loops of the graph; those inside a loop only if that one can be entered at one node alone.

    How a loop nests depends on its entry, and an error must hold for all of them.
    """
    pending = [graph.root]
    for scope in pending:  # grows while we walk it
        for unit in scope.units:
            if unit.node is None:
                yield scope, unit
                found = entries(scope, unit)
                if len(found) == 1:
                    pending.append(scope.inner(unit, found[0]))


def _entered_twice(nodes: list[NodePlan], why: str, at: Place, report: Report) -> None:
    names = " and ".join(f"'{node.id}'" for node in nodes)
    message = f"a loop is entered at {names} at once: {why}"
    hint = "let one node lead into the loop, so that it is clear where a round begins"
    _say(report, "error", "two-entries", message, at, hint)


def _check_guards(graph: GraphPlan, found: list[Loop], report: Report) -> None:
    for node in graph.nodes:
        if not node.kind.guard:
            continue
        around = [loop for loop in found if any(unit.node is node for unit in loop.scope.units)]
        if not around and _has_port(node):
            _decides_once(node, report)
        elif not around:
            _wired_wrong(node, "no edge leads from it back into the loop, so it belongs to none", report)
        elif not any(_leaves(loop, node) for loop in around) and not _misled(node, around[0]):
            _wired_wrong(node, "no edge leads from it out of its loop, so it cannot end it", report)
        elif (
            not _decides(node, around, report)
            and _silent_at_first(node)
            and all(_nothing_else_leads_back(loop) for loop in around)
        ):
            _goes_nowhere(node, around[0], report)


def _has_port(node: NodePlan) -> bool:
    """Whether it says by a port what it decides, so that it makes sense outside of a loop too."""
    bound = node.kind.bound(node.config)
    return bound is not None and bound.port is not None


def _decides_once(node: NodePlan, report: Report) -> None:
    message = f"{node.kind.name} '{node.id}' is in no cycle: it decides once, and nothing repeats"
    hint = f"lead an edge from '{node.id}' with port: continue back to the first node of the loop"
    _say(report, "warning", "guard-wiring", message, node.node.at, hint)


def _decides(node: NodePlan, around: list[Loop], report: Report) -> bool:
    """Whether it leaves its loop by a port of its own; then its edges have to take the right ones."""
    bound = node.kind.bound(node.config)
    if bound is None or bound.port is None:
        return False
    members = around[0].scope.members
    for edge in _misled(node, around[0]):
        when = "whatever it decides" if edge.port is None else "when it decides not to"
        message = f"the edge {edge.edge} leaves the loop of '{node.id}' {when}"
        _say(report, "error", "guard-wiring", message, edge.edge.at, f"put port: {bound.port} on it")
    if not any(edge.trigger and edge.target in members and edge.port != bound.port for edge in node.edges):
        others = ", ".join(port for port in node.kind.ports(node.config) if port != bound.port)
        message = f"no edge leads from '{node.id}' back into its loop, so it never goes on"
        _say(report, "error", "guard-wiring", message, node.node.at, f"add an edge with port: {others}")
    return True


def _misled(node: NodePlan, loop: Loop) -> list[EdgePlan]:
    """The edges of a node that decides which leave its loop, but not by the port for that."""
    bound = node.kind.bound(node.config)
    if bound is None or bound.port is None:
        return []
    ways = (edge for edge in node.edges if edge.trigger and edge.target not in loop.scope.members)
    return [edge for edge in ways if edge.port != bound.port and not never(edge)]


def _silent_at_first(node: NodePlan) -> bool:
    if not (node.kind.guard and node.kind.silent) or node.expands:
        return False
    bound = node.kind.bound(node.config)
    speaks_at_once = bound is not None and bound.rounds == 1
    return not speaks_at_once and not getattr(node.config, "passthrough", False)


def _nothing_else_leads_back(loop: Loop) -> bool:
    """Whether every way round the loop goes through a guard of it that is silent at first."""
    entry, members = loop.entry.index, loop.scope.members
    own = (unit.node for unit in loop.scope.units if unit.node is not None)
    silent = {node.index for node in own if _silent_at_first(node)}
    follow = {
        node.index: [edge.target for edge in node.edges if edge.trigger and edge.target in members]
        for node in loop.nodes
        if node.index not in silent
    }
    return entry not in reachable(follow.get(entry, ()), {**follow, entry: ()})


def _goes_nowhere(node: NodePlan, loop: Loop, report: Report) -> None:
    message = (
        f"{node.kind.name} '{node.id}' is the only way back to '{loop.id}', but it is silent until its "
        "limit, so the loop ends after one round and the limit is never met"
    )
    hint = f"add an edge back to '{loop.id}' beside the one to '{node.id}', from the same node"
    _say(report, "error", "guard-wiring", message, node.node.at, hint)


def _leaves(loop: Loop, node: NodePlan) -> bool:
    bound, members = node.kind.bound(node.config), loop.scope.members
    port = bound.port if bound is not None else None
    return any(
        edge.trigger
        and edge.target not in members
        and not never(edge)
        and (port is None or edge.port == port)
        for edge in node.edges
    )


def _wired_wrong(node: NodePlan, why: str, report: Report) -> None:
    message = f"{node.kind.name} '{node.id}' can never end a loop: {why}"
    hint = f"it needs two edges: '{node.id}' → a node of the loop, and '{node.id}' → the node after the loop"
    _say(report, "error", "guard-wiring", message, node.node.at, hint)
