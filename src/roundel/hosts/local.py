"""The local engine: executes runs in this process, on asyncio.

    local.py      starts and resumes runs, routes control requests to them, waits for their results
    local_run.py  one run while this process executes it
    driver.py     does what the core says, on asyncio
    core.py       decides what to start, to hold back and to cancel
    run_log.py    applies facts, writes the journal, publishes events
    executor.py   carries out effects: nodes, people, functions on edges, middleware

A control request takes one of three ways. If this process executes the run, the run's driver applies it. If
another process owns the run, the request is left in the store, where the poller of that process finds it
(request_poller.py). If nobody owns the run, it is claimed here, for as long as it takes to apply the request
and commit it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from roundel.hosts.control import Answer, Request, Resume, Stop, encode_request, resolve_request, to_fact
from roundel.hosts.engine import (
    Attach,
    Attachment,
    Inspection,
    Result,
    RunSpec,
    resolve_attachment,
    result_from_summary,
)
from roundel.hosts.local_run import REQUEST_APPLIED, LocalRun
from roundel.hosts.stored_run import available_secrets, create, new_run_id, open_run, pin, plan_to_resume
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Busy, Claim, Store, StoreError
from roundel.journal.waiting import run_shielded
from roundel.kernel.facts import Fact, Resumed, mask_fact
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.llm.script import script_from
from roundel.nodes.loading import Source

REQUEST_SECONDS = 10.0
"""How long a process has to answer a control request."""
NOT_RESUMABLE = ("completed", "failed", "stopped", "suspended_locked")

MAX_FAILURES_REMEMBERED = 100
NO_ATTACHMENT = Attachment()
logger = logging.getLogger("roundel")


class _Execution:
    """A run and the task that executes it."""

    def __init__(self, run: LocalRun, task: asyncio.Task[Result]) -> None:
        self.run, self.task = run, task
        self.awaited = False
        """Somebody waits for the result, and sees what goes wrong."""


class LocalEngine:
    """Executes runs in this process; satisfies `Engine`. The store is opened when a run needs it: one that
    is not stored needs none."""

    def __init__(self, open_store: Callable[[], Store], *, clock: Callable[[], float] = time.time) -> None:
        self._open_store, self._clock = open_store, clock
        self._executions: dict[str, _Execution] = {}
        self._failures: dict[str, BaseException] = {}
        """Why executions ended that nobody waited for, until somebody asks for the result."""

    @property
    def store(self) -> Store:
        return self._open_store()

    def knows(self, run_id: str) -> bool:
        return run_id in self._executions

    def _get_executing(self, run_id: str) -> LocalRun | None:
        """The run, if this engine executes it now."""
        execution = self._executions.get(run_id)
        return execution.run if execution is not None and not execution.task.done() else None

    # Starting.

    async def start(self, new: RunSpec, attach: Attach = NO_ATTACHMENT) -> str:
        run_id = new.run_id or new_run_id()
        run = self._make_run(run_id, Inspection(new.plan, Run(new.plan), new.script), attach)
        if new.stored:
            try:
                run.use_store(self.store)
                run.set_journal(await self._create_stored(run, new))
            except BaseException:
                await run.discard()
                raise
        self._launch(run, run.run(new.messages))
        return run_id

    async def _create_stored(self, run: LocalRun, new: RunSpec) -> RunJournal:
        pinned = pin(new.plan, new.script, new.limits)
        return await create(
            self.store,
            run.run_id,
            new.plan,
            pinned,
            new.messages,
            intercepts=run.intercepts,
            now=self._clock,
        )

    def _make_run(self, run_id: str, inspection: Inspection, attach: Attach) -> LocalRun:
        attachment = resolve_attachment(attach, run_id, inspection)
        with attachment.preparing or contextlib.nullcontext():
            return LocalRun(
                inspection.plan,
                script=inspection.script,
                ask=attachment.ask,
                on_event=attachment.on_event,
                middleware=attachment.middleware,
                recorder=attachment.recorder,
                run_id=run_id,
                clock=self._clock,
            )

    def _launch(self, run: LocalRun, work: Coroutine[Any, Any, Result]) -> _Execution:
        task = asyncio.create_task(work, name=f"roundel-run-{run.run_id}")
        self._executions[run.run_id] = execution = _Execution(run, task)
        task.add_done_callback(lambda _task: self._on_task_done(execution))
        return execution

    def _on_task_done(self, execution: _Execution) -> None:
        run, task = execution.run, execution.task
        if run.journal is not None:  # its result is in the store
            self._forget(execution)
        error = None if task.cancelled() else task.exception()
        if error is not None and not execution.awaited:
            logger.error("run %s failed in its host", run.run_id, exc_info=error)
            self._failures[run.run_id] = error
            if len(self._failures) > MAX_FAILURES_REMEMBERED:
                del self._failures[next(iter(self._failures))]

    def _forget(self, execution: _Execution) -> None:
        """The run may have been resumed in the meantime, which is another execution."""
        if self._executions.get(execution.run.run_id) is execution:
            del self._executions[execution.run.run_id]

    # Results.

    async def result(self, run_id: str) -> Result:
        execution = self._executions.get(run_id)
        if execution is not None:
            execution.awaited = True
            try:
                return await asyncio.shield(execution.task)
            finally:
                if execution.task.done():
                    self._forget(execution)
        if run_id in self._failures:
            raise self._failures.pop(run_id)
        position = 0
        while True:
            row = await self.store.row(run_id)
            if row.status != "running" and row.summary is not None:
                return result_from_summary(run_id, {**row.summary, "status": row.status})
            if not row.owner:
                raise StoreError(f"no process executes run {run_id}; `roundel resume {run_id}` resumes it")
            with contextlib.suppress(TimeoutError):  # the death of a process appends nothing
                async with asyncio.timeout(1):
                    position = await self.store.wait_for_append(position)

    async def wait(self, run_id: str) -> Result:
        execution = self._executions.get(run_id)  # None if it was idle at once
        try:
            return await self.result(run_id)
        except asyncio.CancelledError:
            if execution is not None:
                await run_shielded(_cancel_and_wait(execution.task))
            raise

    # Control.

    async def control(
        self,
        run_id: str,
        request: Request,
        *,
        execute: Attach | None = None,
        workflow: Source | None = None,
    ) -> bool:
        executed = not isinstance(request, Stop)  # by the process that applies the request, if there is one
        run = self._get_executing(run_id)
        if run is not None:
            _raise_refusal(run_id, await run.request(resolve_request(request, run.state)))
            return executed
        store = self.store
        row = await store.row(run_id)
        if row.owner and await self._forward(run_id, request):
            return executed
        if row.status == "paused" and not isinstance(request, Resume):
            execute = None  # somebody has paused it, and answering a question does not resume it
        try:
            claim = await store.claim(run_id)
        except Busy as busy:
            raise Busy(
                f"{busy}; {_follow_hint(run_id) if isinstance(request, Resume) else 'try again'}"
            ) from busy
        if execute is None:
            if isinstance(request, Resume):
                await store.release(claim)
                return False
            await self._apply(claim, request)
            return False
        await self._resume(claim, request, execute, workflow)
        return True

    async def _forward(self, run_id: str, request: Request) -> bool:
        """Leaves a request for the process that owns the run. Whether that process has applied it; False if
        it does not own the run any more. A stop is not left waiting: an owner that does not answer in time
        loses the run. Busy if a run was to be resumed that is not paused."""
        store = self.store
        if isinstance(request, Answer):  # the reasons why it cannot be one are better told here
            request = resolve_request(request, (await open_run(store, run_id)).state)
        number = await store.request(run_id, request.kind, await self._mask_request(run_id, request))
        try:
            outcome = await self._wait_for_outcome(run_id, number)
        except TimeoutError:
            if not isinstance(request, Stop):
                await store.withdraw(number)
                raise StoreError(
                    f"the process that executes run {run_id} did not answer within {REQUEST_SECONDS:g} "
                    "seconds; try again, or stop the run, which needs no answer"
                ) from None
            if await store.withdraw(number):
                await self._apply(await store.claim(run_id, force=True), request)
                return True
            outcome = await store.outcome(number)
        except BaseException:
            await store.withdraw(number)
            raise
        if not outcome:
            if await store.withdraw(number):
                return False  # the process was done with the run before it saw the request
            outcome = await store.outcome(number)
        if outcome != REQUEST_APPLIED and isinstance(request, Resume):
            raise Busy(f"another process executes run {run_id}; {_follow_hint(run_id)}")
        _raise_refusal(run_id, "" if outcome == REQUEST_APPLIED else outcome)
        return True

    async def _wait_for_outcome(self, run_id: str, number: int) -> str:
        """The outcome of a request; empty if nobody owns the run any more."""
        async with asyncio.timeout(REQUEST_SECONDS):
            while not (outcome := await self.store.outcome(number)):
                if not (await self.store.row(run_id)).owner:
                    return ""
                await asyncio.sleep(0.05)
            return outcome

    async def _mask_request(self, run_id: str, request: Request) -> dict[str, Any]:
        """The body of a request without the secrets of its run."""
        body = encode_request(request)
        if not any(body.values()):
            return body
        secrets = available_secrets(await self.store.pinned(run_id))
        address = {"address": body["address"]} if "address" in body else {}
        return {**secrets.mask_value(body), **address}

    async def _apply(self, claim: Claim, request: Request) -> None:
        """Applies a request to a run that nobody executes, and releases it again."""
        journal = RunJournal(self.store, claim)
        try:
            opened = await open_run(self.store, claim.run_id)
            state = opened.state
            assert opened.pinned is not None
            now = max(self._clock(), state.since)
            fact = mask_fact(to_fact(resolve_request(request, state), now), available_secrets(opened.pinned))
            try:
                step(state, fact)
            except IllegalFact as error:
                raise _refusal_error(state, error) from error
            journal.add(fact)
            journal.add_decisions(state.decisions.made)
            await journal.commit(state)
        finally:
            await journal.close()

    async def _resume(self, claim: Claim, request: Request, attach: Attach, workflow: Source | None) -> None:
        """Applies a request to a run that nobody executes, commits it, and executes the run."""
        journal = RunJournal(self.store, claim)
        try:
            opening = await self._open_to_resume(journal, request, workflow)
            state = opening.state
            facts: list[Fact] = [Resumed(0)] if state.paused else []
            if not isinstance(request, Resume):
                facts.append(to_fact(resolve_request(request, state), 0))
            run = self._make_run(claim.run_id, opening, attach)
            try:
                run.use_store(self.store)
            except BaseException:
                await run.discard()
                raise
            run.set_journal(journal)
        except BaseException:
            await journal.close()
            raise
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        execution = self._launch(run, run.resume(state, *facts, opened=opened))
        execution.awaited = True
        try:
            waited: list[asyncio.Future[Any]] = [opened, execution.task]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await run_shielded(_cancel_and_wait(execution.task))
            raise
        if not opened.done():
            try:
                await execution.task
            except IllegalFact as error:
                raise _refusal_error(state, error) from error
        execution.awaited = False  # what goes wrong from now on is for those who wait for the result

    async def _open_to_resume(
        self, journal: RunJournal, request: Request, workflow: Source | None
    ) -> Inspection:
        """A run that is to be resumed, with all that executing it takes; StoreError if it cannot be."""
        store, run_id = self.store, journal.claim.run_id
        pinned = await store.pinned(run_id)
        row = await store.row(run_id)
        resumes = isinstance(request, Resume)
        # To say that a run cannot be resumed takes neither its secrets nor its code.
        plan = None if resumes and row.status in NOT_RESUMABLE else plan_to_resume(pinned, workflow)
        opened = await open_run(store, run_id, plan)
        state = opened.state
        if resumes and state.status in NOT_RESUMABLE:
            if row.status != state.status:  # the process that executed it died before it could write this
                await journal.commit(state)
            raise StoreError(_explain_not_resumable(state))
        script = script_from(pinned.script) if pinned.script else None
        return msgspec.structs.replace(opened, script=script)

    def interrupt(self, run_id: str, reason: str) -> None:
        run = self._get_executing(run_id)
        if run is not None:
            run.interrupt(reason)

    # Inspecting.

    async def inspect(self, run_id: str) -> Inspection:
        run = self._get_executing(run_id)
        if run is not None and run.journal is None:
            return Inspection(run.plan, run.state)
        return await open_run(self.store, run_id)

    async def close(self) -> None:
        for execution in list(self._executions.values()):
            await _cancel_and_wait(execution.task)
        self._executions.clear()


async def _cancel_and_wait(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _follow_hint(run_id: str) -> str:
    return f"`roundel log {run_id} --follow` follows it"


def _raise_refusal(run_id: str, reason: str) -> None:
    if reason:
        raise StoreError(f"run {run_id}: {reason}")


def _refusal_error(state: Run, error: IllegalFact) -> StoreError:
    return StoreError(f"run {state.run_id} is {state.status}: {error}")


def _explain_not_resumable(state: Run) -> str:
    run_id = state.run_id
    if state.over:
        return (
            f"run {run_id} is over: it is {state.status}; `roundel fork {run_id} --at ADDRESS` starts a new "
            "one from any point of it"
        )
    return f"run {run_id} is locked; `roundel unlock {run_id}` unlocks it"
