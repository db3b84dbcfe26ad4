"""The time that patterns and expressions may take together.

Each search of a pattern and each evaluation of an expression is bounded (pattern.py, expression.py), but
one step of a run may need hundreds of them: 60 edges with slow patterns took 19 seconds. So all of a step
share a budget, and so do those of one prompt and of one answer with a schema. When it is used up, the next
one fails, like a search that takes too long by itself. In a step, the failure is a recorded decision
(docs/decisions/0018), so a replay takes the same path on any machine.

A budget may also have less patience than time: a step on an event loop must not block it for two seconds.
When the patience is used up, the next evaluation raises `SlowEvaluation`, and the step is made again where
it blocks nothing (docs/decisions/0050). Nothing is recorded of that.

Processor time of the thread is counted: a machine under load must not change what a run does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import thread_time

STEP_SECONDS = 2.0
"""The processor time that all patterns and expressions of one step, prompt or schema may take together."""
PATIENCE = 0.02
"""How much of it may be spent on an event loop. Ordinary steps take a hundredth of it."""

LONG_TEXT = 50_000
"""Characters from which on work that grows with a text needs patience: some 30 ms for the breaker."""


class BudgetExceeded(ValueError):
    """The patterns and expressions before have used up the time."""


class SlowEvaluation(BaseException):
    """The evaluation takes longer than is allowed here; the step has to be made again elsewhere.

    Not an Exception: a condition that fails is a decision, and this is none."""


class EvaluationBudget:
    """The time that is left for one step."""

    __slots__ = ("_began", "_left", "_patience")

    def __init__(self, patience: float = inf) -> None:
        self._left, self._patience, self._began = STEP_SECONDS, patience, 0.0

    def begin(self, limit: float) -> float:
        """Begins an evaluation, and returns how long it may take: at most `limit`."""
        if self._patience <= 0:
            raise SlowEvaluation
        if self._left <= 0:
            raise BudgetExceeded(
                f"the patterns and expressions before it took more than {STEP_SECONDS:g} seconds together; "
                "make them simpler, or use fewer"
            )
        self._began = thread_time()
        return min(limit, self._left, self._patience)

    def end(self) -> None:
        """Ends an evaluation."""
        now = thread_time()
        used, self._began = now - self._began, now
        self._left -= used
        self._patience -= used

    def spend(self) -> None:
        """Notes the time since `begin`, and begins anew: for work in many small parts."""
        self.end()
        self.begin(inf)

    def need_patience(self) -> None:
        """Before work that takes long, and that nothing can interrupt."""
        if self._patience < inf:
            raise SlowEvaluation

    def use_up(self, timeout: float) -> None:
        """Notes that an evaluation took all the time that `begin` gave it, which was less than its own limit.
        The clock that interrupts a search counts all threads, so it may be ahead of the one here."""
        if timeout < self._left:
            self._patience = 0.0
        else:
            self._left = 0.0


current_budget: ContextVar[EvaluationBudget | None] = ContextVar("current_budget", default=None)
"""The budget of what is evaluated now; None where each evaluation has only its own limit."""


def note_work(characters: int) -> None:
    """Says how long the texts are that are about to be read, without a limit of time. SlowEvaluation if that
    takes too long here."""
    budget = current_budget.get()
    if budget is not None and characters > LONG_TEXT:
        budget.need_patience()


@contextmanager
def evaluation_budget(patience: float = inf) -> Iterator[EvaluationBudget]:
    """Gives everything that is evaluated inside one budget together: the one around it, if there is one."""
    budget = current_budget.get()
    if budget is not None:
        yield budget
        return
    budget = EvaluationBudget(patience)
    token = current_budget.set(budget)
    try:
        yield budget
    finally:
        current_budget.reset(token)
