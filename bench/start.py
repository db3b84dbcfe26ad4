"""How long the command line takes to start, beside `python -c "import asyncio, json"`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLES = 15


def seconds(command: list[str], folder: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - begin


def report() -> None:
    roundel = [sys.executable, "-m", "roundel"]
    contenders = {
        "import asyncio, json": [sys.executable, "-c", "import asyncio, json"],
        "roundel --help": [*roundel, "--help"],
        "roundel check": [*roundel, "check", "small.yaml"],
        "roundel run --json": [*roundel, "run", "small.yaml", "--script", "small.script.yaml", "--json"],
    }
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*roundel, "new", str(Path(folder, "small"))], capture_output=True, check=True)
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(SAMPLES):
            for name, command in contenders.items():
                taken[name].append(seconds(command, folder))
    base = statistics.median(taken["import asyncio, json"])
    print("start-up, ms on the wall (medians; ratio to importing asyncio and json)")
    for name, samples in taken.items():
        middle = statistics.median(samples)
        print(f"{name:>22} {middle * 1000:>8.0f} ({middle / base:.2f}×)")
    print("target: under 3× for --help and check\n")
