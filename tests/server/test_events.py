"""Live events: nothing missing, nothing twice, whoever disconnects, restarts or reads slowly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.journal.in_memory import InMemoryStore
from roundel.kernel.events import Event
from roundel.kernel.payloads import Custom
from roundel.nodes.loading import draft_text_plan
from roundel.plan.graph import Plan
from roundel.runs.runs import Runs
from roundel.server.cursors import EventCursor, cursor_text, read_cursor
from roundel.server.feed import MAX_TRANSIENT, WRITE_BYTES, EventHub, EventWindow, RunFeed
from roundel.server.problems import Problem
from roundel.server.sse import HEARTBEAT, RETRY, encode_sse, with_heartbeats
from tests.server.api import serving
from tests.server.live import SseReader, client_of, listening, loop_text

SMALL = 2_000
"""Bytes of a window that forgets nearly everything at once."""


def plan_of(text: str) -> Plan:
    plan, report = draft_text_plan(text, {}, "<text>")
    assert plan is not None and report.ok, report.diagnostics
    return plan


async def start(runs: Runs, rounds: int, **options: Any) -> str:
    script = options.pop("script", {"Writer": ["one", "two", "three"]})
    plan = plan_of(loop_text(rounds))
    return await runs.start(plan, "x", script=script, **options)


class Client:
    """Someone who follows a run, and checks what comes."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seen: list[int] = []
        self.names: list[str] = []
        self.notices: list[str] = []
        self.arrived = asyncio.Event()

    @property
    def last(self) -> int:
        return self.seen[-1] if self.seen else 0

    @property
    def is_over(self) -> bool:
        return "end" in self.notices

    def take(self, chunk: bytes) -> None:
        self.arrived.set()
        for number, name, data in SseReader().feed(chunk):
            if number:
                seq = read_cursor(number).position
                assert json.loads(data)["seq"] == seq == self.last + 1, "missing, or twice"
                self.seen.append(seq)
                self.names.append(name)
            else:
                self.notices.append(name)

    async def follow(self, hub: EventHub, chunks: int = 10**9) -> None:
        """Reads so many chunks, and leaves."""
        async with contextlib.aclosing(hub.stream(self.run_id, EventCursor(self.last))) as stream:  # type: ignore[type-var]
            async for chunk in stream:
                self.take(chunk)
                chunks -= 1
                if chunks <= 0:
                    return


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=60), st.integers(0, 100), st.integers(100, 1000))
def test_window_has_the_newest_events(sizes: list[int], after: int, limit: int) -> None:
    window = EventWindow(after, limit)
    everything: list[tuple[int, bytes]] = []
    for number, size in enumerate(sizes):
        everything.append((after + 1 + 2 * number, bytes(size)))
        window.append(*everything[-1])
        assert window.size <= max(limit, size)
        for position in range(window.start, after + 2 * len(sizes) + 2, 7):
            assert list(window.after(position)) == [one for one in everything if one[0] > position]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, 20_000, 4_000_000]))
def test_every_client_sees_each_event_once(seed: int, window: int) -> None:
    """Clients leave and come back at random, while the run goes on, and servers are replaced."""
    dice = random.Random(seed)

    async def work() -> None:
        store = InMemoryStore()
        runs = Runs(store)
        hubs = [EventHub(Runs(store), window_bytes=window) for _ in range(2)]
        run_id = await start(runs, 40)
        clients = [Client(run_id) for _ in range(4)]

        async def live(client: Client) -> None:
            while not client.is_over:
                await client.follow(dice.choice(hubs), dice.randrange(1, 12))
                if dice.random() < 0.1:
                    number = dice.randrange(2)
                    old, hubs[number] = hubs[number], EventHub(Runs(store), window_bytes=window)
                    await old.close()
                for _ in range(dice.randrange(40)):
                    await asyncio.sleep(0)

        await asyncio.gather(*(live(client) for client in clients))
        newest = (await runs.inspect(run_id)).state.seq
        assert all(client.seen == list(range(1, newest + 1)) for client in clients)
        assert all(client.names[-1] == "run_finished" for client in clients)
        assert all(not hub._feeds and not hub.clients for hub in hubs), "nobody is left"

    asyncio.run(work())


@pytest.mark.parametrize("known", [True, False])
def test_a_stream_begins_without_a_replay_if_the_last_event_is_known(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(_store: InMemoryStore, _run_id: str) -> None:
        return None

    async def work() -> None:
        runs = Runs(InMemoryStore())
        run_id = await start(runs, 5)
        await runs.wait(run_id)
        newest = (await runs.inspect(run_id)).state.seq
        replayed: list[str] = []
        inspect = Runs.inspect

        async def counted(self: Runs, name: str) -> Any:
            replayed.append(name)
            return await inspect(self, name)

        monkeypatch.setattr(Runs, "inspect", counted)
        if not known:
            monkeypatch.setattr(InMemoryStore, "last_event", unknown)
        feed = RunFeed(runs, run_id)
        await feed.started
        assert feed._window is not None
        assert feed._window.start == newest
        assert bool(replayed) is not known
        await feed.close()

    asyncio.run(work())


def test_slow_client_is_told_and_catches_up_in_bounded_memory() -> None:
    async def work() -> None:
        store = InMemoryStore()
        runs = Runs(store)
        hub = EventHub(runs, window_bytes=SMALL)
        run_id = await start(runs, 200, paused=True)
        slow, quick = Client(run_id), Client(run_id)
        stream = hub.stream(run_id, EventCursor(0))
        slow.take(await anext(stream))
        following = asyncio.create_task(quick.follow(hub))
        await runs.resume(run_id)
        await following
        largest = 0
        async for chunk in stream:
            slow.take(chunk)
            largest = max(largest, len(chunk))
            sizes = [one._window.size for one in hub._feeds.values() if one._window is not None]
            assert all(size <= SMALL * 2 for size in sizes)
        assert slow.notices == ["behind", "end"] and quick.notices[-1] == "end"
        assert slow.seen == quick.seen and largest < WRITE_BYTES + 10_000

    asyncio.run(work())


def test_many_clients_follow_many_loops() -> None:
    async def work() -> None:
        runs = Runs(InMemoryStore())
        hub = EventHub(runs)
        run_ids = [await start(runs, 30) for _ in range(4)]
        clients = [Client(run_id) for run_id in run_ids for _ in range(10)]
        await asyncio.gather(*(client.follow(hub) for client in clients))
        for client in clients:
            newest = (await runs.inspect(client.run_id)).state.seq
            assert client.seen == list(range(1, newest + 1)) and client.is_over

    asyncio.run(work())


def test_transient_events_reach_those_who_are_there() -> None:
    async def work() -> None:
        runs = Runs(InMemoryStore())
        hub = EventHub(runs)
        script = {"Writer": [{"text": "a long and winding text", "stream": True}]}
        run_id = await start(runs, 3, script=script, paused=True)
        there = Client(run_id)
        following = asyncio.create_task(there.follow(hub))
        await there.arrived.wait()
        await runs.resume(run_id)
        await following
        assert "token_stream" in there.notices and len(there.notices) <= MAX_TRANSIENT + 1
        later = Client(run_id)
        await later.follow(hub)
        assert later.notices == ["end"] and later.seen == there.seen

    asyncio.run(work())


def test_stream_continues_after_a_retry() -> None:
    async def work() -> None:
        runs = Runs(InMemoryStore())
        hub = EventHub(runs)
        run_id = await start(runs, 5, script={"Writer": ["one", {"error": "no money"}]})
        client, late = Client(run_id), hub.stream(run_id, EventCursor(0))
        await client.follow(hub)
        assert client.names[-1] == "run_finished"
        await anext(late)  # it is slow to take the end, and keeps the feed
        failed = client.last
        await runs.retry(run_id, script={"Writer": ["one", "two"]})
        client.notices.clear()
        await client.follow(hub)
        assert client.last > failed and client.is_over
        assert (await runs.row(run_id)).status == "completed"
        await late.aclose()  # type: ignore[attr-defined]
        assert not hub._feeds

    asyncio.run(work())


def test_pruned_run_shows_what_is_left() -> None:
    async def work() -> None:
        runs = Runs(InMemoryStore())
        hub = EventHub(runs)
        run_id = await start(runs, 5)
        await runs.result(run_id)
        await runs.prune(run_id, keep="last")
        kept = [event.seq for event in await runs.events(run_id)]
        names = [one async for chunk in hub.stream(run_id, EventCursor(0)) for one in SseReader().feed(chunk)]
        assert [read_cursor(number).position for number, _, _ in names if number] == kept and names[-1][
            1
        ] == "end"

    asyncio.run(work())


def test_hub_refuses_too_many_streams_and_those_after_its_end() -> None:
    async def work() -> None:
        runs = Runs(InMemoryStore())
        hub = EventHub(runs, max_streams=1)
        run_id = await start(runs, 5, paused=True)
        hub.check()
        stream = hub.stream(run_id, EventCursor(0))
        await anext(stream)
        with pytest.raises(Problem, match="1 event streams"):
            hub.check()
        await hub.close()
        assert [chunk async for chunk in stream] == [], "no end: the run is not over"
        with pytest.raises(Problem, match="shutting down"):
            hub.check()
        assert [chunk async for chunk in hub.stream(run_id, EventCursor(0))] == []
        early = EventHub(runs)
        waiting = asyncio.create_task(Client(run_id).follow(early))
        await asyncio.sleep(0)
        await early.close()  # before the client could read anything
        await waiting

    asyncio.run(work())


# The format.


def test_silence_is_filled_with_heartbeats_and_loses_nothing() -> None:
    async def work() -> None:
        go = asyncio.Event()

        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            await go.wait()
            yield b"two"

        got: list[bytes] = []
        async for chunk in with_heartbeats(chunks(), seconds=0.005):
            got.append(chunk)
            if got.count(HEARTBEAT) == 3:
                go.set()
        assert got[:2] == [RETRY, b"one"] and got[-1] == b"two"
        assert [chunk for chunk in got if chunk != HEARTBEAT] == [RETRY, b"one", b"two"]

    asyncio.run(work())


def test_stream_ends_when_the_caller_may_not_read_any_more() -> None:
    async def work() -> None:
        allowed = [True, True, False]
        closed = asyncio.Event()

        async def chunks() -> AsyncIterator[bytes]:
            try:
                await asyncio.Event().wait()
                yield b"never"
            finally:
                closed.set()

        async def is_valid() -> bool:
            return allowed.pop(0)

        got = [chunk async for chunk in with_heartbeats(chunks(), is_valid, seconds=0.005)]
        assert got == [RETRY, HEARTBEAT, HEARTBEAT] and closed.is_set()

    asyncio.run(work())


def test_cursors_say_in_which_version_they_count() -> None:
    assert read_cursor("7") == read_cursor("1.7") == EventCursor(7)
    assert read_cursor("1.7:2") == read_cursor("7:2") == EventCursor(7, 2)
    assert read_cursor("2.7") == EventCursor(7, is_outdated=True)
    assert read_cursor(cursor_text(7, 2)) == EventCursor(7, 2)


def test_a_cursor_of_another_version_gets_everything_again() -> None:
    async def work() -> None:
        async with serving() as server:
            root = await server.client("author")
            run_id = await run_of(root, server.context.runs, "red")
            place, url = {"last-event-id": "2.3"}, f"/api/v1/runs/{run_id}/events"
            answer = await root.get(url, headers=place)
            first, *rest = SseReader().feed(answer.content)
            assert (first[1], rest[-1][1]) == ("reset", "end")
            seqs = [json.loads(data)["seq"] for number, _, data in rest if number]
            assert seqs == list(range(1, len(seqs) + 1))
            known = await root.get(url, params={"after": "1.3"})
            assert SseReader().feed(known.content) == rest[3:]
            hub = EventHub(server.context.runs)
            stream = hub.stream_all(None, read_cursor("2.1:1"))
            chunks = [await anext(stream), await anext(stream)]
            notice, event, *_ = SseReader().feed(b"".join(chunks))
            assert notice[1] == "reset" and json.loads(event[2])["seq"] == 1
            await stream.aclose()  # type: ignore[attr-defined]
            await hub.close()

    asyncio.run(work())


def test_names_and_texts_cannot_break_out_of_an_event() -> None:
    evil = "x\ndata: {}\n\nevent: end\r\rdata: 1"
    event = Event(1, "custom", "", "run", None, None, Custom(evil, {"text": evil}))
    block = encode_sse(event)
    assert block.endswith(b"\n\n") and block.count(b"\n") == 4 and b"\r" not in block
    ((number, _, data),) = SseReader().feed(block)
    assert number == "1.1" and json.loads(data)["data"] == {"name": evil, "data": {"text": evil}}


# Over a socket.


def body(rounds: int, **more: Any) -> dict[str, Any]:
    return {"workflow": {"text": loop_text(rounds)}, "input": "x", "script": {"Writer": ["a", "b"]}, **more}


def test_client_continues_after_a_restart_of_the_server(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db?sync=normal"

    async def work() -> None:
        reader = SseReader()
        seen: list[str] = []
        async with listening(store) as (address, runs, _), await client_of(runs, address) as client:
            started = await client.post("/api/v1/runs", json=body(30, paused=True))
            assert started.status_code == 202
            url = started.headers["location"]
            async with client.stream("GET", f"{url}/events") as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                async for chunk in stream.aiter_bytes():
                    seen += [number for number, _, _ in reader.feed(chunk) if number]
                    if seen:
                        break
        async with listening(store) as (address, runs, _), await client_of(runs, address) as client:
            assert (await client.post(f"{url}/resume")).status_code == 200
            headers = {"last-event-id": reader.last_id}
            async with client.stream("GET", f"{url}/events?after=999", headers=headers) as stream:
                names = []
                async for chunk in stream.aiter_bytes():
                    for number, name, _ in reader.feed(chunk):
                        names.append(name)
                        if number:
                            seen.append(number)
                assert names[-1] == "end"
            lines = await client.get(f"{url}/events", params={"follow": False})
            everything = [json.loads(line)["seq"] for line in lines.text.splitlines()]
            assert (
                [read_cursor(number).position for number in seen]
                == everything
                == list(range(1, len(everything) + 1))
            )

    asyncio.run(work())


def test_closed_page_does_not_stop_a_run(tmp_path: Path) -> None:
    async def work() -> None:
        store = f"sqlite:///{tmp_path}/runs.db?sync=normal"
        async with listening(store) as (address, runs, _), await client_of(runs, address) as client:
            started = await client.post("/api/v1/runs", json=body(300))
            url = started.headers["location"]
            async with client.stream("GET", f"{url}/events") as stream:
                async for _ in stream.aiter_bytes():
                    break
            result = await runs.result(started.json()["id"])
            assert result.status == "completed"
            view = (await client.get(url)).json()
            assert view["status"] == "completed" and not view["is_executed"]

    asyncio.run(work())


def test_shutdown_ends_streams_without_an_end(tmp_path: Path) -> None:
    async def work() -> None:
        store = f"sqlite:///{tmp_path}/runs.db?sync=normal"
        async with listening(store) as (address, runs, own), await client_of(runs, address) as client:
            url = (await client.post("/api/v1/runs", json=body(5, paused=True))).headers["location"]
            reader, names = SseReader(), []
            async with client.stream("GET", f"{url}/events") as stream:
                async for chunk in stream.aiter_bytes():
                    names += [name for _, name, _ in reader.feed(chunk)]
                    if names:  # the first chunk may hold none
                        own.stop()
            assert names and "end" not in names

    asyncio.run(work())


# All runs.


class Watcher:
    """Someone who follows all runs of some groups."""

    def __init__(self, groups: list[str] | None) -> None:
        self.groups = groups
        self.last = "0"
        self.seen: list[tuple[str, int]] = []

    async def follow(self, hub: EventHub, dice: random.Random, until: set[str]) -> None:
        """Reads until it leaves, or all these runs are over; it may leave in the middle of a write."""
        known = read_cursor(self.last)
        async with contextlib.aclosing(hub.stream_all(self.groups, known)) as stream:  # type: ignore[type-var]
            async for chunk in stream:
                for identity, name, data in SseReader().feed(chunk):
                    if name == "behind":
                        continue
                    event = json.loads(data)
                    self.seen.append((event["run_id"], event["seq"]))
                    self.last = identity
                    if name == "run_finished":
                        until.discard(event["run_id"])
                    if not until or dice.random() < 0.02:
                        return


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, 4_000_000]))
def test_every_watcher_sees_each_event_of_its_groups_once(seed: int, window: int) -> None:
    dice = random.Random(seed)

    async def work() -> None:
        store = InMemoryStore()
        runs = Runs(store)
        groups = ["red", "blue", "red", ""]
        run_ids = [await start(runs, 12, group=group) for group in groups]
        hubs = [EventHub(Runs(store), window_bytes=window) for _ in range(2)]
        watchers = [Watcher(chosen) for chosen in (None, ["red"], ["blue"], ["red", "blue"], [""])]

        async def live(watcher: Watcher) -> None:
            chosen = watcher.groups
            own = {
                run_id
                for run_id, group in zip(run_ids, groups, strict=True)
                if chosen is None or group in chosen
            }
            left = set(own)
            while left:
                await watcher.follow(dice.choice(hubs), dice, left)
                for _ in range(dice.randrange(30)):
                    await asyncio.sleep(0)
            for run_id in own:
                newest = (await runs.inspect(run_id)).state.seq
                numbers = [seq for seen, seq in watcher.seen if seen == run_id]
                assert numbers == list(range(1, newest + 1)), "missing, or twice"
            assert {run_id for run_id, _ in watcher.seen} == own

        await asyncio.gather(*(live(watcher) for watcher in watchers))
        assert all(not hub._feeds and not hub.clients for hub in hubs)

    asyncio.run(work())


def test_watcher_who_sees_none_of_many_events_keeps_up() -> None:
    async def work() -> None:
        store = InMemoryStore()
        runs = Runs(store)
        hub = EventHub(runs, window_bytes=10 * SMALL)
        stream = hub.stream_all(["blue"], EventCursor(0))
        waiting = asyncio.ensure_future(anext(stream))
        await runs.result(await start(runs, 100, group="red"))
        own = await start(runs, 1, group="blue")
        first = SseReader().feed(await waiting)
        assert {json.loads(data)["run_id"] for _, name, data in first if name != "behind"} == {own}
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(work())


async def run_of(client: httpx2.AsyncClient, runs: Runs, group: str) -> str:
    """A run of a group that is over."""
    started = await client.post("/api/v1/runs", json=body(5, group=group))
    run_id: str = started.json()["id"]
    await runs.result(run_id)
    return run_id


def test_all_runs_over_a_socket(tmp_path: Path) -> None:
    async def work() -> None:
        store = f"sqlite:///{tmp_path}/runs.db?sync=normal"
        async with listening(store) as (address, runs, own):
            red = await client_of(runs, address, groups=["red"])
            root = await client_of(runs, address)
            async with red, root:
                await run_of(root, runs, "blue")
                run_id = await run_of(root, runs, "red")
                reader, seen = SseReader(), []
                async with red.stream("GET", "/api/v1/events?after=0") as stream:
                    async for chunk in stream.aiter_bytes():
                        seen += reader.feed(chunk)
                        if seen and seen[-1][1] == "run_finished":
                            break
                assert {json.loads(data)["run_id"] for _, _, data in seen} == {run_id}
                middle = next(number for number, (one, _, _) in enumerate(seen) if ":" in one)
                rest: list[Any] = []
                headers, reader = {"last-event-id": seen[middle][0]}, SseReader()
                async with red.stream("GET", "/api/v1/events", headers=headers) as stream:
                    async for chunk in stream.aiter_bytes():
                        rest += reader.feed(chunk)
                        if rest and rest[-1][1] == "run_finished":
                            own.stop()  # the stream has no end, and ends all the same
                assert rest == seen[middle + 1 :]

    asyncio.run(work())


def test_events_of_all_runs_as_lines() -> None:
    async def work() -> None:
        async with serving() as server:
            red, root = await server.client("viewer", groups=["red"]), await server.client("author")
            await run_of(root, server.context.runs, "blue")
            run_id = await run_of(root, server.context.runs, "red")
            query = {"follow": "false", "after": "0"}
            answer = await red.get("/api/v1/events", params=query)
            found = [json.loads(line) for line in answer.text.splitlines()]
            assert {one["event"]["run_id"] for one in found} == {run_id}
            assert [one["event"]["seq"] for one in found] == list(range(1, len(found) + 1))
            everything = await root.get("/api/v1/events", params=query)
            assert len(everything.text.splitlines()) == 2 * len(found)
            assert (await root.get("/api/v1/events", params={"follow": "false"})).text == ""
            for wrong in ("x", "1:", ":1", "1:2:3", "-1", "9" * 30, "1.", ".1", "1.2.3"):
                refused = await root.get("/api/v1/events", headers={"last-event-id": wrong})
                assert refused.status_code == 422

    asyncio.run(work())
