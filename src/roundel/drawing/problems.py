"""Where the problems of a workflow show in its drawing: at a node, an edge, a loop, or nowhere in particular.

The loader notes which node or edge it was reading when it found something; a check of a plan names the place
of a node or an edge itself. Both are places in a file, and so are matched with the places that nodes and
edges remember. What is wrong with a loop as a whole is shown at its frame.
"""

from __future__ import annotations

from collections.abc import Iterable

from roundel.drawing.nesting import Group, paths
from roundel.plan.graph import EdgePlan, NodePlan
from roundel.workflow.diagnostics import Diagnostic, Finding
from roundel.workflow.drafts import is_missing, is_unread
from roundel.workflow.fields import Place

OF_LOOPS = frozenset({"no-way-out", "unreachable-exit", "only-capped", "loops-not-analysed"})
"""Diagnostics about a loop; their place is its entry, or the edge that should leave it."""

Spot = tuple[str, int, int]


class Problems:
    """The diagnostics of a workflow, by what they are about."""

    def __init__(self, top: Group, findings: Iterable[Finding] = ()) -> None:
        self.nodes: dict[NodePlan, list[Diagnostic]] = {}
        self.edges: dict[EdgePlan, list[Diagnostic]] = {}
        self.loops: dict[Group, list[Diagnostic]] = {}
        self.rest: list[Diagnostic] = []
        """Of the workflow as a whole, or of something that is not drawn."""
        self._spots: dict[Spot, list[NodePlan | EdgePlan]] = {}
        self._homes: dict[NodePlan | EdgePlan, list[Group]] = {}
        findings = list(findings)
        if findings:
            self._locate(top)
        for finding in findings:
            self._add(finding)
        for group in top.graphs():
            for node in group.graph.nodes:
                self._add_stand_in(node)

    def _locate(self, top: Group) -> None:
        for group in top.graphs():
            homes = paths(group)
            for node in group.graph.nodes:
                self._homes[node] = homes[node.index]
                self._spots.setdefault(_spot(node.node.at), []).append(node)
            for edge in group.graph.edges:
                self._homes[edge] = homes[edge.source]
                self._spots.setdefault(_spot(edge.edge.at), []).append(edge)

    def _add(self, finding: Finding) -> None:
        diagnostic = finding.diagnostic
        found = self._spots.get(finding.subject, []) if finding.subject[1] else []
        if not found:
            self.rest.append(diagnostic)
        for item in found:
            if diagnostic.code in OF_LOOPS:
                self._add_to_loop(item, diagnostic)
            elif isinstance(item, NodePlan):
                self.nodes.setdefault(item, []).append(diagnostic)
            if isinstance(item, EdgePlan):
                self.edges.setdefault(item, []).append(diagnostic)

    def _add_to_loop(self, item: NodePlan | EdgePlan, diagnostic: Diagnostic) -> None:
        """The loop that the node enters; for any other node the innermost loop around it."""
        loops = [group for group in self._homes[item] if group.entry is not None]
        entered = [group for group in loops if group.entry is item]
        for loop in (entered or loops)[-1:]:
            self.loops.setdefault(loop, []).append(diagnostic)
        if not loops and isinstance(item, NodePlan):
            self.nodes.setdefault(item, []).append(diagnostic)

    def _add_stand_in(self, node: NodePlan) -> None:
        """A stand-in is always marked, also where no place in a file says why."""
        if is_missing(node.node):
            message = f"there is no node '{node.id}', but an edge, 'start' or 'end' names it"
            self.nodes[node] = [_error("unknown-node", message)]
        elif is_unread(node.node) and node not in self.nodes:
            self.nodes[node] = [_error("unreadable-node", f"node '{node.id}' could not be read")]


def _spot(at: Place) -> Spot:
    return at.file, at.line, at.column


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)


def has_error(found: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in found)
