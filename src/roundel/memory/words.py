"""The words of a text, by which it is found.

Scripts that write no spaces between words (Chinese, Japanese, Thai and others; Korean too) are cut into
single characters and pairs of neighbours. A question is cut into pairs, so that order counts; a character
that is alone is found as such. What comes out is letters and digits only: nothing in it means anything to
SQLite.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

MAX_WORD_LENGTH = 64
"""Characters of a word that count."""
MAX_QUERY_WORDS = 128
"""Words of a question that count: from its beginning and from its end."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "".join(
    mark for mark in map(chr, range(0x0900, 0x0E00)) if unicodedata.category(mark).startswith("M")
)
"""In the scripts of India most vowels are marks behind a letter, and belong to the word as it does."""
_PARTS = re.compile(f"([{_UNSPACED}]+)|((?:[^\\W_{_UNSPACED}]+|[{_MARKS}]+)+)")
_ACCENTS = re.compile(
    "[\u0300-\u036f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # the points of Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"  # of Arabic
)


def index_words(text: str) -> list[str]:
    """All words that a text is found by, each once."""
    return list(dict.fromkeys(_split_words(text, with_characters=True)))


def query_words(text: str) -> list[str]:
    """The words of a question, each once."""
    words = list(dict.fromkeys(_split_words(text, with_characters=False)))
    return (
        words
        if len(words) <= MAX_QUERY_WORDS
        else words[: MAX_QUERY_WORDS // 2] + words[-MAX_QUERY_WORDS // 2 :]
    )


def word_overlap(question: Collection[str], words: Collection[str]) -> float:
    """The share of the question's words that are among the others."""
    return sum(1 for word in question if word in words) / len(question) if question else 0.0


def _split_words(text: str, with_characters: bool) -> Iterator[str]:
    for unspaced, word in _PARTS.findall(_normalize(text)):
        if word:
            yield word[:MAX_WORD_LENGTH]
            continue
        if with_characters or len(unspaced) == 1:
            yield from unspaced
        yield from (unspaced[place : place + 2] for place in range(len(unspaced) - 1))


def _normalize(text: str) -> str:
    """Without case, accents and other ways to write the same."""
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed)).casefold()
