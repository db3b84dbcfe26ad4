"""Middleware that only looks on, at any number of runs."""

from __future__ import annotations

from contextvars import ContextVar

from roundel.hosts.middleware import Middleware
from roundel.kernel.events import Event

_watched: ContextVar[str] = ContextVar("watched")
"""The run that this task is at work on; `close`, which is told no run, learns from it which one has ended."""


class Watcher(Middleware):
    def observe(self, event: Event) -> None:
        _watched.set(event.run_id)
        self.see(event)

    async def close(self) -> None:
        run_id = _watched.get(None)
        if run_id is not None:
            self.let_go(run_id)

    def see(self, event: Event) -> None:
        raise NotImplementedError

    def let_go(self, run_id: str) -> None:
        """Nobody is at work on the run any more. If it did not say so itself, its host has failed."""
        raise NotImplementedError
