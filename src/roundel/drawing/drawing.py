"""The drawing of a workflow as data: the place of everything, in pixels from the upper left corner.

`roundel.drawing.assembly.draw` creates a `Drawing` from a plan. It encodes to JSON. The SVG is made from
this data and from nothing else, so a page can draw the same without knowing how a layout works. The
shape of the data is an interface: fields may be added, but not changed.

Coordinates are rounded to a tenth of a pixel. A drawing is a function of the graph, and not of the order
of nodes and edges in the file: an editor that moves a node in the text must not move it in the picture.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.workflow.diagnostics import Diagnostic

Density = Literal["normal", "compact"]
"""`compact` is for a pane beside other panes: smaller nodes, labels of one line, smaller gaps."""


class Rect(Struct, frozen=True):
    """A rectangle."""

    x: float
    """The left edge."""
    y: float
    """The upper edge; y grows downwards."""
    width: float
    """Its width."""
    height: float
    """Its height."""

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


class Contents(Struct, frozen=True, kw_only=True):
    """What the graphs inside a collapsed node have, with all graphs inside those."""

    nodes: int
    """The number of nodes."""
    edges: int
    """The number of edges."""
    loops: int
    """The number of loops, also of those that a node is itself."""


class DrawnNode(Struct, frozen=True, kw_only=True):
    """A node of the workflow."""

    key: str
    """Unique in the drawing: its id, preceded by the ids of the nodes that contain it."""
    id: str
    """The id of the node."""
    type: str
    """The type of the node."""
    guard: bool = False
    """Whether it bounds a loop."""
    label: str
    """The id, cut to the width of the box."""
    caption: str
    """The type and the limit, cut to the width of the box."""
    box: Rect
    """Where it is."""
    start: bool = False
    """Whether the input of its graph enters here."""
    end: bool = False
    """Whether its output is a result of its graph."""
    parent: str = ""
    """The key of the region that contains it; empty at the top."""
    region: str = ""
    """The key of its own region, if it has graphs inside that are drawn."""
    inside: Contents | None = None
    """What is inside it, if it is collapsed: a single card instead of a region."""
    missing: bool = False
    """Whether it does not exist: only an edge, `start` or `end` names it."""
    problems: tuple[Diagnostic, ...] = ()
    """Errors and warnings about it; if it is collapsed, also about what is inside it."""


class Region(Struct, frozen=True, kw_only=True):
    """A frame: a loop, or a node with graphs inside."""

    key: str
    """Unique in the drawing."""
    kind: Literal["loop", "node"]
    """A loop, or a node with graphs inside."""
    repeats: bool
    """Whether its nodes run in rounds: a loop, a loop agent, a debate."""
    title: str
    """The name of the loop or of the node."""
    captions: tuple[str, ...] = ()
    """The bound of a loop; the type and the bound of a node."""
    title_x: float
    """The x of the title, which is beside the edges that enter at the top."""
    entry: str = ""
    """The key of the node at which the loop is entered."""
    box: Rect
    """Where it is."""
    parent: str = ""
    """The key of the region that contains it; empty at the top."""
    depth: int = 0
    """How many regions contain it."""
    problems: tuple[Diagnostic, ...] = ()
    """Errors and warnings about it."""


class Label(Struct, frozen=True):
    """The text on an edge, each line centred in the box."""

    lines: tuple[str, ...]
    """The lines of the text."""
    box: Rect
    """Where it is."""


class DrawnEdge(Struct, frozen=True, kw_only=True):
    """An edge of the workflow; or a line from the mark `start`, or to the mark `vote`."""

    source: str
    """The key of a node or of a mark."""
    target: str
    """The key of a node or of a mark."""
    kind: Literal["edge", "start", "vote"] = "edge"
    """An edge of the workflow, or a line from or to a mark."""
    back: bool = False
    """Whether it leads to the entry of a loop around it, and so begins the next round."""
    leaves: bool = False
    """Whether it leaves a loop."""
    triggers: bool = True
    """Whether a message on it makes the target run."""
    port: str = ""
    """The port that it leaves by; empty for the usual one."""
    explicit: bool = False
    """Whether only this port takes it: a failure (`error`), a timeout or an exit."""
    text: str = ""
    """Its port, condition and processing, not cut."""
    label: Label | None = None
    """Its text as drawn; None if it has none."""
    route: tuple[tuple[tuple[float, float], ...], ...]
    """Pieces of points. The first is the start; then one point is a line, three points are a cubic
    curve."""
    problems: tuple[Diagnostic, ...] = ()
    """Errors and warnings about it."""


class Mark(Struct, frozen=True, kw_only=True):
    """The source of a graph's input, or the place where votes are counted."""

    key: str
    """Unique in the drawing."""
    kind: Literal["start", "vote"]
    """What it marks."""
    text: str
    """Its text."""
    box: Rect
    """Where it is."""


class Drawing(Struct, frozen=True, kw_only=True):
    """A laid out workflow; `roundel.drawing.assembly.draw` creates it."""

    density: Density
    """How much room it takes."""
    width: float
    """The width of the whole drawing."""
    height: float
    """The height of the whole drawing."""
    title: str
    """The name of the workflow."""
    captions: tuple[str, ...] = ()
    """Lines below the title."""
    regions: tuple[Region, ...] = ()
    """A region precedes the regions inside it, so that they can be painted in this order."""
    nodes: tuple[DrawnNode, ...] = ()
    """All nodes."""
    marks: tuple[Mark, ...] = ()
    """Where inputs enter, and where votes are counted."""
    edges: tuple[DrawnEdge, ...] = ()
    """All edges."""
    problems: tuple[Diagnostic, ...] = ()
    """Problems of the workflow as a whole; nodes, edges and regions have their own."""
