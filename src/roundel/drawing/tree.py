"""A workflow as a tree of text: graphs and loops are branches, and edges are below the node that they
leave.

Nodes of a layer and the edges of a node are in the order of the file, unlike in the picture, so that the
tree reads like the file. It needs no layout, so it can be larger than a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text
from rich.tree import Tree

from roundel.drawing.labels import Labels, Mask
from roundel.drawing.nesting import Group, GroupPart, Problems, Wire, nest, wires
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.workflow.diagnostics import Diagnostic, Finding
from roundel.workflow.graph_reader import is_missing
from roundel.workflow.node_type import ERROR_PORT

Wires = dict[int, list[Wire]]
"""Edges by the node that they leave."""


def tree(plan: Plan, findings: Iterable[Finding] = (), *, mask: Mask = str) -> Tree:
    group = nest(plan.graph)
    return _Branches(Labels(mask, draft=plan.draft), Problems(group, findings)).tree(plan, group)


class _Branches:
    """Builds the branches of one tree."""

    def __init__(self, labels: Labels, problems: Problems) -> None:
        self.labels = labels
        self.problems = problems

    def tree(self, plan: Plan, group: Group) -> Tree:
        title = Text.assemble((self.labels.title(plan), "bold"), (f"  {self.labels.counts(group)}", "dim"))
        top = Tree(self._with_voting(title, plan.graph), guide_style="dim")
        self._add_graph(top, group)
        return top

    def _with_voting(self, line: Text, graph: GraphPlan) -> Text:
        words = self.labels.voting(graph)
        return line.append(f"  {words}", "magenta") if words else line

    def _with_problems(self, line: Text, found: Sequence[Diagnostic]) -> Text:
        words = self.labels.problems(found)
        return line.append(f"  ✗ {words}", "red") if words else line

    def _add_graph(self, branch: Tree, group: Group) -> None:
        leaving: Wires = {}
        for wire in wires(group):
            leaving.setdefault(wire.edge.source, []).append(wire)
        self._add_parts(branch, group, leaving)

    def _add_parts(self, branch: Tree, group: Group, leaving: Wires) -> None:
        for part in group.parts:
            if part.node is not None:
                line = self._node_line(part.node, group)
                self._add_node(branch, part, line, leaving.get(part.node.index, []))
            elif part.inner is not None:
                self._add_parts(branch.add(self._loop_line(part.inner)), part.inner, leaving)

    def _loop_line(self, loop: Group) -> Text:
        assert loop.entry is not None
        members = ", ".join(self.labels.line(node.id) for node in loop.members)
        line = Text.assemble(
            ("loop ", "yellow"),
            (self.labels.line(loop.entry.id), "bold yellow"),
            f": {members}",
            (f"  {self.labels.loop(loop)}", "dim"),
        )
        return self._with_problems(line, self.problems.loops.get(loop, ()))

    def _add_node(self, branch: Tree, part: GroupPart, line: Text, leaving: list[Wire]) -> None:
        for body in part.bodies:
            line = self._with_voting(line, body.graph)
        assert part.node is not None
        twig = branch.add(self._with_problems(line, self.problems.nodes.get(part.node, ())))
        for wire in leaving:
            twig.add(self._edge_line(wire))
        for body in part.bodies:
            self._add_graph(twig, body)

    def _node_line(self, node: NodePlan, group: Group) -> Text:
        line, bound = Text(), self.labels.own_bound(node)
        if group.starts(node):
            line.append("▶ ", "green")
        line.append(self.labels.line(node.id), "bold yellow" if bound else "bold")
        line.append(f"  {self.labels.node(node)}", "red" if is_missing(node.node) else "cyan")
        roles = (("start", group.starts(node)), ("end", group.ends(node)))
        marks = [name for name, applies in roles if applies]
        if marks:
            line.append(f"  ({', '.join(marks)})", "green")
        return line.append(f"  {bound}", "dim") if bound else line

    def _edge_line(self, wire: Wire) -> Text:
        """An edge by its target: ↺ begins the next round, ⇥ leaves a loop, ⇢ carries only data, ⤳ is taken
        only by a failure, a timeout or an exit."""
        edge = wire.edge.edge
        sign = ("⇥" if wire.leaves else "") + ("↺" if wire.back else "")
        colour = "yellow" if wire.back else "green" if wire.leaves else ""
        if wire.edge.explicit and edge.trigger:
            sign += "⤳"
            colour = "red" if edge.port == ERROR_PORT else colour
        words = " · ".join(filter(None, (self.labels.edge(edge), "" if edge.trigger else "does not trigger")))
        line = Text.assemble(
            (f"{sign or ('→' if edge.trigger else '⇢')} {self.labels.line(edge.target)}", colour)
        )
        if words:
            line.append(f" [{words}]", "dim")
        return self._with_problems(line, self.problems.edges.get(wire.edge, ()))
