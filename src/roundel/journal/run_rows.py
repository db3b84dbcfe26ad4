"""The rows of runs in SQLite: one run, lists with filters, and ids by their beginning.

A list reads no facts, so it takes the same time for long and short runs. It is paged by the number of the
run, which never changes: a run that is added or deleted while somebody turns pages moves no other run to
another page, as it would with offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from roundel.journal.chunk_rows import FACTS, no_run_error
from roundel.journal.faults import decoding_from
from roundel.journal.leases import JOIN_LEASE, LEASE_COLUMNS, Claims
from roundel.journal.store import RunRow, RunTotals

COLUMNS = (
    "id",
    "name",
    "status",
    "created",
    "updated",
    "input",
    "parent",
    "forked_at",
    "summary",
    "progress",
    "pruned",
    "group_id",
    "started_by",
)
SELECT_ROW = f"SELECT no, fence, {FACTS}, {', '.join(COLUMNS)}, {LEASE_COLUMNS} FROM runs {JOIN_LEASE}"


# A cast, because SQLite takes a blob for its own binary form of JSON. What is no JSON costs nothing: a total
# must not fail because of one damaged row, which its own reader reports.
TOTALS = """
SELECT status, count(*), count(CASE WHEN created > ? THEN 1 END), sum(
    CASE WHEN created > ? AND json_valid(CAST(progress AS TEXT))
    THEN json_extract(CAST(progress AS TEXT), '$.usage.cost_usd') END)
FROM runs"""


class RowFilters:
    """The conditions of a query, with the values that are bound to it. Created by `RunRows.rows`.

    Only names of columns, which are written in this module, become part of the text of the query."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[Any] = []

    @property
    def where(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""

    def add_any(self, column: str, wanted: Sequence[str] | None) -> None:
        """The column has one of these values; None is no condition."""
        if wanted is not None:
            # Half of a surrogate pair cannot be in the file, and SQLite would refuse to look for it.
            storable = [value for value in wanted if is_storable(value)]
            self._conditions.append(f"{column} IN ({', '.join('?' * len(storable))})")
            self.values += storable

    def add_text(self, columns: Sequence[str], text: str) -> None:
        """One of the columns contains a text. Not LIKE, which gives a meaning to `%` and `_`."""
        if not is_storable(text):
            self._conditions.append("0")
        elif text:
            found = " OR ".join(f"instr(lower({column}), lower(?))" for column in columns)
            self._conditions.append(f"({found})")
            self.values += [text] * len(columns)

    def add_before(self, column: str, number: int) -> None:
        """The column is smaller than a number; 0 is no condition."""
        if number:
            self._conditions.append(f"{column} < ?")
            self.values.append(_integer(number))

    def add_since(self, column: str, time: float) -> None:
        """The column is a later time; 0 is no condition."""
        if time:
            self._conditions.append(f"{column} > ?")
            self.values.append(float(time))


def is_storable(text: str) -> bool:
    """Whether a text can be encoded, and so be in a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(number: int) -> int:
    """The nearest number that SQLite can compare with; cursors come from outside."""
    return max(-(1 << 63), min(number, (1 << 63) - 1))


class RunRows(Claims):
    """The part of SqliteStore that reads the rows of runs, with their owners."""

    path: Path

    async def row(self, run_id: str) -> RunRow:
        query = f"{SELECT_ROW} WHERE id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        if found is None:
            raise no_run_error(run_id)
        return self._row(found)

    async def rows(
        self,
        limit: int | None = 100,
        status: str = "",
        *,
        statuses: Sequence[str] = (),
        name: str = "",
        groups: Sequence[str] | None = None,
        text: str = "",
        before: int = 0,
        since: float = 0,
    ) -> list[RunRow]:
        filters = RowFilters()
        filters.add_any("status", (status,) if status else None)
        filters.add_any("status", statuses or None)
        filters.add_any("name", (name,) if name else None)
        filters.add_any("group_id", groups)
        filters.add_text(("id", "name", "input"), text)
        filters.add_before("no", before)
        filters.add_since("created", since)
        query = f"{SELECT_ROW} {filters.where} ORDER BY no DESC LIMIT ?"
        values = (*filters.values, -1 if limit is None else _integer(max(limit, 0)))
        found = await self._writer.read(lambda db: db.execute(query, values).fetchall())
        return [self._row(values) for values in found]

    async def totals(self, groups: Sequence[str] | None = None, since: float = 0) -> RunTotals:
        filters = RowFilters()
        filters.add_any("group_id", groups)
        values = (float(since), float(since), *filters.values)
        found = await self._writer.read(
            lambda db: db.execute(f"{TOTALS} {filters.where} GROUP BY status", values).fetchall()
        )
        costs = [cost for _, _, _, cost in found if cost is not None]
        return RunTotals(
            {status: count for status, count, _, _ in found},
            sum(created for _, _, created, _ in found),
            round(sum(costs), 9) if costs else None,
        )

    async def matching(self, prefix: str, limit: int = 20) -> list[str]:
        # Not LIKE, which ignores case and gives a meaning to `%` and `_`.
        query = "SELECT id FROM runs WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT ?"
        values = (len(prefix), prefix, limit)
        return [
            found for (found,) in await self._writer.read(lambda db: db.execute(query, values).fetchall())
        ]

    def _row(self, values: Sequence[Any]) -> RunRow:
        """A row from the values of SELECT_ROW. Whether the run is owned depends on the time and on
        processes, so it is decided here, with each look."""
        number, fence, facts, *plain = values[: len(COLUMNS) + 3]
        found = dict(zip(COLUMNS, plain, strict=True))
        owner = self._owner(number, fence, values[len(COLUMNS) + 3 :])
        with decoding_from(self.path, f"run {found['id']}"):
            for name in ("summary", "progress"):
                found[name] = msgspec.json.decode(found[name]) if found[name] else None
        group = found.pop("group_id")
        described = self._leases.describe(owner) if owner else ""
        return RunRow(facts=facts, owner=described, group=group, number=number, **found)
