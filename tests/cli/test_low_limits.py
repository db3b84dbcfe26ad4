"""Commands where the system gives a process too little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOW = "graph:\n  nodes:\n    - {id: P, type: passthrough}\n  start: P\n  end: P\n"


def run_limited(folder: Path, limit: str) -> subprocess.CompletedProcess[str]:
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    words = ("-m", "roundel", "run", "flow.yaml", "--input", "go", "--store", str(folder / "runs.db"))
    return subprocess.run(
        ["sh", "-c", f'{limit}; exec "$@"', "sh", sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("descriptors", range(7, 12))
def test_few_descriptors_are_a_clear_error_or_enough(tmp_path: Path, descriptors: int) -> None:
    done = run_limited(tmp_path, f"ulimit -n {descriptors}")
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.returncode == 1
        assert "too many open files; raise the limit (ulimit -n)" in done.stderr


def test_run_that_was_not_stored_is_not_to_be_resumed(tmp_path: Path) -> None:
    done = run_limited(tmp_path, "ulimit -f 1")  # the store needs more than a file may have
    assert done.returncode == 1
    assert "raise the limit for the size of a file (ulimit -f); the run was not stored" in done.stderr
    assert "resume" not in done.stderr
