"""`roundel lock`, `--data`, and deadlines of questions, as a person at a terminal sees them."""

from __future__ import annotations

import getpass
import signal
from pathlib import Path

import pytest

from tests.cli.stored_runs import Process, calls, has_started, open_gate, prepare, roundel, run, runs

CONFIRMED = ("--reason", "it is fine", "--cause-understood", "--cost-accepted", "--workflow-reviewed")
ASKING = """
graph:
  nodes:
    - {id: Boss, type: human, config: {description: Well?, timeout: 2h, default: "no"}}
    - {id: Yes, type: literal, config: {content: sent}}
  edges:
    - {from: Boss, to: Yes, condition: {cel: data.approved}}
  start: Boss
  end: Yes
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path, opened=False)
    (tmp_path / "asking.yaml").write_text(ASKING, encoding="utf-8")
    return tmp_path


def test_a_lock_lets_calls_in_flight_of_another_process_finish(folder: Path) -> None:
    with has_started(folder) as process:
        locked = roundel(folder, "lock", "last", "--reason", "odd", "--by", "ann")
        assert locked.exit_code == 0, locked.output
        assert "locks when its calls in flight are done" in locked.stderr
        again = roundel(folder, "lock", "last", "--reason", "odd")
        assert again.exit_code == 1
        assert "is locked already" in again.stderr
        open_gate(folder)
        assert process.end() == 3
    (tripped,) = [event for event in process.events if event["event"] == "breaker_tripped"]
    assert (tripped["data"]["trigger"], tripped["data"]["by"]) == ("manual", "ann")
    assert runs(folder)[0]["status"] == "suspended_locked"
    refused = roundel(folder, "unlock", "last", *CONFIRMED, "--limit", "max_tokens=9")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--limit has no 'max_tokens'; did you mean 'tokens'?" in refused.stderr
    unlocked = roundel(folder, "unlock", "last", *CONFIRMED)
    assert unlocked.exit_code == 4, unlocked.output
    assert "Writer[1]/Editor  asks" in unlocked.stderr
    assert calls(folder) == 1


def test_a_run_whose_process_was_killed_is_locked_at_once(folder: Path) -> None:
    with has_started(folder) as process:
        process.popen.send_signal(signal.SIGKILL)
        process.end()
    locked = roundel(folder, "lock", "last", "--reason", "odd")
    assert "is locked" in locked.stderr
    assert runs(folder)[0]["status"] == "suspended_locked"
    open_gate(folder)
    with Process(folder, "unlock", "last", *CONFIRMED) as again:
        assert again.end() == 4, again.complaints
    assert calls(folder) == 2


def test_an_answer_to_a_locked_run_is_kept(folder: Path) -> None:
    open_gate(folder)
    assert run(folder).exit_code == 4
    assert roundel(folder, "lock", "last", "--reason", "odd").exit_code == 0
    answered = roundel(folder, "answer", "last", "OK")
    assert (answered.exit_code, runs(folder)[0]["status"]) == (0, "suspended_locked")
    assert roundel(folder, "unlock", "last", *CONFIRMED).exit_code == 0
    assert runs(folder)[0]["status"] == "completed"
    over = roundel(folder, "lock", "last", "--reason", "odd")
    assert over.exit_code == 1
    assert "is over: it is completed" in over.stderr


def test_a_lock_needs_a_reason(folder: Path) -> None:
    assert roundel(folder, "lock", "last").exit_code == 2
    assert roundel(folder, "lock", "last", "--reason", " ").exit_code == 2


def test_the_deadline_of_a_question_is_shown(folder: Path) -> None:
    asked = roundel(folder, "run", "asking.yaml", "--input", "x")
    assert asked.exit_code == 4
    deadline = runs(folder)[0]["deadline"]
    assert f"Boss  asks  Well?  (answer before {deadline})" in asked.stderr
    assert f"answer before {deadline}" in roundel(folder, "answer", "last").stdout
    assert "waiting, 1 h left" in roundel(folder, "runs").stdout


def test_an_answer_may_have_data(folder: Path) -> None:
    roundel(folder, "run", "asking.yaml", "--input", "x")
    for wrong in ("[1]", "{", "7"):
        refused = roundel(folder, "answer", "last", "yes", "--data", wrong)
        assert refused.exit_code == 2
        assert "--data takes a JSON object" in refused.stderr
    answered = roundel(folder, "answer", "last", "--data", '{"approved": true}')
    assert (answered.exit_code, answered.stdout) == (0, "sent\n")
    assert (
        f'Boss  answered by {getpass.getuser()}  {{"approved": true}}'
        in roundel(folder, "log", "last").stdout
    )


def test_an_input_may_have_data(folder: Path) -> None:
    flow = "graph: {nodes: [{id: Out, type: passthrough}], start: Out, end: Out}"
    (folder / "out.yaml").write_text(flow, encoding="utf-8")
    assert roundel(folder, "run", "out.yaml", "--data", '{"n": 1}').stdout == '{"n": 1}\n'
    shown = roundel(folder, "run", "out.yaml", "--input", "one", "--data", '{"n": 1}', "--json").stdout
    assert '"output":"one","data":{"n":1}' in shown
