"""Texts made safe to show, shortened, and measured without the reader's font.

Ids, conditions and messages come from files and models. `visible` replaces characters that control a
terminal or are invalid in XML; the command line uses it for all of its output. This module therefore
imports nothing of the plan: labels.py does, and shell completion must not load it.

Widths are estimates from classes of characters, too wide rather than too narrow: the reader's font is
unknown, and a label that does not fit its box is worse than a gap.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LONGEST = 40
"""The columns of a terminal that a cut text takes at most."""
_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, delete, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # controls of the writing direction
    "\u2028\u2029\ufff9-\ufffb"  # separators of lines and paragraphs, annotations
    "\ud800-\udfff\ufffe\uffff"  # surrogates and noncharacters, which XML forbids
    "]"
)
_NARROW = frozenset("iljtfrI1.,:;'|!()[]{}` ")
_MARKS = "_.:/-,"
_WIDE = frozenset("mwMW@%&—…→↺⇥")


def visible(text: str) -> str:
    """The text with a replacement character for each control character; it has as many lines as
    before."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def escape_controls(line: str) -> str:
    """JSON text with the same characters escaped, which a JSON encoder may leave as they are."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def truncate(text: str, width: int = LONGEST) -> str:
    """The text in at most `width` columns; Chinese, Japanese and Korean characters take two."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The estimated width, in the unit of the font size."""
    return size * sum(map(_em, text)) * (1.1 if bold else 1)


@lru_cache(maxsize=4096)
def _em(char: str) -> float:
    """The width of a character in ems; cached, since a layout measures every label several times."""
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
    """The text, cut with an ellipsis where it would be wider than `width`."""
    if text_width(text, size, bold) <= width:
        return text
    scale = size * (1.1 if bold else 1)
    room = width - _em("…") * scale
    taken = 0
    for char in text:
        room -= _em(char) * scale
        if room < 0:
            break
        taken += 1
    return text[:taken].rstrip() + "…"


def wrap(text: str, size: float, width: float, most: int) -> tuple[str, ...]:
    """At most `most` lines of that width, broken between words if possible; the last one is cut."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most - 1 and text_width(rest, size) > width:
        line = fit(rest, size, width)[:-1] or rest[0]
        taken = _break(line, rest)
        lines.append(rest[:taken].rstrip())
        rest = rest[taken:].lstrip()
    return (*lines, fit(rest, size, width)) if rest else tuple(lines)


def _break(line: str, rest: str) -> int:
    """How much of the text is put on this line: up to a space, else up to a mark inside a name.

    A break in the first half of a line is not used: it would waste more than it helps.
    """
    if len(line) == len(rest) or rest[len(line)] == " ":
        return len(line)
    for at in (line.rfind(" "), max(line.rfind(mark) for mark in _MARKS) + 1):
        if at > len(line) // 2:
            return at
    return len(line)
