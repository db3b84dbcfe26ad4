"""Frames: a graph or a loop with its parts in ranks, and the measures of both densities.

Ranks alternate: one of channels (even), one of parts (odd). In a channel a connector bends, and its label is
an item beside the others, so that nothing lies on anything else. What leads upwards, above all the back edges
of a loop, runs in lanes on the right. Between its lane and a part that is not the rightmost of its rank, it
runs in a track of its own, below or above that rank.

layout.py fills frames, inner ones first; drawing.py reads coordinates from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from msgspec import Struct

from roundel.drawing.drawing import Density
from roundel.drawing.labels import Labels
from roundel.drawing.nesting import Group, Part
from roundel.drawing.ranks import Item, Link
from roundel.drawing.routes import START, Connector, Wiring
from roundel.drawing.text import fit, text_width


class Measures(Struct, frozen=True, kw_only=True):
    """The sizes of one density, in pixels."""

    pad: float
    """Between a frame and what is in it."""
    node_height: float
    node_widths: tuple[float, float, float]
    """The least, the most, and the step between them: few different widths look calmer than many."""
    node_text: float
    """How much wider a node is than its text: the icon, and some air."""
    icon: float
    """The side of the square that holds the icon."""
    id_size: float
    type_size: float
    title_line: float
    title_width: float
    """Longer titles are cut, unless the frame is wider than they are."""
    label_size: float
    label_line: float
    label_width: float
    label_lines: int
    label_pad: float
    """How much wider a label is than its text."""
    start: tuple[float, float]
    vote: tuple[float, float]
    bulge: float
    """How far a self-edge reaches."""
    track: float
    """The height of a track."""
    stub: float
    """The height of the line that leaves a part."""
    head: float
    """The height of the line with the arrow head that meets a part."""
    bend: tuple[float, float, float]
    """The height of a bend: where all lines are straight, the least, and the most."""
    part_margin: float
    line_margin: float
    lane: float
    """Half of the room that a lane without a label takes."""
    lane_gap: float
    """Between the rightmost part and the lanes."""
    abreast: int
    """How many bodies of a node stand side by side."""

    def text_height(self, lines: int) -> float:
        return lines * self.label_line + (self.label_line - self.label_size) * 2 if lines else 0


MEASURES: dict[Density, Measures] = {
    "normal": Measures(
        pad=18,
        node_height=46,
        node_widths=(120, 240, 24),
        node_text=58,
        icon=28,
        id_size=13,
        type_size=11,
        title_line=20,
        title_width=1000,
        label_size=11,
        label_line=14,
        label_width=140,
        label_lines=3,
        label_pad=14,
        start=(52, 22),
        vote=(104, 26),
        bulge=26,
        track=9,
        stub=11,
        head=13,
        bend=(11, 11, 34),
        part_margin=15,
        line_margin=7,
        lane=8,
        lane_gap=10,
        abreast=4,
    ),
    # For a pane of about 440 pixels beside other panes.
    "compact": Measures(
        pad=12,
        node_height=38,
        node_widths=(96, 176, 16),
        node_text=44,
        icon=22,
        id_size=12,
        type_size=10.5,
        title_line=16,
        title_width=240,
        label_size=10.5,
        label_line=13,
        label_width=96,
        label_lines=1,
        label_pad=11,
        start=(44, 18),
        vote=(96, 20),
        bulge=20,
        track=7,
        stub=5,
        head=11,
        bend=(2, 8, 20),
        part_margin=9,
        line_margin=5,
        lane=6,
        lane_gap=6,
        abreast=2,
    ),
}


@dataclass(slots=True, eq=False)
class Frame:
    """One graph or loop. It is as large as its parts need; `shift` gives it its place in the drawing."""

    group: Group
    wiring: Wiring
    measures: Measures
    labels: Labels
    title: tuple[str, ...]
    ranks: list[list[Item]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    cells: dict[Part, Item] = field(default_factory=dict)
    sizes: dict[Part, tuple[float, float]] = field(default_factory=dict)
    owners: dict[int, Part] = field(default_factory=dict)
    """The part that each node stands in."""
    inner: dict[Part, Frame] = field(default_factory=dict)
    """The loops."""
    rows: dict[Part, Row] = field(default_factory=dict)
    """The nodes with graphs inside."""
    strands: dict[Connector, list[Item]] = field(default_factory=dict)
    """The items of a connector, from the top down."""
    label_items: dict[Connector, Item] = field(default_factory=dict)
    selves: dict[Part, list[Connector]] = field(default_factory=dict)
    lanes: dict[Connector, float] = field(default_factory=dict)
    """The x of a connector upwards; inner lanes first."""
    below: dict[Connector, float] = field(default_factory=dict)
    """The y of a connector's track below its source; none where it leaves on the right."""
    above: dict[Connector, float] = field(default_factory=dict)
    tops: list[float] = field(default_factory=list)
    bottoms: list[float] = field(default_factory=list)
    ins: dict[Connector, float] = field(default_factory=dict)
    outs: dict[Connector, float] = field(default_factory=dict)
    title_x: float = 0
    width: float = 0
    height: float = 0
    x: float = 0
    y: float = 0

    def part(self, node: int) -> Part:
        return self.owners[node]

    def cell(self, node: int) -> Item:
        return self.cells[self.owners[node]]

    def has_label(self, connector: Connector) -> bool:
        """A label stands in the frame that its edge begins in."""
        return bool(connector.label) and self.wiring.homes[connector.source][-1] is self.group

    def size(self, part: Part) -> tuple[float, float]:
        if part not in self.sizes:
            self.sizes[part] = self._size(part)
        return self.sizes[part]

    def _size(self, part: Part) -> tuple[float, float]:
        held = self.inner.get(part) or self.rows.get(part)
        if held is not None:
            return held.width, held.height
        m = self.measures
        if part.node is None:
            return m.start if part.members[0] == START else m.vote
        texts = (
            text_width(self.labels.line(part.node.id), m.id_size, bold=True),
            text_width(self.labels.node(part.node), m.type_size),
        )
        least, most, step = m.node_widths
        steps = max(0, ceil((max(texts) + m.node_text - least) / step))
        return min(most, least + steps * step), m.node_height

    def port(self, part: Part, connector: Connector, out: bool) -> float:
        """Where a connector meets a part, from the part's x."""
        inner = self.inner.get(part)
        if inner is None:
            return 0
        return (inner.outs if out else inner.ins)[connector] - inner.width / 2

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
            left, top = self.measures.pad + cell.x - held.width / 2, self.middle(cell.rank) - held.height / 2
            held.shift(x + left, y + top)


@dataclass(slots=True, eq=False)
class Row:
    """The graphs inside a node, side by side under its title."""

    title: tuple[str, ...]
    frames: list[Frame]
    measures: Measures
    width: float = 0
    height: float = 0

    def __post_init__(self) -> None:
        m = self.measures
        self.title = fitted(self.title, m, self._widest() - 2 * m.pad)
        self.width = max(self._widest(), title_width(self.title, m) + 2 * m.pad)
        self.height = m.title_line * len(self.title) + sum(_height(line) for line in self._lines())

    def shift(self, x: float, y: float) -> None:
        y += self.measures.title_line * len(self.title)
        for line in self._lines():
            at = x + (self.width - self._widest()) / 2
            for frame in line:
                frame.shift(at, y)
                at += frame.width
            y += _height(line)

    def _widest(self) -> float:
        return max((sum(frame.width for frame in line) for line in self._lines()), default=0)

    def _lines(self) -> list[list[Frame]]:
        most = self.measures.abreast
        return [self.frames[at : at + most] for at in range(0, len(self.frames), most)]


def _height(line: list[Frame]) -> float:
    return max(frame.height for frame in line)


def fitted(title: tuple[str, ...], m: Measures, room: float) -> tuple[str, ...]:
    """A title whose lines are no wider than the room that there is anyway, and not cut without need."""
    room = max(room, m.title_width)
    return tuple(
        fit(line, m.type_size if number else m.id_size, room, bold=not number)
        for number, line in enumerate(title)
    )


def title_width(title: tuple[str, ...], m: Measures) -> float:
    """The first line of a title is an id, the others are captions."""
    sizes = (
        text_width(line, m.type_size if number else m.id_size, not number)
        for number, line in enumerate(title)
    )
    return max(sizes, default=0)
