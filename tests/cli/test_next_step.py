"""The last line on standard error names the next command, which can be copied into the shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.stored_runs import roundel
from tests.cli.test_safe_output import in_terminal

PROGRAM = Path(sys.executable).with_name("roundel")
FLOW = """
breaker: false
graph:
  id: press
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Editor, type: human, config: {description: "OK, or what to change?"}}
    - {id: Guard, type: loop_counter, config: {max_iterations: 4}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Editor}
    - {from: Editor, to: Writer, condition: {cel: 'text != "OK"'}}
    - {from: Editor, to: Guard, condition: {cel: 'text != "OK"'}}
    - {from: Editor, to: Final, condition: {cel: 'text == "OK"'}}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final}
"""
CHECKED = "--cause-understood --cost-accepted --workflow-reviewed"
DONE, FAILED, INVALID, LOCKED, WAITING = 0, 1, 2, 3, 4


class Shell:
    """In a folder whose name has to be quoted, with the program on the path as `roundel`."""

    def __init__(self, folder: Path, store: str = "") -> None:
        self.folder = folder
        self.store = f" --store {shlex.quote(store)}" if store else ""
        self.environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
        self.environment.pop("ROUNDEL_STORE", None)

    def __call__(self, command: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert code is None or done.returncode == code, f"{command}: {done.stderr}"
        return done

    def run(self, script: object, *more: str, code: int) -> str:
        """Runs the workflow; what is next."""
        (self.folder / "script.json").write_text(json.dumps(script))
        options = " ".join((*more, self.store))
        return next_of(self(f"roundel run flow.yaml --script script.json --input tea {options}", code))

    def last(self) -> str:
        line = roundel(self.folder, *shlex.split(f"runs --json --limit 1{self.store}")).stdout
        run_id: str = json.loads(line)["run_id"]
        return run_id


def next_of(done: subprocess.CompletedProcess[str]) -> str:
    last = done.stderr.splitlines()[-1]
    assert last.startswith("next: "), done.stderr
    assert "next: " not in done.stdout
    return last.removeprefix("next: ")


ODD = "the runs/of $HOME's.db"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "it's here"
    folder.mkdir()
    (folder / "flow.yaml").write_text(FLOW)
    return Shell(folder, ODD)


@pytest.mark.parametrize("store", ["", ODD, "sqlite:///runs.db?sync=normal"])
def test_suggested_command_names_the_store(shell: Shell, store: str) -> None:
    shell.store = f" --store {shlex.quote(store)}" if store else ""
    ask = shell.run({"Writer": ["one", "two"]}, code=WAITING)
    assert ask == f"roundel answer {shell.last()}{shell.store}"
    assert "OK, or what to change?" in shell(ask, DONE).stdout


def test_suggested_commands_lead_a_run_from_start_to_end(shell: Shell) -> None:
    ask = shell.run({"Writer": ["one", "two"]}, code=WAITING)
    assert ask == f"roundel answer {shell.last()}{shell.store}"
    complete = shell(ask, DONE)
    assert "OK, or what to change?" in complete.stdout
    answer = next_of(complete)
    assert answer == f"roundel answer {shell.last()} TEXT{shell.store}"
    answered = shell(f"{answer} --no-run", DONE)
    resume = next_of(answered)
    assert resume == f"roundel resume {shell.last()}{shell.store}"
    assert next_of(shell(resume, WAITING)) == ask
    paused = shell(f"roundel pause {shell.last()} {shell.store}", DONE)
    assert next_of(paused) == resume
    assert next_of(shell(f"roundel answer last OK {shell.store}", DONE)) == resume
    done = shell(resume, DONE)
    assert done.stdout == "OK\n"
    log = next_of(done)
    assert log == f"roundel log {shell.last()}{shell.store}"
    plot = next_of(shell(log, DONE))
    assert plot == f"roundel plot {shell.last()}{shell.store}"
    assert next_of(shell(plot, DONE)) == log
    assert next_of(shell(f"roundel replay last {shell.store}", DONE)) == log
    assert next_of(shell(f"roundel runs {shell.store}", DONE)) == log
    assert next_of(shell(resume, FAILED)) == log, "it is over"
    assert next_of(shell(answer, FAILED)) == log
    assert next_of(shell(f"roundel prune last --keep nothing {shell.store}", DONE)) == (
        f"roundel runs{shell.store}"
    )
    assert next_of(shell(f"roundel runs {shell.store}", DONE)) == "roundel run --help"


def test_a_locked_run_names_unlock_and_unlock_names_its_options(shell: Shell) -> None:
    script = {"Writer": "one", "Editor": ["no", "no", "OK"]}
    unlock = shell.run(script, "--limit", "rounds=2", code=LOCKED)
    assert unlock == f"roundel unlock {shell.last()}{shell.store}"
    for other in ("log last", "resume last", "answer last", "replay last"):
        assert next_of(shell(f"roundel {other}{shell.store}")) == unlock, other
    refused = shell(unlock, INVALID)
    assert "locked: limit of 2 rounds, at Writer[2]" in refused.stderr
    whole = next_of(refused)
    assert whole == f"roundel unlock {shell.last()} --reason TEXT {CHECKED}{shell.store}"
    assert next_of(shell(f"{whole} --limit rounds=1", FAILED)) == unlock
    log = next_of(shell(whole, DONE))
    assert "unlocked by " in shell(log, DONE).stdout


def test_unlock_in_a_terminal_shows_the_evidence_and_prompts(shell: Shell) -> None:
    shell.run({"Writer": "one", "Editor": ["no", "no", "OK"]}, "--limit", "rounds=2", code=LOCKED)
    refused = without_colours(
        in_terminal(shell.folder, "unlock", "last", "--store", ODD, typed="why not\ny\nn\ny\n")
    )
    assert "locked: limit of 2 rounds, at Writer[2]" in refused
    assert "Writer[2]/Editor  no" in refused
    assert "missing: --cost-accepted" in " ".join(refused.split())
    unlocked = in_terminal(shell.folder, "unlock", "last", "--store", ODD, typed="why not\ny\ny\ny\n")
    log = f"next: {sys.executable} -m roundel log {shell.last()}{shell.store}"
    assert log in without_colours(unlocked)


def without_colours(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def test_a_run_that_is_locked_twice_names_the_options_that_change_something(shell: Shell) -> None:
    shell.run({"Writer": "one", "Editor": "no"}, "--limit", "rounds=1", code=LOCKED)
    unlock = f"roundel unlock last --reason why {CHECKED}{shell.store}"
    assert next_of(shell(unlock, LOCKED)) == f"roundel unlock {shell.last()}{shell.store}"
    again = shell(unlock, FAILED)
    assert "(--limit NAME=N or --message TEXT or --exit NODE)" in again.stderr
    shell(f"{unlock} --exit Final", DONE)


def test_failed_run_suggests_a_retry(shell: Shell) -> None:
    broken = {"Writer": [{"error": "no credit"}, {"error": "still none"}, "one"], "Editor": "OK"}
    retry = shell.run(broken, code=FAILED)
    assert retry == f"roundel retry {shell.last()}{shell.store}"
    log = next_of(shell(retry, FAILED))
    assert log == f"roundel log {shell.last()}{shell.store}"
    assert next_of(shell(log, DONE)) == retry
    done = shell(f"{retry} --json", DONE)
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "run_finished"
    again = shell(retry, FAILED)
    assert "has not failed, so it cannot be retried; it is completed" in again.stderr
    assert next_of(again) == log
    events = [json.loads(line) for line in shell(f"{log} --json", DONE).stdout.splitlines()]
    finished = [event["data"]["status"] for event in events if event["event"] == "run_finished"]
    assert finished == ["failed", "failed", "completed"]


PERMANENT = {
    "authentication": "a key that its provider accepts",
    "bad_request": "what the provider refuses",
    "content_filter": "the provider's filter",
    "context_overflow": "`context: {max_tokens: …}`",
    "not_found": "`model` or `base_url`",
}


@pytest.mark.parametrize("reason", PERMANENT)
def test_a_failure_that_must_happen_again_suggests_a_change(shell: Shell, reason: str) -> None:
    """The suggested retry reads the workflow again, with what was changed in it."""
    broken = {"Writer": [{"error": "no", "reason": reason}, "one"], "Editor": "OK"}
    (shell.folder / "script.json").write_text(json.dumps(broken))
    done = shell(f"roundel run flow.yaml --script script.json --input tea {shell.store}", FAILED)
    *_, advice, _ = done.stderr.splitlines()
    assert advice.startswith("the same call would fail again; first ") and PERMANENT[reason] in advice
    retry = next_of(done)
    assert retry == f"roundel retry {shell.last()} --workflow flow.yaml{shell.store}"
    assert next_of(shell(f"roundel runs{shell.store}", DONE)) == f"roundel log {shell.last()}{shell.store}"
    assert shell(retry, DONE).stdout.strip() == "OK"


def test_stopped_run_suggests_a_fork(shell: Shell) -> None:
    shell.run({"Writer": "one"}, code=WAITING)
    fork = next_of(shell(f"roundel stop last{shell.store}", DONE))
    assert fork == f"roundel fork {shell.last()}{shell.store}"
    resume = next_of(shell(f"{fork} --no-run", DONE))
    assert resume == f"roundel answer {shell.last()}{shell.store}"
    shell(fork, WAITING)


def test_next_step_with_json_goes_to_stderr_only(shell: Shell) -> None:
    shell.run({"Writer": "one"}, "--json", code=WAITING)
    done = shell(f"roundel answer last OK --json{shell.store}", DONE)
    assert next_of(done) == f"roundel log {shell.last()}{shell.store}"
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "run_finished"


STEERING = ("log", "answer", "resume", "retry", "unlock", "stop", "pause", "fork", "replay", "plot")


def test_unknown_run_or_store_suggests_a_command(shell: Shell) -> None:
    for command in STEERING:
        done = roundel(shell.folder, command, "last", "--store", ODD)
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (INVALID, "next: roundel run --help")
    shell.run({"Writer": "one"}, code=WAITING)
    for command in STEERING:
        done = roundel(shell.folder, command, "zzz", "--store", ODD)
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (INVALID, f"next: roundel runs{shell.store}")


def test_store_set_by_environment_is_repeated_as_an_option(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.json").write_text('{"Writer": "one"}')
    shell = Shell(tmp_path)
    command = "ROUNDEL_STORE=other.db roundel run flow.yaml --script script.json --input tea"
    ask = next_of(shell(command, WAITING))
    assert ask.endswith(" --store other.db")
    assert "OK, or what to change?" in shell(ask, DONE).stdout


def test_unstored_run_suggests_running_it_again_with_a_store(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "a script.json").write_text('{"Writer": "one"}')
    shell = Shell(tmp_path)
    again = next_of(shell("roundel run flow.yaml --no-store --script 'a script.json' --input tea", WAITING))
    assert again == "roundel run flow.yaml --script 'a script.json' --input tea"
    assert next_of(shell(again, WAITING)) == f"roundel answer {shell.last()}"


def test_commands_on_files_suggest_the_next_command(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    run = next_of(shell("roundel new 'my flow'", DONE))
    assert shell(run, DONE).stdout.startswith("Tea is a drink")
    start = "roundel run 'my flow.yaml'"
    for command in ("check", "show", "forecast"):
        assert next_of(shell(f"roundel {command} 'my flow.yaml'", DONE)) == start
    (tmp_path / "bad.yaml").write_text("graph: {nodes: [{id: A, type: nonsense}]}")
    for command in ("check", "show", "forecast", "run"):
        again = roundel(tmp_path, command, "bad.yaml", "--var", "a=1").stderr.splitlines()[-1]
        assert again == "next: roundel check bad.yaml --var a=1"
        missing = roundel(tmp_path, command, "missing.yaml").stderr.splitlines()[-1]
        assert missing == "next: roundel new --help"
    shell("roundel check bad.yaml --var a=1", INVALID)


@pytest.mark.parametrize("wrong", ["run", "run flow.yaml --nonsense", "log", "unlock x --limit nonsense=3"])
def test_wrong_usage_suggests_the_help_of_the_command(tmp_path: Path, wrong: str) -> None:
    done = roundel(tmp_path, *wrong.split())
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        INVALID,
        f"next: roundel {wrong.split(maxsplit=1)[0]} --help",
    )


def test_unknown_command_suggests_help(tmp_path: Path) -> None:
    done = roundel(tmp_path, "nonsense")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (INVALID, "next: roundel --help")


@pytest.mark.parametrize("how", ["python -m roundel", "a path", "below the working folder"])
def test_suggestion_uses_the_program_name_as_invoked(tmp_path: Path, how: str) -> None:
    """It is not on the path."""
    called = {"python -m roundel": f"{sys.executable} -m roundel", "a path": str(PROGRAM)}.get(how)
    if called is None:
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "roundel").symlink_to(PROGRAM)
        called = "tools/roundel"
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.json").write_text('{"Writer": "one"}')
    shell = Shell(tmp_path)
    shell.environment["PATH"] = "/usr/bin:/bin"
    if shutil.which("roundel", path=shell.environment["PATH"]) is not None:
        pytest.fail("this test needs a path without the program")
    ask = next_of(shell(f"{called} run flow.yaml --script script.json --input tea", WAITING))
    assert ask.startswith(f"{called} answer ")
    assert "OK, or what to change?" in shell(ask, DONE).stdout
    assert next_of(shell(f"{called} run", INVALID)) == f"{called} run --help"


def test_the_demo_ends_with_a_command_that_works_and_shows_the_one_that_unlocks(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["PATH"] = "/usr/bin:/bin"
    first = shell(f"{PROGRAM} demo", DONE)
    shown = " ".join(first.stderr.split())
    reason = "--reason 'they are about to agree'"
    assert f"{PROGRAM} unlock last {reason} {CHECKED} --note 'You have both said that any day" in shown
    assert next_of(first) == f"{PROGRAM} new my-workflow"
    run = next_of(shell(next_of(first), DONE))
    assert shell(run, DONE).stdout.startswith("Tea is a drink")
    again = next_of(shell(f"{PROGRAM} demo", DONE))
    assert again.startswith(f"{PROGRAM} run my-workflow.yaml")
    shell(again, DONE)


def test_memory_and_schema_commands_suggest_the_next_command(tmp_path: Path) -> None:
    made = roundel(tmp_path, "memory", "promote", "--group", "the team", "--text", "tea is a drink")
    assert made.stderr.splitlines()[-1] == "next: roundel memory list --group 'the team'"
    found = roundel(tmp_path, "memory", "list", "--group", "the team")
    assert (found.exit_code, "tea is a drink" in found.stdout) == (DONE, True)
    assert found.stderr == "next: roundel memory --help\n"
    assert roundel(tmp_path, "schema").stderr == "next: roundel check --help\n"


def test_rejected_store_suggests_no_run(tmp_path: Path) -> None:
    """The run was never created, so there is nothing to resume."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    foreign = tmp_path / "other.db"
    foreign.write_bytes(b"something else")
    (tmp_path / "script.yaml").write_text("Writer: a text")
    done = Shell(tmp_path)(f"roundel run flow.yaml --input go --script script.yaml --store {foreign.name}")
    assert done.returncode == FAILED
    assert "is not a Roundel store" in done.stderr
    assert " resume " not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("next: ")
