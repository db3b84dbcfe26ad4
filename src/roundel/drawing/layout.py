"""Builds frames, inner ones first: what joins what, in which order, how far apart.

Each frame is laid out by itself, as if it stood alone; a loop is then one wide part of the frame around it,
which meets the loop's border where the connectors cross it. So a loop looks the same wherever it stands.
"""

from __future__ import annotations

from itertools import pairwise

from roundel.drawing.frames import Frame, Measures, Row, fitted, title_width
from roundel.drawing.labels import Labels
from roundel.drawing.nesting import Group, Part
from roundel.drawing.ranks import Item, Link, arrange, place
from roundel.drawing.routes import Connector, Wiring, wiring_of

STRAIGHT = 0.5
"""A line that goes no further sideways is drawn without a bend."""


class Layout:
    """Lays out the graphs of one workflow in one density."""

    def __init__(self, labels: Labels, measures: Measures) -> None:
        self.labels = labels
        self.measures = measures
        self.wirings: dict[Group, Wiring] = {}

    def wiring(self, graph: Group) -> Wiring:
        """Asked for twice: to know how large the drawing would be, and to lay it out."""
        if graph not in self.wirings:
            self.wirings[graph] = wiring_of(graph, self.labels, self.measures)
        return self.wirings[graph]

    def frame(self, graph: Group, title: tuple[str, ...] = ()) -> Frame:
        return self._framed(graph, self.wiring(graph), title)

    def _framed(self, group: Group, wiring: Wiring, title: tuple[str, ...]) -> Frame:
        frame = Frame(group, wiring, self.measures, self.labels, title, title_x=self.measures.pad)
        parts = wiring.parts(group)
        for part in parts:
            if part.inner is not None:
                frame.inner[part] = self._framed(part.inner, wiring, self._loop_title(part.inner))
            elif part.node is not None and part.bodies:
                words = (self.labels.line(part.node.id), *self.labels.container(part.node))
                bodies = [self.frame(body) for body in part.bodies]
                frame.rows[part] = Row(words, bodies, self.measures)
        _add_cells(frame, parts)
        upwards = _add_strands(frame)
        arrange(frame.ranks, frame.links)
        place(frame.ranks, frame.links)
        _add_lanes(frame, upwards)
        _stack(frame)
        _close(frame)
        return frame

    def _loop_title(self, loop: Group) -> tuple[str, ...]:
        assert loop.entry is not None
        return f"loop {self.labels.line(loop.entry.id)}", self.labels.loop(loop)


def _add_cells(frame: Frame, parts: list[Part]) -> None:
    m = frame.measures
    first = min(part.layer for part in parts)
    last = max(part.layer for part in parts)
    frame.ranks = [[] for _ in range(2 * (last - first + 1) + 1)]
    frame.owners = {node: part for part in parts for node in part.members}
    for connector in frame.wiring.within.get(frame.group, ()):
        if connector.source == connector.target:
            frame.selves.setdefault(frame.part(connector.source), []).append(connector)
    for part in parts:
        width, height = frame.size(part)
        beside = sum(m.bulge + connector.label_width for connector in frame.selves.get(part, ()))
        rank = 2 * (part.layer - first) + 1
        cell = Item(rank, width / 2, width / 2 + beside, height, margin=m.part_margin, solid=True)
        frame.cells[part] = cell
        frame.ranks[cell.rank].append(cell)


def _add_strands(frame: Frame) -> list[Connector]:
    """Joins the parts; gives the connectors that lead upwards."""
    upwards = []
    # What leaves the loop is put first, so on the left: the lanes are on the right.
    for connector in frame.wiring.outs.get(frame.group, ()):
        _add_strand(frame, connector, frame.part(connector.source), None)
    for connector in frame.wiring.ins.get(frame.group, ()):
        _add_strand(frame, connector, None, frame.part(connector.target))
    for connector in frame.wiring.within.get(frame.group, ()):
        source, target = frame.part(connector.source), frame.part(connector.target)
        if frame.cells[source].rank < frame.cells[target].rank:
            _add_strand(frame, connector, source, target)
        elif connector.source != connector.target:
            upwards.append(connector)
    return upwards


def _add_strand(frame: Frame, connector: Connector, source: Part | None, target: Part | None) -> None:
    """Leads a connector down from part to part; none stands for the frame's border."""
    first = frame.cells[source].rank + 1 if source else 0
    stop = frame.cells[target].rank if target else len(frame.ranks)
    chain = [Item(rank, margin=frame.measures.line_margin) for rank in range(first, stop)]
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
    if source:
        links[0].above = frame.port(source, connector, out=True)
    if target:
        links[-1].below = frame.port(target, connector, out=False)
    frame.links += links


def _pull(connector: Connector, upper: Item, lower: Item) -> float:
    """Long lines are straight; a short one bends once, where it begins, and comes down straight."""
    pull = 3.0 if lower.solid else 1.0 if upper.solid else 8.0
    brings_only_data = connector.wire is not None and not connector.wire.edge.trigger
    return pull / 10 if brings_only_data else pull


def _add_lanes(frame: Frame, upwards: list[Connector]) -> None:
    """Side by side on the right, the longest outermost."""

    def span(connector: Connector) -> tuple[int, int]:
        source, target = frame.cell(connector.source), frame.cell(connector.target)
        return source.rank - target.rank, -source.slot

    m = frame.measures
    at = max(item.x + item.right for rank in frame.ranks for item in rank)
    for connector in sorted(upwards, key=span):
        half = max(m.lane, connector.label_width / 2 + 3 if frame.has_label(connector) else 0)
        frame.lanes[connector] = at + m.lane_gap + half
        at += 2 * half
    frame.width = at + 2 * m.pad + (2 if upwards else 0)


def _stack(frame: Frame) -> None:
    """Gives each rank its place from the top down, and each track its y."""
    m = frame.measures
    sources = {connector: frame.part(connector.source) for connector in frame.lanes}
    targets = {connector: frame.part(connector.target) for connector in frame.lanes}
    leaving = _by_rank(frame, sources, 1)
    arriving = _by_rank(frame, targets, -1)
    bends = _bends(frame)
    at = m.pad + m.title_line * len(frame.title)
    for rank, items in enumerate(frame.ranks):
        if rank % 2 == 0:
            tracks = leaving.get(rank, []), arriving.get(rank, [])
            at = _stack_channel(frame, rank, tracks, bends[rank] if items else 0, at)
        else:
            frame.tops.append(at)
            at += max((item.height for item in items), default=0)
            frame.bottoms.append(at)
    frame.height = at + m.pad


def _by_rank(frame: Frame, ends: dict[Connector, Part], step: int) -> dict[int, list[Connector]]:
    """The connectors that need a track, by the channel that it is in."""
    found: dict[int, list[Connector]] = {}
    for connector, part in ends.items():
        if not frame.opens_right(part):
            found.setdefault(frame.cells[part].rank + step, []).append(connector)
    return found


def _stack_channel(
    frame: Frame, rank: int, tracks: tuple[list[Connector], list[Connector]], bend: float, at: float
) -> float:
    """From the top: tracks, bends, labels, bends, tracks. The y below it."""
    m, items, last = frame.measures, frame.ranks[rank], len(frame.ranks) - 1
    leaving, arriving = tracks
    if rank > 0 and (items or leaving or rank < last):
        at += m.stub
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
    """The height of the bends in each rank: the further lines go sideways, the more they get."""
    straight, least, most = frame.measures.bend
    spans = [0.0] * len(frame.ranks)
    for link in frame.links:
        span = abs(link.upper.x + link.above - link.lower.x - link.below)
        for rank in (link.upper.rank, link.lower.rank):
            spans[rank] = max(spans[rank], span)
    return [straight if span < STRAIGHT else min(most, max(least, 0.09 * span)) for span in spans]


def _close(frame: Frame) -> None:
    """Where the border is crossed, and room for the title beside that."""
    pad = frame.measures.pad
    for connector in frame.wiring.ins.get(frame.group, ()):
        frame.ins[connector] = pad + frame.strands[connector][0].x
    for connector in frame.wiring.outs.get(frame.group, ()):
        frame.outs[connector] = pad + frame.strands[connector][-1].x
    frame.title = fitted(frame.title, frame.measures, frame.width - 2 * pad)
    crossed = frame.ins.values()
    if crossed and min(crossed) - 10 < pad + title_width(frame.title, frame.measures):
        frame.title_x = max(crossed) + 12
        frame.title = fitted(frame.title, frame.measures, frame.width - frame.title_x - pad)
    wide = title_width(frame.title, frame.measures)
    frame.width = max(frame.width, frame.title_x + wide + pad)
