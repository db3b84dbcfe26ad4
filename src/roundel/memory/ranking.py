"""Which of the entries that were found come first. Only they count, never those of another shelf."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Protocol

from roundel.llm.meter import EmbeddingMeter
from roundel.memory.store import Match


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
