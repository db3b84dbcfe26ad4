"""What all guards cost together: the two-node cycle with budgets and the breaker, and without either.

The guarded cycle has budgets on the graph and on the loop, all far away. Its nodes are functions, so that
nothing but the engine is measured; what the breaker does with a message of an agent is measured alone.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable

import roundel
from bench.cycle import SAMPLES, START, microseconds_a_step, observer
from roundel.hosts.local_run import LocalRun
from roundel.kernel.novelty import novelty
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

ROUNDS = (100, 1_000, 10_000)
FAR = {"steps": 10**9, "model_calls": 10**9, "tokens": 10**12, "cost_usd": 1e9, "seconds": 1e9}
TARGET = 1.3


def cycle(rounds: int, guarded: bool) -> Plan:
    far = FAR if guarded else {}
    graph = roundel.Graph(
        start="A",
        end="Out",
        limits={"rounds": 10**9, **far},
        loops={"A": {"max_rounds": 10**9, **({"limits": far} if guarded else {})}},
        breaker=guarded,
    )

    async def a(message: Message) -> Message:
        return message

    async def b(message: Message) -> roundel.Outcome:
        assert message.data is not None
        count = message.data["count"] + 1
        given = Message("", "assistant", {"count": count})
        return roundel.Outcome((given,), "done" if count == rounds else "again")

    graph.function("A")(a)
    graph.function("B", ports=["again", "done"])(b)
    graph.node("Out", "passthrough").edge("A", "B")
    graph.edge("B", "A", port="again").edge("B", "Out", port="done")
    return roundel.prepare(graph)


def work(rounds: int, guarded: bool) -> Callable[[], Awaitable[None]]:
    plan, observe = cycle(rounds, guarded), observer()
    assert plan.budgeted == guarded

    async def run() -> None:
        result = await LocalRun(plan, on_event=observe).run(START)
        assert result.data == {"count": rounds}

    return run


async def compare(rounds: int) -> tuple[float, float]:
    """Medians of microseconds a step, without guards and with them."""
    contenders = [work(rounds, False), work(rounds, True)]
    samples: list[list[float]] = [[], []]
    for _ in range(SAMPLES):
        for contender, taken in zip(contenders, samples, strict=True):
            taken.append(await microseconds_a_step(contender, rounds))
    plain, guarded = map(statistics.median, samples)
    return plain, guarded


def microseconds_a_message(size: int = 2_000, times: int = 200) -> float:
    """How long the breaker looks at a message of this size, beside eight earlier ones."""
    words = [
        f"{first}{last}" for first in ("ba", "ko", "li", "tu", "ne") for last in ("ran", "sel", "mo", "dit")
    ]
    dice = random.Random(1)
    texts = [" ".join(dice.choices(words, k=size // 5))[:size] for _ in range(9)]
    begin = time.thread_time()
    for _ in range(times):
        novelty(texts[8], texts[:8])
    return (time.thread_time() - begin) / times * 1e6


def report() -> None:
    print("two-node cycle with all guards, CPU µs a step (medians; ratio to the same without guards)")
    print(f"{'rounds':>8} {'no guards':>10} {'all guards':>18}")
    for rounds in ROUNDS:
        plain, guarded = asyncio.run(compare(rounds))
        print(f"{rounds:>8,} {plain:>10.2f} {guarded:>10.2f} ({guarded / plain:.2f}×)")
    print(f"novelty of a message of 2,000 characters: {microseconds_a_message():.0f} µs")
    print(f"target: at most {TARGET}×\n")
