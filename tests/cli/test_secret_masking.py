"""Secrets are masked in what commands print: arguments, suggestions, tracebacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from roundel.cli import cli

KEY = "sk-live-0123456789"
FLOW = """
vars: {API_TOKEN: none}
graph: {start: A, end: A, nodes: [{id: A, type: literal, config: {content: hello}}]}
"""


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("flow.yaml").write_text(FLOW)
    return "flow.yaml"


@pytest.mark.parametrize("words", [["--var", f"API_TOKEN={KEY}"], [f"--var=API_TOKEN={KEY}"]])
@pytest.mark.parametrize("command", ["check", "show", "run --no-store"])
def test_a_suggested_command_does_not_repeat_a_variable(flow: str, command: str, words: list[str]) -> None:
    name, *options = command.split()
    result = CliRunner().invoke(cli, [name, flow, *options, *words])
    assert result.exit_code == 0
    assert "API_TOKEN=***" in result.stderr
    assert KEY not in result.output


def test_malformed_variable_is_masked_in_the_error(flow: str) -> None:
    result = CliRunner().invoke(cli, ["check", flow, "--var", f"API_TOKEN:{KEY}"])
    assert "--var takes NAME=VALUE, not '***'" in result.output
    assert KEY not in result.output


def test_secrets_do_not_leak_into_the_next_command(flow: str) -> None:
    CliRunner().invoke(cli, ["check", flow, "--var", "API_TOKEN=flow.yaml"])
    assert "flow.yaml: ok" in CliRunner().invoke(cli, ["check", flow]).output


def test_password_of_an_unknown_store_url_is_masked(flow: str) -> None:
    result = CliRunner().invoke(cli, ["run", flow, "--store", "mysql://ann:tea@host/runs"])
    assert "'mysql://ann:***@host/runs' is not a known kind of store" in result.output
    assert "tea" not in result.output


def test_unexpected_traceback_is_masked(flow: str) -> None:
    code = (
        "import roundel.cli.workflows as check\n"
        "def fail(*_, **__): raise RuntimeError('it broke with ' + repr(check.sys.argv))\n"
        "check.check_plan = fail\n"
        "from roundel.cli import main\n"
        "main()\n"
    )
    words = [sys.executable, "-c", code, "check", flow, "--var", f"API_TOKEN={KEY}"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "Traceback" in ran.stderr
    assert "RuntimeError: it broke with" in ran.stderr
    assert "API_TOKEN=***" in ran.stderr
    assert KEY not in ran.stdout + ran.stderr
