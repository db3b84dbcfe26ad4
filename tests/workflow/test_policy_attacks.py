"""Checking and forecasting hostile texts only computes: measured from outside, by an audit hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECRETS = {
    "OPENAI_API_KEY": "sk-canary-0123456789",
    "AWS_SECRET_ACCESS_KEY": "aws-canary-0123456789",
    "ORDINARY_SETTING": "ordinary-canary-0123456789",
    "DATABASE_URL": "postgres://user:url-canary-0123456789@db.example/x",
}


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened while the hostile texts were examined, in a process of its own."""
    root = tmp_path_factory.mktemp("attack")
    shared = root / "shared"
    shared.mkdir()
    graph = "graph: {nodes: [{id: A, type: passthrough}], start: A}\n"
    (shared / "inner.yaml").write_text(graph)
    (shared / "notes.md").write_text("notes\n")
    (root / "secret.yaml").write_text(graph)
    (root / "secret.md").write_text("secret\n")
    (shared / "link.yaml").symlink_to("../secret.yaml")
    (shared / "link.md").symlink_to("../secret.md")
    (root / ".env").write_text("DOTENV=dotenv-canary-0123456789\n")
    repository = Path(__file__).parents[2]
    environment = {**os.environ, **SECRETS, "PYTHONPATH": f"{repository / 'src'}{os.pathsep}{repository}"}
    command = [sys.executable, "-m", "tests.workflow.attack_process", str(shared)]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return {**outcome, "shared": str(shared), "errors": done.stderr}


def test_nothing_is_imported_started_or_connected(attack: dict[str, Any]) -> None:
    assert attack["modules"] == []
    assert [event for event in attack["events"] if not event.startswith("open ")] == []
    assert attack["errors"] == ""


def test_no_file_outside_the_allowed_folder_is_opened(attack: dict[str, Any]) -> None:
    opened = [event for event in attack["events"] if event.startswith("open ")]
    assert [event for event in opened if attack["shared"] not in event] == []
    assert opened, "the allowed subgraph file is read, so the hook works"


def test_everything_hostile_is_refused(attack: dict[str, Any]) -> None:
    for diagnostics in attack["found"]:
        assert not diagnostics or any(": error: " in one for one in diagnostics)
    text = "\n".join(one for found in attack["found"] for one in found)
    for name in ("antigravity:fly", "antigravity:All", "169.254.169.254", "/etc/passwd", "link.yaml", "'sh'"):
        assert any(name in line and "[not-allowed]" in line for line in text.split("\n")), name


def test_diagnostics_contain_no_value_of_the_environment(attack: dict[str, Any]) -> None:
    text = json.dumps(attack["found"])
    assert "canary" not in text
    assert "secret.yaml" not in text.replace("../secret.yaml", "")
