"""200 agents that stream at the same time in one process, beside as many streams of the bare clients."""

from __future__ import annotations

import asyncio
import json

import roundel
from bench.cycle import observer
from bench.model_call import QUESTION, Comparison, Work, bare, library, openai_client, profile
from bench.provider import ANSWER, provider
from roundel.hosts.local_run import LocalRun
from roundel.workflow.message import Message

AGENTS = 200
SAMPLES = 5


def agents(url: str) -> Work:
    """One agent for each element of a list, all at once."""
    agent = {"id": "Agent", "type": "agent"}
    strategy = {"mode": "array", "max": AGENTS, "max_parallel": AGENTS}
    node = {"id": "Each", "type": "loop_agent", "config": {"strategy": strategy, "body": agent}}
    flow = {"models": {"default": profile(url)}, "graph": {"nodes": [node], "start": "Each"}}
    plan, text = roundel.prepare(flow), json.dumps([QUESTION] * AGENTS)

    async def run(_: int) -> None:
        result = await LocalRun(plan, on_event=observer()).run((Message(text),))
        assert json.loads(result.output) == [ANSWER] * AGENTS, result.error

    return run


def at_once(work: Work) -> Work:
    async def run(calls: int) -> None:
        await asyncio.gather(*(work(1) for _ in range(calls)))

    return run


async def compare(url: str) -> Comparison:
    async with openai_client(url) as client:
        comparison = Comparison(
            {
                "roundel": agents(url),
                "client library": at_once(library(client, streams=True)),
                "bare client": at_once(bare(client, streams=True)),
            }
        )
        await comparison.measure(AGENTS, SAMPLES)
    return comparison


def report() -> None:
    with provider() as url:
        comparison = asyncio.run(compare(url))
    print(f"{AGENTS} streams at the same time, seconds in all (medians; roundel's ratio to it)")
    comparison.tell(AGENTS / 1000)
    print("target: at most 1.15× the client library\n")


if __name__ == "__main__":
    report()
