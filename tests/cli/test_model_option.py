"""`--model` and `$ROUNDEL_MODEL`: the model of agents that name none, on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llm.wire import Reply, Wire

FLOW = """
graph:
  id: tea
  start: Writer
  nodes:
    - {id: Writer, type: agent}
    - {id: Critic, type: agent}
  edges: [{from: Writer, to: Critic}]
"""
REFUSAL = "flow.yaml:6:7: error: agents 'Writer' and 'Critic' have no model [cannot-run]"
WARNING = "flow.yaml:6:7: warning: agents 'Writer' and 'Critic' have no model [no-model]"
WAYS = ("models: {default:", "--model PROVIDER:NAME", "$ROUNDEL_MODEL", "--script FILE")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.yaml").write_text("Writer: a draft\nCritic: fine\n")
    return tmp_path


def roundel(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "roundel", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_run_without_a_model_is_refused_and_not_stored(folder: Path) -> None:
    for command in (
        ("run", "flow.yaml", "--input", "tea"),
        ("debug", "flow.yaml", "--input", "tea", "--json"),
    ):
        done = roundel(folder, *command)
        assert done.returncode == 2
        assert REFUSAL in done.stderr
        assert all(way in done.stderr for way in WAYS)
    assert roundel(folder, "runs").stdout.strip() in ("", "no runs")


def test_a_script_needs_no_model_and_brings_no_warning(folder: Path) -> None:
    done = roundel(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "tea")
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "model]" not in done.stderr


def test_a_run_uses_the_model_of_the_option_or_of_the_environment(folder: Path) -> None:
    with Wire() as wire:
        wire.replies(Reply("a text"))
        access = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": wire.openai_url}
        given = roundel(folder, "run", "flow.yaml", "-i", "tea", "--model", "openai:a", "--json", **access)
        own = roundel(folder, "run", "flow.yaml", "-i", "tea", "--json", **access, ROUNDEL_MODEL="openai:b")
    assert [one.model for one in wire.requests] == ["a", "a", "b", "b"]
    started = [json.loads(done.stdout.splitlines()[0])["data"] for done in (given, own)]
    assert [data["model"] for data in started] == ["openai:a", "openai:b"]


@pytest.mark.parametrize(
    "command",
    [
        ("run", "flow.yaml", "--script", "script.yaml"),
        ("check", "flow.yaml"),
        ("forecast", "flow.yaml"),
        ("debug", "flow.yaml", "--script", "script.yaml", "--json"),
    ],
    ids=lambda command: command[0],
)
def test_a_wrong_model_is_a_usage_error(folder: Path, command: tuple[str, ...]) -> None:
    done = roundel(folder, *command, "--model", "gpt-4o")
    assert done.returncode == 2
    assert "--model takes PROVIDER:NAME, not 'gpt-4o'; for example openai:gpt-4o" in done.stderr
    done = roundel(folder, *command, ROUNDEL_MODEL="opnai:gpt-4o")
    assert done.returncode == 2
    assert "$ROUNDEL_MODEL names the model provider 'opnai', which is not known" in done.stderr
    assert "did you mean 'openai'?" in done.stderr
    assert not (folder / ".roundel").exists()


def test_check_warns_once_for_a_file_unless_there_is_a_model(folder: Path) -> None:
    done = roundel(folder, "check", "flow.yaml")
    assert done.returncode == 0
    assert done.stdout.count("[no-model]") == 1
    assert WARNING in done.stdout and all(way in done.stdout for way in WAYS)
    assert "flow.yaml: ok, 0 errors, 1 warning" in done.stdout
    assert roundel(folder, "check", "--strict", "flow.yaml").returncode == 2
    for quiet in (
        roundel(folder, "check", "--strict", "flow.yaml", "--model", "openai:gpt-4o"),
        roundel(folder, "check", "--strict", "flow.yaml", ROUNDEL_MODEL="openai:gpt-4o"),
    ):
        assert quiet.returncode == 0
        assert "flow.yaml: ok, 0 errors, 0 warnings" in quiet.stdout


def test_check_and_forecast_know_the_price_of_the_given_model(folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW.replace("id: tea", "id: tea\n  limits: {cost_usd: 1}"))
    assert "cannot count the calls of 'Writer'" in roundel(folder, "check", "flow.yaml").stdout
    priced = roundel(folder, "check", "flow.yaml", "--model", "openai:gpt-4o")
    assert "0 errors, 0 warnings" in priced.stdout

    def cost(*more: str) -> float | None:
        done = roundel(folder, "forecast", "flow.yaml", "--json", *more)
        found: float | None = json.loads(done.stdout)["forecast"]["cost_usd"]
        return found

    assert cost() is None
    assert (cost("--model", "openai:gpt-4o") or 0) > (cost("--model", "openai:gpt-4o-mini") or 0) > 0


def test_check_suggests_to_run_with_the_same_model(folder: Path) -> None:
    done = roundel(folder, "check", "flow.yaml", "--model", "openai:gpt-4o")
    assert "roundel run flow.yaml --model openai:gpt-4o" in done.stdout + done.stderr
    done = roundel(folder, "check", "flow.yaml", ROUNDEL_MODEL="openai:gpt-4o")
    assert "--model" not in done.stdout + done.stderr


def test_the_model_of_a_stored_run_cannot_be_changed_by_a_debugger(folder: Path) -> None:
    roundel(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "tea")
    done = roundel(folder, "debug", "last", "--json", "--model", "openai:gpt-4o")
    assert done.returncode == 2
    assert "--model is for a run that is started here" in done.stderr
    assert roundel(folder, "debug", "last", "--json", ROUNDEL_MODEL="openai:gpt-4o").returncode == 0
