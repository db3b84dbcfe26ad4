"""A process that starts runs, each under its own idempotency key, and reports their ids. It may end in the
middle of one, as a crash would end it."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import roundel
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim, NewRun

GRAPH: dict[str, Any] = {
    "vars": {"KEY": ""},
    "graph": {"start": "A", "end": "A", "nodes": [{"id": "A", "type": "human"}]},
}
"""It waits at once, so that nothing is left to be executed."""


class Crashing(SqliteStore):
    """A store whose process ends with the last of some runs: before or after it was created."""

    left, moment = 0, "before"

    async def create(self, run: NewRun, *chunks: Chunk, **room: Any) -> Claim:
        self.left -= 1
        if not self.left and self.moment == "before":
            os._exit(9)
        claim = await super().create(run, *chunks, **room)
        if not self.left:
            os._exit(9)
        return claim


async def start_all(path: str, keys: int, left: int, moment: str) -> None:
    store = Crashing(path, sync="off")
    store.left, store.moment = left, moment
    print("ready", flush=True)
    sys.stdin.readline()
    async with roundel.Runs(store) as runs:
        for key in range(keys):
            run_id = await start(runs, key)
            print(key, run_id, flush=True)
            if runs.engine.knows(run_id):
                await runs.wait(run_id)
    await store.close()


async def start(runs: roundel.Runs, key: int, **options: Any) -> str:
    return await runs.start(GRAPH, f"input {key}", idempotency_key=f"key {key}", **options)


if __name__ == "__main__":
    file, keys, left, moment = sys.argv[1:]
    asyncio.run(start_all(file, int(keys), int(left), moment))
