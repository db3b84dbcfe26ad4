"""What it costs to keep a run: one commit of ours beside one bare insert of the same bytes.

A node that calls something (a coroutine that does nothing else) runs in a loop, once alone and once as two
hundred runs at the same time. Beside it stands what SQLite alone takes for the same bytes, with the same sync
setting: in one thread, with as many rows in one transaction as ours had; and shared, where as many tasks as
there are runs wait for one row after the other, and a thread writes what they wait for together. Ratios are
those of measurements that were made right after each other, and the middle one of several is shown: other
programs use the disk, too. Sizes and commits are counted, a long run is opened again and goes on, and the
last events of a long run are read beside those of a short one.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import roundel
from roundel.hosts.local_run import LocalRun
from roundel.hosts.stored_run import open_run, read_events
from roundel.journal.sqlite import SqliteStore, Sync
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

EFFECTS = 1_000
RUNS = 200
EFFECTS_EACH = 50
SAMPLES = 9
LONG = 20_000
"""Rounds of the long run, each of which makes five events, until its process is gone."""
MORE = 1_000
"""Rounds that are left for the one that opens it again."""
HISTORY = 1_000
LOGS = (50, 5_000)
"""Rounds of the runs whose last events are read, with five events each."""


Batch = list[tuple[bytes, "asyncio.Future[None]"]]


def loop(
    rounds: int, size: int = 0, reached: Callable[[int], None] | None = None, **say: Any
) -> roundel.Graph:
    """One effect a round, and two pure nodes."""
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": rounds + 1})

    @graph.function("Say", **say)
    async def speak(round: int) -> str:
        if reached is not None:
            reached(round)
        return random.Random(round).randbytes(size // 2).hex() if size else "word"

    graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
    return graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")


async def run_stored(runs: roundel.Runs, plan: Plan) -> str:
    run_id = await runs.start(plan, "go")
    assert (await runs.wait(run_id)).completed
    return run_id


def bodies(path: Path) -> list[bytes]:
    with sqlite3.connect(path) as database:
        found = [body for (body,) in database.execute("SELECT body FROM chunks ORDER BY place")]
    database.close()
    return found


def warm(path: Path) -> sqlite3.Connection:
    """A file whose log has its full length: to make it grow takes a disk longer than to write over it."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = off")
    database.execute("CREATE TABLE filling (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    for _ in range(1200):
        database.execute("INSERT INTO filling (body) VALUES (zeroblob(3000))")
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    return database


def bare(path: Path, rows: list[bytes], sync: Sync, together: int = 1) -> float:
    """Seconds for so many rows, so many of them in one transaction."""
    database = warm(path)
    database.execute(f"PRAGMA synchronous = {sync}")
    database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    started = time.perf_counter()
    for first in range(0, len(rows), together):
        database.execute("BEGIN IMMEDIATE")
        for row in rows[first : first + together]:
            database.execute("INSERT INTO rows (body) VALUES (?)", (row,))
        database.execute("COMMIT")
    taken = time.perf_counter() - started
    database.close()
    return taken


def shared(path: Path, rows: list[bytes], sync: Sync, runs: int) -> float:
    """Seconds for so many rows, if so many tasks each wait for theirs, one after the other."""
    database = warm(path)
    database.execute(f"PRAGMA synchronous = {sync}")
    database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    jobs: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()

    def write() -> None:
        while (batch := jobs.get()) is not None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO rows (body) VALUES (?)", [(row,) for row, _ in batch])
            database.execute("COMMIT")
            loop.call_soon_threadsafe(tell, batch)

    def tell(batch: Batch) -> None:
        for _, future in batch:
            future.set_result(None)

    async def work() -> float:
        nonlocal loop
        loop = asyncio.get_running_loop()
        gathered: Batch = []

        def hand_over() -> None:
            jobs.put(gathered.copy())
            gathered.clear()

        async def task(mine: list[bytes]) -> None:
            for row in mine:
                if not gathered:
                    loop.call_soon(hand_over)
                future = loop.create_future()
                gathered.append((row, future))
                await future

        started = time.perf_counter()
        await asyncio.gather(*(task(rows[number::runs]) for number in range(runs)))
        return time.perf_counter() - started

    loop: asyncio.AbstractEventLoop
    thread = threading.Thread(target=write)
    thread.start()
    try:
        return asyncio.run(work())
    finally:
        jobs.put(None)
        thread.join()
        database.close()


async def ours(path: Path, sync: Sync, runs: int, effects: int) -> tuple[float, int]:
    """Seconds, and commits."""
    graph = loop(effects)
    plan = roundel.prepare(graph)
    store = SqliteStore(path, sync=sync)
    service = roundel.Runs(store)
    await store.rows()  # first, since a store is not made of a file that holds something else
    warmed = warm(path)
    started = time.perf_counter()
    await asyncio.gather(*(run_stored(service, plan) for _ in range(runs)))
    taken = time.perf_counter() - started
    commits = store.commits
    await store.close()
    warmed.close()
    return taken, commits


async def run_unstored(runs: int, effects: int) -> float:
    plan = roundel.prepare(loop(effects))
    started = time.perf_counter()
    await asyncio.gather(*(LocalRun(plan).run((Message("go"),)) for _ in range(runs)))
    return time.perf_counter() - started


def compare(sync: Sync, runs: int, effects: int) -> None:
    total = runs * effects
    mine, alone, among, plain, commits = [], [], [], [], 0
    for _ in range(SAMPLES):  # interleaved, so that a noisy moment meets all of them
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
            path = Path(folder, "ours.db")
            taken, commits = asyncio.run(ours(path, sync, runs, effects))
            mine.append(taken)
            rows = bodies(path)
            alone.append(bare(Path(folder, "bare.db"), rows, sync, max(1, round(len(rows) / commits))))
            among.append(shared(Path(folder, "shared.db"), rows, sync, runs) if runs > 1 else alone[-1])
            plain.append(asyncio.run(run_unstored(runs, effects)))
    times = "".join(
        f"{statistics.median(taken) / total * 1e6:>10.1f}" for taken in (alone, among, mine, plain)
    )
    ratios = "".join(f"{middle(mine, plain, least):>9.2f}×" for least in (alone, among))
    print(f"{sync:>8} {runs:>5}{times}{ratios} {commits / total:>8.3f}")


def middle(stored: list[float], plain: list[float], least: list[float]) -> float:
    """How many times the least it takes to keep a run."""
    return statistics.median(
        (taken - step) / floor for taken, step, floor in zip(stored, plain, least, strict=True)
    )


async def history_bytes(path: Path) -> int:
    """The size of a run that adds 1 KB in each round, and reads all of it again."""
    graph = loop(HISTORY, 1024, context_window=-1)
    store = SqliteStore(path, sync="off")
    plan = roundel.prepare(graph)
    await run_stored(roundel.Runs(store), plan)
    await store.close()
    return sum(file.stat().st_size for file in path.parent.iterdir())


async def left_behind(path: Path) -> tuple[str, roundel.Graph]:
    """A file as a process leaves it that is killed in a long run: the run, and its workflow."""

    def reached(round: int) -> None:
        if round > LONG and not path.exists():
            with closing(sqlite3.connect(whole)) as database, closing(sqlite3.connect(path)) as copy:
                database.backup(copy)

    whole = path.with_name("whole.db")
    graph = loop(LONG + MORE, reached=reached)
    plan = roundel.prepare(graph)
    store = SqliteStore(whole, sync="off")
    run_id = await run_stored(roundel.Runs(store), plan)
    await store.close()
    return run_id, graph


async def opening(path: Path) -> tuple[int, float, float, float]:
    """The events of a long run whose process is gone, and the seconds that it takes to open it without its
    snapshot, to open it, and to open it and go on to its end."""
    run_id, graph = await left_behind(path)
    plain = path.with_name("plain.db")
    shutil.copy(path, plain)
    with closing(sqlite3.connect(plain, isolation_level=None)) as database:
        database.execute("DELETE FROM snapshots")
    found: list[Any] = []
    seconds = []
    works: list[tuple[Path, Callable[[SqliteStore], Awaitable[Any]]]] = [
        (plain, lambda store: open_run(store, run_id)),
        (path, lambda store: open_run(store, run_id)),
        (path, lambda store: roundel.Runs(store).resume(run_id, workflow=graph)),
    ]
    for place, work in works:
        store = SqliteStore(place, sync="normal")
        await store.rows()
        started = time.perf_counter()
        found.append(await work(store))
        seconds.append(time.perf_counter() - started)
        await store.close()
    assert found[-1].completed
    return found[0].state.seq, seconds[0], seconds[1], seconds[2]


async def reading(path: Path) -> list[tuple[int, float]]:
    """For a short and a long run: how many events there are, and the seconds that it takes to read the last
    ten of them."""
    found = []
    for rounds in LOGS:
        graph = loop(rounds)
        plan = roundel.prepare(graph)
        store = SqliteStore(path.with_name(f"{rounds}.db"), sync="off")
        run_id = await run_stored(roundel.Runs(store), plan)
        events = len(await read_events(store, run_id))
        seconds = []
        for _ in range(SAMPLES):
            started = time.perf_counter()
            assert len(await read_events(store, run_id, after=events - 10)) == 10
            seconds.append(time.perf_counter() - started)
        await store.close()
        found.append((events, statistics.median(seconds)))
    return found


def measured(work: Callable[[Path], Awaitable[Any]]) -> Any:
    async def carry_out(path: Path) -> Any:
        return await work(path)

    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        return asyncio.run(carry_out(Path(folder, "runs.db")))


def report() -> None:
    print(
        "stored runs, µs an effect (medians); durable: stored minus unstored, to a bare insert of the\n"
        "same bytes, and to one that is shared by as many tasks as there are runs"
    )
    heads = ("bare", "shared", "stored", "unstored", "durable", "to shared")
    print(f"{'sync':>8} {'runs':>5}{''.join(f'{head:>10}' for head in heads)} {'commits':>8}")
    for sync in ("full", "normal"):
        compare(sync, 1, EFFECTS)  # type: ignore[arg-type]
        compare(sync, RUNS, EFFECTS_EACH)  # type: ignore[arg-type]
    print(
        "target: durable at most 1.3× for one run with full sync and 2× with normal; for many at most 6× to\n"
        "shared\n"
    )
    size = measured(history_bytes)
    print(f"{HISTORY:,} rounds that add 1 KB each: {size / 1e6:.2f} MB (target: at most 1)")
    (few, short), (many, long) = measured(reading)
    print(
        f"reading the last 10 of {many:,} events: {long * 1000:.1f} ms, of {few:,}: {short * 1000:.1f} ms "
        "(target: about the same)"
    )
    events, without, opened, ended = measured(opening)
    print(
        f"opening a run of {events:,} events: {opened * 1000:.0f} ms (without its snapshot "
        f"{without * 1000:.0f} ms); resuming it for {MORE:,} effects to its end: "
        f"{ended * 1000:.0f} ms (target: well under a second)\n"
    )
