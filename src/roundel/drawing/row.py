"""The graphs inside a node, side by side under its title."""

from __future__ import annotations

from dataclasses import dataclass

from roundel.drawing.frame import PAD, TITLE_LINE, Frame, title_width

ABREAST = 4
"""How many stand beside each other; more go on below."""


@dataclass(slots=True, eq=False)
class Row:
    title: tuple[str, ...]
    frames: list[Frame]
    width: float = 0
    height: float = 0

    def __post_init__(self) -> None:
        self.width = max(self._widest(), title_width(self.title) + 2 * PAD)
        self.height = TITLE_LINE * len(self.title) + sum(_height(line) for line in self._lines())

    def shift(self, x: float, y: float) -> None:
        y += TITLE_LINE * len(self.title)
        for line in self._lines():
            at = x + (self.width - self._widest()) / 2
            for frame in line:
                frame.shift(at, y)
                at += frame.width
            y += _height(line)

    def _widest(self) -> float:
        return max(sum(frame.width for frame in line) for line in self._lines())

    def _lines(self) -> list[list[Frame]]:
        return [self.frames[at : at + ABREAST] for at in range(0, len(self.frames), ABREAST)]


def _height(line: list[Frame]) -> float:
    return max(frame.height for frame in line)
