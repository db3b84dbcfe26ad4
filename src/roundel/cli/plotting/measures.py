"""What is drawn of the rounds of a loop, and in which words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from roundel.cli.output import dollars
from roundel.runs.rounds import LoopRounds

IN_ALL = "in all"
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Where an axis may end: these times a power of ten."""


class Measure(NamedTuple):
    name: str
    values: tuple[float | None, ...]
    """Round by round; None where there is nothing to say."""
    told: Callable[[float], str]
    whole: tuple[str, str]
    """All rounds in one figure, and which figure that is."""
    adds_up: bool
    """A sum over the rounds has a meaning."""
    top: float
    """Where its axis ends; it begins at 0."""


def measures(loop: LoopRounds) -> list[Measure]:
    """Those that there is something to say about."""
    rounds = loop.rounds
    scores = tuple(one.score for one in rounds)
    tokens = tuple(float(one.tokens) for one in rounds)
    costs = tuple(one.cost_usd for one in rounds)
    news = tuple(one.novelty for one in rounds)
    times = tuple(max(0.0, one.seconds) for one in rounds)
    found = []
    if any(score is not None for score in scores):
        found.append(Measure("score", scores, _number, _best(scores), False, _top(scores)))
    if any(tokens):
        found.append(Measure("tokens", tokens, _count, (_count(sum(tokens)), IN_ALL), True, _top(tokens)))
    if any(costs):
        paid = sum(cost or 0 for cost in costs)
        whole = (dollars(paid) if None not in costs else f"≥ {dollars(paid)}", IN_ALL)
        found.append(Measure("cost", costs, dollars, whole, True, _top(costs)))
    if any(one is not None for one in news):
        found.append(Measure("novelty", news, "{:.2f}".format, _mean(news), False, 1.0))
    found.append(Measure("time", times, _time, (_time(sum(times)), IN_ALL), True, _top(times)))
    return found


def _best(scores: tuple[float | None, ...]) -> tuple[str, str]:
    return _number(max(score for score in scores if score is not None)), "best"


def _mean(values: tuple[float | None, ...]) -> tuple[str, str]:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}", "mean"


def _top(values: tuple[float | None, ...]) -> float:
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in STEPS if step * power >= most * 0.999999)


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 100_000 else f"{value / 1000:,.0f}k"


def _time(seconds: float) -> str:
    """`0.8 s`, `95 s`, `12.5 min`, `3.2 h`: one figure, so that rounds can be compared."""
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
