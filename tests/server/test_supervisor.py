"""Runs outlive their server: real processes that are killed, stopped, and share a store."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.journal.sqlite import SqliteStore
from roundel.kernel.facts import Finished
from roundel.server.identity import Identities
from tests.server.counted import CALLS, SECONDS, lines
from tests.server.live import ServerProcess, start_server

STEPS = 12
ASK = """
graph:
  nodes:
    - {id: Ask, type: human, config: {description: Shall we?, timeout: TIME, default: "nobody said no"}}
  start: Ask
  end: Ask
"""


def chain() -> str:
    """A line of calls that count themselves."""
    names = [f"N{number}" for number in range(STEPS)]
    nodes = "".join(
        f"    - {{id: {name}, type: python, config: {{function: 'tests.server.counted:call'}}}}\n"
        for name in names
    )
    edges = "".join(f"    - {{from: {one}, to: {other}}}\n" for one, other in pairwise(names))
    return f"graph:\n  nodes:\n{nodes}  edges:\n{edges}  start: {names[0]}\n  end: {names[-1]}\n"


class Place:
    """A folder with a store, an allow-list, and the calls that were made."""

    def __init__(self, folder: Path, seconds: float = 0.02) -> None:
        self.store, self.calls = folder / "runs.db", folder / "calls"
        self.allow, self.log = folder / "allow.yaml", folder / "log"
        self.allow.write_text('functions: ["tests.server.counted:call"]\n', encoding="utf-8")
        self.environment = {CALLS: str(self.calls), SECONDS: str(seconds)}
        self.token = ""

    async def prepare(self) -> None:
        store = self.open()
        self.token = (await Identities(store.documents()).create_token("test", "admin", None)).secret
        await store.close()

    def open(self) -> SqliteStore:
        return SqliteStore(str(self.store), sync="normal")

    async def start(self, *options: str) -> ServerProcess:
        return await start_server(
            self.store, "--allow", str(self.allow), *options, environment=self.environment, log=self.log
        )

    def client(self, server: ServerProcess) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx2.AsyncClient(base_url=server.address, headers=headers, timeout=60)

    async def finished(self) -> set[str]:
        """The outputs of calls that are stored."""
        store = self.open()
        rows = await store.rows(None)
        facts = [fact for row in rows for fact in await store.facts(row.id)]
        await store.close()
        return {fact.outcome.messages[0].text for fact in facts if isinstance(fact, Finished)}

    async def wait(self, *run_ids: str) -> dict[str, str]:
        """Waits until no run is running any more, by looking at the store."""
        store = self.open()
        position = 0
        while True:
            rows = [await store.row(run_id) for run_id in run_ids]
            if all(row.status not in ("running", "waiting") and not row.owner for row in rows):
                await store.close()
                return {row.id: row.status for row in rows}
            try:
                async with asyncio.timeout(0.1):  # to release a run appends nothing
                    position = await store.wait_for_append(position)
            except TimeoutError:
                pass


async def start_runs(client: httpx2.AsyncClient, count: int, text: str = "") -> list[str]:
    run_ids = []
    for number in range(count):
        body = {"workflow": {"text": text or chain()}, "input": f"run {number}"}
        answer = await client.post("/api/v1/runs", json=body)
        assert answer.status_code == 202, answer.text
        run_ids.append(answer.json()["id"])
    return run_ids


async def made(place: Place, count: int) -> None:
    """Waits until so many calls were made."""
    while len(lines(place.calls)) < count:  # noqa: ASYNC110 (the calls are made in another process)
        await asyncio.sleep(0.01)


def everything(runs: int) -> set[str]:
    return {f"run {number}{'.' * step}" for number in range(runs) for step in range(STEPS)}


@pytest.mark.parametrize("seed", range(3))
def test_runs_continue_after_a_kill_of_the_server(tmp_path: Path, seed: int) -> None:
    dice, count = random.Random(seed), 6

    async def work() -> None:
        place = Place(tmp_path)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            run_ids = await start_runs(client, count)
        for kill in range(2):
            await made(place, count * STEPS * (kill + 1) // 4 + dice.randrange(6))
            await server.end(signal.SIGKILL)
            kept, before = await place.finished(), len(lines(place.calls))
            server = await place.start()
            await made(place, before + 1)
            again = [text for text in lines(place.calls)[before:] if f"{text}." in kept]
            assert not again, "a call that was stored was made again"
        assert set((await place.wait(*run_ids)).values()) == {"completed"}
        assert await server.end() == 0
        calls = Counter(lines(place.calls))
        assert calls.keys() == everything(count)
        assert sum(calls.values()) <= len(calls) + 2 * count, "at most the calls in flight were made again"

    asyncio.run(work())


def test_several_servers_on_one_store_share_the_runs(tmp_path: Path) -> None:
    count = 8

    async def work() -> None:
        place = Place(tmp_path)
        await place.prepare()
        servers = list(await asyncio.gather(*(place.start() for _ in range(3))))
        async with place.client(servers[0]) as client:
            run_ids = await start_runs(client, count)
        await made(place, count)
        await servers[0].end(signal.SIGKILL)
        assert set((await place.wait(*run_ids)).values()) == {"completed"}
        assert [await server.end() for server in servers[1:]] == [0, 0]
        calls = Counter(lines(place.calls))
        assert calls.keys() == everything(count)
        assert sum(calls.values()) <= len(calls) + count, "two servers executed one run"

    asyncio.run(work())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_stopped_server_hands_its_runs_back(tmp_path: Path, sent: signal.Signals) -> None:
    count = 4

    async def work() -> None:
        place = Place(tmp_path, seconds=0.5)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            run_ids = await start_runs(client, count)
        await made(place, count * 2)
        assert await server.end(sent) == 0
        place.environment[SECONDS] = "0"
        store = place.open()
        rows = [await store.row(run_id) for run_id in run_ids]
        assert all((row.status, row.owner) == ("running", "") for row in rows), "no status has changed"
        await store.close()
        finished = await place.finished()
        assert {f"{text}." for text in lines(place.calls)} <= finished, "the calls in flight have finished"
        server = await place.start()
        assert set((await place.wait(*run_ids)).values()) == {"completed"}
        await server.end()
        assert Counter(lines(place.calls)) == Counter(everything(count)), "each call was made once"

    asyncio.run(work())


def test_calls_that_do_not_finish_are_handed_back(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path, seconds=3600)
        await place.prepare()
        server = await place.start("--shutdown-seconds", "0.1")
        async with place.client(server) as client:
            run_ids = await start_runs(client, 2)
        await made(place, 2)
        assert await server.end() == 0
        store = place.open()
        assert {(await store.row(run_id)).status for run_id in run_ids} == {"running"}
        await store.close()
        place.environment[SECONDS] = "0"
        server = await place.start()
        assert set((await place.wait(*run_ids)).values()) == {"completed"}
        await server.end()

    asyncio.run(work())


def test_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path, seconds=3600)
        await place.prepare()
        server = await place.start("--shutdown-seconds", "3600")
        async with place.client(server) as client:
            (run_id,) = await start_runs(client, 1)
            await made(place, 1)
            server.process.send_signal(signal.SIGINT)
            while True:  # until it does not take requests any more
                try:
                    await client.get("/healthz")
                except httpx2.TransportError:
                    break
        assert await server.end(signal.SIGINT) == 130
        store = place.open()
        assert (await store.row(run_id)).status == "running"
        await store.close()

    asyncio.run(work())


def test_deadline_passes_while_nobody_is_connected(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            run_ids = await start_runs(client, 1, ASK.replace("TIME", "1.5"))
        await server.end(signal.SIGKILL)
        server = await place.start()
        assert set((await place.wait(*run_ids)).values()) == {"completed"}
        store = place.open()
        row = await store.row(run_ids[0])
        assert (row.summary or {})["output"] == "nobody said no"
        await store.close()
        await server.end()

    asyncio.run(work())


def test_pause_that_was_promised_outlives_a_kill(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path, seconds=3600)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            (run_id,) = await start_runs(client, 1)
            await made(place, 1)
            answer = await client.post(f"/api/v1/runs/{run_id}/pause", json={"reason": "lunch"})
            assert answer.status_code == 200 and answer.json()["status"] == "running", "it waits for the call"
        await server.end(signal.SIGKILL)
        place.environment[SECONDS] = "0"
        server = await place.start()
        assert await place.wait(run_id) == {run_id: "paused"}
        assert len(lines(place.calls)) == 1
        async with place.client(server) as client:
            assert (await client.get(f"/api/v1/runs/{run_id}")).json()["pause"]["reason"] == "lunch"
            assert (await client.post(f"/api/v1/runs/{run_id}/resume")).status_code == 200
        assert await place.wait(run_id) == {run_id: "completed"}
        await server.end()

    asyncio.run(work())


def test_run_that_is_not_allowed_any_more_is_left_alone(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path, seconds=3600)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            (run_id,) = await start_runs(client, 1)
            await made(place, 1)
        await server.end(signal.SIGKILL)
        place.environment[SECONDS] = "0"
        allowed = place.allow.read_text(encoding="utf-8")
        place.allow.write_text("functions: []\n", encoding="utf-8")
        server = await place.start()
        async with place.client(server) as client:
            (other,) = await start_runs(client, 1, ASK.replace("TIME", "0.01"))
            assert await place.wait(other) == {other: "completed"}, "others are not held up"
            refused: Any = await client.post(f"/api/v1/runs/{run_id}/resume")
            assert refused.status_code == 422 and refused.json()["type"].endswith("invalid-workflow")
        assert len(lines(place.calls)) == 1
        await server.end()
        place.allow.write_text(allowed, encoding="utf-8")
        server = await place.start()
        assert await place.wait(run_id) == {run_id: "completed"}
        await server.end()

    asyncio.run(work())


def test_run_continues_when_a_full_disk_has_room_again(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path, seconds=0.2)
        await place.prepare()
        server = await place.start()
        limit, unlimited = resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)
        async with place.client(server) as client:
            assert (await client.get("/readyz")).status_code == 200
            (run_id,) = await start_runs(client, 1)
            await made(place, 2)
            # No file may grow beyond this size, as on a full disk; those of the test are small.
            size = place.store.with_name("runs.db-wal").stat().st_size
            resource.prlimit(server.process.pid, limit, (size, unlimited[1]))
            while (await client.get("/readyz")).status_code != 503:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.01)
            # A request may find the store failing as well.
            while (await client.get("/api/v1/server")).json().get("active_runs", 1):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            before = len(lines(place.calls))
            assert before < STEPS, "the run has ended where it could not be written"
            while "is not resumed here" not in place.log.read_text(encoding="utf-8"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            resource.prlimit(server.process.pid, limit, unlimited)
            assert await place.wait(run_id) == {run_id: "completed"}
            assert (await client.get("/readyz")).status_code == 200
        assert await server.end() == 0
        calls = Counter(lines(place.calls))
        assert calls.keys() == everything(1)
        assert sum(calls.values()) <= STEPS + 1, "at most the call in flight was made again"
        log = place.log.read_text(encoding="utf-8")
        assert log.count(f"run {run_id} is not resumed here") == 1, "it is said once"

    asyncio.run(work())
