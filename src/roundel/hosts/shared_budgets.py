"""Budgets that runs share: the limits of groups and tokens (workflow/quotas.py), for the runs of an engine.

    SharedBudgets   one for each engine that has limits: finds those of a run, and refuses a run that would
                    have to lock at once
    Ledger          one for each run that has limits: reserves before each model call, and notes what the
                    call has used

A call reserves what the budgets of its run would reserve for it (kernel/budget.py). The store decides whether
that fits, and the kernel has no I/O: so the behaviours of nodes that call models are wrapped here, and a call
that does not fit ends with the fact `CallRefused`, which locks the run. Without limits nothing is wrapped,
and no call costs anything more. A scripted run calls no model, so it has no ledger.

What a call has used is left with the journal, which books it in the append that contains the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from typing import Any

import msgspec
from msgspec import Struct

from roundel.hosts.core import RunLog
from roundel.journal.spending import (
    NOTHING,
    Amounts,
    Drawn,
    RunsAtOnce,
    SharedBudget,
    Shortage,
    Spent,
    find_shortage,
)
from roundel.journal.store import RunRow, Store, StoreError
from roundel.kernel.budget import COST, shown
from roundel.kernel.commands import Call
from roundel.kernel.events import stamp
from roundel.kernel.facts import Outcome, Usage
from roundel.kernel.state import Execution, shared_limit_text
from roundel.nodes.prices import cost_of_tokens, listed_price
from roundel.nodes.services import Behaviour, failure_type, outcome_of
from roundel.plan.graph import NodePlan, Plan
from roundel.workflow.limits import picodollars
from roundel.workflow.quotas import Quota, Quotas, day_of, end_of_period, find_quota, period_of

TokenName = Callable[[str], Awaitable[str]]
"""The name of a token, by its id; empty if it is not known any more."""
RUNS_RETRY_SECONDS = 5
"""When a start may be tried again that would have been one run too many."""
ONE_CALL = Amounts(model_calls=1)
_PER = {"day": "per day", "month": "per month", "total": "in all"}


class NoRoomLeft(StoreError):
    """A run cannot begin or continue, since a group or a token has reached a limit."""

    def __init__(self, text: str, retry_after: int | None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        """The seconds after which there may be room; None if only a higher limit makes some."""


class CallDoesNotFit(Exception):
    """A model call was not made. Becomes the fact `CallRefused`."""

    def __init__(self, shortage: dict[str, Any]) -> None:
        super().__init__("a shared limit has no room for the call")
        self.shortage = shortage


class SharedLimit(Struct, frozen=True):
    """The limits that one run has by its group, or by the token that started it."""

    quota: Quota
    name: str
    """The group, or the id of the token."""
    is_group: bool
    token_name: str = ""

    @property
    def label(self) -> str:
        """Whose limits they are, for people."""
        if self.is_group:
            return f"group {self.name}" if self.name else "the group without a name"
        return f"token {self.token_name or self.name}"

    @property
    def at_once(self) -> RunsAtOnce | None:
        if self.quota.runs is None:
            return None
        return RunsAtOnce("group" if self.is_group else "started_by", self.name, self.quota.runs)

    def budget(self, now: float) -> SharedBudget:
        """The budget of the current period; it limits nothing if only `runs` is limited."""
        limits = self.quota.amounts.items()
        most = {name: picodollars(limit) if name == COST else int(limit) for name, limit in limits}
        scope = f"{'group' if self.is_group else 'token'}:{self.name}"
        return SharedBudget(scope, period_of(self.quota.per, now), most)

    def resets(self, now: float) -> float | None:
        return end_of_period(self.quota.per, now)


class SharedBudgets:
    """The limits of groups and tokens, for the runs of an engine."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        quotas: Quotas,
        clock: Callable[[], float],
        token_name: TokenName | None = None,
    ) -> None:
        self._open_store, self.quotas, self.clock, self._token_name = open_store, quotas, clock, token_name

    async def limits_of(self, group: str, started_by: str) -> list[SharedLimit]:
        """The limits that apply to a run. One of the command line was started with no token."""
        return [*self.limits_of_group(group), *(await self.limits_of_token(started_by))]

    def limits_of_group(self, group: str) -> list[SharedLimit]:
        quota = find_quota(self.quotas.groups, group)
        return [SharedLimit(quota, group, True)] if quota is not None else []

    async def limits_of_token(self, token: str) -> list[SharedLimit]:
        if not token or not self.quotas.tokens:
            return []
        name = await self._token_name(token) if self._token_name is not None else ""
        quota = find_quota(self.quotas.tokens, name)
        return [SharedLimit(quota, token, False, name)] if quota is not None else []

    async def check_room(
        self, limits: Sequence[SharedLimit], wanted: Amounts | None = ONE_CALL, *, runs: bool = True
    ) -> None:
        """NoRoomLeft if a run with these limits would be one too many (`runs`), or could not make a call of
        this size. No amounts: the run calls no model."""
        store, now = self._open_store(), self.clock()
        counted = [one for one in limits if runs and one.at_once is not None]
        counts = await store.runs_at_once([one.at_once for one in counted if one.at_once is not None])
        for limit, count in zip(counted, counts, strict=True):
            if count >= (limit.quota.runs or 0):
                raise too_many_runs(limit)
        budgets = [limit.budget(now) for limit in limits] if wanted is not None else []
        for limit, budget, drawn in zip(limits, budgets, await store.drawn(budgets), strict=bool(budgets)):
            shortage = find_shortage(budget, drawn, wanted or NOTHING)
            if shortage is not None:
                end = limit.resets(now)
                raise NoRoomLeft(
                    f"{shared_limit_text(_figures(limit, shortage, now))}; {_advice(limit, now)}",
                    None if end is None else max(1, ceil(end - now)),
                )

    async def check_unlock(self, row: RunRow, limits: Sequence[SharedLimit], spends: bool) -> None:
        """StoreError if the run would lock again at once: there is no room for the call that did not fit."""
        evidence = ((row.summary or {}).get("lock") or {}).get("evidence") or {}
        wanted = ONE_CALL
        if "wanted" in evidence and evidence.get("what") in Amounts.__struct_fields__:
            amount = evidence["wanted"]
            exact = picodollars(amount) if evidence["what"] == COST else int(amount)
            wanted = msgspec.structs.replace(wanted, **{evidence["what"]: exact})
        try:
            await self.check_room(limits, wanted if spends else None)
        except NoRoomLeft as error:
            raise StoreError(f"run {row.id} cannot be unlocked yet: {error}") from error

    async def drawn(self, limits: Sequence[SharedLimit]) -> list[tuple[Drawn, int | None]]:
        """What is gone of each of these limits, and how many runs count for it."""
        store, now = self._open_store(), self.clock()
        drawn = await store.drawn([limit.budget(now) for limit in limits])
        counts = iter(await store.runs_at_once([one.at_once for one in limits if one.at_once is not None]))
        return [
            (one, next(counts) if limit.at_once is not None else None)
            for limit, one in zip(limits, drawn, strict=True)
        ]

    async def spenders(self) -> list[str]:
        return await self._open_store().spenders()


def runs_at_once(limits: Sequence[SharedLimit]) -> list[RunsAtOnce]:
    return [limit.at_once for limit in limits if limit.at_once is not None]


def too_many_runs(limit: SharedLimit) -> NoRoomLeft:
    text = f"the limit of {limit.quota.runs} runs at once of {limit.label} is reached; try again later"
    return NoRoomLeft(text, RUNS_RETRY_SECONDS)


def calls_models(plan: Plan) -> bool:
    return any(node.kind.speaks for node in plan.sites)


def _advice(limit: SharedLimit, now: float) -> str:
    end = limit.resets(now)
    later = f"there is room again from {stamp(end)} on, or when" if end is not None else "there is room when"
    return f"{later} an operator of the server raises the limit"


class Ledger:
    """Reserves for the model calls of one run. Created by LocalRun."""

    def __init__(
        self,
        limits: Sequence[SharedLimit],
        log: RunLog,
        clock: Callable[[], float],
        on_lost: Callable[[Exception], None],
    ) -> None:
        self._limits, self._log, self._clock, self._on_lost = limits, log, clock, on_lost
        self._largest: dict[int, Amounts] = {}
        """The largest amounts of a call so far, each for itself, by site."""
        self._open: set[str] = set()
        """The addresses of calls that have reserved something."""

    def guard(self, behaviours: Sequence[Behaviour]) -> list[Behaviour]:
        """The behaviours of the run, by site; those of nodes that call models reserve first."""
        nodes = self._log.state.plan.sites
        return [
            self._guarded(node, behaviour) if node.kind.speaks else behaviour
            for node, behaviour in zip(nodes, behaviours, strict=True)
        ]

    def _guarded(self, node: NodePlan, behaviour: Behaviour) -> Behaviour:
        async def execute(call: Call) -> Outcome:
            outcome = behaviour(call)
            return outcome if isinstance(outcome, Outcome) else outcome_of(await outcome)

        async def reserve_and_execute(call: Call) -> Outcome:
            execution = self._log.state.calls.get(call.address)
            if execution is not None and not _calls_model(execution):
                return await execute(call)
            await self._reserve(node, call)
            try:
                outcome = await execute(call)
            except asyncio.CancelledError:
                raise  # it is made again, or `_reserve` finds that it is gone
            except Exception as error:
                # A model that did not answer in time has worked, and its provider charges for it.
                is_slow = "Timeout" in (failure_type(error)[0], failure_type(error.__cause__ or error)[0])
                self._note(call.address, None if is_slow else ONE_CALL)
                raise
            used = NOTHING
            for usage in (outcome.usage, outcome.aside):
                used += amounts_of(usage) if usage is not None else NOTHING
            self._note_largest(node, used)
            self._note(call.address, used)
            return outcome

        return reserve_and_execute

    async def _reserve(self, node: NodePlan, call: Call) -> None:
        journal, now = self._log.journal, self._clock()
        assert journal is not None
        # Calls that were cancelled because their round was ended.
        for address in self._open - self._log.state.calls.keys():
            self._note(address, None)
        budgets = [limit.budget(now) for limit in self._limits]
        wanted = self._expect(node, call)
        try:
            shortage = await journal.store.reserve(journal.claim, call.address, wanted, budgets, day_of(now))
        except StoreError as error:
            # The run ends here as it does if a fact cannot be written: it is no failure of the node.
            self._on_lost(error)
            raise
        if shortage is not None:
            limit = self._limits[budgets.index(shortage.budget)]
            raise CallDoesNotFit(_figures(limit, shortage, now))
        self._open.add(call.address)

    def _expect(self, node: NodePlan, call: Call) -> Amounts:
        """What a call reserves: as kernel/budget.py does, by the largest call so far, or else by what is
        sent."""
        largest = self._largest.get(node.site)
        if largest is None:
            sent, cost = node.kind.estimate(node.config, self._log.state.plan.workflow, call)
            largest = Amounts(1, sent, cost)
        return Amounts(1, max(node.reserve, largest.tokens), largest.cost_usd)

    def _note_largest(self, node: NodePlan, used: Amounts) -> None:
        largest = self._largest.get(node.site, NOTHING)
        self._largest[node.site] = Amounts(
            1, max(largest.tokens, used.tokens), max(largest.cost_usd, used.cost_usd)
        )

    def _note(self, address: str, amounts: Amounts | None) -> None:
        assert self._log.journal is not None
        self._open.discard(address)
        self._log.journal.spent.append(Spent(address, amounts))


def _calls_model(execution: Execution) -> bool:
    """Of the calls of an agent with tools, those with a label are tools."""
    one = execution.loop_call
    return one is None or (not one.label and one.calls_model)


def amounts_of(usage: Usage) -> Amounts:
    """What a call counts for. A text can set the price of its model, but not below the one that is listed."""
    cost = usage.cost_usd
    provider, colon, name = usage.model.partition(":")
    price = listed_price(provider, name) if colon and not usage.cached else None
    if price is not None:
        cost = max(cost, cost_of_tokens(price, usage.input_tokens, usage.output_tokens))
    return Amounts(usage.model_calls, usage.input_tokens + usage.output_tokens, picodollars(cost))


def _figures(limit: SharedLimit, shortage: Shortage, now: float) -> dict[str, Any]:
    """The evidence of a lock, in the units that people see."""
    what, end = shortage.what, limit.resets(now)
    return {
        "limit": shown(what, shortage.budget.most[what]),
        "what": what,
        "per": _PER[limit.quota.per],
        "scope": limit.label,
        "spent": shown(what, shortage.used),
        "reserved": shown(what, shortage.reserved),
        "wanted": shown(what, shortage.wanted),
        **({"resets": stamp(end)} if end is not None else {}),
    }
