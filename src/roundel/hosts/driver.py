"""The driver of one run: executes what the core decides (core.py), on asyncio, until the run is idle.

One driver serves stored and in-memory runs. A run without a journal never has anything to commit, so the
core never returns COMMIT for it, and no second class is needed.

*Calls in place.* Most steps of most runs have one call in flight and nothing else. The driver awaits
such a call in its own task: starting a task for it would double what a step costs. Calls that run in
parallel get a task each, which reports to the core and wakes the driver.

*Control requests beside a call.* While the driver awaits a call in place it cannot look at requests.
Then the task that brings the request applies it (`_apply_pending_requests`), under a lock that the
driver acquires before it continues. So at any time at most one task works through the core's actions,
and the run does not continue before the request is committed.

*Deadlines.* One timer per run looks at the clock when the core says so (`_set_timer`), at least every
TIMER_SLICE seconds: the wall clock may be set, or the machine suspended. What is due is
applied like a request, by a task of its own if the driver awaits a call in place.

*Handing back.* A server that shuts down lets the calls in flight finish and starts nothing new (`drain`).
What has not finished in time is cancelled without a fact (`hand_back`): the run stays `running`, without an
owner, and the next host makes these calls again.

*How a run ends early.* Three things cancel the driver's task: an interrupt (`interrupt`), a stop
request, and the loss of the run to another process (`on_lost`). The task belongs to the driver alone, so
every cancellation of it is one of these, or a cancellation by the caller of the run, which LocalEngine
passes on. A node may swallow the cancellation. So the driver checks `_cancellations` after each call,
and ignores everything that a call returns after that.

*Ownership.* The driver owns the tasks in `_tasks` and nothing else: the journal, the services and the
claim belong to LocalRun, which releases them after `close`. Everything runs on one event loop, so the
code between two awaits is atomic, and only what spans an await needs the lock.

*Slow steps.* A step whose patterns take long is made in a thread of a small pool (`_apply_aside`), which
releases the interpreter's lock while it matches. The driver waits for it like for a commit: requests,
timers and other calls only add to queues meanwhile. A thread cannot be cancelled, so a cancellation waits
for it, which takes no longer than the budget of a step.

*Logging.* `event_logger`, at the end of this module, writes events to the logger `roundel` of the
standard library, from the level on that the graph's `log_level` names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from roundel.hosts.control import Answer, RunRequest, Stop, Unanswered, to_fact
from roundel.hosts.core import Action, Effect, HostCore, RunLog
from roundel.hosts.executor import Executor
from roundel.kernel.commands import Call, Cancel, Command
from roundel.kernel.events import Event
from roundel.kernel.facts import Fact, Finished, Outcome
from roundel.kernel.payloads import NodeStateChange
from roundel.nodes.services import outcome_of
from roundel.nodes.user_code import current_address
from roundel.workflow.evaluation_budget import SlowEvaluation

TIMER_SLICE = 30.0
"""The most seconds after which the timer of a run looks at the clock again."""


_STEPS = ThreadPoolExecutor(2, "roundel-step")
"""Makes slow steps of all runs of the process. A pool of its own: they must not take the threads that read
stores. No more threads: the clock that bounds a search runs for all of the process."""


class Driver:
    """Executes the actions of a HostCore on asyncio, for one run. Created by LocalRun.

    `start` comes first, in the task that then awaits `run_until_idle`. If that raises a cancellation,
    `stop` brings the run to its end; `close` comes last in every case."""

    def __init__(self, log: RunLog, executor: Executor) -> None:
        self._log, self._executor = log, executor
        self._core = HostCore(log, executor)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The effects in flight that have a task, by address. A task reports its result only while it is
        registered here: removing it is what makes a cancellation final."""
        self._wake = asyncio.Event()
        """Set by each task that has reported to the core, and by each request."""
        self._request_lock = asyncio.Lock()
        """Acquired while requests are applied beside a call in place, until they are committed."""
        self._in_place = False
        """The driver awaits a call in its own task."""
        self._request_arrived = False
        """A request has arrived beside that call."""
        self._task: asyncio.Task[Any] | None = None
        """The task that drives the run; None before it starts and after it has ended. Requests are
        refused while it is None."""
        self._loop: asyncio.AbstractEventLoop
        self._cancellations = 0
        """How often this object has cancelled the task, which may not have noticed yet. A count and not
        a flag: `absorb_cancellation` has to take back each one, so that what is left was caused by
        somebody else."""
        self._interrupted = ""
        """The reason of an interrupt."""
        self._stop_reason: str | None = None
        """The reason of a stop request; None if there was none."""
        self._stopped_by = ""
        """Who made it."""
        self._stopping = False
        """`stop` has begun; what would cancel the run now comes too late."""
        self._handed_back = False
        """The run is left as it is: nothing more is recorded."""
        self._lost_error: Exception | None = None
        """Why this process must not, or cannot, write the run any more; the first reason counts."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is due, by the clock of the run."""
        self._expiring: set[asyncio.Task[None]] = set()
        """Tasks that apply what is due while the driver awaits a call in place."""
        self._applying: asyncio.Future[None] | None = None
        """The step that is being made in another thread."""
        self._host_error: BaseException | None = None
        """The host itself failed in the task of an effect. `_wait` raises it in the driver's task: left
        in the task of the effect, the driver would wait for its result for ever."""

    async def run_until_idle(self, commands: list[Command]) -> None:
        """Executes a run that has just been started or resumed, given its first commands."""
        core = self._core
        core.begin(commands)
        while True:
            action = core.next()
            if core.settled:
                self._settle()
            # Calls are nearly all of the actions, and this loop is on the path of every step: one
            # comparison instead of the chain of `isinstance` in `_do_action`.
            if action.__class__ is Call:
                if core.is_alone():
                    await self._call_in_place(action)
                else:
                    self._start(action)
            elif not await self._do_action(action):
                return

    async def _do_action(self, action: Command | Action) -> bool:
        """Executes one action of the core; False if the run is idle."""
        if isinstance(action, Cancel):
            self._cancel_task(action.address)
        elif not isinstance(action, Action):
            self._start(action)
        elif action is Action.COMMIT:
            await self._commit()
        elif action is Action.YIELD:
            await asyncio.sleep(0)
        elif action is Action.APPLY:
            await self._apply_aside()
        elif action is Action.REBUILD:
            await self._rebuild()
            self._core.on_rebuilt()
        elif action is Action.WAIT:
            await self._wait()
        return action is not Action.IDLE

    async def _wait(self) -> None:
        """Waits until an effect has finished, a request has arrived or a deadline has passed."""
        self._set_timer()
        await self._wake.wait()
        # There is no await between here and the next look at the core's queues, so no wake-up is lost.
        # Several that arrived together are one: `next` works through all of them.
        self._wake.clear()
        if self._host_error is not None:
            raise self._host_error

    async def _call_in_place(self, call: Call) -> None:
        """Awaits a call that is alone, and those that follow, as long as each is alone.

        The fast path of a run with one agent at a time: each of its steps passes through here, so local
        variables and comparisons of classes replace attribute lookups and `isinstance`."""
        if self._timer is None:
            self._set_timer()
        core, log, executor, task = self._core, self._log, self._executor, self._task
        behaviours, now = executor.behaviours, executor.now
        following: Call | None = call
        while following is not None:
            call = following
            self._in_place = True
            current_address.set(call.address)
            try:
                # A behaviour that awaits nothing may return its outcome directly, without a coroutine.
                outcome: Any = behaviours[call.site](call)
                if outcome.__class__ is not Outcome:
                    outcome = await outcome
                    if outcome.__class__ is not Outcome:
                        outcome = outcome_of(outcome)
                fact: Fact = Finished(call.address, outcome, now())
            # BaseException, too: a node that raises SystemExit, or a CancelledError that nobody
            # requested, has failed. `failed_call` raises again what is meant for the run itself.
            except BaseException as error:
                fact = executor.failed_call(call.address, error, task)
            finally:
                self._in_place = False
            if self._cancellations:
                # The cancellation is raised at this await, unless the node has swallowed it. Raised in
                # both cases: the call's result must not be recorded after an interrupt or a stop.
                await asyncio.sleep(0)
                raise asyncio.CancelledError
            if self._request_arrived:
                self._request_arrived = False
                # The requester may be in the middle of its commit. Without waiting for it, two tasks
                # would work through the core's actions, and this run would continue before the request
                # is durable.
                async with self._request_lock:
                    pass
                # A Cancel that followed from the request found no task to cancel, since this call has
                # none: it only removed the call from `in_flight`, and the result is dropped here.
                if call.address not in core.in_flight:
                    return
            following = core.follow_up(fact, call.address)
            if following is not None and log.has_uncommitted:
                await self._commit()
                # A request that arrived during the commit was only queued: no call was in place, so its
                # task left it to this one. To apply it this task has to return to the main loop, so the
                # call gets a task of its own. It starts in any case, since the core counts it as in
                # flight.
                if core.has_requests:
                    self._start(following)
                    return

    async def _apply_pending_requests(self) -> None:
        """Applies requests while the driver awaits a call in place. Runs in the task of the
        requester."""
        # Set before the lock is acquired: the call may end while this task waits for it, and the driver
        # then has to queue up behind this task.
        self._request_arrived = True
        async with self._request_lock:
            while (action := self._core.next(requests_only=True)) is not Action.WAIT:
                await self._do_action(action)
        # The driver would do this only after its call, which may take an hour.
        self._settle()
        self._set_timer()

    # Deadlines.

    def _set_timer(self) -> None:
        """Makes the timer fire when the next deadline passes, unless it fires earlier anyway."""
        due = self._core.next_due()
        if due is None or (self._timer is not None and self._due <= due):
            return
        self._cancel_timer()
        self._due = due
        delay = max(0.0, due - self._executor.now())
        self._timer = self._loop.call_later(min(delay, TIMER_SLICE), self._on_timer)

    def _on_timer(self) -> None:
        """Applies what is due, and sets the timer again."""
        self._timer = None
        if self._core.on_time():
            self._wake.set()
            if self._in_place:
                task = self._loop.create_task(self._apply_due())
                self._expiring.add(task)
                task.add_done_callback(self._expiring.discard)
        self._set_timer()

    async def _apply_due(self) -> None:
        if not self._in_place:
            return  # the call has ended meanwhile, so the driver applies it
        try:
            await self._apply_pending_requests()
        except Exception as error:  # the commit failed, and the driver has to learn of it
            self.on_lost(error)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, effect: Effect) -> None:
        """Starts a task for an effect. The core has the effect in `in_flight` already."""
        self._tasks[effect.address] = self._loop.create_task(self._execute(effect))

    async def _execute(self, effect: Effect) -> None:
        """The task of one effect: executes it and reports the result, unless it was cancelled
        meanwhile."""
        address, task, executor = effect.address, asyncio.current_task(), self._executor
        current_address.set(address)
        try:
            if isinstance(effect, Call):
                outcome: Any = executor.behaviours[effect.site](effect)
                if outcome.__class__ is not Outcome:
                    outcome = outcome_of(await outcome)
                fact: Fact = Finished(address, outcome, executor.now())
            else:
                fact = await executor.execute(effect)
        except Unanswered:
            # By identity: after a cancellation another task may be registered at the same address.
            if self._tasks.get(address) is task:
                del self._tasks[address]
                self._core.on_unanswered(address)
                self._wake.set()
            return
        except BaseException as error:
            try:
                fact = executor.failed_call(address, error, task)
            except (asyncio.CancelledError, KeyboardInterrupt):
                raise
            except BaseException as problem:
                self._host_error = problem
                self._wake.set()
                return
        if self._tasks.get(address) is not task:
            return  # it was cancelled, and the node has swallowed the cancellation
        del self._tasks[address]
        self._core.on_result(fact, address)
        self._wake.set()

    def _cancel_task(self, address: str) -> None:
        """Cancels the task at an address without waiting for it: a node that takes long to clean up must
        not delay the run, and removing the task from `_tasks` is enough to drop its result."""
        task = self._tasks.pop(address, None)
        if task is not None:
            task.cancel()

    async def _commit(self) -> None:
        """Commits the log and resolves the requests whose facts were part of the commit."""
        await self._log.commit(alone=not (self._tasks or self._in_place))
        self._core.on_committed()
        if self._core.settled:
            self._settle()

    async def _rebuild(self) -> None:
        """Replaces a state that a step left half-changed. The damage is logged, since the run continues
        as if only a call had failed, and the defect would stay unnoticed."""
        if self._log.damage is not None:
            if not isinstance(self._log.damage, SlowEvaluation):  # no defect
                log_damage(self._log.damage)
            await self._log.rebuild()

    async def _apply_aside(self) -> None:
        """Makes a step in another thread, and waits until it has ended, also if this task is cancelled:
        nothing else may use the run before."""
        self._applying = step = self._loop.run_in_executor(_STEPS, self._core.apply_next)
        cancelled = False
        while not step.done():
            try:
                await asyncio.wait([step])
            except asyncio.CancelledError:
                cancelled = True
        self._applying = None
        error = step.exception()
        if cancelled:
            raise asyncio.CancelledError  # an error is the log's damage then, which `stop` looks at
        if error is not None:
            raise error

    async def between_steps(self) -> None:
        """Waits while a step is made in another thread: the state must not be read meanwhile."""
        while self._applying is not None:
            await asyncio.wait([self._applying])

    def _settle(self) -> None:
        """Resolves the futures of requests whose outcome is known."""
        settled, self._core.settled = self._core.settled, []
        for future, outcome in settled:
            assert isinstance(future, asyncio.Future)
            if not future.done():  # a requester that was cancelled has cancelled its future
                future.set_result(outcome)

    # Control requests.

    async def request(self, request: RunRequest) -> str:
        """Returns when the request is applied and committed: empty, or the reason why it was refused."""
        if self._task is None:
            return f"the run is {self._log.state.status}"
        settled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if isinstance(request, Stop):
            # `stop` may have recorded the interrupt already, and a run has one ending: to report success
            # for a run that ends as paused would be wrong.
            if self._stopping and self._interrupted and self._stop_reason is None:
                return "it was interrupted at the same time, and can be resumed; try again"
            self._stop_reason = request.reason or self._stop_reason or "stopped"
            self._stopped_by = request.by or self._stopped_by
            self._core.settle_on_commit(settled)
            if not self._stopping:
                self._cancel()
            return await settled
        # An answer is in time by the wall clock, which the run may not have caught up with yet.
        lag = self._executor.run_clock.lag() if isinstance(request, Answer) else 0.0
        self._core.request(to_fact(request, self._executor.now() + lag), settled)
        self._wake.set()
        if self._in_place:
            try:
                await self._apply_pending_requests()
            except Exception as error:
                # The commit failed in this task, which is the requester's, so the driver has to learn of
                # it. `close` resolves the future, with this error as the reason.
                self.on_lost(error)
        return await settled

    # How a run ends early.

    def start(self) -> None:
        """Registers the current task as the one that drives the run."""
        self._task = self._executor.task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._log.timer = self._call_later

    def _call_later(self, seconds: float, act: Callable[[float], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, lambda: act(self._executor.now()))

    def interrupt(self, reason: str) -> None:
        """Cancels the calls in flight; the run can be resumed if it is stored. Without effect on a run that
        is ending already."""
        if not (self._interrupted or self._stopping):
            self._interrupted = reason
            self._cancel()

    def drain(self) -> None:
        """Starts nothing new, so that the run becomes idle when the calls in flight have finished."""
        self._core.is_draining = True
        self._wake.set()

    def hand_back(self) -> None:
        """Cancels what is still in flight, and leaves the run as it is."""
        self._handed_back = True
        self._cancel()

    def on_lost(self, error: Exception) -> None:
        """Ends the run here: it belongs to another process now, or cannot be written or controlled any
        more. Nothing more is written: a fence or the failing store would refuse it."""
        self._lost_error = self._lost_error or error
        self._cancel()

    def _cancel(self) -> None:
        """Cancels the driver's task. It may be in a call in place, in a commit or in `_wait`; the
        journal stays consistent in each case, since a commit that has begun is completed by the
        store."""
        if self._task is not None:
            self._cancellations += 1
            self._task.cancel()

    def absorb_cancellation(self) -> bool:
        """Once the run has stopped: whether only this object has cancelled the task. Then the
        cancellation has served its purpose and must not reach those who await the task, so asyncio's
        count of it is taken back. A cancellation by the caller remains."""
        if self._task is None or not self._cancellations:
            return False
        for _ in range(self._cancellations):
            self._task.uncancel()
        return not self._task.cancelling()

    @property
    def is_ending(self) -> bool:
        """Whether this object has cancelled the task."""
        return self._cancellations > 0

    async def stop(self) -> None:
        """Cancels the calls in flight and brings the run to its end: interrupted and stored, it is left so
        that it can be resumed, else it is stopped. Raises why the run was lost, if it was.

        The caller shields it from further cancellation (run_shielded): a run that is left `running` with
        no process behind it looks like a crash."""
        self._stopping = True
        self._cancel_timer()
        # A requester may be in the middle of its commit, in its own task.
        async with self._request_lock:
            await self._cancel_tasks()
            # The tasks have ended by now, so none of them records anything behind the last fact below.
            if self._lost_error is not None:
                raise self._lost_error from None
            if self._handed_back and self._stop_reason is None and self._log.journal is not None:
                await self._rebuild()
                self._core.hand_back()
                if self._log.has_uncommitted:
                    await self._commit()
                return
            if self._log.journal is None and self.abandon():
                return
            await self._rebuild()
            if self._interrupted and self._stop_reason is None and self._log.journal is not None:
                self._core.leave_resumable(self._interrupted)
            else:
                self._core.stop(self._stop_reason or self._interrupted or "stopped", self._stopped_by)
            if self._log.journal is not None:
                await self._commit()
            # For a run without a journal, whose stop requests are settled without a commit.
            self._core.on_committed()
            self._settle()

    def abandon(self) -> bool:
        """Ends a run without a journal as failed if a step broke off half-way, since nothing could
        rebuild its state. Whether that was so."""
        damage = self._log.damage
        if damage is None:
            return False
        log_damage(damage)
        self._log.abandon(self._executor.describe(damage))
        return True

    async def close(self) -> None:
        """Cancels what is left, and refuses open requests, so that no requester waits for ever."""
        self._task = None  # first, so that `request` queues nothing behind the last look below
        self._cancel_timer()
        self._log.cancel_progress()
        await self._cancel_tasks()
        self._core.refuse_requests(str(self._lost_error or f"the run is {self._log.state.status}"))
        self._settle()

    async def _cancel_tasks(self) -> None:
        tasks = [*self._tasks.values(), *self._expiring]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:  # `gather` of nothing would still cost one iteration of the event loop
            await asyncio.gather(*tasks, return_exceptions=True)


logger = logging.getLogger("roundel")

_LEVELS = {
    "run_started": logging.INFO,
    "run_finished": logging.INFO,
    "loop_round": logging.INFO,
    "loop_exit": logging.INFO,
    "human_input_required": logging.INFO,
    "human_input_timeout": logging.WARNING,
    "limit_reached": logging.WARNING,
    "end_not_reached": logging.WARNING,
    "warning": logging.WARNING,
    "memory_error": logging.WARNING,
}
_NODE_LEVELS = {"completed": logging.INFO, "failed": logging.ERROR}


def event_logger(log_level: str) -> Callable[[Event], None] | None:
    """An observer that writes events to the log; None if no handler is configured, so that a run without
    logging pays nothing for each event."""
    threshold = max(logging.getLevelNamesMapping()[log_level], logger.getEffectiveLevel())
    if not logger.hasHandlers():
        return None

    def write(event: Event) -> None:
        level = _level(event)
        if level >= threshold:
            # A workflow chooses its ids: one with a line break must not write a line of its own.
            address = event.address or ""
            shown = address if address.isprintable() else ascii(address)
            logger.log(level, "%s %s %s %s", event.run_id, event.event, shown, event.fields())

    return write


def log_damage(error: BaseException) -> None:
    """Logs the traceback of what a step raised half-way: a defect of the engine or of a plug-in."""
    if logger.hasHandlers():
        logger.error("a step broke off half-way", exc_info=error)


def _level(event: Event) -> int:
    if isinstance(event.data, NodeStateChange):
        return _NODE_LEVELS.get(event.data.status, logging.DEBUG)
    return _LEVELS.get(event.event, logging.DEBUG)
