"""Control requests in SQLite: what other processes ask of the process that owns a run.

A request is a row. It is open while its outcome is empty; the first to set it (the owner that settles the
request, or the requester that withdraws it) decides, since both update only an open row. So a request is
either carried out or withdrawn, never both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from roundel.journal.appending import taken_over
from roundel.journal.reading import no_run
from roundel.journal.store import Claim, ControlRequest, RequestKind
from roundel.journal.writer import Writer

_SETTLE = "UPDATE controls SET outcome = ? WHERE no = ? AND run = ? AND outcome = ''"


class ControlRequests:
    """The part of SqliteStore that holds control requests."""

    _writer: Writer

    async def request(self, run_id: str, kind: RequestKind, body: dict[str, Any]) -> int:
        encoded = msgspec.json.encode(body, enc_hook=repr)

        def job(db: sqlite3.Connection) -> int:
            query = "INSERT INTO controls (run, kind, body) SELECT no, ?, ? FROM runs WHERE id = ?"
            cursor = db.execute(query, (kind, encoded, run_id))
            if cursor.rowcount != 1 or cursor.lastrowid is None:
                raise no_run(run_id)
            return cursor.lastrowid

        return await self._writer.write(job)

    async def requests(self, claims: Sequence[Claim]) -> list[ControlRequest]:
        # The partial index holds open requests only, of which there is rarely one. To read all of them costs
        # less than to look for those of two hundred runs one by one.
        query = (
            "SELECT no, run, kind, body FROM controls INDEXED BY controls_open WHERE outcome = '' ORDER BY no"
        )
        runs = {claim.run: claim.run_id for claim in claims}

        def job(db: sqlite3.Connection) -> list[ControlRequest]:
            # Decoded in the job, where an error is explained as damage of the store.
            return [
                ControlRequest(number, runs[run], kind, msgspec.json.decode(body))
                for number, run, kind, body in db.execute(query)
                if run in runs
            ]

        return await self._writer.read(job) if runs else []

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            query = "SELECT fence FROM runs WHERE no = ?"
            found = db.execute(query, (claim.run,)).fetchone()
            if found != (claim.fence,):
                raise taken_over(claim, found is not None)
            db.executemany(_SETTLE, [(outcome, number, claim.run) for number in numbers])

        await self._writer.write(job)

    async def outcome(self, number: int) -> str:
        query = "SELECT outcome FROM controls WHERE no = ?"
        found = await self._writer.read(lambda db: db.execute(query, (number,)).fetchone())
        return found[0] if found else ""

    async def withdraw(self, number: int) -> bool:
        query = "UPDATE controls SET outcome = 'withdrawn' WHERE no = ? AND outcome = ''"
        return bool(await self._writer.write(lambda db: db.execute(query, (number,)).rowcount))
