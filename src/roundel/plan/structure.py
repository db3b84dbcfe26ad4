"""Static checks of the structure of a workflow: nodes that never run, loops with two entries, guards
wired wrongly.

An error is something that cannot work, whatever the nodes say; it must be true for every entry of every
loop around it. A warning is probably a mistake. Where the analysis is incomplete (loops.py has a
budget), errors are withheld rather than guessed: a workflow that works must never be refused.

The checks of each graph: reachability, entries (certain and possible ones), loops without a way out
(non_termination.py), guards, and loops that were not analysed (warnings.py). Bounds are checked
separately, by warnings.check_bounds, since they need the proof.
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
from roundel.workflow.node_type import EXIT_PORT

MOST_CLASHES = 5
"""The number of possible double entries per graph that are reported one by one."""
MOST_NAMED = 8
"""The number of nodes that a message names."""


def check_structure(plan: Plan, report: Report) -> None:
    """Adds the diagnostics of all graphs of a workflow to the report."""
    graphs = [plan.graph, *(body for node in plan.sites for body in node.bodies)]
    cut = breakable_graphs(plan)
    # Middleware may replace one message by several, so then no node is certain to send only one.
    single = _never_single if plan.workflow.middleware else gives_one_message
    for graph in graphs:
        # A vote has no edges and runs all of its nodes, so there is nothing to check.
        if not graph.graph.is_majority_voting:
            _check_graph(graph, graph in cut, single, report)
    _check_jumps(plan.graph, report)


def _never_single(_node: NodePlan) -> bool:
    return False


def _check_jumps(graph: GraphPlan, report: Report) -> None:
    """Reports `break` and `continue` that have no loop agent or debate around them, and the tool
    `exit_loop` if besides no edge with `port: exit` leads from its agent.

    Bodies of such nodes are not searched: everything inside may end a round.
    """
    for node in graph.nodes:
        if node.kind.name in ("break", "continue"):
            around = "no node with rounds of its own, a loop_agent or debate, is around this"
            message = f"'{node.id}' has nothing to end: {around} {node.kind.name}"
            hint = "put it into the body of a loop_agent or a participant of a debate"
            hint += "; a free cycle is left by an edge"
            _report(report, "error", "misplaced-jump", message, node.node.at, hint)
        elif node.kind.offers_exit(node.config) and not _has_exit_edge(node):
            around = "no edge with port: exit leads from the node, and no loop_agent or debate is around it"
            message = f"'{node.id}' offers the tool exit_loop, which has nothing to end: {around}"
            hint = f"add an edge with port: exit from '{node.id}' to the node that takes the result"
            _report(report, "error", "misplaced-jump", message, node.node.at, hint)
        for body in () if node.kind.loops else node.bodies:
            _check_jumps(body, report)


def _has_exit_edge(node: NodePlan) -> bool:
    return any(edge.trigger and edge.port == EXIT_PORT for edge in node.edges)


def _check_graph(graph: GraphPlan, cut: bool, single: Callable[[NodePlan], bool], report: Report) -> None:
    """`cut` is set if a `break` or `continue` may end the graph: then no loop in it is certain to be
    endless."""
    _check_reach(graph, report)
    certain = _check_entries(graph, report)
    _check_clashes(graph, clashes(graph, loops(graph), single), certain, report)
    if not cut:
        check_ways_out(loops(graph), report)
    _check_guards(graph, report)
    _check_carried(graph, report)
    _check_speakers(graph, report)
    check_unanalysed(graph, report)


def _report(
    report: Report, severity: Severity, code: str, message: str, at: SourceLocation, hint: str = ""
) -> None:
    report.add(at.diagnostic(severity, code, message, hint))


def _check_reach(graph: GraphPlan, report: Report) -> None:
    """Warns about nodes that no run can reach, and about graphs without a reachable end.

    Conditions count as possible here, except that an edge must trigger.
    """
    follow = {node.index: [edge.target for edge in node.edges if edge.trigger] for node in graph.nodes}
    runs = reachable(graph.start, follow)
    # A debate or vote runs copies of the nodes that it names.
    named = {(part.id, part.node.at) for node in graph.nodes for body in node.bodies for part in body.nodes}
    for node in graph.nodes:
        if node.index not in runs and (node.id, node.node.at) not in named:
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
    """Reports loops that are certain to be entered at two nodes at once; returns their members."""
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
    """The edges from a scope into a loop inside it that fire in any case, by source."""
    found: dict[int, list[EdgePlan]] = {}
    for edge in (edge for member in members for edge in scope.graph.nodes[member].into):
        if edge.source in scope.members and edge.source not in members and always_fires(edge):
            found.setdefault(edge.source, []).append(edge)
    return {source: sorted(edges, key=lambda edge: edge.index) for source, edges in found.items()}


def _check_clashes(
    graph: GraphPlan, found: Iterator[Clash], certain: set[tuple[int, ...]], report: Report
) -> None:
    """Warns about loops that may be entered at two nodes at once.

    Limited to the first, outermost ones: a densely connected graph contains too many to list them all.
    """
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
        "`any` and `none` with the same words, or the same keywords with and without `negate`"
    )
    at = second.edge.edge.at if second.edge is not None else graph.nodes[second.target].node.at
    _report(report, "warning", "maybe-two-entries", message, at, hint)


def _folded(graph: GraphPlan) -> Iterator[tuple[Scope, Unit]]:
    """The loops of the graph; those inside a loop only if it can be entered at one node alone.

    The nesting of a loop depends on its entry, and an error must be true for all entries.
    """
    known = {loop.scope for loop in loops(graph)}
    pending = [graph.root]
    for scope in pending:  # grows during the iteration
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
    """Reports guards that cannot end a loop; see the functions below for the cases."""
    surveyed = survey(graph)
    for node in graph.nodes:
        if not node.kind.guard or node.index in surveyed.opaque:
            continue  # an error must be true for all loops around it, and not all of them are known
        around = surveyed.around(node)
        if not around:
            _outside_of_loops(graph, node, report)
        elif not any(_leaves(loop, node) for loop in around) and not _wrong_exits(node, around[0]):
            _without_exit(node, around, report)
        elif (
            not _decides(node, around, report)
            and _silent_at_first(node)
            and all(_ends_after_one_round(node, loop) for loop in around)
        ):
            _only_way_back(node, around[0], report)


def _check_carried(graph: GraphPlan, report: Report) -> None:
    """Reports nodes that are to carry the message of a node which their loop does not have."""
    surveyed = survey(graph)
    for node in graph.nodes:
        name = node.kind.carries(node.config)
        around = surveyed.around(node)
        if not name or node.index in surveyed.opaque:
            continue
        if not around:
            message = f"'{node.id}' is in no loop, so its output is what came in, and not that of '{name}'"
            _report(report, "warning", "without-effect", message, node.node.at)
        elif name == node.id or not any(node.carries in loop.scope.members for loop in around):
            names = [other.id for other in around[0].nodes if other is not node]
            what = "is the node itself" if name == node.id else f"is no node of the loop '{around[0].id}'"
            message = f"'{name}', whose output '{node.id}' is to carry, {what}"
            hint = report.suggest(name, names) or f"its nodes are {', '.join(names[:MOST_NAMED])}"
            _report(report, "error", "unknown-node", message, node.node.at, hint)


def _check_speakers(graph: GraphPlan, report: Report) -> None:
    """Warns about a consensus that nobody, or only one, can express."""
    surveyed = survey(graph)
    for node in graph.nodes:
        least = node.kind.hears(node.config)
        around = surveyed.around(node)
        if not least or not around or node.index in surveyed.opaque:
            continue
        members = around[0].scope.members
        speakers = sum(speaker in members for speaker in node.hears)
        if max(speakers, len({edge.source for edge in node.into})) < least:
            message = (
                f"'{node.id}' never finds consensus: it needs at least {least} speakers in the loop "
                f"'{around[0].id}', which has {speakers or 'none'}"
            )
            hint = "add an agent or a person to the loop, or end it by a score"
            _report(report, "warning", "no-consensus", message, node.node.at, hint)


def _outside_of_loops(graph: GraphPlan, node: NodePlan, report: Report) -> None:
    """A guard in no loop: a warning if it decides by ports, otherwise an error, since it can never end a
    loop."""
    if _exit_port(node) is not None:
        message = f"{node.kind.name} '{node.id}' is in no loop: it decides once, and nothing repeats"
        hint = f"to repeat something, lead from '{node.id}' back to an earlier node"
        _report(report, "warning", "nothing-repeats", message, node.node.at, hint)
        return
    source = _missing_trigger(graph, node)
    if source is not None:
        message = (
            f"{node.kind.name} '{node.id}' can never end a loop: no edge leads from the loop to it; "
            f"the edge '{source.id}' → '{node.id}' is missing"
        )
        hint = f"add it, with the condition of the edge by which '{source.id}' repeats the loop"
        _report(report, "error", "guard-wiring", message, node.node.at, hint)
        return
    why = "no edge leads from it back into the loop, so it belongs to none"
    if not any(edge.trigger for edge in node.edges):
        why = "no edge leads from it back into the loop, and none leads out of the loop"
    _wired_wrong(node, why, report)


def _missing_trigger(graph: GraphPlan, node: NodePlan) -> NodePlan | None:
    """The node that should trigger a guard in no loop: the one that repeats the loop to which the guard
    leads. None if it leads to no loop."""
    follow = {other.index: [edge.target for edge in other.edges if edge.trigger] for other in graph.nodes}
    for entry in follow[node.index]:
        inside = reachable(follow[entry], follow)
        if entry in inside:
            repeats = (other for other in sorted(inside) if entry in follow[other])
            return graph.nodes[next(repeats)]
    return None


def _without_exit(node: NodePlan, around: list[EnteredLoop], report: Report) -> None:
    """A guard without an edge out of its loop: an error if nothing else can end the loop, else a
    warning."""
    ways_out = [edge for loop in around for edge in loop.leaving() if not never(edge)]
    way = next((edge for edge in ways_out if not edge.explicit), ways_out[0] if ways_out else None)
    if way is None:
        _wired_wrong(node, "no edge leads from it out of its loop, so it cannot end it", report)
        return
    loop = around[0]
    when = " when it reaches its limit" if way.explicit and way.source == node.index else ""
    message = (
        f"{node.kind.name} '{node.id}' does not end the loop '{loop.id}': "
        f"no edge leads from it out of the loop{when}, which is left by {way.edge}"
    )
    driven = [target.id for target in _triggered_guards(node, loop)]
    if driven:
        message += f"; it only triggers {' and '.join(repr(name) for name in driven)}"
    hint = f"add an edge from '{node.id}' to the node after the loop, or remove the node if it has no use"
    _report(report, "warning", "idle-guard", message, node.node.at, hint)


def _triggered_guards(node: NodePlan, loop: EnteredLoop) -> list[NodePlan]:
    """The guards that a guard triggers at its limit."""
    nodes = loop.scope.graph.nodes
    edges = (edge for edge in node.edges if edge.trigger and not edge.explicit)
    targets = dict.fromkeys(edge.target for edge in edges if edge.target != node.index)
    return [nodes[target] for target in targets if nodes[target].kind.guard]


def _exit_port(node: NodePlan) -> str | None:
    """The port by which a deciding node (`loop`) leaves its loop; None for any other node."""
    bound = node.kind.bound(node.config)
    return None if bound is None else bound.port


def _decides(node: NodePlan, around: list[EnteredLoop], report: Report) -> bool:
    """Whether the node leaves its loop by a port; if so, checks that its edges use the right ports."""
    exit_port = _exit_port(node)
    if exit_port is None:
        return False
    members = around[0].scope.members
    for edge in _wrong_exits(node, around[0]):
        when = "whatever it decides" if edge.port is None else "when it decides not to"
        message = f"the edge {edge.edge} leaves the loop of '{node.id}' {when}"
        _report(report, "error", "guard-wiring", message, edge.edge.at, f"put port: {exit_port} on it")
    decisions = (edge for edge in node.edges if edge.trigger and not edge.explicit)
    if not any(edge.target in members and edge.port != exit_port for edge in decisions):
        others = ", ".join(port for port in node.kind.ports(node.config) if port != exit_port)
        message = f"no edge leads from '{node.id}' back into its loop, so the loop never repeats"
        _report(report, "error", "guard-wiring", message, node.node.at, f"add an edge with port: {others}")
    return True


def _wrong_exits(node: NodePlan, loop: EnteredLoop) -> list[EdgePlan]:
    """The edges of a deciding node that leave its loop without the exit port."""
    exit_port = _exit_port(node)
    if exit_port is None:
        return []
    ways = (edge for edge in node.edges if edge.trigger and edge.target not in loop.scope.members)
    return [edge for edge in ways if edge.port != exit_port and not edge.explicit and not never(edge)]


def _silent_at_first(node: NodePlan) -> bool:
    """Whether a guard sends nothing before its limit, so that it triggers nothing until then."""
    if not (node.kind.guard and node.kind.silent) or node.has_dynamic_input:
        return False
    bound = node.kind.bound(node.config)
    speaks_at_once = bound is not None and bound.rounds == 1
    return not speaks_at_once and not getattr(node.config, "passthrough", False)


def _ends_after_one_round(node: NodePlan, loop: EnteredLoop) -> bool:
    """Whether a silent guard never reaches its limit.

    A guard that counts across entries may still reach it if an outer loop enters the loop again.
    """
    counts_anew = loop.depth == 0 or node.kind.forgets(node.config)
    return counts_anew and _nothing_else_leads_back(loop)


def _nothing_else_leads_back(loop: EnteredLoop) -> bool:
    """Whether every path around the loop passes a guard that is silent at first. Cached per loop."""
    memo = loop.scope.memo  # needed for each guard of the loop
    if "stuck" not in memo:
        memo["stuck"] = _guards_are_the_only_way_back(loop)
    stuck: bool = memo["stuck"]
    return stuck


def _guards_are_the_only_way_back(loop: EnteredLoop) -> bool:
    entry, members = loop.entry.index, loop.scope.members
    own = (unit.node for unit in loop.scope.units if unit.node is not None)
    # Only guards directly in this loop: one in a loop inside can reach its limit there.
    silent = {node.index for node in own if _silent_at_first(node)}
    # A guard that fails is not silent: its error edges fire.
    edges = (edge for edge in loop.edges() if edge.explicit or edge.source not in silent)
    follow: dict[int, list[int]] = {}
    for edge in edges:
        if edge.target in members:
            follow.setdefault(edge.source, []).append(edge.target)
    return entry not in reachable(follow.get(entry, ()), {**follow, entry: ()})


def _only_way_back(node: NodePlan, loop: EnteredLoop, report: Report) -> None:
    message = (
        f"{node.kind.name} '{node.id}' is the only way back to '{loop.id}', but it is silent until its "
        "limit, so the loop ends after one round and the limit is never met"
    )
    hint = f"add an edge back to '{loop.id}' beside the one to '{node.id}', from the same node"
    _report(report, "error", "guard-wiring", message, node.node.at, hint)


def _leaves(loop: EnteredLoop, node: NodePlan) -> bool:
    """Whether an edge leads from a guard out of the loop that it may take at its limit."""
    port, members = _exit_port(node), loop.scope.members
    return any(
        edge.trigger
        and edge.target not in members
        and not edge.explicit
        and not never(edge)
        and (port is None or edge.port == port)
        for edge in node.edges
    )


def _wired_wrong(node: NodePlan, why: str, report: Report) -> None:
    message = f"{node.kind.name} '{node.id}' can never end a loop: {why}"
    hint = f"it needs two edges: '{node.id}' → a node of the loop, and '{node.id}' → the node after the loop"
    _report(report, "error", "guard-wiring", message, node.node.at, hint)
