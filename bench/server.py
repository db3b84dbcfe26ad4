"""A server under load: `roundel serve` in a process of its own, on a SQLite file, and its clients here.

    streams     100 clients on 20 loops; each checks that it gets every event once and in order. The delay of
                an event is the time from its timestamp to its arrival: at full speed, where everything waits
                for one core, and with loops that wait for calls, as real ones do.
    starts      500 runs of 50 steps, started over HTTP; all finish
    keys        1,000 starts with keys, repeated at random, at two servers; no key leads to two runs
    one client  events a second, from the store and beside a bare Starlette endpoint with the same bytes
    reconnect   the first byte at event 25,000, beside that at event 250
    soak        runs and clients that come and go for two minutes; the memory of the server

The clients take a core, too (tests/server/load.py), so a machine with two cores shows the server as it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tests.server.live import ServerProcess, loop_text
from tests.server.load import (
    LINES,
    Client,
    RunFollower,
    Site,
    StoreFollower,
    calling_text,
    close,
    free_port,
    memory,
    wait_for_end,
)

LOOPS, CLIENTS = 20, 100
ROUNDS = 400
PACED_ROUNDS = 60
PACE = 0.1
RUNS, STARTERS = 500, 10
STEPS = 25
"""Rounds of two nodes each."""
KEYS, REPEATS = 1_000, 3
LONG = 5_200
"""Rounds of the run with more than 25,000 events."""
FAR, NEAR = 25_000, 250
SOAK_SECONDS = float(os.environ.get("ROUNDEL_SOAK", "120"))


def percentiles(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms"


class Delays:
    """The delays of the events that arrive at clients."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def take(self, _id: str, data: bytes) -> None:
        stamp = json.loads(data)["timestamp"]
        self.seconds.append(time.time() - datetime.fromisoformat(stamp).timestamp())


async def follow_loops(site: Site, text: str, loops: int, clients: int, script: object) -> Delays:
    """Clients on loops that start when all of them are there. Also one client of all runs."""
    starter, delays = site.client(), Delays()
    store = site.open()
    position = await store.wait_for_append(-1)
    await store.close()
    run_ids = [await starter.start(text, f"loop {n}", script=script, paused=True) for n in range(loops)]
    followers = [
        RunFollower(site.client(), run_ids[number % loops], on_event=delays.take) for number in range(clients)
    ]
    everything = StoreFollower(site.client(), loops)
    everything.path = f"/api/v1/events?after={position}"
    tasks = [asyncio.create_task(one.follow()) for one in (*followers, everything)]
    while not all(one.count for one in followers):  # noqa: ASYNC110 (it happens in many places)
        await asyncio.sleep(0.01)
    delays.seconds.clear()
    begin = time.perf_counter()  # the first loops are at work while the others are resumed
    for run_id in run_ids:
        assert (await starter.request("POST", f"/api/v1/runs/{run_id}/resume"))[0] == 200
    await asyncio.gather(*tasks)
    taken = time.perf_counter() - begin
    counts = [everything.newest[run_ids[number % loops]] for number in range(clients)]
    assert [one.count for one in followers] == counts
    print(
        f"{clients} clients on {loops} loops: {sum(counts):,} events, each once and in order, "
        f"in {taken:.1f} s ({sum(counts) / taken:,.0f}/s); delay {percentiles(delays.seconds)}"
    )
    return delays


async def start_many(site: Site) -> None:
    async def start(count: int) -> list[tuple[str, float]]:
        client, started = site.client(), []
        for _ in range(count):
            begin = time.perf_counter()
            run_id = await client.start(loop_text(STEPS), script=LINES)
            started.append((run_id, time.perf_counter() - begin))
        return started

    alone = [seconds for _, seconds in await start(20)]
    print(f"start of a run, alone: {percentiles(alone)}")
    begin = time.perf_counter()
    found = await asyncio.gather(*(start(RUNS // STARTERS) for _ in range(STARTERS)))
    started = [pair for pairs in found for pair in pairs]
    ends = await wait_for_end(site, [run_id for run_id, _ in started])
    taken = time.perf_counter() - begin
    assert set(ends.values()) == {"completed"} and len(ends) == RUNS
    print(
        f"{RUNS} runs of {2 * STEPS} steps from {STARTERS} clients: all completed in {taken:.1f} s "
        f"({RUNS / taken:.0f}/s); start {percentiles([seconds for _, seconds in started])}"
    )


async def repeat_starts(site: Site) -> None:
    store = site.open()
    before = len(await store.rows(None))
    text = loop_text(1)

    async def start(number: int) -> list[tuple[int, str]]:
        dice, client = random.Random(number), site.client(number % 2)
        order = [*range(number, KEYS, 8), *dice.choices(range(KEYS), k=KEYS * REPEATS // 8)]
        dice.shuffle(order)
        return [(key, await client.start(text, f"{key}", f"key {key}", script=LINES)) for key in order]

    begin = time.perf_counter()
    pairs = [pair for found in await asyncio.gather(*map(start, range(8))) for pair in found]
    taken = time.perf_counter() - begin
    answers = set(pairs)
    assert len(answers) == len(dict(answers)), "a key led to two runs"
    ends = await wait_for_end(site, dict(answers).values())
    assert set(ends.values()) == {"completed"}
    assert len(await store.rows(None)) - before == len(answers)
    await store.close()
    print(f"{len(pairs):,} starts with {len(answers):,} keys at two servers: as many runs, {taken:.1f} s")


BARE = """
import asyncio, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route
body = open(sys.argv[2], "rb").read()
async def chunks():
    for at in range(0, len(body), 256 * 1024):
        yield body[at : at + 256 * 1024]
async def events(_request):
    return StreamingResponse(chunks(), media_type="text/event-stream")
app = Starlette(routes=[Route("/events", events)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
"""


async def read_all(client: Client, path: str) -> tuple[bytes, float]:
    """Everything up to the end of a stream, and the seconds that it took."""
    begin = time.perf_counter()
    reader, writer = await client.events(path)
    parts = []
    while part := await reader.read(1 << 18):
        parts.append(part)
    await close(writer)
    return b"".join(parts), time.perf_counter() - begin


async def first_byte(client: Client, path: str, last_id: str) -> float:
    begin = time.perf_counter()
    reader, writer = await client.events(path, last_id)
    data = b""
    while b"id: " not in data:
        data += await reader.read(1 << 16)
    taken = time.perf_counter() - begin
    await close(writer)
    return taken


async def follow_one(site: Site, folder: Path) -> None:
    client = site.client()
    run_id = await client.start(loop_text(LONG), script=LINES)
    path = f"/api/v1/runs/{run_id}/events"
    begin = time.perf_counter()
    live = RunFollower(site.client(), run_id)
    await live.follow()
    print(f"one client follows one loop: {live.count / (time.perf_counter() - begin):,.0f} events/s")
    body, _ = await read_all(client, path)
    stored = statistics.median([(await read_all(client, path))[1] for _ in range(3)])
    (folder / "body").write_bytes(body)
    port = free_port()
    bare = await asyncio.create_subprocess_exec(sys.executable, "-c", BARE, str(port), str(folder / "body"))
    try:
        other = Client(port, "")
        while True:
            try:
                await read_all(other, "/events")
                break
            except OSError:
                await asyncio.sleep(0.05)
        ready = statistics.median([(await read_all(other, "/events"))[1] for _ in range(3)])
    finally:
        bare.send_signal(signal.SIGTERM)
        await bare.wait()
    print(
        f"one client, {live.count:,} events of the past: {live.count / stored:,.0f} events/s; "
        f"Starlette with the bytes in memory: {live.count / ready:,.0f} ({stored / ready:.1f}×)"
    )
    assert live.count > FAR
    far = [await first_byte(client, path, str(FAR)) for _ in range(20)]
    near = [await first_byte(client, path, str(NEAR)) for _ in range(20)]
    ratio = statistics.median(far) / statistics.median(near)
    print(f"first event after {FAR:,}: {percentiles(far)}; after {NEAR}: {percentiles(near)} ({ratio:.2f}×)")


async def soak(site: Site, server: ServerProcess) -> None:
    dice, until = random.Random(0), time.monotonic() + SOAK_SECONDS
    counts = {"runs": 0, "connections": 0}
    samples: list[int] = []

    async def live() -> None:
        client = site.client()
        while time.monotonic() < until:
            run_id = await client.start(loop_text(STEPS), script=LINES)
            one = RunFollower(site.client(), run_id, leaves=lambda: dice.random() < 0.02)
            await one.follow()
            counts["runs"] += 1
            counts["connections"] += one.connections

    async def look() -> None:
        while time.monotonic() < until:
            await asyncio.sleep(SOAK_SECONDS / 24)
            samples.append(memory(server.process.pid))

    await asyncio.gather(look(), *(live() for _ in range(8)))
    first, last = (statistics.mean(part) for part in (samples[4:10], samples[-6:]))
    shown = " ".join(f"{sample / 1e6:.0f}" for sample in samples)
    print(
        f"soak of {SOAK_SECONDS:.0f} s, {counts['runs']} runs, {counts['connections']} connections: memory "
        f"{last / first:.2f}× from the first third to the last quarter (MB: {shown})"
    )


async def measure(folder: Path) -> None:
    async with Site(folder, seconds=PACE) as site:
        server = await site.start(0, "--max-runs", "1000")

        def tell_memory(when: str) -> None:
            print(f"memory of the server {when}: {memory(server.process.pid) / 1e6:.0f} MB", flush=True)

        tell_memory("at first")
        await follow_loops(site, calling_text(PACED_ROUNDS), LOOPS, CLIENTS, None)
        await follow_loops(site, loop_text(ROUNDS), LOOPS, CLIENTS, LINES)
        tell_memory("after the streams")
        await follow_one(site, folder)
        await start_many(site)
        tell_memory("after the starts")
        second = await site.start(1, "--max-runs", "1000")
        await repeat_starts(site)
        await second.end()
        if SOAK_SECONDS:
            await soak(site, server)
        tell_memory("at the end")


def report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
    print(
        "target: each event once, all runs completed, the memory flat; the far event as quick as the near\n"
    )


if __name__ == "__main__":
    report()
