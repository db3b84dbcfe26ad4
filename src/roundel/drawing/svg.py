"""A drawing as an SVG file that needs nothing else, in the reader's scheme, light or dark, or in a given one.

It is made from the `Drawing` alone: no layout happens here, so a picture and the JSON of the same
workflow agree. Colours for both schemes are in the style sheet of the file. All text is escaped, and
nothing is executed or loaded, so that the file is safe to show inside a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from string import Template
from typing import Literal

from roundel.drawing.drawing import Drawing, DrawnEdge, DrawnNode, Label, Mark, Rect, Region
from roundel.drawing.layout import MEASURES, DensityMeasures
from roundel.drawing.nesting import has_error
from roundel.drawing.text import visible
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.node_type import ERROR_PORT

Scheme = Literal["auto", "light", "dark"]
"""`auto` is the one that the reader prefers."""
OTHER = "other"
KINDS = ("agent", "human", "python", "literal", "passthrough", "subgraph", "guard")

# Paths in a square of 16 pixels, drawn with strokes.
ICONS = {
    "agent": "M8 1.5 9.7 6.3 14.5 8 9.7 9.7 8 14.5 6.3 9.7 1.5 8 6.3 6.3Z",
    "human": "M8 7.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14.5c.3-3 2.4-4.8 5.5-4.8s5.2 1.8 5.5 4.8",
    "python": "M5.5 4 1.5 8l4 4M10.5 4l4 4-4 4",
    "literal": "M2.5 4h11M2.5 8h11M2.5 12h6.5",
    "passthrough": "M1.5 8h12M9.5 4l4 4-4 4",
    "subgraph": "M2 2h5v4H2ZM9 10h5v4H9ZM4.5 6v6H9",
    "guard": "M13.8 6.2A6 6 0 1 0 14 8.5M14.2 2.2v4h-4M8 5v3.2l2.2 1.6",
    OTHER: "M8 1.8 13.4 4.9V11.1L8 14.2 2.6 11.1V4.9Z",
}

_LIGHT = {
    "page": "#ffffff",
    "card": "#ffffff",
    "ink": "#1c2333",
    "soft": "#667085",
    "line": "#8b95a7",
    "rule": "#d5dae3",
    "loop": "#e8590c",
    "leave": "#1a8f5a",
    "graph": "#7048e8",
    "agent": "#2f6fed",
    "human": "#d6336c",
    "python": "#0b8f83",
    "literal": "#5f6b7e",
    "passthrough": "#5f6b7e",
    "subgraph": "#7048e8",
    "guard": "#e8590c",
    "other": "#4263a8",
    "fault": "#c02626",
    "failure": "#b0305c",
}
_DARK = {
    "page": "#12161f",
    "card": "#1b212d",
    "ink": "#e8ecf4",
    "soft": "#98a3b8",
    "line": "#6f7b91",
    "rule": "#3a4456",
    "loop": "#ff8a4c",
    "leave": "#4fc78d",
    "graph": "#a58bff",
    "agent": "#7aa7ff",
    "human": "#ff8fb3",
    "python": "#4fd1c5",
    "literal": "#a3afc2",
    "passthrough": "#a3afc2",
    "subgraph": "#a58bff",
    "guard": "#ff8a4c",
    "other": "#9db7f0",
    "fault": "#ff8a84",
    "failure": "#ff86a8",
}

# Selectors and declarations; `$name` is a colour. Colours are substituted here and not left to CSS
# variables, which many programs other than browsers do not support.
RULES = {
    "text": "font-family: ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', "
    "'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif; fill: $ink",
    ".page": "fill: $page",
    ".id": "font-size: 13px; font-weight: 600",
    ".type": "font-size: 11px; fill: $soft",
    ".label": "font-size: 11px",
    ".card": "fill: $card; stroke-width: 1.25",
    ".ring": "fill: none; stroke-width: 1.25",
    ".tile": "opacity: .14",
    ".icon": "fill: none; stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round",
    ".loop": "fill: $loop; fill-opacity: .055; stroke: $loop; stroke-opacity: .6; stroke-dasharray: 5 4",
    ".loop-title": "fill: $loop",
    ".graph": "fill: $graph; fill-opacity: .05; stroke: $graph; stroke-opacity: .65; stroke-width: 1.25",
    ".edge": "fill: none; stroke: $line; stroke-width: 1.5",
    ".back": "stroke: $loop; stroke-width: 1.75",
    ".leave": "stroke: $leave",
    ".data": "stroke-dasharray: 2 4; stroke-linecap: round",
    ".head": "fill: $line; stroke: none",
    ".head.back": "fill: $loop; stroke: none",
    ".head.leave": "fill: $leave; stroke: none",
    ".chip": "fill: $page; stroke: $rule; stroke-width: 1",
    ".chip.back": "stroke: $loop; stroke-opacity: .55",
    ".chip.leave": "stroke: $leave; stroke-opacity: .55",
    ".mark": "fill: $leave",
    ".vote": "fill: $graph",
    ".mark-text": "fill: $page; font-size: 11px; font-weight: 600",
    **{f".k-{kind}": f"stroke: ${kind}" for kind in (*KINDS, OTHER)},
    **{f".tile.k-{kind}": f"fill: ${kind}; stroke: none" for kind in (*KINDS, OTHER)},
}
EXPLICIT_RULES = {
    ".failure": "stroke: $failure",
    ".explicit": "stroke-dasharray: 9 3 2 3",
    ".head.failure": "fill: $failure; stroke: none",
    ".chip.failure": "stroke: $failure; stroke-opacity: .55",
}
"""Rules of edges with an explicit port, added only if there are any. A line of dashes and dots is neither
that of data nor that of an error in the file."""
FAULT_RULES = {
    ".card.fault": "stroke: $fault; stroke-width: 2; stroke-dasharray: 4 3",
    ".edge.fault": "stroke: $fault; stroke-width: 1.75; stroke-dasharray: 7 3",
    ".head.fault": "fill: $fault; stroke: none",
    ".chip.fault": "stroke: $fault",
    ".loop.fault": "fill: $fault; stroke: $fault; stroke-opacity: 1; stroke-width: 1.75",
    ".graph.fault": "stroke: $fault; stroke-opacity: 1; stroke-dasharray: 4 3",
    ".badge circle": "fill: $fault; stroke: $page; stroke-width: 1.5",
    ".badge path": "fill: none; stroke: $page; stroke-width: 2; stroke-linecap: round",
}
"""Rules that are added only if something has an error, so that all other files stay byte for byte the
same."""


def stylesheet(rules: Mapping[str, str] = RULES, scheme: Scheme = "auto") -> str:
    """The rules for one scheme; or for the light one, and for the dark one if the reader prefers it."""
    if scheme != "auto":
        return _sheet(rules, _DARK if scheme == "dark" else _LIGHT)
    return f"{_sheet(rules, _LIGHT)}@media (prefers-color-scheme: dark) {{\n{_sheet(rules, _DARK)}}}\n"


def _sheet(rules: Mapping[str, str], colours: dict[str, str]) -> str:
    # Below a class of our own: inside a page, the style sheet of an SVG applies to the whole page.
    lines = (f".roundel {selector} {{ {declared} }}\n" for selector, declared in rules.items())
    return Template("".join(lines)).substitute(colours)


def icon_of(node: DrawnNode) -> str:
    """The name of the icon and of the colour of a node."""
    if node.guard:
        return "guard"
    return node.type if node.type in KINDS else OTHER


KINDS_OF_EDGE = ("edge", "back", "leave")
FAILURE = "failure"
FAULT = "fault"
BADGE = 7.5
"""The radius of the mark on something with an error."""


def svg(drawing: Drawing, scheme: Scheme = "auto") -> str:
    return "\n".join(_Picture(drawing, scheme).lines())


class _Picture:
    """Writes one file. The order of the elements is the order of painting: regions, edges, labels,
    nodes."""

    def __init__(self, drawing: Drawing, scheme: Scheme) -> None:
        self.drawing, self.scheme = drawing, scheme
        self.m: DensityMeasures = MEASURES[drawing.density]
        shown = [node.problems for node in drawing.nodes] + [edge.problems for edge in drawing.edges]
        self.faulty = any(map(has_error, [*shown, *(region.problems for region in drawing.regions)]))
        self.explicit = any(edge.explicit for edge in drawing.edges)
        self.names = {node.key: node.id for node in drawing.nodes}

    def lines(self) -> Iterator[str]:
        drawing = self.drawing
        size = f'width="{_n(drawing.width)}" height="{_n(drawing.height)}"'
        yield (
            f'<svg class="roundel" xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" role="img">'
        )
        kinds = (
            *KINDS_OF_EDGE,
            *([FAILURE] if self.explicit else []),
            *([FAULT] if self.faulty else []),
        )
        yield f"<title>{escape(drawing.title)}</title>"
        yield f"<style>{stylesheet(self._rules(), self.scheme)}</style>"
        yield f"<defs>{''.join(_arrow_head(kind) for kind in kinds)}</defs>"
        yield f'<rect class="page" {size} rx="12"/>'
        yield from self._title((drawing.title, *drawing.captions), self.m.pad, 0)
        for region in drawing.regions:
            yield from self._region(region)
        # Labels after all edges, so that no line crosses a text.
        yield from map(self._edge, drawing.edges)
        for edge in drawing.edges:
            if edge.label is not None:
                yield from self._label(edge, edge.label)
        yield from map(_mark, drawing.marks)
        yield from map(self._node, drawing.nodes)
        yield "</svg>"

    def _rules(self) -> dict[str, str]:
        # The font sizes of the density, by which the layout has measured the texts.
        m = self.m
        sizes = {
            ".id": f"font-size: {_n(m.id_size)}px; font-weight: 600",
            ".type": f"font-size: {_n(m.type_size)}px; fill: $soft",
            ".label": f"font-size: {_n(m.label_size)}px",
        }
        explicit, fault = EXPLICIT_RULES if self.explicit else {}, FAULT_RULES if self.faulty else {}
        return {**RULES, **sizes, **explicit, **fault}

    def _title(self, lines: tuple[str, ...], x: float, y: float, colour: str = "") -> Iterator[str]:
        for number, line in enumerate(lines):
            kind = f"id {colour}" if number == 0 else "type"
            yield _text_element(line, x, y + self.m.pad + 8 + (self.m.title_line - 3) * number, kind)

    def _region(self, region: Region) -> Iterator[str]:
        kind = "loop" if region.repeats else "graph"
        wrong = has_error(region.problems)
        fault = f" {FAULT}" if wrong else ""
        # The corners of loops are a little rounder than those of nodes.
        radius = 14 if region.kind == "loop" else 12
        yield f'<rect class="{kind}{fault}" {_rect_attributes(region.box)} rx="{radius}"/>'
        colour = "loop-title" if region.repeats else ""
        yield from self._title((region.title, *region.captions), region.title_x, region.box.y, colour)
        if wrong and region.kind == "loop":
            yield _badge(region.box.x, region.box.y, region.problems)

    def _edge(self, edge: DrawnEdge) -> str:
        kind = _kind(edge)
        line = " data" if not edge.triggers else " explicit" if edge.explicit else ""
        title = ""
        if edge.kind == "edge":
            title = f"<title>{escape(self._edge_title(edge))}{_error_text(edge.problems)}</title>"
        shape = f'd="{_path(edge)}" marker-end="url(#{kind}-head)"'
        return f'<path class="edge {kind}{line}" {shape}>{title}</path>'

    def _edge_title(self, edge: DrawnEdge) -> str:
        title = f"{self.names[edge.source]} → {self.names[edge.target]}"
        return title + (f" ({edge.port})" if edge.port else "")

    def _label(self, edge: DrawnEdge, label: Label) -> Iterator[str]:
        m = self.m
        yield f'<rect class="chip {_kind(edge)}" {_rect_attributes(label.box)} rx="9"/>'
        middle = label.box.x + label.box.width / 2
        for number, line in enumerate(label.lines):
            y = label.box.y + m.label_size + 3 + m.label_line * number
            yield _text_element(line, middle, y, "label", "middle")

    def _node(self, node: DrawnNode) -> str:
        icon = icon_of(node)
        inside = [f"<title>{escape(f'{node.id} ({node.type})')}{_error_text(node.problems)}</title>"]
        if not node.region:  # the region is the card of a node with graphs inside
            inside += self._card(node, icon)
        if node.end:
            inside += self._end(node.box, icon)
        if has_error(node.problems):
            inside.append(_badge(node.box.x, node.box.y, node.problems))
        return f"<g>{''.join(inside)}</g>"

    def _card(self, node: DrawnNode, icon: str) -> Iterator[str]:
        m, box = self.m, node.box
        gap = (m.node_height - m.icon) / 2
        fault = f" {FAULT}" if has_error(node.problems) else ""
        if node.inside is not None:  # a second card behind it: there is more inside
            behind = Rect(box.x + 3.5, box.y + 3.5, box.width, box.height)
            yield f'<rect class="card k-{icon}{fault}" {_rect_attributes(behind)} rx="10"/>'
        yield f'<rect class="card k-{icon}{fault}" {_rect_attributes(box)} rx="10"/>'
        tile = Rect(box.x + gap, box.y + gap, m.icon, m.icon)
        yield f'<rect class="tile k-{icon}" {_rect_attributes(tile)} rx="8"/>'
        at = gap + (m.icon - 16) / 2
        yield (
            f'<path class="icon k-{icon}" transform="translate({_n(box.x + at)} {_n(box.y + at)})" '
            f'd="{ICONS[icon]}"/>'
        )
        x, middle = box.x + 2 * gap + m.icon - 1, box.y + m.node_height / 2
        yield _text_element(node.label, x, middle - 3, "id")
        yield _text_element(node.caption, x, middle + m.type_size + 1, "type")

    def _end(self, box: Rect, icon: str) -> Iterator[str]:
        ring = Rect(box.x + 3.5, box.y + 3.5, box.width - 7, box.height - 7)
        yield f'<rect class="ring k-{icon}" {_rect_attributes(ring)} rx="7"/>'
        small = self.drawing.density == "compact"  # the label begins higher there
        pill = Rect(box.right - 27, box.y - 11, 31, 15) if small else Rect(box.right - 32, box.y - 9, 36, 17)
        yield _pill("end", pill, "vote")


def _arrow_head(kind: str) -> str:
    # One marker for each colour: a marker cannot inherit the colour of its line in all programs.
    return (
        f'<marker id="{kind}-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="head {kind}" d="M0 .8 10 5 0 9.2 2.2 5Z"/></marker>'
    )


def _kind(edge: DrawnEdge) -> str:
    if has_error(edge.problems):
        return FAULT
    if edge.explicit and edge.port == ERROR_PORT:
        return FAILURE
    return "back" if edge.back else "leave" if edge.leaves else "edge"


def _path(edge: DrawnEdge) -> str:
    steps = []
    for number, points in enumerate(edge.route):
        command = "M" if number == 0 else "C" if len(points) == 3 else "L"
        steps.append(command + " ".join(f"{_n(x)} {_n(y)}" for x, y in points))
    return "".join(steps)


def _mark(mark: Mark) -> str:
    box = mark.box
    kind = "mark" if mark.kind == "start" else "vote"
    return _pill(mark.text, box, kind)


def _pill(text: str, box: Rect, kind: str) -> str:
    words = _text_element(text, box.x + box.width / 2, box.y + box.height / 2 + 4, "mark-text", "middle")
    return f'<rect class="{kind}" {_rect_attributes(box)} rx="{_n(box.height / 2)}"/>{words}'


def _badge(x: float, y: float, problems: tuple[Diagnostic, ...]) -> str:
    title = f"<title>{_error_text(problems).strip()}</title>"
    return (
        f'<g class="badge">{title}<circle cx="{_n(x)}" cy="{_n(y)}" r="{BADGE}"/>'
        f'<path d="M{_n(x)} {_n(y - 3.5)}v4M{_n(x)} {_n(y + 3.2)}v.1"/></g>'
    )


def _error_text(problems: tuple[Diagnostic, ...]) -> str:
    """The errors for the tooltip. A message may quote any text of the file, so it is made safe."""
    errors = (found for found in problems if found.severity == "error")
    return "".join(f" {escape(visible(f'{found.severity}: {found.message}'))}" for found in errors)


def _text_element(text: str, x: float, y: float, kind: str, anchor: str = "") -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}"{at}>{escape(text)}</text>'


def _rect_attributes(box: Rect) -> str:
    return f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'


def _n(value: float) -> str:
    """A coordinate as short as possible; a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")
