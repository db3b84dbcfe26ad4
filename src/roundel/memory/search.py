"""The words of a text, by which it is found.

Scripts that write no spaces between words (Chinese, Japanese, Thai and others; Korean too) are cut into
single characters and pairs of neighbours. A question is cut into pairs, so that order counts; a character
that is alone is found as such. What comes out is letters and digits only: nothing in it means anything to
SQLite.

Which of the entries that were found come first. Only they count, never those of another shelf.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import mul
from typing import Protocol

from roundel.llm.prices import EmbeddingMeter
from roundel.memory.store import Match

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


class Embedder(Protocol):
    """Makes vectors of texts, so that texts of like meaning have vectors of like direction."""

    name: str
    """Vectors of two names are never compared."""

    async def embed(
        self, texts: Sequence[str], meter: EmbeddingMeter, *, question: bool = False
    ) -> list[list[float]]: ...


def rank_by_words(matches: Sequence[Match], question: Sequence[str]) -> list[Match]:
    """Those with the most words of the question first, a word that few of them have counting for more."""
    common = Counter(word for match in matches for word in question if word in match.words)
    weights_by_word = word_weights(common, len(matches))

    def weight(match: Match) -> float:
        return sum(weights_by_word[word] for word in question if word in match.words)

    return sorted(matches, key=lambda match: (-weight(match), -match.entry.time, -match.entry.id))


def word_weights(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """What a word is worth that so many of all have."""
    return {word: math.log(1 + total / count) for word, count in counts.items() if count}


def pack_vector(vector: Iterable[float]) -> bytes:
    return array("f", vector).tobytes()


def cosine(first: bytes, second: bytes) -> float:
    """From -1 to 1; 0 if they cannot be compared."""
    one, other = array("f", first), array("f", second)
    size = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / size if size and len(one) == len(other) else 0.0
