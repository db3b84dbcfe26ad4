"""What groups and tokens have spent: the data that stores keep of it, and the rule by which a call fits.

A model call reserves in the store what it is expected to use, in every budget that its run draws on, before
it is made. What it has used is booked in the append that contains its result, which also ends the
reservation. So calls of several processes never exceed a budget together, and a crash loses or repeats none:

    a crash before the append   the reservation stays, and the call, which is made again at the same address,
                                replaces it
    a crash after the append    the amount is booked, and the reservation is gone
    the run is stopped          calls that were cut off count as what they had reserved, since they are paid
                                for, too

Amounts are kept by day, in UTC, and a budget adds up the days of its period. So an operator can change the
period of a limit, and what was spent still counts.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.journal.store import StoreError
from roundel.kernel.budget import passes


class Amounts(Struct, frozen=True):
    """What calls use, or may use. The cost is in picodollars (workflow/limits.py)."""

    model_calls: int = 0
    tokens: int = 0
    cost_usd: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.model_calls + other.model_calls, self.tokens + other.tokens, self.cost_usd + other.cost_usd
        )


NOTHING = Amounts()


class SharedBudget(Struct, frozen=True):
    """What all runs of a group or a token may use together, in one period."""

    scope: str
    """Whose it is: `group:NAME` or `token:ID`."""
    period: str
    """What the days of the period begin with; empty for all days."""
    most: dict[str, int]
    """The limits, in the units of Amounts."""


class Spent(Struct, frozen=True):
    """What a call has used that had reserved something."""

    address: str
    amounts: Amounts | None
    """None: it was cut off, and counts as what it had reserved."""


class Drawn(Struct, frozen=True):
    """What is gone from a budget."""

    used: Amounts = NOTHING
    reserved: Amounts = NOTHING


class Shortage(Struct, frozen=True):
    """Why a call does not fit, in the units of Amounts."""

    budget: SharedBudget
    what: str
    used: int
    reserved: int
    wanted: int


class RunsAtOnce(Struct, frozen=True):
    """How many runs of a group, or of those that a token has started, may be `running`."""

    of: Literal["group", "started_by"]
    name: str
    most: int


class TooManyRuns(StoreError):
    """A new run would be one more than is allowed at once."""

    def __init__(self, limit: RunsAtOnce) -> None:
        kind = "group" if limit.of == "group" else "token"
        super().__init__(f"{limit.most} runs of the {kind} '{limit.name}' are running, which is its limit")
        self.limit = limit


def find_shortage(budget: SharedBudget, drawn: Drawn, wanted: Amounts) -> Shortage | None:
    """The first limit of a budget that has no room; None if the amounts fit."""
    for name, most in budget.most.items():
        used, reserved = getattr(drawn.used, name), getattr(drawn.reserved, name)
        if passes(name, most, used + reserved, getattr(wanted, name)):
            return Shortage(budget, name, used, reserved, getattr(wanted, name))
    return None
