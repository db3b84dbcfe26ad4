"""A loop in short: what its speakers say, round by round, given to the same code that the kernel uses."""

from __future__ import annotations

from typing import NamedTuple

from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.facts import decide_live
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


def first_trip(series: Series, breaker: Breaker = Breaker()) -> int | None:  # noqa: B008 (it is frozen)
    """The round after which the loop is found dead."""
    history = LoopHistory()
    for number, messages in enumerate(series.rounds, 1):
        for order, (speaker, text) in enumerate(messages):
            history.record_message(order, speaker, f"L[{number}]/{speaker}", text)
        for result in series.results[number - 1 : number]:
            history.record_result(result)
        if history.end_round(breaker, decide_live) is not None:
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
