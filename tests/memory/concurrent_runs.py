"""One process of many: runs of two groups at once, on one store, with the same names and like texts.

    python -m tests.memory.concurrent_runs STORE NUMBER ROUNDS

prints how many entries its agents were shown. It ends with an error if one of them was of another group.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import roundel
from roundel.hosts import services
from roundel.journal.sqlite import SqliteStore
from roundel.nodes.services import Reply, Request, StreamCallback

GROUPS = ("red", "blue")
NAMES = ("working", "long_term", "notes", "board")
_OWNER = re.compile(r"belongs to (\w+)")


def workflow() -> dict[str, Any]:
    uses = [{"name": name, "top_k": 20} for name in NAMES]
    return {
        "memory": {"timeout": 60},
        "graph": {
            "id": "crowd",
            "start": "A",
            "end": "C",
            "memory": [
                {"name": "notes", "type": "simple", "config": {"memory_path": "shared.json"}},
                {"name": "board", "type": "blackboard"},
            ],
            "nodes": [{"id": name, "type": "agent", "config": {"memories": uses}} for name in "ABC"],
            "edges": [{"from": "A", "to": "B"}, {"from": "B", "to": "C"}],
        },
    }


class Crowd:
    def __init__(self, store: SqliteStore, number: int, rounds: int) -> None:
        self.store, self.number, self.rounds = store, number, rounds
        self.plan = roundel.prepare(workflow())
        self.seen = 0

    async def run(self) -> None:
        work = [self._runs(group, lane) for group in GROUPS for lane in range(2)]
        await asyncio.gather(*work)

    async def _runs(self, group: str, lane: int) -> None:
        for round_ in range(self.rounds):
            name = f"{self.number}-{lane}-{round_}"
            result = await roundel.run_async(
                self.plan, f"what belongs to {group}?", script={}, store=self.store, group=group
            )
            assert result.completed, result.error
            async with roundel.Memory(self.store) as memory:
                await memory.promote(group, text=f"promoted {name} belongs to {group}")
                for entry in await memory.search(group, "belongs to red blue promoted"):
                    self.check(entry.text, group)

    def check(self, text: str, group: str) -> None:
        owners = _OWNER.findall(text)
        self.seen += len(owners)
        if set(owners) - {group}:
            sys.exit(f"{group} was shown: {text}")

    def model(self) -> type[Any]:
        crowd = self

        class Fresh:
            """Says something new each time, after a look at what it was shown."""

            replies = 0

            def __init__(self, _script: Any) -> None:
                pass

            async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
                owners = _OWNER.findall(request.messages[-1].text) or ["?"]
                group = owners[-1] if owners[-1] in GROUPS else "?"
                for message in request.messages:
                    crowd.check(message.text, group)
                Fresh.replies += 1
                replies = Reply(f"fact {crowd.number}-{Fresh.replies} belongs to {group}")
                await asyncio.sleep(0)
                return replies

        return Fresh


async def main(path: str, number: int, rounds: int) -> None:
    store = SqliteStore(Path(path), sync="off")
    crowd = Crowd(store, number, rounds)
    vars(services)["ScriptedModel"] = crowd.model()
    try:
        await crowd.run()
    finally:
        await store.close()
    print(crowd.seen)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
