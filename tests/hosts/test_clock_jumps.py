"""A wall clock that jumps changes nothing that a run does; only deadlines of people follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import roundel
from roundel.hosts.clock import LOOK_EVERY
from roundel.hosts.local import LocalEngine
from roundel.hosts.local_run import LocalRun
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim, StoreError
from roundel.kernel.facts import ClockMoved, Fact
from roundel.kernel.unlock import CHECKS
from roundel.runs.runs import Runs
from roundel.workflow.message import Message

HOUR = 3600.0


class Machine:
    """A machine whose clocks a test moves."""

    def __init__(self) -> None:
        self.time, self.elapsed = 1_000_000.0, 7.0

    def passes(self, seconds: float) -> None:
        self.time += seconds
        self.elapsed += seconds

    def wall(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.elapsed


def working_loop(work: Callable[[], str], **limits: Any) -> roundel.Graph:
    """A loop with a step that takes time, one beside it, and a timer."""
    graph = roundel.Graph(start="Begin", end="Out", **{"breaker": False, "limits": {"rounds": 40}, **limits})
    graph.node("Begin", "passthrough").node("Out", "passthrough")
    graph.node("Clock", "loop_timer", max_duration=20, passthrough=True)

    @graph.function("Work")
    async def work_here() -> str:
        return work()

    @graph.function("Beside")
    async def beside() -> str:
        return work()

    graph.edge("Begin", "Work").edge("Begin", "Beside")
    graph.edge("Work", "Clock").edge("Beside", "Clock")
    return graph.edge("Clock", "Begin").edge("Clock", "Out")


def told(limits: dict[str, Any], jumps: list[float]) -> tuple[str, str, list[Any]]:
    """What the run does if the wall clock jumps by so much during its calls."""
    machine, moves = Machine(), iter(jumps)
    events: list[roundel.Event] = []

    def work() -> str:
        machine.time += next(moves, 0.0)
        machine.passes(1.75)
        return "worked"

    plan = roundel.prepare(working_loop(work, **limits))
    run = LocalRun(plan, on_event=events.append, clock=machine.wall, elapsed=machine.monotonic)
    result = asyncio.run(run.run((Message("go"),)))
    times = [event.timestamp for event in events]
    assert times == sorted(times)
    if not jumps:
        assert result.status in ("completed", "suspended_locked")
    shown = [
        (event.seq, event.event, event.address, _untimed(event.fields())) for event in events if event.seq
    ]
    return result.status, result.output, shown


def _untimed(value: Any) -> Any:
    """Without durations, which are rounded to milliseconds. How long a round took is the difference of its
    timestamps, so it contains the jump; how long it worked does not."""
    if isinstance(value, dict):
        jumps = ("seconds",) if "loop" in value else ()
        return {key: _untimed(inner) for key, inner in value.items() if key not in jumps}
    if isinstance(value, (list, tuple)):
        return [_untimed(inner) for inner in value]
    return round(value, 2) if isinstance(value, float) else value


LIMITS: dict[str, dict[str, Any]] = {
    "timer": {},
    "breaker": {"breaker": {"seconds": 12}},
    "budget": {"limits": {"rounds": 40, "seconds": 12}},
}
QUIET: dict[str, Any] = {}


@pytest.mark.parametrize("name", LIMITS)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(-1e5, 1e5)), max_size=14))
@example([0.0, HOUR])
@example([-HOUR, 2 * HOUR, 0.5])
def test_jumps_of_the_wall_clock_change_nothing_that_a_run_does(name: str, jumps: list[float]) -> None:
    if name not in QUIET:
        QUIET[name] = told(LIMITS[name], [])
    assert told(LIMITS[name], jumps) == QUIET[name]


def test_a_jump_is_a_fact_and_times_follow_the_wall_clock_again(tmp_path: Path) -> None:
    machine, jumps = Machine(), iter([0.0, 0.0, HOUR])

    def work() -> str:
        machine.time += next(jumps, 0.0)
        machine.passes(1.75)
        return "worked"

    async def story() -> tuple[list[Fact], roundel.Result, Any]:
        async with opened(tmp_path, machine) as runs:
            run_id = await runs.start(working_loop(work, breaker={"seconds": 30}), "go")
            result = await runs.result(run_id)
            return await facts_of(runs, run_id), result, await runs.replay(run_id)

    facts, result, difference = asyncio.run(story())
    moved = [fact for fact in facts if isinstance(fact, ClockMoved)]
    assert [fact.seconds for fact in moved] == [HOUR]
    assert facts[-1].time == pytest.approx(machine.time)
    assert (result.status, difference) == ("completed", None)


def test_a_jump_while_the_store_creates_the_run_is_no_working_time(tmp_path: Path) -> None:
    machine = Machine()

    class SlowStore(SqliteStore):
        async def create(self, *arguments: Any, **options: Any) -> Claim:
            machine.time += HOUR
            return await super().create(*arguments, **options)

    def work() -> str:
        machine.passes(1)
        return "worked"

    async def story() -> tuple[roundel.Result, list[Fact]]:
        store = SlowStore(tmp_path / "runs.db")
        engine = LocalEngine(lambda: store, clock=machine.wall, elapsed=machine.monotonic)
        async with Runs(store, engine=engine) as runs:
            run_id = await runs.start(working_loop(work, breaker={"seconds": 60}), "go")
            return await runs.result(run_id), await facts_of(runs, run_id)

    result, facts = asyncio.run(story())
    assert (result.status, result.output) == ("completed", "Time limit reached (20 seconds)")
    assert [fact.seconds for fact in facts if isinstance(fact, ClockMoved)] == [HOUR]
    assert facts[-1].time == pytest.approx(machine.time)


def opened(folder: Path, machine: Machine) -> Runs:
    store = SqliteStore(folder / "runs.db")
    return Runs(store, engine=LocalEngine(lambda: store, clock=machine.wall, elapsed=machine.monotonic))


async def facts_of(runs: Runs, run_id: str) -> list[Fact]:
    assert isinstance(runs.store, SqliteStore)
    return await runs.store.facts(run_id)


STEPS: dict[str, Callable[[], str]] = {}
"""What the nodes below do; a stored run finds them by their names."""


async def work_a_while() -> str:
    return STEPS["work"]()


def stored_loop(folder: Path) -> Path:
    """A loop with a person in each round, a timer and a time limit."""
    file = folder / "workflow.yaml"
    file.write_text(
        """
limits: {rounds: 40}
breaker: {seconds: 8}
graph:
  start: Work
  end: Out
  nodes:
    - {id: Work, type: python, config: {function: "tests.hosts.test_clock_jumps:work_a_while"}}
    - {id: Boss, type: human}
    - {id: Clock, type: loop_timer, config: {max_duration: 5, passthrough: true}}
    - {id: Out, type: passthrough}
  edges:
    - {from: Work, to: Boss}
    - {from: Boss, to: Clock}
    - {from: Clock, to: Work}
    - {from: Clock, to: Out}
"""
    )
    return file


def test_working_time_is_carried_over_between_processes(tmp_path: Path) -> None:
    """Each answer comes a month later, in another process, after the clock was set forward or back."""
    machine = Machine()

    def work() -> str:
        machine.passes(2)
        return "worked"

    STEPS["work"] = work

    async def answer(run_id: str, number: int) -> roundel.Result:
        async with opened(tmp_path, machine) as runs:
            await runs.answer(run_id, f"answer {number}", execute=roundel.hosts.engine.Attachment())
            return await runs.result(run_id)

    async def start() -> str:
        async with opened(tmp_path, machine) as runs:
            run_id = await runs.start(stored_loop(tmp_path), "go")
            assert (await runs.result(run_id)).status == "waiting"
            return run_id

    run_id = asyncio.run(start())
    results: list[roundel.Result] = []
    for number in range(4):
        machine.time += -HOUR if number == 1 else 30 * 24 * HOUR
        machine.elapsed = 3.0  # another boot
        results.append(asyncio.run(answer(run_id, number)))
    # The timer begins in round 1, at 2 seconds, and its 5 seconds are over in round 4, at 8 seconds.
    assert [result.status for result in results] == ["waiting", "waiting", "waiting", "completed"]
    assert results[-1].output == "Time limit reached (5 seconds)"


def test_time_used_up_in_an_earlier_process_counts(tmp_path: Path) -> None:
    machine = Machine()

    def work() -> str:
        machine.passes(5)
        return "worked"

    STEPS["work"] = work

    async def story() -> None:
        async with opened(tmp_path, machine) as runs:
            run_id = await runs.start(stored_loop(tmp_path), "go")
            assert (await runs.result(run_id)).status == "waiting"
        machine.time += HOUR
        async with opened(tmp_path, machine) as runs:
            await runs.answer(run_id, "go on", execute=roundel.hosts.engine.Attachment())
            result = await runs.result(run_id)
            assert (result.status, result.summary["lock"]["what"]) == ("suspended_locked", "timeout")
            await runs.unlock(run_id, "slow", checks=CHECKS, execute=roundel.hosts.engine.Attachment())
            assert (await runs.result(run_id)).status == "waiting"

    asyncio.run(story())


def asking(folder: Path) -> roundel.Graph:
    graph = roundel.Graph(start=["Boss", "Slow"], end="Out", breaker={"seconds": 60})
    graph.node("Boss", "human", timeout="2h", default="no").node("Out", "passthrough")
    graph.node("Slow", "python", function="tests.hosts.test_clock_jumps:until_released")
    return graph.edge("Boss", "Out").edge("Slow", "Out")


RELEASED: dict[str, asyncio.Event] = {}


async def until_released() -> str:
    await RELEASED["slow"].wait()
    return "slow"


@pytest.mark.parametrize(("jump", "is_late"), [(HOUR, False), (2 * HOUR, True)])
def test_an_answer_is_in_time_by_the_wall_clock_while_other_work_goes_on(
    jump: float, is_late: bool, tmp_path: Path
) -> None:
    machine = Machine()

    async def story() -> tuple[roundel.Result, list[Fact]]:
        RELEASED["slow"] = asyncio.Event()
        async with opened(tmp_path, machine) as runs:
            run_id = await runs.start(asking(tmp_path), "go")
            async for event in runs.follow(run_id):
                if event.event == "human_input_required":
                    break
            machine.time += jump
            machine.passes(LOOK_EVERY)
            if is_late:
                with pytest.raises(StoreError, match="had to be answered before"):
                    await runs.answer(run_id, "yes", execute=False)
            else:
                await runs.answer(run_id, "yes", execute=False)
            RELEASED["slow"].set()
            if is_late:
                engine = runs.engine
                assert isinstance(engine, LocalEngine)
                run = engine._executions[run_id].run
                run._driver._on_timer()  # it fires within TIMER_SLICE seconds
            return await runs.result(run_id), await facts_of(runs, run_id)

    result, facts = asyncio.run(story())
    assert result.status == "completed"
    assert [fact.seconds for fact in facts if isinstance(fact, ClockMoved)] == [jump]
    assert result.summary["output"] != ""
