"""Marks slow tests, prints the summary line, and fails in CI if a test was skipped."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

import pytest

KILLS = "processes killed"
SLOW = (
    "tests/cli/",
    "tests/conformance/",
    "tests/crash/",
    "tests/docs/test_docs.py",
    "tests/docs/test_examples.py",
    "tests/docs/test_server_page.py",
    "tests/drawing/test_fuzz.py",
    "tests/hosts/test_cancellation.py",
    "tests/hosts/test_two_debuggers.py",
    "tests/journal/test_database.py",
    "tests/journal/test_faults.py",
    "tests/journal/test_prefixes.py",
    "tests/kernel/test_composite.py",
    "tests/kernel/test_interception.py",
    "tests/kernel/test_snapshot.py",
    "tests/kernel/test_step.py",
    "tests/kernel/test_tool_loop.py",
    "tests/llm/test_canaries.py",
    "tests/llm/test_mcp.py",
    "tests/llm/test_model_retry.py",
    "tests/llm/wire/",
    "tests/memory/test_isolation.py",
    "tests/plan/test_dense.py",
    "tests/plan/test_non_termination.py",
    "tests/plan/test_entries.py",
    "tests/plan/test_forecast.py",
    "tests/plan/test_proof.py",
    "tests/server/test_budgets.py",
    "tests/server/test_load.py",
    "tests/server/test_load_kills.py",
    "tests/server/test_schema.py",
    "tests/server/test_supervisor.py",
    "tests/server/test_system.py",
    "tests/server/test_tls.py",
    "tests/telemetry/test_export.py",
    "tests/simulation/",
    "tests/test_broken.py",
    "tests/web/test_",
    "tests/workflow/test_expression.py",
    "tests/workflow/test_functions.py",
    "tests/workflow/test_loader_fuzz.py",
    "tests/workflow/test_pattern.py",
)
"""Files and folders that `make check` leaves out: those that start processes, and the large random sweeps."""


# The model that a developer uses for agents that name none is nothing that a test depends on.
os.environ.pop("ROUNDEL_MODEL", None)

# A shell that starts a command in the background lets it ignore Ctrl-C, and so do all its descendants. The
# processes that tests interrupt must not inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported stays until the end. Without it, a full garbage collection takes 10 ms instead of
    almost a second."""
    gc.collect()
    gc.freeze()


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
