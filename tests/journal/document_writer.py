"""A process that writes documents: it competes for keys, or writes until it is killed."""

from __future__ import annotations

import asyncio
import sys

from roundel.journal.documents import DocumentConflict
from roundel.journal.sqlite import SqliteStore, Sync


async def compete(path: str, name: str, keys: int) -> None:
    """Puts each key as if it did not exist, and reports those that it got."""
    store = SqliteStore(path, sync="off")
    documents = store.documents()
    print("ready", flush=True)
    sys.stdin.readline()
    for key in range(keys):
        try:
            await documents.put("keys", str(key), {"writer": name}, expected=0)
        except DocumentConflict:
            continue
        print(key, flush=True)
    await store.close()


async def write(path: str, sync: Sync) -> None:
    """Writes without an end, and reports what is written."""
    documents = SqliteStore(path, sync=sync).documents()
    version = number = 0
    while True:
        version = await documents.put("kept", "key", {"version": version + 1}, keep_history=True)
        number = await documents.append("log", {"number": number + 1})
        print(version, number, flush=True)


if __name__ == "__main__":
    what, file, *rest = sys.argv[1:]
    if what == "compete":
        asyncio.run(compete(file, rest[0], int(rest[1])))
    else:
        asyncio.run(write(file, "full"))
