"""A limit on the time that a user's code may take.

`asyncio.timeout` can only end what gives the event loop a turn. A coroutine that blocks the loop past its
limit, or that does not let itself be cancelled, would be taken for one that was in time.

Threads for users' functions that may block, and the rules for what such functions may raise.

Threads belong to the process. An idle one waits IDLE_SECONDS for the next call before it ends; starting one
costs more than most functions take. They are daemons, unlike those of `concurrent.futures`: a function cannot
be cancelled, and a process that is to end must not wait for one. There is no upper limit here: a function may
itself run a workflow and wait for it, so that any fixed number of threads could be used up by functions that
wait for each other. Each run limits its own calls (hosts/services.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from roundel.nodes.services import NodeError
from roundel.workflow.functions import format_exception


class TimeLimitExceeded(Exception):
    """It took longer than it may; the text says so. What it gave after all is discarded."""


class TimeLimit:
    """`async with TimeLimit(seconds)`: raises Overdue if the body ends too late, whatever it gives."""

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
        if self._limit.expired() and (kind is None or issubclass(kind, Exception)):
            raise TimeLimitExceeded(f"{self._message()}; it did not end when it was cancelled") from error
        if kind is None and due is not None and ended >= due:
            raise TimeLimitExceeded(
                f"{self._message()}: the event loop was blocked until {ended - due:.3g} seconds later. "
                "A coroutine must not block: let it await, or make it a plain function, which gets a thread"
            )

    def _message(self) -> str:
        return f"no answer after {self._seconds:g} seconds"


CONTROL_EXCEPTIONS = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, asyncio.CancelledError)
"""To Python and asyncio these mean that an iterator, a coroutine, the process or a task is to end. If a
user's function raises one, it must not be raised on as it is: a future cannot even hold StopIteration, and
would never be done. KeyboardInterrupt is not among them, since in the main thread it may be a real one."""

IDLE_SECONDS = 10.0

_Work = Callable[[], None]
_Inbox = queue.SimpleQueue[_Work]


class _ThreadPool:
    """Each idle thread waits at an inbox of its own, and the one that became idle last is used first: so
    those that are not needed any more become old enough to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []

    def run(self, work: _Work) -> None:
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
                continue  # it was taken from the list just now: work is on its way
            work()
            del work  # an idle thread must not keep alive what its last call referred to
            with self._lock:
                self._idle.append(inbox)

    def forget(self) -> None:
        """A forked process has none of the threads, and another thread may have held the lock."""
        self._lock = threading.Lock()
        self._idle = []


_pool = _ThreadPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


async def run_in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a function in a thread that the process does not wait for when it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def set_outcome(value: Any, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def work() -> None:
        threading.current_thread().name = f"roundel-{getattr(function, '__name__', 'call')}"
        value: Any = None
        failure: BaseException | None = None
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            failure = error
            if not isinstance(error, Exception) or isinstance(error, CONTROL_EXCEPTIONS):
                failure = NodeError(format_exception(error))
                failure.__cause__ = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_outcome, value, failure)

    _pool.run(work)
    return await future


async def await_user_code(work: Awaitable[Any]) -> Any:
    """The result of a user's coroutine. An exception that would end more than itself becomes a NodeError."""
    task = asyncio.current_task()
    try:
        return await work
    except CONTROL_EXCEPTIONS as error:
        if is_own_cancellation(error, task):
            raise
        raise NodeError(format_exception(error)) from error


def is_own_cancellation(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception does not come from the user's code: the task is being cancelled, or the coroutine
    is being closed."""
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return None
