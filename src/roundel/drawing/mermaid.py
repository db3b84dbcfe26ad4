"""A workflow as a Mermaid flowchart, for READMEs and issues: GitHub draws it from the text.

Nodes are numbered, so that an id may be any text. Text of a user occurs only in quoted labels: a label
must not be able to change the chart. Mermaid does its own layout; only nesting and labels are shared
with the other formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, count

from roundel.drawing.labels import Labels, Mask
from roundel.drawing.nesting import Group, GroupPart, Problems, Wire, has_error, nest, wires
from roundel.drawing.text import truncate
from roundel.plan.graph import NodePlan, Plan
from roundel.workflow.diagnostics import Diagnostic, Finding
from roundel.workflow.node_type import ERROR_PORT

SHAPES = {
    "human": ("[/", "/]"),
    "python": ("[[", "]]"),
    "literal": ("[", "]"),
    "passthrough": ("[", "]"),
}
GUARD = ("{{", "}}")
ROUNDED = ("(", ")")
# No fills, since GitHub draws on white and on black. The classes are not called `start` and `end`, since
# `end` is a keyword of Mermaid.
CLASSES = {
    "first": "stroke:#16a34a,stroke-width:3px",
    "last": "stroke:#7c3aed,stroke-width:3px",
    "loop": "stroke:#ea580c,stroke-dasharray:6 4",
    "fault": "stroke:#dc2626,stroke-width:3px,stroke-dasharray:4 3",
}
BACK = "stroke:#ea580c,stroke-width:2px"
FAULT = "stroke:#dc2626,stroke-width:2px"
FAILURE = "stroke:#be185d"
DASHES = "stroke-dasharray:9 3 2 3"

# Inside quotes Mermaid still interprets markdown, entities and its own directives. Letters, and marks
# between letters, are safe; every other ASCII character is written as its number.
_SAFE = re.compile(r"[^\W_]|[ ,()/']|(?<=[^\W_])[_.-](?=[^\W_])|:(?= )")


def mermaid(plan: Plan, findings: Iterable[Finding] = (), *, mask: Mask = str) -> str:
    group, labels = nest(plan.graph), Labels(mask, draft=plan.draft)
    return "\n".join(_Chart(group, labels, Problems(group, findings)).lines())


class _Chart:
    """Writes one chart. Edges are collected and written last, since `linkStyle` numbers them in that
    order."""

    def __init__(self, group: Group, labels: Labels, problems: Problems) -> None:
        self.group = group
        self.labels = labels
        self.problems = problems
        self.numbers = count()
        self.loops: list[str] = []
        """The names of the blocks of loops."""
        self.faults: list[str] = []
        self.edges: list[str] = []
        self.edge_styles: dict[str, list[int]] = {}
        """The edges of each style, by number."""

    def lines(self) -> Iterator[str]:
        yield "flowchart TD"
        note = self.labels.voting(self.group.graph)
        if note:
            yield from self._block("vote", note, self._parts(self.group))
        else:
            yield from self._parts(self.group)
        self._connect(self.group)
        yield from self.edges
        yield from self._styles()

    def _parts(self, group: Group) -> Iterator[str]:
        for part in group.parts:
            if part.node is not None:
                yield from self._node(part, part.node, self._marked_id(part.node, group))
            elif part.inner is not None:
                yield from self._loop(part.inner)

    def _node(self, part: GroupPart, node: NodePlan, shown: str) -> Iterator[str]:
        shown += self._warned(_name(node), self.problems.nodes.get(node, ()))
        if not part.bodies:
            opening, closing = _shape(node)
            label = f"{quoted(shown)[:-1]}<br/>{quoted(self.labels.node(node))[1:]}"
            yield f"    {_name(node)}{opening}{label}{closing}"
            return
        if node.kind.loops:
            self.loops.append(_name(node))
        title = " · ".join((shown, *self.labels.container(node)))
        inside = chain.from_iterable(self._parts(body) for body in part.bodies)
        yield from self._block(_name(node), title, inside)
        for body in part.bodies:
            self._connect(body)

    def _loop(self, loop: Group) -> Iterator[str]:
        assert loop.entry is not None
        name = f"loop{next(self.numbers)}"
        self.loops.append(name)
        title = f"loop {self._short(loop.entry)} · {self.labels.loop(loop)}"
        title += self._warned(name, self.problems.loops.get(loop, ()))
        yield from self._block(name, title, self._parts(loop))

    def _block(self, name: str, title: str, inside: Iterator[str]) -> Iterator[str]:
        yield f"    subgraph {name}[{quoted(title)}]"
        yield "        direction TB"
        for line in inside:
            yield f"    {line}"
        yield "    end"

    def _connect(self, group: Group) -> None:
        """Adds the edges of a graph, and notes the numbers of those with a style of their own."""
        nodes = group.graph.nodes
        for wire in wires(group):
            edge = wire.edge.edge
            wrong = has_error(self.problems.edges.get(wire.edge, ()))
            style = _style(wire, wrong)
            if style:
                self.edge_styles.setdefault(style, []).append(len(self.edges))
            signs = ("✗" if wrong else "", "↺" if wire.back else "")
            words = " ".join(filter(None, (*signs, self.labels.edge(edge))))
            label = f"|{quoted(words)}|" if words else ""
            arrow = "-->" if edge.trigger else "-.->"
            source, target = _name(nodes[wire.edge.source]), _name(nodes[wire.edge.target])
            self.edges.append(f"    {source} {arrow}{label} {target}")

    def _warned(self, name: str, found: Iterable[Diagnostic]) -> str:
        """The mark of something with an error; notes its name for the style."""
        if not has_error(found):
            return ""
        self.faults.append(name)
        return " ✗"

    def _styles(self) -> Iterator[str]:
        used = {"loop": self.loops, **_classes(self.group), "fault": self.faults}
        for name, members in used.items():
            if members:
                yield f"    classDef {name} {CLASSES[name]}"
                yield f"    class {','.join(members)} {name}"
        for style, numbers in sorted(self.edge_styles.items(), reverse=True):
            yield f"    linkStyle {','.join(map(str, numbers))} {style}"

    def _marked_id(self, node: NodePlan, group: Group) -> str:
        return f"{'▶ ' if group.starts(node) else ''}{self._short(node)}{' ■' if group.ends(node) else ''}"

    def _short(self, node: NodePlan) -> str:
        return truncate(self.labels.line(node.id))


def _classes(top: Group) -> dict[str, list[str]]:
    """Start and end nodes; a node that is both has the style of a start, since a node has one border."""
    graphs = [group for group in top.graphs() if not group.bare]
    starts = [_name(group.graph.nodes[node]) for group in graphs for node in group.graph.start]
    ends = [_name(group.graph.nodes[node]) for group in graphs for node in group.graph.ends]
    first = set(starts)
    return {"first": starts, "last": [name for name in ends if name not in first]}


def _style(wire: Wire, wrong: bool) -> str:
    """The style of an edge, of which it can have one; that of an error in the file matters most."""
    if wrong:
        return FAULT
    explicit = wire.edge.explicit
    colour = FAILURE if explicit and wire.edge.port == ERROR_PORT else BACK if wire.back else ""
    return ",".join(filter(None, (colour, DASHES if explicit else "")))


def quoted(text: str) -> str:
    """A label that shows exactly this text, whatever it contains."""
    text = text.replace("$$", "$\N{ZERO WIDTH SPACE}$")  # `$$` begins a formula, even as numbers
    shown = (
        char if not char.isascii() or _SAFE.match(text, at) else f"#{ord(char)};"
        for at, char in enumerate(text)
    )
    return f'"{"".join(shown)}"'


def _shape(node: NodePlan) -> tuple[str, str]:
    return GUARD if node.kind.guard else SHAPES.get(node.kind.name, ROUNDED)


def _name(node: NodePlan) -> str:
    # The site is unique in the whole workflow, also across graphs inside nodes.
    return f"n{node.site}"
