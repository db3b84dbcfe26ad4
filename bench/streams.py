"""200 agents that stream at the same time in one process, beside as many streams of the bare clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import roundel
from bench.cycle import observer
from bench.model_call import QUESTION, bare, library, medians, openai_client, profile, taken
from bench.provider import ANSWER, provider
from roundel.hosts.local import LocalHost
from roundel.workflow.message import Message

AGENTS = 200
SAMPLES = 5


def agents(url: str) -> Callable[[int], Awaitable[None]]:
    """One agent for each element of a list, all at once."""
    agent = {"id": "Agent", "type": "agent"}
    strategy = {"mode": "array", "max": AGENTS, "max_parallel": AGENTS}
    node = {"id": "Each", "type": "loop_agent", "config": {"strategy": strategy, "body": agent}}
    flow = {"models": {"default": profile(url)}, "graph": {"nodes": [node], "start": "Each"}}
    plan, text = roundel.prepare(flow), json.dumps([QUESTION] * AGENTS)

    async def run(_: int) -> None:
        result = await LocalHost(plan, on_event=observer()).run((Message(text),))
        assert json.loads(result.output) == [ANSWER] * AGENTS, result.error

    return run


def at_once(work: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
    async def run(calls: int) -> None:
        await asyncio.gather(*(work(1) for _ in range(calls)))

    return run


async def compare(url: str) -> dict[str, tuple[float, float]]:
    async with openai_client(url) as client:
        contenders: dict[str, Any] = {
            "roundel": agents(url),
            "client library": at_once(library(client, streams=True)),
            "bare client": at_once(bare(client, streams=True)),
        }
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for work in contenders.values():
            await work(AGENTS)
        for _ in range(SAMPLES):
            for name, work in contenders.items():
                samples[name].append(await taken(work, AGENTS))
    return {name: medians(pairs) for name, pairs in samples.items()}


def report() -> None:
    with provider() as url:
        found = asyncio.run(compare(url))
    cpu, wall = found["roundel"]
    print(f"{AGENTS} streams at the same time, seconds in all (medians; ratio of roundel to it)")
    print(f"{'':>16} {'CPU':>16} {'on the wall':>16}")
    for name, (own, waited) in found.items():
        seconds = AGENTS / 1000
        print(
            f"{name:>16} {own * seconds:>8.2f} ({cpu / own:.2f}×) "
            f"{waited * seconds:>8.2f} ({wall / waited:.2f}×)"
        )
    print("target: at most 1.15× the client library\n")


if __name__ == "__main__":
    report()
