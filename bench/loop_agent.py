"""A loop agent in memory: what a round costs beside a step of a free cycle, and what an element of an array
costs, long or short, and beside `asyncio.gather`.

The body is one coroutine that does nothing else. Every event is made and handed to an observer, as in
bench/cycle.py; a run includes setting up its host.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable

import roundel
from bench import cycle
from roundel.hosts.local_run import LocalRun
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

ROUNDS = 10_000
ELEMENTS = (1_000, 10_000)
WIDTH = 100
SAMPLES = 7


def one_node(rounds: int) -> Callable[[], Awaitable[None]]:
    """A free cycle in which each step is a round, as in a loop agent."""
    graph = roundel.Graph(start="A", end="Out", limits={"rounds": 10**9})

    @graph.function("A", ports=["again", "done"])
    async def a(message: Message) -> roundel.Outcome:
        assert message.data is not None
        count = message.data["count"] + 1
        given = Message("", "assistant", {"count": count})
        return roundel.Outcome((given,), "done" if count == rounds else "again")

    graph.node("Out", "passthrough").edge("A", "A", port="again").edge("A", "Out", port="done")
    plan = roundel.prepare(graph)

    async def run() -> None:
        result = await LocalRun(plan, on_event=cycle.observer()).run(cycle.START)
        assert result.loops["A"]["rounds"] == rounds

    return run


def repeated(mode: roundel.LoopMode) -> Plan:
    async def step(message: Message) -> Message:
        return message

    return roundel.prepare(roundel.LoopAgent("Loop", step, mode))


def counted(rounds: int) -> Callable[[], Awaitable[None]]:
    plan = repeated(roundel.LoopMode.count(rounds))

    async def run() -> None:
        result = await LocalRun(plan, on_event=cycle.observer()).run(cycle.START)
        assert result.nodes == {"Loop": 1, "step": rounds}

    return run


def listed(elements: int) -> Callable[[], Awaitable[None]]:
    plan = repeated(roundel.LoopMode.array(max=elements, max_parallel=WIDTH))
    text = json.dumps([f"element {number}" for number in range(elements)])

    async def run() -> None:
        result = await LocalRun(plan, on_event=cycle.observer()).run((Message(text),))
        assert result.output == text

    return run


def mapped(elements: int) -> Callable[[], Awaitable[None]]:
    """All elements at the same time."""
    plan = repeated(roundel.LoopMode.array(max=elements, max_parallel=elements))
    text = json.dumps([f"element {number}" for number in range(elements)])

    async def run() -> None:
        result = await LocalRun(plan, on_event=cycle.observer()).run((Message(text),))
        assert result.output == text

    return run


def gathered(elements: int) -> Callable[[], Awaitable[None]]:
    async def step(number: int) -> int:
        return number

    async def run() -> None:
        assert len(await asyncio.gather(*(step(number) for number in range(elements)))) == elements

    return run


async def microseconds(work: Callable[[], Awaitable[None]], steps: int, times: int = 1) -> float:
    """CPU time of each step."""
    gc.collect()
    begin = time.thread_time()
    for _ in range(times):
        await work()
    return (time.thread_time() - begin) / (steps * times) * 1e6


async def medians(works: list[tuple[Callable[[], Awaitable[None]], int, int]]) -> list[float]:
    """For each a run, its steps and how often it is run in a sample; interleaved, as noise is."""
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(SAMPLES):
        for (work, steps, times), taken in zip(works, samples, strict=True):
            taken.append(await microseconds(work, steps, times))
    return [statistics.median(taken) for taken in samples]


def report() -> None:
    contenders = {
        "free cycle of two nodes": (cycle.ours(ROUNDS, cycle.observer()), 2 * ROUNDS, 1),
        "free cycle of one node": (one_node(ROUNDS), ROUNDS, 1),
        "loop agent": (counted(ROUNDS), ROUNDS, 1),
    }
    taken = dict(zip(contenders, asyncio.run(medians(list(contenders.values()))), strict=True))
    print(f"{ROUNDS:,} rounds over a trivial body, CPU µs a step (medians; ratio of the loop agent to it)")
    for name, step in taken.items():
        print(f"{name:>24} {step:>8.2f} ({taken['loop agent'] / step:.2f}×)")
    print("target: at most 1.5×\n")
    few, many = ELEMENTS
    short, long = asyncio.run(medians([(listed(few), few, many // few), (listed(many), many, 1)]))
    print(f"an array, {WIDTH} elements at the same time, CPU µs an element (medians)")
    print(f"{f'{few:,} elements':>24} {short:>8.2f}")
    print(f"{f'{many:,} elements':>24} {long:>8.2f} ({long / short:.2f}×)")
    print("target: the same for both\n")
    bare, ours = asyncio.run(medians([(gathered(few), few, 10), (mapped(few), few, 10)]))
    print(f"{few:,} elements at the same time, CPU µs an element (medians)")
    print(f"{'asyncio.gather':>24} {bare:>8.2f}")
    print(f"{'loop agent':>24} {ours:>8.2f} ({ours / bare:.2f}×)")
    print("target: at most 3×\n")
