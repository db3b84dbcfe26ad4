"""Shared budgets in SQLite: what is reserved, and what is spent (spending.py).

A reservation is a row for its call in each budget, with the day on which it was made. What is reserved is the
sum of these rows, of which there are as many as calls in flight. A separate total could drift from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from roundel.journal.chunk_rows import lost_claim_error
from roundel.journal.schema import has_table
from roundel.journal.spending import (
    Amounts,
    Drawn,
    RunsAtOnce,
    SharedBudget,
    Shortage,
    Spent,
    TooManyRuns,
    find_shortage,
)
from roundel.journal.store import Claim
from roundel.journal.writer import Writer

_COLUMNS = {"group": "group_id", "started_by": "started_by"}
_BOOK = (
    "INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope, day) DO UPDATE SET "
    "model_calls = model_calls + excluded.model_calls, tokens = tokens + excluded.tokens, "
    "cost_usd = cost_usd + excluded.cost_usd"
)


class SpendingRows:
    """The part of SqliteStore that keeps shared budgets."""

    _writer: Writer

    async def reserve(
        self, claim: Claim, address: str, wanted: Amounts, budgets: Sequence[SharedBudget], day: str
    ) -> Shortage | None:
        def job(db: sqlite3.Connection) -> Shortage | None:
            # Writing begins with the lock of the file, so no other process can reserve between the sums and
            # the rows.
            found = db.execute("SELECT fence FROM runs WHERE no = ?", (claim.run,)).fetchone()
            if found != (claim.fence,):
                raise lost_claim_error(claim, found is not None)
            # That of the same call before a crash, perhaps of another day.
            db.execute("DELETE FROM reservations WHERE run = ? AND address = ?", (claim.run, address))
            for budget in budgets:
                shortage = find_shortage(budget, _drawn(db, budget), wanted)
                if shortage is not None:
                    return shortage
            place = (claim.run, address, wanted.model_calls, wanted.tokens, wanted.cost_usd)
            rows = [(budget.scope, day, *place) for budget in budgets]
            db.executemany("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            return None

        return await self._writer.write(job)

    async def drawn(self, budgets: Sequence[SharedBudget]) -> list[Drawn]:
        def job(db: sqlite3.Connection) -> list[Drawn]:
            if not has_table(db, "spending"):
                return [Drawn() for _ in budgets]
            return [_drawn(db, budget) for budget in budgets]

        return await self._writer.read(job)

    async def spenders(self) -> list[str]:
        def job(db: sqlite3.Connection) -> list[str]:
            if not has_table(db, "spending"):
                return []
            query = "SELECT scope FROM spending UNION SELECT scope FROM reservations ORDER BY scope"
            return [scope for (scope,) in db.execute(query)]

        return await self._writer.read(job)

    async def runs_at_once(self, limits: Sequence[RunsAtOnce]) -> list[int]:
        return await self._writer.read(lambda db: [_running(db, limit) for limit in limits])


def check_room(db: sqlite3.Connection, limits: Iterable[RunsAtOnce]) -> None:
    """TooManyRuns if one more run would exceed a limit. In the transaction that creates the run."""
    for limit in limits:
        if _running(db, limit) >= limit.most:
            raise TooManyRuns(limit)


def _running(db: sqlite3.Connection, limit: RunsAtOnce) -> int:
    query = f"SELECT count(*) FROM runs WHERE {_COLUMNS[limit.of]} = ? AND status = 'running'"
    count: int = db.execute(query, (limit.name,)).fetchone()[0]
    return count


def _drawn(db: sqlite3.Connection, budget: SharedBudget) -> Drawn:
    # No day contains a character behind `~`, so this is the range of days that begin with the period.
    values = (budget.scope, budget.period, f"{budget.period}~")
    found = [
        db.execute(
            "SELECT coalesce(sum(model_calls), 0), coalesce(sum(tokens), 0), coalesce(sum(cost_usd), 0) "
            f"FROM {table} WHERE scope = ? AND day BETWEEN ? AND ?",
            values,
        ).fetchone()
        for table in ("spending", "reservations")
    ]
    return Drawn(Amounts(*found[0]), Amounts(*found[1]))


def book(db: sqlite3.Connection, run: int, spent: Iterable[Spent]) -> None:
    """Ends the reservations of calls and adds what they have used, in the transaction of their results. A
    call without a reservation is booked already."""
    for one in spent:
        _book(db, "run = ? AND address = ?", (run, one.address), one.amounts)


def book_rest(db: sqlite3.Connection, run: int) -> None:
    """Books what a run that has ended still has reserved: for calls that were cut off."""
    _book(db, "run = ?", (run,), None)


def _book(db: sqlite3.Connection, where: str, values: tuple[Any, ...], amounts: Amounts | None) -> None:
    query = f"SELECT scope, day, model_calls, tokens, cost_usd FROM reservations WHERE {where}"
    for scope, day, *reserved in db.execute(query, values).fetchall():
        used = amounts or Amounts(*reserved)
        db.execute(_BOOK, (scope, day, used.model_calls, used.tokens, used.cost_usd))
    db.execute(f"DELETE FROM reservations WHERE {where}", values)
