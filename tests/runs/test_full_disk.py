"""Runs are pruned although the disk is full, on a file system of a few megabytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOUNT = 'mount -t tmpfs -o size=24m tmpfs "$1" && exec "$2" -m tests.runs.full_disk "$1/runs.db" "$3"'


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
@pytest.mark.parametrize("keep", ["nothing", "last"])
def test_runs_are_pruned_on_a_full_disk(tmp_path: Path, keep: str) -> None:
    inside = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*inside, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("no file systems can be mounted here")
    done = subprocess.run(
        [*inside, "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable, keep],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    full, pruned = done.stdout.splitlines() or ("", done.stderr)
    assert "disk is full" in full
    assert pruned == "pruned True", "room is set aside again"
