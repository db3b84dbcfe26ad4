"""Messages as units: the sentences and lines that novelty.py compares, and where two units differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

NAME, NAME_CHARACTERS, NAME_TOKENS = 3, 6, 8
"""A name has at most so many words, or characters of a script without spaces; and so many tokens in all."""
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
"""Scripts that put no spaces between words: each character is a word."""
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+(?:-[^\W{_WIDE}]+)*|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+|[。！？；]")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WITH_DIGITS = re.compile(r"\d[\w-]*")
_WORD = re.compile(rf"[{_WIDE}]|\b[^\W\d{_WIDE}]+\b")
TIMES = (
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d?:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?\s?(?:[mµun]?s|sec(?:onds?)?|min(?:utes?)?|h(?:ours?)?)\b"
)
"""Dates, times and durations."""
_PASSING = re.compile(rf"{TIMES}|\d\d?:\d\d|\b(?=\w*[a-z_])(?=\w*\d)[\w-]+", re.IGNORECASE)
"""Dates, times, durations and identifiers: they change with every message and count nothing."""

Spans = tuple[tuple[int, int], ...]
"""Places in a list of words, each from a word up to another one; empty where something was put in."""


class Unit:
    """A sentence or a line. Most units are known, and those are only ever compared by their keys."""

    __slots__ = ("_bag", "_numbers", "_words", "exact", "figures", "key", "text")

    def __init__(self, text: str, numbers: bool) -> None:
        self.text = text
        self._numbers = numbers
        self._words: tuple[str, ...] | None = None
        self._bag: frozenset[str] = frozenset()
        self.figures = ""
        """What it is with its numbers, if it has any and they do not count as words."""
        if numbers or not _DIGIT.search(text):
            written = "".join(text.lower().split())
        else:
            written = "".join(self._tokens())
            self.figures = "".join(text.lower().split())
        self.exact = written.lstrip(">")
        """With the punctuation around it: in a long text, which may be code, a missing colon is an edit."""
        first, last = 0, len(written)
        while first < last and not (written[first].isalnum() or written[first] == "_"):
            first += 1
        while last > first and not (written[last - 1].isalnum() or written[last - 1] == "_"):
            last -= 1
        self.key = written[first:last]
        """The same for units that count as the same in a short text; empty if it is only punctuation."""

    @property
    def words(self) -> tuple[str, ...]:
        if self._words is None:
            tokens = self._tokens()
            first, last = 0, len(tokens)
            while first < last and not _is_word(tokens[first][0]):
                first += 1
            while last > first and not _is_word(tokens[last - 1][0]):
                last -= 1
            self._words = tuple(tokens[first:last])
        return self._words

    @property
    def bag(self) -> frozenset[str]:
        if not self._bag:
            self._bag = frozenset(self.words)
        return self._bag

    def _tokens(self) -> list[str]:
        tokens: list[str] = _TOKEN.findall(self.text.lower())
        return tokens if self._numbers else ["0" if has_digit(token) else token for token in tokens]


class Text(NamedTuple):
    units: tuple[Unit, ...]
    keys: tuple[str, ...]
    places: dict[str, int]
    """The last unit of each key."""
    exact: frozenset[str]
    figures: dict[tuple[str, int], str]
    """What the units with numbers are, by key and by how often the key was there before."""
    size: int
    """How many characters its units have."""
    numbers: bool
    """Its numbers are words."""


@lru_cache(64)
def read(text: str) -> Text:
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    numbers = _is_numeric(text)
    units = tuple([unit for line in lines for unit in _units(line, numbers)])
    if lines and not units:  # nothing but punctuation
        units = (_mere_punctuation(" ".join(lines)),)
    keys = tuple(unit.key for unit in units)
    places = {key: place for place, key in enumerate(keys)}
    exact = frozenset([unit.exact for unit in units])
    return Text(units, keys, places, exact, _figures(units), sum(map(len, keys)), numbers)


def _is_numeric(text: str) -> bool:
    numbers = len(_WITH_DIGITS.findall(text))
    # Few numbers in much text are no table, and to count words takes time.
    return numbers * 24 > len(text) and numbers > len(_WORD.findall(text))


@lru_cache(8192)
def _units(line: str, numbers: bool) -> tuple[Unit, ...]:
    ends = [found.end() for found in _SENTENCE_END.finditer(line)]
    units = [Unit(line[start:end], numbers) for start, end in pairwise((0, *ends, len(line)))]
    return tuple([unit for unit in units if unit.key])


def _figures(units: Sequence[Unit]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    count: dict[str, int] = {}
    for unit in units:
        if unit.figures:
            before = count.get(unit.key, 0)
            found[unit.key, before] = unit.figures
            count[unit.key] = before + 1
    return found


def _mere_punctuation(text: str) -> Unit:
    unit = Unit(text, True)
    unit.key = unit.exact
    return unit


def has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def numbers_of(text: Text) -> list[float]:
    return [float(found) for unit in text.units for found in _NUMBER.findall(_PASSING.sub(" ", unit.text))]


# Where two units differ.


def differences(unit: Unit, other: Unit) -> tuple[Spans, Spans] | None:
    """The places in both where they differ, if that is by names alone."""
    longer = max(len(unit.words), len(other.words))
    shared = len(unit.bag & other.bag)
    if 2 * shared < len(unit.bag) - 1 or 2 * shared < len(other.bag) - 1:  # few words in common
        return None
    found = _runs(unit.words, other.words)
    if found is None:
        return None
    mine, theirs = found
    same = len(unit.words) - sum(end - start for start, end in mine)
    return (mine, theirs) if same >= 2 and 2 * same >= longer else None


def _runs(words: Sequence[str], others: Sequence[str]) -> tuple[Spans, Spans] | None:
    first, last, shorter = 0, 0, min(len(words), len(others))
    while first < shorter and words[first] == others[first]:
        first += 1
    while last < shorter - first and words[-1 - last] == others[-1 - last]:
        last += 1
    mine, theirs = (first, len(words) - last), (first, len(others) - last)
    if _is_name(words[slice(*mine)]) and _is_name(others[slice(*theirs)]):
        return (mine,), (theirs,)
    return _several_runs(words, others, mine, theirs)


def _several_runs(
    words: Sequence[str], others: Sequence[str], mine: tuple[int, int], theirs: tuple[int, int]
) -> tuple[Spans, Spans] | None:
    """The same if there is more than one place, between these words."""
    at, there = mine[0], theirs[0]
    found: list[tuple[int, int]] = []
    found_there: list[tuple[int, int]] = []
    while at < mine[1] or there < theirs[1]:
        if at < mine[1] and there < theirs[1] and words[at] == others[there]:
            at += 1
            there += 1
            continue
        agreed = _agree_again(words, others, at, there)
        if agreed is None:
            return None
        found.append((at, agreed[0]))
        found_there.append((there, agreed[1]))
        at, there = agreed
    return tuple(found), tuple(found_there)


def _agree_again(words: Sequence[str], others: Sequence[str], at: int, there: int) -> tuple[int, int] | None:
    """The nearest places from which both go on alike; None if more than a name lies before them."""
    ahead = others[there : there + NAME_TOKENS + 1]
    for total in range(1, 2 * NAME_TOKENS + 1):
        for skipped in range(max(0, total - NAME_TOKENS), min(NAME_TOKENS, total, len(words) - at) + 1):
            mine, theirs = at + skipped, there + total - skipped
            if mine < len(words) and words[mine] not in ahead:
                continue
            if _go_on_alike(words, others, mine, theirs):
                if _is_name(words[at:mine]) and _is_name(others[there:theirs]):
                    return mine, theirs
                return None
    return None


def _go_on_alike(words: Sequence[str], others: Sequence[str], at: int, there: int) -> bool:
    """With two words, since one may be alike by chance; or at the end of both."""
    if at >= len(words) or there >= len(others):
        return at == len(words) and there == len(others)
    return words[at : at + 2] == others[there : there + 2] or (
        words[at] == others[there] and (at + 1 == len(words) or there + 1 == len(others))
    )


def _is_name(tokens: Sequence[str]) -> bool:
    if len(tokens) <= NAME:
        return True
    words = [token for token in tokens if _is_word(token[0])]
    wide = all(len(word) == 1 and "\u3040" <= word <= "\u9fff" for word in words)
    return len(tokens) <= NAME_TOKENS and len(words) <= (NAME_CHARACTERS if wide else NAME)


def lies_in(changes: Spans, places: Spans) -> bool:
    """Whether each change touches a place."""
    return all(any(_touch(change, place) for place in places) for change in changes)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]
