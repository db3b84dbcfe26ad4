"""Warnings about loops: what the proof leaves open, and what the survey could not analyse.

`check_bounds` warns about loops that only a default cap is certain to end, with the reason why their
guards do not bound them, and about guards whose limit is above the cap. A chosen cap is no warning: its
author has decided how the loop ends. `check_verdicts` warns about loops that end as soon as an agent
mentions a word. `check_unanalysed` warns about loops whose analysis did not fit into the budget of the
survey (loops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from roundel.plan.edge_certainty import always_fires, never, possible_ways, tests_of
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.guards import LoopEdges, WatchedNodes, effective_bound
from roundel.plan.loops import EnteredLoop, UnanalysedLoop, survey
from roundel.plan.proof import ProvenLoop, proven_loops, round_limits
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.fields import SourceLocation
from roundel.workflow.node_type import ERROR_PORT

MOST_LISTED = 5
"""The number of nodes that a warning about unanalysed loops names."""
HINT = (
    "let fewer edges lead back, or move parts of the loop into subgraphs; "
    "limits: {steps: …} bounds a run whatever its loops do"
)


def check_unanalysed(graph: GraphPlan, report: Report) -> None:
    """Warns once for each outermost loop that was not analysed completely."""
    outermost = {node: unit.index for unit in graph.root.units for node in unit.members}
    missed: dict[int, list[UnanalysedLoop]] = {}
    for unanalysed in survey(graph).unanalysed:
        missed.setdefault(outermost[unanalysed.unit.members[0]], []).append(unanalysed)
    for group in missed.values():
        report.add(_not_analysed(graph, group))


def _not_analysed(graph: GraphPlan, missed: list[UnanalysedLoop]) -> Diagnostic:
    units = {id(unanalysed.unit): unanalysed.unit for unanalysed in missed}
    members = sorted({member for unit in units.values() for member in unit.members})
    entries = {unanalysed.entry.index: unanalysed.entry for unanalysed in missed}
    message = (
        f"too many loops to analyse, or too large ones, among {named([graph.nodes[at] for at in members])}: "
        f"those that are entered at {named(list(entries.values()))}, as far as they are not listed, and the "
        "loops inside them have not been analysed; nothing but their caps is known to end them, and "
        "mistakes in them show only when they run"
    )
    return missed[0].entry.node.at.diagnostic("warning", "loops-not-analysed", message, HINT)


def named(nodes: Sequence[NodePlan], most: int = MOST_LISTED) -> str:
    """The ids of nodes; the first ones if there are many."""
    shown = ", ".join(f"'{node.id}'" for node in nodes[:most])
    return shown if len(nodes) <= most else f"{shown} and {len(nodes) - most} more"


MOST_NAMED = 8
"""The number of guards and of deciding nodes that a warning names."""


def check_bounds(plan: Plan, report: Report) -> None:
    """Warns at most once for each entry, however the loop nests."""
    known: set[NodePlan] = set()
    for case in proven_loops(plan):
        if case.loop.entry not in known and _warn(case, report):
            known.add(case.loop.entry)


def _warn(case: ProvenLoop, report: Report) -> bool:
    """Whether there was something to warn about."""
    proof = case.proof
    counts = round_limits(proof.bounded_by)
    if not proof.bounded_by and proof.worst_case_rounds is None and case.default:
        _only_capped(case, report)
    elif counts and min(counts.values()) > proof.cap:
        _above_cap(case, min(counts, key=lambda guard: counts[guard]), min(counts.values()), report)
    else:
        return False
    return True


def _only_capped(case: ProvenLoop, report: Report) -> None:
    loop = case.loop
    message = f"loop '{loop.id}' is bounded only by its cap of {case.proof.cap} rounds"
    ways, idle = LoopEdges(loop.scope), _idle_guards(loop)
    for node in idle[:MOST_NAMED]:
        message += f"; '{node.id}' does not bound it, since {_reason(loop, node, ways)}"
    if len(idle) > MOST_NAMED:
        message += f"; nor do {len(idle) - MOST_NAMED} other guards"
    causes = " and ".join(_causes(loop))
    if causes:
        message += f"; whether it ends before depends on {causes}"
    hint = (
        f"lead to a loop_counter beside each edge back to '{loop.id}', under the same condition and port, "
        f"and from it out of the loop; or choose the cap: loops: {{{loop.id}: {{max_rounds: …}}}}"
    )
    report.add(loop.entry.node.at.diagnostic("warning", "only-capped", message, hint))


def _causes(loop: EnteredLoop) -> list[str]:
    """What decides whether the loop goes on: what people and models say, and whether nodes fail."""
    deciders = named([node for node in loop.nodes if _decides(node)], MOST_NAMED)
    fallible = named([node for node in loop.nodes if ERROR_PORT in possible_ways(node)], MOST_NAMED)
    said, failing = f"what {deciders} says", f"whether {fallible} fails"
    return [text for nodes, text in ((deciders, said), (fallible, failing)) if nodes]


def _idle_guards(loop: EnteredLoop) -> list[NodePlan]:
    """The guards directly in the loop; none of them bounds it, or there would be no warning."""
    return [unit.node for unit in loop.scope.units if unit.node is not None and unit.node.kind.guard]


def _reason(loop: EnteredLoop, guard: NodePlan, ways: LoopEdges) -> str:
    """Why a guard does not bound the loop."""
    if guard.has_dynamic_input:
        return "a dynamic edge leads to it"
    if effective_bound(guard, loop.scope) is None:
        return "its way out is not always open"
    nodes = WatchedNodes(loop.scope, guard, ways=ways)
    if guard.index not in nodes.watched:
        edge = next(edge for edge in guard.edges if edge.explicit and edge.trigger and not never(edge))
        return f"it counts no round in which it fails, and {edge.edge} lets the loop go on"
    gap = nodes.gap()
    assert gap is not None
    return f"{gap.edge} may begin a round that it does not count"


def _decides(node: NodePlan) -> bool:
    """Whether a person or a model answers at the node, and the path depends on the answer."""
    edges = (edge for edge in node.edges if edge.trigger and edge.port != ERROR_PORT)
    forks = any(not always_fires(edge) and not never(edge) for edge in edges)
    return forks and (node.kind.asks or node.kind.speaks)


def _above_cap(case: ProvenLoop, guard: str, limit: int, report: Report) -> None:
    loop, cap = case.loop, case.proof.cap
    message = f"'{guard}' comes too late: after {cap} rounds, not {limit}, the loop's cap locks the run"
    hint = f"set max_rounds of the loop '{loop.id}' to {limit} or more, or let '{guard}' count to less"
    report.add(_place(loop, guard).diagnostic("warning", "guard-above-cap", message, hint))


def _place(loop: EnteredLoop, guard: str) -> SourceLocation:
    """The position of the guard in the file: a node, or the first of the edges that bound the loop."""
    nodes = (node.node.at for node in loop.nodes if node.id == guard)
    edges = (edge.edge.at for edge in loop.edges() if guard.startswith(str(edge.edge)))
    return next(chain(nodes, edges))


def check_verdicts(plan: Plan, report: Report) -> None:
    """Warns about each edge that leaves a loop because an agent's text contains a word somewhere: models
    also say why they do not use it yet."""
    for graph in reversed(plan.graph.family):  # outer graphs were compiled last
        loose: dict[int, tuple[EdgePlan, EnteredLoop]] = {}
        for loop in survey(graph).found:
            for edge in loop.leaving():
                if edge.index not in loose and _loose_words(edge, graph.nodes[edge.source]):
                    loose[edge.index] = (edge, loop)
        for _, (edge, loop) in sorted(loose.items()):
            _loose_verdict(edge, graph.nodes[edge.source], loop, report)


def _loose_words(edge: EdgePlan, source: NodePlan) -> list[str]:
    """The words that an agent only has to mention for the edge to fire; empty if that is not how it is
    decided."""
    condition = edge.edge.condition
    if condition is None or condition.keyword is None or edge.explicit or not source.kind.speaks:
        return []
    if getattr(source.config, "output_schema", None):
        return []
    tests = sorted(tests_of(condition.keyword).asks)
    if any(kind in ("begins", "only") for kind, *_ in tests):
        return []
    return [word for kind, _, _, word in tests if kind == "any" and word]


def _loose_verdict(edge: EdgePlan, source: NodePlan, loop: EnteredLoop, report: Report) -> None:
    words = _loose_words(edge, source)
    shown = " or ".join(f"'{word}'" for word in words[:MOST_LISTED])
    message = (
        f"the loop '{loop.id}' ends as soon as '{source.id}' mentions {shown}, also in "
        f'"I can\'t say {words[0]} yet"'
    )
    hint = (
        f"write `begins: [{words[0]}]` here and the same with `negate: true` on the edge back, "
        f"or give '{source.id}' an `output_schema` and test its data"
    )
    report.add(edge.edge.at.diagnostic("warning", "loose-verdict", message, hint))
