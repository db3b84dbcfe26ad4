"""A workflow as a tree of text: graphs and loops are branches, edges stand under the node they leave."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from roundel.drawing.caption import (
    counts,
    edge_words,
    graph_title,
    loop_bounds,
    node_words,
    one_line,
    own_bounds,
    voting_words,
)
from roundel.drawing.nesting import Group, Part, Wire, nest, wires
from roundel.plan.graph import GraphPlan, NodePlan, Plan

Wires = dict[int, list[Wire]]
"""By the node that they leave."""


def tree(plan: Plan) -> Tree:
    group = nest(plan.graph)
    top = Tree(_title(plan, group), guide_style="dim")
    _add_graph(top, group)
    return top


def _title(plan: Plan, group: Group) -> Text:
    title = Text.assemble((graph_title(plan), "bold"), (f"  {counts(group)}", "dim"))
    return _with_voting(title, plan.graph)


def _with_voting(line: Text, graph: GraphPlan) -> Text:
    words = voting_words(graph)
    return line.append(f"  {words}", "magenta") if words else line


def _add_graph(branch: Tree, group: Group) -> None:
    leaving: Wires = {}
    for wire in wires(group):
        leaving.setdefault(wire.edge.source, []).append(wire)
    _add_parts(branch, group, leaving)


def _add_parts(branch: Tree, group: Group, leaving: Wires) -> None:
    for part in group.parts:
        if part.node is not None:
            _add_node(branch, part, _node_line(part.node, group), leaving.get(part.node.index, []))
        elif part.inner is not None:
            _add_parts(branch.add(_loop_line(part.inner)), part.inner, leaving)


def _loop_line(loop: Group) -> Text:
    assert loop.entry is not None
    members = ", ".join(one_line(node.id) for node in loop.members)
    return Text.assemble(
        ("loop ", "yellow"),
        (one_line(loop.entry.id), "bold yellow"),
        f": {members}",
        (f"  {loop_bounds(loop)}", "dim"),
    )


def _add_node(branch: Tree, part: Part, line: Text, leaving: list[Wire]) -> None:
    for body in part.bodies:
        line = _with_voting(line, body.graph)
    twig = branch.add(line)
    for wire in leaving:
        twig.add(_edge_line(wire))
    for body in part.bodies:
        _add_graph(twig, body)


def _node_line(node: NodePlan, group: Group) -> Text:
    line, bound = Text(), own_bounds(node)
    if group.starts(node):
        line.append("▶ ", "green")
    line.append(one_line(node.id), "bold yellow" if bound else "bold").append(f"  {node_words(node)}", "cyan")
    marks = [name for name, holds in (("start", group.starts(node)), ("end", group.ends(node))) if holds]
    if marks:
        line.append(f"  ({', '.join(marks)})", "green")
    return line.append(f"  {bound}", "dim") if bound else line


def _edge_line(wire: Wire) -> Text:
    edge = wire.edge.edge
    sign = ("⇥" if wire.leaves else "") + ("↺" if wire.back else "")
    colour = "yellow" if wire.back else "green" if wire.leaves else ""
    words = " · ".join(filter(None, (edge_words(edge), "" if edge.trigger else "does not trigger")))
    line = Text.assemble((f"{sign or ('→' if edge.trigger else '⇢')} {one_line(edge.target)}", colour))
    return line.append(f" [{words}]", "dim") if words else line
