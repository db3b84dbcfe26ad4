"""A server without a socket, and clients of it with roles: what the tests of all routes share.

    async with serving() as server:
        author = await server.client("author", groups=["red"])
        answer = await author.get("/api/v1/workflows")

The app, the store and the credentials are the real ones; only the network is missing. `server.context` is
what the routes use.
"""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
from fastapi import FastAPI

from roundel.hosts.local import LocalEngine
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.registry import open_store
from roundel.runs.runs import Runs
from roundel.server import worker_pool
from roundel.server.app import create_app
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.identity import Role, token_names
from roundel.workflow.policy import Policy

# Tests have hundreds of servers, one after the other: an idle worker of one is that of the next.
worker_pool.max_spares = 1
atexit.register(worker_pool.end_spares)

BASE = "http://127.0.0.1:8420"


class Server:
    """An app that is started. `serving` creates it."""

    def __init__(self, app: FastAPI, context: ServerContext, stack: contextlib.AsyncExitStack) -> None:
        self.app, self.context, self._stack = app, context, stack

    async def client(
        self, role: Role = "admin", groups: Sequence[str] | None = None, name: str = ""
    ) -> httpx2.AsyncClient:
        """A program with a token of this role; without groups it sees all of them."""
        token = await self.context.identities.create_token(name or role, role, groups)
        return await self.anyone(authorization=f"Bearer {token.secret}")

    async def anyone(self, **headers: str) -> httpx2.AsyncClient:
        """A client without a token."""
        # An error of the app is a response here as it is over a socket, and not an exception of the test.
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        client = httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers)
        return await self._stack.enter_async_context(client)


@contextlib.asynccontextmanager
async def serving(
    store: str = "",
    *,
    policy: Policy | None = None,
    clock: Callable[[], float] = time.time,
    **settings: Any,
) -> AsyncIterator[Server]:
    """A server on a store, which begins and ends as with `roundel serve`. Without a store, it has one of its
    own in memory: `memory:` would be the same one for all tests of a process."""
    chosen = ServerSettings(policy=policy or Policy(), **settings)
    opened = open_store(store) if store else InMemoryStore()
    engine = LocalEngine(
        lambda: opened, clock=clock, policy=chosen.policy, token_name=token_names(opened.documents())
    )
    try:
        async with (
            Runs(opened, engine=engine, on_warnings=None) as runs,
            contextlib.AsyncExitStack() as stack,
        ):
            context = ServerContext(runs, opened.documents(), chosen, clock)
            app = create_app(context)
            await stack.enter_async_context(app.router.lifespan_context(app))
            yield Server(app, context, stack)
    finally:
        await engine.close()
        await opened.close()
