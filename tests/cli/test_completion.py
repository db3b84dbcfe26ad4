"""Shell completion, asked for as a shell does it: in a process, by the protocol of click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from roundel.cli import COMMANDS, cli
from roundel.cli.completion import FILES, RUNS
from roundel.cli.options import RunName, WorkflowFile
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
def kept(tmp_path: Path) -> Path:
    prepare(tmp_path)
    assert run(tmp_path).exit_code == 4
    assert roundel(tmp_path, "stop", "last").exit_code == 0
    assert run(tmp_path).exit_code == 4
    return tmp_path


def test_commands_are_offered_with_what_they_do(tmp_path: Path) -> None:
    assert asked(tmp_path, "") == list(COMMANDS.items())
    assert values(tmp_path, "re") == ["resume", "replay"]


def test_a_workflow_is_completed_to_files_that_may_be_one_and_to_folders(tmp_path: Path) -> None:
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


def test_a_run_is_completed_to_its_id_with_what_it_is(kept: Path) -> None:
    newest, oldest = (row["run_id"] for row in runs(kept))
    offered = [("last", "the newest run"), (newest, "press, waiting"), (oldest, "press, stopped")]
    for command in ("log", "answer", "resume", "unlock", "stop", "pause", "fork", "replay", "plot"):
        assert asked(kept, command, "") == offered, command
    assert values(kept, "log", oldest[:6]) == [oldest]
    assert values(kept, "log", "la") == ["last"]
    assert values(kept, "prune", oldest, newest[:6]) == [newest]
    assert values(kept, "memory", "quarantine", newest[:6]) == [newest]


def test_the_store_that_is_meant_is_the_one_that_is_looked_into(kept: Path) -> None:
    newest = runs(kept)[0]["run_id"]
    (kept / ".roundel" / "runs.db").rename(kept / "other.db")
    assert values(kept, "log", newest[:6]) == []
    assert values(kept, "log", "--store", "other.db", newest[:6]) == [newest]
    assert values(kept, "log", "--store", "sqlite:///other.db?sync=off", newest[:6]) == [newest]
    assert values(kept, "log", newest[:6], ROUNDEL_STORE="other.db") == [newest]


def test_a_store_is_neither_made_nor_changed(kept: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert values(empty, "log", "") == []
    assert list(empty.iterdir()) == []
    (empty / ".roundel").mkdir()
    (empty / ".roundel" / "runs.db").write_text("this is no database, and never was one\n")
    assert values(empty, "log", "") == []
    assert "no database" in (empty / ".roundel" / "runs.db").read_text()
    before = (kept / ".roundel" / "runs.db").read_bytes()
    assert len(values(kept, "log", "")) == 3
    assert (kept / ".roundel" / "runs.db").read_bytes() == before


def test_options_are_completed_by_the_command(kept: Path) -> None:
    assert values(kept, "log", "last", "--fo") == ["--follow"]
    assert values(kept, "runs", "--status", "wai") == ["waiting"]


def test_a_name_cannot_break_the_protocol(tmp_path: Path) -> None:
    prepare(tmp_path)
    flow = (tmp_path / "flow.yaml").read_text()
    (tmp_path / "flow.yaml").write_text(flow.replace("id: press", 'id: "a\\nb\\x1b[31m, c"'))
    assert run(tmp_path).exit_code == 4
    (_, (_, told)) = asked(tmp_path, "log", "")
    assert told == "a b\N{REPLACEMENT CHARACTER}[31m, c, waiting"


def test_in_bash(kept: Path) -> None:
    """The script that `roundel` gives is read by a real bash, which then completes a line."""
    (kept / "my flow.yaml").touch()
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
    """
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=kept,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-F _roundel_completion roundel" in done.stdout, done.stderr
    assert done.stdout.splitlines()[1:] == ["my\\ flow.yaml", "flow.yaml", "last"], done.stderr


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
def test_what_is_asked_most_imports_nothing_heavy(kept: Path, words: str) -> None:
    environment = {
        **os.environ,
        "_ROUNDEL_COMPLETE": "bash_complete",
        "COMP_WORDS": f"roundel {words}",
        "COMP_CWORD": str(1 + bool(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", LISTING], cwd=kept, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []", done.stderr
    assert len(done.stdout.splitlines()) > 1


def test_the_lists_of_commands_agree_with_the_commands() -> None:
    context = click.Context(cli)
    first: dict[str, str] = {}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        kinds = {WorkflowFile: "file", RunName: "run"}
        if arguments and type(arguments[0].type) in kinds:
            first[name] = kinds[type(arguments[0].type)]
    assert sorted(FILES) == sorted(name for name, kind in first.items() if kind == "file")
    assert sorted(RUNS) == sorted(name for name, kind in first.items() if kind == "run")
