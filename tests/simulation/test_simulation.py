"""Thousands of simulated worlds, in processes of their own: the simulation replaces the clocks of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.defects import DEFECTS

ROOT = Path(__file__).parents[2]
CASES = 250
"""So few that they take less time than one test may, also on a busy machine."""


def simulate(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("seed", range(1, 8 * CASES, CASES))
def test_every_run_comes_to_its_end(seed: int) -> None:
    found = simulate("--seed", str(seed), "--cases", str(CASES))
    assert found.returncode == 0, found.stdout[-5_000:] + found.stderr[-2_000:]
    assert found.stdout.startswith(f"{CASES} cases, "), "and nothing was skipped"


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_that_is_put_back_is_found(defect: str) -> None:
    found = simulate("--cases", "1000", "--first", "--defect", defect)
    assert found.returncode == 1, f"not found: {found.stdout[-500:]}{found.stderr[-2_000:]}"


def test_a_seed_decides_everything() -> None:
    first, second = (simulate("--seed", "7", "--cases", "3", "--steps") for _ in range(2))
    assert first.stdout == second.stdout
