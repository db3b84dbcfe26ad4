"""What groups and tokens may spend, and what they have spent: `limits` of the operator's file."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request

from roundel.hosts.shared_budgets import SharedBudgets, SharedLimit
from roundel.journal.spending import Drawn
from roundel.kernel.budget import shown
from roundel.kernel.events import stamp
from roundel.server.admission import Route
from roundel.server.bodies import ResponseBody, problems
from roundel.server.context import caller, context_of
from roundel.server.identity import Principal
from roundel.workflow.quotas import EVERY_OTHER

router = APIRouter(prefix="/api/v1", tags=["system"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
MAX_BUDGETS = 200
"""The most budgets of one answer."""


class BudgetPart(ResponseBody):
    """One limit of a group or a token."""

    what: Literal["runs", "model_calls", "tokens", "cost_usd"]
    """What it limits."""
    limit: float
    """The limit."""
    used: float
    """What is used: for `runs`, how many are running."""
    reserved: float
    """What calls in flight may use."""


class BudgetView(ResponseBody):
    """The limits of a group or a token, and how much of them is used."""

    kind: Literal["group", "token"]
    """Whose limits they are."""
    name: str
    """The name of the group or the token; empty for the group without a name."""
    token: str = ""
    """The id of the token."""
    per: Literal["day", "month", "total"]
    """The period, in UTC."""
    resets: str | None
    """When the amounts begin at zero again; null if they do not."""
    parts: list[BudgetPart]
    """The limits."""


class BudgetList(ResponseBody):
    """The limits that the caller may see."""

    budgets: list[BudgetView]
    """At most 200: those of the caller's groups and token, or all that anything was spent of."""


@router.get("/budgets", responses=problems())
async def list_budgets(request: Request, who: Viewer) -> BudgetList:
    """What the groups and the token of the caller may spend, and what they have spent; for an admin of all
    groups, those of everybody."""
    context = context_of(request)
    shared = context.shared
    if shared is None:
        return BudgetList(budgets=[])
    limits = (await _visible(shared, who))[:MAX_BUDGETS]
    found = zip(limits, await shared.drawn(limits), strict=True)
    return BudgetList(budgets=[_view(one, *drawn, shared.clock()) for one, drawn in found])


async def _visible(shared: SharedBudgets, who: Principal) -> list[SharedLimit]:
    spenders = [scope.partition(":") for scope in await shared.spenders()] if who.groups is None else []
    groups: list[str] = sorted(who.groups or ())
    tokens = [who.id]
    if who.groups is None:
        named = [name for name in shared.quotas.groups if name != EVERY_OTHER]
        groups = sorted({*named, *(name for kind, _, name in spenders if kind == "group")})
        if who.may("admin"):
            tokens += [name for kind, _, name in spenders if kind == "token" and name != who.id]
    limits = [limit for group in groups for limit in shared.limits_of_group(group)]
    for token in tokens[:MAX_BUDGETS]:
        limits += await shared.limits_of_token(token)
    return limits


def _view(limit: SharedLimit, drawn: Drawn, runs: int | None, now: float) -> BudgetView:
    parts = []
    if limit.quota.runs is not None:
        parts.append(BudgetPart(what="runs", limit=limit.quota.runs, used=runs or 0, reserved=0))
    for what, most in limit.quota.amounts.items():
        used, reserved = getattr(drawn.used, what), getattr(drawn.reserved, what)
        part = {"what": what, "limit": most, "used": shown(what, used), "reserved": shown(what, reserved)}
        parts.append(BudgetPart.model_validate(part))
    end = limit.resets(now) if limit.quota.amounts else None
    return BudgetView(
        kind="group" if limit.is_group else "token",
        name=limit.name if limit.is_group else limit.token_name,
        token="" if limit.is_group else limit.name,
        per=limit.quota.per,
        resets=stamp(end) if end is not None else None,
        parts=parts,
    )
