"""Functions that may block, called in threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from roundel.nodes.services import NodeError


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
        value, failure = None, None
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else NodeError(repr(error))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(
        target=work, daemon=True, name=f"roundel-{getattr(function, '__name__', 'call')}"
    ).start()
    return await future
