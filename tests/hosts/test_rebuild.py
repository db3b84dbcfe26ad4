"""An exception in the middle of a step: the half-changed run is discarded and rebuilt from its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import Struct

import roundel
from roundel.hosts import control
from roundel.hosts.engine import Attachment
from roundel.hosts.local_run import REQUEST_APPLIED
from roundel.hosts.stored_run import read_events
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.composite import CompositeAction
from roundel.kernel.facts import Answered, Fact, Failed, Finished, Outcome, Reopened, Stopped, Waited
from roundel.kernel.state import Iteration
from roundel.nodes import TYPES
from roundel.nodes.loop_agent import Body
from roundel.nodes.participants import ParticipantController
from roundel.nodes.participants import prepare_composite as prepare_conducted
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType
from tests.hosts.test_control import body, outcome, waiting
from tests.journal.stores import resumed, using

T = TypeVar("T")
FAULTS: dict[str, list[BaseException]] = {}
"""What the conductor of a fragile node raises next, by method."""


class Config(Struct, frozen=True):
    body: Body


class Fragile(ParticipantController):
    """Runs its body once. A conductor is called inside a step, so what it raises breaks the step off."""

    def __init__(self, _config: Any) -> None:
        pass

    def begin(self, inputs: tuple[Message, ...]) -> Iteration:
        _break("begin")
        return Iteration(0, inputs, 1)

    def on_iteration_end(self, _iteration: Iteration, messages: tuple[Message, ...]) -> CompositeAction:
        _break("turned")
        return CompositeAction(outcome=Outcome(messages))

    def on_break(
        self, _iteration: Iteration, _messages: tuple[Message, ...], _reason: str
    ) -> CompositeAction:
        raise AssertionError("nothing breaks out of it")

    def catches_failure(self, _iteration: Iteration) -> bool:
        _break("catches")
        return False


def _break(method: str) -> None:
    if FAULTS.get(method):
        raise FAULTS[method].pop(0)


@pytest.fixture(autouse=True)
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kind = NodeType(
        "fragile",
        Config,
        "Breaks a step off.",
        prepare_conducted,
        bodies=lambda config: (config.body.graph,),
        controller=Fragile,
    )
    monkeypatch.setitem(TYPES._types, "fragile", kind)
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)
    FAULTS.clear()
    yield
    FAULTS.clear()


INNER = {"id": "Inner", "type": "passthrough"}


class Work:
    """Call, a function, then Pure, then Fragile; what Pure gives is what breaks the step off."""

    def __init__(self, start: str = "Call") -> None:
        self.graph = graph = roundel.Graph(start=start, end="Fragile")

        @graph.function("Call")
        async def call(text: str) -> str:
            return text

        graph.node("Pure", "passthrough").edge("Call", "Pure").edge("Pure", "Fragile")
        graph.node("Fragile", "fragile", body=INNER)

    async def run(self, store: SqliteStore | None = None) -> tuple[roundel.Result, list[roundel.Event]]:
        events: list[roundel.Event] = []
        result = await roundel.run_async(self.graph, "tea", store=store, on_event=events.append)
        return result, events


def on_answer(path: Path, story: Callable[[SqliteStore], Awaitable[T]]) -> T:
    async def run_story_on(store: SqliteStore) -> T:
        return await story(store)

    return asyncio.run(using(path / "runs.db", run_story_on))


async def newest(store: SqliteStore) -> tuple[str, str, list[Fact]]:
    """Its id, its status, and its facts; nobody holds it."""
    (row,) = await store.rows()
    assert row.owner == ""
    return row.id, row.status, await store.facts(row.id)


def numbers(events: list[roundel.Event]) -> list[int]:
    return [event.seq for event in events]


ERRORS = [RuntimeError("boom"), MemoryError(), RecursionError("too deep"), SystemExit(3)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_call_whose_result_crashes_the_step_fails(tmp_path: Path, error: BaseException) -> None:
    async def story(store: SqliteStore) -> None:
        FAULTS["begin"] = [error]
        work = Work()
        result, shown = await work.run(store)
        assert result.status == "failed"
        assert result.error is not None
        assert f"the run could not take its result: {type(error).__name__}" in result.error
        run_id, status, facts = await newest(store)
        assert status == "failed"
        assert [(type(fact), fact.address) for fact in facts[1:]] == [(Finished, "Call"), (Failed, "Pure")]  # type: ignore[union-attr]
        assert result.nodes == {"Call": 1, "Pure": 1}, "the half step has begun Fragile"
        assert shown == await read_events(store, run_id)
        assert numbers(shown) == list(range(1, len(shown) + 1))

    on_answer(tmp_path, story)


def test_a_loop_that_catches_failures_continues_from_the_rebuilt_run(tmp_path: Path) -> None:
    inside = {
        "id": "inside",
        "nodes": [
            {"id": "Pure", "type": "passthrough"},
            {"id": "Fragile", "type": "fragile", "config": {"body": INNER}},
        ],
        "edges": [{"from": "Pure", "to": "Fragile"}],
        "start": "Pure",
        "end": "Fragile",
    }
    each = {"strategy": {"mode": "array", "on_error": "drop"}, "body": inside}
    graph = {"nodes": [{"id": "Each", "type": "loop_agent", "config": each}], "edges": [], "start": "Each"}

    async def story(store: SqliteStore) -> None:
        FAULTS["begin"] = [RuntimeError("boom")]
        result = await roundel.run_async({"graph": graph}, '["a", "b", "c"]', store=store)
        assert result.completed, result.error
        assert result.loops["Each"]["rounds"] == 3
        assert result.nodes == {"Each": 1, "Pure": 3, "Fragile": 2, "Inner": 2}
        run_id, _, _ = await newest(store)
        (last,) = [event for event in await read_events(store, run_id) if event.event == "run_finished"]
        assert last.fields()["nodes"] == result.nodes

    on_answer(tmp_path, story)


def test_run_stays_resumable_when_recording_the_failure_crashes_too(tmp_path: Path) -> None:
    graph = roundel.Graph(start="Fragile", end="Fragile")
    called: list[str] = []

    @roundel.function("inner_call")
    async def inner_call(text: str) -> str:
        called.append(text)
        return text

    node = {"id": "Inner", "type": "python", "config": {"function": "inner_call"}}
    graph.node("Fragile", "fragile", body=node)

    async def story(store: SqliteStore) -> None:
        FAULTS["turned"], FAULTS["catches"] = [RuntimeError("first")], [RuntimeError("second")]
        with pytest.raises(RuntimeError, match="second"):
            await roundel.run_async(graph, "tea", store=store)
        run_id, status, facts = await newest(store)
        assert (status, len(facts)) == ("running", 1)
        result = await resumed(store, run_id, workflow=graph)
        assert (result.status, result.output, called) == ("completed", "tea", ["tea", "tea"])

    on_answer(tmp_path, story)


def test_keyboard_interrupt_during_a_step_stops_the_run(tmp_path: Path) -> None:
    FAULTS["begin"] = [KeyboardInterrupt()]
    work = Work()
    shown: list[roundel.Event] = []
    with pytest.raises(KeyboardInterrupt):
        on_answer(tmp_path, lambda store: roundel.run_async(work.graph, store=store, on_event=shown.append))
    run_id, status, facts = on_answer(tmp_path, newest)
    assert status == "stopped"
    assert [type(fact) for fact in facts[1:]] == [Finished, Stopped]
    assert facts[1].address == "Call"  # type: ignore[union-attr]
    assert shown == on_answer(tmp_path, lambda store: read_events(store, run_id))


def test_a_pure_condition_that_raises_a_keyboard_interrupt_stops_the_run(tmp_path: Path) -> None:
    @roundel.condition("interrupts", pure=True)
    def interrupts(_message: Message) -> bool:
        raise KeyboardInterrupt

    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", condition="interrupts")

    shown: list[roundel.Event] = []
    with pytest.raises(KeyboardInterrupt):
        on_answer(tmp_path, lambda store: roundel.run_async(graph, store=store, on_event=shown.append))
    run_id, status, facts = on_answer(tmp_path, newest)
    assert (status, [type(fact) for fact in facts[1:]]) == ("stopped", [Finished, Stopped])
    assert shown == on_answer(tmp_path, lambda store: read_events(store, run_id))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_without_a_journal_the_run_fails(error: BaseException) -> None:
    FAULTS["begin"] = [error]
    result, shown = asyncio.run(Work().run())
    assert (result.status, result.output) == ("failed", "")
    assert result.error is not None
    assert type(error).__name__ in result.error
    assert [event.event for event in shown].count("run_finished") == 1
    assert shown[-1].fields()["status"] == "failed"
    assert numbers(shown) == list(range(1, len(shown) + 1))


def test_without_a_journal_calls_in_flight_are_cancelled() -> None:
    work = Work(start="Start")
    cancelled: list[str] = []
    has_started = asyncio.Event()

    @work.graph.function("Slow")
    async def slow() -> None:
        try:
            has_started.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("Slow")
            raise

    @work.graph.function("Start")
    async def start(text: str) -> str:
        return text

    @work.graph.function("Wait")
    async def wait(text: str) -> str:
        await has_started.wait()
        return text

    work.graph.edge("Start", "Slow").edge("Start", "Wait").edge("Wait", "Call")
    FAULTS["begin"] = [RuntimeError("boom")]
    result, _ = asyncio.run(work.run())
    assert (result.status, cancelled) == ("failed", ["Slow"])


def test_without_a_journal_a_keyboard_interrupt_is_raised_and_the_run_has_failed() -> None:
    FAULTS["begin"] = [KeyboardInterrupt()]
    events: list[roundel.Event] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(roundel.run_async(Work().graph, "tea", on_event=events.append))
    assert (events[-1].event, events[-1].fields()["status"]) == ("run_finished", "failed")


def asking() -> roundel.Graph:
    graph = roundel.Graph(start="Person", end="Fragile").node("Person", "human")
    return graph.node("Fragile", "fragile", body=INNER).edge("Person", "Fragile")


def test_answer_that_crashes_the_step_is_refused_and_the_question_stays_open(tmp_path: Path) -> None:
    async def nobody(_question: roundel.Question) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def story(store: SqliteStore) -> None:
        running = asyncio.create_task(roundel.run_async(asking(), "tea", store=store, ask=nobody))
        run_id = await waiting(store)
        FAULTS["begin"] = [RuntimeError("boom")]
        first = await store.request(run_id, "answer", body("Person", "one"))
        assert await outcome(store, first) == "the run could not take it: RuntimeError: boom"
        second = await store.request(run_id, "answer", body("Person", "two"))
        assert await outcome(store, second) == REQUEST_APPLIED
        result = await running
        assert (result.status, result.output) == ("completed", "two")
        facts = await store.facts(run_id)
        assert [fact.message.text for fact in facts if isinstance(fact, Answered)] == ["two"]

    on_answer(tmp_path, story)


def test_answer_that_crashes_the_step_is_refused_even_if_rebuilding_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(_question: roundel.Question) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def unreadable(*_arguments: object) -> list[object]:
        raise roundel.StoreError("the disk is gone")

    async def story(store: SqliteStore) -> None:
        running = asyncio.create_task(roundel.run_async(asking(), "tea", store=store, ask=nobody))
        run_id = await waiting(store)
        FAULTS["begin"] = [RuntimeError("boom")]
        monkeypatch.setattr(store, "entries", unreadable)
        number = await store.request(run_id, "answer", body("Person", "one"))
        assert await outcome(store, number)
        with pytest.raises(roundel.StoreError, match="the disk is gone"):
            await running

    on_answer(tmp_path, story)


def test_crashing_answer_to_an_unowned_run_leaves_the_store_unchanged(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        run_id = (await roundel.run_async(asking(), "tea", store=store)).run_id
        _, _, before = await newest(store)
        FAULTS["begin"] = [RuntimeError("boom")]
        with pytest.raises(RuntimeError, match="boom"):
            await roundel.Runs(store).answer(run_id, "one", execute=False)
        assert await newest(store) == (run_id, "waiting", before)
        await roundel.Runs(store).answer(run_id, "two", execute=False)
        result = await resumed(store, run_id)
        assert (result.status, result.output) == ("completed", "two")

    on_answer(tmp_path, story)


def test_a_keyboard_interrupt_while_a_run_is_resumed_stops_it(tmp_path: Path) -> None:
    async def begin(store: SqliteStore) -> str:
        return (await roundel.run_async(asking(), "tea", store=store)).run_id

    run_id = on_answer(tmp_path, begin)
    FAULTS["begin"] = [KeyboardInterrupt()]
    shown: list[roundel.Event] = []
    attached = Attachment(on_event=shown.append)
    with pytest.raises(KeyboardInterrupt):
        on_answer(tmp_path, lambda store: roundel.Runs(store).answer(run_id, "one", execute=attached))
    _, status, facts = on_answer(tmp_path, newest)
    assert status == "stopped"
    assert [type(fact) for fact in facts[1:]] == [Waited, Reopened, Stopped]
    assert shown == on_answer(tmp_path, lambda store: read_events(store, run_id))[-len(shown) :]
