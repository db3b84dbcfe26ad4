"""Keeps the runs of a server going: after a restart, after the crash of another server, and at deadlines.

A server executes the runs that were started over HTTP (`started_by`). The process that executes a run owns it
by a lease in the store, so several servers on one store never execute a run twice: a run without a live owner
is taken over by the first that claims it. Runs of the command line belong to the person at the terminal, and
are left alone.

    running, no owner      its process died: it is resumed; or paused, if a pause was on its way
    waiting, no owner      it is resumed when a deadline of one of its questions passes
    paused, locked         a person has to decide

*Runs that crash their process.* A store counts how often in a row a run was taken over from a process that
died, without progress of the run (journal/takeovers.py). At MAX_CRASHES the engine locks the run instead of
resuming it. A crash ends all runs of a process, and only one is to blame. So a run that was taken over once
without progress is a suspect, and after another crash suspects are resumed one at a time, those with most
crashes first: the next suspect has to wait until this one has made progress, is idle, or has worked for
TRIAL_SECONDS. So suspects do not share a third crash (docs/decisions/0051).

*Errors.* A store that cannot be written (the disk is full) may work again soon: such a run is tried again
after 2 s, 4 s, and so on up to a minute. The same intervals apply to a run that this server could resume and
then could not write. A run that is refused (a secret is missing) is tried again when something about it
changes, and every five minutes. The log says each of them once.

At shutdown the calls in flight may finish for some seconds. Then the leases are released, and no status
changes: the next server resumes the runs where they are, and makes unfinished calls again with the same
idempotency keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import datetime

from msgspec import Struct

from roundel.hosts.control import Pause, Resume
from roundel.journal.store import Busy, NoRun, RunRow, StoreFailure
from roundel.server.context import ServerContext
from roundel.server.problems import Problem

SCAN_SECONDS = 2.0
"""How often the supervisor looks for runs to take over."""
TRIAL_SCAN_SECONDS = 0.2
"""How often it looks while suspects have to wait for each other."""
PAGE = 200
"""Rows of runs that are read at once."""
SHORTEST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""The seconds between the first two attempts to resume a run, and the most between any two."""
FORGOTTEN_AFTER = 2 * LONGEST_WAIT
"""After so many seconds without an attempt the intervals begin anew."""
REFUSED_WAIT = 300.0
"""The seconds after which a run is tried again that was refused, although nothing about it has changed."""
TRIAL_SECONDS = 900.0
"""How long a suspect may work without progress before the next one is resumed beside it."""
logger = logging.getLogger("roundel.server")


class _Attempt(Struct):
    """The last attempt to resume a run."""

    time: float
    wait: float
    """The seconds until the next one."""
    updated: float
    """When the run had last changed."""
    refused: bool = False
    """It was refused, so a change of the run may matter."""
    text: str = ""
    """The error that was logged."""

    def is_outdated(self, row: RunRow) -> bool:
        """Whether something was stored since, which may matter to a run that was refused, and shows that one
        that was resumed could be written."""
        return (self.refused or not self.text) and self.updated != row.updated


class Supervisor:
    """One for each server process; `start` and `stop` frame its life."""

    def __init__(self, context: ServerContext, seconds: float = SCAN_SECONDS) -> None:
        self._context, self._seconds = context, seconds
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._attempts: dict[str, _Attempt] = {}
        self._trial: tuple[str, float] | None = None
        """The suspect that is executed here, and when it was resumed."""
        self._suspects_wait = False
        self._scan_error = ""
        """The error of the last scan, which was logged."""

    def start(self) -> None:
        """Resumes what can be resumed now, and continues to look."""
        self._task = asyncio.create_task(self._watch(), name="roundel-supervisor")

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.scan()
                self._scan_error = ""
            except Exception as error:  # a disk that is full, say: it may work again later
                if (text := _shown(error)) != self._scan_error:
                    self._scan_error = text
                    logger.warning("cannot look for runs to resume: %s", text)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TRIAL_SCAN_SECONDS if self._suspects_wait else self._seconds):
                    await self._stopping.wait()

    async def scan(self) -> None:
        """Looks once at all runs that could continue."""
        context = self._context
        await context.documents.expire(context.clock())
        seen: set[str] = set()
        suspects: list[tuple[int, RunRow]] = []
        before = 0
        while True:
            rows = await context.runs.store.rows(PAGE, statuses=("running", "waiting"), before=before)
            for row in rows:
                seen.add(row.id)
                if self._is_full():
                    return
                if self._is_due(row):
                    crashes = await context.runs.store.crashes(row.id) if row.status == "running" else 0
                    if crashes:
                        suspects.append((crashes, row))
                    else:
                        await self._resume(row)
            if len(rows) < PAGE:
                break
            before = rows[-1].number
        self._attempts = {run_id: each for run_id, each in self._attempts.items() if run_id in seen}
        await self._try_suspects(suspects)

    def _is_full(self) -> bool:
        return self._stopping.is_set() or (
            self._context.active_runs >= self._context.settings.max_active_runs
        )

    async def _try_suspects(self, suspects: list[tuple[int, RunRow]]) -> None:
        """Resumes the first suspect, unless another one is on trial. One that is locked or refused needs no
        trial."""
        self._suspects_wait = False
        for _, row in sorted(suspects, key=lambda each: each[0], reverse=True):
            if self._is_full():
                return
            if await self._is_on_trial():
                self._suspects_wait = True
                return
            await self._resume(row)
            if self._context.runs.engine.knows(row.id):
                self._trial = (row.id, time.monotonic())

    async def _is_on_trial(self) -> bool:
        """Whether a suspect is executed here that has made no progress yet."""
        if self._trial is None:
            return False
        run_id, since = self._trial
        store = self._context.runs.store
        try:
            row = await store.row(run_id)
            if row.status == "running" and row.owner and time.monotonic() < since + TRIAL_SECONDS:
                return await store.crashes(run_id) > 0
        except NoRun:
            pass
        self._trial = None
        return False

    def _is_due(self, row: RunRow) -> bool:
        if row.owner or not row.started_by or not self._may_try(row):
            return False
        if row.status == "running":
            return True
        deadline = (row.summary or {}).get("deadline")
        return deadline is not None and datetime.fromisoformat(deadline).timestamp() <= self._context.clock()

    def _may_try(self, row: RunRow) -> bool:
        """Whether it is time for another attempt to resume a run."""
        last = self._attempts.get(row.id)
        if last is None or last.is_outdated(row):
            return True
        return time.monotonic() >= last.time + last.wait

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
            # Somebody may have paused the run since `row` was read.
            resume = Resume(if_interrupted=True)
            attachment = context.attachment()
            await context.execute(
                lambda: context.runs.engine.control(row.id, resume, execute=attachment), row.id
            )
            self._note_attempt(row)
        except (Busy, Problem):
            pass  # another server was quicker, or this one is full, or shuts down
        except Exception as error:
            # One such run must not keep the others waiting.
            self._note_attempt(row, error)

    def _note_attempt(self, row: RunRow, error: Exception | None = None) -> None:
        """Decides when a run may be tried again, and logs an error that is new."""
        now, last = time.monotonic(), self._attempts.get(row.id)
        text = _shown(error) if error is not None else ""
        if error is not None and (last is None or last.text != text):
            logger.warning("run %s is not resumed here: %s", row.id, text)
        if error is not None and not isinstance(error, StoreFailure):
            # Something is missing here: a secret, say.
            self._attempts[row.id] = _Attempt(now, REFUSED_WAIT, row.updated, True, text)
            return
        is_first = last is None or last.is_outdated(row) or last.refused or now > last.time + FORGOTTEN_AFTER
        wait = SHORTEST_WAIT if last is None or is_first else min(2 * last.wait, LONGEST_WAIT)
        self._attempts[row.id] = _Attempt(now, wait, row.updated, False, text)

    async def stop(self) -> None:
        """Ends after the resume that is in progress, if there is one: to cancel it would stop the run."""
        self._stopping.set()
        if self._task is not None:
            await self._task


def _shown(error: Exception) -> str:
    """An error in one line of the log: it may contain parts of a text, which could otherwise write lines of
    its own."""
    return ascii(str(error))[1:-1][:2_000]
