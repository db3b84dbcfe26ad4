"""What a host asks a person, and what it tells of a run that has come to rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from roundel.kernel.state import Run
from roundel.workflow.message import Message


class Question(Struct, frozen=True):
    """What a person is asked."""

    address: str
    node_id: str
    prompt: str
    inputs: tuple[Message, ...]
    tool: dict[str, Any] | None = None
    """The name and arguments of a tool call that a person is to allow."""


Asker = Callable[[Question], Awaitable[str]]


class Result(Struct, frozen=True):
    run_id: str
    status: str
    """completed, failed, suspended_locked, waiting or stopped."""
    output: str
    data: dict[str, Any] | None
    nodes: dict[str, int]
    """How often each node ran."""
    loops: dict[str, dict[str, Any]]
    """For each loop its `rounds`, `exit_reason` and `entries`."""
    usage: dict[str, Any]
    error: str | None
    summary: dict[str, Any]
    """All of this as the event `run_finished` has it."""

    @property
    def completed(self) -> bool:
        return self.status == "completed"


def result_of(state: Run) -> Result:
    summary = state.summary()
    return Result(
        state.run_id,
        state.status,
        summary["output"],
        summary.get("data"),
        summary["nodes"],
        summary["loops"],
        summary["usage"],
        state.error,
        summary,
    )
