"""Builds frames, inner ones first: a graph or a loop with its parts in ranks, and the measures of both
densities.

Each frame is laid out by itself, as if it were alone. A loop is then one wide part of the frame around
it, which meets the loop's border where the connectors cross it. So a loop looks the same everywhere, and
the layout of a part never depends on what surrounds it.

Ranks alternate: channels (even numbers) and parts (odd numbers). In a channel a connector bends, and its
label is an item beside the others, so that nothing overlaps: lines and labels are items of a rank like
nodes. Connectors that lead upwards, above all the back edges of a loop, run in lanes on the right.
Between its lane and a part that is not the rightmost of its rank, such a connector runs in a track of
its own, below or above that rank.

The steps for one frame (`Layout._build_frame`) depend on each other in this order: cells, strands, the
order in ranks, x, lanes (they need the widths), y (it needs the tracks), borders and title (they need
both).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

from msgspec import Struct

from roundel.drawing.collapse import Collapsed
from roundel.drawing.drawing import Density
from roundel.drawing.labels import Labels
from roundel.drawing.nesting import Group, GroupPart
from roundel.drawing.ranks import Link, RankItem, arrange, place
from roundel.drawing.routes import START, Connector, Wiring, rank_of, wiring_of
from roundel.drawing.text import fit, text_width
from roundel.plan.graph import NodePlan


class DensityMeasures(Struct, frozen=True, kw_only=True):
    """The sizes of one density, in pixels."""

    pad: float
    """The space between a frame and its content."""
    node_height: float
    node_widths: tuple[float, float, float]
    """The minimum, the maximum and the step: few different widths look calmer than many."""
    node_text: float
    """How much wider a node is than its text: the icon and its margins."""
    count: float
    """The space after the id of a node, in which a page counts how often the node has run."""
    icon: float
    """The side of the square around the icon."""
    id_size: float
    type_size: float
    title_line: float
    title_width: float
    """Longer titles are cut, unless the frame is wide enough anyway."""
    rounds_line: float
    """The space below the title of a frame that repeats, in which a page shows its rounds."""
    rounds_width: float
    """The space after the title of a frame that repeats, in which a page counts its rounds."""
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
    """The height of a bend: if all lines are straight, at least, and at most."""
    part_margin: float
    line_margin: float
    lane: float
    """Half of the width of a lane without a label."""
    lane_gap: float
    """The space between the rightmost part and the lanes."""
    abreast: int
    """How many bodies of a node are in one row."""
    position_scale: tuple[float, float]
    """How much larger than a compact drawing: positions in files are those of compact ones."""

    def text_height(self, lines: int) -> float:
        return lines * self.label_line + (self.label_line - self.label_size) * 2 if lines else 0


MEASURES: dict[Density, DensityMeasures] = {
    "normal": DensityMeasures(
        pad=18,
        node_height=46,
        node_widths=(120, 240, 24),
        node_text=58,
        count=0,
        icon=28,
        id_size=13,
        type_size=11,
        title_line=20,
        title_width=1000,
        rounds_line=0,
        rounds_width=0,
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
        position_scale=(1.15, 1.4),
    ),
    # For a pane of about 440 pixels beside other panes.
    "compact": DensityMeasures(
        pad=12,
        node_height=40,
        node_widths=(136, 184, 16),
        node_text=46,
        count=24,
        icon=24,
        id_size=12,
        type_size=10.5,
        title_line=16,
        title_width=240,
        rounds_line=12,
        rounds_width=128,
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
        position_scale=(1, 1),
    ),
}


@dataclass(slots=True, eq=False)
class Frame:
    """One graph or loop, as large as its parts need; `Layout` creates and fills it.

    Coordinates are relative to the frame until `shift` gives it its place in the drawing: the place of
    an inner frame is known only after the frame around it is laid out.
    """

    group: Group
    wiring: Wiring
    measures: DensityMeasures
    labels: Labels
    title: tuple[str, ...]
    collapsed: Collapsed = field(default_factory=dict)
    ranks: list[list[RankItem]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    cells: dict[GroupPart, RankItem] = field(default_factory=dict)
    sizes: dict[GroupPart, tuple[float, float]] = field(default_factory=dict)
    owners: dict[int, GroupPart] = field(default_factory=dict)
    """The part that contains each node."""
    inner: dict[GroupPart, Frame] = field(default_factory=dict)
    """The frames of the loops."""
    rows: dict[GroupPart, BodyRow] = field(default_factory=dict)
    """The bodies of nodes with graphs inside."""
    strands: dict[Connector, list[RankItem]] = field(default_factory=dict)
    """The items of a connector, from the top down."""
    label_items: dict[Connector, RankItem] = field(default_factory=dict)
    self_edges: dict[GroupPart, list[Connector]] = field(default_factory=dict)
    beside: dict[Connector, tuple[int, float]] = field(default_factory=dict)
    """How many self-edges of its part are inside a self-edge, and how far they reach."""
    lanes: dict[Connector, float] = field(default_factory=dict)
    """The x of connectors that lead upwards; inner lanes first."""
    below: dict[Connector, float] = field(default_factory=dict)
    """The y of a connector's track below its source; none if it leaves on the right."""
    above: dict[Connector, float] = field(default_factory=dict)
    feet: dict[tuple[Connector, bool], tuple[int, int]] = field(default_factory=dict)
    """The place of a connector among those that leave (True) or reach (False) its part in the same way,
    through tracks or on the right; and how many these are."""
    tops: list[float] = field(default_factory=list)
    bottoms: list[float] = field(default_factory=list)
    ins: dict[Connector, float] = field(default_factory=dict)
    outs: dict[Connector, float] = field(default_factory=dict)
    title_x: float = 0
    width: float = 0
    height: float = 0
    x: float = 0
    y: float = 0

    def part(self, node: int) -> GroupPart:
        return self.owners[node]

    def cell(self, node: int) -> RankItem:
        return self.cells[self.owners[node]]

    def has_label(self, connector: Connector) -> bool:
        """Whether the label of a connector is in this frame: the one in which its edge begins."""
        return bool(connector.label) and self.wiring.homes[connector.source][-1] is self.group

    def size(self, part: GroupPart) -> tuple[float, float]:
        # Cached: text is measured for this, and the size is needed by the layout and by every route.
        if part not in self.sizes:
            self.sizes[part] = self._size(part)
        return self.sizes[part]

    def _size(self, part: GroupPart) -> tuple[float, float]:
        content = self.inner.get(part) or self.rows.get(part)
        if content is not None:
            return content.width, content.height
        m = self.measures
        if part.node is None:
            return m.start if part.members[0] == START else m.vote
        texts = (
            text_width(self.labels.line(part.node.id), m.id_size, bold=True) + m.count,
            # A page has a button there that opens a collapsed node.
            text_width(self.caption(part, part.node), m.type_size)
            + (m.count if part in self.collapsed else 0),
        )
        # Wider in whole steps, and cut with an ellipsis beyond the maximum.
        least, most, step = m.node_widths
        steps = max(0, ceil((max(texts) + m.node_text - least) / step))
        return min(most, least + steps * step), m.node_height

    def caption(self, part: GroupPart, node: NodePlan) -> str:
        """The text below the id of a node."""
        inside = self.collapsed.get(part)
        return self.labels.node(node) if inside is None else self.labels.collapsed(node, inside.nodes)

    def port(self, part: GroupPart, connector: Connector, out: bool) -> float:
        """Where a connector meets a part, relative to the part's x."""
        inner = self.inner.get(part)
        if inner is None:
            return 0
        return (inner.outs if out else inner.ins)[connector] - inner.width / 2

    def opens_right(self, part: GroupPart) -> bool:
        """Whether nothing is between the part and the lanes."""
        cell = self.cells[part]
        return part.node is not None and part not in self.self_edges and cell is self.ranks[cell.rank][-1]

    def middle(self, rank: int) -> float:
        return (self.tops[rank] + self.bottoms[rank]) / 2

    def shift(self, x: float, y: float) -> None:
        """Moves the frame and its content to a place in the drawing."""
        self.x, self.y = x, y
        inside: dict[GroupPart, Frame | BodyRow] = {**self.inner, **self.rows}
        for part, content in inside.items():
            cell = self.cells[part]
            left = self.measures.pad + cell.x - content.width / 2
            top = self.middle(cell.rank) - content.height / 2
            content.shift(x + left, y + top)


@dataclass(slots=True, eq=False)
class BodyRow:
    """The graphs inside a node, side by side under its title."""

    title: tuple[str, ...]
    frames: list[Frame]
    repeats: bool
    measures: DensityMeasures
    width: float = 0
    height: float = 0

    def __post_init__(self) -> None:
        m = self.measures
        self.title = fit_title(self.title, m, self._widest() - 2 * m.pad)
        self.width = max(self._widest(), title_width(self.title, m, self.repeats) + 2 * m.pad)
        self.height = self._title_height() + sum(_height(line) for line in self._lines())

    def shift(self, x: float, y: float) -> None:
        y += self._title_height()
        for line in self._lines():
            at = x + (self.width - self._widest()) / 2
            for frame in line:
                frame.shift(at, y)
                at += frame.width
            y += _height(line)

    def _title_height(self) -> float:
        return title_height(self.title, self.measures, self.repeats)

    def _widest(self) -> float:
        return max((sum(frame.width for frame in line) for line in self._lines()), default=0)

    def _lines(self) -> list[list[Frame]]:
        most = self.measures.abreast
        return [self.frames[at : at + most] for at in range(0, len(self.frames), most)]


def _height(line: list[Frame]) -> float:
    return max(frame.height for frame in line)


def fit_title(title: tuple[str, ...], m: DensityMeasures, room: float) -> tuple[str, ...]:
    """Cuts the lines of a title to the available width, but not below `title_width`."""
    room = max(room, m.title_width)
    return tuple(
        fit(line, m.type_size if number else m.id_size, room, bold=not number)
        for number, line in enumerate(title)
    )


def title_width(title: tuple[str, ...], m: DensityMeasures, repeats: bool) -> float:
    """The width of a title, whose first line is an id and whose other lines are captions."""
    sizes = [
        text_width(line, m.type_size if number else m.id_size, not number)
        for number, line in enumerate(title)
    ]
    if sizes and repeats:
        sizes[0] += m.rounds_width
    return max(sizes, default=0)


def title_height(title: tuple[str, ...], m: DensityMeasures, repeats: bool) -> float:
    return m.title_line * len(title) + (m.rounds_line if repeats else 0)


STRAIGHT = 0.5
"""A line that moves sideways by fewer pixels is drawn without a bend."""


class Layout:
    """Lays out the graphs of one workflow in one density."""

    def __init__(self, labels: Labels, measures: DensityMeasures, collapsed: Collapsed | None = None) -> None:
        self.labels = labels
        self.measures = measures
        self.collapsed: Collapsed = collapsed or {}
        self.wirings: dict[Group, Wiring] = {}
        self.effort = 1.0

    def wiring(self, graph: Group) -> Wiring:
        """The connectors of a graph; cached, since `draw` counts their pieces before the layout uses
        them."""
        if graph not in self.wirings:
            self.wirings[graph] = wiring_of(graph, self.labels, self.measures)
        return self.wirings[graph]

    def frame(self, graph: Group, title: tuple[str, ...] = ()) -> Frame:
        return self._build_frame(graph, self.wiring(graph), title)

    def _build_frame(self, group: Group, wiring: Wiring, title: tuple[str, ...]) -> Frame:
        """Lays out one frame, after the frames inside it, whose sizes and ports it needs."""
        frame = Frame(
            group, wiring, self.measures, self.labels, title, self.collapsed, title_x=self.measures.pad
        )
        parts = wiring.parts(group)
        for part in parts:
            if part.inner is not None:
                frame.inner[part] = self._build_frame(part.inner, wiring, self._loop_title(part.inner))
            elif part.node is not None and part.bodies and part not in self.collapsed:
                words = (self.labels.line(part.node.id), *self.labels.container(part.node))
                bodies = [self.frame(body) for body in part.bodies]
                frame.rows[part] = BodyRow(words, bodies, part.node.kind.loops, self.measures)
        _add_cells(frame, parts)
        upwards = _add_strands(frame)
        arrange(frame.ranks, frame.links, self.effort)
        place(frame.ranks, frame.links, self.effort)
        _add_lanes(frame, upwards)
        _stack(frame)
        _finish_frame(frame)
        return frame

    def _loop_title(self, loop: Group) -> tuple[str, ...]:
        assert loop.entry is not None
        return f"loop {self.labels.line(loop.entry.id)}", self.labels.loop(loop)


def _add_cells(frame: Frame, parts: list[GroupPart]) -> None:
    m = frame.measures
    # Layers come from the plan: the order in which nodes run is the order from the top down.
    first = min(part.layer for part in parts)
    last = max(part.layer for part in parts)
    # A channel above, between and below the layers: also the border is crossed in a channel.
    frame.ranks = [[] for _ in range(2 * (last - first + 1) + 1)]
    frame.owners = {node: part for part in parts for node in part.members}
    for connector in frame.wiring.within.get(frame.group, ()):
        if connector.source == connector.target:
            frame.self_edges.setdefault(frame.part(connector.source), []).append(connector)
    for part in parts:
        width, height = frame.size(part)
        # Self-edges and their labels are on the right of a part, so they make it wider on that side
        # only.
        beside = 0.0
        for number, connector in enumerate(frame.self_edges.get(part, ())):
            frame.beside[connector] = number, beside
            beside += m.bulge + connector.label_width
        rank = rank_of(part.layer - first)
        cell = RankItem(rank, width / 2, width / 2 + beside, height, margin=m.part_margin, solid=True)
        frame.cells[part] = cell
        frame.ranks[cell.rank].append(cell)


def _add_strands(frame: Frame) -> list[Connector]:
    """Links the parts, and returns the connectors that lead upwards, which become lanes."""
    upwards = []
    # Edges that leave the loop come first, so on the left: the lanes are on the right.
    for connector in frame.wiring.outs.get(frame.group, ()):
        _add_strand(frame, connector, frame.part(connector.source), None)
    for connector in frame.wiring.ins.get(frame.group, ()):
        _add_strand(frame, connector, None, frame.part(connector.target))
    for connector in frame.wiring.within.get(frame.group, ()):
        source, target = frame.part(connector.source), frame.part(connector.target)
        # By rank and not by `wire.back`: a data edge may lead upwards without being a back edge of a
        # loop.
        if frame.cells[source].rank < frame.cells[target].rank:
            _add_strand(frame, connector, source, target)
        elif connector.source != connector.target:
            upwards.append(connector)
    return upwards


def _add_strand(
    frame: Frame, connector: Connector, source: GroupPart | None, target: GroupPart | None
) -> None:
    """Leads a connector down from part to part; None stands for the frame's border.

    It gets an item in every rank on its way, so that nodes and other lines leave space for it.
    """
    first = frame.cells[source].rank + 1 if source else 0
    stop = frame.cells[target].rank if target else len(frame.ranks)
    chain = [RankItem(rank, margin=frame.measures.line_margin) for rank in range(first, stop)]
    # The label is in the first channel below its source, where the reader looks for the reason of a
    # branch.
    if source is not None and frame.has_label(connector):
        label = frame.label_items[connector] = chain[0]
        label.left = label.right = connector.label_width / 2
        label.height = connector.label_height
    for item in chain:
        frame.ranks[item.rank].append(item)
    upper = [frame.cells[source]] if source else []
    lower = [frame.cells[target]] if target else []
    frame.strands[connector] = items = [*upper, *chain, *lower]
    links = [Link(*pair, _pull(connector, *pair)) for pair in pairwise(items)]
    # At a loop, the line meets the border where it continues inside, and not the middle of the part.
    if source:
        links[0].above = frame.port(source, connector, out=True)
    if target:
        links[-1].below = frame.port(target, connector, out=False)
    frame.links += links


def _pull(connector: Connector, upper: RankItem, lower: RankItem) -> float:
    """The weight of a link. Long lines stay straight; a short one bends once, at its beginning, and ends
    straight.

    Edges that carry only data pull a tenth as much: the flow of triggers decides the picture.
    """
    pull = 3.0 if lower.solid else 1.0 if upper.solid else 8.0
    brings_only_data = connector.wire is not None and not connector.wire.edge.trigger
    return pull / 10 if brings_only_data else pull


def _add_lanes(frame: Frame, upwards: list[Connector]) -> None:
    """Puts lanes side by side on the right, the longest outermost, so that few lines cross."""

    # Of equally long lanes, the one from the rightmost source is the inner one.
    def span(connector: Connector) -> tuple[int, int]:
        source, target = frame.cell(connector.source), frame.cell(connector.target)
        return source.rank - target.rank, -source.slot

    m = frame.measures
    at = max(item.x + item.right for rank in frame.ranks for item in rank)
    for connector in sorted(upwards, key=span):
        # A label is centred on its lane, so it makes the lane as wide as itself.
        half = max(m.lane, connector.label_width / 2 + 3 if frame.has_label(connector) else 0)
        frame.lanes[connector] = at + m.lane_gap + half
        at += 2 * half
    frame.width = at + 2 * m.pad + (2 if upwards else 0)


def _stack(frame: Frame) -> None:
    """Gives each rank its y from the top down, and each track its y."""
    m = frame.measures
    sources = {connector: frame.part(connector.source) for connector in frame.lanes}
    targets = {connector: frame.part(connector.target) for connector in frame.lanes}
    # A lane starts below its source and ends above its target: in the channels next to these ranks.
    leaving = _by_rank(frame, sources, 1)
    arriving = _by_rank(frame, targets, -1)
    bends = _bends(frame)
    at = m.pad + title_height(frame.title, m, frame.group.entry is not None)
    for rank, items in enumerate(frame.ranks):
        if rank % 2 == 0:
            tracks = leaving.get(rank, []), arriving.get(rank, [])
            at = _stack_channel(frame, rank, tracks, bends[rank] if items else 0, at)
        else:
            frame.tops.append(at)
            at += max((item.height for item in items), default=0)
            frame.bottoms.append(at)
    frame.height = at + m.pad
    _number_feet(frame, frame.below, leaving=True)
    _number_feet(frame, frame.above, leaving=False)


def _number_feet(frame: Frame, tracks: dict[Connector, float], *, leaving: bool) -> None:
    same: dict[tuple[GroupPart, bool], list[Connector]] = {}
    for connector in (*tracks, *(connector for connector in frame.lanes if connector not in tracks)):
        part = frame.part(connector.source if leaving else connector.target)
        same.setdefault((part, connector in tracks), []).append(connector)
    for found in same.values():
        for number, connector in enumerate(found):
            frame.feet[connector, leaving] = number, len(found)


def _by_rank(frame: Frame, ends: dict[Connector, GroupPart], step: int) -> dict[int, list[Connector]]:
    """The connectors that need a track, by the channel of the track."""
    found: dict[int, list[Connector]] = {}
    for connector, part in ends.items():
        if not frame.opens_right(part):
            found.setdefault(frame.cells[part].rank + step, []).append(connector)
    return found


def _stack_channel(
    frame: Frame, rank: int, tracks: tuple[list[Connector], list[Connector]], bend: float, at: float
) -> float:
    """Stacks a channel from the top: tracks, bends, labels, bends, tracks. Returns the y below it."""
    m, items, last = frame.measures, frame.ranks[rank], len(frame.ranks) - 1
    leaving, arriving = tracks
    # No stub above the first channel and no head below the last one: there is the border of the frame.
    if rank > 0 and (items or leaving or rank < last):
        at += m.stub
    # One track for each connector, in the order of their lanes: two in one track would look like one
    # line.
    for number, connector in enumerate(leaving):
        frame.below[connector] = at + m.track * number
    at += m.track * len(leaving) + (bend if rank > 0 else 0)
    frame.tops.append(at)
    at += max((item.height for item in items), default=0)
    frame.bottoms.append(at)
    at += m.track * len(arriving) + (bend if rank < last else 0)
    for number, connector in enumerate(arriving):
        frame.above[connector] = at - m.track * number
    return at + m.head if rank < last and (items or arriving or rank > 0) else at


def _bends(frame: Frame) -> list[float]:
    """The height of the bends in each rank: the further a line moves sideways, the higher its bend."""
    # Proportional, within bounds: a flat bend over a long way looks like a horizontal line, and a high
    # one wastes space. A rank in which all lines are straight needs hardly any.
    straight, least, most = frame.measures.bend
    spans = [0.0] * len(frame.ranks)
    for link in frame.links:
        span = abs(link.upper.x + link.above - link.lower.x - link.below)
        for rank in (link.upper.rank, link.lower.rank):
            spans[rank] = max(spans[rank], span)
    return [straight if span < STRAIGHT else min(most, max(least, 0.09 * span)) for span in spans]


def _finish_frame(frame: Frame) -> None:
    """Notes where connectors cross the border, and makes space for the title beside them."""
    pad, repeats = frame.measures.pad, frame.group.entry is not None
    for connector in frame.wiring.ins.get(frame.group, ()):
        frame.ins[connector] = pad + frame.strands[connector][0].x
    for connector in frame.wiring.outs.get(frame.group, ()):
        frame.outs[connector] = pad + frame.strands[connector][-1].x
    frame.title = fit_title(frame.title, frame.measures, frame.width - 2 * pad)
    # Edges enter at the top, where the title is. If they would cross it, it moves to their right.
    crossed = frame.ins.values()
    if crossed and min(crossed) - 10 < pad + title_width(frame.title, frame.measures, repeats):
        frame.title_x = max(crossed) + 12
        frame.title = fit_title(frame.title, frame.measures, frame.width - frame.title_x - pad)
    # A title may still be wider than the parts; then the frame grows, and not the space between them.
    wide = title_width(frame.title, frame.measures, repeats)
    frame.width = max(frame.width, frame.title_x + wide + pad)
