"""A workflow as a tree of text: graphs and loops are branches, edges stand under the node they leave."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from roundel.cli.drawing.caption import (
    edge_words,
    graph_title,
    loop_bounds,
    node_words,
    one_line,
    voting_words,
)
from roundel.cli.drawing.nesting import Group, Part, Wire, nest, wires
from roundel.plan.graph import GraphPlan, NodePlan, Plan

Wires = dict[int, list[Wire]]
"""By the node that they leave."""


def tree(plan: Plan) -> Tree:
    group = nest(plan.graph)
    top = Tree(_title(plan, group), guide_style="dim")
    _add_graph(top, group)
    return top


def _title(plan: Plan, group: Group) -> Text:
    loops = sum(1 for _ in group.loops())
    counts = ((len(plan.graph.nodes), "node"), (len(plan.graph.edges), "edge"), (loops, "loop"))
    told = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    title = Text.assemble((graph_title(plan), "bold"), (f"  {told}", "dim"))
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
            _add_node(branch, part, part.node, group.graph, leaving)
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


def _add_node(branch: Tree, part: Part, node: NodePlan, graph: GraphPlan, leaving: Wires) -> None:
    line = _node_line(node, graph)
    if node.body is not None:
        line = _with_voting(line, node.body)
    twig = branch.add(line)
    for wire in leaving.get(node.index, ()):
        twig.add(_edge_line(wire))
    if part.inner is not None:
        _add_graph(twig, part.inner)


def _node_line(node: NodePlan, graph: GraphPlan) -> Text:
    line = Text()
    if node.index in graph.start:
        line.append("▶ ", "green")
    line.append(one_line(node.id), "bold").append(f"  {node_words(node)}", "cyan")
    marks = [name for name, nodes in (("start", graph.start), ("end", graph.ends)) if node.index in nodes]
    return line.append(f"  ({', '.join(marks)})", "green") if marks else line


def _edge_line(wire: Wire) -> Text:
    edge = wire.edge.edge
    sign = ("⇥" if wire.leaves else "") + ("↺" if wire.back else "")
    colour = "yellow" if wire.back else "green" if wire.leaves else ""
    words = " · ".join(filter(None, (edge_words(edge), "" if edge.trigger else "does not trigger")))
    line = Text.assemble((f"{sign or ('→' if edge.trigger else '⇢')} {one_line(edge.target)}", colour))
    return line.append(f" [{words}]", "dim") if words else line
