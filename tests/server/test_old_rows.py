"""What lists show of rows that an earlier version wrote."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.journal.store import RunRow
from roundel.server.routes.runs import run_view

GUARD = {"kind": "rounds", "name": "Gate", "used": 2, "limit": 5, "share": 0.4}


@pytest.mark.parametrize(
    "progress", [{"guard": GUARD}, {"guards": [{**GUARD, "address": "Writer[2]"}, {**GUARD, "share": 0.1}]}]
)
def test_the_nearest_guard_is_that_of_the_row(progress: dict[str, Any]) -> None:
    shown = run_view(RunRow("r", "w", "running", 0.0, 0.0, "", 1, "", progress=progress))
    assert shown.guard is not None and shown.guard.model_dump() == GUARD


@pytest.mark.parametrize("progress", [None, {"guard": None}, {"guards": []}])
def test_a_run_without_limits_has_no_guard(progress: dict[str, Any] | None) -> None:
    assert run_view(RunRow("r", "w", "running", 0.0, 0.0, "", 1, "", progress=progress)).guard is None
