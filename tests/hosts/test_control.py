"""Control requests to a run in flight: a request is settled only when its effect is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.hosts import control
from roundel.hosts.driver import Driver
from roundel.hosts.engine import RunSpec
from roundel.hosts.local_run import REQUEST_APPLIED, LocalRun
from roundel.hosts.services import NodeServices
from roundel.hosts.stored_run import create, pin
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim, StoreError
from roundel.kernel.facts import Answered, Paused, Stopped
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from tests.journal.stores import query, resumed, using


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)


async def outcome(store: SqliteStore, number: int) -> str:
    for _ in range(2000):
        if found := await store.outcome(number):
            return found
        await asyncio.sleep(0.005)
    raise AssertionError("nobody has looked")


async def waiting(store: SqliteStore) -> str:
    """The run that waits for a person."""
    for _ in range(2000):
        if rows := await store.rows(status="waiting"):
            return rows[0].id
        await asyncio.sleep(0.005)
    raise AssertionError("nobody waits")


def body(address: str, text: str) -> dict[str, Any]:
    return {"address": address, "message": msgspec.to_builtins(Message(text))}


class Work:
    """A chain of three nodes; the first lasts until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.has_started = asyncio.Event()
        self.done = asyncio.Event()
        self.ran: list[str] = []
        self.graph = graph = roundel.Graph(start="A", end="C")

        @graph.function("A")
        async def a() -> str:
            self.has_started.set()
            await self.go.wait()
            self.ran.append("A")
            self.done.set()
            return "a"

        @graph.function("B")
        async def b() -> str:
            self.ran.append("B")
            return "b"

        graph.node("C", "passthrough").edge("A", "B").edge("B", "C")

    async def host(self, store: SqliteStore, **options: Any) -> LocalRun:
        plan = roundel.prepare(self.graph)
        host = LocalRun(plan, run_id="run", **options)
        host.set_journal(await create(store, "run", RunSpec(plan, (Message("go"),)), pin(plan)))
        return host


def run_with_store(story: Callable[[SqliteStore, Work], Awaitable[None]], path: Path) -> None:
    async def run_story(store: SqliteStore) -> None:
        await story(store, Work())

    asyncio.run(using(path / "runs.db", run_story))


def test_pause_prevents_the_next_node_from_starting(tmp_path: Path) -> None:
    async def story(store: SqliteStore, work: Work) -> None:
        host = await work.host(store)
        running = asyncio.create_task(host.run(()))
        await work.has_started.wait()
        first = await store.request("run", "pause", {"reason": "lunch"})
        assert await outcome(store, first) == REQUEST_APPLIED
        work.go.set()
        result = await running
        assert (result.status, work.ran) == ("paused", ["A"])
        row = await store.row("run")
        assert (row.status, row.owner) == ("paused", "")
        result = await resumed(store, "run", workflow=work.graph)
        assert (result.status, result.output, work.ran) == ("completed", "b", ["A", "B"])

    run_with_store(story, tmp_path)


def test_a_pause_can_be_resumed_and_cannot_be_requested_twice(tmp_path: Path) -> None:
    async def story(store: SqliteStore, work: Work) -> None:
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        requests = [await store.request("run", kind, {}) for kind in ("pause", "pause", "resume", "resume")]
        assert [await outcome(store, number) for number in requests] == [
            REQUEST_APPLIED,
            "a pause is already requested; it is running",
            REQUEST_APPLIED,
            "the run is not paused; it is running",
        ]
        work.go.set()
        assert (await running).completed

    run_with_store(story, tmp_path)


def test_stop_is_acknowledged_once_committed(tmp_path: Path) -> None:
    async def story(store: SqliteStore, work: Work) -> None:
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        number = await store.request("run", "stop", {})
        result = await running
        assert (result.status, work.ran) == ("stopped", [])
        assert await store.outcome(number) == REQUEST_APPLIED
        facts = await store.facts("run")
        assert isinstance(facts[-1], Stopped)
        assert (await store.row("run")).status == "stopped"
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    run_with_store(story, tmp_path)


class Slow(SqliteStore):
    """A store that can be held up before it appends."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync="off")
        self.may_append = asyncio.Event()
        self.may_append.set()
        self.held_up = asyncio.Event()
        """Something is to be appended, and may not."""

    async def append(self, claim: Claim, first: int, chunk: Chunk, *rest: Any) -> int:
        if not self.may_append.is_set():
            self.held_up.set()
        await self.may_append.wait()
        return await super().append(claim, first, chunk, *rest)


def test_answer_is_acknowledged_only_after_its_commit(tmp_path: Path) -> None:
    async def story() -> None:
        store = Slow(tmp_path / "runs.db")
        graph = roundel.Graph(start="H", end="H").node("H", "human", description="Well?")
        never = asyncio.Event()

        async def nobody(_question: roundel.Question) -> str:
            await never.wait()
            return ""

        running = asyncio.create_task(roundel.run_async(graph, "go", store=store, ask=nobody))
        run_id = await waiting(store)
        store.may_append.clear()
        number = await store.request(run_id, "answer", body("H", "yes"))
        await store.held_up.wait()
        assert await store.outcome(number) == ""
        assert not any(isinstance(fact, Answered) for fact in await store.facts(run_id))
        store.may_append.set()
        assert await outcome(store, number) == REQUEST_APPLIED
        assert any(isinstance(fact, Answered) for fact in await store.facts(run_id))
        assert (await running).output == "yes"
        await store.close()

    asyncio.run(story())


def test_first_of_two_answers_wins(tmp_path: Path) -> None:
    """Two answers in one look, and the person at the run's own process answers at the same time."""

    async def story(store: SqliteStore) -> None:
        graph = roundel.Graph(start="H", end="H").node("H", "human", description="Well?")
        asked = asyncio.Event()
        typed = asyncio.Event()

        async def person(_question: roundel.Question) -> str:
            asked.set()
            await typed.wait()
            return "typed"

        running = asyncio.create_task(roundel.run_async(graph, "go", store=store, ask=person))
        await asked.wait()
        (row,) = await store.rows()
        requests = [await store.request(row.id, "answer", body("H", text)) for text in ("one", "two")]
        typed.set()
        result = await running
        outcomes = [await outcome(store, number) for number in requests if await store.outcome(number)]
        answers = [fact for fact in await store.facts(row.id) if isinstance(fact, Answered)]
        assert len(answers) == 1
        assert result.output == answers[0].message.text
        assert outcomes.count(REQUEST_APPLIED) == (result.output != "typed")

    asyncio.run(using(tmp_path / "runs.db", story))


def test_inapplicable_request_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def story(store: SqliteStore, work: Work) -> None:
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        requests = [
            await store.request("run", "answer", body("Nowhere", "x")),
            await store.request("run", "answer", {"address": "A"}),
            await store.request("run", "resume", {}),
            await store.request("run", "unlock", {}),
        ]
        outcomes = [await outcome(store, number) for number in requests]
        assert outcomes == [
            "no such call is in flight at 'Nowhere'; it is running",
            "the request 'answer' cannot be read: Object missing required field `message`",
            "the run is not paused; it is running",
            "the request 'unlock' cannot be read: Object missing required field `reason`",
        ]
        work.go.set()
        assert (await running).completed

    run_with_store(story, tmp_path)


def test_cancelled_run_commits_its_stop_after_any_write_in_progress(tmp_path: Path) -> None:
    """The commit that is on its way is seen through, and the end follows it without a gap."""

    async def story(delay: float, path: Path) -> None:
        store = SqliteStore(path, sync="off")
        graph = roundel.Graph(start="A", end="A", limits={"rounds": 10**6})

        @graph.function("A", ports=["again"])
        async def again(text: str) -> roundel.Outcome:
            return roundel.to("again", text)

        graph.edge("A", "A", port="again")
        running = asyncio.create_task(roundel.run_async(graph, "go", store=store))
        await asyncio.sleep(delay)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for row in await store.rows():
            facts = await store.facts(row.id)
            assert (row.owner, row.facts) == ("", len(facts))
            if len(facts) > 1:
                assert (row.status, type(facts[-1])) == ("stopped", Stopped)
        await store.close()

    for number in range(15):
        asyncio.run(story(0.002 * number, tmp_path / f"{number}.db"))


def test_a_paused_run_with_open_questions_is_released(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        graph = roundel.Graph(start="H", end="H").node("H", "human", description="Well?")
        never = asyncio.Event()

        async def nobody(_question: roundel.Question) -> str:
            await never.wait()
            return ""

        running = asyncio.create_task(roundel.run_async(graph, "go", store=store, ask=nobody))
        run_id = await waiting(store)
        number = await store.request(run_id, "pause", {})
        assert (await running).status == "paused"
        assert await store.outcome(number) == REQUEST_APPLIED
        assert isinstance((await store.facts(run_id))[-1], Paused)

        async def somebody(_question: roundel.Question) -> str:
            return "yes"

        assert (await resumed(store, run_id, ask=somebody)).output == "yes"

    asyncio.run(using(tmp_path / "runs.db", story))


def test_concurrent_answers_to_an_intercepted_node_apply_once(tmp_path: Path) -> None:
    """Both have arrived when the run looks; what middleware is asked then is at the same address."""

    class Look(roundel.Middleware):
        def applies(self, node: Node) -> bool:
            return node.id == "H"

        async def after(self, visit: roundel.Visit, messages: tuple[Message, ...]) -> None:
            return None

    async def story() -> None:
        store = Slow(tmp_path / "runs.db")
        graph = roundel.Graph(start=["H", "Other"], end="H").node("H", "human", description="Well?")
        asked, typed, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @graph.function("Other")
        async def other() -> str:
            await go.wait()
            return "other"

        @graph.function("Last")
        async def last() -> str:
            return "last"

        graph.edge("Other", "Last")

        async def person(_question: roundel.Question) -> str:
            asked.set()
            await typed.wait()
            return "typed"

        running = asyncio.create_task(
            roundel.run_async(graph, "go", store=store, ask=person, middleware=[Look()])
        )
        await asked.wait()
        (row,) = await store.rows()
        await asyncio.sleep(0.05)
        store.may_append.clear()
        go.set()
        await asyncio.sleep(0.05)
        typed.set()
        await asyncio.sleep(0.05)
        number = await store.request(row.id, "answer", body("H", "other process"))
        await asyncio.sleep(0.1)
        store.may_append.set()
        assert (await running).output == "other process"
        assert await outcome(store, number) == REQUEST_APPLIED
        await store.close()

    asyncio.run(story())


def test_run_with_unreadable_control_requests_is_released(tmp_path: Path) -> None:
    """Whatever is wrong: nobody would keep the claim alive."""

    async def story(store: SqliteStore, work: Work) -> None:
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        number = await store.request("run", "pause", {})
        query(store.path, "UPDATE controls SET body = '{' WHERE no = ?", number)
        with pytest.raises(StoreError, match="Input data was truncated; the file is damaged"):
            await running
        assert (await store.row("run")).owner == ""

    run_with_store(story, tmp_path)


@pytest.mark.parametrize("failing", ["driver", "services"])
def test_lease_is_released_when_closing_fails(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: object) -> None:
        raise OSError("gone")

    cls, name = (Driver, "close") if failing == "driver" else (NodeServices, "close")
    monkeypatch.setattr(cls, name, fail)

    async def story(store: SqliteStore, work: Work) -> None:
        host = await work.host(store)
        work.go.set()
        with pytest.raises(OSError, match="gone"):
            await host.run(())
        assert (await store.row("run")).owner == ""

    run_with_store(story, tmp_path)


def test_stopping_a_live_run_reports_the_reason(tmp_path: Path) -> None:
    async def story(store: SqliteStore, work: Work) -> None:
        running = asyncio.create_task((await work.host(store)).run(()))
        await work.has_started.wait()
        await store.request("run", "stop", {"reason": "too dear"})
        result = await running
        assert (result.status, result.error) == ("stopped", "too dear")

    run_with_store(story, tmp_path)


def test_a_run_that_is_being_interrupted_can_be_stopped(tmp_path: Path) -> None:
    """The node takes its time to end; nobody is called off twice."""

    async def story(store: SqliteStore) -> None:
        graph = roundel.Graph(start=["A", "B"], end="A")
        has_started, ended, tidied = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @graph.function("A")
        async def slow_to_end() -> str:
            has_started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
                await tidied.wait()
            return ""

        @graph.function("B")
        async def never() -> str:
            await asyncio.Event().wait()
            return ""

        running = asyncio.create_task(roundel.run_async(graph, "go", store=store))
        await has_started.wait()
        running.cancel()
        await ended.wait()
        (row,) = await store.rows()
        number = await store.request(row.id, "stop", {})
        await asyncio.sleep(0.1)
        tidied.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await store.outcome(number) == REQUEST_APPLIED
        assert (await store.row(row.id)).status == "stopped"

    asyncio.run(using(tmp_path / "runs.db", story))
