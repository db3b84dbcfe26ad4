"""Counts how often processes were killed, and says so at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

KILLS = "processes killed"


@pytest.fixture
def count_kills(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    return lambda number: record_property(KILLS, number)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.stats.get("passed", [])
    counts = [value for report in passed for name, value in report.user_properties if name == KILLS]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} {KILLS}, every run came to the same end")
