"""What others wish of a run, in the store: they leave it there, and the process at work on the run looks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from roundel.journal.reading import no_run
from roundel.journal.store import Claim, Control, Wish
from roundel.journal.writer import Writer


class Controls:
    """The part of a store in SQLite that holds them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def ask(self, run_id: str, wish: Wish, body: dict[str, Any]) -> int:
        encoded = msgspec.json.encode(body, enc_hook=repr)

        def job(db: sqlite3.Connection) -> int:
            query = "INSERT INTO controls (run, wish, body) SELECT no, ?, ? FROM runs WHERE id = ?"
            cursor = db.execute(query, (wish, encoded, run_id))
            if cursor.rowcount != 1 or cursor.lastrowid is None:
                raise no_run(run_id)
            return cursor.lastrowid

        return await self._writer.write(job)

    async def controls(self, claim: Claim) -> list[Control]:
        query = "SELECT no, wish, body FROM controls WHERE run = ? AND outcome = '' ORDER BY no"

        def job(db: sqlite3.Connection) -> list[Control]:
            found = db.execute(query, (claim.run,))
            return [Control(number, wish, msgspec.json.decode(body)) for number, wish, body in found]

        return await self._writer.read(job)  # decoded there, where what cannot be decoded is explained

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            for number in numbers:
                db.execute("UPDATE controls SET outcome = ? WHERE no = ?", (outcome, number))

        await self._writer.write(job)

    async def outcome(self, number: int) -> str:
        query = "SELECT outcome FROM controls WHERE no = ?"
        found = await self._writer.read(lambda db: db.execute(query, (number,)).fetchone())
        return found[0] if found else ""

    async def withdraw(self, number: int) -> bool:
        query = "UPDATE controls SET outcome = 'withdrawn' WHERE no = ? AND outcome = ''"
        return bool(await self._writer.write(lambda db: db.execute(query, (number,)).rowcount))
