"""Which wires pass through which frames.

A wire leaves every loop that it does not share with its target by the bottom, joins two parts of the first
group that holds both ends, and comes into every loop around its target by the top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roundel.drawing.caption import edge_words
from roundel.drawing.measure import text_width, wrap
from roundel.drawing.nesting import Group, Part, Wire, paths, wires

START, VOTE = -1, -2
"""Stand for nodes: where the input comes from, and where votes are counted."""
LABEL_SIZE, LABEL_LINE, LABEL_WIDTH = 11, 14, 140


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    source: int
    target: int
    wire: Wire | None = None
    """None where it comes from the start, or goes to the vote."""
    label: tuple[str, ...] = ()

    @property
    def label_width(self) -> float:
        return max(text_width(line, LABEL_SIZE) for line in self.label) + 14 if self.label else 0

    @property
    def label_height(self) -> float:
        return len(self.label) * LABEL_LINE + 6 if self.label else 0


@dataclass(slots=True, eq=False)
class Routes:
    """The ways of one graph."""

    group: Group
    homes: dict[int, list[Group]]
    ways: list[Way]
    ins: dict[Group, list[Way]] = field(default_factory=dict)
    outs: dict[Group, list[Way]] = field(default_factory=dict)
    within: dict[Group, list[Way]] = field(default_factory=dict)

    @property
    def pieces(self) -> int:
        """How many there are to lay out: an edge has one in each frame that it crosses."""
        return sum(len(ways) for kind in (self.ins, self.outs, self.within) for ways in kind.values())

    def parts(self, group: Group) -> list[Part]:
        """Those of the group, and the marks around a whole graph."""
        if group is not self.group:
            return list(group.parts)
        last = max(part.layer for part in group.parts)
        marks = [] if group.bare else [Part(-1, (START,), None)]
        if group.graph.graph.is_majority_voting:
            marks.append(Part(last + 1, (VOTE,), None))
        return [*marks, *group.parts]

    def groups_of(self, way: Way) -> tuple[list[Group], Group, list[Group]]:
        """The groups that it leaves, from within; the one whose parts it joins; those that it comes into."""
        source, target = self.homes[way.source], self.homes[way.target]
        shared = sum(1 for one, other in zip(source, target, strict=False) if one is other)
        return source[shared:][::-1], source[shared - 1], target[shared:]


def find_routes(group: Group) -> Routes:
    homes = {**paths(group), START: [group], VOTE: [group]}
    routes = Routes(group, homes, _ways(group))
    for way in routes.ways:
        left, middle, entered = routes.groups_of(way)
        for inner in left:
            routes.outs.setdefault(inner, []).append(way)
        for inner in entered:
            routes.ins.setdefault(inner, []).append(way)
        routes.within.setdefault(middle, []).append(way)
    return routes


def _ways(group: Group) -> list[Way]:
    graph = group.graph
    starts = [] if group.bare else [Way(START, node) for node in graph.start]
    votes = [Way(node, VOTE) for node in graph.ends] if graph.graph.is_majority_voting else []
    return [*starts, *(_way(wire) for wire in wires(group)), *votes]


def _way(wire: Wire) -> Way:
    words = edge_words(wire.edge.edge)
    label = wrap(words, LABEL_SIZE, LABEL_WIDTH, 3) if words else ()
    return Way(wire.edge.source, wire.edge.target, wire, label)
