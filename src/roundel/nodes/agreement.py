"""Whether a text agrees, as far as that can be told from its words.

A phrase counts if it stands as a whole, and by how it stands in its clause: negated ("I don't think we
agree", 不同意) or under a condition ("I agree if …") it is a no; as a question or a wish ("can we agree",
尽快达成共识) it says nothing. If there are several, the last one counts: "I did not agree, but now I agree".

In doubt it is no agreement, which costs another round; the other mistake would end a talk too early.
Known limits: words of others that are quoted inside a sentence ("> " before a line is understood), and
reservations ("I agree, but …"), which are taken for agreement.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from roundel.nodes import wording

_MARKS = str.maketrans({"’": "'", "‘": "'", "´": "'", "`": "", "*": "", "_": ""})
_CONTEXT_LENGTH = 300
"""How many characters of a clause are looked at, before and behind a phrase."""
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Han, kana, Thai, Lao, Burmese, Khmer."""


def is_agreement(text: str, phrases: Iterable[str] = wording.AGREEING_PHRASES) -> bool:
    return detect_stance(text, phrases, wording.DISSENTING_PHRASES) is True


def detect_stance(text: str, agreeing: Iterable[str], dissenting: Iterable[str] = ()) -> bool | None:
    """For, against, or neither."""
    plain = wording.IDIOMS.sub(lambda found: " " * len(found[0]), normalize_text(_strip_quotes(text)))
    found = list(_pattern(tuple(agreeing), tuple(dissenting)).finditer(plain))
    clauses = _split_clauses(plain) if found else []
    stances = (
        _phrase_stance(_phrase_context(plain, clauses, *each.span()), each.lastgroup == "against")
        for each in reversed(found)
    )
    return next((each for each in stances if each is not None), None)


def normalize_text(text: str) -> str:
    """In one spelling: no capitals, wide letters or marks of emphasis."""
    return unicodedata.normalize("NFKC", text.translate(_MARKS)).casefold()


def _strip_quotes(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))


@lru_cache(maxsize=128)
def _pattern(agreeing: tuple[str, ...], dissenting: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"(?P<for>{_alternatives(agreeing)})|(?P<against>{_alternatives(dissenting)})")


def _alternatives(phrases: tuple[str, ...]) -> str:
    words = sorted(
        {" ".join(normalize_text(phrase).split()) for phrase in phrases} - {""}, key=len, reverse=True
    )
    return "|".join(map(_whole_phrase, words)) or "(?!)"


def _whole_phrase(phrase: str) -> str:
    start = "" if _UNSPACED.match(phrase) else r"(?<!\w)(?<!\w-)"
    end = "" if _UNSPACED.match(phrase[-1]) else r"(?!\w|-\w)"
    return start + re.escape(phrase).replace(r"\ ", r"\s+") + end


class Clause(NamedTuple):
    start: int
    end: int
    mark: str
    """What ends it."""


class PhraseContext(NamedTuple):
    """Where a phrase stands: the words before and behind it, and the clauses beside its own."""

    before: str
    behind: str
    mark: str
    previous: str
    following: str


def _split_clauses(text: str) -> list[Clause]:
    clauses, start = [], 0
    for found in wording.CLAUSE_BREAKS.finditer(text):
        clauses.append(Clause(start, found.start(), found[0].strip()))
        start = found.end()
    return [*clauses, Clause(start, len(text), "")]


def _phrase_context(text: str, clauses: list[Clause], start: int, end: int) -> PhraseContext:
    first = bisect_right(clauses, start, key=attrgetter("start")) - 1
    last = bisect_left(clauses, end, lo=first, key=attrgetter("end"))

    def beside(number: int, comma: int) -> str:
        joined = 0 <= comma < len(clauses) and clauses[comma].mark in wording.COMMAS
        return text[clauses[number].start : clauses[number].end][-_CONTEXT_LENGTH:].strip() if joined else ""

    return PhraseContext(
        text[max(clauses[first].start, start - _CONTEXT_LENGTH) : start],
        text[end : min(clauses[last].end, end + _CONTEXT_LENGTH)],
        clauses[last].mark,
        beside(first - 1, first - 1),
        beside(last + 1, last),
    )


def _phrase_stance(context: PhraseContext, dissent: bool) -> bool | None:
    if (
        "?" in context.mark
        or wording.QUESTION_ENDINGS.search(context.behind)
        or wording.UNFULFILLED.search(context.before)
    ):
        return None
    doubted = _is_negated(context) or _is_conditional(context)
    if dissent:
        return None if doubted else False
    return not doubted


def _is_negated(context: PhraseContext) -> bool:
    return bool(wording.NEGATIONS.search(context.before) or wording.TRAILING_NEGATIONS.search(context.behind))


def _is_conditional(context: PhraseContext) -> bool:
    words = wording.CONDITIONS
    return bool(
        words.search(context.before)
        or words.search(context.behind)
        or words.match(context.previous)
        or wording.CONDITION_ENDS.search(context.previous)
        or words.match(context.following)
    )
