"""How new a text is beside earlier ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundel.kernel.novelty import judge, novelty

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
def test_first_text_is_novel_and_a_repetition_is_not(text: str) -> None:
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


def test_fresh_prose_of_known_words_is_novel() -> None:
    earlier = [prose(seed) for seed in range(8)]
    assert novelty(prose(9), earlier) > 0.5
    assert novelty(prose(9), earlier[:1]) > 0.7


@pytest.mark.parametrize("text", [prose(3), RAIN * 3, prose(4, 40_000)])
def test_small_change_in_a_long_text_is_novel(text: str) -> None:
    changed = text.replace(text[50:60], text[10:15])
    assert 0.2 <= novelty(changed, [prose(5), text, prose(6)]) < 0.5
    assert novelty(changed, [text, changed, text]) == 0  # but not a second time


@pytest.mark.parametrize(
    "other",
    [
        "THE LAMP IS RED. It stands on the desk. Nobody turned it on.",
        "The  lamp is red.\nIt stands on the desk.\n\nNobody turned it on.",
        "> The lamp is red. It stands on the desk. Nobody turned it on!",
        "It stands on the desk. Nobody turned it on. The lamp is red.",
        "The lamp is red. It stands on the desk. The lamp is red. Nobody turned it on.",
    ],
)
def test_reformatted_text_is_not_novel(other: str) -> None:
    assert novelty(other, ["The lamp is red. It stands on the desk. Nobody turned it on."]) == 0


def figures(*texts: str) -> list[float]:
    """How new each message of a speaker is when it is said."""
    return [novelty(text, texts[:place]) for place, text in enumerate(texts)]


def test_repeatedly_changing_name_is_not_novel() -> None:
    texts = [f"I have asked {name} to look at it." for name in ("Ann", "Ben", "Clara")]
    assert figures(*texts)[1] >= 0.2, "once it may be news"
    assert figures(*texts)[2] == 0


def test_two_changing_names_are_not_novel_but_longer_phrases_are() -> None:
    text = "{} has looked at the first proposal, and sent it on to {} for the last approval."
    pairs = [("Ann", "Rome"), ("Ben", "Oslo"), ("Clara", "Quito"), ("David", "Turin")]
    assert figures(*[text.format(*pair) for pair in pairs])[2:] == [0, 0]
    # More than three words are no name.
    reasons = [
        "it was late in the day",
        "nobody had asked for it",
        "the roof began to leak",
        "we like it that way",
    ]
    assert all(value >= 0.2 for value in figures(*[f"I went home because {reason}." for reason in reasons]))


def test_punctuation_after_a_name_is_ignored() -> None:
    texts = [f"I have asked {name}{mark}" for name, mark in (("Ann", "."), ("Ben", "!"), ("Clara", "?!"))]
    assert figures(*texts)[2] == 0


def test_names_in_different_places_are_novel() -> None:
    lines = [f"{word} = compute({word}, limit)" for word in WORDS[:8]]
    texts = ["\n".join(lines)]
    for place in range(4):
        lines[place] = lines[place].replace("limit", "most")
        texts.append("\n".join(lines))
    assert all(value >= 0.2 for value in figures(*texts))


def test_numbers_in_different_places_are_novel() -> None:
    lines = [f"{word}_limit = {number}" for number, word in enumerate(WORDS[:8])]
    texts = ["\n".join(lines)]
    for place in range(4):
        lines[place] = lines[place].replace(str(place), str(place + 50))
        texts.append("\n".join(lines))
    assert all(value >= 0.2 for value in figures(*texts))
    assert novelty(texts[-1], texts) == novelty(texts[-1], [texts[0], texts[-1]]) == 0
    again = ["\n".join([*lines, f"build {number} of this file"]) for number in (7, 31, 4)]
    assert figures(*again)[2] == 0


def test_same_edit_in_another_place_is_novel() -> None:
    lines = [f"def {word}():" if place % 2 else f"    return {word}" for place, word in enumerate(WORDS[:10])]
    texts = ["\n".join(lines)]
    for place in (2, 5, 8):
        lines.insert(place, "    check()")
        texts.append("\n".join(lines))
    assert all(value >= 0.2 for value in figures(*texts))
    grown = ["\n".join([*lines, *["    check()"] * count]) for count in range(1, 5)]
    assert figures(*grown)[2:] == [0, 0]


@pytest.mark.parametrize(
    "text", ["{} tests are failing", "{}% done", "accuracy {} so far", "{}MB of the old files are gone"]
)
def test_numbers_that_move_in_one_direction_are_novel(text: str) -> None:
    for values in ((50, 40, 31, 30, 12), (2, 5, 10, 11, 30), (2, 5, 7, 6, 12, 30)):
        assert all(value >= 0.2 for value in figures(*[text.format(value) for value in values]))
    swinging = [text.format(value) for value in (10, 30, 20, 25, 15, 24, 16, 23)]
    assert figures(*swinging)[4:] == [0, 0, 0, 0]


def test_numbers_that_move_beside_other_words_are_novel() -> None:
    ways = [(5200, "Moscow"), (4600, "Baku"), (4400, "Tbilisi"), (4350, "Astrakhan")]
    assert all(value >= 0.2 for value in figures(*[f"{far} km by way of {town}" for far, town in ways]))
    tried = [("Adam", 0.71), ("Lion", 0.74), ("Prop", 0.76), ("Sophia", 0.75), ("Adan", 0.85)]
    assert all(value >= 0.2 for value in figures(*[f"{name} reaches {score}" for name, score in tried]))


def test_durations_are_novel_only_if_they_fall() -> None:
    assert figures(*[f"It took {seconds} seconds." for seconds in (9, 7, 5, 4)])[1:] == [0.2, 0.2, 0.2]
    assert figures(*[f"It took {seconds} seconds." for seconds in (4, 5, 7, 9)])[1:] == [0, 0, 0]


def test_clocks_and_identifiers_are_not_novel() -> None:
    assert figures(*[f"At 10:{minute} nothing had changed." for minute in (15, 25, 35, 45)])[1:] == [0, 0, 0]
    assert figures(*[f"Job a{number}f is pending." for number in (10, 12, 17, 31)])[1:] == [0, 0, 0]


EXACT = [
    ("Attempt {} failed, I will try again.", (4, 5, 6)),
    ("Still waiting ({}).", (1, 2, 3)),
    ("第{}次尝试失败了。", (2, 3, 4)),
    ("Round {}: nothing new.", (7, 7, 8)),
    ("[2026-11-18 10:{}:00] The job is pending.", (11, 25, 39)),
    ("10:{} pending", (11, 25, 39)),
    ("Built on 2026-11-18T10:{}:07Z without an error.", (11, 25, 39)),
    ("The object at 0x7f{}a0 is gone.", (11, 25, 39)),
    ("Request {}a8a5f4-9d2b-4c1e-8f3a-0123456789ab was refused.", (11, 25, 39)),
    ("Trace {}0123456789abcdef: no handler.", (11, 25, 39)),
    ("Wrote /tmp/run-{}/out.txt.", (11, 25, 39)),
]


@pytest.mark.parametrize(("text", "values"), EXACT)
def test_what_passes_does_not_hide_an_exact_repetition(text: str, values: tuple[int, ...]) -> None:
    texts = [text.format(value) for value in values]
    assert [judge(said, texts[:place]) for place, said in enumerate(texts)][1:] == [("exact", 0.0)] * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("for i in range(4): pass", "for i in range(5): pass"),
        ("I will try 4 workers.", "I will try 5 workers."),
        ("Attempt 4 failed.", "Attempt 6 failed."),
        ("Let us meet at 10:30.", "Let us meet at 10:45."),
        ("Use the branch deadbeef.", "Use the branch 1234abcd."),
        ("return a - b", "return a * b"),
    ],
)
def test_other_changes_are_no_exact_repetition(one: str, other: str) -> None:
    assert judge(other, [one])[0] != "exact"


def test_repetitions_differ_in_certainty() -> None:
    lists = ["- milk\n- bread\n- eggs", "- eggs\n- milk\n- bread", "- bread\n- eggs\n- milk"]
    assert [judge(text, lists[:place])[0] for place, text in enumerate(lists)] == ["new"] + ["reordered"] * 2
    assert judge("Come in, tea is ready.", ["Tea is ready. Come in."]) == ("reordered", 0.0)
    operators = ["return a - b", "return a * b", "return a / b", "return a % b"]
    assert [judge(text, operators[:place])[0] for place, text in enumerate(operators)][2:] == [
        "one_place"
    ] * 2
    assert judge("Tea. Tea!  TEA", ["tea"]) == ("exact", 0.0)


def test_numbers_in_a_table_count_as_words() -> None:
    tables = ["1 2 3\n4 5 6", "1 2 3\n4 5 7", "1 2 9\n4 5 7"]
    assert all(value >= 0.2 for value in figures(*tables))
    assert figures("42", "17", "42") == [1, 1, 0]


def test_deleted_or_moved_lines_are_novel() -> None:
    parts = [f"{word} {other} {word}" for word, other in zip(WORDS, WORDS[3:], strict=False)]
    text, shorter = "\n".join(parts), "\n".join(parts[:-2])
    assert novelty(shorter, [text]) == 0.2
    assert novelty(text, [text, shorter]) == 0
    assert novelty("\n".join([*parts[4:], *parts[:4]]), [text]) == 0.2
    assert novelty("\n".join(sorted(parts)), [text]) == 0


def test_growing_list_is_novel_and_self_repeating_text_is_not() -> None:
    grown = [f"We need {', '.join(WORDS[:count])}." for count in range(2, 6)]
    assert all(value >= 0.2 for value in figures(*grown))
    assert figures(*[f"It is {'very ' * count}late." for count in range(1, 5)])[1:] == [0, 0, 0]


def test_a_missing_colon_in_a_program_is_an_edit() -> None:
    program = "\n".join(f"def {word}():\n    return {word!r}" for word in WORDS[:5])
    assert novelty(program.replace("walnut():", "walnut()"), [program]) >= 0.2


def test_half_new_text_scores_in_between() -> None:
    old, new = prose(1), prose(2)
    assert 0.25 < novelty(old[:1000] + new[:1000], [old]) < 0.75


def test_two_alternating_texts_count_as_repetition() -> None:
    one, other = prose(1, 300), prose(2, 300)
    reply_text = [one, other]
    for text in (one, other, one, other):
        assert novelty(text, reply_text) == 0
        reply_text.append(text)


def test_only_the_last_eight_texts_are_compared() -> None:
    text = prose(1)
    others = [prose(seed) for seed in range(2, 10)]
    assert novelty(text, [text, *others[:7]]) == 0
    assert novelty(text, [text, *others]) > 0.5


def test_empty_text_is_not_novel() -> None:
    assert novelty("", []) == novelty(" \n", ["before"]) == 0
    assert novelty("a word after silence", ["", ""]) == 1


@pytest.mark.parametrize("mark", [">", ">>", "…", "---"])
def test_punctuation_alone_is_new_once(mark: str) -> None:
    assert novelty(mark, ["a word"]) == 1
    assert novelty(mark, ["a word", mark]) == 0


@given(st.text(), st.lists(st.text(), max_size=10))
def test_novelty_is_between_0_and_1_for_any_text(text: str, earlier: list[str]) -> None:
    assert 0 <= novelty(text, earlier) <= 1
    assert novelty(text, [*earlier, text]) == 0


def test_novelty_of_a_long_text_is_its_share_of_new_lines() -> None:
    known = [f"{word} {word[::-1]} {word}" for word in WORDS[:16]]
    new = ["something else", "altogether", "in four", "places"]
    text = "\n".join([*new[:2], *known[:12], *new[2:], *known[12:]])
    size = sum(len(line.replace(" ", "")) for line in known)
    fresh = sum(len(line.replace(" ", "")) for line in new)
    assert novelty(text, ["\n".join(known)]) == pytest.approx(0.2 + 0.8 * fresh / (size + fresh), abs=0.001)
