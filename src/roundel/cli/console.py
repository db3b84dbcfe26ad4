"""A rich console whose output texts cannot control.

rich interprets markup such as `[red]` and emoji codes in any text that it prints. Messages of models
contain brackets, so all of that is off, and styles come only from `Text` objects that our code makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from roundel.cli.output import printable


class SafeConsole(Console):
    """A console that makes all text printable; `output.console` creates it.

    Texts whose width matters must be printable before rich lays them out, since a replaced character may
    have another width. This is the last line of defence for texts that were not.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            # Only rich itself makes control segments: they move the cursor of the live view.
            yield segment if text == segment.text else Segment(text, segment.style)
