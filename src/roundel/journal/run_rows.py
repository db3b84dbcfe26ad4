"""The rows of runs in SQLite: one run, lists with filters, and ids by their beginning.

A list reads no facts, so it takes the same time for long and short runs. It is paged by the number of the
run, which never changes: a run that is added or deleted while somebody turns pages moves no other run to
another page, as it would with offsets.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from roundel.journal.chunk_rows import FACTS, encode_fields, no_run_error
from roundel.journal.faults import decoding_from
from roundel.journal.leases import JOIN_LEASE, LEASE_COLUMNS, Claims
from roundel.journal.schema import has_column
from roundel.journal.store import EXCERPT, RunRow, RunTotals

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
    "saved_as",
    "workflow_version",
)
_SUMMARY = 3 + COLUMNS.index("summary")
"""The position of the summary in the values of SELECT_ROW."""
SELECT_ROW = f"SELECT no, fence, {FACTS}, {', '.join(COLUMNS)}, {LEASE_COLUMNS} FROM runs {JOIN_LEASE}"
SMALL_SUMMARY = 8_000
"""Bytes up to which a summary is read as it is, also for an excerpt."""
_MARK = b'"excerpt":'
"""Where the progress of a run contains it. Only as the name of a field: a quote in a text is escaped."""
_EXCERPT = (
    f"CASE WHEN length(summary) <= {SMALL_SUMMARY} OR coalesce(instr(progress, X'{_MARK.hex()}'), 0) = 0 "
    "THEN summary END"
)
LONG_SUMMARY = 100_000
"""Bytes from which on a summary is decoded in a thread."""


_WITHOUT_SAVED = "FROM (SELECT *, '' AS saved_as, '' AS workflow_version FROM runs) "
"""The runs of a file that lacks these columns, which only happens where it cannot be written."""


def select_row(db: sqlite3.Connection, excerpt: bool) -> str:
    """The query for rows. For an excerpt, long summaries are left out that have one beside them."""
    query = SELECT_ROW.replace(" summary,", f" {_EXCERPT},", 1) if excerpt else SELECT_ROW
    return query if has_column(db, "runs", "saved_as") else query.replace("FROM runs ", _WITHOUT_SAVED, 1)


def with_excerpt(
    progress: dict[str, Any] | None, summary: dict[str, Any] | None, encoded: bytes | None
) -> dict[str, Any] | None:
    """What is stored as the progress of a run: also an excerpt of its summary, if that is long."""
    if progress is None or encoded is None or len(encoded) <= SMALL_SUMMARY:
        return progress
    return {**progress, "excerpt": excerpt_of(summary)}


def excerpt_of(summary: dict[str, Any] | None) -> dict[str, Any] | None:
    """The excerpt of a summary, as `Store.rows` describes it."""
    if summary is None:
        return None
    found = {name: value for name, value in summary.items() if name not in ("data", "warnings")}
    found.setdefault("output_length", len(found.get("output") or ""))
    for name in ("output", "error"):
        if isinstance(found.get(name), str):
            found[name] = found[name][:EXCERPT]
    return found


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

    async def row(self, run_id: str, excerpt: bool = False) -> RunRow:
        found = await self._writer.read(
            lambda db: db.execute(f"{select_row(db, excerpt)} WHERE id = ?", (run_id,)).fetchone()
        )
        if found is None:
            raise no_run_error(run_id)
        if len(found[_SUMMARY] or b"") > LONG_SUMMARY:
            return await asyncio.to_thread(self._row, found, excerpt)
        return self._row(found, excerpt)

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
        saved_as: str = "",
        excerpt: bool = False,
    ) -> list[RunRow]:
        filters = RowFilters()
        filters.add_any("status", (status,) if status else None)
        filters.add_any("status", statuses or None)
        filters.add_any("name", (name,) if name else None)
        filters.add_any("saved_as", (saved_as,) if saved_as else None)
        filters.add_any("group_id", groups)
        filters.add_text(("id", "name", "input"), text)
        filters.add_before("no", before)
        filters.add_since("created", since)
        values = (*filters.values, -1 if limit is None else _integer(max(limit, 0)))

        def job(db: sqlite3.Connection) -> list[Sequence[Any]]:
            query = f"{select_row(db, excerpt)} {filters.where} ORDER BY no DESC LIMIT ?"
            # One by one: only one complete summary of an older version is in memory.
            return [_shortened(found, excerpt) for found in db.execute(query, values)]

        return [self._row(found, excerpt) for found in await self._writer.read(job)]

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

    def _row(self, values: Sequence[Any], excerpt: bool) -> RunRow:
        """A row from the values of SELECT_ROW. Whether the run is owned depends on the time and on
        processes, so it is decided here, with each look."""
        number, fence, facts, *plain = values[: len(COLUMNS) + 3]
        found = dict(zip(COLUMNS, plain, strict=True))
        owner = self._owner(number, fence, values[len(COLUMNS) + 3 :])
        with decoding_from(self.path, f"run {found['id']}"):
            for name in ("summary", "progress"):
                found[name] = msgspec.json.decode(found[name]) if found[name] else None
        stored = found["progress"].pop("excerpt", None) if found["progress"] else None
        if excerpt:
            found["summary"] = stored if found["summary"] is None else excerpt_of(found["summary"])
        group = found.pop("group_id")
        described = self._leases.describe(owner) if owner else ""
        return RunRow(facts=facts, owner=described, group=group, number=number, **found)


def _shortened(values: Sequence[Any], excerpt: bool) -> Sequence[Any]:
    """The values of a row, without the rest of a long summary that has no excerpt beside it: a version that
    stored none wrote it, or a run that was retried since."""
    body = values[_SUMMARY]
    if not excerpt or body is None or len(body) <= SMALL_SUMMARY:
        return values
    try:
        short = encode_fields(excerpt_of(msgspec.json.decode(body)))
    except msgspec.DecodeError:  # reported where it is read
        return values
    return (*values[:_SUMMARY], short, *values[_SUMMARY + 1 :])
