"""How new a text is beside earlier ones, by compression: 1 for fresh text, 0 for what was said before.

A text is compressed twice, alone and with the earlier ones as a dictionary. If those say it already, the
second time takes hardly any room. No model is asked, the same texts always give the same figure, and it holds
for any language.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

MOST_EARLIER = 8
HALF = 8192
"""Of a long text the first and the last so many bytes count: a compressor looks back 32 KB, no further."""
EMPTY = 2
"""What the compression of nothing takes."""
MATCH, LONGEST_MATCH = 3, 258
"""What it takes to say `as before`, and for how many bytes that can be said at once."""


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
    return min(1.0, max(0.0, given / alone))


def _sample(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return data if len(data) <= 2 * HALF else data[:HALF] + data[-HALF:]


def _size(data: bytes, dictionary: bytes = b"") -> int:
    # Raw, so that there is no header; filtered, so that fewer than six bytes in common, which any two texts
    # of a language have, do not count.
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, 6, zlib.Z_FILTERED, dictionary)
    return len(packer.compress(data)) + len(packer.flush())
