"""Makes a store with the code of an older commit, and what it says about its runs:

    git archive COMMIT | tar x -C FOLDER
    PYTHONPATH=FOLDER/src:. python -m tests.golden.make_old_store COMMIT

writes `COMMIT.db.xz` and `COMMIT.expected.json` beside this file. The store has runs in every status, a fork,
a revised, a pruned and an unfinished run, secrets, snapshots, memory, and, where the commit has them,
documents. `test_old_stores.py` opens it. Only what all of these commits have is used here.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import lzma
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

from roundel.hosts.local import LocalEngine
from roundel.journal.sqlite import SqliteStore
from roundel.runs.runs import Runs
from tests.golden.make_store import CRITIC, DEBATE, EACH, ECHO, QUESTION, SEEN, VOTE, review_loop, single

FOLDER = Path(__file__).parent
KEY = "sk-golden-0123456789abcdef"
VARIABLE = "GOLDEN_KEY"
VOLATILE = ("timestamp", "elapsed")
SHOWN = 30
"""How many of the newest events of a run are compared."""
FINAL = ("completed", "failed", "stopped")


def named(name: str, workflow: dict[str, Any]) -> dict[str, Any]:
    return {**workflow, "graph": {**workflow["graph"], "id": name}}


def with_secret(workflow: dict[str, Any]) -> dict[str, Any]:
    """A workflow whose model has a key."""
    profile = {"provider": "openai", "name": "gpt-4o", "api_key": f"${{{VARIABLE}}}"}
    return {**workflow, "models": {"default": profile}}


def with_memory(workflow: dict[str, Any]) -> dict[str, Any]:
    nodes = [
        {**node, "config": {**node.get("config", {}), "memories": ["working", "long_term"]}}
        if node["id"] == "Writer"
        else node
        for node in workflow["graph"]["nodes"]
    ]
    graph = {**workflow["graph"], "nodes": nodes}
    return {**workflow, "graph": graph, "memory": {"group_id": "team"}}


def long_loop() -> dict[str, Any]:
    loop = review_loop(200, prompt="{{ text }}, round {{ round }}")
    return {**loop, "breaker": {"dead_loop": False}, "limits": {"rounds": 300}}


async def reach(runs: Runs, run_id: str, address: str) -> None:
    async for event in runs.follow(run_id):
        if event.address == address:
            break


async def make(path: Path, copy: Path) -> dict[str, str]:
    """The ids of the runs, by name. The copy is made while a run is executed, as if its process had died."""
    ids: dict[str, str] = {}
    os.environ[VARIABLE] = KEY
    store = SqliteStore(path)
    async with Runs(store) as runs:

        async def start(name: str, workflow: dict[str, Any], text: str = "tea", **options: Any) -> None:
            ids[name] = await runs.start(named(name, workflow), text, **options)
            await runs.result(ids[name])

        failing = {"Critic": ["shorter", {"error": "overloaded"}, "calmer"]}
        talk = {"Ada": ["tea", "I agree."], "Bo": ["milk", "I agree."]}
        await start("completed", with_secret(review_loop()), f"tea, not {KEY}", script=CRITIC)
        await start("failed", review_loop(), script=failing)
        await start(
            "locked", with_secret(review_loop(9, prompt=SEEN)), script=CRITIC, limits={"model_calls": 5}
        )
        await start("waiting", single(DEBATE, QUESTION, ECHO), script=talk)
        await start("vote", single(VOTE, QUESTION, ECHO), script={"Ada": ["yes"], "Bo": ["yes"]})
        await start("array", single(EACH, QUESTION, ECHO), '["a", "b"]', script={"Say": ["said"]})
        await start("long", long_loop(), script=CRITIC, limits={"model_calls": 330})
        await start("pruned", review_loop(5), script=CRITIC)
        await runs.prune(ids["pruned"], keep="first,last")
        await start("stopped", single(QUESTION, ECHO), script={"Other": ["unused"]})
        await runs.stop(ids["stopped"], "not needed")
        ids["forked"] = await runs.fork(ids["completed"], "Writer[2]")
        await start("retried", review_loop(4, prompt=SEEN), script=failing)
        await runs.retry(ids["retried"], limits={"Guard.rounds": 2}, script=CRITIC)
        await start("memory", with_memory(review_loop()), script=CRITIC)
        brief = {"Critic": [{"text": "shorter", "delay": 0.3}, "warmer", "calmer"]}
        ids["paused"] = await runs.start(named("paused", review_loop(prompt=SEEN)), "tea", script=brief)
        await reach(runs, ids["paused"], "Writer[1]/Critic")
        await runs.pause(ids["paused"], "to think")
        await runs.result(ids["paused"])
        if hasattr(store, "documents"):
            documents = store.documents()
            for text in ("one", "two"):
                await documents.put(
                    "workflows", "team/tea", {"text": text}, author="golden", keep_history=True
                )
            await documents.append("audit", {"action": "save"}, author="golden")
            with contextlib.suppress(ImportError):
                from roundel.server.identity import Identities

                await Identities(documents).create_token("golden", "viewer", ("team",), None, "golden")
    async with Runs(store, engine=LocalEngine(lambda: store)) as runs:
        slow = {"Critic": [{"text": "shorter", "delay": 1}, "warmer", "calmer"]}
        ids["running"] = await runs.start(named("running", review_loop(prompt=SEEN)), "tea", script=slow)
        await reach(runs, ids["running"], "Writer[1]/Critic")
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("VACUUM INTO ?", (str(copy),))
        await runs.stop(ids["running"])
    with contextlib.closing(sqlite3.connect(copy)) as database, database:
        database.execute("DELETE FROM owners")
    await store.close()
    return ids


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(dataclasses.asdict(value))  # type: ignore[arg-type]
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key not in VOLATILE}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def shown(event: Any) -> list[Any]:
    # Older commits have a dictionary.
    data = event.data if isinstance(event.data, dict) else event.fields()
    return [event.seq, event.event, event.node_id, event.address, plain(data)]


async def take_up(runs: Runs, name: str, run_id: str) -> str:
    """Continues a run to its end, a finished one in a fork; returns the id of the run that ended."""
    if name in ("completed", "retried", "failed", "memory"):
        run_id = await runs.fork(run_id, "Writer[2]")
        await runs.resume(run_id)
    elif name in ("waiting", "vote", "array"):
        from roundel.hosts.engine import Attachment

        await runs.answer(run_id, "yes", execute=Attachment())
        await runs.wait(run_id)
    elif name in ("locked", "long"):
        from roundel.hosts.engine import Attachment
        from roundel.kernel.unlock import CHECKS

        limits = {"model_calls": 1000}
        await runs.unlock(run_id, "more", checks=CHECKS, limits=limits, execute=Attachment())
        await runs.wait(run_id)
    elif name not in ("pruned", "stopped"):
        await runs.resume(run_id)
    return run_id


async def tell(path: Path, name: str, run_id: str) -> dict[str, Any]:
    """What a store says about a run, and how the run ends if it is continued."""
    os.environ[VARIABLE] = KEY
    async with Runs(path) as runs:
        row = await runs.row(run_id)
        events = [shown(event) for event in await runs.events(run_id)]
        told: dict[str, Any] = {
            "id": run_id,
            "row": [
                row.id,
                row.name,
                row.status,
                row.input,
                row.facts,
                row.parent,
                row.forked_at,
                row.pruned,
            ],
            "summary": plain(row.summary),
            "count": len(events),
            "events": events[-SHOWN:],
        }
        ended = await runs.row(await take_up(runs, name, run_id))
        told["ended"] = [ended.status, (ended.summary or {}).get("output")]
    return told


def record(commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        ids = asyncio.run(make(Path(folder, "made.db"), path))
        body = path.read_bytes()
        told = {}
        for name, run_id in ids.items():
            copy = Path(folder, f"{name}.db")
            shutil.copy(path, copy)
            told[name] = asyncio.run(tell(copy, name, run_id))
    (FOLDER / f"{commit}.db.xz").write_bytes(lzma.compress(body, preset=9 | lzma.PRESET_EXTREME))
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace('},"', '},\n"')
    (FOLDER / f"{commit}.expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    record(sys.argv[1])
