"""Work that is completed although its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` to its end, even if the caller is cancelled meanwhile.

    For callers that already handle a cancellation and raise it afterwards: what they have to leave in order
    must not be left half done by a second one, which is therefore not raised here."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
    return task.result()
