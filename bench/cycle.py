"""A two-node cycle in memory: what a step costs beside one asyncio task a step.

A passes a counter on, B adds one and leaves the loop when it is enough. Node bodies are coroutines that
do nothing else. Every event is made and handed to an observer; a run includes setting up its host.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Awaitable, Callable

import roundel
from roundel.hosts.local_run import LocalRun
from roundel.kernel.events import Event, encode_event
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

ROUNDS = (100, 1_000, 10_000)
STEPS = 20_000
"""Each sample runs about so many steps, in one long run or in many short ones."""
SAMPLES = 9
START = (Message("go", data={"count": 0}),)


def cycle(rounds: int) -> Plan:
    graph = roundel.Graph(start="A", end="Out", limits={"rounds": 10**9})

    @graph.function("A")
    async def a(message: Message) -> Message:
        return message

    @graph.function("B", ports=["again", "done"])
    async def b(message: Message) -> roundel.Outcome:
        assert message.data is not None
        count = message.data["count"] + 1
        given = Message("", "assistant", {"count": count})
        return roundel.Outcome((given,), "done" if count == rounds else "again")

    graph.node("Out", "passthrough").edge("A", "B")
    graph.edge("B", "A", port="again").edge("B", "Out", port="done")
    return roundel.prepare(graph)


async def task_a_step(rounds: int) -> None:
    async def a(count: int) -> int:
        return count

    async def b(count: int) -> int:
        return count + 1

    count = 0
    while count < rounds:
        count = await asyncio.create_task(a(count))
        count = await asyncio.create_task(b(count))


def ours(rounds: int, observe: Callable[[Event], object]) -> Callable[[], Awaitable[None]]:
    plan = cycle(rounds)

    async def run() -> None:
        result = await LocalRun(plan, on_event=observe).run(START)
        assert result.data == {"count": rounds}

    return run


async def microseconds_a_step(work: Callable[[], Awaitable[None]], rounds: int) -> float:
    """CPU time, which a busy machine disturbs less than the clock on the wall."""
    times = STEPS // (2 * rounds)
    gc.collect()
    begin = time.thread_time()
    for _ in range(times):
        await work()
    return (time.thread_time() - begin) / (times * 2 * rounds) * 1e6


def observer() -> Callable[[Event], object]:
    """Takes events, and keeps the last one."""
    return deque[Event](maxlen=1).append


async def compare(rounds: int) -> tuple[float, float, float]:
    """Medians of microseconds a step: a bare task, ours, ours with every event encoded."""
    contenders: list[Callable[[], Awaitable[None]]] = [
        lambda: task_a_step(rounds),
        ours(rounds, observer()),
        ours(rounds, encode_event),
    ]
    samples: list[list[float]] = [[], [], []]
    for _ in range(SAMPLES):  # interleaved, so that a noisy moment meets all of them
        for contender, taken in zip(contenders, samples, strict=True):
            taken.append(await microseconds_a_step(contender, rounds))
    bare, made, encoded = (statistics.median(taken) for taken in samples)
    return bare, made, encoded


async def peak_kib(rounds: int) -> float:
    """The most memory that a run takes beyond what was there before it."""
    work = ours(rounds, observer())
    await work()
    gc.collect()
    tracemalloc.start()
    await work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024


def report() -> None:
    print("two-node cycle in memory, CPU µs a step (medians; ratio to a bare asyncio task a step)")
    print(f"{'rounds':>8} {'bare task':>10} {'roundel':>16} {'and encoded':>16} {'peak memory':>12}")
    for rounds in ROUNDS:
        bare, made, encoded = asyncio.run(compare(rounds))
        peak = asyncio.run(peak_kib(rounds))
        print(
            f"{rounds:>8,} {bare:>10.2f} {made:>8.2f} ({made / bare:.2f}×) "
            f"{encoded:>8.2f} ({encoded / bare:.2f}×) {peak:>8.0f} KiB"
        )
    print("target: at most 0.6× for the events made, and flat from 100 to 10,000 rounds\n")
