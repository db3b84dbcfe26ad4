"""Reports the loops whose analysis does not fit into the budget of the survey."""

from __future__ import annotations

from collections.abc import Sequence

from roundel.plan.graph import GraphPlan, NodePlan
from roundel.plan.loops import Unseen, survey
from roundel.workflow.diagnostics import Diagnostic, Report

MOST_LISTED = 5
HINT = (
    "let fewer edges lead back, or move parts of the loop into subgraphs; "
    "limits: {steps: …} bounds a run whatever its loops do"
)


def check_unseen(graph: GraphPlan, report: Report) -> None:
    """Warns once for each outermost loop that has not been analysed, or not with all that is inside it."""
    outermost = {node: unit.index for unit in graph.root.units for node in unit.members}
    missed: dict[int, list[Unseen]] = {}
    for unseen in survey(graph).unseen:
        missed.setdefault(outermost[unseen.unit.members[0]], []).append(unseen)
    for group in missed.values():
        report.add(_not_analysed(graph, group))


def _not_analysed(graph: GraphPlan, missed: list[Unseen]) -> Diagnostic:
    units = {id(unseen.unit): unseen.unit for unseen in missed}
    members = sorted({member for unit in units.values() for member in unit.members})
    entries = {unseen.entry.index: unseen.entry for unseen in missed}
    message = (
        f"too many loops to analyse, or too large ones, among {named([graph.nodes[at] for at in members])}: "
        f"those that are entered at {named(list(entries.values()))}, as far as they are not listed, and the "
        "loops inside them have not been analysed; nothing but their caps is known to end them, and "
        "mistakes in them show only when they run"
    )
    return missed[0].entry.node.at.diagnostic("warning", "loops-not-analysed", message, HINT)


def named(nodes: Sequence[NodePlan], most: int = MOST_LISTED) -> str:
    """Their ids; the first of them if there are many."""
    shown = ", ".join(f"'{node.id}'" for node in nodes[:most])
    return shown if len(nodes) <= most else f"{shown} and {len(nodes) - most} more"
