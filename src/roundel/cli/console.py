"""Rich output that messages cannot steer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from roundel.cli.output import printable


class SafeConsole(Console):
    """A console on which all text is printable, with no markup but that of `Text` and styles.

    Texts whose width matters are made printable before they are laid out; this is the last line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            # Control segments are rich's own: they move the cursor of the live view.
            yield segment if text == segment.text else Segment(text, segment.style)
