"""A run that was locked, whose processes were killed, and that another one unlocked with a higher limit goes
the way of a run that had the higher limit from the start."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stored_runs import Process, roundel
from tests.events import timeless

FLOW = """
breaker: false
graph:
  id: press
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent, config: {tools: [note]}}
    - {id: Critic, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 6}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Critic}
    - {from: Critic, to: Writer}
    - {from: Critic, to: Guard}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final}
tools:
  note: {python: "notes:note"}
"""
NOTES = """
from pathlib import Path

def note(word: str, idempotency_key: str) -> str:
    with Path("noted").open("a") as noted:
        noted.write(f"{idempotency_key.partition(':')[2]}\\n")
    return f"noted {word}"
"""
DRAFTS = [
    line
    for number in range(6)
    for line in (
        {
            "tool_calls": [{"name": "note", "arguments": {"word": f"w{number}"}}],
            "tokens": {"input": 10, "output": 5},
        },
        {"text": f"draft {number}", "tokens": {"input": 20, "output": 5}},
    )
]
CRITIC = [{"text": f"not yet, {number}", "tokens": {"input": 8, "output": 2}} for number in range(6)]
LIMITS = {
    "rounds": (3, 50),
    "steps": (7, 500),
    "model_calls": (8, 500),
    "tool_calls": (3, 500),
    "tokens": (150, 5000),
}
LOCKING = ("limit_reached", "breaker_unlocked", "run_state_change")
CHECKED = ("--reason", "go on", "--cause-understood", "--cost-accepted", "--workflow-reviewed")


def prepare(folder: Path) -> None:
    folder.mkdir()
    (folder / "flow.yaml").write_text(FLOW)
    (folder / "notes.py").write_text(NOTES)
    (folder / "script.yaml").write_text(json.dumps({"Writer": DRAFTS, "Critic": CRITIC}))


def arguments(limit: str) -> tuple[str, ...]:
    return ("run", "flow.yaml", "--script", "script.yaml", "--input", "tea", "--limit", limit)


def trace(folder: Path) -> list[tuple[Any, ...]]:
    lines = roundel(folder, "log", "last", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return [
        (event["event"], event.get("address"), without_times(event))
        for event in events
        if event["event"] not in LOCKING
    ]


def without_times(event: dict[str, Any]) -> dict[str, Any]:
    """Its data without what depends on the clock, and on the limits of the run."""
    data = timeless(event["data"])
    if event["event"] not in ("run_started", "loop_round"):
        return data
    left_out = ("limit", "limit_by", "limits")
    return {name: value for name, value in data.items() if name not in left_out}


def killed(folder: Path, *command: str, after: int) -> None:
    """The process dies when it has shown so many events, or ends if there are no more."""
    with Process(folder, *command) as process:
        assert process.popen.stdout is not None
        for _, _line in zip(range(after), process.popen.stdout, strict=False):
            pass
        process.popen.send_signal(signal.SIGKILL)
        process.popen.wait()


def status_of(folder: Path) -> str:
    status: str = json.loads(roundel(folder, "runs", "--json").stdout)["status"]
    return status


@pytest.mark.parametrize("what", LIMITS)
def test_killed_locked_run_is_unlocked_in_another_process(what: str, tmp_path: Path) -> None:
    low, high = LIMITS[what]
    plain, folder = tmp_path / "plain", tmp_path / "locked"
    prepare(plain)
    assert roundel(plain, *arguments(f"{what}={high}")).exit_code == 0
    prepare(folder)
    killed(folder, *arguments(f"{what}={low}"), after=5)
    with Process(folder, "resume", "last") as process:
        process.until(lambda event: event["event"] == "limit_reached")
        process.popen.send_signal(signal.SIGKILL)
    if status_of(folder) == "running":  # it died before it could say so
        assert roundel(folder, "resume", "last").exit_code == 1
    killed(folder, "unlock", "last", *CHECKED, "--limit", f"{what}={high}", after=6)
    if status_of(folder) != "completed":  # it may have been quicker than the signal
        with Process(folder, "resume", "last") as process:
            assert process.end() == 0, process.complaints
    assert trace(folder) == trace(plain)
    assert sorted(set((folder / "noted").read_text().splitlines())) == sorted(
        (plain / "noted").read_text().splitlines()
    )
