"""Words and vectors by which memories are found, and the ranking of matches.

Words: scripts without spaces between words (Chinese, Japanese, Thai and others; Korean too) are split
into single characters and pairs of neighbours. A question is split into pairs, so that the order of
characters counts; a single character is searched as such. The words consist of letters and digits only,
so nothing in them has a meaning in the query language of SQLite. The full-text index of SQLite has no
tokenizer for such scripts, so words are split here, and both stores find the same entries.

Ranking: only the matches themselves determine their order, never entries of another shelf.
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

from roundel.memory.store import Match
from roundel.nodes.prices import EmbeddingMeter

MAX_WORD_LENGTH = 64
"""Characters of a word that are indexed."""
MAX_QUERY_WORDS = 128
"""Words of a question that are searched: half from its beginning, half from its end."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "".join(
    mark for mark in map(chr, range(0x0900, 0x0E00)) if unicodedata.category(mark).startswith("M")
)
"""In the scripts of India most vowels are combining marks behind a letter, and part of the word."""
_PARTS = re.compile(f"([{_UNSPACED}]+)|((?:[^\\W_{_UNSPACED}]+|[{_MARKS}]+)+)")
_ACCENTS = re.compile(
    "[\u0300-\u036f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # the points of Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"  # of Arabic
)


def index_words(text: str) -> list[str]:
    """All words under which a text is indexed, each once."""
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
    """The share of the question's words that occur in `words`, from 0 to 1."""
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
    """The text without case, accents and compatibility variants of characters."""
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed)).casefold()


class Embedder(Protocol):
    """Makes vectors of texts: texts of similar meaning have vectors of similar direction
    (llm/embedding.py)."""

    name: str
    """Identifies the model and the size of its vectors. Vectors with different names are never
    compared."""

    async def embed(
        self, texts: Sequence[str], meter: EmbeddingMeter, *, question: bool = False
    ) -> list[list[float]]: ...


def rank_by_words(matches: Sequence[Match], question: Sequence[str]) -> list[Match]:
    """Sorts matches by the words of the question that they have; a word counts more the fewer matches
    have it.

    The weights come from these matches alone. Statistics over the whole store would let the entries of
    one group change the order that another group sees (decision 11)."""
    common = Counter(word for match in matches for word in question if word in match.words)
    weights_by_word = word_weights(common, len(matches))

    def weight(match: Match) -> float:
        return sum(weights_by_word[word] for word in question if word in match.words)

    return sorted(matches, key=lambda match: (-weight(match), -match.entry.time, -match.entry.id))


def word_weights(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """The weight of each word, from the number of entries that have it."""
    return {word: math.log(1 + total / count) for word, count in counts.items() if count}


def pack_vector(vector: Iterable[float]) -> bytes:
    """A vector in the form in which stores keep it: 32-bit floats in the byte order of the machine."""
    return array("f", vector).tobytes()


def cosine(first: bytes, second: bytes) -> float:
    """The cosine similarity of two packed vectors, from -1 to 1; 0 if one is zero or their sizes differ.
    In plain Python: fast enough for thousands of entries, and no dependency on a numeric library."""
    one, other = array("f", first), array("f", second)
    size = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / size if size and len(one) == len(other) else 0.0
