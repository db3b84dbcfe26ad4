"""The examples in the manual page of the breaker match its behaviour."""

from __future__ import annotations

from pathlib import Path

import pytest

from roundel.kernel.novelty import novelty_at
from tests.breaker.dead import REPEATS, VARIATIONS, dead
from tests.breaker.lively import made_up
from tests.breaker.revisions import revisions
from tests.breaker.series import Series, first_trip

PAGE = (Path(__file__).parents[2] / "docs" / "breaker.md").read_text("utf-8")
LINES = [f"def part_{chr(97 + number % 26) * (1 + number // 26)}(): return value" for number in range(500)]
FILE = "\n".join(LINES)
CHANGED = "\n".join([*LINES[:250], "def other(): raise ValueError('empty')", *LINES[251:]])
ROWS = {
    "the same text with different case, spacing or order": (
        ["Tea is ready. Come in.", "COME IN! Tea  is ready!"],
        0,
    ),
    "A, B, A, B |": (["Tea.", "Milk.", "Tea.", "Milk."], 0),
    '"attempt 3 failed"': ([f"attempt {number} failed" for number in (3, 4, 5)], 0),
    '"5 tests fail"': ([f"{number} tests fail" for number in (5, 4, 3)], 0.2),
    '"I asked Ann."': ([f"I asked {name}." for name in ("Ann", "Ben", "Clara")], 0),
    "a file of 500 lines": ([FILE, CHANGED], 0.2),
    "the same file with that line changed back": ([FILE, CHANGED, FILE], 0),
    '"We need milk."': (["We need milk.", "We need milk, bread."], 1),
    "a completely different text": (["Tea is ready.", "It rains in Lisbon."], 1),
}


@pytest.mark.parametrize("row", ROWS)
def test_manual_table_of_examples_is_correct(row: str) -> None:
    texts, value = ROWS[row]
    assert round(novelty_at(texts, len(texts) - 1), 1) == value
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    assert line.endswith(f"| {value} |")


def caught(series: list[Series], rounds: int) -> int:
    return sum((first_trip(one) or 99) <= one.first + rounds for one in series)


def test_manual_rates_are_correct() -> None:
    history, others = list(revisions()), list(made_up())
    plain = list(dead(REPEATS, (1, 2, 3)))
    several, one = list(dead(VARIATIONS, (2, 3))), list(dead(VARIATIONS, (1,)))
    text = " ".join(PAGE.split())
    assert f"tests: {len(history):,} from the history of this project" in text
    assert f"{len(others)} of other progress, and {len(plain + several + one)} dead ones of 30 kinds" in text
    assert len(REPEATS) + len(VARIATIONS) == 30
    assert f"{len(history + others):,} that make progress" in text
    assert f"| {caught(plain, 2)} by the second round after the first that repeats" in text
    assert f"several speakers | 0 | {caught(several, 2)} by the second round, all by the fourth" in text
    assert f"one speaker | 0 | {caught(one, 2)} by the second round, all by the fourth" in text
    assert caught(several, 4) == len(several) and caught(one, 4) == len(one)
