"""Runs a coroutine to its end, for functions that are not asynchronous: `roundel.run`, `roundel.resume`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Made = TypeVar("Made")


def run_blocking(start: Callable[[], Coroutine[Any, Any, Made]], name: str, asynchronous: str) -> Made:
    """What the coroutine returns; RuntimeError inside a running event loop.

    The coroutine is created only after the check: one that is never awaited would cause a second warning."""
    if _loop_is_running():
        raise RuntimeError(
            f"{name} cannot be called from a running event loop, which it would block "
            f"(a coroutine, or a notebook); write `await {asynchronous}(...)` instead"
        )
    return asyncio.run(start())


def _loop_is_running() -> bool:
    # On its own, so that this exception is not the context of those that the run raises.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
