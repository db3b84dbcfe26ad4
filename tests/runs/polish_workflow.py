"""A loop with a score, for stories about runs of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import roundel
from roundel.journal.sqlite import SqliteStore

T = TypeVar("T")

POLISH: dict[str, Any] = {
    "graph": {
        "id": "polish",
        "start": "Writer",
        "end": "Final",
        "nodes": [
            {"id": "Writer", "type": "agent"},
            {"id": "Editor", "type": "human", "config": {"description": "Good?"}},
            {"id": "Gate", "type": "loop", "config": {"max_rounds": 5, "exit_on_score": 90}},
            {"id": "Final", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Writer", "to": "Editor"},
            {"from": "Writer", "to": "Gate", "trigger": False},
            {"from": "Editor", "to": "Gate", "carry_data": False},
            {"from": "Gate", "to": "Writer", "port": "continue"},
            {"from": "Gate", "to": "Final", "port": "exit"},
        ],
    }
}
DRAFTS = [
    {"text": "tea is good", "data": {"score": 50}, "tokens": {"input": 10, "output": 3}},
    {"text": "tea is picked at dawn", "data": {"score": 80}, "tokens": {"input": 20, "output": 5}},
    {"text": "tea! tea! tea!", "data": {"score": 60}, "tokens": {"input": 30, "output": 4}},
    {"text": "picked at dawn, yours by four", "data": {"score": 95}, "tokens": {"input": 40, "output": 7}},
]
ALONE = {"Writer": DRAFTS}
"""With this the editor is waited for."""
BOTH = {"Writer": DRAFTS, "Editor": ["go on"]}


def run_stored(place: Path, script: dict[str, Any] = BOTH, **options: Any) -> roundel.Result:
    return roundel.run(POLISH, "tea", script=script, store=place, **options)


def using(place: Path, story: Callable[[roundel.Runs], Awaitable[T]]) -> T:
    async def main() -> T:
        async with roundel.Runs(place) as runs:
            return await story(runs)

    return asyncio.run(main())


def in_store(place: Path, story: Callable[[SqliteStore], Awaitable[T]]) -> T:
    async def main() -> T:
        store = SqliteStore(place)
        try:
            return await story(store)
        finally:
            await store.close()

    return asyncio.run(main())
