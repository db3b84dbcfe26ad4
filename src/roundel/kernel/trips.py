"""Why the breaker locks a run: one table, from which texts, locks and unlocks are made.

To add a reason, add an entry here and call `breaker.trip` with its name where it is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from roundel.kernel.state import Run


class Trip(Struct, frozen=True):
    """A reason to lock a run."""

    text: str
    """The reason, as people read it."""
    limits: tuple[str, ...] = ()
    """The figures of the evidence that may be the limit; the first one that is there is."""
    raises: str = ""
    """The limit that a person may raise to unlock the run; empty if there is none."""
    reached: Callable[[Run], float] = lambda _run: 0.0
    """What has been used of that limit."""


TRIPS = {
    "dead_loop": Trip("the loop goes in circles", ("threshold",)),
    "token_surge": Trip(
        "far more tokens than expected",
        ("factor",),
        raises="tokens",
        reached=lambda run: run.usage["input_tokens"] + run.usage["output_tokens"],
    ),
    "timeout": Trip("too much time", ("limit",), raises="seconds", reached=lambda run: run.worked),
}
