"""A process that executes runs of a loop at the same time, and reports when all of them are over."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import roundel
from roundel.journal.sqlite import SqliteStore

LOOP: dict[str, Any] = {
    "graph": {
        "start": "Say",
        "end": "Out",
        "nodes": [
            {"id": "Say", "type": "agent"},
            {"id": "Count", "type": "loop_counter", "config": {"max_iterations": 4}},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Say", "to": "Count"},
            {"from": "Say", "to": "Say"},
            {"from": "Count", "to": "Say"},
            {"from": "Count", "to": "Out"},
        ],
    }
}
SCRIPT = {"Say": ["one apple", "two pears", "three plums", "four figs", "five nuts"]}


async def execute(path: str, group: str, count: int) -> None:
    store = SqliteStore(path, sync="off")
    print("ready", flush=True)
    sys.stdin.readline()
    async with roundel.Runs(store) as runs:
        starts = (runs.start(LOOP, str(number), script=SCRIPT, group=group) for number in range(count))
        for run_id in await asyncio.gather(*starts):
            assert (await runs.result(run_id)).completed
    await store.close()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(execute(sys.argv[1], sys.argv[2], int(sys.argv[3])))
