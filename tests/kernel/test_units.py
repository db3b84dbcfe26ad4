"""Messages as units, and where two units differ."""

from __future__ import annotations

import pytest

from roundel.kernel.novelty import TextUnit, differences, spans_overlap

LETTERS = "a b c d e f g h i j"


@pytest.mark.parametrize(
    ("before", "now", "places"),
    [
        (LETTERS, "a b X d e f g h i j", (((2, 3),), ((2, 3),))),
        (LETTERS, "a b X Y Z d e f g h i j", (((2, 5),), ((2, 3),))),
        (LETTERS, "a b X Y Z W d e f g h i j", None),  # four words are no name
        (LETTERS, "a b X, Y and (Z) d e f g h i j", None),
        (LETTERS, "a b X, Y, (Z) d e f g h i j", (((2, 9),), ((2, 3),))),  # three, with punctuation
        (LETTERS, "a X c d e f g h Y j", (((1, 2), (8, 9)), ((1, 2), (8, 9)))),
        (LETTERS, "a X Y c d e f g Z j", (((1, 3), (8, 9)), ((1, 2), (7, 9)))),
        (LETTERS, "a c d e f g X Y h i j", (((1, 1), (6, 8)), ((1, 2), (7, 7)))),
        (LETTERS, "X b c d e f g h i Y", (((0, 1), (9, 10)), ((0, 1), (9, 10)))),
        (LETTERS, f"{LETTERS} k", (((10, 11),), ((10, 10),))),
        (f"{LETTERS} k", LETTERS, (((10, 10),), ((10, 11),))),
        (LETTERS, "a X Y Z W c d e f g h P j", None),  # one of the two places holds too much
        (LETTERS, "a V c W e X g Y i Z", None),  # too few words in common
        ("a b", "a X", None),  # one word in common may be chance
        ("a b c", "a b X", (((2, 3),), ((2, 3),))),
        ("我请张伟再看一遍", "我请王小明再看一遍", (((2, 5),), ((2, 4),))),
        ("我请张伟再看一遍方案", "我请一二三四五六七再看一遍方案", None),
    ],
)
def test_differences_between_two_units(before: str, now: str, places: object) -> None:
    assert differences(TextUnit(now, False), TextUnit(before, False)) == places


@pytest.mark.parametrize(
    ("change", "place", "touches"),
    [
        ((2, 3), (2, 3), True),
        ((2, 4), (3, 5), True),
        ((3, 4), (2, 3), False),
        ((1, 2), (2, 3), False),
        ((3, 3), (2, 3), True),  # something was put in right behind it
        ((2, 2), (2, 3), True),
        ((4, 4), (2, 3), False),
        ((2, 3), (3, 3), True),
        ((1, 2), (3, 3), False),
    ],
)
def test_spans_overlap_when_a_change_touches_a_place(
    change: tuple[int, int], place: tuple[int, int], touches: bool
) -> None:
    assert spans_overlap((change,), (place,)) is touches
    assert spans_overlap((change, (8, 9)), (place,)) is False
    assert spans_overlap((change,), ((8, 9), place)) is touches


def test_text_unit_has_normalised_forms() -> None:
    unit = TextUnit('> "The  run-2 FAILED (again)!"', False)
    assert unit.words == ("the", "0", "failed", "(", "again")
    assert (unit.key, unit.exact) == ("the0failed(again", '"the0failed(again)!"')
    assert unit.figures == '> "The  run-2 FAILED (again)!"'
    assert TextUnit("12 > 7", True).words == ("12", ">", "7")
    assert TextUnit("no digits", False).figures == ""
