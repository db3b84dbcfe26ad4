"""Events in the standard library's log, for those who have set one up.

The logger is `roundel`; a graph's `log_level` says from which level on its runs write to it.

Drives one run on asyncio: does what the core says (core.py) until the run is idle.

One driver serves stored and in-memory runs; a run without a journal never has anything to commit.

*Calls in place.* Most steps of most runs have one call in flight and nothing else. The driver awaits such a
call in its own task: starting a task for it would double what a step costs. Calls that run beside each other
get a task each, which reports to the core and wakes the driver.

*Control requests beside a call.* While the driver awaits a call in place it cannot look at requests. Then the
task that brings the request applies it (`_apply_pending_requests`), under a lock that the driver
waits for before it continues. So at any time at most one task works through the core's actions, and the run
does not continue before the request is committed.

*How a run ends early.* Three things cancel the driver's task: an interrupt (`interrupt`), a stop request, and
the loss of the run to another process (`lose`). The task belongs to the driver alone, so every cancellation
of it is one of these, or a cancellation by the caller of the run, passed on by LocalRun. A node may swallow
the cancellation; so the driver looks at `_cancellations` after each call, and believes nothing that a call
returns after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from roundel.hosts.control import Request, Stop, Unanswered, to_fact
from roundel.hosts.core import Action, Effect, HostCore, RunLog
from roundel.hosts.executor import Executor
from roundel.kernel.commands import Call, Cancel, Command
from roundel.kernel.events import Event
from roundel.kernel.facts import Fact, Finished, Outcome
from roundel.nodes.services import outcome_of

logger = logging.getLogger("roundel")

_LEVELS = {
    "run_started": logging.INFO,
    "run_finished": logging.INFO,
    "loop_round": logging.INFO,
    "loop_exit": logging.INFO,
    "human_input_required": logging.INFO,
    "limit_reached": logging.WARNING,
    "end_not_reached": logging.WARNING,
    "warning": logging.WARNING,
    "memory_error": logging.WARNING,
}
_NODE_LEVELS = {"completed": logging.INFO, "failed": logging.ERROR}


def event_logger(log_level: str) -> Callable[[Event], None] | None:
    """Writes events to the log; None if nobody would read them."""
    threshold = max(logging.getLevelNamesMapping()[log_level], logger.getEffectiveLevel())
    if not logger.hasHandlers():
        return None

    def write(event: Event) -> None:
        level = _level(event)
        if level >= threshold:
            logger.log(level, "%s %s %s %s", event.run_id, event.event, event.address or "", event.data)

    return write


def log_damage(error: BaseException) -> None:
    """Writes the traceback of what a step raised in its middle: a defect, of the engine or a plug-in."""
    if logger.hasHandlers():
        logger.error("a step broke off in its middle", exc_info=error)


def _level(event: Event) -> int:
    if event.event == "node_state_change":
        return _NODE_LEVELS.get(event.data["status"], logging.DEBUG)
    return _LEVELS.get(event.event, logging.DEBUG)


class Driver:
    def __init__(self, log: RunLog, executor: Executor) -> None:
        self._log, self._executor = log, executor
        self._core = HostCore(log, executor)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The effects in flight that have a task, by address."""
        self._wake = asyncio.Event()
        self._request_lock = asyncio.Lock()
        """Held while requests are applied beside a call in place."""
        self._in_place = False
        """The driver awaits a call in its own task."""
        self._request_arrived = False
        """A request has arrived beside that call."""
        self._task: asyncio.Task[Any] | None = None
        """The driver's own; None before it starts and after it has ended."""
        self._loop: asyncio.AbstractEventLoop
        self._cancellations = 0
        """How often the task was cancelled from here, although it may not have noticed yet."""
        self._interrupted = ""
        """The reason of an interrupt."""
        self._stop_reason: str | None = None
        """The reason of a stop request; None if there was none."""
        self._stopping = False
        """The run is being brought to an end; what cancels it now comes too late."""
        self._lost_error: Exception | None = None
        self._host_error: BaseException | None = None
        """The host itself failed, outside of the driver's task."""

    async def run_until_idle(self, commands: list[Command]) -> None:
        """Executes a run that has just been started or resumed, given its first commands."""
        core = self._core
        core.begin(commands)
        while True:
            action = core.next()
            if core.settled:
                self._settle()
            if action.__class__ is Call:
                if core.is_alone():
                    await self._call_in_place(action)
                else:
                    self._start(action)
            elif not await self._do_action(action):
                return

    async def _do_action(self, action: Command | Action) -> bool:
        """Does what the core says; False if the run is idle."""
        if isinstance(action, Cancel):
            self._cancel_task(action.address)
        elif not isinstance(action, Action):
            self._start(action)
        elif action is Action.COMMIT:
            await self._commit()
        elif action is Action.YIELD:
            await asyncio.sleep(0)
        elif action is Action.REBUILD:
            await self._rebuild()
            self._core.on_rebuilt()
        elif action is Action.WAIT:
            await self._wait()
        return action is not Action.IDLE

    async def _wait(self) -> None:
        """Until an effect has finished or a request has arrived."""
        await self._wake.wait()
        self._wake.clear()
        if self._host_error is not None:
            raise self._host_error

    async def _call_in_place(self, call: Call) -> None:
        """Awaits a call that is alone, and those that follow, as long as each is alone."""
        core, log, executor, task = self._core, self._log, self._executor, self._task
        behaviours, now = executor.behaviours, executor.now
        following: Call | None = call
        while following is not None:
            call = following
            self._in_place = True
            try:
                outcome: Any = behaviours[call.site](call)
                if outcome.__class__ is not Outcome:
                    outcome = await outcome
                    if outcome.__class__ is not Outcome:
                        outcome = outcome_of(outcome)
                fact: Fact = Finished(call.address, outcome, now())
            except BaseException as error:
                fact = executor.failure_fact(call.address, error, task)
            finally:
                self._in_place = False
            if self._cancellations:
                await asyncio.sleep(0)  # the cancellation is raised here, unless the node has swallowed it
                raise asyncio.CancelledError
            if self._request_arrived:
                self._request_arrived = False
                async with self._request_lock:  # until the request is committed
                    pass
                if call.address not in core.in_flight:
                    return  # the request has cancelled it
            following = core.follow_up(fact, call.address)
            if following is not None and log.has_uncommitted:
                await self._commit()
                if core.has_requests:  # they are applied beside the call, as long as it has a task
                    self._start(following)
                    return

    async def _apply_pending_requests(self) -> None:
        """Applies requests while the driver awaits a call in place."""
        self._request_arrived = True
        async with self._request_lock:
            while (action := self._core.next(requests_only=True)) is not Action.WAIT:
                await self._do_action(action)
        self._settle()

    def _start(self, effect: Effect) -> None:
        self._tasks[effect.address] = self._loop.create_task(self._execute(effect))

    async def _execute(self, effect: Effect) -> None:
        address, task, executor = effect.address, asyncio.current_task(), self._executor
        try:
            if isinstance(effect, Call):
                outcome: Any = executor.behaviours[effect.site](effect)
                if outcome.__class__ is not Outcome:
                    outcome = outcome_of(await outcome)
                fact: Fact = Finished(address, outcome, executor.now())
            else:
                fact = await executor.execute(effect)
        except Unanswered:
            if self._tasks.get(address) is task:
                del self._tasks[address]
                self._core.on_unanswered(address)
                self._wake.set()
            return
        except BaseException as error:
            try:
                fact = executor.failure_fact(address, error, task)
            except (asyncio.CancelledError, KeyboardInterrupt):
                raise
            except BaseException as problem:
                self._host_error = problem
                self._wake.set()
                return
        if self._tasks.get(address) is not task:
            return  # it was cancelled, and has swallowed that
        del self._tasks[address]
        self._core.on_result(fact, address)
        self._wake.set()

    def _cancel_task(self, address: str) -> None:
        task = self._tasks.pop(address, None)
        if task is not None:
            task.cancel()

    async def _commit(self) -> None:
        await self._log.commit(alone=not (self._tasks or self._in_place))
        self._core.on_committed()
        if self._core.settled:
            self._settle()

    async def _rebuild(self) -> None:
        if self._log.damage is not None:
            log_damage(self._log.damage)
            await self._log.rebuild()

    def _settle(self) -> None:
        settled, self._core.settled = self._core.settled, []
        for future, outcome in settled:
            assert isinstance(future, asyncio.Future)
            if not future.done():
                future.set_result(outcome)

    # Control requests.

    async def request(self, request: Request) -> str:
        """Returns when the request is applied and committed: empty, or the reason why it was refused."""
        if self._task is None:
            return f"the run is {self._log.state.status}"
        settled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if isinstance(request, Stop):
            if self._stopping and self._interrupted and self._stop_reason is None:
                return "it was interrupted at the same time, and can be resumed; try again"
            self._stop_reason = request.reason or self._stop_reason or "stopped"
            self._core.settle_on_commit(settled)
            if not self._stopping:
                self._cancel()
            return await settled
        self._core.request(to_fact(request, self._executor.now()), settled)
        self._wake.set()
        if self._in_place:
            try:
                await self._apply_pending_requests()
            except Exception as error:  # the store failed, which is the end of the run here
                self.on_lost(error)
        return await settled

    # How a run ends early.

    def start(self) -> None:
        """In the task that the run is driven in."""
        self._task = self._executor.task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()

    def interrupt(self, reason: str) -> None:
        """Cancels the calls in flight; the run can be resumed if it is stored. Without effect on a run that
        is ending already."""
        if not (self._interrupted or self._stopping):
            self._interrupted = reason
            self._cancel()

    def on_lost(self, error: Exception) -> None:
        """The run belongs to another process now, cannot be written, or cannot be controlled any more."""
        self._lost_error = self._lost_error or error
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancellations += 1
            self._task.cancel()

    def absorb_cancellation(self) -> bool:
        """Once the run has stopped: whether the task was cancelled from here, and by nobody else."""
        if self._task is None or not self._cancellations:
            return False
        for _ in range(self._cancellations):
            self._task.uncancel()
        return not self._task.cancelling()

    @property
    def is_ending(self) -> bool:
        return self._cancellations > 0

    async def stop(self) -> None:
        """Cancels the calls in flight and brings the run to its end: interrupted and stored, it is left so
        that it can be resumed, else it is stopped. Raises why the run was lost, if it was."""
        self._stopping = True
        async with self._request_lock:
            await self._cancel_tasks()
            if self._lost_error is not None:
                raise self._lost_error from None
            if self._log.journal is None and self.abandon():
                return
            await self._rebuild()
            if self._interrupted and self._stop_reason is None and self._log.journal is not None:
                self._core.leave_resumable(self._interrupted)
            else:
                self._core.stop(self._stop_reason or self._interrupted or "stopped")
            if self._log.journal is not None:
                await self._commit()
            self._core.on_committed()
            self._settle()

    def abandon(self) -> bool:
        """Whether a step broke off half-way, so that a run without a journal has failed now."""
        damage = self._log.damage
        if damage is None:
            return False
        log_damage(damage)
        self._log.abandon(self._executor.describe(damage))
        return True

    async def close(self) -> None:
        """Nothing is driven any more: cancels what is left, and refuses open requests."""
        self._task = None
        await self._cancel_tasks()
        self._core.refuse_requests(str(self._lost_error or f"the run is {self._log.state.status}"))
        self._settle()

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:  # to gather nothing takes a turn of the loop
            await asyncio.gather(*tasks, return_exceptions=True)
