"""Tries random mutants of the kernel and the plan, and reports those that no test notices."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.mutation.mutant import sample
from tests.mutation.trial import LONGEST, SOURCES, Trials


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the same seed gives the same mutants")
    parser.add_argument("--count", type=int, default=20, help="how many mutants (20)")
    parser.add_argument("--package", nargs="+", default=["kernel", "plan"], help="kernel, plan, or both")
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="N", help="some mutants of the sample, by number"
    )
    parser.add_argument(
        "--notes", type=Path, help="keeps here which tests execute which lines, for next time"
    )
    parser.add_argument(
        "--longest", type=float, default=LONGEST, help=f"seconds of a test that is run ({LONGEST})"
    )
    given = parser.parse_args()
    mutants = sample(SOURCES, [f"roundel/{package}" for package in given.package], given.seed, given.count)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trials = Trials(Path(folder), given.longest)
        notes: Path = given.notes or Path(folder, "notes.json")
        if not notes.exists():
            trials.note(notes)
        tried = survived = 0
        for number, mutant in enumerate(mutants, 1):
            if given.only and number not in given.only:
                continue
            begun = time.monotonic()
            verdict = trials.try_out(mutant, notes)
            tried, survived = tried + 1, survived + (not verdict.killed)
            how = f"killed by {verdict.by}" if verdict.killed else f"SURVIVED\n{mutant.diff}"
            print(f"{number:3} {mutant} ({time.monotonic() - begun:.0f} s): {how}", flush=True)
    print(f"seed {given.seed}: {tried - survived} of {tried} killed, {survived} survived")


if __name__ == "__main__":
    main()
