"""Run functions and coroutines of users: threads for blocking functions, time limits, and rules for
exceptions.

**Threads** belong to the process. An idle thread waits IDLE_SECONDS for the next call before it ends;
starting one costs more than most functions take. They are daemons, unlike those of `concurrent.futures`:
a function cannot be cancelled, and a process that has to end must not wait for one. The pool has no
upper limit: a function may itself run a workflow and wait for it, so any fixed number of threads could
be used up by functions that wait for each other. Each run limits its own calls (hosts/services.py).

**Time limits** are strict: a result that arrives too late does not count, whatever the code did to the
cancellation.

**Progress.** `progress` publishes a transient event for the call that the code runs for. Context variables
tell which one that is: the run sets `progress_reporter` once, the driver sets `current_address` with
each call, and threads get a copy of the context. An argument would have to pass through every node type.

**Exceptions** such as SystemExit or CancelledError have a meaning for Python and asyncio. From the code
of a user they are an error of the node, and are translated at this boundary.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any

from roundel.nodes.services import NodeError
from roundel.workflow.functions import format_exception


class TimeLimitExceeded(Exception):
    """User code took longer than its limit; the text is an error message. A late result is discarded."""


class TimeLimit:
    """`async with TimeLimit(seconds)`: raises `TimeLimitExceeded` if the body ends too late, even if it
    succeeds.

    `asyncio.timeout` alone does not suffice. It cancels the task at its next await, so it has no effect
    on a coroutine that blocks the event loop past the limit, or that catches the cancellation: both
    would count as in time, and the result of a node would depend on how it was written. None is no
    limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ended, due = asyncio.get_running_loop().time(), self._limit.when()
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise TimeLimitExceeded(self._message()) from None
        # The limit cancelled the body, and the body returned or raised something else instead. A
        # cancellation from outside has another kind, and passes through.
        if self._limit.expired() and (kind is None or issubclass(kind, Exception)):
            raise TimeLimitExceeded(f"{self._message()}; it did not end when it was cancelled") from error
        # The body never awaited after the limit, so the timer of the event loop could not run.
        if kind is None and due is not None and ended >= due:
            raise TimeLimitExceeded(
                f"{self._message()}: the event loop was blocked until {ended - due:.3g} seconds later. "
                "A coroutine must not block: let it await, or make it a plain function, which gets a thread"
            )

    def _message(self) -> str:
        return f"no answer after {self._seconds:g} seconds"


CONTROL_EXCEPTIONS = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, asyncio.CancelledError)
"""To Python and asyncio these mean that an iterator, a coroutine, the process or a task has to end. If a
function of a user raises one, it must not propagate as it is: it would end more than the node. A future
cannot even hold StopIteration, and would never be done. KeyboardInterrupt is not among them, since in
the main thread it may come from the terminal."""

IDLE_SECONDS = 10.0
"""How long an idle thread waits for the next call before it ends."""

_Work = Callable[[], None]
_Inbox = queue.SimpleQueue[_Work]


class _ThreadPool:
    """Daemon threads for blocking functions, without an upper limit; the process has one pool.

    Each idle thread waits at an inbox of its own, and the pool is a stack: the thread that became idle
    last is used first. So threads that are no longer needed stay idle and end. One queue for all threads
    would wake them in turn and keep all of them alive.

    Invariant: an inbox is in `_idle` exactly while its thread waits and no work is on its way to it.
    Removing it, under the lock, takes ownership: `run` to put work into it, or the thread itself to
    end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []

    def run(self, work: _Work) -> None:
        # Put outside of the lock: the inbox is ours once it is off the stack.
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put(work)
            return
        inbox = queue.SimpleQueue()
        inbox.put(work)
        threading.Thread(target=self._serve, args=(inbox,), daemon=True, name="roundel-call").start()

    def _serve(self, inbox: _Inbox) -> None:
        while True:
            try:
                work = inbox.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # `run` has taken the inbox meanwhile, and its work is about to arrive
            work()
            del work  # an idle thread must not keep the arguments and the result of its last call alive
            with self._lock:
                self._idle.append(inbox)

    def forget(self) -> None:
        """Resets the pool in a forked child: the child has none of the threads, and if another thread
        held the lock during the fork, nobody would ever release it."""
        self._lock = threading.Lock()
        self._idle = []


_pool = _ThreadPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


async def run_in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a blocking function in a daemon thread and awaits its result.

    If the caller is cancelled, the function runs to its end and its result is discarded, since a thread
    cannot be stopped. An exception in `CONTROL_EXCEPTIONS`, or one that is no `Exception`, becomes a
    NodeError."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def set_outcome(value: Any, error: BaseException | None) -> None:
        if not future.done():  # it is done if the caller was cancelled
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def work() -> None:
        threading.current_thread().name = f"roundel-{getattr(function, '__name__', 'call')}"
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(function, *arguments, **named)
        except BaseException as error:
            failure = error
            if not isinstance(error, Exception) or isinstance(error, CONTROL_EXCEPTIONS):
                failure = NodeError(format_exception(error))
                failure.__cause__ = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so nobody awaits the result
            loop.call_soon_threadsafe(set_outcome, value, failure)

    _pool.run(work)
    return await future


async def await_user_code(work: Awaitable[Any]) -> Any:
    """Awaits a coroutine of a user. An exception of `CONTROL_EXCEPTIONS` that the user's code raised by
    itself becomes a NodeError; a real cancellation of the task passes through."""
    task = asyncio.current_task()
    try:
        return await work
    except CONTROL_EXCEPTIONS as error:
        if is_own_cancellation(error, task):
            raise
        raise NodeError(format_exception(error)) from error


def is_own_cancellation(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception comes from outside of the user's code: the task is being cancelled, or the
    coroutine is being closed from outside of its task.

    `cancelling()` tells a request to cancel from a CancelledError that the code raised, for example by
    awaiting a task of its own that was cancelled."""
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return None


MAX_PENDING_REPORTS = 100
"""Reports of a thread that wait for the event loop. If a function reports faster than they can be shown,
the oldest are dropped: the latest says how far it is."""

current_address: ContextVar[str] = ContextVar("roundel_address", default="")
"""The address of the call that the code runs for. It is not reset after the call: a report for a call
that has ended is dropped."""
progress_reporter: ContextVar[ProgressReporter | None] = ContextVar("roundel_progress", default=None)
"""The reporter of the run that the code runs in."""


class ProgressReporter:
    """Publishes the progress that functions of one run report, on the thread of its event loop. Created
    by LocalRun."""

    def __init__(self, publish: Callable[[str, str, float | None], None]) -> None:
        self._publish = publish
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._pending: deque[tuple[str, str, float | None]] = deque(maxlen=MAX_PENDING_REPORTS)
        self._is_scheduled = False
        """Whether the event loop is going to publish what is pending."""
        self._lock = threading.Lock()

    def report(self, address: str, text: str, fraction: float | None) -> None:
        if threading.get_ident() == self._thread:
            self._publish(address, text, fraction)
            return
        # One callback for all pending reports, so that a function that reports in a tight loop does not
        # fill the queue of the event loop.
        with self._lock:
            self._pending.append((address, text, fraction))
            if self._is_scheduled:
                return
            self._is_scheduled = True
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so nobody follows the run
            self._loop.call_soon_threadsafe(self._publish_pending)

    def _publish_pending(self) -> None:
        with self._lock:
            pending = list(self._pending)
            self._pending.clear()
            self._is_scheduled = False
        for report in pending:
            self._publish(*report)


def progress(text: str, fraction: float | None = None) -> None:
    """Shows how far a function of a node, a tool or an edge is: publishes an event `progress`, which is
    not stored. `fraction` is the part that is done, from 0 to 1. Outside of a run it has no effect.
    Exported as `roundel.progress`."""
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"'fraction' must be from 0 to 1, not {fraction!r}")
    reporter = progress_reporter.get()
    if reporter is not None:
        reporter.report(current_address.get(), str(text), None if fraction is None else float(fraction))


def valid_unicode(text: str) -> str:
    """The text without lone surrogates, which a function may return and JSON cannot contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
