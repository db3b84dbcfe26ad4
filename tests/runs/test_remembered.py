"""A process that has executed a run continues it without being given its workflow, secrets or callbacks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.extend import Attachment, SqliteStore
from roundel.hosts.local import LocalEngine
from roundel.hosts.remembered_runs import RememberedRuns
from roundel.hosts.unstored_parts import UnstoredParts
from roundel.kernel.unlock import CHECKS
from tests.hosts.test_cancellation import turns

TOKEN = "tk-5f0c1d5e7b"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def using(place: Any, story: Callable[[roundel.Runs], Awaitable[None]]) -> None:
    async def work() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)

    asyncio.run(work())


def shouting(*, after: str = "human", **settings: Any) -> roundel.Graph:
    """A question, and a function that only this process has."""
    graph = roundel.Graph("shout", start="Ask", end="Shout", **settings).node("Ask", after)

    @graph.function("Shout")
    def shout(text: str) -> str:
        return text.upper()

    return graph.edge("Ask", "Shout")


class Gate:
    """A question, and then, or in parallel, a function that waits until it may pass."""

    def __init__(self, *, parallel: bool = False) -> None:
        self.has_started, self.go = asyncio.Event(), asyncio.Event()
        start = ["Ask", "Work"] if parallel else "Ask"
        self.graph = graph = roundel.Graph("gate", start=start, end="End").node("Ask", "human")

        @graph.function("Work")
        async def work(text: str) -> str:
            self.has_started.set()
            await self.go.wait()
            return text

        graph.node("End", "passthrough").edge("Work", "End")
        if not parallel:
            graph.edge("Ask", "Work")


def sqlite(runs: roundel.Runs) -> SqliteStore:
    assert isinstance(runs.store, SqliteStore)
    return runs.store


def remembered(runs: roundel.Runs) -> int:
    assert isinstance(runs.engine, LocalEngine)
    return len(runs.engine._remembered)


def test_an_answer_continues_the_run_with_its_functions_and_callbacks(place: Path) -> None:
    seen: list[str] = []

    async def story(runs: roundel.Runs) -> None:
        attach = Attachment(on_event=lambda event: seen.append(event.event))
        run_id = await runs.start(shouting(), "hello", attach=attach)
        assert (await runs.result(run_id)).status == "waiting"
        row = await runs.answer(run_id, "hey")
        assert row.id == run_id
        assert (await runs.result(run_id)).output == "HEY"
        assert seen[-1] == "run_finished"
        assert remembered(runs) == 0, "it is over"

    using(place, story)


def test_an_answer_may_be_stored_alone_and_its_row_says_so(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(shouting(), "hello")
        await runs.result(run_id)
        row = await runs.answer(run_id, "hey", execute=False)
        assert (row.status, row.owner) == ("running", ""), "nobody executes it"
        assert (await runs.resume(run_id)).output == "HEY"

    using(place, story)


def test_an_answer_to_a_paused_run_leaves_it_paused(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(shouting(), "hello")
        await runs.result(run_id)
        await runs.pause(run_id)
        row = await runs.answer(run_id, "hey")
        assert (row.status, row.owner) == ("paused", "")
        assert (await runs.resume(run_id)).output == "HEY"

    using(place, story)


def test_another_process_is_asked_for_the_functions_and_stores_no_answer(place: Path) -> None:
    run_id = roundel.run(shouting(), "hello", store=place).run_id

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.WorkflowError, match=r"'shout' was given in Python.*workflow="):
            await runs.answer(run_id, "hey")
        row = await runs.row(run_id)
        assert (row.status, row.owner) == ("waiting", ""), "the question is still open"
        await runs.answer(run_id, "hey", workflow=shouting())
        assert (await runs.result(run_id)).output == "HEY"

    using(place, story)


def test_an_unlock_continues_the_run_with_its_functions(place: Path) -> None:
    graph = shouting(after="agent", limits={"model_calls": 0})

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph, "hello", script={"Ask": "hey"})
        assert (await runs.result(run_id)).status == "suspended_locked"
        row = await runs.unlock(run_id, "why not", checks=CHECKS, limits={"model_calls": 5})
        assert row.id == run_id
        assert (await runs.result(run_id)).output == "HEY"

    using(place, story)


def test_retry_and_step_need_no_functions_again(place: Path) -> None:
    calls: list[str] = []
    graph = roundel.Graph("fails", start="A")

    @graph.function("A")
    def a(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise OSError("no")
        return text

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph, "tea")
        assert (await runs.result(run_id)).status == "failed"
        assert remembered(runs) == 1, "it may be retried"
        assert (await runs.retry(run_id)).output == "tea"
        assert remembered(runs) == 0
        paused = await runs.start(graph, "rain", paused=True)
        await runs.result(paused)
        assert (await runs.step(paused)).output == "rain"
        limited = await runs.start(graph, "sun", paused=True)
        await runs.result(limited)
        await runs.stop(limited)
        assert remembered(runs) == 0, "it was stopped in the store"

    using(place, story)


AGENT = {"provider": "openai", "name": "m", "api_key": "${TOKEN}", "base_url": "http://127.0.0.1:9"}
NEVER = {"type": "keyword", "config": {"any": ["a word that nobody says"]}}
SECRET: dict[str, Any] = {
    "graph": {
        "start": "Ask",
        "end": "Say",
        "nodes": [
            {"id": "Ask", "type": "human"},
            {"id": "Say", "type": "passthrough"},
            {"id": "Agent", "type": "agent", "config": AGENT},
        ],
        "edges": [{"from": "Ask", "to": "Say"}, {"from": "Ask", "to": "Agent", "condition": NEVER}],
    },
}
"""Its agent needs a key, and is never called."""


def test_a_secret_variable_need_not_be_given_again(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(SECRET, "x", variables={"TOKEN": TOKEN})
        await runs.result(run_id)
        await runs.answer(run_id, f"my token is {TOKEN}")
        result = await runs.result(run_id)
        assert result.completed and TOKEN not in str(result.summary)
        assert TOKEN not in str(await runs.events(run_id))
        # Without executing it, too: what is written to the store is masked.
        other = await runs.start(SECRET, "x", variables={"TOKEN": TOKEN})
        await runs.result(other)
        await runs.answer(other, f"my token is {TOKEN}", execute=False)
        assert TOKEN not in str(await runs.events(other))
        assert (await runs.resume(other)).completed

    using(place, story)

    async def later(runs: roundel.Runs) -> None:
        run_id = await runs.start(SECRET, "x", variables={"TOKEN": TOKEN})
        await runs.result(run_id)
        async with roundel.Runs(place) as stranger:
            with pytest.raises(roundel.StoreError, match="set TOKEN"):
                await stranger.answer(run_id, "y")

    using(place, later)


def test_a_given_secret_wins_over_the_environment_as_at_the_start(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    async def story(runs: roundel.Runs) -> None:
        monkeypatch.setenv("TOKEN", "tk-of-the-environment")

        def attach(_run_id: str, inspection: Any) -> Attachment:
            used.append(inspection.plan.workflow.secrets["TOKEN"])
            return Attachment()

        run_id = await runs.start(SECRET, "x", variables={"TOKEN": TOKEN}, attach=attach)
        await runs.result(run_id)
        await runs.answer(run_id, "y")
        await runs.result(run_id)
        assert used == [TOKEN, TOKEN]
        # One that came from the environment is looked up there again: it may have been replaced.
        other = await runs.start(SECRET, "x", attach=attach)
        await runs.result(other)
        monkeypatch.setenv("TOKEN", "tk-that-replaces-it")
        await runs.answer(other, "y")
        await runs.result(other)
        assert used[2:] == ["tk-of-the-environment", "tk-that-replaces-it"]

    using(place, story)


def test_a_retry_with_other_limits_or_secrets_needs_only_these(place: Path) -> None:
    calls: list[str] = []
    graph = roundel.Graph("fails", start="A", end="A").node("Agent", "agent", **AGENT)

    @graph.function("A")
    def a(text: str) -> str:
        calls.append(text)
        if len(calls) < 3:
            raise OSError("no")
        return text

    graph.edge("A", "Agent", condition=NEVER)

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph, "tea", variables={"TOKEN": TOKEN})
        assert (await runs.result(run_id)).status == "failed"
        assert (await runs.retry(run_id, limits={"steps": 50})).status == "failed"
        other = f"{TOKEN}-new"
        used: list[str] = []

        def attach(_run_id: str, inspection: Any) -> Attachment:
            used.append(inspection.plan.workflow.secrets["TOKEN"])
            return Attachment()

        result = await runs.retry(run_id, workflow=graph, variables={"TOKEN": other}, attach=attach)
        assert result.completed and used == [other]

    using(place, story)


def test_an_engine_remembers_a_bounded_number_of_runs() -> None:
    kept = RememberedRuns(limit=2)
    for name in ("first", "second", "first", "third"):
        kept.add(name, UnstoredParts({name: str.upper}), Attachment())
    assert len(kept) == 2
    assert list(kept.get("first").parts.functions) == ["first"], "it was executed again"
    assert not kept.get("second").parts.functions
    kept.forget("first", "failed")
    assert len(kept) == 2, "it may be retried"
    kept.forget("first", "stopped")
    assert len(kept) == 1


# Concurrency.


def test_leaving_the_service_hands_an_answered_run_back(place: Path) -> None:
    async def answer(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        await runs.result(run_id)
        await runs.answer(run_id, "yes")
        await gate.has_started.wait()

    async def later(runs: roundel.Runs) -> None:
        row = await runs.row("last")
        assert (row.status, row.owner) == ("running", ""), "not stopped: a caller may leave after its answer"
        gate = Gate()
        gate.go.set()
        assert (await runs.resume("last", workflow=gate.graph)).output == "yes"

    using(place, answer)
    using(place, later)


def test_a_cancelled_answer_is_given_or_not_and_never_stops_the_run(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        store = sqlite(runs)
        found = set()
        for count in range(60):
            run_id = await runs.start(shouting(), "tea")
            await runs.result(run_id)
            answering = asyncio.create_task(runs.answer(run_id, "yes"))
            await turns(count, store)
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            status = (await runs.result(run_id)).status
            found.add(status)
            if status == "waiting":
                await runs.answer(run_id, "yes")
            assert (await runs.result(run_id)).output == "YES"
        assert found == {"waiting", "completed"}

    using(place, story)


def test_a_cancelled_unlock_that_is_refused_leaves_the_run_locked(place: Path) -> None:
    graph = shouting(after="agent", limits={"model_calls": 0})

    async def story(runs: roundel.Runs) -> None:
        store = sqlite(runs)
        run_id = await runs.start(graph, "hello", script={"Ask": "hey"})
        await runs.result(run_id)
        for count in range(40):
            unlocking = asyncio.create_task(runs.unlock(run_id, "why not", checks=()))
            await turns(count, store)
            unlocking.cancel()
            await asyncio.gather(unlocking, return_exceptions=True)
            assert (await runs.result(run_id)).status == "suspended_locked"
        await runs.unlock(run_id, "why not", checks=CHECKS, limits={"model_calls": 5})
        assert (await runs.result(run_id)).output == "HEY"

    using(place, story)


class SlowClose(roundel.Middleware):
    """Keeps a run from being released for as long as it likes."""

    def __init__(self) -> None:
        self.closing, self.go = asyncio.Event(), asyncio.Event()

    async def close(self, run_id: str) -> None:
        self.closing.set()
        await self.go.wait()


@pytest.mark.parametrize("request_kind", ["answer", "pause", "stop"])
@pytest.mark.parametrize("other_engine", [False, True])
def test_a_request_to_a_run_that_is_being_released_is_applied(
    place: Path, request_kind: str, other_engine: bool
) -> None:
    """At this moment the run takes no requests any more, although this process still owns it."""

    async def story(runs: roundel.Runs) -> None:
        slow = SlowClose()
        run_id = await runs.start(shouting(), "tea", attach=Attachment(middleware=[slow]))
        await slow.closing.wait()
        # Another engine leaves its request in the store, as another process does.
        by = roundel.Runs(runs.store) if other_engine else runs
        if request_kind == "answer":
            asking: Awaitable[Any] = by.answer(run_id, "yes", workflow=shouting())
        else:
            asking = by.pause(run_id) if request_kind == "pause" else by.stop(run_id)
        task = asyncio.ensure_future(asking)
        await turns(20, sqlite(runs))
        slow.go.set()
        await task
        status = {"answer": "completed", "pause": "paused", "stop": "stopped"}[request_kind]
        assert (await by.result(run_id)).status == status

    using(place, story)


def test_a_run_continues_although_nobody_refers_to_its_service(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea")
        await runs.result(run_id)
        await roundel.Runs(runs.store).answer(run_id, "yes", workflow=gate.graph)
        await gate.has_started.wait()
        gc.collect()
        gate.go.set()
        assert (await runs.result(run_id)).output == "yes"

    using(place, story)


def test_an_answer_never_ends_a_pause_that_takes_effect_at_the_same_time(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        store = sqlite(runs)
        for count in range(40):
            gate = Gate(parallel=True)
            run_id = await runs.start(gate.graph, "tea")
            await gate.has_started.wait()
            await runs.pause(run_id, wait=False)
            gate.go.set()
            await turns(count, store)
            await runs.answer(run_id, "yes")
            assert (await runs.result(run_id)).status == "paused"
            assert (await runs.resume(run_id)).completed

    using(place, story)
