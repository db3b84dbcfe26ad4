"""The drawing of a workflow as data: where everything stands, in pixels from the upper left corner.

`roundel.drawing.assembly.draw` makes a `Drawing` from a plan. It encodes to JSON; the SVG is made from it and
from nothing else, and a page can draw the same without knowing how a layout works. Coordinates are rounded to
a tenth of a pixel. A drawing is a function of the graph, not of the order of its nodes and edges in the file.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.workflow.diagnostics import Diagnostic

Density = Literal["normal", "compact"]
"""`compact` is for a pane beside others: smaller nodes, labels of one line, less air."""


class Rect(Struct, frozen=True):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rect) -> bool:
        return (
            self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom
        )

    def holds(self, other: Rect) -> bool:
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.right <= self.right
            and other.bottom <= self.bottom
        )


class DrawnNode(Struct, frozen=True, kw_only=True):
    """A node of the workflow."""

    key: str
    """Unique in the drawing: its id, behind the ids of the nodes that it is inside of."""
    id: str
    type: str
    guard: bool = False
    """It bounds a loop."""
    label: str
    """The id, cut to the width of the box."""
    caption: str
    """The type and the limit, cut to the width of the box."""
    box: Rect
    start: bool = False
    end: bool = False
    parent: str = ""
    """The key of the region that it stands in; empty for the whole drawing."""
    region: str = ""
    """The key of the region that it surrounds, if it has graphs inside."""
    missing: bool = False
    """An edge, `start` or `end` names it, but it does not exist."""
    problems: tuple[Diagnostic, ...] = ()


class Region(Struct, frozen=True, kw_only=True):
    """A frame: a loop, or a node with graphs inside."""

    key: str
    kind: Literal["loop", "node"]
    repeats: bool
    """Its nodes run in rounds: a loop, a loop agent, a debate."""
    title: str
    captions: tuple[str, ...] = ()
    """The bound of a loop; the type and the bound of a node."""
    title_x: float
    """Where the title begins: beside the edges that enter at the top."""
    entry: str = ""
    """The key of the node at which a loop is entered."""
    box: Rect
    parent: str = ""
    depth: int = 0
    """How many regions are around it."""
    problems: tuple[Diagnostic, ...] = ()


class Label(Struct, frozen=True):
    """The words on an edge, each line centred in the box."""

    lines: tuple[str, ...]
    box: Rect


class DrawnEdge(Struct, frozen=True, kw_only=True):
    """An edge of the workflow; or a line from the mark `start`, or to the mark `vote`."""

    source: str
    """The key of a node or of a mark."""
    target: str
    kind: Literal["edge", "start", "vote"] = "edge"
    back: bool = False
    """It leads to the entry of a loop around it, so it begins the next round."""
    leaves: bool = False
    """It leaves a loop."""
    triggers: bool = True
    port: str = ""
    text: str = ""
    """Its port, condition and processing, not cut."""
    label: Label | None = None
    route: tuple[tuple[tuple[float, float], ...], ...]
    """Pieces of points: where it begins; then one point is a line to it, three are a cubic curve."""
    problems: tuple[Diagnostic, ...] = ()


class Mark(Struct, frozen=True, kw_only=True):
    """Where the input of a graph comes from, or where votes are counted."""

    key: str
    kind: Literal["start", "vote"]
    text: str
    box: Rect


class Drawing(Struct, frozen=True, kw_only=True):
    density: Density
    width: float
    height: float
    title: str
    captions: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    """A region comes before those in it."""
    nodes: tuple[DrawnNode, ...] = ()
    marks: tuple[Mark, ...] = ()
    edges: tuple[DrawnEdge, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    """Those of the workflow as a whole; those of nodes, edges and regions are there."""
