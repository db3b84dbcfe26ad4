"""Long texts are cut where a reader would pause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundel.memory.files import PASSAGE_OVERLAP, PASSAGE_SIZE, split_passages


@pytest.mark.parametrize(
    ("text", "size", "overlap", "pieces"),
    [
        ("hello", 10, 0, ["hello"]),
        ("hello world", 5, 0, ["hello", "world"]),
        ("hello\nworld", 10, 0, ["hello", "world"]),
        ("helloworld", 10, 5, ["helloworld"]),
        ("12345678", 5, 2, ["12345", "45678"]),
        ("One two. Three four five.", 15, 0, ["One two.", "Three four", "five."]),
        ("  \n ", 5, 2, []),
        ("", 5, 2, []),
    ],
)
def test_text_is_split_into_passages(text: str, size: int, overlap: int, pieces: list[str]) -> None:
    assert split_passages(text, size, overlap) == pieces


def test_paragraph_breaks_are_preferred_to_sentence_breaks() -> None:
    first, second = "A line. " * 40, "Another line. " * 30
    pieces = split_passages(f"{first.strip()}\n\n{second}")
    assert pieces[0] == first.strip()


@given(st.text(alphabet="ab \n。字", max_size=3000))
def test_splitting_loses_nothing_and_respects_the_maximum_length(text: str) -> None:
    pieces = split_passages(text)
    assert all(0 < len(piece) <= PASSAGE_SIZE for piece in pieces)
    place, plain = 0, text
    for piece in pieces:
        place = plain.index(piece, max(0, place - PASSAGE_OVERLAP - 1)) + len(piece)
    assert "".join(pieces).replace(" ", "").replace("\n", "").count("字") >= text.count("字")
    assert not plain[place:].strip()
