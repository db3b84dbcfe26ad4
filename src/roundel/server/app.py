"""The application: all routes behind one guard, and what begins and ends with the server."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

from fastapi import FastAPI

from roundel.journal.store import StoreError
from roundel.llm.resource_pool import close_pool
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.demo import Demo
from roundel.server.measured import MeasuredRequests, watch_server
from roundel.server.openapi import DESCRIPTION, ROUTERS, TITLE, VERSION, Application
from roundel.server.problems import add_handlers
from roundel.server.security import LOOPBACK, WILDCARDS, RequestGuard
from roundel.server.supervisor import Supervisor

logger = logging.getLogger("roundel.server")


def create_app(context: ServerContext) -> FastAPI:
    """The application of a server. The caller owns the store and closes it."""
    settings = context.settings
    app = Application(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.context = context
    # Not `include_router`, whose routes are matched in two steps, at three times the cost.
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)
    add_handlers(app)
    app.add_middleware(RequestGuard, hosts=_hosts(settings))
    if context.metrics is not None:
        watch_server(context.metrics, context)
        app.add_middleware(MeasuredRequests, metrics=context.metrics)
    return app


def _hosts(settings: ServerSettings) -> tuple[str, ...]:
    own = () if settings.host in WILDCARDS else (settings.host,)
    return (*LOOPBACK, *own, *settings.names)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ServerContext = app.state.context
    try:
        await context.runs.store.set_room_aside()
    except StoreError as error:  # it can still run what is there
        logger.warning("no room is set aside for deleting runs: %s", error)
    supervisor = Supervisor(context)
    supervisor.start()
    demo = Demo(context) if context.settings.demo else None
    if demo is not None:
        demo.start()
    context.is_ready = True
    try:
        yield
    finally:
        context.is_ready = False
        if demo is not None:
            await demo.stop()
        await supervisor.stop()
        await context.release()
        await context.close()
        await close_pool()
