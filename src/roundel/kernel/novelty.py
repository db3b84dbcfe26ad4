"""How new a text is beside earlier ones: 1 for fresh text, 0 for what was said before.

A text is compressed twice, alone and with the earlier ones as a dictionary. If those say it already, the
second time takes hardly any room. No model is asked, the same texts always give the same figure, and it holds
for any language.

What compression finds nearly known gets a second look at its words. If nothing but numbers and a word in the
same places is always another one, it is what was said before with other names in it, and next to nothing new.
But a line or two that are really new are news, however long the text around them is.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

MOST_EARLIER = 8
HALF = 8192
"""Of a long text the first and the last so many bytes count: a compressor looks back 32 KB, no further."""
EMPTY = 2
"""What the compression of nothing takes."""
MATCH, LONGEST_MATCH = 3, 258
"""What it takes to say `as before`, and for how many bytes that can be said at once."""
DOUBTFUL = 0.3
"""Below this the words are looked at."""
FEWEST_WORDS = 8
"""Of a shorter text each word counts."""
FEW = 0.2
"""At most this share of the words is another in a text that was said before with other names in it."""
LONGEST_NAME = 3
"""So many words in a row may be one name."""
NEWS, WORTH = 256, 0.15
"""In a long text new bytes count as in one of this size, up to so much."""
ALIKE = 1.5
"""A text is as near as another if it lacks at most so many times the new pairs of words."""
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
"""A word, a number, or a character of a language that has no spaces between its words."""


def novelty(text: str, earlier: Sequence[str]) -> float:
    text, known = text.strip(), [other.strip() for other in earlier[-MOST_EARLIER:]]
    if not text or text in known:
        return 0.0
    if not any(known):
        return 1.0
    data = _sample(text)
    # What a mere repetition would take is no news. Without this short texts could never be near 0.
    least = EMPTY + MATCH * -(-len(data) // LONGEST_MATCH)
    alone = _size(data) - least
    if alone <= 0:
        return 1.0  # a word or two, and not the same as before
    given = _size(data, b"\n".join(map(_sample, known))) - least
    share = min(1.0, max(0.0, given / alone))
    if share >= DOUBTFUL:
        return share
    others = _other_words(text, known)
    if others is not None:
        return min(share, others / 2)
    return max(share, min(WORTH, given / NEWS))


def _other_words(text: str, known: Sequence[str]) -> float | None:
    """The share of single words that are new in a text that is otherwise known; None if there is more to it.

    Two earlier texts have to be just as near: where names change it is always in the same places, while a
    text that is worked on changes here and there, and gets further away from what it was.
    """
    words, pairs = _words(text)
    if len(words) < FEWEST_WORDS:
        return None
    away = sorted(len(pairs - _words(other)[1]) for other in known)
    new = pairs.difference(*(_words(other)[1] for other in known))
    if away[0] and (len(away) < 2 or away[1] > ALIKE * len(new) + 1):
        return None
    changed = run = 0
    for pair in (*pairwise(words), None):
        if pair in new:
            run += 1
            if run > LONGEST_NAME + 1:
                return None
        elif run:  # a new word makes two new pairs, with the word before it and with the one behind it
            changed += max(1, run - 1)
            run = 0
    share = changed / len(words)
    return share if share <= FEW else None


@lru_cache(64)
def _words(text: str) -> tuple[list[str], set[tuple[str, str]]]:
    """The words of a text, all numbers alike, and which follow each other."""
    if len(text) > 2 * HALF:
        text = text[:HALF] + text[-HALF:]
    words = _WORD.findall(_NUMBER.sub("0", text.lower()))
    return words, set(pairwise(words))


def _sample(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return data if len(data) <= 2 * HALF else data[:HALF] + data[-HALF:]


def _size(data: bytes, dictionary: bytes = b"") -> int:
    # Raw, so that there is no header; filtered, so that fewer than six bytes in common, which any two texts
    # of a language have, do not count.
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, 6, zlib.Z_FILTERED, dictionary)
    return len(packer.compress(data)) + len(packer.flush())
