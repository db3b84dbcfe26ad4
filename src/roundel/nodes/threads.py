"""Calls of users' functions: in threads of their own if they may block, and so that they end in any case."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from roundel.nodes.services import NodeError
from roundel.workflow.functions import raised

ESCAPING = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, asyncio.CancelledError)
"""To Python and asyncio these mean that an iterator, a coroutine, the process or a task is to end. If a
user's function raises one, it must not go up as it is: a future cannot even hold StopIteration, and would
never be done. KeyboardInterrupt is not among them, since in the main thread it may be a real one."""


async def in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a function in a thread that the process does not wait for when it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            failure = error
            if not isinstance(error, Exception) or isinstance(error, ESCAPING):
                failure = NodeError(raised(error))  # a future can hold no StopIteration, nor is it to end us
                failure.__cause__ = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(
        target=work, daemon=True, name=f"roundel-{getattr(function, '__name__', 'call')}"
    ).start()
    return await future


async def awaited(work: Awaitable[Any]) -> Any:
    """What a user's coroutine gives. What it raises that would end more than itself is a NodeError."""
    task = asyncio.current_task()
    try:
        return await work
    except ESCAPING as error:
        if is_ours(error, task):
            raise
        raise NodeError(raised(error)) from error


def is_ours(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether it is not from the user's code: the task is being cancelled, or the coroutine closed."""
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return None
