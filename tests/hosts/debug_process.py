"""A process that executes a run, or controls one at random, for stories about debugging.

execute STORE [BREAKPOINT...]   starts a run of FUNCTIONS: prints its id, then the address of each function
                                that it calls, which lasts until a line is read; at last its status
control STORE RUN SEED          steps, resumes, sets breakpoints and edits until the run is over; prints
                                what was applied and what was refused, and the calls that it made
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

import roundel
from roundel.hosts import control
from tests.hosts.debug_controller import Controller
from tests.runs import debug_workflows


class Guided(debug_workflows.Bench):
    """Each call waits for a line."""

    async def call(self, key: str, word: str) -> None:
        print(key, flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def execute(place: str, *breakpoints: str) -> None:
    debug_workflows.bench = Guided()
    async with roundel.Runs(place) as runs:
        run_id = await runs.start(debug_workflows.FUNCTIONS, "go", breakpoints=breakpoints)
        print(run_id, flush=True)
        print((await runs.result(run_id)).status, flush=True)


async def control_run(place: str, run_id: str, seed: str) -> None:
    async with roundel.Runs(place) as runs:
        print("ready", flush=True)
        sys.stdin.readline()
        controller = Controller(runs, run_id, int(seed))
        await controller.work()
    found = {
        "applied": controller.applied,
        "refused": controller.refused,
        "calls": debug_workflows.bench.calls,
    }
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    control.POLL_SECONDS = 0.01
    kind, *arguments = sys.argv[1:]
    asyncio.run(execute(*arguments) if kind == "execute" else control_run(*arguments))
