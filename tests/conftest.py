"""What is said at the end of all tests."""

from __future__ import annotations

from typing import Any

KILLS = "processes killed"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.stats.get("passed", [])
    counts = [value for report in passed for name, value in report.user_properties if name == KILLS]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} {KILLS}, every run came to the same end")
