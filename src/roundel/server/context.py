"""What the routes share: the runs, the event hub, who calls, the policy of the operator, and the audit log.

`caller(role)` is the dependency of every route: it says which role the route needs, and gets the caller that
`admit` has found before the body was read (admission.py). Nothing else of a request decides what the caller
may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fastapi import Depends, Request
from msgspec import Struct

from roundel.hosts.engine import Attachment
from roundel.hosts.shared_budgets import ONE_CALL, SharedBudgets
from roundel.journal.documents import DocumentStore
from roundel.journal.store import RunRow
from roundel.llm.script import Script
from roundel.nodes.middleware import Middleware
from roundel.runs.runs import Runs
from roundel.server.accepted_texts import AcceptedTexts
from roundel.server.feed import EventHub
from roundel.server.identity import Identities, Principal, Role, token_names
from roundel.server.logs import note_caller
from roundel.server.long_work import LongWork
from roundel.server.problems import Problem, not_found
from roundel.server.readiness import StoreProbe
from roundel.server.security import UNSAFE, host_port
from roundel.server.sign_in import FailureLimiter
from roundel.server.view_cache import ViewCache
from roundel.server.worker_pool import WORKERS, WorkerPool
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.policy import Policy, check_policy

if TYPE_CHECKING:
    from roundel.telemetry.prometheus import Metrics

COOKIE = "roundel_session_"
"""The name of the session's cookie, without the port. Browsers send a cookie to all ports of a host, so that
two servers on one host would overwrite each other's."""
SECURE_COOKIE = f"__Host-{COOKIE}"
"""The same under TLS: browsers accept it from this host alone, and never without TLS."""
_PRINCIPAL = "roundel.principal"
"""In the scope of a request: its caller."""
AUDIT = "audit"


class ServerSettings(Struct, frozen=True):
    """How a server was started. `roundel serve` creates it."""

    host: str = "127.0.0.1"
    port: int = 8420
    names: tuple[str, ...] = ()
    """Further names under which it is reached, for the Host header."""
    policy: Policy = Policy()
    max_active_runs: int = 200
    """Runs that may be executed at the same time; a start beyond it is refused with 429."""
    max_streams: int = 1000
    """Streams of events that may be open at the same time."""
    max_streams_per_caller: int = 100
    """Those of one token, with the browsers that have signed in with it."""
    max_connections: int = 4096
    """Connections that may be open at the same time; fewer if the process may not open enough files."""
    max_connections_per_address: int = 256
    """Those of one address; that of this machine, from which a proxy connects, is not limited."""
    shutdown_seconds: float = 10.0
    """How long calls in flight may take to finish when the server shuts down."""
    text_workers: int = WORKERS
    """Processes that read texts."""
    demo: bool = False
    """Whether it shows the demo (demo.py)."""


class ServerContext:
    """One for each app, in `app.state.context`."""

    def __init__(
        self,
        runs: Runs,
        documents: DocumentStore,
        settings: ServerSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.runs, self.documents, self.settings, self.clock = runs, documents, settings, clock
        self.identities = Identities(documents, clock)
        self.hub = EventHub(runs, settings.max_streams, settings.max_streams_per_caller)
        limits, names = settings.policy.limits, token_names(documents)
        self.shared = SharedBudgets(lambda: runs.store, limits, clock, names) if limits else None
        """The limits of groups and tokens; None if the operator has set none."""
        self.sign_ins = FailureLimiter()
        self.workers = WorkerPool(settings.policy, settings.text_workers)
        """Reads texts that are new to the server."""
        self.accepted = AcceptedTexts(settings.policy)
        self.probe = StoreProbe(documents)
        self.plans: dict[tuple[str, str], bytes] = {}
        """Encoded plans by run and density, the one that was asked for last at the end."""
        self.views = ViewCache(runs)
        self.long_work = LongWork()
        self.metrics = create_metrics()
        """The metrics of all runs that this server executes; None if their package is missing."""
        self.middleware: tuple[Middleware, ...] = (self.metrics,) if self.metrics is not None else ()
        """Observes all runs that this server executes."""
        self.scripts: dict[str, Script] = {}
        """Scripts of workflows, by their names, for runs that are started without one; only the demo has
        any."""
        self.started = clock()
        self.is_ready = False
        self._active: dict[str, asyncio.Task[None]] = {}
        self._beginning: set[asyncio.Task[str]] = set()
        """Starts and resumes that have not returned yet."""
        self._closing = False

    async def audit(self, caller: Principal | None, action: str, subject: str = "", **details: Any) -> None:
        """Writes who did what to the audit log; before the action, so that nothing happens unseen."""
        who = {"id": caller.id, "name": caller.name, "role": caller.role} if caller is not None else None
        entry = {"time": self.clock(), "who": who, "action": action, "subject": subject, **details}
        await self.documents.append(AUDIT, entry, author=caller.id if caller is not None else "")

    # Executing runs.

    def attachment(self) -> Attachment:
        """What this server adds to each run that it executes."""
        return Attachment(middleware=self.middleware)

    @property
    def active_runs(self) -> int:
        return len(self._active) + len(self._beginning)

    def check_capacity(self) -> None:
        """Refuses to execute one more run than the operator allows."""
        if self.active_runs >= self.settings.max_active_runs:
            detail = f"{self.active_runs} runs are already in flight; try again later"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "5"})

    async def check_shared_limits(self, row: RunRow, started_by: str) -> None:
        """NoRoomLeft if a new run from a point of this one would be one too many, or could not call a
        model."""
        if self.shared is not None:
            limits = await self.shared.limits_of(row.group, started_by)
            is_scripted = bool((await self.runs.store.pinned(row.id)).script)
            await self.shared.check_room(limits, None if is_scripted else ONE_CALL)

    async def execute(
        self, begin: Callable[[], Coroutine[Any, Any, Any]], run_id: str = "", *, limited: bool = True
    ) -> str:
        """Starts a run, or continues the given one, and returns its id. `begin` returns when the run is
        stored or the request is, while the run continues in the background.

        Shielded: a request that is cancelled, because the server shuts down, would otherwise cancel a run
        that is being resumed, and a run that is cancelled has been stopped."""
        if self._closing:
            raise Problem(503, "unavailable", "the server is shutting down", headers={"retry-after": "5"})
        if limited:
            self.check_capacity()
        task = asyncio.create_task(self._begin(begin, run_id))
        self._beginning.add(task)
        task.add_done_callback(self._on_begun)
        return await asyncio.shield(task)

    async def _begin(self, begin: Callable[[], Coroutine[Any, Any, Any]], run_id: str) -> str:
        found = await begin()
        run_id = run_id or found
        if self.runs.engine.knows(run_id):  # else another process executes it, or nobody has to
            self._track(run_id)
        return run_id

    def _on_begun(self, task: asyncio.Task[str]) -> None:
        self._beginning.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that was cancelled does not read it

    def _track(self, run_id: str) -> None:
        """Counts a run that this server has begun to execute, until it is idle. Its errors are in the log of
        the engine, and in the store."""
        if run_id not in self._active:
            self._active[run_id] = asyncio.create_task(self._wait(run_id))

    async def _wait(self, run_id: str) -> None:
        try:
            with contextlib.suppress(Exception):
                await self.runs.result(run_id)
        finally:
            self._active.pop(run_id, None)

    async def check_allowed(self, run_id: str) -> None:
        """WorkflowError if the policy does not allow what a stored run uses: it may have been started under
        another one. The engine checks its models, which a run with a script does not call."""
        plan = await self.runs.plan(run_id)
        found = check_policy(plan.workflow, self.settings.policy, scripted=True)
        if found:
            raise WorkflowError(found)

    async def release(self) -> None:
        """Hands the runs back that this server executes, when it shuts down."""
        self._closing = True
        if self._beginning:
            await asyncio.wait(self._beginning)
        await self.runs.engine.release(self.settings.shutdown_seconds)

    async def close(self) -> None:
        """Ends the streams and the workers, and stops counting."""
        await self.hub.close()
        await self.workers.close()
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def row(self, run_id: str) -> RunRow:
        """The row of a run, with an excerpt of its output."""
        return await self.runs.store.row(run_id, excerpt=True)

    async def visible_row(self, caller: Principal, run_id: str, *, excerpt: bool = True) -> RunRow:
        """The row of a run that the caller may see. An id is complete here: the beginning of one could
        belong to a run of another group."""
        row = await self.runs.store.row(run_id, excerpt=excerpt)
        if not caller.sees(row.group):
            raise not_found()
        return row


def create_metrics() -> Metrics | None:
    try:
        from roundel.telemetry.prometheus import Metrics
    except ImportError:  # the extra `prometheus` is not installed
        return None
    return Metrics()


def context_of(request: Request) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


async def authenticate(request: Request) -> Principal | None:
    """The caller, by the token of a program or the cookie of a browser; None if there is neither. A token
    that is not valid is an error, also beside a valid cookie."""
    identities = context_of(request).identities
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, credential = header.partition(" ")
        principal = await identities.verify_token(credential.strip()) if scheme.lower() == "bearer" else None
        if principal is None:
            raise unauthenticated("the token is not valid, or has expired")
        return principal
    cookie = request.cookies.get(cookie_name(request))
    return await identities.verify_session(cookie) if cookie else None


def cookie_name(request: Request) -> str:
    """The name of the session's cookie. Under TLS only the one counts that nobody can set without it. The
    port is the one that the browser has connected to, which several servers behind a proxy share."""
    secure = request.scope["scheme"] == "https"
    port = host_port(request.headers.get("host", "")) or (443 if secure else 80)
    return f"{SECURE_COOKIE if secure else COOKIE}{port}"


async def still_sees(request: Request, group: str | None) -> bool:
    """Whether the caller of a request that takes long may still read it: the token may have been revoked, or
    the session have ended. None stands for no group in particular."""
    try:
        principal = await authenticate(request)
    except Problem:
        return False
    return principal is not None and (group is None or principal.sees(group))


def unauthenticated(detail: str = "") -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"www-authenticate": "Bearer"})


async def admit(request: Request, role: Role) -> None:
    """Finds the caller of a request, once, and refuses those who may not do what takes this role."""
    principal = await authenticate(request)
    if principal is None:
        raise unauthenticated("a token or a session is needed")
    if principal.by_cookie and request.method in UNSAFE and "origin" not in request.headers:
        raise Problem(403, "forbidden", "a request from a browser needs the header Origin")
    note_caller(principal.id, principal.name)
    if not principal.may(role):
        raise Problem(403, "forbidden", f"this requires the role {role}; your role is {principal.role}")
    request.scope[_PRINCIPAL] = principal


def caller(role: Role) -> Any:
    """The dependency of a route that needs a role: the Principal of the request."""

    async def admitted(request: Request) -> Principal:
        # Missing if the route is no `Route`, which then serves nobody.
        principal: Principal = request.scope[_PRINCIPAL]
        return principal

    # For `Route`, which checks it, and for the schema (openapi.py).
    admitted.role = role  # type: ignore[attr-defined]
    dependency: Callable[..., Coroutine[Any, Any, Principal]] = admitted
    return Depends(dependency)
