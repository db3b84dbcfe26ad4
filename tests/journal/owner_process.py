"""A process that owns a run in a store, reports that, and appends a fact for each line that it reads."""

from __future__ import annotations

import asyncio
import sys

from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Fenced
from tests.journal.stores import STARTED, chunk, new, waits


async def own(path: str, lease_seconds: float) -> None:
    store = SqliteStore(path, sync="off", lease_seconds=lease_seconds)
    claim = await store.create(new(), chunk(STARTED))
    print("owns", flush=True)
    for first, _ in enumerate(sys.stdin, 1):  # blocks the event loop, as user code may
        try:
            await store.append(claim, first, chunk(*waits(first)), "running", None)
        except Fenced:
            print("fenced", flush=True)
        else:
            print("appended", flush=True)


if __name__ == "__main__":
    asyncio.run(own(sys.argv[1], float(sys.argv[2])))
