"""Texts are found by their words, in every script, and no character means anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundel.memory.process_store import ProcessMemoryStore
from roundel.memory.search import MAX_QUERY_WORDS, index_words, query_words, word_overlap
from roundel.memory.store import Shelf
from tests.memory.memory_runs import do, remember

SHELF = Shelf("g", "x")


def found(text: str, question: str) -> bool:
    async def look() -> bool:
        memories = ProcessMemoryStore()
        await remember(memories, SHELF, text, "something else entirely")
        matches = await memories.search(SHELF, query_words(question), 10, 2.0)
        await memories.close()
        return text in [match.entry.text for match in matches]

    return do(look())


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Tea, from China", "CHINA"),
        ("Café crème", "cafe"),
        ("cafe", "CAFÉ"),
        ("Straße", "STRASSE"),
        ("東京の天気は晴れです", "天気"),
        ("東京の天気は晴れです", "東"),
        ("我们昨天讨论了预算", "预算是多少？"),
        ("예산을 논의했다", "예산"),
        ("สวัสดีครับ", "สวัสดี"),
        ("ﾃｽﾄ", "テスト"),
        ("version 2.0 of snake_case", "snake"),
        ("Привет мир", "привет"),
        ("שלום עולם", "שלום"),
        ("שָׁלוֹם עוֹלָם", "שלום"),
        ("الكِتَابُ على الطاولة", "الكتاب"),
        ("यह किताब अच्छी है", "किताब"),
    ],
)
def test_matching_words_are_found(text: str, question: str) -> None:
    assert found(text, question)


@pytest.mark.parametrize(
    ("text", "question"), [("東京", "京東"), ("tea", "te"), ("天", "気"), ("", "x"), ("की तो बी", "किताब")]
)
def test_other_words_are_not_found(text: str, question: str) -> None:
    assert not found(text or "empty", question)


@pytest.mark.parametrize(
    "question",
    [
        'tea"',
        '"tea',
        "tea*",
        "tea AND",
        "NOT tea",
        "NEAR(tea",
        "words:tea",
        "place:tea",
        "^tea",
        "{tea}",
        "tea -- ; DROP TABLE memories",
        "(tea",
        "tea) OR (x",
        "tea\x00",
        "+tea'",
    ],
)
def test_sqlite_query_syntax_is_plain_text(question: str) -> None:
    assert found("green tea", question)


@given(st.text())
def test_words_contain_only_letters_and_digits(text: str) -> None:
    for word in (*index_words(text), *query_words(text)):
        assert word and not set(word) & set("\"'*^(){}:+-_ \t\n\x00")
        assert word.casefold() == word or not word.isascii()


@given(st.text(min_size=1))
def test_text_matches_all_words_of_its_own_query(text: str) -> None:
    words = query_words(text)
    assert word_overlap(words, index_words(text)) == (1.0 if words else 0.0)


def test_long_query_uses_its_beginning_and_end() -> None:
    words = query_words(" ".join(f"w{number}" for number in range(1000)))
    assert len(words) == MAX_QUERY_WORDS
    assert (words[0], words[-1]) == ("w0", "w999")
