"""Executes the effects of one run: node behaviours, questions, functions on edges, middleware.

    prepare           makes the behaviours, functions and middleware of a plan ready, before the run
    starts EdgeEvaluator     calls users' functions on edges: conditions and processors that the kernel
    does not call MiddlewareChain   which nodes middleware intercepts, and what it decides about them
    Executor          puts them together for the core and the driver

`prepare` looks up everything before the run starts, so that a missing function or model is an error then
and not in round 37. Nodes that are pure get a clock and nothing else, so they cannot have effects even
by mistake; the core runs them without a commit (core.py).

Middleware is no wrapper around a behaviour. Its decisions are effects and facts of their own
(`Intercept`, `Intercepted`): so it also intercepts nodes that call nothing here (people, subgraphs,
loops), each decision is made once, and a replay or a fork repeats it without the middleware. Observing
is no fact: observers see events once they are committed, and an observer that fails cannot hurt the run.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.hosts.clock import RunClock, SteadyClock
from roundel.hosts.control import AnswerSource
from roundel.hosts.core import Effect
from roundel.hosts.services import Clock, NodeServices, describe_error
from roundel.hosts.shared_budgets import CallDoesNotFit
from roundel.kernel.commands import Ask, Call, Command, EvaluateEdges, Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    Attempt,
    CallRecord,
    CallRefused,
    EdgeResult,
    EdgesEvaluated,
    Fact,
    Failed,
    Finished,
    Intercepted,
    InterceptPoints,
    Outcome,
    record_of_failure,
    total_seconds,
)
from roundel.kernel.walk import copy_for_edge
from roundel.llm.script import Script
from roundel.nodes.middleware import Middleware, Veto, Visit
from roundel.nodes.python import WORKSPACE
from roundel.nodes.services import (
    Behaviour,
    CallWait,
    NodeError,
    failed_attempts,
    failure_reason,
    failure_type,
    outcome_of,
)
from roundel.nodes.user_code import (
    CONTROL_EXCEPTIONS,
    TimeLimit,
    TimeLimitExceeded,
    await_user_code,
    is_own_cancellation,
    valid_unicode,
)
from roundel.plan.graph import EdgePlan, NodePlan, Plan
from roundel.plan.model_choice import missing_model, nodes_without_model
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.fields import SourceLocation
from roundel.workflow.functions import Function, FunctionFinder, FunctionKind, wrap_errors
from roundel.workflow.graph import MiddlewareUse, Retry
from roundel.workflow.message import Message
from roundel.workflow.policy import check_policy
from roundel.workflow.processor import apply_result
from roundel.workflow.secrets import SecretMasker

FunctionKey = tuple[FunctionKind, str]
"""A function by its kind and name."""
EdgeFunctions = Mapping[FunctionKey, Function]


def functions_on(edge: EdgePlan) -> Iterator[FunctionKey]:
    """The functions that the host calls for an edge."""
    if edge.condition_function is not None:
        yield "condition", edge.condition_function
    if edge.processor_function is not None:
        yield "processor", edge.processor_function


class EdgeEvaluator:
    """Calls the functions on the edges of one plan. Created by LocalRun.

    The kernel calls only built-in conditions and processors. All others are called here, and their
    results are facts: a replay must not depend on the user's code, which may have changed since."""

    def __init__(self, functions: EdgeFunctions, services: NodeServices) -> None:
        self._functions, self._services = functions, services

    def are_pure(self, edges: Sequence[EdgePlan]) -> bool:
        """Whether all functions on these edges depend on their arguments alone."""
        return all(self._functions[reference].pure for edge in edges for reference in functions_on(edge))

    async def evaluate(self, command: EvaluateEdges, edges: Sequence[EdgePlan]) -> tuple[EdgeResult, ...]:
        """The results of the functions; NodeError if one of them fails. If all of them are pure, the
        coroutine never suspends, which `Executor.decide` relies on."""
        by_index = {edge.index: edge for edge in edges}
        edge_results = []
        for index, number in command.pairs:
            edge = by_index[index]
            try:
                edge_results.append(await self._evaluate_edge(edge, number, command.messages[number]))
            except Exception as error:
                raise NodeError(f"a function on {edge.edge} failed: {describe_error(error)}") from error
        return tuple(edge_results)

    async def _evaluate_edge(self, edge: EdgePlan, number: int, message: Message) -> EdgeResult:
        """The condition first: the processor of an edge that does not fire is not called."""
        condition = edge.condition_function
        if condition is not None and not await self._call(self._functions["condition", condition], message):
            return EdgeResult(edge.index, number, False)
        if edge.processor_function is None or not edge.carry:
            return EdgeResult(edge.index, number, True)
        carried = copy_for_edge(edge, message)
        returned = await self._call(self._functions["processor", edge.processor_function], carried)
        return EdgeResult(edge.index, number, True, apply_result(carried, returned))

    async def _call(self, function: Function, message: Message) -> Any:
        """Calls a function with a message, and with the run's working folder if it has such a
        parameter."""
        if function.pure:  # on the event loop: a thread would cost more, and `decide` must not suspend
            return wrap_errors(function.call)(message)
        arguments: tuple[Any, ...] = (message,)
        if WORKSPACE in inspect.signature(function.call).parameters:
            arguments = (message, self._services.workspace())
        return await self._services.call(function.call, *arguments)


logger = logging.getLogger("roundel.middleware")


class MiddlewareChain:
    """The middleware of one run, in the order in which it is called. Created by LocalRun.

    Which middleware applies to which node is computed once, by site: a node without middleware costs one
    look at a flag in the kernel, and no command."""

    def __init__(self, plan: Plan, middleware: Sequence[Middleware], services: NodeServices) -> None:
        self._plan, self._services = plan, services
        self._middleware = middleware
        self._before = self._by_site(_with_hook(middleware, "before"))
        self._after = self._by_site(_with_hook(middleware, "after"))
        self.intercepts = InterceptPoints(
            self._intercepted_nodes(self._before), self._intercepted_nodes(self._after)
        )
        # An observer gets no fact, so it is not part of `intercepts`: the run does not depend on it.
        self.observers = [_Observer(one, services.secrets) for one in _with_hook(middleware, "observe")]

    def _by_site(self, middleware: Sequence[Middleware]) -> list[list[Middleware]]:
        """The middleware that applies to each node of the plan."""
        return [[one for one in middleware if one.applies(node.node)] for node in self._plan.sites]

    def _intercepted_nodes(self, by_site: list[list[Middleware]]) -> tuple[str, ...]:
        """The ids of intercepted nodes. By id and not by site: they are stored in facts, and a fork may
        have another plan."""
        if not self._middleware:
            return ()
        intercepted = (
            node.id for node, applicable in zip(self._plan.sites, by_site, strict=True) if applicable
        )
        return tuple(dict.fromkeys(intercepted))

    async def intercept(self, intercept: Intercept, time: Callable[[], float]) -> Intercepted | Failed:
        """The decision of the chain about one execution of a node. The node has failed if a middleware vetoes
        it, or raises."""
        node, services = self._plan.sites[intercept.site].node, self._services
        moment = "before" if intercept.messages is None else "after"
        # The idempotency key: a chain that a crash cut off runs again after a resume, with the same key.
        key = f"{services.key(intercept.address)}:{moment}"
        visit = Visit(
            services.run_id,
            node,
            intercept.address,
            intercept.inputs,
            intercept.ordinal,
            intercept.round,
            key,
        )
        messages = None
        try:
            if intercept.messages is None:
                for one in self._before[intercept.site]:
                    await self._call_hook(one, visit)
            else:
                messages = await self._run_after_hooks(intercept, visit, intercept.messages)
        except NodeError as error:
            # Events that middleware added before the veto are part of the fact: they have happened.
            text = services.secrets.mask(str(error))
            return Failed(intercept.address, text, time(), tuple(visit.events))
        return Intercepted(intercept.address, time(), messages, tuple(visit.events))

    async def _run_after_hooks(
        self, intercept: Intercept, visit: Visit, messages: tuple[Message, ...]
    ) -> tuple[Message, ...] | None:
        """The messages that replace those of the node; None if no middleware changes them. Each
        middleware gets the messages as those before it have left them."""
        changed = None
        for one in self._after[intercept.site]:
            replacement = await self._call_hook(one, visit, messages)
            if replacement is not None:
                messages = changed = replacement
        return changed

    async def _call_hook(
        self, one: Middleware, visit: Visit, *messages: tuple[Message, ...]
    ) -> tuple[Message, ...] | None:
        """Calls one hook. A veto and a defect of the middleware both fail the node, with different
        texts: to execute a node whose check is broken would be worse than to fail it."""
        name, moment = type(one).__name__, "after" if messages else "before"
        try:
            replacement = await self._services.call(getattr(one, moment), visit, *messages)
            return outcome_of(replacement).messages if messages and replacement is not None else None
        except Veto as veto:
            raise NodeError(f"vetoed by the middleware {name}: {veto}") from veto
        except Exception as error:
            raise NodeError(
                f"the middleware {name} failed {moment} the node: {describe_error(error)}"
            ) from error

    def begin(self) -> None:
        """Calls `begin` of each middleware. A failure is logged and the run continues: this hook
        prepares observation, and decides nothing."""
        nodes = [node.node for node in self._plan.sites] if self._middleware else []
        for one in self._middleware:
            try:
                one.begin(self._services.run_id, self._plan.workflow.name, nodes)
            except (Exception, *CONTROL_EXCEPTIONS) as error:
                self._log("the middleware %s failed when the run began", one, error)

    async def close(self) -> None:
        """Closes each middleware; a failure is logged, so that the others are closed, too."""
        for one in self._middleware:
            try:
                await await_user_code(one.close(self._services.run_id))
            except Exception as error:
                self._log("the middleware %s failed when it was closed", one, error)

    def _log(self, message: str, middleware: Middleware, error: BaseException) -> None:
        log_failure(self._services.secrets, error, message, type(middleware).__name__)


class _Observer:
    """An observer that cannot hurt the run: once it raises, the failure is logged and it sees no more
    events. Otherwise a broken observer would write a traceback with each event."""

    def __init__(self, middleware: Middleware, secrets: SecretMasker) -> None:
        self._middleware: Middleware | None = middleware
        self._secrets = secrets

    def __call__(self, event: Event) -> None:
        if self._middleware is None:
            return
        try:
            self._middleware.observe(event)
        except (Exception, *CONTROL_EXCEPTIONS) as error:
            name = type(self._middleware).__name__
            message = "the middleware %s failed at '%s', and sees no more"
            log_failure(self._secrets, error, message, name, event.event)
            self._middleware = None


def log_failure(secrets: SecretMasker, error: BaseException, message: str, *names: str) -> None:
    """Logs a failure with its traceback, which is masked: it quotes errors of users' code, and those may
    quote secrets. A handler would format `exc_info` itself, unmasked, so the text is made here."""
    if logger.isEnabledFor(logging.ERROR):
        record = logger.makeRecord(logger.name, logging.ERROR, __file__, 0, message, names, None)
        record.exc_text = secrets.mask("".join(traceback.format_exception(error))).rstrip()
        logger.handle(record)


def _with_hook(middleware: Sequence[Middleware], hook: str) -> list[Middleware]:
    """The middleware that overrides a hook. A hook that is not overridden must not cost a command for
    each node and a commit for each command."""
    return [one for one in middleware if getattr(type(one), hook) is not getattr(Middleware, hook)]


def make_middleware(use: MiddlewareUse, finder: FunctionFinder) -> Middleware:
    """The middleware that a workflow names; LookupError or NodeError if it cannot be made."""
    make = finder.find("middleware", use.name).call
    try:
        one = make(**use.config)
    except (Exception, *CONTROL_EXCEPTIONS) as error:
        raise NodeError(f"the middleware '{use.name}' cannot be made: {describe_error(error)}") from error
    if not isinstance(one, Middleware):
        raise NodeError(f"'{use.name}' makes no roundel.Middleware, but an object of {type(one).__name__}")
    return one


class PreparedPlan(Struct, frozen=True):
    """The behaviours of a plan's nodes, by site, and its functions and middleware. Created by
    `prepare`."""

    behaviours: list[Behaviour]
    functions: EdgeFunctions
    middleware: list[Middleware]


def prepare(plan: Plan, services: NodeServices) -> PreparedPlan:
    """Makes a plan ready to be executed. WorkflowError with everything that is missing, not only the
    first, or with everything that the policy of the engine does not allow: nothing is imported then.

    Runs that start and runs that are resumed both pass here, so a stored run obeys the policy of the engine
    that resumes it, whatever it was started under."""
    refused = check_policy(plan.workflow, services.policy, scripted=services.script is not None)
    if refused:
        raise WorkflowError(services.secrets.mask_value(refused))
    report = Report()
    behaviours, functions = _prepare_nodes(plan, services, report)
    uses = plan.workflow.middleware
    middleware = [_prepare_or_report(report, use.at, make_middleware, use, services.finder) for use in uses]
    if not report.ok:
        # The texts quote users' code and client libraries, so they are masked. `from None`: what they quote
        # must not reach a log through the exception's context either.
        raise WorkflowError(services.secrets.mask_value(report.diagnostics)) from None
    return PreparedPlan(behaviours, functions, middleware)


def check_runnable(plan: Plan, report: Report) -> None:
    """Adds what `prepare` would refuse to a report: functions with parameters that nobody provides, tools
    that cannot be offered, middleware that does not take its config.

    It prepares the nodes as for a scripted run, so no client is made and no server is started. Middleware is
    not made either: its constructor may do anything. Only for plans that may run code of users (`roundel
    check`, `roundel.check`)."""
    if not report.ok or plan.draft:
        return
    services = NodeServices(
        plan,
        "",
        SteadyClock(),
        script=Script({}, {}, Report()),
        folder=Path(),
        record=None,
        say=lambda *_text: None,
        on_call=lambda *_news: None,
    )
    found = Report()
    _prepare_nodes(plan, services, found)
    for use in plan.workflow.middleware:
        _prepare_or_report(found, use.at, _check_middleware, use, services.finder)
    for diagnostic in services.secrets.mask_value(found.diagnostics):
        report.add(diagnostic)


def _check_middleware(use: MiddlewareUse, finder: FunctionFinder) -> None:
    try:
        inspect.signature(finder.find("middleware", use.name).call).bind(**use.config)
    except TypeError as error:
        raise NodeError(f"the middleware '{use.name}' cannot be made: {error}") from None
    except ValueError:
        return  # it has no signature, so only a run can tell


def _prepare_nodes(
    plan: Plan, services: NodeServices, report: Report
) -> tuple[list[Behaviour], EdgeFunctions]:
    """The behaviours of the nodes, and the functions on the edges; `report` gets what is missing."""
    # One error for all agents that name no model; the others are prepared, since they may lack more.
    without_model = nodes_without_model(plan) if services.script is None else []
    if without_model:
        report.add(missing_model(without_model, "error", "cannot-run"))
    left_out = set(map(id, without_model))
    behaviours = [
        _prepare_or_report(report, node.node.at, _prepare_node, node, services)
        for node in plan.sites
        if id(node.node) not in left_out
    ]
    places = {key: edge.edge.at for node in plan.sites for edge in node.edges for key in functions_on(edge)}
    functions = {
        key: _prepare_or_report(report, at, _edge_function, services.finder, *key)
        for key, at in places.items()
    }
    return behaviours, functions


def _edge_function(finder: FunctionFinder, kind: FunctionKind, name: str) -> Function:
    """A function on an edge; LookupError if it is missing, or cannot be called with a message."""
    found = finder.find(kind, name)
    try:
        signature = inspect.signature(found.call)
    except (TypeError, ValueError):
        return found  # written in C: only the call can tell
    given = ("a message", "the workspace") if WORKSPACE in signature.parameters else ("a message",)
    try:
        signature.bind(*given)
    except TypeError as error:
        raise LookupError(
            f"the {kind} '{name}' cannot be called with {' and '.join(given)}: {error}; "
            f"it may ask for a message, and for '{WORKSPACE}' after it"
        ) from None
    return found


def is_pure(node: NodePlan) -> bool:
    """Whether the core may run the node itself. A timeout or a retry needs to wait, so it makes the node
    an effect."""
    return node.kind.pure and node.node.timeout is None and node.node.retry is None


def _prepare_node(node: NodePlan, services: NodeServices) -> Behaviour:
    """The behaviour of a node, with its timeout and retries around it if it has any."""
    envelope = node.node
    if is_pure(node):
        behaviour: Behaviour = node.kind.prepare(envelope, Clock(services))
        return behaviour
    behaviour = node.kind.prepare(envelope, services)
    if envelope.timeout is None and envelope.retry is None:
        return behaviour
    retry = envelope.retry or Retry(max_attempts=1)
    return _with_retries(behaviour, envelope.timeout, retry, services)


def _prepare_or_report(report: Report, at: SourceLocation, make: Callable[..., Any], *arguments: Any) -> Any:
    """What `make` returns, or a diagnostic at the location in the file. Then it returns None, which
    nobody uses, since `prepare` raises at its end."""
    try:
        return make(*arguments)
    except (NodeError, LookupError) as error:
        text = str(error.args[0] if error.args else error)
        report.add(at.diagnostic("error", "cannot-run", text))


class Executor:
    """Executes the effects of one run; satisfies `Effects` (core.py). Created by LocalRun."""

    def __init__(
        self,
        plan: Plan,
        behaviours: list[Behaviour],
        edges: EdgeEvaluator,
        services: NodeServices,
        answers: AnswerSource,
        middleware: MiddlewareChain,
    ) -> None:
        self._plan, self._services, self._answers, self._middleware = plan, services, answers, middleware
        self._edges = edges
        self.behaviours = behaviours
        """By site. The driver calls them directly: a method in between would cost a coroutine per
        call."""
        self.pure = [is_pure(node) for node in plan.sites]
        self.task: asyncio.Task[Any] | None = None
        """The driver's task, set by `Driver.start`: a cancellation of it is not the failure of a
        node."""

    @property
    def now(self) -> Callable[[], float]:
        """The time of the run; it stays the same function while the run is executed."""
        return self._services.now

    @property
    def run_clock(self) -> RunClock:
        return self._services.run_clock

    # For the core: none of these waits for anything.

    def is_pure(self, command: Command) -> bool:
        if isinstance(command, Call):
            return self.pure[command.site]
        if isinstance(command, EvaluateEdges):  # if one of its functions may wait, it is an effect
            return self._edges.are_pure(self._plan.sites[command.site].edges)
        return False

    def decide(self, command: Effect) -> Fact:
        """The result of a pure command, without suspending."""
        try:
            if isinstance(command, EvaluateEdges):
                edges = self._plan.sites[command.site].edges
                edge_results = run_synchronously(self._edges.evaluate(command, edges))
                return EdgesEvaluated(command.address, edge_results, self.now())
            assert isinstance(command, Call)
            outcome: Any = self.behaviours[command.site](command)
            if not isinstance(outcome, Outcome):
                outcome = outcome_of(run_synchronously(outcome))
            return Finished(command.address, outcome, self.now())
        except BaseException as error:
            return self.failure_fact(command.address, error)

    def needs_person(self, command: Command | None) -> bool:
        return isinstance(command, Ask) and self._answers.needs_person(command)

    @property
    def can_ask(self) -> bool:
        return self._answers.can_ask

    def failure_fact(
        self, address: str, error: BaseException, task: asyncio.Task[Any] | None = None
    ) -> Failed:
        """The fact for a call that raised. What is meant for the whole run is raised again: a keyboard
        interrupt, and the cancellation of the task that the call ran in. A CancelledError that user code
        raised by itself, without anybody cancelling the task, is a failure like any other."""
        if isinstance(error, KeyboardInterrupt) or is_own_cancellation(error, task or self.task):
            raise error
        attempts, tried = 1, failed_attempts(error)
        if isinstance(error, AttemptsFailed):
            assert error.__cause__ is not None
            attempts, tried, error = error.attempts, error.tried, error.__cause__
        # A model has attempts of its own within each attempt of its node.
        kind, inner = failure_type(error)
        return Failed(
            address,
            self.describe(error),
            self.now(),
            error_type=kind,
            attempts=attempts * inner,
            reason=failure_reason(error),
            call=record_of_failure(tried),
        )

    def failed_call(
        self, address: str, error: BaseException, task: asyncio.Task[Any] | None = None
    ) -> Failed | CallRefused:
        """The fact for a call that raised, or that was not made since a shared limit has no room for it."""
        if isinstance(error, CallDoesNotFit):
            return CallRefused(address, error.shortage, self.now())
        return self.failure_fact(address, error, task)

    def describe(self, error: BaseException) -> str:
        """An exception as text for events and results, without secrets."""
        return self._services.secrets.mask(describe_error(error))

    # For the driver.

    async def execute(self, effect: Ask | EvaluateEdges | Intercept) -> Fact:
        """Executes an effect other than a call; calls are made by the driver itself, without a coroutine
        in between. The driver passes what it raises to `failure_fact`."""
        if isinstance(effect, Ask):
            message, by, via = await self._answers.answer(effect)
            return Answered(effect.address, message, self.now(), by, via)
        if isinstance(effect, EvaluateEdges):
            edges = self._plan.sites[effect.site].edges
            edge_results = await self._edges.evaluate(effect, edges)
            return EdgesEvaluated(effect.address, edge_results, self.now())
        return await self._middleware.intercept(effect, self.now)


def run_synchronously(awaitable: Any) -> Any:
    """Runs an awaitable that never suspends, without an event loop. A pure node may be written as a
    coroutine, but it depends on its input alone, so there is nothing that it could wait for. NodeError
    if it does."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    steps.close()
    raise NodeError("a node of a pure type must not wait for anything; declare its type without `pure`")


MAX_ERROR = 1000
"""Characters of the error of an attempt that are kept."""


class AttemptsFailed(Exception):
    """All attempts of a node with `retry` failed; its cause is the error of the last one."""

    def __init__(self, attempts: int, tried: tuple[Attempt, ...]) -> None:
        super().__init__(attempts)
        self.attempts, self.tried = attempts, tried


def _with_retries(
    behaviour: Behaviour, timeout: float | None, retry: Retry, services: NodeServices
) -> Behaviour:
    """A behaviour with a timeout for each attempt, and retries.

    Retries are part of one call and leave no fact of their own: the journal records what the node returned
    in the end, and which attempts came before it. A crash during the attempts makes the call again, with all
    its attempts and the same idempotency key. A conversation that is too long for its model stays too long,
    so it is not tried again."""

    async def attempt_once(call: Call) -> Outcome:
        outcome = behaviour(call)
        return outcome if isinstance(outcome, Outcome) else outcome_of(await outcome)

    async def attempts(call: Call) -> Outcome:
        attempt = 1
        tried: tuple[Attempt, ...] = ()
        while True:
            began = services.elapsed()
            try:
                outcome = await _with_timeout(attempt_once(call), timeout)
                return _with_attempts(outcome, tried, services.elapsed() - began)
            except Exception as error:  # not BaseException: a cancellation ends the attempts
                text = services.secrets.mask(" ".join(describe_error(error).split()))
                own = Attempt(error=valid_unicode(text)[:MAX_ERROR], seconds=services.elapsed() - began)
                # A model knows more of its own attempts than is known here.
                tried += failed_attempts(error) or (own,)
                if attempt == retry.max_attempts or failure_type(error)[0] == "ContextOverflow":
                    raise AttemptsFailed(attempt, tried) from error
                seconds, last = _backoff(retry, attempt), tried[-1]
                tried = (*tried[:-1], replace(last, waited=round(seconds, 3)))
                wait = CallWait(
                    seconds, attempt, retry.max_attempts, text, last.status, last.model, call.number
                )
                services.publish_call(call.address, wait)
            await asyncio.sleep(seconds)
            attempt += 1

    return attempts


def _with_attempts(outcome: Outcome, tried: tuple[Attempt, ...], seconds: float) -> Outcome:
    """The outcome of the last attempt with those before it."""
    if not tried:
        return outcome
    own = outcome.call or CallRecord(seconds)
    record = replace(own, seconds=total_seconds(tried, own.seconds), attempts=(*tried, *own.attempts))
    return replace(outcome, call=record)


async def _with_timeout(work: Coroutine[Any, Any, Outcome], seconds: float | None) -> Outcome:
    if seconds is None:
        return await work
    try:
        async with TimeLimit(seconds):
            return await work
    except TimeLimitExceeded as error:
        raise NodeError(str(error), "Timeout") from None


def _backoff(retry: Retry, attempt: int) -> float:
    """Seconds before the next attempt: doubled with each attempt, with jitter, so that many calls that
    failed together are not retried together."""
    longest = min(retry.max_wait_seconds, retry.min_wait_seconds * 2 ** (attempt - 1))
    return random.uniform(longest / 2, longest)
