"""Draws a plan: nests it, lays it out, and reads the drawing off the frames.

`draw` never fails, because an editor calls it after each change of a file. A workflow that is too large
to lay out gives a drawing without nodes, whose `problems` say so. A workflow with errors is drawn as far
as it could be read, with each error at the node, edge or loop that it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from roundel.drawing.collapse import Collapsed, Keys, find_collapsed, problems_inside, visible_graphs
from roundel.drawing.drawing import Density, Drawing, DrawnEdge, DrawnNode, Label, Mark, Rect, Region
from roundel.drawing.labels import Labels, Mask
from roundel.drawing.layout import MEASURES, Frame, Layout
from roundel.drawing.nesting import Group, GroupPart, Problems, nest
from roundel.drawing.positions import move
from roundel.drawing.ranks import effort_for
from roundel.drawing.routes import START, VOTE, Connector, Curve, flow, lane, self_curve, simplified
from roundel.drawing.text import fit
from roundel.plan.graph import NodePlan, Plan
from roundel.workflow.diagnostics import Diagnostic, Finding
from roundel.workflow.graph_reader import is_missing

MOST_PIECES = 20_000
"""The largest layout. An edge has a piece in each frame that it crosses; this many take a few
seconds."""
MOST_ITEMS = 60_000
"""The same for nodes, and for the points of edges: an edge has one or two in each layer that it passes."""


def draw(
    plan: Plan,
    findings: Iterable[Finding] = (),
    *,
    mask: Mask = str,
    density: Density = "normal",
    collapsed: Collection[str] = (),
) -> Drawing:
    """Lays out a plan. `findings` are shown at their nodes, edges and loops; `mask` hides secrets in any
    text. Nodes whose keys are in `collapsed` are single cards, without the graphs inside them."""
    labels, findings = Labels(mask, draft=plan.draft), list(findings)
    try:
        group = nest(plan.graph)
        problems = Problems(group, findings)
        cards = find_collapsed(group, labels, frozenset(collapsed))
        layout = Layout(labels, MEASURES[density], cards)
        # Counted before anything is laid out: nested loops multiply the pieces, so a small file may be
        # too large.
        wirings = [layout.wiring(graph) for graph in visible_graphs(group, cards)]
        pieces = sum(wiring.pieces for wiring in wirings)
        if pieces > MOST_PIECES:
            too_many = f"{pieces:,} pieces of edges, more than {MOST_PIECES:,}, are too many to draw"
            return _not_drawn(labels.title(plan), density, too_many, findings)
        items = sum(wiring.items for wiring in wirings)
        if items > MOST_ITEMS:
            too_many = f"{items:,} nodes and bends of edges, more than {MOST_ITEMS:,}, are too many to draw"
            return _not_drawn(labels.title(plan), density, too_many, findings)
        layout.effort = effort_for(items)
        frame = layout.frame(group, tuple(filter(None, (labels.title(plan), labels.voting(plan.graph)))))
        frame.shift(0, 0)  # frames have coordinates only after this
        return _Assembly(labels, problems, density, cards).drawing(frame)
    except RecursionError:
        too_deep = "the loops are nested too deep to draw"
        return _not_drawn(labels.title(plan), density, too_deep, findings)


def _not_drawn(title: str, density: Density, why: str, findings: list[Finding]) -> Drawing:
    diagnostics = [finding.diagnostic for finding in findings]
    hint = "a tree and a flowchart can be larger than a picture"
    diagnostics.append(Diagnostic(code="too-large-to-draw", severity="error", message=why, hint=hint))
    return Drawing(density=density, width=0, height=0, title=title, problems=tuple(diagnostics))


class _Assembly:
    """Reads a drawing off the frames of one layout; `draw` creates it."""

    def __init__(self, labels: Labels, problems: Problems, density: Density, collapsed: Collapsed) -> None:
        self.labels = labels
        self.problems = problems
        self.density = density
        self.measures = MEASURES[density]
        self.collapsed = collapsed
        self.keys = Keys(labels)
        self.regions: list[Region] = []
        self.nodes: list[DrawnNode] = []
        self.marks: list[Mark] = []
        self.edges: list[DrawnEdge] = []
        self.positions: dict[str, tuple[float, float]] = {}
        """Where the user has put nodes, by key."""

    def drawing(self, frame: Frame) -> Drawing:
        self._add_graph(frame, "", "", 0)
        drawing = Drawing(
            density=self.density,
            width=_round(frame.width),
            height=_round(frame.height),
            title=frame.title[0],
            captions=frame.title[1:],
            regions=tuple(self.regions),
            nodes=tuple(self.nodes),
            marks=tuple(self.marks),
            edges=tuple(self.edges),
            problems=tuple(self.problems.general),
        )
        return move(drawing, self.positions, self.measures)

    def _add_graph(self, frame: Frame, prefix: str, parent: str, depth: int) -> None:
        """Adds a graph. `prefix` begins the keys of its nodes; `parent` is the region around it."""
        keys = self.keys.of_nodes(frame.group, prefix)
        keys |= {START: self.keys.key(f"{prefix}#start"), VOTE: self.keys.key(f"{prefix}#vote")}
        frames: dict[Group, Frame] = {}
        self._add_frame(frame, keys, parent, depth, frames)
        # After all frames of the graph: an edge may end in a frame that comes later.
        for connector in frame.wiring.connectors:
            self.edges.append(self._edge(connector, keys, frames, frame))

    # Regions, nodes and marks are added frame by frame, outer frames first: a reader paints them in this
    # order.

    def _add_frame(
        self, frame: Frame, keys: dict[int, str], parent: str, depth: int, frames: dict[Group, Frame]
    ) -> None:
        frames[frame.group] = frame
        for part in frame.cells:
            inner = frame.inner.get(part)
            if part.node is not None:
                self._add_node(frame, part, part.node, keys[part.node.index], parent, depth)
            elif inner is not None:
                key = self._add_loop(frame, part, inner, keys, parent, depth)
                self._add_frame(inner, keys, key, depth + 1, frames)
            else:
                self._add_mark(frame, part, keys[part.members[0]])

    def _add_loop(
        self, frame: Frame, part: GroupPart, inner: Frame, keys: dict[int, str], parent: str, depth: int
    ) -> str:
        assert inner.group.entry is not None
        box, entry = box_of(frame, part), keys[inner.group.entry.index]
        region = Region(
            key=self.keys.key(f"{entry}[]"),
            kind="loop",
            repeats=True,
            title=inner.title[0],
            captions=inner.title[1:],
            title_x=_round(box.x + inner.title_x),
            entry=entry,
            box=box,
            parent=parent,
            depth=depth,
            problems=tuple(self.problems.loops.get(inner.group, ())),
        )
        self.regions.append(region)
        return region.key

    def _add_mark(self, frame: Frame, part: GroupPart, key: str) -> None:
        if part.members[0] == START:
            self.marks.append(Mark(key=key, kind="start", text="start", box=box_of(frame, part)))
        else:
            self.marks.append(Mark(key=key, kind="vote", text="majority vote", box=box_of(frame, part)))

    def _add_node(
        self, frame: Frame, part: GroupPart, node: NodePlan, key: str, parent: str, depth: int
    ) -> None:
        row, group, m = frame.rows.get(part), frame.group, self.measures
        box, shown = box_of(frame, part), self.labels.line(node.id)
        problems = tuple(self.problems.nodes.get(node, ()))
        if part in self.collapsed:
            problems = tuple(dict.fromkeys((*problems, *problems_inside(part, self.problems))))
        # A node with graphs inside is both a node and the region around them; the key connects the two.
        region = self.keys.key(f"{key}/") if row else ""
        # The text is cut here and not by the reader, so that all readers show the same. 4 pixels are
        # tolerance: the estimated widths are too wide anyway.
        room = box.width - m.node_text + 4
        self.nodes.append(
            DrawnNode(
                key=key,
                id=shown,
                type=self.labels.line(node.kind.name),
                guard=node.kind.guard,
                label=fit(shown, m.id_size, room - m.count, bold=True),
                caption=fit(
                    frame.caption(part, node), m.type_size, room - (m.count if part in self.collapsed else 0)
                ),
                box=box,
                start=group.starts(node),
                end=group.ends(node) and not group.graph.graph.is_majority_voting,
                parent=parent,
                region=region,
                inside=self.collapsed.get(part),
                missing=is_missing(node.node),
                problems=problems,
            )
        )
        if len(node.node.position) == 2:
            self.positions[key] = node.node.position[0], node.node.position[1]
        if row is None:
            return
        self.regions.append(
            Region(
                key=region,
                kind="node",
                repeats=node.kind.loops,
                title=row.title[0],
                captions=row.title[1:],
                title_x=_round(box.x + m.pad),
                box=box,
                parent=parent,
                depth=depth,
                problems=problems,
            )
        )
        for inner in row.frames:
            self._add_graph(inner, f"{key}/", region, depth + 1)

    def _edge(
        self, connector: Connector, keys: dict[int, str], frames: dict[Group, Frame], top: Frame
    ) -> DrawnEdge:
        curve = _curve(connector, frames, top)
        route = tuple(tuple((_round(x), _round(y)) for x, y in piece) for piece in simplified(curve))
        home = frames[top.wiring.homes[connector.source][-1]]
        label = Label(connector.label, _label_box(home, connector, curve)) if connector.label else None
        ends = keys[connector.source], keys[connector.target]
        wire = connector.wire
        if wire is None:
            kind: Literal["start", "vote"] = "start" if connector.source == START else "vote"
            return DrawnEdge(source=ends[0], target=ends[1], kind=kind, route=route)
        return DrawnEdge(
            source=ends[0],
            target=ends[1],
            back=wire.back,
            leaves=wire.leaves,
            triggers=wire.edge.trigger,
            port=self.labels.line(wire.edge.port or ""),
            explicit=wire.edge.explicit,
            text=self.labels.edge_in_full(wire.edge.edge),
            label=label,
            route=route,
            problems=tuple(self.problems.edges.get(wire.edge, ())),
        )


def box_of(frame: Frame, part: GroupPart) -> Rect:
    cell = frame.cells[part]
    width, height = frame.size(part)
    return _box(frame.x + frame.measures.pad + cell.x, frame.y + frame.middle(cell.rank), width, height)


def _box(x: float, y: float, width: float, height: float) -> Rect:
    """The rectangle around a centre."""
    return Rect(_round(x - width / 2), _round(y - height / 2), _round(width), _round(height))


def _curve(connector: Connector, frames: dict[Group, Frame], top: Frame) -> Curve:
    """The whole route: down out of the loops that it leaves, across, and down into the loops that it
    enters."""
    left, middle, entered = top.wiring.groups_of(connector)
    curve: Curve = []
    for group in left:
        curve += flow(frames[group], connector)
    curve += _middle_curve(frames[middle], connector)
    for group in entered:
        curve += flow(frames[group], connector)
    return curve


def _middle_curve(frame: Frame, connector: Connector) -> Curve:
    if connector in frame.lanes:
        return lane(frame, connector)
    return self_curve(frame, connector) if connector.source == connector.target else flow(frame, connector)


def _label_box(frame: Frame, connector: Connector, curve: Curve) -> Rect:
    """The box of a label: in its channel, on its lane, or beside its self-edge."""
    width, height, pad = connector.label_width, connector.label_height, frame.measures.pad
    if connector in frame.label_items:
        item = frame.label_items[connector]
        x, y = frame.x + pad + item.x, frame.y + frame.middle(item.rank)
    elif connector in frame.lanes:
        x = frame.x + pad + frame.lanes[connector]
        along = [y for piece in curve for at, y in piece if abs(at - x) < 1]
        y = (min(along) + max(along)) / 2
    else:
        box = box_of(frame, frame.part(connector.source))
        x = box.right + frame.beside[connector][1] + frame.measures.bulge - 4 + width / 2
        y = box.y + box.height / 2
    return _box(x, y, width, height)


def _round(value: float) -> float:
    # Adding 0.0 turns -0.0 into 0.0: JSON would write "-0.0", and equal drawings would differ.
    return round(value, 1) + 0.0
