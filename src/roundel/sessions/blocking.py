"""Runs a coroutine to its end, for functions that are not asynchronous: `roundel.run`, `roundel.resume`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Made = TypeVar("Made")


def run_blocking(start: Callable[[], Coroutine[Any, Any, Made]], name: str, asynchronous: str) -> Made:
    """What the coroutine returns; RuntimeError inside a running event loop.

    The coroutine is created only after the check: one that is never awaited would cause a second warning."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    raise RuntimeError(
        f"{name} cannot be called from a running event loop, which it would block "
        f"(a coroutine, or a notebook); write `await {asynchronous}(...)` instead"
    )
