"""Calls that are cut off after a time, and tried again when they fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, outcome_of
from roundel.nodes.time_limit import Overdue, TimeLimit
from roundel.workflow.graph import Retry


def persistent(behave: Behaviour, timeout: float | None, retry: Retry) -> Behaviour:
    async def once(call: Call) -> Outcome:
        outcome = behave(call)
        return outcome if isinstance(outcome, Outcome) else outcome_of(await outcome)

    async def tries(call: Call) -> Outcome:
        for attempt in range(1, retry.max_attempts):
            try:
                return await _in_time(once(call), timeout)
            except Exception:
                await asyncio.sleep(_pause(retry, attempt))
        return await _in_time(once(call), timeout)

    return tries


async def _in_time(work: Coroutine[Any, Any, Outcome], seconds: float | None) -> Outcome:
    if seconds is None:
        return await work
    try:
        async with TimeLimit(seconds):
            return await work
    except Overdue as error:
        raise NodeError(str(error)) from None


def _pause(retry: Retry, attempt: int) -> float:
    """Twice as long each time, and never quite the same, so that many do not come back at once."""
    longest = min(retry.max_wait_seconds, retry.min_wait_seconds * 2 ** (attempt - 1))
    return random.uniform(longest / 2, longest)
