"""Whole words in text of any script."""

from __future__ import annotations

import unicodedata
from typing import Final

_WITHOUT_SPACES: Final = frozenset(
    ("CJK", "IDEOGRAPHIC", "BOPOMOFO", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
)
"""Scripts that put no spaces between words, by the first word of their characters' Unicode names."""


def holds_word(text: str, word: str) -> bool:
    """Whether a text holds `word`, and not as a part of a longer one.

    Letters, digits and `_` beside each other are one word. In scripts that put no spaces between words
    nobody can tell where a word ends, so there a character never belongs to the one beside it.
    """
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        begins = start == 0 or not _joined(text[start - 1], text[start])
        if begins and (end == len(text) or not _joined(text[end - 1], text[end])):
            return True
        start = text.find(word, start + 1)
    return False


def _joined(left: str, right: str) -> bool:
    """Whether two neighbours belong to one word; an accent belongs to the letter before it."""
    if _is_mark(right):
        return left.isalnum() or _is_mark(left)
    return (_is_mark(left) or _in_words(left)) and _in_words(right)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _in_words(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    name = unicodedata.name(character, "").removeprefix("HALFWIDTH ")
    return character.isalnum() and name.replace("-", " ").partition(" ")[0] not in _WITHOUT_SPACES
