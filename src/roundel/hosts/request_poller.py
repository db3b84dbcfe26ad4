"""Finds the control requests that other processes leave in a store for the runs that this one executes.

There is one poller for each store and event loop, whatever the number of runs: one query every POLL_SECONDS
serves all of them. It polls only while there are runs. With each few polls it also asks whether the claims
still hold: a run that appends nothing for a long time would not notice by itself that another process has
taken it over, and would go on calling models in vain.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Protocol

from roundel.journal.store import Claim, ControlRequest, Fenced, Store

POLL_SECONDS = 0.2
CLAIM_CHECKS = 5
"""Polls between two checks of the claims."""


class Controlled(Protocol):
    """A run that this process executes (local_run.py)."""

    def serve(self, request: ControlRequest) -> None:
        """Applies a request and settles it in the store; returns at once."""

    def lose(self, error: Exception) -> None:
        """Ends the execution, since the run cannot be controlled any more."""


class RequestPoller:
    """Created by `poller_of`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[Claim, Controlled] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, claim: Claim, run: Controlled) -> None:
        self._runs[claim] = run
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(), name="roundel-control-requests")

    def remove(self, claim: Claim) -> None:
        self._runs.pop(claim, None)
        if not self._runs and self._task is not None:
            self._task.cancel()
            self._task = None
            _POLLERS[asyncio.get_running_loop()].pop(self._store, None)

    async def _poll(self) -> None:
        serving: set[int] = set()
        polls = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            polls += 1
            claims = list(self._runs)
            try:
                requests = await self._store.requests(claims)
                lost = await self._store.lost(claims) if polls % CLAIM_CHECKS == 0 else []
            except Exception as error:  # whatever it is: nobody could control these runs any more
                for run in list(self._runs.values()):
                    run.lose(error)
                return
            for claim in lost:
                if claim in self._runs:
                    self._runs[claim].lose(Fenced(f"another process has taken over run {claim.run_id}"))
            by_id = {claim.run_id: run for claim, run in self._runs.items()}
            for request in requests:
                if request.number not in serving and request.run_id in by_id:
                    by_id[request.run_id].serve(request)
            # A request is open, and found again, until the run has settled it.
            serving = {request.number for request in requests}


_POLLERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Store, RequestPoller]] = (
    weakref.WeakKeyDictionary()
)
"""Those that have runs: a poller and its task refer to their store and loop, and would keep both alive."""


def poller_of(store: Store) -> RequestPoller:
    """The poller of a store on the running event loop."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    if store not in pollers:
        pollers[store] = RequestPoller(store)
    return pollers[store]
