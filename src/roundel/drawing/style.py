"""How the SVG looks: colours for light and dark, a colour and an icon for each node type."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from roundel.drawing.drawing import DrawnNode

OTHER = "other"
KINDS = ("agent", "human", "python", "literal", "passthrough", "subgraph", "guard")

# Each in a square of 16, drawn with strokes.
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
}

# Selector and declarations; `$name` is a colour. Colours are written out, not left to CSS variables, which
# programs other than browsers often do not know.
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
"""Added where something has an error, so that other pictures stay as they are."""


def style(rules: Mapping[str, str] = RULES) -> str:
    return f"{_sheet(rules, _LIGHT)}@media (prefers-color-scheme: dark) {{\n{_sheet(rules, _DARK)}}}\n"


def _sheet(rules: Mapping[str, str], colours: dict[str, str]) -> str:
    # Under a class of our own, so that it touches nothing else on a page that holds the drawing.
    lines = (f".roundel {selector} {{ {declared} }}\n" for selector, declared in rules.items())
    return Template("".join(lines)).substitute(colours)


def icon_of(node: DrawnNode) -> str:
    """The name of the icon and of the colour of a node."""
    if node.guard:
        return "guard"
    return node.type if node.type in KINDS else OTHER
