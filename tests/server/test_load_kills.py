"""A server that is killed under load, again and again, and started again on its store and its port: clients
connect again and have each event once, starts are repeated, and no call that has finished is made again.
A run that was in flight at every kill, and made no progress in between, is locked; somebody unlocks it.

`python -m tests.server.test_load_kills FIRST LAST` repeats it with other seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from roundel.kernel.facts import Finished
from roundel.kernel.unlock import CHECKS
from tests.conftest import KILLS
from tests.server.load import (
    RETRY_SECONDS,
    RunFollower,
    Site,
    StoreFollower,
    calling_text,
    wait_for_end,
)

RUNS = 10
ROUNDS = 15
TIMES = 3
DEADLINE = 300


async def finished(site: Site) -> set[str]:
    """The calls whose results are stored."""
    store = site.open()
    rows = await store.rows(None)
    facts = [fact for row in rows for fact in await store.facts(row.id)]
    await store.close()
    outcomes = [fact.outcome for fact in facts if isinstance(fact, Finished)]
    return {message.text for outcome in outcomes for message in outcome.messages}


async def start_for_certain(site: Site, number: int) -> str:
    """Starts a run, and repeats it until there is an answer."""
    client = site.client()
    while True:
        try:
            return await client.start(calling_text(ROUNDS), f"run {number}", f"key {number}")
        except ConnectionError:
            await asyncio.sleep(RETRY_SECONDS)


async def unlock_suspects(site: Site) -> None:
    """Unlocks the runs that the server suspects of having killed it."""
    client = site.client()
    request = {"reason": "the server was killed by something else", "checks": CHECKS}
    while True:
        with contextlib.suppress(ConnectionError):
            status, found = await client.request("GET", "/api/v1/runs?status=suspended_locked")
            for run in found["items"] if status == 200 else ():
                await client.request("POST", f"/api/v1/runs/{run['id']}/unlock", request)
        await asyncio.sleep(RETRY_SECONDS)


async def survive(folder: Path, seed: int) -> None:
    async with Site(folder) as site:
        await survive_kills(site, random.Random(seed))


async def survive_kills(site: Site, dice: random.Random) -> None:
    server = await site.start()
    followers: dict[int, list[RunFollower]] = {}
    everything = [StoreFollower(site.client(), RUNS) for _ in range(2)]
    moments = sorted(dice.sample(range(1, RUNS * ROUNDS - RUNS), TIMES))

    async def live(number: int) -> str:
        run_id = await start_for_certain(site, number)
        followers[number] = [
            RunFollower(site.client(), run_id, leaves=lambda: dice.random() < 0.005) for _ in range(2)
        ]
        await asyncio.gather(*(one.follow() for one in followers[number]))
        return run_id

    tasks = [asyncio.create_task(live(number)) for number in range(RUNS)]
    streams = [asyncio.create_task(one.follow()) for one in everything]
    unlocking = asyncio.create_task(unlock_suspects(site))
    for moment in moments:
        await site.called(moment)
        await asyncio.sleep(dice.random() * 0.02)  # somewhere between this call and the next ones
        await server.end(signal.SIGKILL)
        kept, before = await finished(site), len(site.keys())
        server = await site.start()
        await site.called(min(before + 1, RUNS * ROUNDS))
        again = [name for name in site.keys()[before:] if name in kept]
        assert not again, f"finished, and made again: {again}"
    run_ids = await asyncio.gather(*tasks)
    await asyncio.gather(*streams)
    unlocking.cancel()
    assert set((await wait_for_end(site, run_ids)).values()) == {"completed"}
    store = site.open()
    assert {row.id for row in await store.rows(None)} == set(run_ids), "one run for each key"
    await store.close()
    newest = everything[0].newest
    assert newest == everything[1].newest
    for number, run_id in enumerate(run_ids):
        assert [one.count for one in followers[number]] == [newest[run_id]] * 2
    assert await server.end() == 0
    calls = Counter(site.keys())
    assert calls.keys() == {f"run {number}/{turn + 1}" for number in range(RUNS) for turn in range(ROUNDS)}
    assert sum(calls.values()) <= len(calls) + TIMES * RUNS, "more than the calls in flight were repeated"


@pytest.mark.parametrize("seed", range(2))
def test_killed_server_loses_nothing_and_repeats_nothing(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    asyncio.run(asyncio.wait_for(survive(tmp_path, seed), DEADLINE))
    record_property(KILLS, TIMES)


def main(first: int, last: int) -> None:
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(asyncio.wait_for(survive(Path(folder), seed), DEADLINE))
        print(f"seed {seed}: {TIMES} kills, nothing lost, nothing twice", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
