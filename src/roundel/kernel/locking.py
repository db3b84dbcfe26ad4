"""Limits lock a run; they do not kill it."""

from __future__ import annotations

from typing import Any

from roundel.kernel.state import Lock, Run


def lock(
    run: Run,
    what: str,
    limit: float,
    node_id: str,
    address: str,
    evidence: dict[str, Any] | None = None,
    *,
    tell: bool = True,
) -> None:
    """A limit is met: nothing new begins until a person unlocks the run."""
    if tell:
        data = {"what": what, "limit": limit, "address": address, **(evidence or {})}
        run.emit("limit_reached", node_id, address, data)
    if run.lock is None:
        run.lock = Lock(what, limit, address, node_id, evidence or {})
        run.lock_budget = None
        run.smooth = False
