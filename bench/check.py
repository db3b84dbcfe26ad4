"""How long `roundel check` takes on large and dense graphs, beside reading the same file.

The ratio says what the analysis costs; it stays small whatever the shape, since the analysis has a budget.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roundel.nodes import TYPES
from roundel.nodes.loading import check_plan
from roundel.plan.loops import survey
from roundel.plan.proof import prove
from roundel.workflow.loader import examine

SAMPLES = 5
NODES = (500, 1_000, 2_000)
COMPLETE = (15, 30, 60)
TARGETS = "targets: 60 nodes all-to-all under 1 s, 2,000 nodes under 2 s, with the start of the command line"


def seconds(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(SAMPLES):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def checked(file: Path) -> tuple[int, int]:
    """How many (loop, entry) pairs were analysed, and how many were not."""
    plan, report = check_plan(file)
    assert plan is not None, report
    assert report.ok, report
    prove(plan)
    found = survey(plan.graph)
    return len(found.found), len(found.unanalysed)


def measure(name: str, size: int, mapping: dict[str, Any], folder: Path) -> None:
    file = folder / "large.yaml"
    file.write_text(json.dumps(mapping))
    read = seconds(lambda: examine(file, TYPES))
    whole = seconds(lambda: checked(file))
    analysed, unanalysed = checked(file)
    figures = f"{read * 1e3:>8.0f} {whole * 1e3:>8.0f} ({whole / read:.2f}×)"
    print(f"{name:>18} {size:>6,} {figures} {analysed:>9,} {unanalysed:>7,}")


def report() -> None:
    from tests.plan.shapes import SHAPES, complete

    print("check, CPU ms (medians; ratio to reading the file), and how many loops were analysed")
    print(f"{'shape':>18} {'nodes':>6} {'read':>8} {'check':>8} {'':>7} {'analysed':>9} {'unseen':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            for size in NODES:
                measure(name, size, shape(size), Path(folder))
        for size in COMPLETE:
            measure("complete", size, complete(size), Path(folder))
    print(f"{TARGETS}\n")
