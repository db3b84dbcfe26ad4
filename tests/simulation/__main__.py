"""Runs the simulation: `python -m tests.simulation --seed N --cases M`."""

from __future__ import annotations

from tests.simulation import clock

clock.install()  # before anything of Roundel is imported

# ruff: noqa: E402
import argparse
import gc
import logging
import sys

from tests.simulation.case import Case
from tests.simulation.defects import DEFECTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--steps", action="store_true", help="print how many steps each case had")
    parser.add_argument("--log", action="store_true", help="print what happened in each case")
    parser.add_argument("--defect", choices=DEFECTS, help="put a known defect back")
    parser.add_argument("--first", action="store_true", help="end with the first case that fails")
    options = parser.parse_args()
    if options.defect:
        DEFECTS[options.defect]()
    if not options.log:
        logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _unraisable: None  # tasks of dead processes that are removed
    ran = failed = deaths = 0
    for seed in range(options.seed, options.seed + options.cases):
        case = Case(seed)
        problems = case.run()
        deaths += case.world.deaths
        if options.log or problems:
            print(f"seed {seed}", *case.log, *problems, sep="\n  ")
        if options.steps:
            print(f"seed {seed}: {case.world.steps} steps, {case.world.clock.monotonic:.6f} s")
        failed += bool(problems)
        ran += 1
        del case  # before the next one: a world has many cycles
        if problems and options.first:
            break
    gc.collect()
    print(f"{ran} cases, {deaths} processes died, {failed} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
