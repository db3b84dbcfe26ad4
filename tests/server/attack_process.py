"""A server in a process of its own that gets hostile texts, and reports what happened meanwhile.

`test_attacks.py` starts it with a folder that texts may use. Whatever loads lazily is loaded first, by
harmless texts over the same routes; from then on an audit hook records every file that is opened, every
import, every connection and every program: in this process, and in its workers (watching/sitecustomize.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2

from roundel.nodes import TYPES
from roundel.server import worker_pool
from roundel.workflow.allow_list import AllowedModel, Policy
from tests.server.api import serving
from tests.workflow.attack_process import WATCHED, texts

FLAG, LOG = Path("watch.flag").resolve(), Path("watch.log").resolve()
HOSTILE = (
    "!!python/object/apply:os.system ['id']",
    "a: &a [*a, *a]\nb: *a",
    "{" * 5000,
    "graph: {nodes: [{id: A, type: 'os:system'}], start: A}",
)
MISSPELT = "graph: {nodes: [{id: A, type: pasthrough}], start: A}"
"""The hint makes a worker import all node types."""
SCRIPT = {"A": ["x"], "B": ["x"], "J": [{"text": "x", "data": {"a": "a"}}], "K": ["x"]}
PARTS = (
    {"kind": "condition", "config": "antigravity:fly"},
    {"kind": "condition", "config": {"type": "function", "config": {"name": "os:system"}}},
    {"kind": "processor", "config": {"type": "function", "config": {"name": "code_save_and_run"}}},
    {"kind": "template", "config": "{{ __import__('os') }}"},
    {"kind": "score", "config": {"function": "os:system"}},
)


async def send(client: httpx2.AsyncClient, sent: list[str], name: str) -> list[tuple[str, int]]:
    """Sends texts over every route that takes one; the statuses."""
    found = []

    async def note(route: str, answer: httpx2.Response) -> None:
        found.append((route, answer.status_code))

    for number, text in enumerate(sent):
        await note("check", await client.post("/api/v1/check", json={"text": text}))
        await note("forecast", await client.post("/api/v1/forecast", json={"text": text}))
        await note("picture", await client.post("/api/v1/picture", json={"text": text}))
        saved = {"if-none-match": "*"}
        path = f"/api/v1/workflows/{name}{number}"
        await note("save", await client.put(path, json={"text": text}, headers=saved))
        await note("open", await client.get(path))
        body = {"workflow": {"text": text}, "script": SCRIPT}
        await note("run", await client.post("/api/v1/runs", json=body))
        await note("run", await client.post("/api/v1/runs", json={**body, "workflow": f"{name}{number}"}))
    for part in PARTS:
        await note("try", await client.post("/api/v1/try", json={**part, "text": "touch /tmp/x"}))
    return found


async def attack(policy: Policy, events: list[str], watched: list[bool]) -> dict[str, Any]:
    async with serving(policy=policy) as server:
        client = await server.client("author")
        whole, *others = [json.dumps(workflow) for workflow in texts(harmless=True)]
        await send(client, [whole, others[0], "- not\n- a: workflow\n", MISSPELT], "harmless")
        hostile = [json.dumps(workflow) for workflow in texts(harmless=False)[:-1]] + list(HOSTILE)
        # The runs of the harmless texts may still be on their way.
        for row in (await client.get("/api/v1/runs")).json()["runs"]:
            await server.context.runs.result(row["id"])
        before = len((await client.get("/api/v1/runs")).json()["runs"])
        modules = set(sys.modules)
        FLAG.touch()
        watched[0] = True
        statuses = await send(client, hostile, "hostile")
        watched[0] = False
        FLAG.unlink()
        after = len((await client.get("/api/v1/runs")).json()["runs"])
        return {
            "statuses": statuses,
            "runs": after - before,
            "modules": sorted(set(sys.modules) - modules),
            "events": events,
        }


def main(folder: str) -> None:
    watching = Path(__file__).parent / "watching"
    os.environ["PYTHONPATH"] = f"{watching}{os.pathsep}{os.environ['PYTHONPATH']}"
    os.environ.update(WATCH_FLAG=str(FLAG), WATCH_LOG=str(LOG), WATCH_EVENTS=" ".join(WATCHED))
    worker_pool.LONG_SECONDS = 3600.0  # a second worker would import everything once more
    list(TYPES)  # imports all node types
    keyed = AllowedModel(provider="openai", key="OPENAI_API_KEY")
    policies = [Policy(), Policy(files=(folder,), models=(keyed,), environment=("TEAM",))]
    events: list[str] = []
    watched = [False]

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        if watched[0] and event.startswith(WATCHED):
            events.append(f"{event} {arguments!r:.300}")

    sys.addaudithook(record)
    found = []
    for policy in policies:
        LOG.write_text("")
        found.append(asyncio.run(attack(policy, events, watched)))
        found[-1]["worker"] = LOG.read_text("utf-8").splitlines()
    print(json.dumps(found))


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
