"""What can be said against a workflow before it runs.

Errors are what cannot work whatever the nodes say; warnings are what is probably a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from roundel.plan.components import reachable
from roundel.plan.edge_certainty import always_fires, gives_one_message, never
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.loops import Clash, EnteredLoop, clashes, entries, loops, survey
from roundel.plan.non_termination import breakable_graphs, check_ways_out
from roundel.plan.scope import Scope, Unit
from roundel.plan.warnings import check_unanalysed
from roundel.workflow.diagnostics import Report, Severity
from roundel.workflow.fields import SourceLocation

MOST_CLASHES = 5
"""Of so many loops of a graph it is said that they may be entered at two nodes at once."""
MOST_NAMED = 8
"""So many nodes are named in a message."""


def check_structure(plan: Plan, report: Report) -> None:
    graphs = [plan.graph, *(body for node in plan.sites for body in node.bodies)]
    cut = breakable_graphs(plan)
    # Middleware may put several messages in the place of one.
    single = _never_single if plan.workflow.middleware else gives_one_message
    for graph in graphs:
        if not graph.graph.is_majority_voting:
            _check_graph(graph, graph in cut, single, report)
    _check_jumps(plan.graph, report)


def _never_single(_node: NodePlan) -> bool:
    return False


def _check_jumps(graph: GraphPlan, report: Report) -> None:
    """Outside of all nodes that run in rounds: whatever stands in the body of one may end its round."""
    for node in graph.nodes:
        if node.kind.name in ("break", "continue"):
            around = "no node with rounds of its own, a loop_agent or debate, is around this"
            message = f"'{node.id}' has nothing to end: {around} {node.kind.name}"
            hint = "put it into the body of a loop_agent or a participant of a debate"
            hint += "; a free cycle is left by an edge"
            _report(report, "error", "misplaced-jump", message, node.node.at, hint)
        for body in () if node.kind.loops else node.bodies:
            _check_jumps(body, report)


def _check_graph(graph: GraphPlan, cut: bool, single: Callable[[NodePlan], bool], report: Report) -> None:
    _check_reach(graph, report)
    certain = _check_entries(graph, report)
    _check_clashes(graph, clashes(graph, loops(graph), single), certain, report)
    if not cut:
        check_ways_out(loops(graph), report)
    _check_guards(graph, report)
    check_unanalysed(graph, report)


def _report(
    report: Report, severity: Severity, code: str, message: str, at: SourceLocation, hint: str = ""
) -> None:
    report.add(at.diagnostic(severity, code, message, hint))


def _check_reach(graph: GraphPlan, report: Report) -> None:
    follow = {node.index: [edge.target for edge in node.edges if edge.trigger] for node in graph.nodes}
    runs = reachable(graph.start, follow)
    for node in graph.nodes:
        if node.index not in runs:
            message = f"'{node.id}' never runs: no triggering edge leads to it from 'start'"
            _report(
                report,
                "warning",
                "never-runs",
                message,
                node.node.at,
                "add an edge to it, or name it in 'start'",
            )
    if graph.ends and not runs.intersection(graph.ends):
        names = ", ".join(f"'{graph.nodes[end].id}'" for end in graph.ends)
        _report(
            report,
            "warning",
            "end-not-reached",
            f"no run can reach {names}, so it has no output",
            graph.graph.at,
        )
    if not graph.ends:
        message = "every node has an edge to another, and no 'end' says whose output is the result"
        _report(
            report, "warning", "no-end", message, graph.graph.at, "name the nodes in 'end', best one first"
        )


def _check_entries(graph: GraphPlan, report: Report) -> set[tuple[int, ...]]:
    """The loops, by their nodes, that are certain to be entered at two nodes at once."""
    certain = set()
    for scope, unit in _folded(graph):
        members = set(unit.members)
        starts = [graph.nodes[node] for node in graph.start if node in members] if scope.entry is None else []
        if len(starts) > 1:
            certain.add(unit.members)
            _entered_twice(starts, "'start' names both", starts[1].node.at, report)
        for source, edges in sorted(_sure_ways_in(scope, members).items()):
            if len(edges) > 1:
                certain.add(unit.members)
                node, targets = graph.nodes[source], [graph.nodes[edge.target] for edge in edges]
                _entered_twice(targets, f"'{node.id}' leads to both", node.node.at, report)
    return certain


def _sure_ways_in(scope: Scope, members: set[int]) -> dict[int, list[EdgePlan]]:
    """The edges from nodes of a scope into a loop in it that fire whatever is said, by their source."""
    found: dict[int, list[EdgePlan]] = {}
    for edge in (edge for member in members for edge in scope.graph.nodes[member].into):
        if edge.source in scope.members and edge.source not in members and always_fires(edge):
            found.setdefault(edge.source, []).append(edge)
    return {source: sorted(edges, key=lambda edge: edge.index) for source, edges in found.items()}


def _check_clashes(
    graph: GraphPlan, found: Iterator[Clash], certain: set[tuple[int, ...]], report: Report
) -> None:
    """Says so of the outermost loops; a tangle holds too many to name them all."""
    uncertain = (clash for clash in found if clash.unit.members not in certain)
    for clash in islice(uncertain, MOST_CLASHES):
        _may_be_entered_twice(graph, clash, report)
    if next(uncertain, None) is not None:
        message = "there are more loops that may be entered at two nodes at once"
        _report(
            report, "warning", "maybe-two-entries", message, graph.graph.at, "check again without those above"
        )


def _may_be_entered_twice(graph: GraphPlan, clash: Clash, report: Report) -> None:
    first, second = clash.ways
    names = " and ".join(f"'{graph.nodes[way.target].id}'" for way in clash.ways)
    edges = [str(way.edge.edge) for way in clash.ways if way.edge is not None]
    why = (
        f"{edges[0]} and {edges[1]} may both fire"
        if first.edge
        else f"'start' names the first, and {edges[0]} may fire"
    )
    message = f"a loop may be entered at {names} at once, and then the run fails: {why}"
    hint = (
        "let one node lead into the loop, or let the edges exclude each other: different ports of a node, "
        "or `any` and `none` with the same words"
    )
    at = second.edge.edge.at if second.edge is not None else graph.nodes[second.target].node.at
    _report(report, "warning", "maybe-two-entries", message, at, hint)


def _folded(graph: GraphPlan) -> Iterator[tuple[Scope, Unit]]:
    """The loops of the graph; those inside a loop only if that one can be entered at one node alone.

    How a loop nests depends on its entry, and an error must hold for all of them.
    """
    known = {loop.scope for loop in loops(graph)}
    pending = [graph.root]
    for scope in pending:  # grows while we walk it
        for unit in scope.units:
            if unit.node is None:
                yield scope, unit
                found = entries(scope, unit)
                inner = scope.known_inner(unit, found[0]) if len(found) == 1 else None
                if inner is not None and inner in known:
                    pending.append(inner)


def _entered_twice(nodes: list[NodePlan], why: str, at: SourceLocation, report: Report) -> None:
    shown = [f"'{node.id}'" for node in nodes[:MOST_NAMED]]
    shown += [f"{len(nodes) - MOST_NAMED} more"] if len(nodes) > MOST_NAMED else []
    message = f"a loop is entered at {' and '.join(shown)} at once: {why}"
    hint = "let one node lead into the loop, so that it is clear where a round begins"
    _report(report, "error", "two-entries", message, at, hint)


def _check_guards(graph: GraphPlan, report: Report) -> None:
    surveyed = survey(graph)
    for node in graph.nodes:
        if not node.kind.guard or node.index in surveyed.opaque:
            continue  # an error must hold for all loops around it
        around = surveyed.around(node)
        if not around:
            _outside_of_loops(node, report)
        elif not any(_leaves(loop, node) for loop in around) and not _wrong_exits(node, around[0]):
            _without_exit(node, around, report)
        elif (
            not _decides(node, around, report)
            and _silent_at_first(node)
            and all(_ends_after_one_round(node, loop) for loop in around)
        ):
            _only_way_back(node, around[0], report)


def _outside_of_loops(node: NodePlan, report: Report) -> None:
    if _exit_port(node) is not None:
        message = f"{node.kind.name} '{node.id}' is in no loop: it decides once, and nothing repeats"
        hint = f"to repeat something, lead from '{node.id}' back to an earlier node"
        _report(report, "warning", "nothing-repeats", message, node.node.at, hint)
        return
    why = "no edge leads from it back into the loop, so it belongs to none"
    if not any(edge.trigger for edge in node.edges):
        why = "no edge leads from it back into the loop, and none leads out of the loop"
    _wired_wrong(node, why, report)


def _without_exit(node: NodePlan, around: list[EnteredLoop], report: Report) -> None:
    """An error if nothing else can end the loop; else the node may have another purpose."""
    way = next((edge for loop in around for edge in loop.leaving() if not never(edge)), None)
    if way is None:
        _wired_wrong(node, "no edge leads from it out of its loop, so it cannot end it", report)
        return
    loop = around[0]
    message = (
        f"{node.kind.name} '{node.id}' does not end the loop '{loop.id}': "
        f"no edge leads from it out of the loop, which is left by {way.edge}"
    )
    driven = [target.id for target in _triggered_guards(node, loop)]
    if driven:
        message += f"; it only triggers {' and '.join(repr(name) for name in driven)}"
    hint = f"add an edge from '{node.id}' to the node after the loop, or remove the node if it has no use"
    _report(report, "warning", "idle-guard", message, node.node.at, hint)


def _triggered_guards(node: NodePlan, loop: EnteredLoop) -> list[NodePlan]:
    """The guards that a guard triggers."""
    nodes = loop.scope.graph.nodes
    targets = dict.fromkeys(edge.target for edge in node.edges if edge.trigger and edge.target != node.index)
    return [nodes[target] for target in targets if nodes[target].kind.guard]


def _exit_port(node: NodePlan) -> str | None:
    """The port by which a node that decides leaves its loop; None for any other node."""
    bound = node.kind.bound(node.config)
    return None if bound is None else bound.port


def _decides(node: NodePlan, around: list[EnteredLoop], report: Report) -> bool:
    """Whether it leaves its loop by a port of its own; then its edges have to take the right ones."""
    exit_port = _exit_port(node)
    if exit_port is None:
        return False
    members = around[0].scope.members
    for edge in _wrong_exits(node, around[0]):
        when = "whatever it decides" if edge.port is None else "when it decides not to"
        message = f"the edge {edge.edge} leaves the loop of '{node.id}' {when}"
        _report(report, "error", "guard-wiring", message, edge.edge.at, f"put port: {exit_port} on it")
    if not any(edge.trigger and edge.target in members and edge.port != exit_port for edge in node.edges):
        others = ", ".join(port for port in node.kind.ports(node.config) if port != exit_port)
        message = f"no edge leads from '{node.id}' back into its loop, so it never goes on"
        _report(report, "error", "guard-wiring", message, node.node.at, f"add an edge with port: {others}")
    return True


def _wrong_exits(node: NodePlan, loop: EnteredLoop) -> list[EdgePlan]:
    """The edges of a node that decides which leave its loop, but not by the port for that."""
    exit_port = _exit_port(node)
    if exit_port is None:
        return []
    ways = (edge for edge in node.edges if edge.trigger and edge.target not in loop.scope.members)
    return [edge for edge in ways if edge.port != exit_port and not never(edge)]


def _silent_at_first(node: NodePlan) -> bool:
    if not (node.kind.guard and node.kind.silent) or node.has_dynamic_input:
        return False
    bound = node.kind.bound(node.config)
    speaks_at_once = bound is not None and bound.rounds == 1
    return not speaks_at_once and not getattr(node.config, "passthrough", False)


def _ends_after_one_round(node: NodePlan, loop: EnteredLoop) -> bool:
    """Whether a silent guard never meets its limit: it goes on counting if the loop is entered again."""
    counts_anew = loop.depth == 0 or node.kind.forgets(node.config)
    return counts_anew and _nothing_else_leads_back(loop)


def _nothing_else_leads_back(loop: EnteredLoop) -> bool:
    """Whether every way round the loop goes through a guard of it that is silent at first."""
    memo = loop.scope.memo  # asked for each guard of the loop
    if "stuck" not in memo:
        memo["stuck"] = _guards_are_the_only_way_back(loop)
    stuck: bool = memo["stuck"]
    return stuck


def _guards_are_the_only_way_back(loop: EnteredLoop) -> bool:
    entry, members = loop.entry.index, loop.scope.members
    own = (unit.node for unit in loop.scope.units if unit.node is not None)
    silent = {node.index for node in own if _silent_at_first(node)}
    follow = {
        node.index: [edge.target for edge in node.edges if edge.trigger and edge.target in members]
        for node in loop.nodes
        if node.index not in silent
    }
    return entry not in reachable(follow.get(entry, ()), {**follow, entry: ()})


def _only_way_back(node: NodePlan, loop: EnteredLoop, report: Report) -> None:
    message = (
        f"{node.kind.name} '{node.id}' is the only way back to '{loop.id}', but it is silent until its "
        "limit, so the loop ends after one round and the limit is never met"
    )
    hint = f"add an edge back to '{loop.id}' beside the one to '{node.id}', from the same node"
    _report(report, "error", "guard-wiring", message, node.node.at, hint)


def _leaves(loop: EnteredLoop, node: NodePlan) -> bool:
    port, members = _exit_port(node), loop.scope.members
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
    _report(report, "error", "guard-wiring", message, node.node.at, hint)
