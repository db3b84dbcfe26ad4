"""The examples in the manual page of the breaker match its behaviour."""

from __future__ import annotations

from pathlib import Path

import pytest

from roundel.kernel.novelty import judge
from tests.breaker.dead import EXACT, REORDERED, VARIED, dead
from tests.breaker.lively import made_up
from tests.breaker.moving import moving
from tests.breaker.repetition import repetitions
from tests.breaker.revisions import revisions
from tests.breaker.series import Series, first_trip
from tests.breaker.unseen import unseen

PAGE = (Path(__file__).parents[2] / "docs" / "breaker.md").read_text("utf-8")
LINES = [f"def part_{chr(97 + number % 26) * (1 + number // 26)}(): return value" for number in range(500)]
FILE = "\n".join(LINES)
CHANGED = "\n".join([*LINES[:250], "def other(): raise ValueError('empty')", *LINES[251:]])
ROWS: dict[str, tuple[list[str], str, float]] = {
    "the same text with different case": (["Tea is ready. Come in.", "TEA  is ready!\nCome in"], "exact", 0),
    "A, B, A, B |": (["Tea.", "Milk.", "Tea.", "Milk."], "exact", 0),
    '"attempt 3 failed"': ([f"attempt {number} failed" for number in (3, 4, 5)], "exact", 0),
    "the same sentences": (["Tea is ready. Come in.", "Come in! Tea is ready."], "reordered", 0),
    '"I asked Ann."': ([f"I asked {name}." for name in ("Ann", "Ben", "Clara")], "one_place", 0),
    '"return a - b"': ([f"return a {sign} b" for sign in "-*/"], "one_place", 0),
    '"2 tests pass"': ([f"{number} tests pass" for number in (2, 5, 10)], "new", 0.2),
    "a file of 500 lines": ([FILE, CHANGED], "new", 0.2),
    "the same file with that line changed back": ([FILE, CHANGED, FILE], "exact", 0),
    '"We need milk."': (["We need milk.", "We need milk, bread."], "new", 1),
    "a completely different text": (["Tea is ready.", "It rains in Lisbon."], "new", 1),
}


@pytest.mark.parametrize("row", ROWS)
def test_manual_table_of_examples_is_correct(row: str) -> None:
    texts, kind, value = ROWS[row]
    found, novelty = judge(texts[-1], texts[:-1])
    assert (found, round(novelty, 1)) == (kind, value)
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    assert line.endswith(f"| `{kind}` | {value} |")


def caught(series: list[Series], rounds: int) -> int:
    return sum((first_trip(one) or 99) <= one.first + rounds for one in series)


def test_manual_rates_are_correct() -> None:
    exact = [*repetitions(), *dead(EXACT, (1, 2, 3))]
    orders, varied = list(dead(REORDERED, (1, 2, 3))), list(dead(VARIED, (1, 2, 3)))
    text = " ".join(PAGE.split())
    assert f"| {len(list(revisions())):,} revisions |" in text
    assert f"| {len(list(made_up()))} of other progress |" in text
    for source, words in ((moving, "of 75 kinds"), (unseen, "of 73 further kinds")):
        series = list(source())
        long = sum(15 <= len(one.rounds) <= 25 for one in series)
        late = sum(first_trip(one) is not None for one in series)
        assert f"| {len(series):,} {words}, {long} with 15–25 rounds |" in text
        assert f"| 0 | {late}, in round 13 or later |" in text
    kinds = len({one.kind for one in exact})
    assert f"| {len(exact)} exact repetitions of {kinds} kinds | all by the second round" in text
    assert (
        f"| {len(orders)} in another order, of {len(REORDERED)} kinds | {caught(orders, 8)} by the eighth"
        in text
    )
    assert caught(orders, 11) == len(orders)
    assert f"| {len(varied)} with other numbers and names, of {len(VARIED)} kinds |" in text
    assert f"otherwise {caught(varied, 13)} within 13 rounds" in text
