"""When an unknown word is a misspelling of a known one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_EDITS: Final = 2
LONGEST_WORD: Final = 100
"""Nobody mistypes a longer name, and comparing two words takes quadratic time."""


def folded(word: str) -> str:
    """A word without what does not count as a difference: case, `-` and `_`, and so camelCase."""
    return word.replace("-", "").replace("_", "").casefold()


def misspelling_of(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` misspells: the one with the fewest edits, the first of several.

    An edit is a letter left out, added or replaced, or two neighbours swapped. There may be at most two,
    and fewer than half the letters of the longer word: `id` and `to`, or `tags` and `vars`, are two edits
    apart, and nobody meant the one by the other.
    """
    if len(word) > LONGEST_WORD:
        return None
    given, best, found = folded(word), MAX_EDITS + 1, None
    for candidate in known:
        meant = folded(candidate)
        longest = max(len(given), len(meant))
        if abs(len(given) - len(meant)) >= best:
            continue
        edits = _edits(given, meant)
        if edits < best and 2 * edits < longest:
            best, found = edits, candidate
    return found


def _edits(one: str, other: str) -> int:
    """The optimal string alignment distance: no piece is edited twice."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(above[column] + 1, line[-1] + 1, above[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]
