"""The service layer: runs that are started, followed and controlled, here and from another process."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.extend import Attachment, Engine, InMemoryStore
from roundel.hosts import stored_run
from roundel.journal.run_journal import Replay, rebuild
from roundel.kernel.events import encode_event
from roundel.kernel.unlock import CHECKS
from roundel.llm.resource_pool import ResourceLease, ResourcePool

STORES = ["memory", "file"]


class Gate:
    """A graph of two nodes; the first waits until it may pass."""

    def __init__(self) -> None:
        self.has_started, self.go = asyncio.Event(), asyncio.Event()
        self.graph = graph = roundel.Graph("gate", start="A", end="B")

        @graph.function("A")
        async def a(text: str) -> str:
            self.has_started.set()
            await self.go.wait()
            return text

        graph.node("B", "passthrough").edge("A", "B")


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemoryStore() if request.param == "memory" else tmp_path / "runs.db"


def using(place: Any, story: Callable[[roundel.Runs], Awaitable[None]]) -> None:
    async def main() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)

    asyncio.run(main())


def test_started_run_executes_in_the_background(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        assert (await runs.row(run_id)).status == "running"
        waiting = asyncio.create_task(runs.result(run_id))
        await gate.has_started.wait()
        gate.go.set()
        assert (await waiting).output == "tea"
        assert (await runs.result(run_id)) == await waiting, "also later, from the store"

    using(place, story)


def test_many_runs_at_once_share_one_poller(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        gates = [Gate() for _ in range(20)]
        ids = [await runs.start(gate.graph, str(number)) for number, gate in enumerate(gates)]
        for gate in gates:
            await gate.has_started.wait()
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("roundel-control-requests") == 1
        for gate in gates:
            gate.go.set()
        assert [(await runs.result(run_id)).output for run_id in ids] == [str(number) for number in range(20)]

    using(place, story)


def test_stores_and_event_loops_can_be_garbage_collected(tmp_path: Path) -> None:
    alive: list[weakref.ref[Any]] = []

    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        alive.extend((weakref.ref(runs.store), weakref.ref(asyncio.get_running_loop())))
        gate.go.set()
        assert (await runs.result(run_id)).completed

    using(tmp_path / "runs.db", story)
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_a_run_is_followed_while_it_runs(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        await gate.has_started.wait()
        seen = []
        async for event in runs.follow(run_id):
            seen.append(event)
            gate.go.set()
        assert seen == await runs.events(run_id)
        assert seen[-1].event == "run_finished"
        rest = [event async for event in runs.follow(run_id, after=seen[-2].seq)]
        assert rest == seen[-1:]

    using(place, story)


def test_a_run_that_is_not_stored_is_started_paused_and_stopped(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea", stored=False)
        await gate.has_started.wait()
        await runs.pause(run_id, "lunch", wait=False)
        assert (await runs.inspect(run_id)).state.paused == "lunch"
        with pytest.raises(roundel.StoreError, match="a pause is already requested"):
            await runs.pause(run_id)
        await runs.stop(run_id, "enough")
        result = await runs.result(run_id)
        assert (result.status, result.error) == ("stopped", "enough")
        assert await runs.list() == []

    using(place, story)


def test_closing_the_service_stops_its_runs(place: Any) -> None:
    ids = []

    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        ids.append(await runs.start(gate.graph, "tea"))
        await gate.has_started.wait()

    using(place, story)

    async def later(runs: roundel.Runs) -> None:
        row = await runs.row(ids[0])
        assert (row.status, row.owner) == ("stopped", "")

    using(place, later)


def test_an_interrupted_run_can_be_resumed(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        await gate.has_started.wait()
        runs.interrupt(run_id)
        assert (await runs.result(run_id)).status == "paused"
        gate.go.set()
        assert await runs.resume_in_background(run_id, workflow=gate.graph) == run_id
        assert (await runs.result(run_id)).output == "tea"

    using(place, story)


def test_an_answer_may_have_data_and_resume_the_run(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        graph = roundel.Graph("ask", start="H", end="H").node("H", "human", description="Well?")
        run_id = await runs.start(graph, "tea")
        assert (await runs.result(run_id)).status == "waiting"
        await runs.answer(run_id, "yes", data={"score": 9}, execute=Attachment())
        result = await runs.result(run_id)
        assert (result.status, result.output, result.data) == ("completed", "yes", {"score": 9})

    using(place, story)


LOCKED = {
    "graph": {
        "start": "A",
        "end": "B",
        "limits": {"model_calls": 1},
        "nodes": [{"id": "A", "type": "agent"}, {"id": "B", "type": "agent"}],
        "edges": [{"from": "A", "to": "B"}],
    }
}


def test_an_unlock_that_resumes_a_run_opens_it_once(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    async def counted(store: Any, run_id: str, *more: Any, **named: Any) -> Replay:
        opened.append(run_id)
        return await rebuild(store, run_id, *more, **named)

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(LOCKED, "tea", script={"*": ["ok"]})
        assert (await runs.result(run_id)).status == "suspended_locked"
        assert (await runs.locked(run_id)).what == "model_calls"
        with pytest.raises(roundel.StoreError, match="is suspended_locked: "):
            await runs.unlock(run_id, "why not", checks=(), execute=Attachment())
        assert not (await runs.row(run_id)).owner, "a request that is refused lets the run go"
        monkeypatch.setattr(stored_run, "rebuild", counted)
        limits = {"model_calls": 5}
        await runs.unlock(run_id, "why not", checks=CHECKS, limits=limits, execute=Attachment())
        assert (await runs.result(run_id)).completed
        assert opened == [run_id]

    using(place, story)


def test_rounds_are_figures_for_plots(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        graph = roundel.Graph("again", start="W", end="Out").node("W", "agent").node("Out", "passthrough")
        graph.node("G", "loop_counter", max_iterations=3)
        graph.edge("W", "G").edge("W", "W").edge("G", "W").edge("G", "Out")
        run_id = await runs.start(graph, "tea", script={"W": ["one", "two", "three"]})
        await runs.result(run_id)
        (loop,) = await runs.rounds(run_id)
        assert [around.number for around in loop.rounds] == [1, 2, 3]

    using(place, story)


OTHER = """
import asyncio, sys, time
import roundel

async def main():
    graph = roundel.Graph("slow", start="A", end="A", limits={"rounds": 10**6})

    @graph.function("A", ports=["again"])
    async def again(text):
        await asyncio.sleep(0.02)
        return roundel.to("again", text)

    graph.edge("A", "A", port="again")
    async with roundel.Runs(sys.argv[1]) as runs:
        run_id = await runs.start(graph, "tea")
        print(run_id, flush=True)
        print((await runs.result(run_id)).status, flush=True)

asyncio.run(main())
"""


def test_a_run_of_another_process_is_followed_paused_and_stopped(tmp_path: Path) -> None:
    """Each event is seen once, in order, and what the other process stored is what was seen."""
    path = tmp_path / "runs.db"
    command = [sys.executable, "-c", OTHER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        run_id = other.stdout.readline().strip()

        async def story(runs: roundel.Runs) -> None:
            seen = []
            async for event in runs.follow(run_id):
                seen.append(event)
                if event.event == "loop_round" and event.fields()["round"] == 3:
                    assert (await runs.row(run_id)).owner, "the other process owns it"
                    waiting = asyncio.create_task(runs.result(run_id))
                    await runs.stop(run_id, "enough")
                    assert (await waiting).status == "stopped"
            assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
            stored = await runs.events(run_id)
            assert [encode_event(event) for event in seen] == [encode_event(event) for event in stored]
            assert json.loads(encode_event(seen[-1]))["data"]["status"] == "stopped"

        using(path, story)
        assert other.stdout.readline() == "stopped\n"
        assert other.wait(60) == 0


def test_run_that_cannot_be_stored_or_resumed_leases_no_resources(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the connections to its models would stay open for good."""
    leased: list[ResourceLease] = []
    lease = ResourcePool.lease

    def noted(pool: ResourcePool, *given: Any) -> ResourceLease:
        leased.append(lease(pool, *given))
        return leased[-1]

    monkeypatch.setattr(ResourcePool, "lease", noted)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-no-use-at-all")
    graph = roundel.Graph("ask", start="H", end="A").node("H", "human").edge("H", "A")
    graph.node("A", "agent", model="openai:gpt-4o")

    async def story(runs: roundel.Runs) -> None:
        async def full(*_arguments: object, **_options: object) -> None:
            raise roundel.StoreError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(runs.store, "create", full)
            with pytest.raises(roundel.StoreError, match="the disk is full"):
                await runs.start(graph, "tea")
        run_id = await runs.start(graph, "tea")
        assert (await runs.result(run_id)).status == "waiting"
        with pytest.raises(roundel.StoreError, match="has no open question at 'B'"):
            await runs.answer(run_id, "yes", at="B", execute=Attachment())
        assert len(leased) == 2, "to see that the request cannot be meant takes no model"
        assert [one._keys for one in leased] == [{}, {}]

    using(place, story)


def test_a_service_works_with_any_engine_and_leaves_it_running(place: Any) -> None:
    """All that the service layer uses of an engine is in the protocol."""

    class Passing:
        """Passes on what the protocol has, and has nothing else."""

        def __init__(self, engine: Engine) -> None:
            self._behind = engine

        def __getattr__(self, name: str) -> Any:
            if name not in vars(Engine):
                raise AttributeError(name)
            return getattr(self._behind, name)

    async def story(first: roundel.Runs) -> None:
        gate = Gate()
        engine: Any = Passing(first.engine)
        async with roundel.Runs(first.store, engine=engine) as runs:
            run_id = await runs.start(gate.graph, "tea")
            await gate.has_started.wait()
            await runs.pause(run_id, "lunch", wait=False)
            await runs.resume_in_background(run_id)
            assert (await runs.inspect(run_id)).state.status == "running"
            runs.interrupt(run_id)
            assert (await runs.result(run_id)).status == "paused"
            other = Gate()
            left = await runs.start(other.graph, "rain")
            await other.has_started.wait()
        other.go.set()
        assert (await first.result(left)).output == "rain", "its engine was not closed"

    using(place, story)
