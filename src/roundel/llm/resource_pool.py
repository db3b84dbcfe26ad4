"""Resources that runs share: HTTP clients, clients of models, sessions with MCP servers.

Opening one takes from milliseconds to seconds, so they belong to the process and not to a run. There is one
pool for each event loop, since what is in it is bound to the loop that it was opened on. A run takes out a
*lease*; when the last lease on a resource is released, the resource stays open for IDLE_SECONDS, for the next
run that needs the same.

A task of the pool, its guardian, closes what has been idle for too long. It ends when the pool is empty. If
the event loop ends first, it cancels the guardian like every task, and the guardian then closes everything:
so nothing is left open although nobody has to close the pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
IDLE_SECONDS = 60.0
logger = logging.getLogger("roundel")


class _Resource:
    def __init__(self, value: Any, close: Callable[[], Awaitable[object]]) -> None:
        self.value, self.close = value, close
        self.leases = 0
        self.expires = 0.0
        """When it is closed, by the clock of the event loop; meaningless while it is leased."""


class ResourcePool:
    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._resources: dict[Hashable, _Resource] = {}
        self._cleanup_task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._resources)

    def lease(self) -> ResourceLease:
        return ResourceLease(self)

    def _take(self, key: Hashable, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> T:
        resource = self._resources.get(key)
        if resource is None:
            made = make()
            resource = self._resources[key] = _Resource(made, lambda: close(made))
        resource.leases += 1
        value: T = resource.value
        return value

    async def _release(self, keys: set[Hashable]) -> None:
        idle = []
        for key in keys:
            resource = self._resources.get(key)
            if resource is None:
                continue  # the pool was closed in the meantime
            resource.leases -= 1
            if not resource.leases:
                idle.append(key)
        if not idle:
            return
        task = asyncio.current_task()
        if self._idle_seconds <= 0 or (task is not None and task.cancelling()):
            # A run whose task is cancelled may be one of those that the loop cancels when it ends; a
            # guardian that is created then would not be cancelled any more, and so would close nothing.
            await self._close(idle)
            return
        expires = asyncio.get_running_loop().time() + self._idle_seconds
        for key in idle:
            self._resources[key].expires = expires
        self._changed.set()
        if self._cleanup_task is None:
            self._cleanup_task = asyncio.create_task(self._close_expired(), name="roundel-resource-pool")

    async def _close_expired(self) -> None:
        try:
            while self._resources:
                self._changed.clear()
                now = asyncio.get_running_loop().time()
                idle = {key: one for key, one in self._resources.items() if not one.leases}
                expired = [key for key, one in idle.items() if one.expires <= now]
                await self._close(expired)
                left = [one.expires - now for key, one in idle.items() if key not in expired]
                if not self._resources:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, default=None)):
                        await self._changed.wait()
        except asyncio.CancelledError:
            await self._close(list(self._resources))
            raise
        finally:
            # The task refers to its loop, and the pool to the task: a pool that stayed would keep alive a
            # loop that has ended.
            self._cleanup_task = None
            loop = asyncio.get_running_loop()
            if not self._resources and _POOLS.get(loop) is self:
                del _POOLS[loop]

    async def close(self) -> None:
        """Closes everything, leased or not."""
        await self._close(list(self._resources))
        if self._cleanup_task is not None:
            self._cleanup_task.cancel()

    async def _close(self, keys: list[Hashable]) -> None:
        closing = [self._resources.pop(key).close() for key in keys]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, Exception):
                logger.warning("a shared resource could not be closed", exc_info=error)


class ResourceLease:
    """What one run uses of a pool. Created by `ResourcePool.lease`."""

    def __init__(self, pool: ResourcePool) -> None:
        self._pool = pool
        self._keys: dict[Hashable, Any] = {}

    def take(self, key: Hashable, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> T:
        """The resource with this key, made if the pool has none. `key` has to name everything that `make`
        depends on."""
        if key not in self._keys:
            self._keys[key] = self._pool._take(key, make, close)
        value: T = self._keys[key]
        return value

    async def release(self) -> None:
        """May be repeated."""
        keys, self._keys = set(self._keys), {}
        if keys:
            await self._pool._release(keys)


_POOLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ResourcePool] = weakref.WeakKeyDictionary()
"""Those that have something open."""


def current_pool() -> ResourcePool:
    """The pool of the running event loop; without one, a pool that closes what nobody leases any more."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return ResourcePool(0)
    if loop not in _POOLS:
        _POOLS[loop] = ResourcePool()
    return _POOLS[loop]


async def close_pool() -> None:
    """Closes the pool of the running event loop, for programs that are about to end it."""
    pool = _POOLS.get(asyncio.get_running_loop())
    if pool is not None:
        await pool.close()
