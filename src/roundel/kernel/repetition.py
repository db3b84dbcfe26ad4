"""Exact repetition: whether a message says word for word what its speaker said before.

Some differences carry no content and do not count: white space, case, the mark at the end of a sentence, a
sentence said twice, and what is different in every message anyway: time stamps, memory addresses, UUIDs,
random ids, temporary paths, and the number of an attempt that counts up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?"
_ZONE = r"(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_STAMP = rf"(?:{_DATE}(?:[T ,]\s?{_TIME}{_ZONE})?|{_TIME}{_ZONE})"
IDENTIFIERS = (
    r"\b0x[0-9a-f]+\b"
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|\b(?=[a-f]*\d)[0-9a-f]{16,}\b"
    r"|(?:/private)?(?:/var)?/tmp/[^\s'\"]+|/var/folders/[^\s'\"]+|[a-z]:\\[^\s'\"]{0,99}\\temp\\[^\s'\"]+"
)
"""Memory addresses, UUIDs, random ids and temporary paths."""
_PASSING = re.compile(
    rf"{_DATE}[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?{_ZONE}"
    rf"|^\s*[\[(]?{_STAMP}[\])]?(?![\w:])"
    rf"|[\[(]{_STAMP}[\])]"
    rf"|{IDENTIFIERS}",
    re.IGNORECASE,
)
"""A time alone may be the content, as in "let us meet at 10:30". It is a time stamp if it has a date and
seconds, or stands at the start of a line or in brackets."""
ATTEMPT = re.compile(
    r"(?<!\S\()(?<=\()\d{1,6}(?=\))"
    r"|\b(?:attempt|round|iteration)s?\b[\"']?\s{0,3}(?:(?:number|no\.?|nr\.?)\s)?[#:=]?\s{0,3}\d{1,6}\b(?!\.\d)"
    r"|\b(?:try|retry)\s(?:number\s|no\.?\s|#)\d{1,6}\b"
    r"|\b\d{1,6}(?:st|nd|rd|th)(?=\s(?:attempt|try|retry|round|iteration)\b)"
    r"|第\s?\d{1,6}\s?(?=[次轮回])",
    re.IGNORECASE,
)
"""The number of an attempt: "attempt 4", "round 4", "(4)", "4th try", 第4次; not "try 4 workers" or
`range(4)`."""
_DIGITS = re.compile(r"\d+")
_END_OF_SENTENCE = re.compile(r"[.!?…][\"'”’)]*\s+|[。！？；]")
_MARKS = ".!?…。！？； \t"
FEW_UNITS = 5
"""In a longer text only a part that follows itself counts as said twice: code has equal lines on purpose."""
MANY_UNITS, LONGEST_ECHO = 60, 12
"""The largest number of sentences of such a part; in a text of many, it is one."""


_MAY_PASS = re.compile(r"\d|/tmp/|/var/folders/|\\temp\\", re.IGNORECASE)
"""In a line without this there is nothing that passes, and no number of an attempt."""


class _NormalForm(NamedTuple):
    """A text without what does not count."""

    units: tuple[str, ...]
    """Its sentences."""
    attempts: tuple[int, ...]
    """The numbers of attempts, in order."""


@lru_cache(64)
def _normal_form(text: str) -> _NormalForm:
    found: list[str] = []
    attempts: list[int] = []
    for line in text.split("\n"):
        units, numbers = _normal_line(line)
        found += units
        attempts += numbers
    kept = list(dict.fromkeys(found)) if len(found) <= FEW_UNITS else _without_echoes(found)
    return _NormalForm(tuple(kept) or ("".join(text.split()),), tuple(attempts))


@lru_cache(8192)
def _normal_line(line: str) -> _NormalForm:
    """Cached like the units of novelty.py: most lines of a revised text are known."""
    attempts: list[int] = []

    def take_number(match: re.Match[str]) -> str:
        attempts.append(int(match[0]))
        return "\0"

    if _MAY_PASS.search(line):
        line = _PASSING.sub(" ", line)
        line = ATTEMPT.sub(lambda match: _DIGITS.sub(take_number, match[0]), line)
    ends = [match.end() for match in _END_OF_SENTENCE.finditer(line)]
    units = [
        "".join(line[start:end].casefold().split()).lstrip(">").rstrip(_MARKS)
        for start, end in pairwise((0, *ends, len(line)))
    ]
    return _NormalForm(tuple([unit for unit in units if unit]), tuple(attempts))


def _without_echoes(units: list[str]) -> list[str]:
    """The units without parts that repeat the part directly before them."""
    if len(set(units)) == len(units):
        return units
    for size in range(1, 1 + (LONGEST_ECHO if len(units) <= MANY_UNITS else 1)):
        kept: list[str] = []
        for unit in units:
            kept.append(unit)
            if len(kept) >= 2 * size and kept[-size:] == kept[-2 * size : -size]:
                del kept[-size:]
        units = kept
    return units


def repeats_exactly(text: str, earlier: Sequence[str]) -> bool:
    """Whether a message repeats one of the earlier ones. They are in order, the last one directly before it:
    the number of an attempt may have grown by at most one with each message."""
    mine = _normal_form(text)
    for distance, other in enumerate(reversed(earlier), 1):
        theirs = _normal_form(other)
        if mine.units == theirs.units and len(mine.attempts) == len(theirs.attempts):
            pairs = zip(mine.attempts, theirs.attempts, strict=True)
            if all(0 <= now - then <= distance for now, then in pairs):
                return True
    return False
