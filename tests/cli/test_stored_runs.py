"""Runs that outlive their process, and are steered from others."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.stored_runs import Process, calls, has_started, open_gate, prepare, roundel, run, runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path, opened=False)
    return tmp_path


def test_a_killed_run_resumes_where_it_was(folder: Path) -> None:
    with has_started(folder) as process:
        process.popen.send_signal(signal.SIGKILL)
        process.end()
    (row,) = runs(folder)
    assert (row["status"], row["owner"]) == ("running", None)
    open_gate(folder)
    with Process(folder, "resume", "last") as again:
        assert again.end() == 4, again.complaints
    assert [event["event"] for event in again.events][-1] == "run_summary"
    assert again.events[0]["seq"] == process.events[-1]["seq"] + 1, "not an event is missing or comes twice"
    assert again.events[-1]["data"]["nodes"] == {"Writer": 1, "Gate": 1, "Editor": 1}
    assert again.events[-1]["data"]["usage"]["model_calls"] == 1, "the writer was not asked again"
    assert calls(folder) == 2, "what was cut off half-way is done again"


def test_a_pause_lets_calls_in_flight_finish(folder: Path) -> None:
    with has_started(folder) as process:
        paused = roundel(folder, "pause", "last")
        assert paused.exit_code == 0, paused.output
        assert "roundel resume" in paused.stderr
        open_gate(folder)
        assert process.end() == 4
    *_, changed, summary = process.events
    assert (changed["event"], changed["data"]["status"]) == ("run_state_change", "paused")
    assert (summary["event"], summary["data"]["status"]) == ("run_summary", "paused")
    assert runs(folder)[0]["status"] == "paused"
    resumed = roundel(folder, "resume", "last")
    assert resumed.exit_code == 4
    assert "Writer[1]/Editor  asks" in resumed.stderr
    assert calls(folder) == 1


def test_a_pause_is_resumed_before_it_takes_effect(folder: Path) -> None:
    with has_started(folder) as process:
        assert roundel(folder, "pause", "last").exit_code == 0
        resumed = roundel(folder, "resume", "last")
        assert resumed.exit_code == 0
        assert "continues in the process that executes it" in resumed.stderr
        open_gate(folder)
        assert process.end() == 4
    assert process.events[-1]["data"]["status"] == "waiting"


def test_a_run_is_stopped_from_another_process(folder: Path) -> None:
    with has_started(folder) as process:
        stopped = roundel(folder, "stop", "last")
        assert (stopped.exit_code, "is stopped" in stopped.stderr) == (0, True)
        assert process.end() == 130
        open_gate(folder)
    assert (process.events[-1]["event"], process.events[-1]["data"]["status"]) == ("run_finished", "stopped")
    assert runs(folder)[0]["status"] == "stopped"
    again = roundel(folder, "stop", "last")
    assert again.exit_code == 1
    assert "is stopped" in again.stderr


def test_an_answer_reaches_the_process_that_executes_the_run(folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        """
graph:
  start: [Gate, Editor]
  end: Both
  nodes:
    - {id: Gate, type: python, config: {function: "gate:pass_through"}}
    - {id: Editor, type: human}
    - {id: Both, type: python, config: {function: "both:both"}}
  edges: [{from: Gate, to: Both}, {from: Editor, to: Both}]
"""
    )
    (folder / "both.py").write_text("def both(messages):\n    return ' + '.join(m.text for m in messages)\n")
    with Process(folder, "run", "flow.yaml", "--input", "tea") as process:
        process.until(lambda event: event["event"] == "human_input_required")
        answered = roundel(folder, "answer", "last", "yes")
        assert (answered.exit_code, "in the process that executes it" in answered.stderr) == (0, True)
        open_gate(folder)
        assert process.end() == 0, process.complaints
    assert process.events[-1]["data"]["output"] == "tea + yes"


def test_no_other_process_can_execute_a_run_meanwhile(folder: Path) -> None:
    with has_started(folder) as process:
        assert runs(folder)[0]["owner"] == f"process {process.popen.pid}"
        busy = roundel(folder, "resume", "last")
        assert busy.exit_code == 1
        assert f"another process executes run {runs(folder)[0]['run_id']}" in busy.stderr
        assert "--follow" in busy.stderr
        pruned = roundel(folder, "prune", "last", "--keep", "nothing")
        assert pruned.exit_code == 1 and "is running" in pruned.stderr
        open_gate(folder)
        assert process.end() == 4


def test_log_follow_streams_until_the_run_ends(folder: Path) -> None:
    with has_started(folder) as process, Process(folder, "log", "last", "--follow") as looker:
        looker.until_running("Gate")
        open_gate(folder)
        assert process.end() == 4
        looker.until(lambda event: event["event"] == "human_input_required")
        assert roundel(folder, "answer", "last", "OK").exit_code == 0
        assert looker.end() == 0
    assert [event["seq"] for event in looker.events] == list(range(1, len(looker.events) + 1))
    assert looker.events[-1]["event"] == "run_finished"


def test_a_question_is_answered_later_round_by_round(folder: Path) -> None:
    open_gate(folder)
    waiting = run(folder)
    assert waiting.exit_code == 4
    (row,) = runs(folder)
    assert f"run {row['run_id']}\n" in waiting.stderr
    assert waiting.stderr.endswith(f"next: roundel answer {row['run_id']}\n")
    complete = roundel(folder, "answer", "last")
    assert complete.exit_code == 0
    assert "Writer[1]/Editor" in complete.stdout and "first draft" in complete.stdout
    assert "OK, or what to change?" in complete.stdout
    assert roundel(folder, "answer", "last", "-", input="shorter\n").exit_code == 4
    recorded = roundel(folder, "answer", "last", "OK", "--at", "Writer[2]/Editor", "--no-run")
    assert (recorded.exit_code, "next: roundel resume" in recorded.stderr) == (0, True)
    done = roundel(folder, "resume", "last")
    assert (done.exit_code, done.stdout) == (0, "second draft\n")
    assert calls(folder) == 2


def test_an_answer_to_a_paused_run_leaves_it_paused(folder: Path) -> None:
    open_gate(folder)
    run(folder)
    assert roundel(folder, "pause", "last").exit_code == 0
    assert runs(folder)[0]["status"] == "paused"
    answered = roundel(folder, "answer", "last", "OK")
    assert (answered.exit_code, "next: roundel resume" in answered.stderr) == (0, True)
    assert runs(folder)[0]["status"] == "paused"
    assert roundel(folder, "resume", "last").stdout == "first draft\n"


def test_resume_works_after_files_are_deleted_or_changed(folder: Path) -> None:
    open_gate(folder)
    run(folder)
    (folder / "flow.yaml").unlink()
    (folder / "script.yaml").unlink()
    roundel(folder, "answer", "last", "again")
    done = roundel(folder, "answer", "last", "OK")
    assert (done.exit_code, done.stdout) == (0, "second draft\n")


@pytest.mark.parametrize("command", ["resume", "answer"])
def test_terminal_shows_the_run_id_and_keeps_prompting(folder: Path, command: str) -> None:
    open_gate(folder)
    run(folder)
    run_id = runs(folder)[0]["run_id"]
    arguments = [sys.executable, "-m", "roundel", command, "last"]
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        arguments, cwd=folder, stdin=follower, stdout=subprocess.PIPE, stderr=follower, env=environment
    )
    os.close(follower)
    screen = read_until(leader, "first draft", "what to change?")
    os.write(leader, b"OK\n")
    screen += read_until(leader, "exit_edge")  # in the table at the end
    assert process.stdout is not None
    assert process.stdout.read().decode() == "first draft\n"
    assert process.wait(timeout=60) == 0, screen
    process.stdout.close()
    os.close(leader)
    assert run_id in screen


def read_until(terminal: int, *texts: str) -> str:
    """What appears on a terminal, until all of the texts have."""
    seen, until = "", time.monotonic() + 60
    while not all(text in seen for text in texts):
        assert time.monotonic() < until, f"no {texts} in {seen!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen


def test_help_and_check_do_not_import_the_store() -> None:
    heavy = "{'sqlite3', 'asyncio', 'rich', 'roundel.runs', 'roundel.journal'}"
    # What is there before, measures coverage.
    code = "import sys; there = set(sys.modules); import roundel.cli, roundel.cli.workflows; "
    code += f"print({heavy} & (set(sys.modules) - there))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
