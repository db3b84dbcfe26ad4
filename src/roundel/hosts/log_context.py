"""Which run a line of the log is about: for formatters of logs, such as that of the server."""

from __future__ import annotations

from contextvars import ContextVar

RUN_ID: ContextVar[str] = ContextVar("roundel_run_id", default="")
"""The id of the run that the current task executes; empty outside of runs."""
