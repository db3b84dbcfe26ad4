"""One frame of the drawing: a graph or a loop with its parts in ranks, as large as it must be.

Ranks take turns: one of channels (even), one of parts (odd). In a channel an edge bends, and its label
stands beside those of the others as an item of its own, so that nothing lies on anything else. What leads
upwards, above all the back edges of a loop, runs in lanes on the right. Between the lane and a part that
is not the rightmost of its rank it runs in a track of its own, below or above that rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from roundel.drawing.caption import node_words, one_line
from roundel.drawing.measure import text_width
from roundel.drawing.nesting import Group, Part
from roundel.drawing.ranks import Item, Link
from roundel.drawing.routes import START, Routes, Way

if TYPE_CHECKING:
    from roundel.drawing.row import Row

PAD = 18
NODE_HEIGHT = 46
NODE_WIDTH = (120.0, 240.0)
NODE_STEP = 24
"""Few different widths look calmer than many."""
NODE_TEXT = 58
"""What a node's box is wider than its text: the icon, and some air."""
ID_SIZE, TYPE_SIZE = 13, 11
TITLE_LINE = 20
MARK = {START: (52.0, 22.0)}
VOTE_SIZE = (104.0, 26.0)
BULGE = 26
"""How far a self-edge reaches."""


@dataclass(slots=True, eq=False)
class Frame:
    group: Group
    routes: Routes
    title: tuple[str, ...]
    ranks: list[list[Item]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    cells: dict[Part, Item] = field(default_factory=dict)
    owners: dict[int, Part] = field(default_factory=dict)
    """The part that each node stands in."""
    inner: dict[Part, Frame] = field(default_factory=dict)
    """The loops."""
    rows: dict[Part, Row] = field(default_factory=dict)
    """The nodes with graphs inside."""
    strands: dict[Way, list[Item]] = field(default_factory=dict)
    """The items of a way, from the top down."""
    labels: dict[Way, Item] = field(default_factory=dict)
    selves: dict[Part, list[Way]] = field(default_factory=dict)
    lanes: dict[Way, float] = field(default_factory=dict)
    """The x of a way upwards; inner lanes first."""
    below: dict[Way, float] = field(default_factory=dict)
    """The y of a way's track below its source; none where it leaves on the right."""
    above: dict[Way, float] = field(default_factory=dict)
    tops: list[float] = field(default_factory=list)
    bottoms: list[float] = field(default_factory=list)
    ins: dict[Way, float] = field(default_factory=dict)
    outs: dict[Way, float] = field(default_factory=dict)
    title_x: float = PAD
    width: float = 0
    height: float = 0
    x: float = 0
    y: float = 0

    def part(self, node: int) -> Part:
        return self.owners[node]

    def cell(self, node: int) -> Item:
        return self.cells[self.owners[node]]

    def labels_here(self, way: Way) -> bool:
        """A label stands in the frame that its edge begins in."""
        return bool(way.label) and self.routes.homes[way.source][-1] is self.group

    def size(self, part: Part) -> tuple[float, float]:
        held = self.inner.get(part) or self.rows.get(part)
        if held is not None:
            return held.width, held.height
        if part.node is None:
            return MARK.get(part.members[0], VOTE_SIZE)
        texts = (
            text_width(one_line(part.node.id), ID_SIZE, bold=True),
            text_width(node_words(part.node), TYPE_SIZE),
        )
        least, most = NODE_WIDTH
        steps = max(0, ceil((max(texts) + NODE_TEXT - least) / NODE_STEP))
        return min(most, least + steps * NODE_STEP), NODE_HEIGHT

    def port(self, part: Part, way: Way, out: bool) -> float:
        """Where a way meets a part, from the part's x."""
        inner = self.inner.get(part)
        if inner is None:
            return 0
        return (inner.outs if out else inner.ins)[way] - inner.width / 2

    def opens_right(self, part: Part) -> bool:
        """Nothing stands between the part and the lanes."""
        cell = self.cells[part]
        return part.node is not None and part not in self.selves and cell is self.ranks[cell.rank][-1]

    def middle(self, rank: int) -> float:
        return (self.tops[rank] + self.bottoms[rank]) / 2

    def shift(self, x: float, y: float) -> None:
        """Moves the frame, and what is in it, to its place in the drawing."""
        self.x, self.y = x, y
        inside: dict[Part, Frame | Row] = {**self.inner, **self.rows}
        for part, held in inside.items():
            cell = self.cells[part]
            held.shift(x + PAD + cell.x - held.width / 2, y + self.middle(cell.rank) - held.height / 2)


def title_width(title: tuple[str, ...]) -> float:
    sizes = (
        text_width(line, TYPE_SIZE if number else ID_SIZE, not number) for number, line in enumerate(title)
    )
    return max(sizes, default=0)
