"""What is said at the end of all tests, and that none was left out where all have to run."""

from __future__ import annotations

import os
from typing import Any

import pytest

KILLS = "processes killed"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.stats.get("passed", [])
    counts = [value for report in passed for name, value in report.user_properties if name == KILLS]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} {KILLS}, every run came to the same end")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that is skipped has failed."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and os.environ.get("CI"):
        for report in skipped:
            reporter.write_line(
                f"\nskipped, where every test has to run: {report.nodeid}: {report.longrepr[-1]}"
            )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
