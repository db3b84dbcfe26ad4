"""The difference between two texts, word by word, for people who compare two rounds of a loop.

Words are compared without the white space around them: a model that wraps its lines differently has not
said anything new. Chinese, Japanese and Korean have no spaces, so there each character is a word. Long
unchanged passages are cut, since the change is what matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, NamedTuple

from rich.text import Text

MAX_WORDS = 2000
"""The comparison takes quadratic time; what is beyond is not compared."""
CONTEXT = 12
"""How many words of an unchanged passage are shown next to a change."""
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD_CHARACTER = re.compile(f"[{_IDEOGRAPHS}]")
_WORD = re.compile(rf"[{_IDEOGRAPHS}]\s*|[^\s{_IDEOGRAPHS}]+\s*")

Change = Literal["same", "added", "removed", "cut"]
_STYLES: dict[Change, str] = {"same": "", "added": "green", "removed": "red strike", "cut": "dim"}


class Passage(NamedTuple):
    """A part of a difference. `compare_words` creates it."""

    change: Change
    text: str


@lru_cache(maxsize=16)
def compare_words(before: str, after: str) -> tuple[Passage, ...]:
    """What has to be removed from one text and added to it to get the other."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    cut = len(old) > MAX_WORDS or len(new) > MAX_WORDS
    old, new = old[:MAX_WORDS], new[:MAX_WORDS]
    matcher = SequenceMatcher(
        None, [word.strip() for word in old], [word.strip() for word in new], autojunk=False
    )
    passages: list[Passage] = []
    codes = matcher.get_opcodes()
    for number, (kind, begin, end, new_begin, new_end) in enumerate(codes):
        if kind == "equal":
            passages += _same(new[new_begin:new_end], number > 0, number < len(codes) - 1)
            continue
        if end > begin:
            passages.append(Passage("removed", "".join(old[begin:end])))
        if new_end > new_begin:
            passages.append(Passage("added", "".join(new[new_begin:new_end])))
    return (*passages, Passage("cut", " …")) if cut else tuple(passages)


def _same(words: list[str], follows: bool, precedes: bool) -> Iterator[Passage]:
    """An unchanged passage; only the words next to a change are shown of a long one."""
    if len(words) <= 3 * CONTEXT:
        yield Passage("same", "".join(words))
        return
    if follows:
        yield Passage("same", "".join(words[:CONTEXT]))
    yield Passage("cut", "… ")
    if precedes:
        yield Passage("same", "".join(words[-CONTEXT:]))


def counts(passages: tuple[Passage, ...]) -> tuple[int, int]:
    """How many words were added, and how many removed."""
    numbers = {"added": 0, "removed": 0}
    for change, text in passages:
        if change in numbers:
            numbers[change] += len(_WORD.findall(text))
    return numbers["added"], numbers["removed"]


def diff_text(passages: tuple[Passage, ...], *, marked: bool) -> Text:
    """The difference as one text: coloured, or `marked` with +[…] and -[…] where there are no colours."""
    result = Text()
    for change, text in passages:
        words = text.rstrip()
        # White space behind a passage is part of neither text. The last word of a text has none, but one
        # that replaces it follows.
        joined = change in ("same", "cut") or _WORD_CHARACTER.fullmatch(words[-1:])
        space = text[len(words) :] or ("" if joined else " ")
        if marked and change in ("added", "removed"):
            words = f"{'+' if change == 'added' else '-'}[{words}]"
        result.append(words, _STYLES[change]).append(space)
    return result
