"""A server under load: many clients, many runs, clients that never read, starts that are repeated, and
several servers on one store. bench/server.py does the same with larger numbers, and measures it."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path

from tests.server.live import loop_text
from tests.server.load import (
    LINES,
    Client,
    RunFollower,
    Site,
    StoreFollower,
    calling_text,
    close,
    memory,
    wait_for_end,
)

DEADLINE = 300
"""Seconds until a test that hangs has failed."""


def test_each_client_gets_each_event_once_while_many_runs_are_started(tmp_path: Path) -> None:
    loops, clients, runs, dice = 5, 4, 50, random.Random(1)

    async def work() -> None:
        async with Site(tmp_path) as site:
            server = await site.start()
            starter = site.client()
            run_ids = [await starter.start(loop_text(40), script=LINES) for _ in range(loops)]

            def leaves() -> bool:
                return dice.random() < 0.01

            followers = [
                RunFollower(site.client(), run_id, leaves=leaves if number % 2 else lambda: False)
                for run_id in run_ids
                for number in range(clients)
            ]
            everything = [StoreFollower(site.client(), loops + runs, leaves=leaves) for _ in range(2)]

            async def start_more(client: Client) -> list[str]:
                return [await client.start(loop_text(3), script=LINES) for _ in range(runs // 5)]

            tasks = [asyncio.create_task(one.follow()) for one in (*followers, *everything)]
            started = await asyncio.gather(*(start_more(site.client()) for _ in range(5)))
            await asyncio.gather(*tasks)
            more = [run_id for found in started for run_id in found]
            assert set((await wait_for_end(site, [*run_ids, *more])).values()) == {"completed"}
            newest = everything[0].newest
            assert newest == everything[1].newest and newest.keys() == {*run_ids, *more}
            assert [one.count for one in followers] == [
                newest[run_id] for run_id in run_ids for _ in range(clients)
            ]
            assert await server.end() == 0

    asyncio.run(asyncio.wait_for(work(), DEADLINE))


def test_clients_that_never_read_cost_little_and_delay_nobody(tmp_path: Path) -> None:
    sleepers, rounds, size = 20, 200, 50_000

    async def work() -> None:
        async with Site(tmp_path) as site:
            server = await site.start()
            client = site.client()
            script = {"Writer": [letter * size for letter in "abc"]}
            # Once before, so that everything is loaded, and the memory that one such run takes is there.
            first = await client.start(loop_text(rounds), script=script)
            await RunFollower(site.client(), first).follow()
            before = memory(server.process.pid)
            run_id = await client.start(loop_text(rounds), script=script, paused=True)
            path = f"/api/v1/runs/{run_id}/events"
            open_streams = [await client.events(path, reads=False) for _ in range(sleepers)]
            assert (await client.request("POST", f"/api/v1/runs/{run_id}/resume"))[0] == 200
            reader = RunFollower(site.client(), run_id)
            await reader.follow()
            grown = memory(server.process.pid) - before
            sent = reader.bytes
            assert sent > rounds * size
            assert grown < sleepers * sent / 2, f"{grown:,} bytes more, for {sleepers} times {sent:,}"
            for _, writer in open_streams:
                await close(writer)
            assert await server.end() == 0

    asyncio.run(asyncio.wait_for(work(), DEADLINE))


def test_repeated_starts_create_one_run_for_each_key(tmp_path: Path) -> None:
    keys, clients = 50, 6

    async def work() -> None:
        async with Site(tmp_path) as site:
            servers = [await site.start(0), await site.start(1)]

            async def start(number: int) -> list[tuple[int, str]]:
                dice, client = random.Random(number), site.client(number % 2)
                order = [key for key in range(keys) for _ in range(2)]
                dice.shuffle(order)
                text = loop_text(2)
                return [
                    (key, await client.start(text, f"{key}", f"key {key}", script=LINES))
                    for key in order[: keys + number]
                ]

            found = await asyncio.gather(*(start(number) for number in range(clients)))
            answers = {pair for pairs in found for pair in pairs}
            assert len(answers) == len(dict(answers)) == keys, "a key led to two runs"
            store = site.open()
            assert {row.id for row in await store.rows(None)} == {run_id for _, run_id in answers}
            await store.close()
            ends = await wait_for_end(site, dict(answers).values())
            assert set(ends.values()) == {"completed"}
            assert [await server.end() for server in servers] == [0, 0]

    asyncio.run(asyncio.wait_for(work(), DEADLINE))


def test_two_servers_execute_each_run_once_and_one_takes_over(tmp_path: Path) -> None:
    runs, rounds, dice = 16, 12, random.Random(5)

    async def work() -> None:
        async with Site(tmp_path) as site:
            servers = [await site.start(0), await site.start(1)]
            clients = [site.client(0), site.client(1)]
            run_ids = [
                await clients[number % 2].start(calling_text(rounds), f"run {number}")
                for number in range(runs)
            ]
            # They follow at the server that stays, also the runs that the other one executes.
            followers = [RunFollower(site.client(1), run_id) for run_id in run_ids]
            everything = StoreFollower(site.client(1), runs)
            tasks = [asyncio.create_task(one.follow()) for one in (*followers, everything)]
            await site.called(runs * rounds // 3 + dice.randrange(runs))
            await servers[0].end(signal.SIGKILL)
            await asyncio.gather(*tasks)
            assert set((await wait_for_end(site, run_ids)).values()) == {"completed"}
            assert [one.count for one in followers] == [everything.newest[run_id] for run_id in run_ids]
            assert await servers[1].end() == 0
            calls = Counter(site.keys())
            assert calls.keys() == {
                f"run {number}/{turn + 1}" for number in range(runs) for turn in range(rounds)
            }
            twice = {name.partition("/")[0] for name, count in calls.items() if count > 1}
            assert sum(calls.values()) == len(calls) + len(twice), (
                "more than the calls in flight were repeated"
            )
            assert all(int(name.split()[1]) % 2 == 0 for name in twice), "runs of the other server"

    asyncio.run(asyncio.wait_for(work(), DEADLINE))
