"""Shell completion, requested as a shell does it: in a process, with the protocol of click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from roundel.cli import COMMANDS, cli
from roundel.cli.completion import FILES, RUNS
from roundel.cli.options import RunName, WorkflowPath
from tests.cli.stored_runs import prepare, roundel, run, runs

PROGRAM = Path(sys.executable).with_name("roundel")


def asked(folder: Path, *words: str, shell: str = "zsh", **variables: str) -> list[tuple[str, str]]:
    """The values that a shell is offered for the last of the words, each with its help."""
    environment = {
        **os.environ,
        "_ROUNDEL_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(("roundel", *words)),
        "COMP_CWORD": str(len(words)),
        **variables,
    }
    done = subprocess.run(
        [PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    fields = list(zip(lines[::3], lines[1::3], lines[2::3], strict=False))
    assert all(kind == "plain" for kind, _, _ in fields), fields
    return [(value, told) for _, value, told in fields]


def values(folder: Path, *words: str, **variables: str) -> list[str]:
    return [value for value, _ in asked(folder, *words, **variables)]


@pytest.fixture
def folder_with_runs(tmp_path: Path) -> Path:
    prepare(tmp_path)
    assert run(tmp_path).exit_code == 4
    assert roundel(tmp_path, "stop", "last").exit_code == 0
    assert run(tmp_path).exit_code == 4
    return tmp_path


def test_commands_are_completed_with_their_help(tmp_path: Path) -> None:
    assert asked(tmp_path, "") == list(COMMANDS.items())
    assert values(tmp_path, "re") == ["resume", "retry", "replay"]


def test_workflow_argument_completes_to_workflow_files_and_folders(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yml", "c.json", "notes.txt", ".hidden.yaml", "my flow.yaml"):
        (tmp_path / name).touch()
    for folder in ("more", "more/inside", "more/inside/deep", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "more/inside/deep/one.yaml").touch()
    (tmp_path / "more/inside/deep/two.yaml").touch()
    everything = ["a.yaml", "b.yml", "c.json", "more/", "my flow.yaml", "other/"]
    for command in ("run", "check", "show", "forecast"):
        assert values(tmp_path, command, "") == everything
    assert values(tmp_path, "run", ".h") == [".hidden.yaml"]
    deep = ["more/inside/deep/one.yaml", "more/inside/deep/two.yaml"]
    assert values(tmp_path, "run", "mo") == deep, "a folder that is the only choice is looked into"
    assert values(tmp_path, "run", "./more/inside/deep/o") == ["./more/inside/deep/one.yaml"]
    assert values(tmp_path, "check", "a.yaml", "b") == ["b.yml"], "check takes several"
    assert values(tmp_path, "run", "a.yaml", "--script", "c") == ["c.json"]
    assert values(tmp_path, "run", "nowhere/x") == []


def test_run_argument_completes_to_run_ids_with_name_and_status(folder_with_runs: Path) -> None:
    newest, oldest = (row["run_id"] for row in runs(folder_with_runs))
    offered = [("last", "the newest run"), (newest, "press, waiting"), (oldest, "press, stopped")]
    names = ("log", "answer", "resume", "unlock", "stop", "pause", "fork", "replay", "plot")
    for command in (*names, "step", "break", "edit"):
        assert asked(folder_with_runs, command, "") == offered, command
    assert values(folder_with_runs, "log", oldest[:6]) == [oldest]
    assert values(folder_with_runs, "log", "la") == ["last"]
    assert newest not in values(folder_with_runs, "break", "last", ""), "a place is not the id of a run"
    assert values(folder_with_runs, "prune", oldest, newest[:6]) == [newest]
    assert values(folder_with_runs, "memory", "quarantine", newest[:6]) == [newest]


def test_completion_reads_the_store_from_option_or_environment(folder_with_runs: Path) -> None:
    newest = runs(folder_with_runs)[0]["run_id"]
    (folder_with_runs / ".roundel" / "runs.db").rename(folder_with_runs / "other.db")
    assert values(folder_with_runs, "log", newest[:6]) == []
    assert values(folder_with_runs, "log", "--store", "other.db", newest[:6]) == [newest]
    assert values(folder_with_runs, "log", "--store", "sqlite:///other.db?sync=off", newest[:6]) == [newest]
    assert values(folder_with_runs, "log", newest[:6], ROUNDEL_STORE="other.db") == [newest]


def test_completion_neither_creates_nor_changes_a_store(folder_with_runs: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert values(empty, "log", "") == []
    assert list(empty.iterdir()) == []
    (empty / ".roundel").mkdir()
    (empty / ".roundel" / "runs.db").write_text("this is no database, and never was one\n")
    assert values(empty, "log", "") == []
    assert "no database" in (empty / ".roundel" / "runs.db").read_text()
    before = (folder_with_runs / ".roundel" / "runs.db").read_bytes()
    assert len(values(folder_with_runs, "log", "")) == 3
    assert (folder_with_runs / ".roundel" / "runs.db").read_bytes() == before


def test_options_are_completed_by_the_command(folder_with_runs: Path) -> None:
    assert values(folder_with_runs, "log", "last", "--fo") == ["--follow"]
    assert values(folder_with_runs, "runs", "--status", "wai") == ["waiting"]


def test_limits_are_completed(folder_with_runs: Path) -> None:
    assert values(folder_with_runs, "run", "flow.yaml", "--limit", "ro") == ["rounds="]
    assert values(folder_with_runs, "unlock", "last", "--limit", "mod") == ["model_calls="]
    assert values(folder_with_runs, "run", "flow.yaml", "--limit", "unp") == [
        "unpriced=allow",
        "unpriced=lock",
    ]
    everything = values(folder_with_runs, "run", "flow.yaml", "--limit", "")
    assert "cost_usd=" in everything and "Writer." in everything
    # Limits of one loop or node, of the file or of the run.
    for words in (("run", "flow.yaml"), ("fork", "last"), ("retry", "last")):
        assert values(folder_with_runs, *words, "--limit", "Wri") == ["Writer."]
        assert "Writer.rounds=" in values(folder_with_runs, *words, "--limit", "Writer.r")
    assert "Writer." not in values(folder_with_runs, "unlock", "last", "--limit", "")


def test_addresses_are_completed(folder_with_runs: Path) -> None:
    for words in (("fork", "last", "--at"), ("log", "last", "--round"), ("edit", "last", "--at")):
        offered = dict(asked(folder_with_runs, *words, ""))
        assert offered["Writer[1]"] == "round" and offered["Writer[1]/Writer"] == "node"
        assert all(value.startswith("Writer[1]/") for value in values(folder_with_runs, *words, "Writer[1]/"))
    (question,) = values(folder_with_runs, "answer", "last", "--at", "")
    assert question in values(folder_with_runs, "fork", "last", "--at", "")
    assert "Writer" in values(folder_with_runs, "break", "last", "")
    assert values(folder_with_runs, "run", "flow.yaml", "--break", "Wri") == ["Writer"]
    # A run that is not known, or not known yet, has none.
    assert values(folder_with_runs, "fork", "zzz", "--at", "") == []
    assert values(folder_with_runs, "fork", "--at", "") == []


def test_completing_addresses_creates_no_store(tmp_path: Path) -> None:
    assert values(tmp_path, "fork", "last", "--at", "") == []
    assert values(tmp_path, "fork", "last", "--limit", "rou") == ["rounds="]
    assert list(tmp_path.iterdir()) == []


def test_a_name_cannot_break_the_protocol(tmp_path: Path) -> None:
    prepare(tmp_path)
    flow = (tmp_path / "flow.yaml").read_text()
    (tmp_path / "flow.yaml").write_text(flow.replace("id: press", 'id: "a\\nb\\x1b[31m, c"'))
    assert run(tmp_path).exit_code == 4
    (_, (_, told)) = asked(tmp_path, "log", "")
    assert told == "a b\N{REPLACEMENT CHARACTER}[31m, c, waiting"


def test_completion_works_in_bash(folder_with_runs: Path) -> None:
    """The script that `roundel` gives is read by a real bash, which then completes a line."""
    (folder_with_runs / "my flow.yaml").touch()
    script = """
        eval "$(_ROUNDEL_COMPLETE=bash_source roundel)"
        complete -p roundel
        tab() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _roundel_completion roundel
            printf '%s\\n' "${COMPREPLY[@]}"
        }
        tab roundel run my
        tab roundel run fl
        tab roundel log la
        tab roundel run flow.yaml --limit rou
    """
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder_with_runs,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-F _roundel_completion roundel" in done.stdout, done.stderr
    assert done.stdout.splitlines()[1:] == ["my\\ flow.yaml", "flow.yaml", "last", "rounds="], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(tmp_path: Path, shell: str) -> None:
    environment = {**os.environ, "_ROUNDEL_COMPLETE": f"{shell}_source"}
    script = subprocess.check_output([PROGRAM], cwd=tmp_path, env=environment, text=True)
    assert f"_ROUNDEL_COMPLETE={shell}_complete" in script
    assert list(tmp_path.iterdir()) == []


LISTING = """
import sys
before = set(sys.modules)
from roundel.cli import cli
try:
    cli.main()
finally:
    heavy = {"asyncio", "rich", "yaml", "roundel.kernel", "roundel.nodes", "roundel.plan"}
    print("heavy:", sorted(heavy & (set(sys.modules) - before)))
"""


@pytest.mark.parametrize("words", ["", "run ", "log "])
def test_completion_imports_no_heavy_modules(folder_with_runs: Path, words: str) -> None:
    environment = {
        **os.environ,
        "_ROUNDEL_COMPLETE": "bash_complete",
        "COMP_WORDS": f"roundel {words}",
        "COMP_CWORD": str(1 + bool(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", LISTING],
        cwd=folder_with_runs,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "heavy: []", done.stderr
    assert len(done.stdout.splitlines()) > 1


def test_command_lists_match_the_registered_commands() -> None:
    context = click.Context(cli)
    first: dict[str, str] = {}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        kinds = {WorkflowPath: "file", RunName: "run"}
        if arguments and type(arguments[0].type) in kinds:
            first[name] = kinds[type(arguments[0].type)]
    assert sorted(FILES) == sorted(name for name, kind in first.items() if kind == "file")
    assert sorted(RUNS) == sorted(name for name, kind in first.items() if kind == "run")
