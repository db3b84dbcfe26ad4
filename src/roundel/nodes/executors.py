"""Functions of users that run on a pool of theirs, and not in a thread of the host's."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from roundel.nodes.services import NodeError

if TYPE_CHECKING:
    from concurrent.futures import Executor


def on_executor(function: Callable[..., Any], executor: Executor) -> Callable[..., Awaitable[Any]]:
    """The same function as a coroutine function: each call of it is work for the executor."""

    async def call_on_executor(*arguments: Any, **named: Any) -> Any:
        import asyncio  # slow, and a workflow can be built without it

        work = functools.partial(_call_in_worker, function, arguments, named)
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    functools.update_wrapper(call_on_executor, function)
    return call_on_executor


def _call_in_worker(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Stands at the top of its module, so that a pool of processes can find it."""
    try:
        return function(*arguments, **named)
    except StopIteration as error:  # a future cannot hold it: awaiting it would never end
        raise NodeError(f"StopIteration: {error}" if str(error) else "StopIteration") from error
    except Exception:
        raise
    except BaseException as error:  # SystemExit and the like: it must not end the process of the run
        raise NodeError(repr(error)) from error
