"""One run while this process executes it: puts its parts together, and takes them apart again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from roundel.hosts.control import AnswerSource, AskHandler, Request, decode_request, get_poller
from roundel.hosts.core import Observer, RunLog
from roundel.hosts.driver import Driver, event_logger
from roundel.hosts.engine import Result, make_result
from roundel.hosts.executor import EdgeEvaluator, Executor, MiddlewareChain, prepare
from roundel.hosts.services import NodeServices, monotonic, uses_memory
from roundel.hosts.stored_run import new_run_id
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import ControlRequest, Store, StoreError
from roundel.journal.waiting import run_shielded
from roundel.kernel.commands import Command
from roundel.kernel.facts import Fact, InterceptPoints, Reopened, Started
from roundel.kernel.state import Run
from roundel.llm.script import Script, ScriptRecorder
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

WORKSPACES = Path(".roundel", "work")
"""Where the code of a run that is not stored has its folder."""
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
        on_event: Observer | None = None,
        middleware: Sequence[Middleware] = (),
        recorder: ScriptRecorder | None = None,
        run_id: str = "",
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan, self.script = plan, script
        self.run_id = run_id or new_run_id()
        self._clock = clock
        self._own_folder = folder is not None
        self._services = services = NodeServices(
            plan,
            self.run_id,
            clock,
            script=script,
            folder=folder or WORKSPACES,
            record=recorder,
            say=self._publish_tokens,
        )
        ready = prepare(plan, services)
        # Memory is the last middleware, so that it remembers what the others have made of a message.
        memory = (services.run_memory.middleware(),) if uses_memory(plan) else ()
        self._middleware = MiddlewareChain(plan, (*ready.middleware, *middleware, *memory), services)
        edges = EdgeEvaluator(ready.functions, services)
        answers = AnswerSource(plan, script, ask)
        self._executor = Executor(plan, ready.behaviours, edges, services, answers, self._middleware)
        self._log = RunLog(Run(plan), services.secrets)
        self._driver = Driver(self._log, self._executor)
        self._interrupted = ""
        self._handling: set[asyncio.Task[None]] = set()
        """Requests from the store that are being applied."""
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
        data = {"text": text, "attempt": attempt, "offset": offset}
        self._log.publish_transient("token_stream", address, data, self.now())

    def observe(self, observer: Observer) -> None:
        """Adds an observer, which sees the events from now on."""
        self._log.observers = (*self._log.observers, observer)

    def use_store(self, store: Store) -> None:
        """Keeps what the run remembers, and the files of its code, where the run will be stored: a process
        that resumes it from another folder finds them there. StoreError if the store has no place for what
        the run needs; called before the run is created, so that none is left behind then."""
        if not self._own_folder and store.workspaces is not None:
            self._services.folder = store.workspaces
        self._services.use_memory_of(store)

    async def discard(self) -> None:
        """Releases what the run has leased, if it cannot be executed after all."""
        await self._services.close()

    def set_journal(self, journal: RunJournal) -> None:
        """Stores the run from now on."""
        self._log.journal = journal

    # Executing it. Each of these runs in a task of its own, which the driver may cancel.

    async def run(self, messages: tuple[Message, ...]) -> Result:
        """From the start until it is idle."""
        journal = self._log.journal
        started = journal.started if journal is not None else None
        if started is not None:  # the store has it already
            self._set_clock(started.fact.time)
            return await self._execute(lambda: self._log.apply(*started))
        self._set_clock(0)
        begun = Started(self.run_id, messages, self.now(), self.intercepts)
        return await self._execute(lambda: self._log.record(begun))

    async def resume(self, state: Run, *facts: Fact, opened: asyncio.Future[None] | None = None) -> Result:
        """From where it was left, with what has happened since, until it is idle. IllegalFact if the run
        cannot take one of the facts; then nothing has changed. `opened` is done when they are committed."""
        return await self._execute(lambda: self._reopen(state, *facts), opened)

    def _reopen(self, state: Run, *facts: Fact) -> list[Command]:
        self._log.state = state
        self._set_clock(state.since)
        intercepts = None if self.intercepts == state.intercepts else self.intercepts
        for fact in (Reopened(0, intercepts), *facts):
            self._log.record(msgspec.structs.replace(fact, time=self.now()))
        return [call.command for call in self.state.calls.values() if call.command is not None]

    def _set_clock(self, last: float) -> None:
        """The clock of this machine may be behind the one that the run was started with."""
        self._services.now = monotonic(self._clock, last)

    async def _execute(
        self, begin: Callable[[], list[Command]], opened: asyncio.Future[None] | None = None
    ) -> Result:
        driver, journal = self._driver, self._log.journal
        async with contextlib.AsyncExitStack() as leaving:  # in reverse order, whatever any of them raises
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
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                await run_shielded(driver.stop())
                if not driver.absorb_cancellation() or isinstance(error, KeyboardInterrupt):
                    raise
            except BaseException:
                if journal is not None or not driver.abandon():
                    raise
        return self.result()

    async def _drive(self, begin: Callable[[], list[Command]], opened: asyncio.Future[None] | None) -> None:
        driver = self._driver
        self._middleware.begin()
        driver.start()
        if self._interrupted:
            driver.interrupt(self._interrupted)
        commands = begin()
        if opened is not None:
            await self._log.commit(alone=True)
            opened.set_result(None)
        if not driver.is_ending:
            await driver.run_until_idle(commands)
        if driver.is_ending:  # the task was cancelled, and has not noticed yet
            raise asyncio.CancelledError

    async def _release(self, journal: RunJournal) -> None:
        """Releases the claim, after everybody who made a request knows its outcome. If the store cannot be
        written, the lease expires by itself."""
        if self._handling:
            await asyncio.gather(*self._handling, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await journal.close()

    # Controlling it.

    def interrupt(self, reason: str = "interrupted") -> None:
        """Cancels the calls in flight. A stored run is left so that it can be resumed: paused, or waiting if
        only people were asked. Any other run is stopped. May be called before the run begins."""
        self._interrupted = self._interrupted or reason
        self._driver.interrupt(self._interrupted)

    async def request(self, request: Request) -> str:
        """Returns when the request is applied and durable: empty, or the reason why it was refused."""
        return await self._driver.request(request)

    def handle_stored_request(self, stored: ControlRequest) -> None:
        """Applies a request from the store, and writes its outcome there."""
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
        try:
            await journal.store.settle(journal.claim, [stored.number], outcome or REQUEST_APPLIED)
        except StoreError as error:
            self.on_lost(error)

    def on_lost(self, error: Exception) -> None:
        """Ends the execution: the run belongs to another process, or the store fails."""
        self._driver.on_lost(error)
