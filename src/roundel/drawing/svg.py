"""A workflow as an SVG that needs nothing beside itself, and follows the reader's light or dark scheme."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from roundel.drawing.caption import graph_title, node_words, one_line
from roundel.drawing.curve import Curve
from roundel.drawing.frame import ID_SIZE, PAD, TYPE_SIZE
from roundel.drawing.layout import Box, EdgeCurve, Layout, LoopBox, MarkBox, NodeBox, lay_out
from roundel.drawing.measure import fit
from roundel.drawing.nesting import Wire
from roundel.drawing.routes import LABEL_LINE
from roundel.drawing.style import ICONS, kind_of, style
from roundel.plan.graph import Plan

KINDS_OF_EDGE = ("edge", "back", "leave")


def svg(plan: Plan) -> str:
    return "\n".join(_lines(lay_out(plan), plan))


def _lines(layout: Layout, plan: Plan) -> Iterator[str]:
    size = f'width="{_n(layout.width)}" height="{_n(layout.height)}"'
    yield (
        f'<svg class="roundel" xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {_n(layout.width)} {_n(layout.height)}" role="img">'
    )
    yield f"<title>{_text(graph_title(plan))}</title>"
    yield f"<style>{style()}</style>"
    yield f"<defs>{''.join(_arrow_head(kind) for kind in KINDS_OF_EDGE)}</defs>"
    yield f'<rect class="page" {size} rx="12"/>'
    yield from _title(layout.title, PAD, 0)
    yield from (_frame(node) for node in layout.nodes if node.holds_graph)
    yield from (line for loop in layout.loops for line in _loop(loop))
    yield from (_edge(edge) for edge in layout.edges)
    yield from (line for edge in layout.edges if edge.label_box for line in _label(edge, edge.label_box))
    yield from (_mark(mark) for mark in layout.marks)
    yield from (_node(node) for node in layout.nodes)
    yield "</svg>"


def _arrow_head(kind: str) -> str:
    return (
        f'<marker id="{kind}-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="head {kind}" d="M0 .8 10 5 0 9.2 2.2 5Z"/></marker>'
    )


def _title(lines: tuple[str, ...], x: float, y: float, colour: str = "") -> Iterator[str]:
    for number, line in enumerate(lines):
        kind = f"id {colour}" if number == 0 else "type"
        yield _words(line, x, y + PAD + 8 + 17 * number, kind)


def _loop(loop: LoopBox) -> Iterator[str]:
    yield f'<rect class="loop" {_place(loop.box)} rx="14"/>'
    yield from _title(loop.title, loop.title_x, loop.box.y, "loop-title")


def _frame(node: NodeBox) -> str:
    kind = "loop" if node.node.kind.loops else "graph"
    return f'<rect class="{kind}" {_place(node.box)} rx="12"/>'


def _edge(edge: EdgeCurve) -> str:
    kind = _kind(edge.wire)
    data = " data" if edge.wire is not None and not edge.wire.edge.trigger else ""
    title = f"<title>{_text(str(edge.wire.edge.edge))}</title>" if edge.wire else ""
    shape = f'd="{_path(edge.curve)}" marker-end="url(#{kind}-head)"'
    return f'<path class="edge {kind}{data}" {shape}>{title}</path>'


def _kind(wire: Wire | None) -> str:
    if wire is None:
        return "edge"
    return "back" if wire.back else "leave" if wire.leaves else "edge"


def _label(edge: EdgeCurve, box: Box) -> Iterator[str]:
    yield f'<rect class="chip {_kind(edge.wire)}" {_place(box)} rx="9"/>'
    middle = box.x + box.width / 2
    for number, line in enumerate(edge.label):
        yield _words(line, middle, box.y + 14 + LABEL_LINE * number, "label", "middle")


def _mark(mark: MarkBox) -> str:
    box = mark.box
    kind = "mark" if mark.text == "start" else "vote"
    text = _words(mark.text, box.x + box.width / 2, box.y + box.height / 2 + 4, "mark-text", "middle")
    return f'<rect class="{kind}" {_place(box)} rx="{_n(box.height / 2)}"/>{text}'


def _node(node: NodeBox) -> str:
    box, kind, shown = node.box, kind_of(node.node.kind), one_line(node.node.id)
    inside = [f"<title>{_text(shown)} ({_text(node.node.kind.name)})</title>"]
    if node.holds_graph:
        inside += _title(node.title, box.x + PAD, box.y, "loop-title" if node.node.kind.loops else "")
    else:
        inside += _card(box, kind, shown, node_words(node.node))
    if node.ends:
        inside += _end(box, kind)
    return f"<g>{''.join(inside)}</g>"


def _card(box: Box, kind: str, shown: str, words: str) -> Iterator[str]:
    room = box.width - 54
    yield f'<rect class="card k-{kind}" {_place(box)} rx="10"/>'
    yield f'<rect class="tile k-{kind}" {_place(Box(box.x + 9, box.y + 9, 28, 28))} rx="8"/>'
    moved = f'transform="translate({_n(box.x + 15)} {_n(box.y + 15)})"'
    yield f'<path class="icon k-{kind}" {moved} d="{ICONS[kind]}"/>'
    yield _words(fit(shown, ID_SIZE, room, bold=True), box.x + 45, box.y + 20, "id")
    yield _words(fit(words, TYPE_SIZE, room), box.x + 45, box.y + 35, "type")


def _end(box: Box, kind: str) -> Iterator[str]:
    ring = Box(box.x + 3.5, box.y + 3.5, box.width - 7, box.height - 7)
    yield f'<rect class="ring k-{kind}" {_place(ring)} rx="7"/>'
    yield _mark(MarkBox("end", Box(box.right - 32, box.y - 9, 36, 17)))


def _words(text: str, x: float, y: float, kind: str, anchor: str = "") -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}"{at}>{_text(text)}</text>'


def _path(curve: Curve) -> str:
    steps = []
    for number, points in enumerate(curve):
        command = "M" if number == 0 else "C" if len(points) == 3 else "L"
        steps.append(command + " ".join(f"{_n(x)} {_n(y)}" for x, y in points))
    return "".join(steps)


def _place(box: Box) -> str:
    return f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'


def _text(text: str) -> str:
    return escape(one_line(text))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
