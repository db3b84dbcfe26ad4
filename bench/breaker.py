"""How well the breaker tells dead loops from lively ones, and what a look at a message costs.

The series are those of the tests: revisions of this project's files and several sets of made-up progress on
one side, kinds of repetition on the other. The figures in the manual come from here.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from roundel.kernel import novelty, repetition
from tests.breaker.dead import EXACT, REORDERED, VARIED, Kind, dead
from tests.breaker.lively import all_sentences, made_up
from tests.breaker.moving import moving
from tests.breaker.paraphrases import paraphrases
from tests.breaker.repetition import repetitions
from tests.breaker.revisions import revisions, versions
from tests.breaker.series import Series, alone, first_trip
from tests.breaker.unseen import unseen

NEVER = 99
SIZES = (4_000, 60_000)


def rates(name: str, series: Iterable[Series]) -> None:
    """Prints how many are locked within so many rounds of the first repetition, with and without a bound."""
    found = list(series)
    late = [(first_trip(one) or NEVER) - one.first for one in found]
    counts = "".join(f"{sum(rounds <= most for rounds in late):>8}" for most in (2, 8, 13))
    print(f"{name:<34}{len(found):>7}{counts}{count_locked(found, proved=True):>8}")


def quiet(name: str, series: Iterable[Series]) -> None:
    found = list(series)
    counts = "".join(f"{count_locked(found, proved=proved):>8}" for proved in (True, False))
    print(f"{name:<34}{len(found):>7}{counts}")


def count_locked(series: list[Series], *, proved: bool) -> int:
    return sum(first_trip(one, proved=proved) is not None for one in series)


def nearest(series: Iterable[Series]) -> Iterator[tuple[int, Series]]:
    """Lively series by the number of messages in a row that are stale."""
    for one in series:
        longest = streak = 0
        said: dict[str, list[str]] = defaultdict(list)
        for messages in one.rounds:
            values = []
            for speaker, text in messages:
                values.append(novelty.novelty(text, said[speaker]))
                said[speaker].append(text)
            streak = 0 if max(values) >= 0.1 or one.results else streak + 1
            longest = max(longest, streak)
        yield longest, one


def cost(series: list[str]) -> float:
    """Milliseconds for the last message, if the others have been read; the best of five."""
    best = float("inf")
    for _ in range(5):
        novelty._units.cache_clear()
        novelty.parse_text.cache_clear()
        repetition._normal_line.cache_clear()
        repetition._normal_form.cache_clear()
        for place in range(len(series) - 1):
            novelty.judge(series[place], series[:place])
        started = time.perf_counter()
        novelty.judge(series[-1], series[:-1])
        best = min(best, time.perf_counter() - started)
    return best * 1000


def revised(size: int, chance: random.Random) -> list[str]:
    """A text and eight revisions of it."""
    text = "\n".join(chance.sample(all_texts(), len(all_texts())))[:size].split("\n")
    series = ["\n".join(text)]
    for _ in range(8):
        text[chance.randrange(len(text))] = chance.choice(all_sentences())
        series.append("\n".join(text))
    return series


def fresh(size: int, chance: random.Random) -> list[str]:
    return ["\n".join(chance.sample(all_texts(), len(all_texts())))[:size] for _ in range(9)]


def all_texts() -> list[str]:
    return [texts[-1] for texts in versions().values()]


def report() -> None:
    print(f"{'lively':<34}{'series':>7}{'proved':>8}{'capped':>8}")
    kinds: dict[str, list[Series]] = defaultdict(list)
    for one in (*revisions(), *made_up(), *moving(), *unseen()):
        kinds[one.kind].append(one)
    for kind, series in kinds.items():
        quiet(kind, series)
    quiet("in all", [one for series in kinds.values() for one in series])
    print(f"\n{'dead':<34}{'series':>7}{'by 2':>8}{'by 8':>8}{'by 13':>8}{'proved':>8}")
    rates("exact, written apart", repetitions())
    groups: dict[str, tuple[Kind, ...]] = {"exact": EXACT, "reordered": REORDERED, "varied": VARIED}
    for name, group in groups.items():
        rates(name, dead(group, (1, 2, 3)))
        for kind_ in group:
            rates(f"  {kind_.__name__.replace('_', ' ')}", dead((kind_,), (1, 2, 3)))
    rates(
        "free paraphrase (not detected)",
        [Series("paraphrase", "", alone(texts), first=2) for texts in paraphrases()],
    )
    print("\nnearest misses, lively: rounds in a row that look stale")
    lively = [one for series in kinds.values() for one in series]
    for streak, one in sorted(nearest(lively), key=lambda found: -found[0])[:5]:
        print(f"  {streak}  {one.kind}: {one.name}")
    print("\nmilliseconds for a message beside eight others, the middle of 15")
    for size in SIZES:
        for name, make in (("a revision", revised), ("new text", fresh)):
            times = [cost(make(size, random.Random(number))) for number in range(15)]
            print(f"{size // 1000:>4} KB {name:<12}{statistics.median(times):>8.3f}")
