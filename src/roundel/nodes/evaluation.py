"""Evaluate prompts with expressions, and answers with a schema, without blocking the event loop.

An author writes the expressions and the schema, and a model or a script the text, so nobody knows the time
before. Most take microseconds, and a thread would cost far more than that. So the work begins on the event
loop, with the patience of a step (workflow/evaluation_budget.py); what takes longer is done again in a
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from roundel.workflow.evaluation_budget import PATIENCE, SlowEvaluation, evaluation_budget

T = TypeVar("T")

_THREADS = ThreadPoolExecutor(2, "roundel-evaluation")
"""More would take the interpreter from the event loop without being faster."""


async def evaluate(work: Callable[[], T]) -> T:
    """The result of `work`, which has one budget for all that it evaluates, and may be called twice."""
    try:
        with evaluation_budget(PATIENCE):
            return work()
    except SlowEvaluation:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, _with_budget, work)


def _with_budget(work: Callable[[], T]) -> T:
    with evaluation_budget():
        return work()
