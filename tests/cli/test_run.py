"""`roundel run`, as a person or a program calls it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.events import timeless

REVIEW = """
graph:
  id: review
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Reviewer, type: human, config: {description: Say ACCEPT or what is wrong.}}
    - {id: Guard, type: loop_counter, config: {max_iterations: "${ROUNDS}"}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer, condition: {type: keyword, config: {none: [ACCEPT]}}}
    - {from: Reviewer, to: Guard, condition: {type: keyword, config: {none: [ACCEPT]}}}
    - {from: Reviewer, to: Final, condition: {type: keyword, config: {any: [ACCEPT]}}}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final}
vars: {ROUNDS: 3}
"""
SCRIPT = "Writer: [one, two, three]\nReviewer: [shorter, ACCEPT]\n"
ENDLESS = """
graph:
  start: A
  end: Out
  limits: {rounds: 100000000}
  nodes:
    - {id: A, type: literal, config: {content: x}}
    - {id: B, type: passthrough}
    - {id: Out, type: passthrough}
  edges:
    - {from: A, to: B}
    - {from: B, to: A}
    - {from: B, to: Out, condition: {type: keyword, config: {any: [z]}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "review.yaml").write_text(REVIEW)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    return tmp_path


def roundel(folder: Path, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "roundel", *arguments]
    stdin = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **stdin,
    )


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_result_goes_to_stdout_and_progress_to_stderr(folder: Path) -> None:
    done = roundel(folder, "run", "review.yaml", "--script", "script.yaml", "--input", "tea")
    assert (done.returncode, done.stdout) == (0, "ACCEPT\n")
    assert "Writer[2]/Reviewer" in done.stderr
    assert "\x1b" not in done.stderr, "no colours where nobody sees them"


def test_json_prints_one_event_per_line_ending_with_run_finished(folder: Path) -> None:
    done = roundel(folder, "run", "review.yaml", "--script", "script.yaml", "--input", "tea", "--json")
    found = events(done)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert list(found[1]) == ["seq", "event", "timestamp", "run_id", "node_id", "address", "data", "path"]
    assert found[0]["event"] == "run_started"
    assert found[0]["data"] == {"workflow": "review", "input": "tea"}
    assert found[-1]["event"] == "run_finished"
    assert found[-1]["data"]["loops"] == {"Writer": {"rounds": 2, "exit_reason": "exit_edge", "entries": 1}}
    assert done.stderr.startswith("next: ") and done.stderr.count("\n") == 1


def test_input_from_standard_input(folder: Path) -> None:
    done = roundel(
        folder, "run", "review.yaml", "--script", "script.yaml", "--input", "-", "--json", input="寿司\n"
    )
    assert events(done)[0]["data"]["input"] == "寿司\n"


def test_variables_are_read_with_their_types(folder: Path) -> None:
    (folder / "never.yaml").write_text("Writer: [one]\nReviewer: [no]\n")
    done = roundel(folder, "run", "review.yaml", "--script", "never.yaml", "--var", "ROUNDS=2", "--json")
    assert events(done)[-1]["data"]["nodes"]["Writer"] == 2


def test_a_limit_locks_the_run(folder: Path) -> None:
    (folder / "never.yaml").write_text("Writer: [one]\nReviewer: [no]\n")
    done = roundel(folder, "run", "review.yaml", "--script", "never.yaml", "--limit", "rounds=2", "--json")
    assert done.returncode == 3
    *_, changed, summary = events(done)
    assert (changed["event"], changed["data"]["status"]) == ("run_state_change", "suspended_locked")
    assert summary["event"] == "run_summary"
    assert summary["data"]["status"] == "suspended_locked"
    assert "seq" not in summary
    assert (
        roundel(folder, "run", "review.yaml", "--script", "never.yaml", "--limit", "steps=4").returncode == 3
    )


@pytest.mark.parametrize(
    ("limit", "status", "rounds"),
    [
        ("Writer.rounds=2", "suspended_locked", 2),  # the cap of the loop
        ("Guard.rounds=1", "completed", 1),  # the guard's own
        ("Writer.model_calls=2", "suspended_locked", 3),  # refused in the third round
        ("Writer.Writer.output_tokens=5", "completed", 3),
        ("unpriced=allow", "completed", 3),
    ],
)
def test_limit_of_one_loop_or_node(folder: Path, limit: str, status: str, rounds: int) -> None:
    (folder / "never.yaml").write_text("Writer: [one]\nReviewer: [no]\n")
    done = roundel(folder, "run", "review.yaml", "--script", "never.yaml", "--limit", limit, "--json")
    summary = events(done)[-1]["data"]
    assert (summary["status"], summary["loops"]["Writer"]["rounds"]) == (status, rounds)


def test_unanswered_question_leaves_the_run_waiting(folder: Path) -> None:
    (folder / "writer.yaml").write_text("Writer: [one]\n")
    done = roundel(folder, "run", "review.yaml", "--script", "writer.yaml", "--json")
    assert done.returncode == 4
    *_, changed, summary = events(done)
    place = "Writer[1]/Reviewer"
    told = {"status": "waiting", "reason": f"for {place}", "cause": "question", "questions": [place]}
    assert timeless(changed["data"]) == told
    assert summary["data"]["status"] == "waiting"
    plain = roundel(folder, "run", "review.yaml", "--script", "writer.yaml")
    assert plain.returncode == 4
    assert "waiting for Writer[1]/Reviewer" in plain.stderr


def test_a_failed_run(folder: Path) -> None:
    (folder / "broken.yaml").write_text("Writer: [{error: no credit}]\n")
    done = roundel(folder, "run", "review.yaml", "--script", "broken.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed: Writer[1]/Writer: no credit" in done.stderr


def test_missing_model_is_reported_before_the_run(folder: Path) -> None:
    done = roundel(folder, "run", "review.yaml", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "review.yaml:7:7: error: agent 'Writer' has no model" in done.stderr
    assert "--script" in done.stderr


def test_warnings_do_not_stop_a_run(folder: Path) -> None:
    (folder / "review.yaml").write_text(REVIEW + "colour: blue\n")
    done = roundel(folder, "run", "review.yaml", "--script", "script.yaml")
    assert done.returncode == 0
    assert "unknown key 'colour'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "Missing argument 'FILE'"),
        (["run", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "review.yaml", "--limit", "rounds"], "X.NAME=N"),
        (["run", "review.yaml", "--limit", "Writer.rounds=0"], "above 0"),
        (["run", "review.yaml", "--limit", "Wirter.rounds=2"], "did you mean 'Writer'"),
        (["run", "review.yaml", "--limit", "Nobody.rounds=2"], "there are Final, Guard, Reviewer, Writer"),
        (["run", "review.yaml", "--limit", "Final.rounds=2"], "'Final' has no rounds"),
        (["run", "review.yaml", "--limit", "unpriced=never"], "lock or allow"),
        (["run", "review.yaml", "--limit", "tokens_per_call=0"], "above 0"),
        (["run", "review.yaml", "--limit", "rounds=0"], "above 0"),
        (["run", "review.yaml", "--limit", "rounds=many"], "whole number"),
        (["run", "review.yaml", "--limit", "sandwiches=3"], "no 'sandwiches'; known limits: rounds, steps"),
        (["run", "review.yaml", "--limit", "rouns=3"], "no 'rouns'; did you mean 'rounds'?"),
        (["run", "review.yaml", "--limit", "Writer.max_tokens=3"], "did you mean 'tokens'?"),
        (["run", "review.yaml", "--var", "=3"], "NAME=VALUE"),
        (["run", "review.yaml", "--var", "ROUND=3"], "did you mean 'ROUNDS'?"),
        (["run", "review.yaml", "--var", "TOPIC=tea"], "no variable 'TOPIC' [unknown-variable]"),
        (["run", "review.yaml", "--script", "nowhere.yaml"], "nowhere.yaml"),
        (["runn"], "did you mean 'run'?"),
        (["run", "review.yaml", "--scrip", "x"], "--script"),
    ],
)
def test_bad_usage(folder: Path, arguments: list[str], said: str) -> None:
    done = roundel(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_output_pipe_ends_the_run(folder: Path) -> None:
    command = f"{sys.executable} -m roundel run endless.yaml --json | head -n 2"
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr


def test_terminal_prompts_for_human_input(folder: Path) -> None:
    (folder / "writer.yaml").write_text("Writer: [first draft, second draft]\n")
    command = [
        sys.executable,
        "-m",
        "roundel",
        "run",
        "review.yaml",
        "--script",
        "writer.yaml",
        "--input",
        "tea",
    ]
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        command, cwd=folder, stdin=follower, stdout=subprocess.PIPE, stderr=follower, env=environment
    )
    os.close(follower)
    screen = _read_until(leader, "first draft", "ACCEPT or what is wrong")
    os.write(leader, b"make it longer\n")
    screen += _read_until(leader, "second draft", "ACCEPT or what is wrong")
    os.write(leader, b"ACCEPT at last\n")
    assert process.stdout is not None
    out = process.stdout.read().decode()
    assert process.wait(timeout=60) == 0, screen
    process.stdout.close()
    os.close(leader)
    assert out == "ACCEPT at last\n"


def _read_until(terminal: int, *texts: str) -> str:
    """What appears on a terminal, until all of the texts have."""
    seen, until = "", time.monotonic() + 60
    while not all(text in seen for text in texts):
        assert time.monotonic() < until, f"no {texts} in {seen!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen
