"""Exact repetition: whether a message says word for word what its speaker said before.

Some differences carry no content and do not count: white space, case, the mark at the end of a sentence, a
sentence said twice, and what is different in every message anyway: time stamps, memory addresses, UUIDs,
random ids, temporary paths, and the number of an attempt that counts up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

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
    re.IGNORECASE | re.MULTILINE,
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
LONGEST_ECHO = 12
"""The largest number of sentences of such a part."""


class _NormalForm:
    """A message without what does not count."""

    __slots__ = ("attempts", "units")

    def __init__(self, text: str) -> None:
        self.attempts: list[int] = []
        """The numbers of attempts, in order."""
        shown = ATTEMPT.sub(self._take_attempt, plain_text(text))
        found: list[str] = []
        for line in shown.split("\n"):
            start = 0
            for end in [match.end() for match in _END_OF_SENTENCE.finditer(line)] + [len(line)]:
                unit = "".join(line[start:end].casefold().split()).lstrip(">").rstrip(_MARKS)
                start = end
                if unit:
                    found.append(unit)
        found = list(dict.fromkeys(found)) if len(found) <= FEW_UNITS else _without_echoes(found)
        self.units = tuple(found) or ("".join(text.split()),)

    def _take_attempt(self, match: re.Match[str]) -> str:
        return _DIGITS.sub(self._take_number, match[0])

    def _take_number(self, match: re.Match[str]) -> str:
        self.attempts.append(int(match[0]))
        return "\0"


def _without_echoes(units: list[str]) -> list[str]:
    """The units without parts that repeat the part directly before them."""
    for size in range(1, LONGEST_ECHO + 1):
        kept: list[str] = []
        for unit in units:
            kept.append(unit)
            if len(kept) >= 2 * size and kept[-size:] == kept[-2 * size : -size]:
                del kept[-size:]
        units = kept
    return units


def plain_text(text: str) -> str:
    """The text without time stamps, addresses, ids and temporary paths."""
    return _PASSING.sub(" ", text)


@lru_cache(64)
def _normal_form(text: str) -> _NormalForm:
    return _NormalForm(text)


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
