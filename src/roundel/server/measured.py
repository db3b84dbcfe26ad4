"""Measures a server for Prometheus: its requests, by the pattern of their route, and what it has queued."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundel.journal.store import HasWriteQueue

if TYPE_CHECKING:
    from roundel.server.context import ServerContext
    from roundel.telemetry.prometheus import Metrics

NO_ROUTE = "(none)"
"""The route of requests that none has taken: their paths are made up by clients."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MeasuredRequests:
    """ASGI middleware, around all other."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 499  # what nginx calls a client that has left before the response

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            self._metrics.on_request(method, route, status, time.monotonic() - began)


def watch_server(metrics: Metrics, context: ServerContext) -> None:
    """Adds what the server has in flight and queued."""
    metrics.watch("active_runs", "Runs that count for --max-runs.", lambda: context.active_runs)
    metrics.watch("max_runs", "The limit --max-runs.", lambda: context.settings.max_active_runs)
    metrics.watch("open_streams", "Streams of events that clients have open.", lambda: context.hub.clients)
    workers = context.workers
    metrics.watch("worker_queue", "Texts that wait for a worker process.", lambda: workers.waiting)
    metrics.watch(
        "worker_restarts", "Worker processes that ended early.", lambda: workers.restarts, counts=True
    )
    store = context.runs.store
    if isinstance(store, HasWriteQueue):
        metrics.watch("waiting_writes", "Writes that wait for the store.", lambda: store.waiting_writes)
