"""Keys of what is drawn, and the nodes that a reader has collapsed.

A node with graphs inside is drawn open, as a region around them, or collapsed, as a single card. A reader
names the nodes to collapse by their keys, and a layout needs the parts that they stand for before it
begins. Both sides get their keys from `Keys`, in the same order, so a key never changes when another node
is collapsed: only the keys below the collapsed node are missing then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from roundel.drawing.drawing import Contents
from roundel.drawing.labels import Labels
from roundel.drawing.nesting import Group, GroupPart, Problems
from roundel.workflow.diagnostics import Diagnostic


class Keys:
    """Gives unique keys within one drawing."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._requested: dict[str, int] = {}
        """How many times each key was requested."""

    def key(self, wanted: str) -> str:
        """A unique key: a file with errors may use an id twice, and bodies of a node may share ids.

        A requested key never ends with `#` and a number, since labels of nodes write that character as
        %23. So a numbered key cannot collide with another one.
        """
        wanted = self._labels.safe(wanted)
        number = self._requested[wanted] = self._requested.get(wanted, 0) + 1
        return wanted if number == 1 else f"{wanted}#{number}"

    def of_nodes(self, group: Group, prefix: str) -> dict[int, str]:
        """The keys of the nodes of a graph. `prefix` names the nodes that contain the graph.

        Keys are given in the order of the drawing, not of the file: which of two equal ids gets a number
        must not depend on the file.
        """
        by_order = sorted(group.graph.nodes, key=lambda node: group.order.place[node.index])
        return {node.index: self.key(prefix + node.label) for node in by_order}


Collapsed = Mapping[GroupPart, Contents]
"""The parts that are drawn as single cards, and what their graphs contain."""


def find_collapsed(top: Group, labels: Labels, wanted: Collection[str]) -> dict[GroupPart, Contents]:
    """The parts with these keys. Keys of other nodes are ignored: the text may have changed since a
    reader collapsed them."""
    found: dict[GroupPart, Contents] = {}
    if not wanted:
        return found
    keys = Keys(labels)
    pending = [(top, "")]
    for group, prefix in pending:  # grows while we walk it
        names = keys.of_nodes(group, prefix)
        for part in _parts(group):
            if part.node is None or not part.bodies:
                continue
            key = names[part.node.index]
            if key in wanted:
                found[part] = _contents(part)
            else:
                pending += [(body, f"{key}/") for body in part.bodies]
    return found


def visible_graphs(top: Group, collapsed: Collection[GroupPart]) -> Iterator[Group]:
    """The graphs that are laid out."""
    yield top
    for part in _parts(top):
        if part not in collapsed:
            for body in part.bodies:
                yield from visible_graphs(body, collapsed)


def problems_inside(part: GroupPart, problems: Problems) -> Iterator[Diagnostic]:
    """What is wrong inside a node. A problem of a loop may be that of one of its edges, too."""
    for group in _graphs(part):
        for loop in group.loops():
            yield from problems.loops.get(loop, ())
        for node in group.graph.nodes:
            yield from problems.nodes.get(node, ())
        for edge in group.graph.edges:
            yield from problems.edges.get(edge, ())


def _contents(part: GroupPart) -> Contents:
    groups = list(_graphs(part))
    nodes = [node for group in groups for node in group.graph.nodes]
    loops = sum(1 for group in groups for _ in group.loops()) + sum(node.kind.loops for node in nodes)
    return Contents(nodes=len(nodes), edges=sum(len(group.graph.edges) for group in groups), loops=loops)


def _parts(group: Group) -> Iterable[GroupPart]:
    """The parts of a graph and of its loops."""
    return chain.from_iterable(one.parts for one in (group, *group.loops()))


def _graphs(part: GroupPart) -> Iterator[Group]:
    return chain.from_iterable(body.graphs() for body in part.bodies)
