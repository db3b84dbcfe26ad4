"""A limit on the time that a user's code may take.

`asyncio.timeout` can only end what gives the event loop a turn. A coroutine that blocks the loop past its
limit, or that does not let itself be cancelled, would be taken for one that was in time.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


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
