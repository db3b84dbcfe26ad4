"""A workflow for tests of stored runs, and the commands that these tests use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from roundel.cli import cli

FLOW = """
graph:
  id: press
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Gate, type: python, config: {function: "gate:pass_through"}}
    - {id: Editor, type: human, config: {description: "OK, or what to change?"}}
    - {id: Guard, type: loop_counter, config: {max_iterations: 4}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Gate}
    - {from: Gate, to: Editor}
    - {from: Editor, to: Writer, condition: {cel: 'text != "OK"'}}
    - {from: Editor, to: Guard, condition: {cel: 'text != "OK"'}}
    - {from: Editor, to: Final, condition: {cel: 'text == "OK"'}, carry_data: false}
    - {from: Writer, to: Final, trigger: false, clear_context: true}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final, carry_data: false}
"""
GATE = """
import time
from pathlib import Path

def pass_through(text):
    with Path("calls").open("a") as calls:
        calls.write("x")
    while not Path("open").exists():
        time.sleep(0.01)
    return text
"""
SCRIPT = """
Writer:
  - {text: first draft, data: {score: 40}, tokens: {input: 10, output: 5}}
  - {text: second draft, data: {score: 90}, tokens: {input: 20, output: 5}}
"""


def prepare(folder: Path, *, opened: bool = True) -> None:
    """A writer, a gate that holds the run up until it is opened, and an editor who is not there."""
    (folder / "flow.yaml").write_text(FLOW)
    (folder / "gate.py").write_text(GATE)
    (folder / "script.yaml").write_text(SCRIPT)
    if opened:
        open_gate(folder)


def open_gate(folder: Path) -> None:
    (folder / "open").touch()


def calls(folder: Path) -> int:
    """How often the gate was called."""
    file = folder / "calls"
    return len(file.read_text()) if file.exists() else 0


def roundel(folder: Path, *arguments: str, input: str | None = None) -> Result:
    """A command in this process, which is quick."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(cli, arguments, input=input)
    finally:
        os.chdir(before)


def run(folder: Path, *more: str) -> Result:
    return roundel(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "tea", *more)


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in roundel(folder, "runs", "--json").stdout.splitlines()]


class Process:
    """A command in a process of its own, with its events."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._said = ""
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "roundel", *arguments, "--json"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.events: list[dict[str, Any]] = []

    def until(self, seen: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            event: dict[str, Any] = json.loads(line)
            self.events.append(event)
            if seen(event):
                return event
        raise AssertionError(f"it never happened: {self.events}")

    def until_running(self, node: str) -> None:
        self.until(lambda event: event.get("node_id") == node and event["data"].get("status") == "running")

    def end(self) -> int:
        assert self.popen.stdout is not None
        rest = [json.loads(line) for line in self.popen.stdout]
        # How far the run is, once a second, depends on time.
        self.events += [event for event in rest if event["event"] != "run_progress"]
        return self.popen.wait(timeout=60)

    @property
    def complaints(self) -> str:
        """What it wrote to standard error, also when all is over."""
        if not self._complaints.closed:
            self._complaints.seek(0)
            self._said = self._complaints.read()
        return self._said

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self.popen.wait()
        assert self.complaints is not None
        self._complaints.close()


def has_started(folder: Path) -> Process:
    """A run that has come to the gate."""
    process = Process(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "tea")
    process.until_running("Gate")
    # Not only until the file is there: one that is killed before it has written leaves an empty one.
    while not calls(folder):
        assert process.popen.poll() is None, process.complaints
        time.sleep(0.01)
    return process
