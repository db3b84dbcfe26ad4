"""How new a text is beside earlier ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundel.kernel.novelty import novelty

TEXT = """
harbour walnut lantern river stone quiet morning letter kettle garden window travel season copper orchard
thunder market silver candle winter bridge forest compass island shadow marble feather
"""
WORDS = TEXT.split()
SPRING = "春天来了，茶树发出新芽。采茶的人在日出之前上山，把最嫩的叶子放进竹篮。老人说，好茶有山的味道。"
RAIN = "昨夜下了一场大雨，河里的水涨高了许多。孩子们站在桥上看鱼，忘记了回家吃饭。母亲在门口喊他们的名字。"


def prose(seed: int, size: int = 2000) -> str:
    """Text that has only its words in common with that of another seed."""
    chance, text = random.Random(seed), ""
    while len(text) < size:
        sentence = " ".join(chance.choice(WORDS) for _ in range(chance.randint(5, 14)))
        text += sentence.capitalize() + ". "
    return text[:size]


@pytest.mark.parametrize("text", ["ok", "walnut harbour", prose(1), SPRING, "x" * 100_000])
def test_a_first_text_is_new_and_a_repetition_is_not(text: str) -> None:
    assert novelty(text, []) == 1
    assert novelty(text, [text]) == 0
    assert novelty(f"{text}\n", ["something else", text, "and more"]) == 0


@pytest.mark.parametrize(
    ("text", "other"),
    [("ok", "yes"), ("walnut harbour", "a quiet text about tea"), (SPRING, RAIN), ("ACCEPT", "Too plain.")],
)
def test_short_fresh_text_is_near_1(text: str, other: str) -> None:
    assert novelty(text, [other]) > 0.9
    assert novelty(text, [other] * 8) > 0.9


def test_fresh_prose_is_new_though_its_words_are_known() -> None:
    earlier = [prose(seed) for seed in range(8)]
    assert novelty(prose(9), earlier) > 0.5
    assert novelty(prose(9), earlier[:1]) > 0.7


@pytest.mark.parametrize("text", [prose(3), RAIN * 3, prose(4, 40_000)])
def test_a_small_change_is_little_news(text: str) -> None:
    changed = text.replace(text[50:60], text[10:15]) + "!"
    assert 0 <= novelty(changed, [prose(5), text, prose(6)]) < 0.1


def test_half_old_and_half_new_lies_between() -> None:
    old, new = prose(1), prose(2)
    assert 0.25 < novelty(old[:1000] + new[:1000], [old]) < 0.75


def test_two_texts_that_take_turns_are_seen_through() -> None:
    one, other = prose(1, 300), prose(2, 300)
    said = [one, other]
    for text in (one, other, one, other):
        assert novelty(text, said) == 0
        said.append(text)


def test_only_the_last_eight_count() -> None:
    text = prose(1)
    others = [prose(seed) for seed in range(2, 10)]
    assert novelty(text, [text, *others[:7]]) == 0
    assert novelty(text, [text, *others]) > 0.5


def test_nothing_said_is_nothing_new() -> None:
    assert novelty("", []) == novelty(" \n", ["before"]) == 0
    assert novelty("a word after silence", ["", ""]) == 1


@given(st.text(), st.lists(st.text(), max_size=10))
def test_it_lies_between_0_and_1_for_any_text(text: str, earlier: list[str]) -> None:
    assert 0 <= novelty(text, earlier) <= 1
    assert novelty(text, [*earlier, text]) == 0
