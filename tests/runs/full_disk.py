"""Fills the disk that a folder is on with runs, prunes some of them, and runs another one."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import roundel
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreFailure
from roundel.runs.runs import Runs


def talk() -> roundel.Graph:
    graph = roundel.Graph(start="Say", end="Say", limits={"rounds": 1000})

    @graph.function("Say", ports=["more"])
    async def say(round: int) -> Any:
        return roundel.to("more", os.urandom(4000).hex()) if round < 40 else "done"

    return graph.edge("Say", "Say", port="more")


async def work(path: Path, keep: str) -> None:
    store, finished = SqliteStore(path), []
    await store.set_room_aside()
    try:
        while True:
            finished.append((await roundel.run_async(talk(), "go", store=store)).run_id)
    except StoreFailure as error:
        print(error)
    await store.close()
    runs = Runs(SqliteStore(path))
    await runs.prune(*finished[: len(finished) // 2], keep=keep)
    assert (await roundel.run_async(talk(), "go", store=runs.store)).completed
    await runs.store.close()
    print("pruned", path.with_name("runs.db-room").exists())


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
