"""A loop in short: what its speakers say, round by round, given to the same code that the kernel uses."""

from __future__ import annotations

from typing import NamedTuple

from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.facts import decide_live
from roundel.kernel.novelty import ONE_PLACE
from roundel.workflow.limits import Breaker

Round = list[tuple[str, str]]
"""Who says what."""
CONSTANT = "Not good enough yet, please improve it."
COMMENTS = (
    "Please handle the empty case too.",
    "The second function is too long.",
    "Why is there no test for this?",
    "Rename the helper, its name misleads.",
    "Good, but the error text says nothing.",
    "Check the bound once more.",
    "The manual is out of date now.",
)


class Series(NamedTuple):
    kind: str
    name: str
    rounds: list[Round]
    results: tuple[str, ...] = ()
    """What a test run or a tool gave in each round."""
    first: int = 0
    """The first round of a dead series that repeats anything."""


def first_trip(series: Series, *, proved: bool = False) -> int | None:
    """The round after which the loop is locked; `proved` if something other than its cap bounds it."""
    breaker = Breaker()
    history = LoopHistory()
    for number, messages in enumerate(series.rounds, 1):
        for order, (speaker, text) in enumerate(messages):
            history.record_message(order, speaker, f"L[{number}]/{speaker}", text)
        for result in series.results[number - 1 : number]:
            history.record_result(result)
        found = history.end_round(breaker, decide_live)
        if found is not None and not (proved and found.certainty == ONE_PLACE):
            return number
    return None


def alone(texts: list[str]) -> list[Round]:
    return [[("Writer", text)] for text in texts]


def reviewed(texts: list[str]) -> list[Round]:
    """With a reviewer who always says the same."""
    return [[("Writer", text), ("Critic", CONSTANT)] for text in texts]


def discussed(texts: list[str]) -> list[Round]:
    """With a reviewer who says something else each time."""
    return [[("Writer", text), ("Critic", comment)] for text, comment in zip(texts, COMMENTS, strict=False)]
