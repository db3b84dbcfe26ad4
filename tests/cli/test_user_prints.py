"""What the code of users prints goes to standard error, so that standard output is for the results alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

CODE = """
import atexit, os, subprocess, sys, threading
from roundel.extend import LoopStrategy, Middleware

KEPT = sys.stdout

def say(name):
    print(f"printed by {name}")

say("import")
atexit.register(say, "atexit")

def plain(message):
    say("plain")
    thread = threading.Thread(target=say, args=("thread",))
    thread.start()
    thread.join()
    return "plain"

async def coroutine(message):
    say("coroutine")
    KEPT.write("printed by kept\\n")
    sys.__stdout__.write("printed by dunder\\n")
    return "coroutine"

def descriptor(message):
    os.write(1, b"printed by descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('printed by program')"], check=True)
    return "descriptor"

def condition(message):
    say("condition")
    return True

def processor(message):
    say("processor")
    return message

def tool(what: str) -> str:
    say("tool")
    return what

async def async_tool(what: str) -> str:
    say("async_tool")
    return what

class Watch(Middleware):
    def begin(self, run_id, workflow, nodes):
        say("middleware begin")

    def observe(self, event):
        say("middleware observe")

    async def before(self, visit):
        say("middleware before")

class Twice(LoopStrategy):
    def init(self, state):
        say("strategy")

    def dispatch(self, state):
        return state["round"] < 2 and "again"
"""
WORKFLOW = """
middleware: ["noisy:Watch"]
tools:
  tool: {python: "noisy:tool"}
  async_tool: {python: "noisy:async_tool"}
graph:
  start: Plain
  end: Last
  nodes:
    - {id: Plain, type: python, config: {function: "noisy:plain"}}
    - {id: Coroutine, type: python, config: {function: "noisy:coroutine"}}
    - {id: Descriptor, type: python, config: {function: "noisy:descriptor"}}
    - {id: Agent, type: agent, config: {tools: [tool, async_tool]}}
    - id: Twice
      type: loop_agent
      config:
        strategy: {mode: custom, use: "noisy:Twice", max: 5}
        body: {id: Inner, type: passthrough}
    - {id: Last, type: passthrough}
  edges:
    - {from: Plain, to: Coroutine, condition: {type: function, config: {name: "noisy:condition"}}}
    - {from: Coroutine, to: Descriptor, process: {type: function, config: {name: "noisy:processor"}}}
    - {from: Descriptor, to: Agent}
    - {from: Agent, to: Twice}
    - {from: Twice, to: Last}
"""
SCRIPT = """
Agent:
  - tool_calls:
      - {name: tool, arguments: {what: a}}
  - tool_calls:
      - {name: async_tool, arguments: {what: b}}
  - done
"""
PRINTERS = (
    "import",
    "atexit",
    "plain",
    "thread",
    "coroutine",
    "kept",
    "dunder",
    "descriptor",
    "program",
    "condition",
    "processor",
    "tool",
    "async_tool",
    "middleware begin",
    "middleware observe",
    "middleware before",
    "strategy",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("noisy.py", CODE), ("noisy.yaml", WORKFLOW), ("script.yaml", SCRIPT)):
        (tmp_path / name).write_text(text)
    return tmp_path


def roundel(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "roundel", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


RUN = ("run", "noisy.yaml", "--script", "script.yaml", "--input", "go")


@pytest.mark.parametrize("stored", [True, False])
def test_each_line_of_json_is_an_object_whatever_the_code_of_a_run_prints(folder: Path, stored: bool) -> None:
    done = roundel(folder, *RUN, "--json", *(() if stored else ("--no-store",)))
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["data"]["status"] == "completed"
    for printer in PRINTERS:
        assert f"printed by {printer}\n" in done.stderr


def test_the_result_of_a_run_is_all_that_standard_output_has(folder: Path) -> None:
    done = roundel(folder, *RUN)
    assert (done.stdout, done.returncode) == ("again\n", 0)
    assert "printed by tool\n" in done.stderr


@pytest.mark.parametrize("command", ["check", "forecast"])
def test_commands_that_only_load_the_code_print_json_alone(folder: Path, command: str) -> None:
    done = roundel(folder, command, "noisy.yaml", "--json")
    for line in done.stdout.splitlines():
        json.loads(line)
    assert "printed by import" in done.stderr


def test_help_and_version_still_go_to_standard_output(folder: Path) -> None:
    assert "Usage: " in roundel(folder, "run", "--help").stdout
    assert "roundel" in roundel(folder, "--version").stdout


def test_a_closed_standard_error_does_not_put_prints_into_the_results(folder: Path) -> None:
    command = [sys.executable, "-m", "roundel", *RUN, "--json", "--no-store"]
    shell = ["sh", "-c", '"$@" 2>&-', "sh", *command]
    done = subprocess.run(shell, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "run_finished"


def test_prints_appear_above_the_live_view_and_leave_the_result_alone(folder: Path) -> None:
    """Standard output is a file, and the display is in the terminal."""
    terminal = Terminal(folder, *RUN, output=folder / "result")
    assert terminal.end() == 0
    assert (folder / "result").read_text() == "again\n"
    lines = [line.strip() for line in terminal.lines]
    for printer in ("plain", "thread", "coroutine", "tool", "async_tool", "strategy"):
        assert f"printed by {printer}" in lines
