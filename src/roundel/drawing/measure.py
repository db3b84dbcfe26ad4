"""How wide text comes out, as far as that can be known without the reader's font."""

from __future__ import annotations

import unicodedata

_NARROW = frozenset("iljtfrI1.,:;'|!()[]{}` ")
_WIDE = frozenset("mwMW@%&—…→↺⇥")


def text_width(text: str, size: float, bold: bool = False) -> float:
    """In the units of the font's size, rather too wide than too narrow."""
    return size * sum(_em(char) for char in text) * (1.1 if bold else 1)


def _em(char: str) -> float:
    if char in _NARROW:
        return 0.36
    if char in _WIDE:
        return 0.95
    if char.isascii():
        return 0.7 if char.isupper() else 0.58
    if unicodedata.combining(char):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(char) in "WF" else 0.68


def fit(text: str, size: float, width: float, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it would be too wide."""
    if text_width(text, size, bold) <= width:
        return text
    room = width - text_width("…", size, bold)
    taken = 0
    while taken < len(text) and text_width(text[: taken + 1], size, bold) <= room:
        taken += 1
    return text[:taken].rstrip() + "…"


def wrap(text: str, size: float, width: float, most: int) -> tuple[str, ...]:
    """At most so many lines of that width, broken at spaces where there are any."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most - 1 and text_width(rest, size) > width:
        line = fit(rest, size, width)[:-1] or rest[0]
        at = line.rfind(" ") if len(line) < len(rest) and rest[len(line)] != " " else len(line)
        taken = at if at > len(line) // 2 else len(line)
        lines.append(rest[:taken].rstrip())
        rest = rest[taken:].lstrip()
    return (*lines, fit(rest, size, width)) if rest else tuple(lines)
