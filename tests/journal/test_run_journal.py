"""The journal of one run in flight."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.local_run import LocalRun
from roundel.hosts.stored_run import open_run, read_events
from roundel.journal import run_journal
from roundel.journal.run_journal import RunJournal
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Snapshot, StoreError
from roundel.kernel.facts import Finished, Outcome, Waited
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.workflow.message import Message
from tests.journal.stores import STARTED, chunk, new, query, using

ROUNDS = 1000


async def run_stored(store: SqliteStore, graph: Any, text: str = "go", **options: Any) -> roundel.Result:
    return await roundel.run_async(graph, text, store=store, **options)


def counted(rounds: int, **say: Any) -> roundel.Graph:
    """A loop with one effect a round, and pure nodes around it."""
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": rounds + 1})

    @graph.function("Say", **say)
    async def say_something(round: int) -> str:
        return random.Random(round).randbytes(512).hex()

    graph.node("Hand on", "passthrough").node("And on", "passthrough").node("Out", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=rounds)
    graph.edge("Say", "Hand on").edge("Hand on", "And on").edge("And on", "Guard").edge("And on", "Say")
    return graph.edge("Guard", "Say").edge("Guard", "Out")


def test_pure_nodes_cost_no_commit(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        result = await run_stored(store, counted(50))
        assert result.nodes["Say"] == 50
        return store.commits

    # One for each effect, one for what follows the last, one each to create and to let go, and a snapshot.
    assert asyncio.run(using(tmp_path / "runs.db", story)) <= 50 + 4


def test_concurrent_pure_nodes_cost_no_commit(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        graph = roundel.Graph(start="Say", end="Out")
        graph.node("Out", "passthrough", only_last_message=False)

        @graph.function("Say")
        async def say() -> str:
            return "something"

        for name in "ABCDEF":
            graph.node(name, "passthrough").node(name * 2, "passthrough")
            graph.edge("Say", name).edge(name, name * 2).edge(name * 2, "Out")
        assert (await run_stored(store, graph)).completed
        return store.commits

    assert asyncio.run(using(tmp_path / "runs.db", story)) <= 4


def test_results_that_arrive_together_share_a_commit(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        async def body(text: str) -> str:
            return text

        mode = roundel.LoopMode.array(max=1000, max_parallel=100)
        text = str(list(range(500)))
        assert (await run_stored(store, roundel.LoopAgent("Loop", body, mode), text)).completed
        return store.commits

    assert asyncio.run(using(tmp_path / "runs.db", story)) < 500


def test_size_of_a_thousand_rounds_stays_close_to_its_content(tmp_path: Path) -> None:
    """1 KB a round, which the loop's first node sees again in every later one."""

    async def story(store: SqliteStore) -> None:
        result = await run_stored(store, counted(ROUNDS, context_window=-1))
        assert result.completed

    def size() -> int:
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    path = tmp_path / "runs.db"
    asyncio.run(using(path, SqliteStore.rows))
    empty = size()  # each table and index takes a page
    asyncio.run(using(path, story))
    assert ROUNDS * 512 < size() - empty <= 950_000


def test_two_hundred_runs_share_their_commits(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        plan = roundel.prepare(counted(5))
        results = await asyncio.gather(*(run_stored(store, plan) for _ in range(200)))
        assert all(result.completed for result in results)
        return store.commits

    assert asyncio.run(using(tmp_path / "runs.db", story)) < 200 * 5 / 4


def test_a_long_run_is_opened_from_its_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 100)
    path = tmp_path / "runs.db"

    async def story(store: SqliteStore) -> None:
        result = await run_stored(store, counted(300))
        found = await store.snapshot(result.run_id)
        row = await store.row(result.run_id)
        assert found is not None and row.facts / 2 < found.facts <= row.facts
        opened = await open_run(store, result.run_id)
        assert opened.state.summary() == result.summary
        # Without it, and with one that nobody can read, the facts alone do.
        for damage in ("UPDATE snapshots SET body = X'00'", "DELETE FROM snapshots"):
            query(path, damage)
            assert (await open_run(store, result.run_id)).state.summary() == result.summary

    asyncio.run(using(path, story))


def test_a_snapshot_of_another_workflow_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 10)

    async def story(store: SqliteStore) -> None:
        result = await run_stored(store, counted(30))
        other = counted(30).node("Another", "passthrough").edge("Out", "Another")
        assert await store.snapshot(result.run_id) is not None
        # The facts do fit: what is new begins where they end.
        plan = roundel.prepare(other)
        state = (await open_run(store, result.run_id, lambda _pinned: plan)).state
        assert state.status == "running"
        assert list(state.calls) == ["Another"]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_a_run_that_is_resumed_often_is_snapshotted_too(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        await store.append(claim, 1, chunk(*[Waited(1.0)] * 99), "running", None)
        await store.save_snapshot(claim, Snapshot(60, 60, b""), {})
        await store.release(claim)
        claim = await store.claim("run")
        assert (claim.facts, claim.fresh) == (100, 40)
        await store.release(claim)

    asyncio.run(using(tmp_path / "runs.db", story))


def test_live_data_equals_its_json_round_trip(tmp_path: Path) -> None:
    """Numbers as keys and tuples are no JSON: a node sees them as it would after a crash."""
    seen: list[Any] = []
    graph = roundel.Graph(start="A", end="B")

    @graph.function("A")
    async def a() -> Message:
        return Message("x", data={1: (2, 3)})  # type: ignore[dict-item]

    @graph.function("B")
    async def b(data: dict[str, Any]) -> str:
        seen.append(data)
        return "done"

    graph.edge("A", "B")
    asyncio.run(using(tmp_path / "runs.db", lambda store: run_stored(store, graph)))
    assert seen == [{"1": [2, 3]}]


@pytest.mark.parametrize("odd", [object(), "\ud800", {(1, 2): 3}])
def test_unserializable_result_fails_its_node(odd: object, tmp_path: Path) -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    async def a() -> Message:
        return Message("x", data={"odd": odd})

    async def story(store: SqliteStore) -> None:
        result = await run_stored(store, graph)
        assert result.status == "failed"
        assert "its result cannot be stored: it cannot be written as JSON" in str(result.error)
        assert (await store.row(result.run_id)).status == "failed"

    asyncio.run(using(tmp_path / "runs.db", story))


def test_a_fact_that_was_not_applied_is_discarded(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        journal = RunJournal(store, await store.create(new(), chunk(STARTED)))
        state = LocalRun(roundel.prepare(counted(1))).state
        step(state, STARTED)
        journal.add(Finished("A", Outcome(), 1.0))
        journal.discard_last()
        journal.add(Waited(2.0))
        await journal.commit(state)
        await journal.commit(state)
        assert await store.facts("run") == [STARTED, Waited(2.0)]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_events_can_be_rebuilt_from_the_facts(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        shown: list[roundel.Event] = []
        result = await run_stored(store, counted(20), on_event=shown.append)
        assert await read_events(store, result.run_id) == shown
        assert [event.seq for event in shown] == list(range(1, len(shown) + 1))

    asyncio.run(using(tmp_path / "runs.db", story))


def test_failed_commit_is_reported_again_after_a_cancelled_wait(tmp_path: Path) -> None:
    """Whoever waits for the end of a run may be called off, and wants to know again whether it is written."""

    class Full(SqliteStore):
        began: asyncio.Event

        async def append(self, *reported: Any) -> int:
            if reported[3] == "completed":
                self.began.set()
                await asyncio.sleep(0)
                raise StoreError("the disk is full")
            return await super().append(*reported)

    async def story() -> None:
        store = Full(tmp_path / "runs.db", sync="off")
        store.began = asyncio.Event()
        plan = roundel.prepare({"graph": {"nodes": [{"id": "A", "type": "agent"}], "start": "A"}})
        journal = RunJournal(store, await store.create(new(), chunk(STARTED)))
        run = Run(plan)
        step(run, STARTED)
        await journal.commit(run)
        step(run, journal.add(Finished("A", Outcome((Message("a"),)), 2.0)))
        end = asyncio.create_task(journal.commit(run))
        await store.began.wait()
        end.cancel()
        with pytest.raises(asyncio.CancelledError):
            await end
        with pytest.raises(StoreError):
            await journal.commit(run)
        await store.close()

    asyncio.run(story())
