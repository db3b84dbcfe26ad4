"""What the evidence of a dead loop takes: messages may have megabytes."""

from __future__ import annotations

from roundel.kernel.dead_loop import MOST_COMPARED, SHOWN, repetitions
from tests.effort import calls_of

WORDS = "lorem ipsum dolor "


def evidence(before: str, now: str) -> list[list[str]]:
    said = [(1, "Writer", "Writer[1]", before), (2, "Writer", "Writer[2]", now)]
    changed: list[list[str]] = repetitions(said, [(1, 0.0)])[0]["changed"]
    return changed


def test_a_difference_in_long_messages_is_found() -> None:
    one, other = WORDS * 1_000 + "red " + WORDS * 1_000, WORDS * 1_000 + "blue sky " + WORDS * 1_000
    assert evidence(one, other) == [["red", "blue sky"]]
    assert evidence(one, one + "end") == [["", "end"]]


def test_long_differences_are_one_change_and_effort_is_linear() -> None:
    def compare(words: int) -> None:
        one, other = "a " + "x y " * words + "b", "c " + "y x z " * words + "d"
        ((before, now),) = evidence(one, other)
        assert one.startswith(before) and other.startswith(now) and len(before) == len(now) == SHOWN

    small, large = (calls_of(lambda size=size: compare(size)) for size in (MOST_COMPARED, 8 * MOST_COMPARED))  # type: ignore[misc]
    assert large < 10 * small
