"""Handing runs back: a host that shuts down lets calls in flight finish, starts nothing new and changes no
status, and the next host continues as if nothing had happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.hosts.core import HostCore
from roundel.hosts.engine import Attachment, RunSpec
from roundel.hosts.local import LocalEngine
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Store
from roundel.kernel.events import Event
from roundel.kernel.facts import Paused, Resumed
from roundel.kernel.step import replay
from roundel.nodes.loading import load
from roundel.plan.graph import compile_workflow
from roundel.runs.runs import Runs
from roundel.workflow.message import Message
from tests.hosts.core_host import CoreHost
from tests.hosts.test_core import case_of, is_loop_agent, same, seeds


def next_host(host: CoreHost) -> None:
    """Another process resumes the run from what was committed."""
    assert host.store is not None and not host.log.has_uncommitted
    state, commands = replay(host.plan, host.store.entries)
    host.log = host._log(state)
    host.core = HostCore(host.log, host)
    host.core.begin(commands)


def is_comparable(host: CoreHost, seed: int) -> bool:
    """Whether the calls of the run do not depend on the order of their results (`same` in test_core.py)."""
    return host.log.state.status == "completed" and not is_loop_agent(seed)


def run_and_drain(host: CoreHost, moment: int) -> int | None:
    """Runs until the core is idle, and drains it at some moment; how many effects were started by then."""
    started: int | None = None

    def disturb(host: CoreHost) -> None:
        nonlocal moment, started
        moment -= 1
        if host.dice.random() < 0.3:
            host.finish_one()
        if moment == 0:
            host.core.is_draining, started = True, len(host.started)

    host.run(disturb)
    return started


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(1, 4))
def test_drained_run_continues_elsewhere_like_an_undisturbed_one(seed: int, times: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)
    host.commit()
    for _ in range(times):
        started = run_and_drain(host, dice.randrange(1, 30))
        assert not host.core.in_flight, "everything in flight has finished"
        if host.log.state.over or started is None:
            break
        assert len(host.started) == started, "nothing new was started"
        assert host.log.state.status in ("running", "suspended_locked"), "no status changes"
        next_host(host)
    host.core.is_draining = False
    host.run(lambda host: host.finish_one() if dice.random() < 0.3 else None)
    same(host, seed)
    if is_comparable(host, seed):
        quiet = CoreHost(plan, script, random.Random(0)).begin(text).run()
        assert Counter(host.started) == Counter(quiet.started), "each call was made once"


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_control_requests_of_a_draining_run_count(seed: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)
    host.commit()
    moment, token = dice.randrange(1, 20), object()

    def disturb(host: CoreHost) -> None:
        nonlocal moment
        moment -= 1
        if moment == 0:
            host.core.is_draining = True
            host.core.request(Paused("lunch", host.now()), token)

    host.run(disturb)
    if host.settled.get(token) == "" and not host.log.state.over:
        assert host.log.state.paused
        next_host(host)
        assert host.log.state.paused, "the pause is stored"
        host.core.request(Resumed(host.now()), object())
        host.run()
        same(host, seed)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_results_that_have_arrived_are_recorded_when_a_run_is_handed_back(seed: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)
    host.commit()
    moment, left = dice.randrange(1, 30), False

    class Leave(Exception):
        pass

    def disturb(host: CoreHost) -> None:
        nonlocal moment
        moment -= 1
        if dice.random() < 0.4:
            host.finish_one()
        if moment == 0:
            raise Leave

    try:
        host.run(disturb)
    except Leave:
        left = True
    if left and not host.log.state.over:
        status = host.log.state.status
        lost = Counter(list(host.core.in_flight))
        assert host.store is not None
        host.core.hand_back()
        host.commit()
        assert replay(plan, host.store.entries)[0].status not in {"paused", "waiting"} - {status}
        next_host(host)
        host.run()
        if is_comparable(host, seed):
            quiet = CoreHost(plan, script, random.Random(0)).begin(text).run()
            assert Counter(host.started) <= Counter(quiet.started) + lost, "a finished call was made again"
    same(host, seed)


# The real host.

STEPS = 6
calls: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}
begun: dict[str, asyncio.Event] = {}


async def slow(text: str) -> str:
    """A call that takes until somebody opens its gate."""
    calls[text] += 1
    begun.setdefault(text, asyncio.Event()).set()
    await gates.setdefault(text, asyncio.Event()).wait()
    return text + "."


def forget() -> None:
    calls.clear()
    gates.clear()
    begun.clear()


def workflow() -> dict[str, Any]:
    names = [f"N{number}" for number in range(STEPS)]
    return {
        "graph": {
            "nodes": [
                {"id": name, "type": "python", "config": {"function": "tests.hosts.test_release:slow"}}
                for name in names
            ],
            "edges": [{"from": one, "to": other} for one, other in pairwise(names)],
            "start": names[0],
            "end": names[-1],
        }
    }


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    forget()
    return InMemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "runs.db"))


def spec() -> RunSpec:
    return RunSpec(compile_workflow(load(workflow())), (Message("x"),), None, {}, True)


def open_gates(*texts: str) -> None:
    for text in texts:
        gates.setdefault(text, asyncio.Event()).set()


async def has_begun(text: str) -> None:
    await begun.setdefault(text, asyncio.Event()).wait()


def test_release_waits_for_the_call_in_flight(store: Store) -> None:
    async def work() -> None:
        engine = LocalEngine(lambda: store)
        seen: list[Event] = []
        run_id = await engine.start(spec(), Attachment(on_event=seen.append))
        open_gates("x")
        await has_begun("x.")
        release = asyncio.create_task(engine.release(60))
        await asyncio.sleep(0)
        open_gates("x.", "x..")
        await release
        row = await store.row(run_id)
        assert (row.status, row.owner) == ("running", "")
        assert calls == {"x": 1, "x.": 1}, "what follows was not started"
        open_gates(*("x" + "." * number for number in range(STEPS)))
        other = Runs(store)
        result = await other.resume(run_id)
        assert (result.status, result.output) == ("completed", "x" + "." * STEPS)
        assert set(calls.values()) == {1}, "no call was made twice"
        await store.close()

    asyncio.run(work())


def test_release_hands_back_what_does_not_finish(store: Store) -> None:
    async def work() -> None:
        engine = LocalEngine(lambda: store)
        run_ids = [await engine.start(spec()) for _ in range(3)]
        while calls["x"] < 3:
            begun.clear()
            await has_begun("x")
        await engine.release(0.01)
        for run_id in run_ids:
            row = await store.row(run_id)
            assert (row.status, row.owner) == ("running", "")
        open_gates(*("x" + "." * number for number in range(STEPS)))
        other = Runs(store)
        results = [await other.resume(run_id) for run_id in run_ids]
        assert [result.status for result in results] == ["completed"] * 3
        assert calls["x"] == 6 and calls["x."] == 3, "only the calls in flight were made again"
        await store.close()

    asyncio.run(work())


def test_release_stops_a_run_that_is_not_stored() -> None:
    forget()

    async def work() -> None:
        runs = Runs(InMemoryStore())
        run_id = await runs.start(compile_workflow(load(workflow())), "x", stored=False)
        await has_begun("x")
        release = asyncio.create_task(runs.engine.release(60))
        result = await runs.result(run_id)
        await release
        assert result.status == "stopped"

    asyncio.run(work())


def test_release_before_a_run_has_begun(store: Store) -> None:
    async def work() -> None:
        engine = LocalEngine(lambda: store)
        run_id = await engine.start(spec())
        await engine.release(0)  # its task has not had a turn yet
        row = await store.row(run_id)
        assert (row.status, row.owner) == ("running", "")
        open_gates(*("x" + "." * number for number in range(STEPS)))
        result = await Runs(store).resume(run_id)
        assert result.status == "completed" and set(calls.values()) <= {1, 2}
        await store.close()

    asyncio.run(work())


def test_pause_that_waits_for_a_call_outlives_the_host(store: Store) -> None:
    async def work() -> None:
        engine = LocalEngine(lambda: store)
        run_id = await engine.start(spec())
        await has_begun("x")
        await Runs(store, engine=engine).pause(run_id, "lunch", wait=False)
        assert (await store.row(run_id)).status == "running", "it waits for the call"
        await engine.release(0.01)
        row = await store.row(run_id)
        assert (row.status, row.owner) == ("paused", "")
        await store.close()

    asyncio.run(work())
