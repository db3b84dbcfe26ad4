"""Executes the effects of one run: node behaviours, questions, functions on edges, middleware.

`prepare` makes everything ready before the run starts, so that a missing function or model is an error then
and not in round 37. Nodes that are pure get a clock and nothing else, so they cannot have effects even by
mistake; the core runs them without a commit (core.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from roundel.hosts.core import Effect
from roundel.hosts.edges import EdgeEvaluator, EdgeFunctions, references
from roundel.hosts.middleware import MiddlewareChain, instantiate
from roundel.hosts.people import People
from roundel.hosts.services import Clock, NodeServices, describe_error
from roundel.kernel.commands import Ask, Call, Command, Consult, Review
from roundel.kernel.facts import Answered, Consulted, Fact, Failed, Finished, Outcome
from roundel.nodes.middleware import Middleware
from roundel.nodes.services import Behaviour, NodeError, outcome_of
from roundel.nodes.threads import is_own_cancellation
from roundel.nodes.time_limit import TimeLimit, TimeLimitExceeded
from roundel.plan.graph import NodePlan, Plan
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.fields import Place
from roundel.workflow.graph import Retry


class Prepared(Struct, frozen=True):
    """What the nodes and edges of a plan do."""

    behaviours: list[Behaviour]
    functions: EdgeFunctions
    middleware: list[Middleware]


def prepare(plan: Plan, services: NodeServices) -> Prepared:
    """WorkflowError with everything that is missing."""
    report = Report()
    behaviours = [_try(report, node.node.at, _behaviour, node, services) for node in plan.sites]
    named = {key: edge.edge.at for node in plan.sites for edge in node.edges for key in references(edge)}
    functions = {key: _try(report, at, services.finder.find, *key) for key, at in named.items()}
    uses = plan.workflow.middleware
    middleware = [_try(report, use.at, instantiate, use, services.finder) for use in uses]
    if not report.ok:
        # The texts quote users' code and client libraries, so they are masked. `from None`: what they quote
        # must not reach a log through the exception's context either.
        raise WorkflowError(services.secrets.masked(report.diagnostics)) from None
    return Prepared(behaviours, functions, middleware)


def is_pure(node: NodePlan) -> bool:
    return node.kind.pure and node.node.timeout is None and node.node.retry is None


def _behaviour(node: NodePlan, services: NodeServices) -> Behaviour:
    envelope = node.node
    if is_pure(node):
        behaviour: Behaviour = node.kind.prepare(envelope, Clock(services))
        return behaviour
    behaviour = node.kind.prepare(envelope, services)
    if envelope.timeout is None and envelope.retry is None:
        return behaviour
    return _with_retries(behaviour, envelope.timeout, envelope.retry or Retry(max_attempts=1))


def _try(report: Report, at: Place, make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except (NodeError, LookupError) as error:
        text = str(error.args[0] if error.args else error)
        report.add(at.diagnostic("error", "cannot-run", text))


class Executor:
    """Created by the host of a run; satisfies `Effects` (core.py)."""

    def __init__(
        self,
        plan: Plan,
        behaviours: list[Behaviour],
        edges: EdgeEvaluator,
        services: NodeServices,
        people: People,
        middleware: MiddlewareChain,
    ) -> None:
        self._plan, self._services, self._people, self._middleware = plan, services, people, middleware
        self._edges = edges
        self.behaviours = behaviours
        self.pure = [is_pure(node) for node in plan.sites]
        self.task: asyncio.Task[Any] | None = None
        """That of the driver: a cancellation of it is no failure of a node."""

    @property
    def now(self) -> Callable[[], float]:
        """The clock of the run, which stays the same object while the run is executed."""
        return self._services.now

    # Without waiting, for the core.

    def is_pure(self, command: Command) -> bool:
        if isinstance(command, Call):
            return self.pure[command.site]
        if isinstance(command, Consult):
            return self._edges.are_pure(self._plan.sites[command.site].edges)
        return False

    def decide(self, command: Effect) -> Fact:
        try:
            if isinstance(command, Consult):
                edges = self._plan.sites[command.site].edges
                verdicts = _without_waiting(self._edges.evaluate(command, edges))
                return Consulted(command.address, verdicts, self.now())
            assert isinstance(command, Call)
            outcome: Any = self.behaviours[command.site](command)
            if not isinstance(outcome, Outcome):
                outcome = outcome_of(_without_waiting(outcome))
            return Finished(command.address, outcome, self.now())
        except BaseException as error:
            return self.failed(command.address, error)

    def needs_person(self, command: Command | None) -> bool:
        return isinstance(command, Ask) and self._people.must_answer(command)

    @property
    def can_ask(self) -> bool:
        return self._people.can_ask

    def failed(self, address: str, error: BaseException, task: asyncio.Task[Any] | None = None) -> Failed:
        """The fact for a call that raised. What is meant for the whole run is raised on: a keyboard
        interrupt, and the cancellation of the task that the call ran in."""
        if isinstance(error, KeyboardInterrupt) or is_own_cancellation(error, task or self.task):
            raise error
        return Failed(address, self.describe(error), self.now())

    def describe(self, error: BaseException) -> str:
        """An exception as text for events and results, without secrets."""
        return self._services.secrets.mask(describe_error(error))

    # With waiting, for the driver.

    async def execute(self, effect: Ask | Consult | Review) -> Fact:
        """The result of an effect other than a call, which the driver makes itself, without a coroutine in
        between. What it raises is for `failed`."""
        if isinstance(effect, Ask):
            return Answered(effect.address, await self._people.answer(effect), self.now())
        if isinstance(effect, Consult):
            edges = self._plan.sites[effect.site].edges
            verdicts = await self._edges.evaluate(effect, edges)
            return Consulted(effect.address, verdicts, self.now())
        return await self._middleware.review(effect, self.now)


def _without_waiting(awaitable: Any) -> Any:
    """The result of an awaitable that is ready at once. A pure node may be written as a coroutine, but it
    depends on its input alone, so there is nothing that it could wait for."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    steps.close()
    raise NodeError("a node of a pure type must not wait for anything; declare its type without `pure`")


def _with_retries(behaviour: Behaviour, timeout: float | None, retry: Retry) -> Behaviour:
    """Cuts calls off after a time, and repeats those that fail."""

    async def once(call: Call) -> Outcome:
        outcome = behaviour(call)
        return outcome if isinstance(outcome, Outcome) else outcome_of(await outcome)

    async def attempts(call: Call) -> Outcome:
        for attempt in range(1, retry.max_attempts):
            try:
                return await _in_time(once(call), timeout)
            except Exception:
                await asyncio.sleep(_backoff(retry, attempt))
        return await _in_time(once(call), timeout)

    return attempts


async def _in_time(work: Coroutine[Any, Any, Outcome], seconds: float | None) -> Outcome:
    if seconds is None:
        return await work
    try:
        async with TimeLimit(seconds):
            return await work
    except TimeLimitExceeded as error:
        raise NodeError(str(error)) from None


def _backoff(retry: Retry, attempt: int) -> float:
    """Doubles with each attempt, with jitter, so that many calls that failed together do not come back
    together."""
    longest = min(retry.max_wait_seconds, retry.min_wait_seconds * 2 ** (attempt - 1))
    return random.uniform(longest / 2, longest)
