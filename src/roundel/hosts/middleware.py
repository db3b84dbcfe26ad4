"""The middleware of one run: which nodes it intercepts, and what it decides about them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence

from roundel.hosts.services import NodeServices, describe_error
from roundel.kernel.commands import Review
from roundel.kernel.events import Event
from roundel.kernel.facts import Failed, Reviewed, Reviews
from roundel.nodes.middleware import Middleware, Veto, Visit
from roundel.nodes.services import NodeError, outcome_of
from roundel.nodes.threads import CONTROL_EXCEPTIONS, await_user_code
from roundel.plan.graph import Plan
from roundel.workflow.functions import Finder
from roundel.workflow.message import Message
from roundel.workflow.middleware import MiddlewareUse
from roundel.workflow.secrets import Secrets

logger = logging.getLogger("roundel.middleware")


class MiddlewareChain:
    def __init__(self, plan: Plan, middleware: Sequence[Middleware], services: NodeServices) -> None:
        self._plan, self._services = plan, services
        self._middleware = middleware
        self._before = self._by_site(_overriding(middleware, "before"))
        self._after = self._by_site(_overriding(middleware, "after"))
        self.reviews = Reviews(self._asked(self._before), self._asked(self._after))
        self.observers = [_Observer(one, services.secrets) for one in _overriding(middleware, "observe")]

    def _by_site(self, middleware: Sequence[Middleware]) -> list[list[Middleware]]:
        return [[one for one in middleware if one.applies(node.node)] for node in self._plan.sites]

    def _asked(self, by_site: list[list[Middleware]]) -> tuple[str, ...]:
        if not self._middleware:
            return ()
        asked = (node.id for node, those in zip(self._plan.sites, by_site, strict=True) if those)
        return tuple(dict.fromkeys(asked))

    async def review(self, review: Review, time: Callable[[], float]) -> Reviewed | Failed:
        """The decision of the chain about one execution of a node. The node has failed if a middleware vetoes
        it, or raises."""
        node, services = self._plan.sites[review.site].node, self._services
        moment = "before" if review.messages is None else "after"
        key = f"{services.key(review.address)}:{moment}"
        visit = Visit(services.run_id, node, review.address, review.inputs, review.ordinal, review.round, key)
        messages = None
        try:
            if review.messages is None:
                for one in self._before[review.site]:
                    await self._ask(one, visit)
            else:
                messages = await self._changed(review, visit, review.messages)
        except NodeError as error:
            text = services.secrets.mask(str(error))
            return Failed(review.address, text, time(), tuple(visit.events))
        return Reviewed(review.address, time(), messages, tuple(visit.events))

    async def _changed(
        self, review: Review, visit: Visit, messages: tuple[Message, ...]
    ) -> tuple[Message, ...] | None:
        """The messages that replace those of the node; None if no middleware changes them."""
        changed = None
        for one in self._after[review.site]:
            given = await self._ask(one, visit, messages)
            if given is not None:
                messages = changed = given
        return changed

    async def _ask(
        self, one: Middleware, visit: Visit, *messages: tuple[Message, ...]
    ) -> tuple[Message, ...] | None:
        name, moment = type(one).__name__, "after" if messages else "before"
        try:
            given = await self._services.call(getattr(one, moment), visit, *messages)
            return outcome_of(given).messages if messages and given is not None else None
        except Veto as veto:
            raise NodeError(f"vetoed by the middleware {name}: {veto}") from veto
        except Exception as error:
            raise NodeError(
                f"the middleware {name} failed {moment} the node: {describe_error(error)}"
            ) from error

    def begin(self) -> None:
        """Tells each middleware that the run begins. One that fails is logged; the run continues."""
        nodes = [node.node for node in self._plan.sites] if self._middleware else []
        for one in self._middleware:
            try:
                one.begin(self._services.run_id, self._plan.workflow.name, nodes)
            except (Exception, *CONTROL_EXCEPTIONS) as error:
                self._log("the middleware %s failed when the run began", one, error)

    async def close(self) -> None:
        for one in self._middleware:
            try:
                await await_user_code(one.close(self._services.run_id))
            except Exception as error:
                self._log("the middleware %s failed when it was closed", one, error)

    def _log(self, message: str, middleware: Middleware, error: BaseException) -> None:
        log_failure(self._services.secrets, error, message, type(middleware).__name__)


class _Observer:
    """An observer that cannot hurt the run: once it raises, it is logged and sees no more events."""

    def __init__(self, middleware: Middleware, secrets: Secrets) -> None:
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


def log_failure(secrets: Secrets, error: BaseException, message: str, *names: str) -> None:
    """Logs a failure with its traceback, which is masked: it quotes errors of users' code."""
    if logger.isEnabledFor(logging.ERROR):
        record = logger.makeRecord(logger.name, logging.ERROR, __file__, 0, message, names, None)
        record.exc_text = secrets.mask("".join(traceback.format_exception(error))).rstrip()
        logger.handle(record)


def _overriding(middleware: Sequence[Middleware], hook: str) -> list[Middleware]:
    """Those that override a hook."""
    return [one for one in middleware if getattr(type(one), hook) is not getattr(Middleware, hook)]


def instantiate(use: MiddlewareUse, finder: Finder) -> Middleware:
    """The middleware that a workflow names; LookupError or NodeError if it cannot be made."""
    make = finder.find("middleware", use.name).call
    try:
        one = make(**use.config)
    except (Exception, *CONTROL_EXCEPTIONS) as error:
        raise NodeError(f"the middleware '{use.name}' cannot be made: {describe_error(error)}") from error
    if not isinstance(one, Middleware):
        raise NodeError(f"'{use.name}' makes no roundel.Middleware, but an object of {type(one).__name__}")
    return one
