"""Builds frames, inner ones first: what joins what, in which order, how far apart."""

from __future__ import annotations

from itertools import pairwise

from roundel.drawing.caption import frame_words, loop_bounds, one_line
from roundel.drawing.frame import BULGE, PAD, TITLE_LINE, Frame, title_width
from roundel.drawing.nesting import Group, Part
from roundel.drawing.ranks import Item, Link, arrange, place
from roundel.drawing.routes import Routes, Way, find_routes
from roundel.drawing.row import Row

TRACK, STUB, HEAD = 9, 11, 13
"""Heights: of a track, of the line that leaves a part, of the line with the arrow head that meets one."""


def frame_graph(group: Group, title: tuple[str, ...] = ()) -> Frame:
    return _framed(group, find_routes(group), title)


def _framed(group: Group, routes: Routes, title: tuple[str, ...]) -> Frame:
    frame = Frame(group, routes, title)
    parts = routes.parts(group)
    for part in parts:
        if part.inner is not None:
            frame.inner[part] = _framed(part.inner, routes, _loop_title(part.inner))
        elif part.node is not None and part.bodies:
            title = (one_line(part.node.id), *frame_words(part.node))
            frame.rows[part] = Row(title, [frame_graph(body) for body in part.bodies])
    _add_cells(frame, parts)
    upwards = _add_strands(frame)
    arrange(frame.ranks, frame.links)
    place(frame.ranks, frame.links)
    _add_lanes(frame, upwards)
    _stack(frame)
    _close(frame)
    return frame


def _loop_title(loop: Group) -> tuple[str, ...]:
    assert loop.entry is not None
    return f"loop {one_line(loop.entry.id)}", loop_bounds(loop)


def _add_cells(frame: Frame, parts: list[Part]) -> None:
    first = min(part.layer for part in parts)
    last = max(part.layer for part in parts)
    frame.ranks = [[] for _ in range(2 * (last - first + 1) + 1)]
    frame.owners = {node: part for part in parts for node in part.members}
    for way in frame.routes.within.get(frame.group, ()):
        if way.source == way.target:
            frame.selves.setdefault(frame.part(way.source), []).append(way)
    for part in parts:
        width, height = frame.size(part)
        beside = sum(BULGE + way.label_width for way in frame.selves.get(part, ()))
        rank = 2 * (part.layer - first) + 1
        cell = Item(rank, width / 2, width / 2 + beside, height, margin=15, solid=True)
        frame.cells[part] = cell
        frame.ranks[cell.rank].append(cell)


def _add_strands(frame: Frame) -> list[Way]:
    """Joins the parts; gives the ways that lead upwards."""
    upwards = []
    # What leaves the loop is put first, so on the left: the lanes are on the right.
    for way in frame.routes.outs.get(frame.group, ()):
        _add_strand(frame, way, frame.part(way.source), None)
    for way in frame.routes.ins.get(frame.group, ()):
        _add_strand(frame, way, None, frame.part(way.target))
    for way in frame.routes.within.get(frame.group, ()):
        source, target = frame.part(way.source), frame.part(way.target)
        if frame.cells[source].rank < frame.cells[target].rank:
            _add_strand(frame, way, source, target)
        elif way.source != way.target:
            upwards.append(way)
    return upwards


def _add_strand(frame: Frame, way: Way, source: Part | None, target: Part | None) -> None:
    """Leads a way down from part to part; none stands for the frame's border."""
    first = frame.cells[source].rank + 1 if source else 0
    stop = frame.cells[target].rank if target else len(frame.ranks)
    chain = [Item(rank) for rank in range(first, stop)]
    if source is not None and frame.labels_here(way):
        label = frame.labels[way] = chain[0]
        label.left = label.right = way.label_width / 2
        label.height = way.label_height
    for item in chain:
        frame.ranks[item.rank].append(item)
    upper = [frame.cells[source]] if source else []
    lower = [frame.cells[target]] if target else []
    frame.strands[way] = items = [*upper, *chain, *lower]
    links = [Link(*pair, _pull(way, *pair)) for pair in pairwise(items)]
    if source:
        links[0].above = frame.port(source, way, out=True)
    if target:
        links[-1].below = frame.port(target, way, out=False)
    frame.links += links


def _pull(way: Way, upper: Item, lower: Item) -> float:
    """Long ways are straight; a short one bends once, where it begins, and comes down straight."""
    pull = 3.0 if lower.solid else 1.0 if upper.solid else 8.0
    brings_only_data = way.wire is not None and not way.wire.edge.trigger
    return pull / 10 if brings_only_data else pull


def _add_lanes(frame: Frame, upwards: list[Way]) -> None:
    """Side by side on the right, the longest outermost."""

    def span(way: Way) -> tuple[int, int]:
        source, target = frame.cell(way.source), frame.cell(way.target)
        return source.rank - target.rank, -source.slot

    at = max(item.x + item.right for rank in frame.ranks for item in rank)
    for way in sorted(upwards, key=span):
        half = max(8.0, way.label_width / 2 + 3 if frame.labels_here(way) else 0)
        frame.lanes[way] = at + 10 + half
        at += 2 * half
    frame.width = at + 2 * PAD + (2 if upwards else 0)


def _stack(frame: Frame) -> None:
    """Gives each rank its place from the top down, and each track its y."""
    sources = {way: frame.part(way.source) for way in frame.lanes}
    targets = {way: frame.part(way.target) for way in frame.lanes}
    leaving = _by_rank(frame, sources, 1)
    arriving = _by_rank(frame, targets, -1)
    at: float = PAD + TITLE_LINE * len(frame.title)
    for rank, items in enumerate(frame.ranks):
        if rank % 2 == 0:
            at = _stack_channel(frame, rank, leaving.get(rank, []), arriving.get(rank, []), at)
        else:
            frame.tops.append(at)
            at += max(item.height for item in items)
            frame.bottoms.append(at)
    frame.height = at + PAD


def _by_rank(frame: Frame, ends: dict[Way, Part], step: int) -> dict[int, list[Way]]:
    """The ways that need a track, by the channel that it is in."""
    found: dict[int, list[Way]] = {}
    for way, part in ends.items():
        if not frame.opens_right(part):
            found.setdefault(frame.cells[part].rank + step, []).append(way)
    return found


def _stack_channel(frame: Frame, rank: int, leaving: list[Way], arriving: list[Way], at: float) -> float:
    """From the top: tracks, bends, labels, bends, tracks. The y below it."""
    items, last = frame.ranks[rank], len(frame.ranks) - 1
    bend = _bend(frame, rank) if items else 0
    if rank > 0 and (items or leaving or rank < last):
        at += STUB
    for number, way in enumerate(leaving):
        frame.below[way] = at + TRACK * number
    at += TRACK * len(leaving) + (bend if rank > 0 else 0)
    frame.tops.append(at)
    at += max((item.height for item in items), default=0)
    frame.bottoms.append(at)
    at += TRACK * len(arriving) + (bend if rank < last else 0)
    for number, way in enumerate(arriving):
        frame.above[way] = at - TRACK * number
    return at + HEAD if rank < last and (items or arriving or rank > 0) else at


def _bend(frame: Frame, rank: int) -> float:
    """The further edges go sideways, the more height they get for it."""
    spans = (
        abs(link.upper.x + link.above - link.lower.x - link.below)
        for link in frame.links
        if rank in (link.upper.rank, link.lower.rank)
    )
    return min(34.0, max(11.0, 0.09 * max(spans, default=0)))


def _close(frame: Frame) -> None:
    """Where the border is crossed, and room for the title beside that."""
    for way in frame.routes.ins.get(frame.group, ()):
        frame.ins[way] = PAD + frame.strands[way][0].x
    for way in frame.routes.outs.get(frame.group, ()):
        frame.outs[way] = PAD + frame.strands[way][-1].x
    wide = title_width(frame.title)
    crossed = frame.ins.values()
    if crossed and min(crossed) - 10 < PAD + wide:
        frame.title_x = max(crossed) + 12
    frame.width = max(frame.width, frame.title_x + wide + PAD)
