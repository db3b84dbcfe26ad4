"""What it costs to keep a run: one commit of ours beside one bare insert of the same bytes.

A node that calls something (a coroutine that does nothing else) runs in a loop, once alone and once as two
hundred runs at the same time. Beside it stands what SQLite alone takes for the same bytes, with the same sync
setting, in one thread, with as many rows in one transaction as ours had. Sizes and commits are counted, too.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import roundel
from roundel.hosts.local import LocalHost
from roundel.journal.sqlite import SqliteStore, Sync
from roundel.journal.store import Pinned
from roundel.plan.graph import Plan
from roundel.sessions.opening import begin, open_run, pin
from roundel.workflow.message import Message

EFFECTS = 1_000
RUNS = 200
EFFECTS_EACH = 50
SAMPLES = 5
LONG = 20_000
"""Rounds of the long run, each of which makes five events."""
HISTORY = 1_000


def loop(rounds: int, size: int = 0, **say: Any) -> roundel.Graph:
    """One effect a round, and two pure nodes."""
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": rounds + 1})

    @graph.function("Say", **say)
    async def speak(round: int) -> str:
        return random.Random(round).randbytes(size // 2).hex() if size else "word"

    graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
    return graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")


async def kept(store: SqliteStore, plan: Plan, pinned: Pinned) -> str:
    host = LocalHost(plan)
    host.keep(await begin(store, host.run_id, plan, pinned, (Message("go"),)))
    result = await host.run((Message("go"),))
    assert result.completed
    return host.run_id


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


async def ours(path: Path, sync: Sync, runs: int, effects: int) -> tuple[float, int]:
    """Seconds, and commits."""
    graph = loop(effects)
    plan = roundel.prepare(graph)
    pinned = pin(graph, plan.workflow)
    warmed = warm(path)
    store = SqliteStore(path, sync=sync)
    await store.rows()
    started = time.perf_counter()
    await asyncio.gather(*(kept(store, plan, pinned) for _ in range(runs)))
    taken = time.perf_counter() - started
    commits = store.commits
    await store.close()
    warmed.close()
    return taken, commits


async def not_kept(runs: int, effects: int) -> float:
    plan = roundel.prepare(loop(effects))
    started = time.perf_counter()
    await asyncio.gather(*(LocalHost(plan).run((Message("go"),)) for _ in range(runs)))
    return time.perf_counter() - started


def compare(sync: Sync, runs: int, effects: int) -> None:
    total = runs * effects
    mine, alone, plain, commits = [], [], [], 0
    for _ in range(SAMPLES):  # interleaved, so that a noisy moment meets all of them
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
            path = Path(folder, "ours.db")
            taken, commits = asyncio.run(ours(path, sync, runs, effects))
            mine.append(taken)
            rows = bodies(path)
            alone.append(bare(Path(folder, "bare.db"), rows, sync, max(1, round(len(rows) / commits))))
            plain.append(asyncio.run(not_kept(runs, effects)))
    kept_for, bare_for, memory = (statistics.median(taken) / total * 1e6 for taken in (mine, alone, plain))
    print(
        f"{sync:>8} {runs:>5} {bare_for:>10.0f} {kept_for:>10.0f} ({kept_for / bare_for:.2f}×) "
        f"{memory:>10.0f} ({(kept_for - memory) / bare_for:.2f}×) {commits / total:>8.3f}"
    )


async def history_bytes(path: Path) -> int:
    """The size of a run that adds 1 KB in each round, and reads all of it again."""
    graph = loop(HISTORY, 1024, context_window=-1)
    store = SqliteStore(path, sync="off")
    plan = roundel.prepare(graph)
    await kept(store, plan, pin(graph, plan.workflow))
    await store.close()
    return sum(file.stat().st_size for file in path.parent.iterdir())


async def opening(path: Path) -> tuple[int, float, float]:
    """The events of a long run, and the seconds that it takes to open it with and without a snapshot."""
    graph = loop(LONG)
    plan = roundel.prepare(graph)
    store = SqliteStore(path, sync="off")
    run_id = await kept(store, plan, pin(graph, plan.workflow))
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        opened = await open_run(store, run_id, graph)
        seconds.append(time.perf_counter() - started)
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM snapshots")
        database.close()
    await store.close()
    return opened.state.seq, seconds[0], seconds[1]


def measured(work: Callable[[Path], Awaitable[Any]]) -> Any:
    async def carry_out(path: Path) -> Any:
        return await work(path)

    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        return asyncio.run(carry_out(Path(folder, "runs.db")))


def report() -> None:
    print("runs that are kept, µs an effect on the wall (medians; ratio to a bare insert of the same bytes)")
    print(
        f"{'sync':>8} {'runs':>5} {'bare':>10} {'roundel':>18} {'not kept':>10} {'(rest)':>8} {'commits':>8}"
    )
    for sync in ("full", "normal"):
        compare(sync, 1, EFFECTS)  # type: ignore[arg-type]
        compare(sync, RUNS, EFFECTS_EACH)  # type: ignore[arg-type]
    print("target: at most 2×, and far fewer commits than effects for many runs\n")
    size = measured(history_bytes)
    print(f"{HISTORY:,} rounds that add 1 KB each: {size / 1e6:.2f} MB (target: at most 3)")
    events, with_snapshot, without = measured(opening)
    print(
        f"opening a run of {events:,} events: {with_snapshot * 1000:.0f} ms "
        f"(without its snapshot {without * 1000:.0f} ms; target: well under a second)\n"
    )
