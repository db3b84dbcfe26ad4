"""Keeps the runs of a server going: after a restart, after the crash of another server, and at deadlines.

A server executes the runs that were started over HTTP (`started_by`). The process that executes a run owns it
by a lease in the store, so several servers on one store never execute a run twice: a run without a live owner
is taken over by the first that claims it. Runs of the command line belong to the person at the terminal, and
are left alone.

    running, no owner      its process died: it is resumed; or paused, if a pause was on its way
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

from roundel.hosts.control import Pause
from roundel.journal.store import Busy, RunRow
from roundel.server.context import ServerContext
from roundel.server.problems import Problem

SCAN_SECONDS = 2.0
"""How often the supervisor looks for runs to take over."""
PAGE = 200
"""Rows of runs that are read at once."""
logger = logging.getLogger("roundel.server")


class Supervisor:
    """One for each server process; `start` and `stop` frame its life."""

    def __init__(self, context: ServerContext, seconds: float = SCAN_SECONDS) -> None:
        self._context, self._seconds = context, seconds
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._refused: dict[str, float] = {}
        """Runs that could not be resumed here, with the time of their last change: they are tried again when
        something about them changes."""

    def start(self) -> None:
        """Resumes what can be resumed now, and continues to look."""
        self._task = asyncio.create_task(self._watch(), name="roundel-supervisor")

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.scan()
            except Exception as error:  # a disk that is full, say: it may work again later
                logger.warning("cannot look for runs to resume: %s", _shown(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._stopping.wait()

    async def scan(self) -> None:
        """Looks once at all runs that could continue."""
        context = self._context
        await context.documents.expire(context.clock())
        seen: set[str] = set()
        before = 0
        while True:
            rows = await context.runs.store.rows(PAGE, statuses=("running", "waiting"), before=before)
            for row in rows:
                seen.add(row.id)
                if self._stopping.is_set() or context.active_runs >= context.settings.max_active_runs:
                    return
                if self._is_due(row):
                    await self._resume(row)
            if len(rows) < PAGE:
                break
            before = rows[-1].number
        self._refused = {run_id: when for run_id, when in self._refused.items() if run_id in seen}

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
            state = (await context.runs.inspect(row.id)).state
            if row.status == "running" and state.paused:
                # Its process died while the pause waited for calls in flight. To resume the run would take
                # back what somebody was promised.
                await context.runs.engine.control(row.id, Pause(state.paused))
                return
            await context.check_allowed(row.id)
            await context.execute(
                lambda: context.runs.resume_in_background(row.id, attach=context.attachment()), row.id
            )
        except (Busy, Problem):
            pass  # another server was quicker, or this one is full, or shuts down
        except Exception as error:
            # Something is missing here: a secret, say. One such run must not keep the others waiting.
            self._refused[row.id] = row.updated
            logger.warning("run %s is not resumed here: %s", row.id, _shown(error))

    async def stop(self) -> None:
        """Ends after the resume that is in progress, if there is one: to cancel it would stop the run."""
        self._stopping.set()
        if self._task is not None:
            await self._task


def _shown(error: Exception) -> str:
    """An error in one line of the log: it may contain parts of a text, which could otherwise write lines of
    its own."""
    return ascii(str(error))[1:-1][:2_000]
