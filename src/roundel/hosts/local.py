"""The local engine: executes runs in this process, on asyncio.

    engine.py      the protocol that this engine satisfies, and its data
    local.py       starts and resumes runs, routes control requests to them, waits for their results
    local_run.py   one run while this process executes it
    driver.py      executes what the core decides, on asyncio
    core.py        decides what to start, to defer and to cancel; applies facts, publishes events
    executor.py    executes effects: nodes, people, functions on edges, middleware
    stored_run.py  creates runs in a store, opens them again, reads their events
    remembered_runs.py  what a run needs and the store does not contain, for runs that were executed here
    live_events.py      what those who follow a run get directly: transient events, and commits

*A run has a task of its own.* The engine creates it, and callers only wait for it, shielded. So whatever
cancels that task is an interrupt, a stop, the loss of the run, or a caller for whom the engine passes
the cancellation on (`wait`), and nobody has to find out afterwards which of them it was.

*A control request takes one of three ways.* If this process executes the run, the run's driver applies
it. If another process owns the run, the request is left in the store, where the poller of that process
finds it (control.py). If nobody owns the run, the engine claims it, for as long as it takes to apply the
request and commit it, or from then on if the run is to be executed here.

The owner may change between the look at it and the request. Nothing depends on that look: a request that
no owner settles is withdrawn, which succeeds only while it is open, and a claim is refused while there
is an owner. Only a stop claims by force, if the owner does not answer within REQUEST_SECONDS; the fence
then keeps the old owner from writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from roundel.hosts.contexts import CONTEXT_BYTES, RunContexts
from roundel.hosts.control import (
    Answer,
    ChangeBreakpoints,
    EditMessage,
    LockRun,
    Resume,
    RetryRun,
    RunRequest,
    StepRun,
    Stop,
    Unlock,
    encode_request,
    explain_not_resumable,
    resolve_request,
    to_fact,
)
from roundel.hosts.engine import (
    Attach,
    Attachment,
    Execute,
    Inspection,
    RememberedRun,
    Result,
    RunSpec,
    resolve_attachment,
    result_from_summary,
)
from roundel.hosts.live_events import CommitCache, LiveEvents, LiveFeeds
from roundel.hosts.local_run import REQUEST_APPLIED, LocalRun
from roundel.hosts.log_context import RUN_ID
from roundel.hosts.remembered_runs import RememberedRuns
from roundel.hosts.shared_budgets import (
    ONE_CALL,
    SharedBudgets,
    SharedLimit,
    TokenName,
    calls_models,
    runs_at_once,
    too_many_runs,
)
from roundel.hosts.stored_run import (
    available_secrets,
    create,
    new_run_id,
    open_run,
    pin,
    pinned_plan,
    pinned_script,
    plan_to_resume,
)
from roundel.hosts.unstored_parts import given_secrets, unstored_parts
from roundel.journal.faults import not_stored_error
from roundel.journal.run_journal import RunJournal
from roundel.journal.spending import TooManyRuns
from roundel.journal.store import Busy, Claim, Pinned, RunRow, Store, StoreError, StoreFailure
from roundel.journal.waiting import run_shielded
from roundel.kernel.commands import Ask
from roundel.kernel.debugging import STEP
from roundel.kernel.events import OVER
from roundel.kernel.facts import Expired, Fact, Locked, Paused, Reopened, Resumed, mask_fact
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.nodes.loading import Source
from roundel.workflow.allow_list import TRUSTED, Policy

REQUEST_SECONDS = 10.0
"""How long the owner of a run has to settle a control request."""
MAX_CRASHES = 3
"""After so many processes in a row that died without progress of the run, the run is locked."""
NOT_RESUMABLE = OVER | {"suspended_locked"}
"""Statuses in which `Resume` is refused."""
CONTINUE = (Resume, RetryRun, StepRun, Unlock)
"""Requests that let a run continue which has stopped."""
FOR_RELEASED = (Resume, StepRun, ChangeBreakpoints, EditMessage)
"""Requests to a run that is paused or locked. The process that paused it executes it for a moment longer, and
would refuse them; they are applied once it has released the run."""

MAX_FAILURES_REMEMBERED = 100
"""A server may start runs that nobody ever asks for again."""
NO_ATTACHMENT = Attachment()
_TASKS: set[asyncio.Task[Result]] = set()
"""The tasks of all runs that this process executes. asyncio itself has only weak references to tasks, and an
engine may be dropped by its user while a run continues."""
logger = logging.getLogger("roundel")


class _Execution:
    """A run and the task that executes it."""

    def __init__(self, run: LocalRun, task: asyncio.Task[Result]) -> None:
        self.run, self.task = run, task
        self.awaited = False
        """A caller waits for the result and receives the exception, so it need not be logged."""
        self.is_handed_back = False
        """When the engine closes, the run is handed back to the store and not stopped."""


class LocalEngine:
    """Executes runs in this process; satisfies `Engine`. The store is opened when a run needs it: one that
    is not stored needs none."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] | None = None,
        policy: Policy = TRUSTED,
        token_name: TokenName | None = None,
        context_bytes: int = CONTEXT_BYTES,
    ) -> None:
        self._context_bytes = context_bytes
        """How much each run may keep of what its model calls get; a run that is resumed also has the limit
        that it was started with."""
        self._open_store, self._clock, self._elapsed = open_store, clock, elapsed
        self._policy = policy
        """What all runs may use that this engine executes, also those that it resumes."""
        self._shared = SharedBudgets(open_store, policy.limits, clock, token_name) if policy.limits else None
        self._executions: dict[str, _Execution] = {}
        self._remembered = RememberedRuns()
        self._live = LiveFeeds()
        self._failures: dict[str, BaseException] = {}
        """The exceptions of executions that nobody waited for, by run, until somebody asks for the
        result."""

    @property
    def store(self) -> Store:
        return self._open_store()

    def knows(self, run_id: str) -> bool:
        """Whether this engine executes the run, or has the result of a run that is not stored."""
        return run_id in self._executions

    def _get_executing(self, run_id: str) -> LocalRun | None:
        """The run, if this engine executes it now."""
        execution = self._executions.get(run_id)
        return execution.run if execution is not None and not execution.task.done() else None

    # Starting.

    async def start(self, new: RunSpec, attach: Attach = NO_ATTACHMENT) -> str:
        run_id = new.run_id or new_run_id()
        limits: Sequence[SharedLimit] = ()
        if self._shared is not None and new.stored:
            group = new.plan.workflow.memory.group_id if new.group is None else new.group
            limits = await self._shared.limits_of(group, new.started_by)
            spends = new.script is None and calls_models(new.plan)
            await self._shared.check_room(limits, ONE_CALL if spends else None, runs=False)
        run = await self._make_run(run_id, Inspection(new.plan, Run(new.plan), new.script), attach, limits)
        if new.stored:
            try:
                # In this order: `use_store` fails if the store has no place for what the run needs, and
                # then no run must be left behind in it.
                run.use_store(self.store)
                self._live.begin_write(run_id)  # until the first fact is applied (RunLog.begin)
                run.set_journal(await self._create_stored(run, new, limits))
            except BaseException as error:
                self._live.end_write(run_id)
                await run.discard()
                if isinstance(error, StoreFailure):
                    raise not_stored_error(error) from error
                raise
            self._remembered.add(run_id, unstored_parts(new.plan.workflow, given_secrets(new.plan)), attach)
        self._launch(run, run.run(new.messages, new))
        return run_id

    async def _create_stored(self, run: LocalRun, new: RunSpec, limits: Sequence[SharedLimit]) -> RunJournal:
        """Creates the run in the store, with its first fact, and claims it."""
        pinned = msgspec.structs.replace(
            pin(new.plan, new.script, new.limits), context_bytes=self._context_bytes
        )
        try:
            return await create(
                self.store,
                run.run_id,
                new,
                pinned,
                intercepts=run.intercepts,
                room=runs_at_once(limits),
                now=self._clock,
            )
        except TooManyRuns as error:
            raise next(too_many_runs(one) for one in limits if one.at_once == error.limit) from None

    async def _make_run(
        self, run_id: str, inspection: Inspection, attach: Attach, limits: Sequence[SharedLimit] = ()
    ) -> LocalRun:
        """Prepares a run to be executed here; WorkflowError if something is missing. The attachment is
        made first, so that a view is there before anything can fail or happen."""
        attachment = await resolve_attachment(attach, run_id, inspection)
        with attachment.preparing or contextlib.nullcontext():
            return LocalRun(
                inspection.plan,
                script=inspection.script,
                ask=attachment.ask,
                by=attachment.by,
                on_event=attachment.on_event,
                live=self._live,
                middleware=attachment.middleware,
                recorder=attachment.recorder,
                run_id=run_id,
                clock=self._clock,
                elapsed=self._elapsed,
                policy=self._policy,
                limits=limits,
                context_bytes=self._limit_of(inspection.pinned),
            )

    def _limit_of(self, pinned: Pinned | None) -> int:
        """How much a run may keep of what its model calls get."""
        if pinned is None or pinned.context_bytes is None:
            return self._context_bytes
        return min(pinned.context_bytes, self._context_bytes)

    def _launch(self, run: LocalRun, work: Coroutine[Any, Any, Result]) -> _Execution:
        """Starts the task that executes a run."""
        context = copy_context()
        context.run(RUN_ID.set, run.run_id)
        task = asyncio.create_task(work, name=f"roundel-run-{run.run_id}", context=context)
        self._executions[run.run_id] = execution = _Execution(run, task)
        _TASKS.add(task)
        task.add_done_callback(lambda _task: self._on_task_done(execution))
        return execution

    def _on_task_done(self, execution: _Execution) -> None:
        """Logs and remembers an exception that no caller has received; asyncio would only complain about
        it when the task is garbage-collected."""
        run, task = execution.run, execution.task
        _TASKS.discard(task)
        self._live.end_write(run.run_id)
        self._remembered.forget(run.run_id, run.state.status)
        # The result of a stored run is in the store. That of any other run stays here until `result`
        # returns it.
        if run.journal is not None:
            self._forget(execution)
        error = None if task.cancelled() else task.exception()
        if error is not None and not execution.awaited:
            logger.error("run %s failed in its host", run.run_id, exc_info=error)
            self._failures[run.run_id] = error
            if len(self._failures) > MAX_FAILURES_REMEMBERED:
                del self._failures[next(iter(self._failures))]

    def _forget(self, execution: _Execution) -> None:
        """Removes an execution, unless the run was resumed in the meantime, which is another
        execution."""
        if self._executions.get(execution.run.run_id) is execution:
            del self._executions[execution.run.run_id]

    # Results.

    async def result(self, run_id: str) -> Result:
        execution = self._executions.get(run_id)
        if execution is not None:
            execution.awaited = True
            try:
                # Shielded: a caller that stops waiting must not stop the run.
                return await asyncio.shield(execution.task)
            finally:
                if execution.task.done():
                    self._forget(execution)
        if run_id in self._failures:
            raise self._failures.pop(run_id)
        row = await self._wait_for_idle_row(run_id)
        if row.status == "running" or row.summary is None:
            raise StoreError(f"no process executes run {run_id}; `roundel resume {run_id}` resumes it")
        return result_from_summary(run_id, {**row.summary, "status": row.status})

    async def _wait_for_idle_row(self, run_id: str) -> RunRow:
        """The row of a run that another process executes, if any does, as soon as the run is idle or has no
        owner."""
        # The first wait returns at once, since every position is larger than 0; from then on a wait begins
        # behind the position that was seen before the row was read.
        position = 0
        while True:
            row = await self.store.row(run_id)
            if not row.owner or (row.status != "running" and row.summary is not None):
                return row
            # The timeout is for an owner that dies: its death appends nothing.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    position = await self.store.wait_for_append(position, run_id)

    async def wait_until_idle(self, run_id: str) -> None:
        execution = self._executions.get(run_id)
        if execution is None:
            await self._wait_for_idle_row(run_id)
            return
        execution.awaited = True
        # Neither shielded nor awaited itself: a caller that stops waiting must not stop the run, and a run
        # that is stopped must not cancel the caller.
        await asyncio.wait([execution.task])
        if not execution.task.cancelled() and (error := execution.task.exception()) is not None:
            raise error

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
        request: RunRequest,
        *,
        execute: Execute = False,
        workflow: Source | None = None,
    ) -> bool:
        executed = not isinstance(request, Stop)  # after a stop, no process executes the run
        if self._shared is not None and isinstance(request, CONTINUE):
            await self._check_room(self._shared, run_id, isinstance(request, Unlock))
        # Such a resume is for no owner, which could take it for the end of a pause: the claim decides.
        if_interrupted = isinstance(request, Resume) and request.if_interrupted
        run = None if if_interrupted else self._get_executing(run_id)
        while run is not None and run.state.status == "new":
            await asyncio.sleep(0)  # its task has not begun yet, so its state is not known
            run = self._get_executing(run_id)
        if run is not None and not await self._is_leaving(run, request):
            await run.between_steps()
            refusal = await run.request(resolve_request(request, run.state))
            if not (refusal and run.is_idle and run.journal is not None):
                _raise_refusal(run_id, refusal)
                return executed
            # It had become idle before it could take the request, which is applied once it is released.
            await self._wait_for_release(run)
        store = self.store
        # False from `_forward`: the owner has released the run meanwhile, so it is claimed here.
        is_owned = not if_interrupted and bool((await store.row(run_id)).owner)
        if is_owned and await self._forward(run_id, request):
            if isinstance(request, Stop):
                self._remembered.forget(run_id)
            return executed
        # From here on the request races with other processes that want the run, too: the claim decides.
        try:
            claim = await store.claim(run_id)
        except Busy as busy:
            raise Busy(
                f"{busy}; {_follow_hint(run_id) if isinstance(request, Resume) else 'try again'}"
            ) from busy
        # Read under the claim, so that it stays true.
        status = (await self._read_claimed(claim)).status
        # The run was paused by a person, or locked; an answer does not let it continue.
        if (
            (status == "paused" and (if_interrupted or not isinstance(request, (Resume, StepRun))))
            or (status == "suspended_locked" and isinstance(request, Answer))
            or (status == "running" and isinstance(request, Answer) and await self._is_pausing(claim))
        ):
            execute = False
        may_crash = status in ("running", "paused") and not isinstance(request, Unlock)
        if execute is not False and may_crash and claim.crashes >= MAX_CRASHES:
            # To execute it would kill this process, too. The locked run takes an answer, and refuses all
            # else with the reason.
            await self._apply(claim, LockRun("crashes", crashes=claim.crashes))
            return await self.control(run_id, request, execute=execute, workflow=workflow)
        if execute is False:
            # Nobody executes the run, so there is no pause that has not taken effect, and nothing to
            # take back.
            if isinstance(request, Resume):
                await store.release(claim)
                return False
            await self._apply(claim, request)
            return False
        attach = self._remembered.get(run_id).attach if execute is True else execute
        await self._resume(claim, request, attach, workflow)
        return True

    async def _check_room(self, shared: SharedBudgets, run_id: str, unlocks: bool) -> None:
        """NoRoomLeft if a run that a person lets continue would have to lock at once. A run whose process
        died continues in any case: it counts as running already."""
        row = await self.store.row(run_id)
        if row.status not in ("paused", "failed", "suspended_locked"):
            return
        limits = await shared.limits_of(row.group, row.started_by)
        spends = limits and not (await self.store.pinned(run_id)).script
        if unlocks:
            await shared.check_unlock(row, limits, bool(spends))
        else:
            await shared.check_room(limits, ONE_CALL if spends else None)

    async def _read_claimed(self, claim: Claim) -> RunRow:
        try:
            return await self.store.row(claim.run_id)
        except BaseException:
            await self.store.release(claim)
            raise

    async def _is_pausing(self, claim: Claim) -> bool:
        """Whether the process of a run died while a pause waited for calls in flight."""
        try:
            return bool((await open_run(self.store, claim.run_id)).state.paused)
        except BaseException:
            await self.store.release(claim)
            raise

    async def _wait_for_release(self, run: LocalRun) -> None:
        execution = self._executions.get(run.run_id)
        if execution is not None and execution.run is run:
            await asyncio.wait([execution.task])

    async def _is_leaving(self, run: LocalRun, request: RunRequest) -> bool:
        """Whether the run of a request has just been paused or locked; then waits until it is released
        here."""
        if run.state.status not in ("paused", "suspended_locked") or not isinstance(request, FOR_RELEASED):
            return False
        await self._wait_for_release(run)
        return True

    async def _forward(self, run_id: str, request: RunRequest) -> bool:
        """Leaves a request in the store for the process that owns the run. Whether that process has
        applied it; False if it does not own the run any more. A stop is always carried out: an owner
        that does not answer in time loses the run. Busy if a run was to be resumed that is not paused.

        A request must be either applied or withdrawn, never both, and never be left open for a later
        owner: `withdraw` succeeds only while the request is open, so its result decides."""
        store = self.store
        # Checked here as well: the owner could refuse a wrong answer only with a plain text.
        if isinstance(request, (Answer, LockRun, StepRun, EditMessage)):
            request = resolve_request(request, (await open_run(store, run_id)).state)
        number = await store.request(run_id, request.kind, await self._mask_request(run_id, request))
        try:
            outcome = await self._wait_for_outcome(run_id, number)
        except TimeoutError:
            if await store.withdraw(number):
                if not isinstance(request, Stop):
                    raise StoreError(
                        f"the process that executes run {run_id} did not answer within {REQUEST_SECONDS:g} "
                        "seconds; try again, or stop the run, which needs no answer"
                    ) from None
                # The fence of this claim stops the old owner at its next append, if it is still alive.
                await self._apply(await store.claim(run_id, force=True), request)
                return True
            outcome = await store.outcome(number)  # it was settled just before the withdrawal
        except BaseException:  # the caller was cancelled, say: it must not take effect later
            await store.withdraw(number)
            raise
        if not outcome:
            if await store.withdraw(number):
                return False  # the owner released the run before it saw the request
            outcome = await store.outcome(number)
        refused = outcome != REQUEST_APPLIED
        if refused and isinstance(request, FOR_RELEASED) and await self._released(run_id):
            return False
        if refused and isinstance(request, Resume):
            raise Busy(f"another process executes run {run_id}; {_follow_hint(run_id)}")
        _raise_refusal(run_id, outcome if refused else "")
        return True

    async def _wait_for_outcome(self, run_id: str, number: int) -> str:
        """The outcome of a request; empty if nobody owns the run any more. Polls, since settling a
        request appends no fact, so no signal exists for it."""
        async with asyncio.timeout(REQUEST_SECONDS):
            while not (outcome := await self.store.outcome(number)):
                if not (await self.store.row(run_id)).owner:
                    return ""
                await asyncio.sleep(0.05)
            return outcome

    async def _released(self, run_id: str) -> bool:
        """Whether another process has just paused or locked a run; then waits until that process has released
        it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REQUEST_SECONDS):
                while (row := await self.store.row(run_id)).status in ("paused", "suspended_locked"):
                    if not row.owner:
                        return True
                    await asyncio.sleep(0.05)
        return False

    async def _mask_request(self, run_id: str, request: RunRequest) -> dict[str, Any]:
        """The body of a request without the secrets of its run: it is stored before the owner, which
        masks every fact, gets to see it."""
        body = encode_request(request)
        if not any(body.values()):
            return body  # nothing to mask, so the workflow need not be read
        secrets = available_secrets(await self.store.pinned(run_id), self._remembered.get(run_id).parts)
        # An address must stay exact, even if a part of it looks like a secret.
        address = {"address": body["address"]} if "address" in body else {}
        return {**secrets.mask_value(body), **address}

    async def _apply(self, claim: Claim, request: RunRequest) -> None:
        """Applies a request to a run that nobody executes, and releases the claim. No host is needed for
        it: one step, one commit, and none of the commands that follow is started."""
        journal = RunJournal(self.store, claim)
        try:
            opened = await open_run(self.store, claim.run_id)
            state = opened.state
            assert opened.pinned is not None
            now = max(self._clock(), state.since)  # the time of a run never goes back
            secrets = available_secrets(opened.pinned, self._remembered.get(claim.run_id).parts)
            fact = mask_fact(to_fact(resolve_request(request, state), now), secrets)
            # Nobody makes the calls that are in flight, so there is nothing to wait for.
            if isinstance(fact, Locked):
                fact = msgspec.structs.replace(fact, abandoned=True)
            elif isinstance(fact, Paused):
                fact = msgspec.structs.replace(fact, interrupt=True)
                if state.status == "running":  # its process died: the time since then is no working time
                    _record(journal, state, Reopened(now, None))
            try:
                _record(journal, state, fact)
            except IllegalFact as error:
                raise _refusal_error(state, error) from error
            if state.status == "running" and state.paused:  # it was promised, and is due for the same reason
                _record(journal, state, Paused(state.paused, now, interrupt=True))
            await journal.commit(state)
            self._remembered.forget(claim.run_id, state.status)
        finally:
            await journal.close()

    async def _resume(
        self, claim: Claim, request: RunRequest, attach: Attach, workflow: Source | None
    ) -> None:
        """Applies a request to a run that nobody executes, commits it, and executes the run. Returns
        when the request is durable; the run continues in its task.

        Until `_launch` this method owns the claim and has to release it; from then on LocalRun does."""
        journal = RunJournal(self.store, claim)
        try:
            opening = await self._open_to_resume(journal, request, workflow)
            state = opening.state
            facts = _facts_to_resume(state, request, self._clock())
            limits: Sequence[SharedLimit] = ()
            if self._shared is not None and opening.row is not None:
                limits = await self._shared.limits_of(opening.row.group, opening.row.started_by)
            used = await self.store.pieces_size(claim.run_id)
            run = await self._make_run(claim.run_id, opening, attach, limits)
            try:
                run.use_store(self.store)
            except BaseException:
                await run.discard()
                raise
            run.set_journal(journal, used)
        except BaseException:
            await journal.close()
            raise
        given = {**self._remembered.get(claim.run_id).parts.given, **given_secrets(workflow)}
        self._remembered.add(claim.run_id, unstored_parts(opening.plan.workflow, given), attach)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        execution = self._launch(run, run.resume(state, *facts, opened=opened))
        execution.awaited = True  # an exception before `opened` is raised to this caller, and not logged
        # An answer and an unlock are for the run, which may have been started elsewhere: those who give them
        # and then leave do not want to stop it.
        execution.is_handed_back = isinstance(request, (Answer, Unlock))
        try:
            await _wait_for_either(opened, execution.task)
        except asyncio.CancelledError:
            if execution.is_handed_back:
                await run_shielded(_wait_for_either(opened, execution.task))
                execution.awaited = not opened.done()  # what refused the request need not be logged
            else:
                await run_shielded(_cancel_and_wait(execution.task))
            raise
        if not opened.done():
            try:
                await execution.task
            except IllegalFact as error:
                raise _refusal_error(state, error) from error
        execution.awaited = False  # a later exception is for those who wait for the result

    async def _open_to_resume(
        self, journal: RunJournal, request: RunRequest, workflow: Source | None
    ) -> Inspection:
        """Opens a run with everything that executing it needs; StoreError if it cannot be resumed."""
        store, run_id = self.store, journal.claim.run_id
        row = await store.row(run_id)
        resumes = isinstance(request, Resume)
        # The refusal needs neither the run's secrets nor its code, which may be missing here.
        refused = resumes and row.status in NOT_RESUMABLE
        parts = self._remembered.get(run_id).parts
        opened = await open_run(
            store, run_id, pinned_plan if refused else lambda pinned: plan_to_resume(pinned, workflow, parts)
        )
        state = opened.state
        if resumes and state.status in NOT_RESUMABLE:
            if row.status != state.status:  # the process that executed it died before it could write this
                await journal.commit(state)
            raise StoreError(explain_not_resumable(state))
        assert opened.pinned is not None
        return msgspec.structs.replace(opened, script=pinned_script(opened.pinned, row))

    def interrupt(self, run_id: str, reason: str) -> None:
        """Interrupts a run that this engine executes (LocalRun.interrupt)."""
        run = self._get_executing(run_id)
        if run is not None:
            run.interrupt(reason)

    def recall(self, run_id: str) -> RememberedRun:
        return self._remembered.get(run_id)

    def contexts(self, run_id: str) -> RunContexts | None:
        execution = self._executions.get(run_id)
        return execution.run.contexts if execution is not None else None

    def subscribe(self, run_id: str) -> contextlib.AbstractContextManager[LiveEvents]:
        return self._live.subscribe(run_id)

    def commits(self) -> contextlib.AbstractContextManager[CommitCache]:
        return self._live.commits()

    # Inspecting.

    async def inspect(self, run_id: str) -> Inspection:
        execution = self._executions.get(run_id)
        # A stored run is read from the store even if it is executed here: its state in memory may be
        # ahead of what is committed, and must not be seen yet. Any other run is nowhere else, also when it is
        # over.
        if execution is not None and execution.run.journal is None:
            return Inspection(execution.run.plan, execution.run.state)
        return await open_run(self.store, run_id)

    async def release(self, seconds: float) -> None:
        """Hands all runs that are executed here back to the store, for other processes to resume: calls in
        flight may finish for some seconds, and no status changes. A run that is not stored is stopped."""
        executions = [one for one in self._executions.values() if not one.task.done()]
        if not executions:
            return
        for execution in executions:
            if execution.run.journal is not None:
                execution.run.drain()
            else:
                execution.run.interrupt("the process is shutting down")
        tasks = [execution.task for execution in executions]
        await asyncio.wait(tasks, timeout=seconds)
        for execution in executions:
            if not execution.task.done():
                execution.run.hand_back()
        await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stops all runs that are executed here, one after the other, and waits for each: a cancellation
        ends a run as stopped, which has to be written. Those that an answer or an unlock has continued are
        handed back."""
        for execution in list(self._executions.values()):
            if execution.is_handed_back:
                execution.run.hand_back()
                await asyncio.wait([execution.task])
            else:
                await _cancel_and_wait(execution.task)
        self._executions.clear()
        self._remembered.clear()


async def _wait_for_either(opened: asyncio.Future[None], task: asyncio.Task[Any]) -> None:
    """Waits until a run is opened, or its task has failed before."""
    waited: list[asyncio.Future[Any]] = [opened, task]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)


async def _cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end, without raising what it raised: its awaiters get that."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _record(journal: RunJournal, state: Run, fact: Fact) -> None:
    """Applies a fact to a run that nobody executes. Its commands are not executed, either."""
    step(state, fact)
    journal.add(fact)
    journal.add_decisions(state.decisions.made)


def _facts_to_resume(state: Run, request: RunRequest, now: float) -> list[Fact]:
    """The facts with which a run continues that nobody executes; StoreError if it does not allow them."""
    asks = {address: call.command for address, call in state.calls.items() if isinstance(call.command, Ask)}
    if isinstance(request, StepRun) and not state.held and len(asks) == len(state.calls):
        # Only people could continue it. A question whose deadline has passed meanwhile ends, as the step.
        due = [address for address, ask in asks.items() if ask.deadline is not None and ask.deadline <= now]
        if state.status == "paused" and due:
            return [Expired(due[0], 0)]
    if isinstance(request, StepRun) and state.status == "running":
        # Its process died. The calls that were in flight are made again, and that is the step: one that had
        # begun already, or a new one.
        begun = state.paused == STEP
        return [] if begun else [Paused("interrupted", 0, interrupt=True), to_fact(request, 0)]
    # A run may fail while a step or a pause was in progress; then the retry is what continues it.
    resumes = state.paused and not state.over and not isinstance(request, StepRun)
    facts: list[Fact] = [Resumed(0, request.by)] if resumes else []
    if not isinstance(request, Resume):
        facts.append(to_fact(resolve_request(request, state), 0))
    return facts


def _follow_hint(run_id: str) -> str:
    return f"`roundel log {run_id} --follow` follows it"


def _raise_refusal(run_id: str, reason: str) -> None:
    if reason:
        raise StoreError(f"run {run_id}: {reason}")


def _refusal_error(state: Run, error: IllegalFact) -> StoreError:
    return StoreError(f"run {state.run_id} is {state.status}: {error}")
