"""Runs in the log."""

from __future__ import annotations

import logging

import pytest

import roundel


def lines(caplog: pytest.LogCaptureFixture, level: str) -> list[str]:
    graph = roundel.Graph(start="A", end="A", log_level=level).node("A", "literal", content="x")
    with caplog.at_level(logging.DEBUG, logger="roundel"):
        roundel.run(graph)
    return [record.getMessage().split(" ", 1)[1] for record in caplog.records if record.name == "roundel"]


def test_debug_level_logs_every_event(caplog: pytest.LogCaptureFixture) -> None:
    assert [line.split()[0] for line in lines(caplog, "DEBUG")] == [
        "run_started",
        "node_state_change",
        "node_state_change",
        "run_finished",
    ]


def test_info_level_logs_completed_nodes_and_run_state(caplog: pytest.LogCaptureFixture) -> None:
    found = lines(caplog, "INFO")
    assert len(found) == 3
    assert found[1].startswith("node_state_change A {'status': 'completed'")


def test_warning_level_logs_only_problems(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, "WARNING") == []
