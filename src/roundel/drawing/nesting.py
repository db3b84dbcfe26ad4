"""The model that all formats draw: graphs contain nodes and loops, loops contain nodes and loops.

How a loop nests depends on the node at which it is entered (plan/scope.py). A drawing shows one nesting,
so it has to choose an entry: a node of `start`, else a node that an edge from outside leads to, else any
node of the loop. Among several it takes the one nearest to `start`, then the first by id. The order of
nodes and edges in the file never decides, so two files that differ only in that order have the same
drawing.

`Problems` assigns diagnostics to nodes, edges and loops. The loader notes which node or edge it was
reading when it found a problem; a check of a plan names the place of a node or an edge itself. Both are
places in a file, so they are matched with the places that nodes and edges remember, and not by the text
of the message. A problem of a loop as a whole is shown at its frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.diagnostics import Diagnostic, Finding
from roundel.workflow.fields import SourceLocation
from roundel.workflow.graph_reader import is_missing, is_placeholder

_DIGITS = re.compile("([0-9]+)")
UNREACHABLE = 10**9
"""The distance from `start` of a node that no path leads to."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupPart:
    """A part of a group: a node, or a loop."""

    layer: int
    members: tuple[int, ...]
    node: NodePlan | None
    """None for a loop, and for the marks that a layout adds around a graph."""
    inner: Group | None = None
    """The loop."""
    bodies: tuple[Group, ...] = ()
    """The graphs inside the node."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A whole graph, or a loop: the content of one frame. `nest` creates it."""

    scope: Scope
    parts: tuple[GroupPart, ...]
    """By layer, then in the order of the file."""
    order: NodeOrder
    bare: bool = False
    """Whether it is one of several bodies, with a single node: it needs no marks for its start and
    end."""

    @property
    def graph(self) -> GraphPlan:
        return self.scope.graph

    @property
    def entry(self) -> NodePlan | None:
        """None for a whole graph."""
        return None if self.scope.entry is None else self.graph.nodes[self.scope.entry]

    @property
    def members(self) -> list[NodePlan]:
        return [self.graph.nodes[index] for index in sorted(self.scope.members)]

    def starts(self, node: NodePlan) -> bool:
        return node.is_start and not self.bare

    def ends(self, node: NodePlan) -> bool:
        return node.is_end and not self.bare

    def graphs(self) -> Iterator[Group]:
        """This graph, then the graphs inside its nodes."""
        yield self
        for part in chain.from_iterable(group.parts for group in (self, *self.loops())):
            for body in part.bodies:
                yield from body.graphs()

    def loops(self) -> Iterator[Group]:
        """The free loops of this graph, outer ones first."""
        for part in self.parts:
            if part.node is None and part.inner is not None:
                yield part.inner
                yield from part.inner.loops()


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """An edge, and its relation to the loops."""

    edge: EdgePlan
    back: bool
    """Whether it leads to the entry of a loop that contains it, and so begins the next round."""
    leaves: bool
    """Whether it leaves a loop."""


class NodeOrder:
    """An order of the nodes of a graph that does not depend on the order of the file; `nest` creates it.

    It is the order of a depth-first search from `start`. That keeps branches together, so a layout that
    begins with it has few crossings. Where the structure leaves a choice, ids decide.
    """

    def __init__(self, graph: GraphPlan) -> None:
        self._names = [(natural_key(node.id), node.id) for node in graph.nodes]
        self._graph = graph
        starts = sorted(set(graph.start), key=self._name)
        self.distance = self._distances(starts)
        self.place = self._searched(starts)
        """The number of each node in this order."""

    def nearest(self, nodes: Iterable[int]) -> int | None:
        """The node with the shortest path from `start`; ids decide between equals."""
        return min(nodes, key=lambda node: (self.distance[node], *self._name(node)), default=None)

    def edge_key(self, edge: EdgePlan) -> tuple[int, int, str, int]:
        # A graph has one edge for each source, target and port. Only a draft of a file with errors may
        # have more; then the index, so the order of the file, decides.
        return self.place[edge.source], self.place[edge.target], edge.port or "", edge.index

    def _name(self, node: int) -> tuple[tuple[tuple[object, ...], str], int]:
        # `1` and `01` have the same natural key, and faulty files may have the same id twice.
        return self._names[node], node

    def _distances(self, starts: list[int]) -> list[int]:
        found = [UNREACHABLE] * len(self._names)
        for node in starts:
            found[node] = 0
        pending = list(starts)
        for node in pending:  # grows while we walk it
            # Only triggers: they decide what runs after what; data edges do not.
            for edge in self._graph.nodes[node].edges:
                if edge.trigger and found[edge.target] == UNREACHABLE:
                    found[edge.target] = found[node] + 1
                    pending.append(edge.target)
        return found

    def _searched(self, starts: list[int]) -> list[int]:
        # A stack, since a recursive search would fail on a long chain of nodes. Nodes that nothing
        # triggers come first among those that `start` does not lead to: they look like starts to a
        # reader.
        remaining = sorted(
            range(len(self._names)), key=lambda node: (self._triggered(node), *self._name(node))
        )
        place = [-1] * len(self._names)
        count = 0
        pending = [*reversed(remaining), *reversed(starts)]
        while pending:
            node = pending.pop()
            if place[node] >= 0:
                continue
            place[node] = count
            count += 1
            following = {edge.target for edge in self._graph.nodes[node].edges if edge.trigger}
            pending += sorted(following, key=self._name, reverse=True)
        return place

    def _triggered(self, node: int) -> bool:
        return any(edge.trigger for edge in self._graph.nodes[node].into)


def natural_key(text: str) -> tuple[object, ...]:
    """A key that sorts `Step 2` before `Step 10`. Numbers may have more digits than int() takes."""
    pieces = _DIGITS.split(text)
    numbers = [piece.lstrip("0") for piece in pieces[1::2]]
    return pieces[0], *(
        (len(number), number, word) for number, word in zip(numbers, pieces[2::2], strict=True)
    )


def nest(graph: GraphPlan) -> Group:
    return _group(graph.root, NodeOrder(graph))


def wires(group: Group) -> list[Wire]:
    """The edges of a graph, in the order of the file."""
    homes = {node: path[-1].scope for node, path in paths(group).items()}
    return [_wire(edge, homes[edge.source]) for edge in group.graph.edges]


def paths(group: Group) -> dict[int, list[Group]]:
    """For each node the groups that contain it, from the graph inwards."""
    found: dict[int, list[Group]] = {}
    pending = [(group, [group])]
    while pending:
        inner, path = pending.pop()
        for part in inner.parts:
            if part.node is not None:
                found[part.node.index] = path
            elif part.inner is not None:
                pending.append((part.inner, [*path, part.inner]))
    return found


def _group(scope: Scope, order: NodeOrder) -> Group:
    return Group(scope, tuple(_part(scope, unit, order) for unit in scope.units), order)


def _part(scope: Scope, unit: Unit, order: NodeOrder) -> GroupPart:
    if unit.node is None:
        inner = _group(scope.inner(unit, _entry(scope.graph, unit, order)), order)
        return GroupPart(unit.layer, unit.members, None, inner)
    bodies = unit.node.bodies
    inside = tuple(_body(body, len(bodies) > 1) for body in bodies)
    return GroupPart(unit.layer, unit.members, unit.node, bodies=inside)


def _body(graph: GraphPlan, among_others: bool) -> Group:
    """The graph inside a node. Participants of a debate, for example, are bodies with a single node."""
    group = nest(graph)
    just_a_node = len(graph.nodes) == 1 and not graph.edges and not graph.graph.is_majority_voting
    return replace(group, bare=True) if among_others and just_a_node else group


def _entry(graph: GraphPlan, loop: Unit, order: NodeOrder) -> int:
    """The entry that the drawing shows; see the head of this module."""
    inside, core = frozenset(loop.members), frozenset(loop.core)

    def entered(counts: Callable[[EdgePlan], bool]) -> Iterator[int]:
        into = (edge for node in core for edge in graph.nodes[node].into)
        return (edge.target for edge in into if edge.source not in inside and counts(edge))

    candidates = (
        core.intersection(graph.start),
        entered(lambda edge: edge.trigger),
        entered(lambda _: True),
        core,
    )
    return next(node for nodes in candidates if (node := order.nearest(nodes)) is not None)


def _wire(edge: EdgePlan, home: Scope) -> Wire:
    leaves = home.loops_left(edge.target)
    # A back edge may leave inner loops first; what counts is the loop that it stays in.
    scope = home
    for _ in range(leaves):
        assert scope.parent is not None
        scope = scope.parent
    return Wire(edge, scope.entry == edge.target, leaves > 0)


LOOP_CODES = frozenset({"no-way-out", "unreachable-exit", "only-capped", "loops-not-analysed"})
"""Diagnostics about a loop; their place is its entry, or the edge that should leave it."""

SourcePosition = tuple[str, int, int]


class Problems:
    """The diagnostics of a workflow, by node, edge and loop; each format creates it."""

    def __init__(self, top: Group, findings: Iterable[Finding] = ()) -> None:
        self.nodes: dict[NodePlan, list[Diagnostic]] = {}
        self.edges: dict[EdgePlan, list[Diagnostic]] = {}
        self.loops: dict[Group, list[Diagnostic]] = {}
        self.general: list[Diagnostic] = []
        """Diagnostics of the workflow as a whole, or of something that is not drawn."""
        self._spots: dict[SourcePosition, list[NodePlan | EdgePlan]] = {}
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
        """Indexes nodes and edges by their place in the file; only needed if there are findings."""
        for group in top.graphs():
            homes = paths(group)
            for node in group.graph.nodes:
                self._homes[node] = homes[node.index]
                self._spots.setdefault(_source_position(node.node.at), []).append(node)
            for edge in group.graph.edges:
                self._homes[edge] = homes[edge.source]
                self._spots.setdefault(_source_position(edge.edge.at), []).append(edge)

    def _add(self, finding: Finding) -> None:
        diagnostic = finding.diagnostic
        # Line 0 means no place. Several nodes may have one place, if a file includes a graph twice.
        found = self._spots.get(finding.subject, []) if finding.subject[1] else []
        if not found:
            self.general.append(diagnostic)
        for item in found:
            if diagnostic.code in LOOP_CODES:
                self._add_to_loop(item, diagnostic)
            elif isinstance(item, NodePlan):
                self.nodes.setdefault(item, []).append(diagnostic)
            if isinstance(item, EdgePlan):
                self.edges.setdefault(item, []).append(diagnostic)

    def _add_to_loop(self, item: NodePlan | EdgePlan, diagnostic: Diagnostic) -> None:
        """Adds to the loop that the node enters; for any other node, to the innermost loop around it."""
        loops = [group for group in self._homes[item] if group.entry is not None]
        entered = [group for group in loops if group.entry is item]
        for loop in (entered or loops)[-1:]:
            self.loops.setdefault(loop, []).append(diagnostic)
        if not loops and isinstance(item, NodePlan):
            self.nodes.setdefault(item, []).append(diagnostic)

    def _add_stand_in(self, node: NodePlan) -> None:
        """Marks a stand-in, even if no finding with its place says why."""
        if is_missing(node.node):
            message = f"there is no node '{node.id}', but an edge, 'start' or 'end' names it"
            self.nodes[node] = [_error("unknown-node", message)]
        elif is_placeholder(node.node) and node not in self.nodes:
            self.nodes[node] = [_error("unreadable-node", f"node '{node.id}' could not be read")]


def _source_position(at: SourceLocation) -> SourcePosition:
    return at.file, at.line, at.column


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)


def has_error(found: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in found)
