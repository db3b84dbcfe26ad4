"""Limits that the operator of a server sets for groups and tokens: `limits` in an allow-list.

A limit of a workflow bounds one run. These bound all runs of a group, or all that were started with a token:
how many run at once, and what they spend in a day, in a month or in all. They are no part of a workflow, and
no text can change them. What is spent is counted in the store (journal/spending.py), which makes the limits
exact over all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located

EVERY_OTHER: Final = "*"
"""The name that stands for every group or token without limits of its own."""
Per = Literal["day", "month", "total"]


class Quota(Struct, frozen=True, omit_defaults=True):
    """The limits of one group or token."""

    runs: Annotated[int, Meta(ge=0)] | None = None
    """The most runs at once."""
    model_calls: Annotated[int, Meta(ge=0)] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    per: Per = "day"
    """The period after which the amounts begin at zero again, in UTC. It does not matter to `runs`."""

    def __check__(self, at: Located, report: Report) -> bool:
        if self.runs is None and not self.amounts:
            report.error(
                "bad-allow-list", "these limits limit nothing", at, "runs, model_calls, tokens or cost_usd"
            )
            return False
        return True

    @property
    def amounts(self) -> dict[str, float]:
        """The limits of what is spent, by name."""
        given = {"model_calls": self.model_calls, "tokens": self.tokens, "cost_usd": self.cost_usd}
        return {name: most for name, most in given.items() if most is not None}


class Quotas(Struct, frozen=True, omit_defaults=True):
    """The limits of all groups and tokens, by name; the group without a name is the empty one."""

    groups: dict[str, Quota] = {}
    tokens: dict[str, Quota] = {}

    def __bool__(self) -> bool:
        return bool(self.groups or self.tokens)


def find_quota(quotas: Mapping[str, Quota], name: str) -> Quota | None:
    return quotas.get(name) or quotas.get(EVERY_OTHER)


def day_of(time: float) -> str:
    """The day of a time, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")


def period_of(per: Per, time: float) -> str:
    """What all days of the period around a time begin with."""
    return {"day": day_of(time), "month": day_of(time)[:7], "total": ""}[per]


def end_of_period(per: Per, time: float) -> float | None:
    """When the period around a time ends; None if it does not."""
    if per == "total":
        return None
    today = datetime.fromtimestamp(time, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return today.timestamp() + 86_400
    following = today.year + today.month // 12, today.month % 12 + 1
    return today.replace(year=following[0], month=following[1], day=1).timestamp()
