"""Keeps the runs of a server going: after a restart, after the crash of another server, and at deadlines.

A server executes the runs that were started over HTTP (`started_by`). Whoever executes a run owns it by a
lease in the store, so several servers on one store never execute a run twice: a run without a live owner is
taken over by the first that claims it. Runs of the command line belong to the person at the terminal, and are
left alone.

    running, no owner      its process died: it is resumed
    waiting, no owner      it is resumed when a deadline of one of its questions passes
    paused, locked         a person has to decide

At shutdown the calls in flight may finish for some seconds. Then the leases are released, and no status
changes: the next server resumes the runs where they are, and makes unfinished calls again with the same
idempotency keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import datetime

from roundel.journal.store import RunRow, StoreError
from roundel.server.context import ServerContext
from roundel.workflow.diagnostics import WorkflowError

SCAN_SECONDS = 2.0
"""How often the supervisor looks for runs to take over."""
MOST_ROWS = 1000
logger = logging.getLogger("roundel.server")


class Supervisor:
    """One for each server process; `start` and `stop` frame its life."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._refused: dict[str, float] = {}
        """Runs that could not be resumed here, with the time of their last change: they are tried again when
        something about them changes."""

    async def start(self) -> None:
        """Resumes what can be resumed now, and continues to look."""
        await self._scan()
        self._task = asyncio.create_task(self._watch(), name="roundel-supervisor")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            try:
                await self._scan()
            except StoreError as error:  # a disk that is full, say: it may work again later
                logger.warning("cannot look for runs to resume: %s", error)

    async def _scan(self) -> None:
        context = self._context
        await context.documents.expire(context.clock())
        for row in await context.runs.store.rows(MOST_ROWS, statuses=("running", "waiting")):
            if self._is_due(row) and context.active_runs < context.settings.max_active_runs:
                await self._resume(row)

    def _is_due(self, row: RunRow) -> bool:
        if row.owner or not row.started_by or self._refused.get(row.id) == row.updated:
            return False
        if row.status == "running":
            return True
        deadline = (row.summary or {}).get("deadline")
        return deadline is not None and datetime.fromisoformat(deadline).timestamp() <= self._context.clock()

    async def _resume(self, row: RunRow) -> None:
        context = self._context
        try:
            await context.check_allowed(row.id)
            await context.runs.resume_in_background(row.id, attach=context.attachment())
            context.track(row.id)
        except (StoreError, WorkflowError) as error:
            # Another server was quicker, or something is missing here: a secret, say.
            self._refused[row.id] = row.updated
            logger.warning("run %s is not resumed here: %s", row.id, error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
