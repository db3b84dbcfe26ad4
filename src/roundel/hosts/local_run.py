"""One run while this process executes it: creates its parts, connects them, and closes them in order.

LocalRun owns what the run uses: the services with their leases on clients, the middleware, the journal
with its claim. The driver works with them and is closed before them. They are closed in a fixed order
(`_execute`), the claim last: from then on another process may resume the run, and must not meet a
half-closed one.

A run is created before its journal, since `prepare` may find that something is missing, and then nothing
must be left in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from roundel.hosts.clock import GivenClock, RunClock, SteadyClock
from roundel.hosts.contexts import CONTEXT_BYTES, RunContexts
from roundel.hosts.control import AnswerSource, AskHandler, RunRequest, decode_request, get_poller
from roundel.hosts.core import Observer, RunLog
from roundel.hosts.driver import Driver, event_logger
from roundel.hosts.engine import Result, RunSpec, make_result
from roundel.hosts.executor import EdgeEvaluator, Executor, MiddlewareChain, prepare
from roundel.hosts.live_events import LiveFeeds
from roundel.hosts.services import NodeServices, uses_memory
from roundel.hosts.shared_budgets import Ledger, SharedLimit
from roundel.hosts.stored_run import first_fact, new_run_id
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import ControlRequest, Store, StoreError
from roundel.journal.waiting import run_shielded
from roundel.kernel.commands import Command
from roundel.kernel.events import stamp
from roundel.kernel.facts import Fact, InterceptPoints, Reopened
from roundel.kernel.payloads import CallWaiting, ProgressReported, RequestSent, TokenStream
from roundel.kernel.state import Run
from roundel.llm.script import Script, ScriptRecorder
from roundel.nodes.middleware import Middleware
from roundel.nodes.services import CallSent, CallWait
from roundel.nodes.user_code import ProgressReporter, progress_reporter, valid_unicode
from roundel.plan.graph import Plan
from roundel.workflow.allow_list import TRUSTED, Policy
from roundel.workflow.message import Message

WORKSPACES = Path(".roundel", "work")
"""The parent of the working folders of runs that are not stored."""
REQUEST_APPLIED = "done"
"""The outcome, in the store, of a request that was applied."""


class LocalRun:
    """One run, while this process executes it. Created by LocalEngine.

    WorkflowError if the run needs something that is missing here."""

    def __init__(
        self,
        plan: Plan,
        *,
        script: Script | None = None,
        ask: AskHandler | None = None,
        by: str = "",
        on_event: Observer | None = None,
        live: LiveFeeds | None = None,
        middleware: Sequence[Middleware] = (),
        recorder: ScriptRecorder | None = None,
        run_id: str = "",
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] | None = None,
        policy: Policy = TRUSTED,
        limits: Sequence[SharedLimit] = (),
        context_bytes: int = CONTEXT_BYTES,
    ) -> None:
        self.plan, self.script = plan, script
        self.run_id = run_id or new_run_id()
        # A clock that is given alone measures working time, too; that of the machine does not.
        self._clock = clock
        self._elapsed = time.monotonic if elapsed is None and clock is time.time else elapsed
        self._own_folder = folder is not None
        self._services = services = NodeServices(
            plan,
            self.run_id,
            self._clock_from(0),
            script=script,
            folder=folder or WORKSPACES,
            record=recorder,
            say=self._publish_tokens,
            on_call=self._publish_call,
            elapsed=self._elapsed or clock,
            policy=policy,
            context_bytes=context_bytes,
        )
        services.worked = self._worked
        ready = prepare(plan, services)
        # Memory is the last middleware, so that it stores messages as the others have changed them.
        memory = (services.run_memory.middleware(),) if uses_memory(plan) else ()
        self._middleware = MiddlewareChain(plan, (*ready.middleware, *middleware, *memory), services)
        edges = EdgeEvaluator(ready.functions, services)
        answers = AnswerSource(plan, script, ask, by)
        self._log = RunLog(Run(plan), services.secrets, services.contexts)
        behaviours, spending = ready.behaviours, [limit for limit in limits if limit.quota.amounts]
        if spending and script is None:
            behaviours = Ledger(spending, self._log, clock, self.on_lost).guard(behaviours)
        self._executor = Executor(plan, behaviours, edges, services, answers, self._middleware)
        self._log.live = live
        self._driver = Driver(self._log, self._executor)
        self._interrupted = ""
        self.is_idle = False
        """The run has nothing more to do here and is about to be released; requests are refused."""
        self._handling: set[asyncio.Task[None]] = set()
        """The tasks that apply requests from the store. The claim is released after they have ended."""
        observers = (on_event, event_logger(plan.graph.graph.log_level), *self._middleware.observers)
        self._log.observers = tuple(observer for observer in observers if observer is not None)

    @property
    def state(self) -> Run:
        return self._log.state

    @property
    def journal(self) -> RunJournal | None:
        return self._log.journal

    @property
    def intercepts(self) -> InterceptPoints:
        """Which nodes middleware intercepts."""
        return self._middleware.intercepts

    def now(self) -> float:
        return self._services.now()

    def result(self) -> Result:
        return make_result(self.state)

    def _publish_tokens(self, address: str, text: str, attempt: int, offset: int) -> None:
        self._log.publish_transient(TokenStream(text, attempt, offset), address, self.now())

    def _publish_call(self, address: str, news: CallSent | CallWait) -> None:
        now = self.now()
        if isinstance(news, CallSent):
            sent = RequestSent(news.call, news.attempt, news.of, news.model)
            self._log.publish_transient(sent, address, now, is_output=False)
            return
        data = CallWaiting(
            call=news.call or None,
            cause="retry",
            seconds=round(news.seconds, 3),
            until=stamp(now + news.seconds),
            attempt=news.attempt,
            of=news.of,
            error=valid_unicode(news.error),
            status=news.status,
            model=news.model,
        )
        self._log.publish_transient(data, address, now, is_output=False)

    def _publish_progress(self, address: str, text: str, fraction: float | None) -> None:
        data = ProgressReported(self._services.secrets.mask(valid_unicode(text)), fraction)
        self._log.publish_transient(data, address, self.now())

    def use_store(self, store: Store) -> None:
        """Puts the run's memories and its working folder where the run will be stored: a process that
        resumes it from another folder finds them there. StoreError if the store has no place for what
        the run needs; called before the run is created in the store, so that none is left behind
        then."""
        if not self._own_folder and store.workspaces is not None:
            self._services.folder = store.workspaces
        self._services.use_memory_of(store)

    async def discard(self) -> None:
        """Releases what the run has leased, if it turns out that it cannot be executed."""
        await self._services.close()

    @property
    def contexts(self) -> RunContexts:
        """What model calls get."""
        return self._log.contexts

    def set_journal(self, journal: RunJournal, used: int = 0) -> None:
        """Stores the run from now on. `used`: the bytes of pieces of contexts that it has stored already."""
        self._log.journal = journal
        self._log.contexts.use_journal(used)

    # Executing. `run` or `resume` is the whole body of a task of its own, which the driver may cancel.

    async def run(self, messages: tuple[Message, ...], spec: RunSpec | None = None) -> Result:
        """Executes the run from the start until it is idle. `spec` says more about a run that is not
        stored."""
        journal = self._log.journal
        started = journal.started if journal is not None else None
        # The first fact of a stored run was written when the run was created, so that no run exists
        # without one. It is applied with its stored decisions and time, as a replay would do.
        if started is not None:
            # The wall clock may have jumped while the store created the run.
            self._set_clock(started.fact.time, begins_at_last=True)
            return await self._execute(lambda: self._log.begin(started))
        self._set_clock(0)
        new = spec or RunSpec(self.plan, messages)
        begun = first_fact(new, self.run_id, messages, self.now(), self.intercepts)
        return await self._execute(lambda: self._log.record(begun))

    async def resume(self, state: Run, *facts: Fact, opened: asyncio.Future[None] | None = None) -> Result:
        """Executes the run from where it was left until it is idle, after these facts. IllegalFact if
        the run does not allow one of them; then nothing is written. `opened` is resolved when they are
        committed."""
        return await self._execute(lambda: self._reopen(state, *facts), opened)

    def _reopen(self, state: Run, *facts: Fact) -> list[Command]:
        self._log.state, self._log.published = state, state.seq
        self._set_clock(state.since)
        # Other middleware may be installed here than where the run was started: which nodes are
        # intercepted is part of the facts, so that a replay agrees.
        intercepts = None if self.intercepts == state.intercepts else self.intercepts
        reopened = Reopened(0, intercepts)
        # A failed run is over, and cannot be reopened before it is retried; nor after it, if it has failed
        # again at once.
        for fact in (*facts, reopened) if state.over else (reopened, *facts):
            if fact is not reopened or not self.state.over:
                self._log.record(msgspec.structs.replace(fact, time=self.now()))
        # All calls that were in flight when the run was left, and those that the facts above have added.
        # The commands that `record` returned are among them.
        return [call.command for call in self.state.calls.values() if call.command is not None]

    def _set_clock(self, last: float, *, begins_at_last: bool = False) -> None:
        """Makes the clock of the run begin at the time of its last fact: the clock of this machine may
        be behind the one that wrote it."""
        self._services.use_clock(self._clock_from(last, begins_at_last=begins_at_last))

    def _clock_from(self, last: float, *, begins_at_last: bool = False) -> RunClock:
        if self._elapsed is None:
            return GivenClock(self._clock, last)
        return SteadyClock(last, self._clock, self._elapsed, begins_at_last=begins_at_last)

    def _worked(self) -> float:
        return self.state.worked_at(self.now())

    async def _execute(
        self, begin: Callable[[], list[Command]], opened: asyncio.Future[None] | None = None
    ) -> Result:
        driver, journal = self._driver, self._log.journal
        # Closed from the bottom to the top, whatever any of them raises. The poller first: no further
        # request is delivered. Then the driver: it ends all effects and refuses what is left, while the
        # services that effects use are still open. The claim last.
        async with contextlib.AsyncExitStack() as leaving:
            if journal is not None:
                leaving.push_async_callback(self._release, journal)
            leaving.push_async_callback(self._middleware.close)
            leaving.push_async_callback(self._services.close)
            leaving.push_async_callback(driver.close)
            if journal is not None:
                poller = get_poller(journal.store)
                poller.add(journal.claim, self)
                leaving.callback(poller.remove, journal.claim)
            try:
                await self._drive(begin, opened)
                self.is_idle = True
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                # Shielded: a second cancellation must not leave the run without its last fact.
                await run_shielded(driver.stop())
                if not driver.absorb_cancellation() or isinstance(error, KeyboardInterrupt):
                    raise
            except BaseException:
                # A damaged run without a journal is a failed run, with a result. A stored one raises:
                # the journal contains it as it was, and it can be resumed.
                if journal is not None or not driver.abandon():
                    raise
        return self.result()

    async def _drive(self, begin: Callable[[], list[Command]], opened: asyncio.Future[None] | None) -> None:
        driver = self._driver
        self._middleware.begin()
        driver.start()
        progress_reporter.set(ProgressReporter(self._publish_progress))
        environment = self._services.policy.program_environment(os.environ)
        if environment is not None:
            from roundel.nodes.python import program_environment

            program_environment.set(environment)
        if self._interrupted:  # before the task began, when the driver had nothing to cancel
            driver.interrupt(self._interrupted)
        commands = begin()
        if opened is not None:
            await self._log.commit(alone=True)
            opened.set_result(None)
        if not driver.is_ending:
            await driver.run_until_idle(commands)
        # A cancellation is delivered at the next await, and there may have been none since. Without
        # this, an interrupted run would end as idle, and the cancellation would hit the code that closes
        # it.
        if driver.is_ending:
            raise asyncio.CancelledError

    async def _release(self, journal: RunJournal) -> None:
        """Releases the claim, after the outcomes of all requests are stored: settling needs a valid
        claim. If the store cannot be written, the claim ends with the lease of the process."""
        if self._handling:
            await asyncio.gather(*self._handling, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await journal.close()

    # Control.

    def interrupt(self, reason: str = "interrupted") -> None:
        """Cancels the calls in flight. A stored run is left so that it can be resumed: paused, or waiting if
        only people were asked. Any other run is stopped. May be called before the run begins."""
        self._interrupted = self._interrupted or reason
        self._driver.interrupt(self._interrupted)

    def drain(self) -> None:
        """Lets the calls in flight finish, and starts nothing new."""
        self._driver.drain()

    def hand_back(self) -> None:
        """Ends the execution at once, without a change of the run's status."""
        self._driver.hand_back()

    async def request(self, request: RunRequest) -> str:
        """Returns when the request is applied and durable: empty, or the reason why it was refused."""
        return await self._driver.request(request)

    async def between_steps(self) -> None:
        """Waits while a step is made in another thread."""
        await self._driver.between_steps()

    def handle_stored_request(self, stored: ControlRequest) -> None:
        """Starts a task that applies a request from the store and writes its outcome there."""
        task = asyncio.create_task(self._handle_stored(stored))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def _handle_stored(self, stored: ControlRequest) -> None:
        journal = self._log.journal
        assert journal is not None
        try:
            outcome = await self.request(decode_request(stored))
        except ValueError as error:
            outcome = str(error)
        if outcome and self.is_idle:
            return  # the request stays open, and its process applies it once the run is released
        try:
            await journal.store.settle(journal.claim, [stored.number], outcome or REQUEST_APPLIED)
        except StoreError as error:  # fenced, deleted or not writable: the next append would fail, too
            self.on_lost(error)

    def on_lost(self, error: Exception) -> None:
        """Ends the execution: the run belongs to another process, or the store fails."""
        self._driver.on_lost(error)
