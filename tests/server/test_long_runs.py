"""Long runs on a server: what reads all of one does so in pages, in threads or in small pieces, a few at a
time; and rows of runs stay small."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from types import CodeType, FrameType
from typing import Any

import httpx2
import pytest

from roundel.kernel.facts import decode_entry, encode_entry
from roundel.kernel.step import step
from roundel.runs.memory import quarantine
from roundel.server.identity import Principal
from roundel.server.long_work import LONG_RUN, MOST_AT_ONCE, MOST_WAITING, LongWork
from roundel.server.problems import Problem
from tests.server.api import Server, serving
from tests.server.live import loop_text
from tests.server.load import LINES

RUNS = "/api/v1/runs"
SAYS = "graph: {id: says, start: Writer, end: Writer, nodes: [{id: Writer, type: agent}]}"
ROUNDS = 1_000
AT_ONCE = 300
"""Facts that may be handled on the event loop before others are served; a run of 1,000 rounds has 2,000."""


def story(work: Callable[[Server], Awaitable[None]], store: str = "") -> None:
    async def tell() -> None:
        async with serving(store) as server:
            await work(server)

    asyncio.run(tell())


async def finished(server: Server, client: httpx2.AsyncClient, rounds: int, **body: Any) -> str:
    body = {"workflow": {"text": loop_text(rounds)}, "script": LINES, **body}
    run_id: str = (await client.post(RUNS, json=body)).json()["id"]
    assert (await server.context.runs.result(run_id)).completed
    return run_id


class Watch:
    """Counts how many facts the thread of the event loop handles before it runs its other tasks."""

    facts = frozenset(one.__code__ for one in (step, decode_entry, encode_entry))
    turn: CodeType = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]

    def __init__(self) -> None:
        self.most = self._now = 0

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        if frame.f_code is self.turn:
            self._now = 0
        elif frame.f_code in self.facts:
            self._now += 1
            self.most = max(self.most, self._now)

    async def during(self, work: Awaitable[httpx2.Response]) -> httpx2.Response:
        sys.setprofile(self._note)  # of this thread only
        try:
            return await work
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_no_request_about_a_long_run_keeps_the_event_loop(kind: str, tmp_path: Any) -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        run_id = await finished(server, client, ROUNDS)
        path = f"{RUNS}/{run_id}"
        fewer = {"limits": {"rounds": ROUNDS - 1}}
        requests: dict[str, tuple[int, Callable[[], Awaitable[httpx2.Response]]]] = {
            "messages": (200, lambda: client.get(f"{path}/quarantine", params={"limit": 200})),
            "rounds": (200, lambda: client.get(f"{path}/rounds")),
            "view": (200, lambda: client.get(f"{path}/view")),
            "script": (200, lambda: client.get(f"{path}/script")),
            "events": (200, lambda: client.get(f"{path}/events", params={"follow": False})),
            "replay": (200, lambda: client.post(f"{path}/replay", json={})),
            "replay with limits": (200, lambda: client.post(f"{path}/replay", json=fewer)),
            "fork": (
                201,
                lambda: client.post(f"{path}/fork", json={"at": f"Writer[{ROUNDS}]", "run": False}),
            ),
            "fork with limits": (
                201,
                lambda: client.post(
                    f"{path}/fork", json={"at": f"Writer[{ROUNDS - 2}]", "run": False} | fewer
                ),
            ),
            "retry of items": (409, lambda: client.post(f"{path}/retry", json={"failed_items": True})),
            "promote": (
                201,
                lambda: client.post("/api/v1/memory/tea", json={"run": run_id, "at": "Writer[9]/Writer"}),
            ),
        }
        most = {}
        for name, (status, request) in requests.items():
            watch = Watch()
            answer = await watch.during(request())
            assert answer.status_code == status, (name, answer.text)
            most[name] = watch.most
        assert most["events"] > 0 and max(most.values()) <= AT_ONCE, most

    story(work, str(tmp_path / "runs.db") if kind == "sqlite" else "")


def test_pages_of_messages_are_together_all_of_them() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        run_id = await finished(server, client, 250)
        whole = [(one.address, one.content) for one in await quarantine(server.context.runs.store, run_id)]
        assert len(whole) > 250

        async def read_pages() -> list[tuple[str, str]]:
            found: list[Any] = []
            cursor: str | None = ""
            while cursor is not None:
                params: dict[str, Any] = {"limit": 60, "cursor": cursor}
                page = (await client.get(f"{RUNS}/{run_id}/quarantine", params=params)).json()
                assert len(page["messages"]) <= 62  # a page ends between two steps
                found += [(one["address"], one["content"]) for one in page["messages"]]
                cursor = page["next"]
            return found

        assert await read_pages() == whole
        assert len((await client.get(f"{RUNS}/{run_id}/quarantine")).json()["messages"]) <= 52
        await server.context.runs.prune(run_id, keep="every:2")
        left = [(one.address, one.content) for one in await quarantine(server.context.runs.store, run_id)]
        assert 100 < len(left) < len(whole)
        assert await read_pages() == left

    story(work)


def test_pages_of_rounds_are_together_all_of_them() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        run_id = await finished(server, client, 250)
        path = f"{RUNS}/{run_id}/rounds"

        async def read_pages(**params: Any) -> list[dict[str, Any]]:
            found: list[Any] = []
            cursor: str | None = ""
            while cursor is not None:
                query = {**params, "loop": "Writer", "cursor": cursor}
                [loop] = (await client.get(path, params=query)).json()
                assert len(loop["rounds"]) <= params["limit"]
                found += loop["rounds"]
                cursor = loop["next"]
            return found

        singles = await read_pages(limit=60)
        assert [one["number"] for one in singles] == list(range(1, 251))
        assert [one["number"] for one in await read_pages(limit=7, **{"from": 11, "to": 40})] == [
            *range(11, 41)
        ]
        bands = await read_pages(limit=3, band=30)
        assert [(one["from"], one["to"]) for one in bands][-2:] == [(211, 240), (241, 250)]
        assert len(bands) == 9 and sum(one["tokens"] for one in bands) == sum(
            one["tokens"] for one in singles
        )
        # Without the name of a loop there is no telling which one a cursor continues.
        assert (await client.get(path, params={"cursor": "60"})).status_code == 422
        await server.context.runs.prune(run_id, keep="every:2")
        assert [one["number"] for one in await read_pages(limit=60)] == list(range(2, 251, 2))

    story(work)


def test_pages_end_when_they_have_long_texts() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        script = {"Writer": ["x" * 200_000]}
        run_id = await finished(server, client, 20, script=script)
        messages = await client.get(f"{RUNS}/{run_id}/quarantine", params={"limit": 200})
        rounds = await client.get(f"{RUNS}/{run_id}/rounds", params={"outputs": True})
        for answer, page in ((messages, messages.json()), (rounds, rounds.json()[0])):
            assert page["next"] and len(answer.content) < 1_500_000

    story(work)


def test_rows_of_runs_have_an_excerpt_of_the_output(tmp_path: Any) -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        text = "tea " * 100_000
        said = {"workflow": {"text": SAYS}, "script": {"Writer": [text]}}
        run_ids = [await finished(server, client, 1, **said) for _ in range(5)]
        short = await finished(server, client, 1, **{**said, "script": {"Writer": ["one"]}})
        listed = await client.get(RUNS)
        assert len(listed.content) < 20_000
        rows = {row["id"]: row for row in listed.json()["runs"]}
        for run_id in run_ids:
            one = (await client.get(f"{RUNS}/{run_id}")).json()
            for row in (rows[run_id], one):
                assert (row["output"], row["output_length"]) == (text[:500], len(text))
            output = (await client.get(f"{RUNS}/{run_id}/output")).json()
            assert output["output"] == text and output["status"] == "completed"
        assert (rows[short]["output"], rows[short]["output_length"]) == ("one", 3)

    story(work, str(tmp_path / "runs.db"))


def test_a_fork_of_a_long_run_is_read_in_pieces() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        run_id = await finished(server, client, 300)
        body = {"at": "Writer[300]", "run": False}
        fork = (await client.post(f"{RUNS}/{run_id}/fork", json=body)).json()["id"]
        store = server.context.runs.store
        sizes = [one.count for one in await store.appended(0, 100_000) if one.run_id == fork]
        assert sum(sizes) == (await store.row(fork)).facts > 500
        assert max(sizes) <= 100  # a reader unpacks one of them for each of its pages

    story(work)


def test_requests_about_long_runs_take_turns() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author")
        row = await server.context.row(await finished(server, client, 1))
        assert row.facts < LONG_RUN
        turns, done, before = LongWork(), asyncio.Event(), gc.get_threshold()
        working: list[str] = []

        async def ask(name: str, facts: int = LONG_RUN) -> None:
            async with turns.turn(Principal(name, name, "viewer"), type(row)(**_fields(row, facts))):
                working.append(name)
                await done.wait()
                working.remove(name)

        busy = [asyncio.create_task(ask("busy")) for _ in range(MOST_WAITING + 1)]
        await _settled()
        assert working == ["busy"]
        assert gc.get_threshold()[2] > 1_000_000  # no full collection while one works
        with pytest.raises(Problem) as refused:
            await ask("busy")
        assert refused.value.status == 429 and refused.value.headers["retry-after"]
        others = [asyncio.create_task(ask(f"other {number}")) for number in range(MOST_AT_ONCE)]
        await _settled()
        assert working == ["busy", *(f"other {number}" for number in range(MOST_AT_ONCE - 1))]
        quick = asyncio.create_task(ask("busy", LONG_RUN - 1))
        await _settled()
        assert len(working) == MOST_AT_ONCE + 1  # a short run needs no turn
        done.set()
        await asyncio.gather(*busy, *others, quick)
        done.clear()
        last = asyncio.create_task(ask("busy"))
        await _settled()
        assert working == ["busy"]
        done.set()
        await last
        assert gc.get_threshold() == before

    story(work)


def _fields(row: Any, facts: int) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__} | {"facts": facts}


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
