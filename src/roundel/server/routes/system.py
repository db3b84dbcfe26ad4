"""The server itself: whether it lives and is ready, its metrics, and what it allows."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from roundel.journal.registry import scheme_of
from roundel.kernel.events import stamp
from roundel.server.admission import Route
from roundel.server.bodies import ResponseBody, problems
from roundel.server.context import caller, context_of
from roundel.server.identity import Principal
from roundel.server.problems import Problem
from roundel.server.routes.access import check_sees_everything
from roundel.server.security import MAX_BODY
from roundel.workflow.policy import Policy

router = APIRouter(tags=["system"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Admin = Annotated[Principal, caller("admin")]


class Health(ResponseBody):
    """The server works."""

    status: str = "ok"
    """`ok`."""


class Allowed(ResponseBody):
    """What workflows that reach the server as text may use, by name."""

    functions: list[str]
    """Python functions."""
    mcp: list[str]
    """MCP servers."""
    environment: list[str]
    """Environment variables."""
    models: list[str]
    """Providers, and the hosts of other endpoints."""
    python_code: bool
    """Whether code that models write may run."""
    files: bool
    """Whether some folders are allowed."""


class ServerView(ResponseBody):
    """A server, for pages and programs that work with it."""

    version: str
    """The version of Roundel."""
    engine: str
    """The engine that executes runs."""
    store: str
    """The kind of store, without its location."""
    started: str
    """When the server was started."""
    time: str
    """The time of the server."""
    allowed: Allowed
    """What the operator allows."""
    limits: dict[str, int]
    """The most runs that are executed at once, streams in all and of one caller, and bytes of a body that
    contains a text."""
    active_runs: int
    """The runs that it executes now."""
    demo: bool
    """Whether it shows the demo, of which nothing is kept."""


@router.get("/healthz", responses=problems())
async def get_health() -> Health:
    """Whether the process lives."""
    return Health()


@router.get("/readyz", responses=problems())
async def get_readiness(request: Request) -> Health:
    """Whether the server can work: it is not shutting down, and its store can be written."""
    context = context_of(request)
    if not context.is_ready:
        raise Problem(503, "unavailable", "the server is starting, or shutting down")
    failure = await context.probe.failure()
    if failure is not None:
        raise Problem(503, "unavailable", "the store cannot be written") from failure
    return Health()


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "The metrics, in the text format of Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(404),
    },
)
async def get_metrics(request: Request, who: Admin) -> Response:
    """Metrics of all runs that this server executes, for Prometheus."""
    check_sees_everything(who)
    metrics = context_of(request).metrics
    if metrics is None:
        raise Problem(404, "not-found", "metrics need another package: pip install 'roundel[prometheus]'")
    return Response(metrics.exposition(), headers={"content-type": metrics.content_type})


@router.get("/api/v1/server", responses=problems())
async def get_server(request: Request, _who: Viewer) -> ServerView:
    """The version, the store, the limits and what the operator allows."""
    context = context_of(request)
    settings = context.settings
    return ServerView(
        version=version("roundel"),
        engine=type(context.runs.engine).__name__.removesuffix("Engine").lower(),
        store=scheme_of(context.runs.store.location),
        started=stamp(context.started),
        time=stamp(context.clock()),
        allowed=_allowed(settings.policy),
        limits={
            "active_runs": settings.max_active_runs,
            "streams": settings.max_streams,
            "streams_per_caller": settings.max_streams_per_caller,
            "body_bytes": MAX_BODY,
        },
        active_runs=context.active_runs,
        demo=settings.demo,
    )


def _allowed(policy: Policy) -> Allowed:
    models = [one.provider or urlsplit(one.base_url).hostname or "" for one in policy.models]
    return Allowed(
        functions=list(policy.functions),
        mcp=list(policy.mcp),
        environment=list(policy.environment),
        models=models,
        python_code=policy.python_code,
        files=bool(policy.files),
    )
