"""Share resources between runs: HTTP clients, clients of models, sessions with MCP servers.

Opening a resource takes from milliseconds to seconds, so resources belong to the process and not to a
run. There is one pool for each event loop, since a resource is bound to the loop on which it was opened.
A run takes a *lease*. When the last lease on a resource is released, the resource stays open for
IDLE_SECONDS, for the next run that needs it.

A cleanup task of the pool closes resources that have been idle for too long, and ends when the pool is
empty. If the event loop ends first, it cancels the cleanup task like every task, and that then closes
everything. So nothing stays open, although no program has to close the pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from roundel.workflow.allow_list import TRUSTED, Policy

T = TypeVar("T")
IDLE_SECONDS = 60.0
logger = logging.getLogger("roundel")


class _Resource:
    """One open resource, and how many leases use it."""

    def __init__(self, value: Any, close: Callable[[], Awaitable[object]]) -> None:
        self.value, self.close = value, close
        self.leases = 0
        self.expires = 0.0
        """When an idle resource is closed, by the clock of the event loop; meaningless while it is
        leased."""


class ResourcePool:
    """The shared resources of one event loop. `current_pool` creates it; runs use it through a
    `ResourceLease`.

    It needs no lock: all methods run on the event loop, and the table is changed only between awaits. A
    resource is removed from the table before its `close` is awaited, so a run that needs it meanwhile
    opens a new one instead of getting one that is being closed."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._resources: dict[Hashable, _Resource] = {}
        self._cleanup_task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        """Wakes the cleanup task: another resource has become idle, and may expire earlier."""

    def __len__(self) -> int:
        return len(self._resources)

    def lease(self, policy: Policy = TRUSTED) -> ResourceLease:
        return ResourceLease(self, policy)

    def _take(self, key: Hashable, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> T:
        resource = self._resources.get(key)
        if resource is None:
            made = make()  # never awaits, so two runs cannot create the same resource at the same time
            resource = self._resources[key] = _Resource(made, lambda: close(made))
        resource.leases += 1
        value: T = resource.value
        return value

    async def _release(self, keys: set[Hashable]) -> None:
        idle = []
        for key in keys:
            resource = self._resources.get(key)
            if resource is None:
                continue  # `close` has removed it in the meantime
            resource.leases -= 1
            if not resource.leases:
                idle.append(key)
        if not idle:
            return
        task = asyncio.current_task()
        if self._idle_seconds <= 0 or (task is not None and task.cancelling()):
            # The loop may be ending: it cancels all tasks that exist at that moment, of which this run
            # is one. A cleanup task that is created now would not be cancelled, and so would never close
            # anything.
            await self._close(idle)
            return
        expires = asyncio.get_running_loop().time() + self._idle_seconds
        for key in idle:
            self._resources[key].expires = expires
        self._changed.set()
        if self._cleanup_task is None:
            self._cleanup_task = asyncio.create_task(self._close_expired(), name="roundel-resource-pool")

    async def _close_expired(self) -> None:
        """The cleanup task. It ends when the pool is empty, so that an idle event loop has no task of
        ours."""
        try:
            while self._resources:
                # Cleared before the table is read: a release after this point sets it again.
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
            # The event loop is ending. Leased resources are closed too: their runs are being cancelled
            # as well.
            await self._close(list(self._resources))
            raise
        finally:
            # The task refers to its loop, and the pool to the task: a pool that stayed in _POOLS would
            # keep a loop alive that has ended.
            self._cleanup_task = None
            loop = asyncio.get_running_loop()
            if not self._resources and _POOLS.get(loop) is self:
                del _POOLS[loop]

    async def close(self) -> None:
        """Closes everything, leased or not. Leases that are released later find nothing to release."""
        await self._close(list(self._resources))
        if self._cleanup_task is not None:
            self._cleanup_task.cancel()

    async def _close(self, keys: list[Hashable]) -> None:
        # All are popped before the first await. One that cannot be closed must not keep the others open.
        closing = [self._resources.pop(key).close() for key in keys]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, Exception):
                logger.warning("a shared resource could not be closed", exc_info=error)


class ResourceLease:
    """What one run uses of a pool. Created by `ResourcePool.lease`; the host releases it when the run
    ends.

    It counts each resource once, however often the run takes it, so a run cannot leak a count."""

    def __init__(self, pool: ResourcePool, policy: Policy = TRUSTED) -> None:
        self._pool = pool
        self.policy = policy
        """What the run may connect to. Whoever opens a connection gets the lease, so the policy is here."""
        self._keys: dict[Hashable, Any] = {}

    def take(self, key: Hashable, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> T:
        """The resource with this key, created if the pool has none. `key` has to contain everything that
        `make` depends on, secrets included: runs with equal keys share the resource."""
        if key not in self._keys:
            self._keys[key] = self._pool._take(key, make, close)
        value: T = self._keys[key]
        return value

    async def release(self) -> None:
        """Releases all resources of the lease. It may be called again."""
        keys, self._keys = set(self._keys), {}
        if keys:
            await self._pool._release(keys)


_POOLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ResourcePool] = weakref.WeakKeyDictionary()
"""The pools in use. Weak, so that a loop that ends without its pool being closed can be collected."""


def current_pool() -> ResourcePool:
    """The pool of the running event loop. Without a loop, a new pool that closes resources as soon as no
    lease uses them, since there is no loop on which a cleanup task could run."""
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
