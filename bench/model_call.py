"""A model call: an agent in a loop beside the client library that it uses and the provider's own client.

All three speak over HTTP to the same server, which answers at once, so that what is left is what a call costs
on our side. A run sets up its host, its client and its connection anew, which is measured apart; the others
have them already.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import roundel
from bench.cycle import observer
from bench.provider import ANSWER, provider
from roundel.hosts.local_run import LocalRun
from roundel.workflow.message import Message

CALLS = 50
SAMPLES = 15
MODEL = "gpt-4o"
CPU, WALL = 0, 1
QUESTION = ANSWER  # in a loop the answer is the next question; so all ask the same
Work = Callable[[int], Awaitable[None]]
"""Makes so many calls, one after the other."""


def ours(url: str, streams: bool) -> Work:
    """A loop of one agent."""

    async def run(calls: int) -> None:
        result = await LocalRun(plans[calls], on_event=observer()).run((Message(QUESTION),))
        assert result.output == ANSWER
        assert result.usage["model_calls"] == calls

    plans = {calls: roundel.prepare(loop(url, streams, calls)) for calls in (1, CALLS)}
    return run


def loop(url: str, streams: bool, calls: int) -> dict[str, Any]:
    agent = {"id": "Agent", "type": "agent", "config": {"stream": streams}}
    config = {"strategy": {"mode": "count", "max": calls}, "body": agent}
    graph = {"nodes": [{"id": "Loop", "type": "loop_agent", "config": config}], "start": "Loop"}
    return {"models": {"default": profile(url)}, "graph": graph}


def profile(url: str) -> dict[str, Any]:
    return {"model": f"openai:{MODEL}", "base_url": url, "api_key": "none"}


def library(client: Any, streams: bool) -> Work:
    """The client library, called as directly as it allows."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

    async def ask() -> str:
        talk: list[Any] = [ModelRequest([UserPromptPart(QUESTION)])]
        parameters = ModelRequestParameters()
        if not streams:
            return (await model.request(talk, None, parameters)).text or ""
        async with model.request_stream(talk, None, parameters) as stream:
            async for _ in stream:
                pass
            return stream.get().text or ""

    return repeated(ask)


def bare(client: Any, streams: bool) -> Work:
    """The provider's own client."""
    messages = [{"role": "user", "content": QUESTION}]

    async def ask() -> str:
        if not streams:
            whole = await client.chat.completions.create(model=MODEL, messages=messages)
            return str(whole.choices[0].message.content)
        parts = await client.chat.completions.create(
            model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
        )
        return "".join([part.choices[0].delta.content or "" async for part in parts if part.choices])

    return repeated(ask)


def repeated(ask: Callable[[], Awaitable[str]]) -> Work:
    async def run(calls: int) -> None:
        for _ in range(calls):
            assert await ask() == ANSWER

    return run


async def taken(work: Work, calls: int) -> tuple[float, float]:
    """Milliseconds a call: of this process, and on the wall."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    await work(calls)
    return (time.process_time() - cpu) / calls * 1000, (time.perf_counter() - wall) / calls * 1000


class Comparison:
    """Each round measures all contenders one after the other, and a ratio is one of the same round: so a
    noisy minute is the same for both sides of it."""

    def __init__(self, contenders: dict[str, Work]) -> None:
        self.contenders = contenders
        self.samples: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}

    async def measure(self, calls: int, rounds: int) -> None:
        for work in self.contenders.values():
            await work(calls)  # imports, connections
        for _ in range(rounds):
            for name, work in self.contenders.items():
                self.samples[name].append(await taken(work, calls))

    def tell(self, factor: float = 1.0) -> None:
        """The first contender beside each of the others; medians."""
        first = next(iter(self.contenders))
        print(f"{'':>16} {'CPU':>16} {'on the wall':>16}")
        for name in self.contenders:
            cells = [
                f"{self.median(name, clock) * factor:>8.2f} ({self.ratio(first, name, clock):.2f}×)"
                for clock in (CPU, WALL)
            ]
            print(f"{name:>16} {' '.join(cells)}")

    def median(self, name: str, clock: int) -> float:
        return statistics.median(sample[clock] for sample in self.samples[name])

    def ratio(self, name: str, other: str, clock: int) -> float:
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return statistics.median(one[clock] / two[clock] for one, two in pairs)


async def compare(url: str, streams: bool) -> tuple[Comparison, float]:
    """Also the milliseconds of CPU that a run with one call takes."""
    async with openai_client(url) as client:
        contenders = {
            "roundel": ours(url, streams),
            "client library": library(client, streams),
            "bare client": bare(client, streams),
        }
        comparison = Comparison(contenders)
        await comparison.measure(CALLS, SAMPLES)
        once = [await taken(contenders["roundel"], 1) for _ in range(SAMPLES)]
    return comparison, statistics.median(sample[CPU] for sample in once)


def openai_client(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="none", max_retries=0)


def report() -> None:
    with provider() as url:
        for streams in (False, True):
            how = "streamed" if streams else "in one piece"
            comparison, once = asyncio.run(compare(url, streams))
            print(f"a model call of {CALLS}, answered at once and {how}, ms (medians; roundel's ratio to it)")
            comparison.tell()
            # A run of n calls takes setup + n × call.
            setup = (once - comparison.median("roundel", CPU)) * CALLS / (CALLS - 1)
            print(f"{'in that':>16} {setup:>8.2f} once a run\n")
    print("target: at most 1.15× the client library\n")


if __name__ == "__main__":
    report()
