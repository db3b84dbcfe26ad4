"""What the proof leaves open: loops that only their cap ends for certain, and guards that come too late."""

from __future__ import annotations

from itertools import chain

from roundel.plan.firing import never, sure
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.guards import Watch, Ways, acts
from roundel.plan.loops import Loop
from roundel.plan.proof import Case, cases, counted
from roundel.plan.unseen import named
from roundel.workflow.diagnostics import Report
from roundel.workflow.fields import Place

MOST_NAMED = 8
"""So many guards and deciders are named in a warning."""


def check_loops(plan: Plan, report: Report) -> None:
    """Warns of each loop once for each entry, however it nests."""
    known: set[NodePlan] = set()
    for case in cases(plan):
        if case.loop.entry not in known and _warned(case, report):
            known.add(case.loop.entry)


def _warned(case: Case, report: Report) -> bool:
    proof = case.proof
    counts = counted(proof.bounded_by)
    if not proof.bounded_by and proof.worst_case_rounds is None and case.default:
        _only_capped(case, report)
    elif counts and min(counts.values()) > proof.cap:
        _above_cap(case, min(counts, key=lambda guard: counts[guard]), min(counts.values()), report)
    else:
        return False
    return True


def _only_capped(case: Case, report: Report) -> None:
    loop = case.loop
    message = f"loop '{loop.id}' is bounded only by its cap of {case.proof.cap} rounds"
    ways, idle = Ways(loop.scope), _idle_guards(loop)
    for node in idle[:MOST_NAMED]:
        message += f"; '{node.id}' does not bound it, since {_reason(loop, node, ways)}"
    if len(idle) > MOST_NAMED:
        message += f"; nor do {len(idle) - MOST_NAMED} other guards"
    deciders = named([node for node in loop.nodes if _decides(node)], MOST_NAMED)
    if deciders:
        message += f"; whether it ends before depends on what {deciders} says"
    hint = (
        f"lead to a loop_counter beside each edge back to '{loop.id}', under the same condition, "
        f"and from it out of the loop; or choose the cap: loops: {{{loop.id}: {{max_rounds: …}}}}"
    )
    report.add(loop.entry.node.at.diagnostic("warning", "only-capped", message, hint))


def _idle_guards(loop: Loop) -> list[NodePlan]:
    return [unit.node for unit in loop.scope.units if unit.node is not None and unit.node.kind.guard]


def _reason(loop: Loop, guard: NodePlan, ways: Ways) -> str:
    if guard.expands:
        return "a dynamic edge leads to it"
    if acts(guard, loop.scope) is None:
        return "its way out is not always open"
    gap = Watch(loop.scope, guard, ways=ways).gap()
    assert gap is not None
    return f"{gap.edge} may begin a round that it does not count"


def _decides(node: NodePlan) -> bool:
    """Whether a person or a model answers there, and where that goes depends on the answer."""
    forks = (edge for edge in node.edges if edge.trigger and not sure(edge) and not never(edge))
    return (node.kind.asks or node.kind.speaks) and any(forks)


def _above_cap(case: Case, guard: str, limit: int, report: Report) -> None:
    loop, cap = case.loop, case.proof.cap
    message = f"'{guard}' comes too late: after {cap} rounds, not {limit}, the loop's cap locks the run"
    hint = f"set max_rounds of the loop '{loop.id}' to {limit} or more, or let '{guard}' count to less"
    report.add(_place(loop, guard).diagnostic("warning", "guard-above-cap", message, hint))


def _place(loop: Loop, guard: str) -> Place:
    """Where in the file the guard is: a node, or the first of the edges that bound the loop."""
    nodes = (node.node.at for node in loop.nodes if node.id == guard)
    edges = (edge.edge.at for edge in loop.edges() if guard.startswith(str(edge.edge)))
    return next(chain(nodes, edges))
