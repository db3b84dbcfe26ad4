"""Long texts in pieces, cut where a reader would pause; each begins with the end of the one before."""

from __future__ import annotations

PASSAGE_SIZE = 500
PASSAGE_OVERLAP = 50
PAUSES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "！", "？"), (" ",))
"""From the best place for a cut to the worst."""


def passages(text: str, size: int = PASSAGE_SIZE, overlap: int = PASSAGE_OVERLAP) -> list[str]:
    text, begin = text.strip(), 0
    found: list[str] = []
    while len(text) - begin > size:
        end = _passage_end(text, begin, size)
        found.append(text[begin:end])
        begin = max(_passage_start(text, end - overlap, end), begin + 1)
    found.append(text[begin:])
    return [piece.strip() for piece in found if piece.strip()]


def _passage_end(text: str, begin: int, size: int) -> int:
    """The end of a piece: behind the last pause in its second half, else at its full size."""
    for pauses in PAUSES:
        places = (text.rfind(pause, begin + size // 2, begin + size) for pause in pauses)
        ends = [place + len(pause) for place, pause in zip(places, pauses, strict=True) if place >= 0]
        if ends:
            return min(max(ends), begin + size)
    return begin + size


def _passage_start(text: str, place: int, end: int) -> int:
    """Where the first whole word begins that is to be repeated; the place itself if there are no words."""
    words = (at for at in range(place, end) if text[at - 1].isspace())
    begin = next(words, place)
    while text[begin].isspace():
        begin += 1
    return begin
