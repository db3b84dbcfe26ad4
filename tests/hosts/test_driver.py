"""A stored run awaits a lone call in its own task, and still accepts control requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import control
from roundel.hosts.local_run import REQUEST_APPLIED
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.facts import Finished, Paused, Stopped
from tests.hosts.test_control import Slow, Work, outcome
from tests.journal.stores import resumed, using


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)


def test_pause_during_a_call_is_acknowledged_only_after_its_commit(tmp_path: Path) -> None:
    """Nor does the run go on, when the call ends meanwhile, nor is anybody shown anything."""

    async def story() -> None:
        store = Slow(tmp_path / "runs.db")
        work, shown = Work(), list[roundel.Event]()
        host = await work.host(store, on_event=shown.append)
        running = asyncio.create_task(host.run(()))
        await work.has_started.wait()
        before = list(shown)
        store.may_append.clear()
        number = await store.request("run", "pause", {"reason": "lunch"})
        await store.held_up.wait()
        work.go.set()
        await asyncio.wait_for(work.done.wait(), 60)
        seen = await store.outcome(number), list(work.ran), list(shown), len(await store.facts("run"))
        store.may_append.set()
        assert seen == ("", ["A"], before, 1)
        assert (await running).status == "paused"
        assert await store.outcome(number) == REQUEST_APPLIED
        kinds = [type(fact) for fact in await store.facts("run")]
        assert kinds[-2:] == [Paused, Finished]
        result = await resumed(store, "run", workflow=work.graph)
        assert (result.output, work.ran) == ("b", ["A", "B"])
        await store.close()

    asyncio.run(story())


def test_run_cancelled_during_a_pause_commit_is_stopped_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        store = Slow(tmp_path / "runs.db")
        work = Work()
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        store.may_append.clear()
        await store.request("run", "pause", {})
        await store.held_up.wait()
        running.cancel()
        await asyncio.sleep(0)
        was_done = running.done()
        store.may_append.set()
        assert not was_done
        with pytest.raises(asyncio.CancelledError):
            await running
        kinds = [type(fact) for fact in await store.facts("run")]
        assert kinds[-2:] == [Paused, Stopped]
        assert (await store.row("run")).status == "stopped"
        await store.close()

    asyncio.run(story())


def graph_of(function: Any) -> roundel.Graph:
    graph = roundel.Graph(start="A", end="A")
    graph.function("A")(function)
    return graph


def test_call_runs_in_a_single_task(tmp_path: Path) -> None:
    """Time limits, groups of tasks and the libraries that are built on them need that."""
    tasks: list[Any] = []

    async def a() -> str:
        tasks.append(asyncio.current_task())
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            tasks.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        tasks.append(asyncio.current_task())
        return "in time"

    async def story(store: SqliteStore) -> None:
        result = await roundel.run_async(graph_of(a), "go", store=store)
        assert result.output == "in time"
        assert len(set(tasks)) == 1

    asyncio.run(using(tmp_path / "runs.db", story))


@pytest.mark.parametrize("how", ["swallows", "fails"])
def test_stop_takes_effect_when_a_node_swallows_the_cancellation(how: str, tmp_path: Path) -> None:
    has_started = asyncio.Event()

    async def a() -> str:
        has_started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if how == "fails":
                raise ValueError("what now?") from None
        return "whatever"

    async def story(store: SqliteStore) -> None:
        running = asyncio.create_task(roundel.run_async(graph_of(a), "go", store=store))
        await has_started.wait()
        (row,) = await store.rows()
        number = await store.request(row.id, "stop", {})
        result = await running
        assert result.status == "stopped"
        assert await store.outcome(number) == REQUEST_APPLIED
        assert [type(fact) for fact in await store.facts(row.id)][1:] == [Stopped]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_earlier_cancellation_of_the_task_does_not_stop_the_run(tmp_path: Path) -> None:
    """To clean up, say."""

    async def a() -> str:
        return "done"

    async def story(store: SqliteStore) -> None:
        async def cleans_up() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return (await roundel.run_async(graph_of(a), "go", store=store)).output
            return ""

        task = asyncio.create_task(cleans_up())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "done"

    asyncio.run(using(tmp_path / "runs.db", story))


def test_node_that_cancels_its_own_task_does_not_stop_the_run(tmp_path: Path) -> None:
    """As libraries do that know no `uncancel`."""

    async def a() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "in time"
        return ""

    async def story(store: SqliteStore) -> None:
        graph = graph_of(a).node("B", "passthrough").edge("A", "B")
        assert (await roundel.run_async(graph, "go", store=store)).completed

    asyncio.run(using(tmp_path / "runs.db", story))


def test_an_endless_loop_of_quick_nodes_applies_control_requests(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        graph = roundel.Graph(start="A", end="A", limits={"rounds": 10**6})

        @graph.function("A", ports=["again"])
        async def again(text: str) -> roundel.Outcome:
            return roundel.to("again", text)

        graph.edge("A", "A", port="again")
        running = asyncio.create_task(roundel.run_async(graph, "go", store=store))
        rows = []
        for _ in range(2000):
            if rows := await store.rows():
                break
            await asyncio.sleep(0.001)
        pause = await store.request(rows[0].id, "pause", {})
        assert await outcome(store, pause) == REQUEST_APPLIED
        assert (await running).status == "paused"
        assert isinstance((await store.facts(rows[0].id))[-2], (Paused, Finished))

    asyncio.run(using(tmp_path / "runs.db", story))


def test_a_stored_run_of_pure_nodes_yields_the_event_loop(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        graph = roundel.Graph(start="A", end="Out", limits={"rounds": 2001})
        graph.node("A", "passthrough").node("Out", "passthrough")
        graph.node("Guard", "loop_counter", max_iterations=2000)
        graph.edge("A", "Guard").edge("A", "A").edge("Guard", "A").edge("Guard", "Out")
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(other())
        assert (await roundel.run_async(graph, "go", store=store)).completed
        beside.cancel()
        assert turns >= 15

    asyncio.run(using(tmp_path / "runs.db", story))
