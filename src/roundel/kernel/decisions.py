"""Decisions of a step that another machine or version might take differently.

The facts of a run do not determine it alone. Whether a condition holds may depend on the library that
evaluates patterns or CEL, on the Unicode tables of this Python, or on the measure that the breaker uses. If a
replay evaluated them again, an update of any of these could change what a stored run did, or make it
unreadable. So a step records each such decision, the journal stores them in the row of the fact that caused
them, and a replay reads them back in the same order instead of deciding again.

    live      `take(decide, …)` calls `decide` and records what it returns, or that it raised
    replay    `take(decide, …)` returns what was recorded, or raises it again; `decide` is not called

A decision is a plain JSON value but no mapping; a mapping stands for an exception: {"error": its text}. What
follows from it without such sources (sums, comparisons of numbers, order) is computed both times.

Rejected: asking the host, which would add a round trip to each condition; and storing all events, which is
many times larger and still leaves the state to be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Decide = Callable[..., Any]
"""`Decisions.take`, as it is handed to what decides inside a step."""


def decide_live(decide: Callable[..., Any], *arguments: Any) -> Any:
    """Decides without recording: for what is used outside of a run."""
    return decide(*arguments)


class DecisionError(Exception):
    """A recorded exception, raised again by a replay."""


class DecisionMismatch(Exception):
    """The journal's decisions do not fit what the step asks for."""


class Decisions:
    """The decisions of the step being made, and then of the last one. A run has one."""

    __slots__ = ("_next", "_stored", "made", "used")

    def __init__(self) -> None:
        self.begin(None)

    def begin(self, stored: Sequence[Any] | None) -> None:
        """A step begins: with stored decisions it is a replay."""
        self.made: list[Any] = []
        self._stored = stored
        self._next = 0
        self.used = stored is not None
        """Something is left of an earlier step."""

    def end(self) -> None:
        """A step is complete; a replay must have used everything that was stored."""
        if self._stored is not None and self._next != len(self._stored):
            raise DecisionMismatch(
                f"{len(self._stored)} decisions are stored, of which the step uses {self._next}"
            )

    def take(self, decide: Callable[..., Any], *arguments: Any) -> Any:
        self.used = True
        if self._stored is None:
            try:
                decided = decide(*arguments)
            except Exception as error:
                self.made.append({"error": str(error)})
                raise
            self.made.append(decided)
            return decided
        if self._next == len(self._stored):
            raise DecisionMismatch(f"the step needs more than the {self._next} decisions that are stored")
        decided = self._stored[self._next]
        self._next += 1
        self.made.append(decided)
        if decided.__class__ is dict:
            raise DecisionError(decided["error"])
        return decided
