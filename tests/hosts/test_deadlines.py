"""Deadlines in a host: it wakes at them, and they hold across restarts and whatever the clock does."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roundel
from roundel.hosts import driver as drivers
from roundel.hosts.clock import GivenClock, RunClock, SteadyClock
from roundel.hosts.control import Question
from roundel.hosts.core import SHORT_WAIT, Action
from roundel.hosts.local import LocalEngine
from roundel.hosts.local_run import LocalRun
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.kernel.commands import Ask
from roundel.kernel.facts import Answered, Expired, Paused, Resumed, TimeUp
from roundel.kernel.unlock import CHECKS
from roundel.runs.runs import Runs
from roundel.workflow.message import Message
from tests.events import node_status
from tests.hosts.core_host import CoreHost
from tests.kernel.simulator import plan_of
from tests.kernel.test_deadlines import LOOP

SOON = 0.03
"""Seconds that a person has in these tests."""


def asking(**config: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Boss", end="Out")
    graph.node("Boss", "human", **{"timeout": SOON, "default": "no", **config})
    return graph.node("Out", "passthrough").edge("Boss", "Out")


def names(events: list[roundel.Event]) -> list[str]:
    return [event.event for event in events if event.event.startswith("human")]


@pytest.mark.parametrize("stored", [True, False])
def test_the_process_waits_for_a_deadline_that_is_near(stored: bool, tmp_path: Path) -> None:
    events: list[roundel.Event] = []
    store = tmp_path / "runs.db" if stored else None
    result = roundel.run(asking(), "go", on_event=events.append, store=store)
    assert (result.status, result.output) == ("completed", "no")
    assert names(events) == ["human_input_required", "human_input_timeout"]


def test_a_run_whose_deadline_is_far_is_left_waiting() -> None:
    assert roundel.run(asking(timeout=SHORT_WAIT + 60), "go").status == "waiting"


def test_prompt_that_nobody_answers_disappears_at_the_deadline() -> None:
    cancelled: list[str] = []
    seen: list[float | None] = []

    async def ask(question: Question) -> str:
        seen.append(question.deadline)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(question.address)
            raise
        return "too late"

    assert roundel.run(asking(), "go", ask=ask).output == "no"
    assert cancelled == ["Boss"]
    assert seen[0] is not None


@pytest.mark.parametrize(("delay", "answer"), [(0, "yes"), (60, "no")])
def test_a_scripted_answer_counts_if_it_is_in_time(delay: float, answer: str) -> None:
    script = {"Boss": {"text": "yes", "delay": delay}}
    assert roundel.run(asking(timeout=5 if not delay else SOON), "go", script=script).output == answer


def test_deadline_passes_while_other_calls_are_in_flight() -> None:
    graph = roundel.Graph(start=["Boss", "Slow"], end="Out").node("Out", "passthrough")
    graph.node("Boss", "human", timeout=SOON, default="no").edge("Boss", "Out")
    released = asyncio.Event()

    @graph.function("Slow")
    async def slow() -> str:
        await released.wait()
        return "slow"

    graph.edge("Slow", "Out")
    order: list[str] = []

    def watch(event: roundel.Event) -> None:
        if event.event == "human_input_timeout":
            released.set()
        if node_status(event) == "completed":
            order.append(event.address or "")

    assert roundel.run(graph, "go", on_event=watch).status == "completed"
    assert order[:2] == ["Boss", "Slow"]


class Moving:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def test_deadline_that_passed_while_nobody_executed_the_run_holds(tmp_path: Path) -> None:
    clock = Moving()

    async def story() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        async with Runs(store, engine=LocalEngine(lambda: store, clock=clock)) as runs:
            run_id = await runs.start(asking(timeout="2h"), "go")
            assert (await runs.result(run_id)).status == "waiting"
            (question,) = await runs.questions(run_id)
            assert question.deadline == clock.time + 7200
            clock.time += 7200
            with pytest.raises(StoreError, match="had to be answered before 1970-01-12T15:46:40"):
                await runs.answer(run_id, "yes", execute=False)
            with pytest.raises(StoreError, match="had to be answered before"):
                await runs.answer(run_id, "yes", execute=roundel.hosts.local.NO_ATTACHMENT)
            result = await runs.resume(run_id)
            assert (result.status, result.output) == ("completed", "no")
            facts = await store.facts(run_id)
            assert sum(isinstance(fact, Expired) for fact in facts) == 1
        await store.close()

    asyncio.run(story())


def test_an_answer_before_the_deadline_is_kept_until_the_run_is_resumed(tmp_path: Path) -> None:
    clock = Moving()

    async def story() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        async with Runs(store, engine=LocalEngine(lambda: store, clock=clock)) as runs:
            run_id = await runs.start(asking(timeout="2h"), "go")
            await runs.result(run_id)
            clock.time += 7199
            await runs.answer(run_id, "yes", execute=False)
            clock.time += 1e6
            assert (await runs.resume(run_id)).output == "yes"
        await store.close()

    asyncio.run(story())


def test_a_suspended_machine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer looks at the clock again and again: its own time stands still in a suspended machine."""
    monkeypatch.setattr(drivers, "TIMER_SLICE", 0.01)
    clock = Moving()
    plan = roundel.prepare(asking(timeout=50))
    run = LocalRun(plan, clock=clock)

    async def story() -> roundel.Result:
        task = asyncio.create_task(run.run((Message("go"),)))
        await asyncio.sleep(0.03)
        assert not task.done()
        clock.time += 3600
        async with asyncio.timeout(5):
            return await task

    assert asyncio.run(story()).output == "no"
    assert run._driver._timer is None


# Clocks.


class Machine:
    """The clocks of a machine: one that may be set, and one that counts."""

    def __init__(self) -> None:
        self.wall, self.elapsed = 1000.0, 5.0

    def clock(self, last: float = 0.0) -> SteadyClock:
        return SteadyClock(last, lambda: self.wall, lambda: self.elapsed)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds


def test_a_wall_clock_that_is_set_back_delays_nothing() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.now() == 1000
    machine.wall -= 3600
    machine.passes(10)
    assert (clock.now(), clock.lag()) == (1010, 0)
    machine.wall += 3600
    machine.passes(1)
    assert (clock.now(), clock.lag()) == (1011, 0)


def test_a_clock_goes_on_from_the_last_fact_of_another_machine() -> None:
    machine = Machine()
    clock = machine.clock(last=2000)
    assert clock.now() == 2000
    machine.passes(7)
    assert clock.now() == 2007


def test_a_clock_measures_what_passes_and_says_how_far_the_wall_clock_is_ahead() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += 3600
    machine.passes(1)
    assert (clock.now(), clock.lag()) == (1001, 3600)
    assert (clock.catch_up(), clock.now(), clock.lag()) == (3600, 4601, 0)


@given(st.lists(st.tuples(st.floats(-5000, 5000), st.floats(0, 100), st.booleans())))
def test_a_steady_clock_advances_by_what_passes_and_by_what_it_catches_up(
    moves: list[tuple[float, float, bool]],
) -> None:
    machine = Machine()
    clock = machine.clock()
    last = clock.now()
    for jump, seconds, catches_up in moves:
        machine.wall += jump
        machine.passes(seconds)
        assert clock.now() == pytest.approx(last + seconds, abs=1e-6)
        last = clock.now()
        if catches_up:
            last += clock.catch_up()
            assert clock.now() == pytest.approx(last, abs=1e-6)
            assert clock.lag() < 1e-6


def test_a_given_clock_is_read_as_it_is_but_never_goes_back() -> None:
    given_clock = Moving()
    clock = GivenClock(given_clock)
    assert clock.now() == 1_000_000
    given_clock.time -= 3600
    assert clock.now() == 1_000_000
    given_clock.time += 7200
    assert clock.now() == 1_000_000 + 3600
    assert clock.lag() == 0


# The breaker's time.


SLOW: dict[str, asyncio.Event] = {}
"""What the call below waits for; a stored run finds the function by its name."""


async def slow() -> str:
    await SLOW["released"].wait()
    return "the result"


@pytest.mark.parametrize("stored", [True, False])
def test_time_is_up_during_the_last_call_and_its_result_is_kept(stored: bool, tmp_path: Path) -> None:
    async def story() -> None:
        SLOW["released"] = asyncio.Event()
        graph = roundel.Graph(start="Slow", end="Slow", breaker={"seconds": SOON})
        graph.node("Slow", "python", function="tests.hosts.test_deadlines:slow")
        store = SqliteStore(tmp_path / "runs.db")
        tripped: list[roundel.Event] = []

        def watch(event: roundel.Event) -> None:
            if event.event == "breaker_tripped":
                tripped.append(event)
                SLOW["released"].set()

        async with Runs(store) as runs:
            attach = roundel.hosts.engine.Attachment(on_event=watch)
            run_id = await runs.start(graph, "go", stored=stored, attach=attach)
            result = await runs.result(run_id)
            assert (result.status, result.summary["lock"]["what"]) == ("suspended_locked", "timeout")
            assert (tripped[0].address, tripped[0].fields()["limit"]) == ("Slow", SOON)
            if stored:
                assert any(isinstance(fact, TimeUp) for fact in await store.facts(run_id))
                await runs.unlock(run_id, "it was slow", checks=CHECKS, execute=attach)
                result = await runs.result(run_id)
                assert (result.status, result.output) == ("completed", "the result")
                assert await runs.replay(run_id) is None
        await store.close()

    asyncio.run(story())


def test_time_in_which_only_people_are_asked_is_never_up() -> None:
    config = {"timeout": 4 * SOON, "default": "no"}
    nodes = [{"id": "Boss", "type": "human", "config": config}]
    flow = {"breaker": {"seconds": SOON}, "graph": {"nodes": nodes, "start": "Boss", "end": "Boss"}}
    assert roundel.run(flow, "go").status == "completed"


# Random schedules of a host: answers, deadlines, pauses, kills and clocks that are set back.


class Timed(CoreHost):
    """People answer after some time that depends on the address of the question alone."""

    def __init__(self, replies: int, seed: int) -> None:
        self.machine, self.replies = Machine(), replies
        self.read = self.machine.clock()
        super().__init__(plan_of(LOOP), {"Writer": ["one", "two", "three"]}, random.Random(seed), person=True)

    def now(self) -> float:
        return self.read.now()

    @property
    def run_clock(self) -> RunClock:
        return self.read

    def restart(self) -> None:
        """Another process resumes the run; its wall clock may be behind."""
        if self.dice.random() < 0.5:
            self.machine.wall -= self.dice.uniform(0, 3600)
        self.read = self.machine.clock(self.log.state.since)
        self.kill()

    def asked(self) -> list[Ask]:
        commands = (call.command for call in self.log.state.calls.values())
        return [command for command in commands if isinstance(command, Ask)]

    def answered_after(self, ask: Ask) -> float:
        return random.Random(f"{self.replies} {ask.address}").choice([1, 19.5, 20, 59.5, 60, 1e6])

    def end_of(self, ask: Ask) -> float:
        assert ask.deadline is not None
        return ask.deadline - ask.timeout + min(self.answered_after(ask), ask.timeout)

    def pass_time(self) -> None:
        """The next answer or the next deadline."""
        at, _, ask = min((self.end_of(ask), ask.address, ask) for ask in self.asked())
        # A hundredth of a second later: floats.
        self.machine.passes(max(0.0, at - self.now()) + 0.01)
        if self.answered_after(ask) < ask.timeout:
            self.core.request(Answered(ask.address, Message(f"to {ask.address}"), self.now()), object())
            return
        if self.dice.random() < 0.3:  # too late, although nobody has noticed the deadline yet
            late = object()
            self.core.request(Answered(ask.address, Message("late"), self.now()), late)
            self.core.next()
            self._collect()
            assert "had to be answered before" in self.settled[late]
        if ask.address in self.core.deadlines and self.dice.random() < 0.5:
            assert self.core.on_time()
        else:
            self.restart()

    def live(self, disturbed: bool) -> None:
        while not self.log.state.over:
            if disturbed and self.dice.random() < 0.1:
                self.dice.choice([self.restart, self.pause])()
            if disturbed and self.dice.random() < 0.1:
                self.machine.wall -= self.dice.uniform(0, 3600)
            action = self.core.next()
            self._collect()
            if self.log.state.status == "paused" and action in (Action.IDLE, Action.WAIT):
                self.core.request(Resumed(self.now()), object())
            elif action in (Action.IDLE, Action.WAIT) and not self.log.state.over:
                if self.core.in_flight:
                    self.finish_one()
                else:
                    self.pass_time()
            elif not isinstance(action, Action) or action is Action.COMMIT:
                self.perform(action)

    def pause(self) -> None:
        self.core.request(Paused("lunch", self.now()), object())


def lived(replies: int, seed: int, *, disturbed: bool) -> Timed:
    host = Timed(replies, seed)
    host.begin("go").commit()
    host.live(disturbed)
    return host


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**30), st.integers(0, 2**30))
def test_answers_in_time_count_and_others_never_do(replies: int, seed: int) -> None:
    quiet, host = lived(replies, 0, disturbed=False), lived(replies, seed, disturbed=True)
    assert quiet.log.state.status == "completed"
    assert host.log.state.summary() == quiet.log.state.summary()
    assert ended(host) == ended(quiet)


def ended(host: Timed) -> dict[str, str]:
    """How each question ended, and that it did only once."""
    ends: dict[str, str] = {}
    for event in host.shown:
        if event.event in ("human_input_received", "human_input_timeout"):
            assert event.address not in ends
            ends[event.address] = event.fields().get("text") or event.fields()["action"]
    return ends
