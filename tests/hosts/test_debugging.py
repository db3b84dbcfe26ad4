"""Debugging real runs: breakpoints from files and from outside, single steps through workflows of every
shape, and what happens when a step is interrupted, meets a limit, fails, or is not possible."""

from __future__ import annotations

import asyncio
import copy
import itertools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import control
from roundel.hosts.engine import Attachment
from roundel.hosts.local import LocalEngine
from roundel.journal import run_journal
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.store import StoreError
from roundel.kernel.events import Event
from roundel.kernel.payloads import ModelCallEnded
from roundel.workflow.breakpoints import BreakpointError
from roundel.workflow.graph import Node
from tests.runs import debug_workflows
from tests.runs.debug_workflows import (
    APPROVAL,
    CHECKS,
    FUNCTIONS,
    GATE,
    HUMAN,
    MAP_SUBGRAPH,
    NESTED,
    PARALLEL,
    RESEARCH,
    SHAPES,
    SUBGRAPH,
    TOOLS,
    Bench,
    Watch,
    assert_same_trace,
    begin,
    ready,
    run_story,
    says,
    walk,
)

Runs = roundel.Runs
ROOT = Path(__file__).parents[2]
BRANCHES = says(*"ABCD", "Join")


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)


@pytest.fixture(params=["sqlite", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db?sync=off"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """What tools and functions of this test do."""
    fresh = Bench()
    monkeypatch.setattr(debug_workflows, "bench", fresh)
    return fresh


async def stopped(runs: Runs, run_id: str) -> tuple[str, str, str]:
    seen = await runs.debug(run_id)
    return seen.reason, seen.stopped_at, seen.breakpoint


def pauses(events: list[roundel.Event]) -> list[dict[str, Any]]:
    changes = [event.fields() for event in events if event.event == "run_state_change"]
    return [data for data in changes if data["status"] == "paused"]


# Steps through workflows of every shape.


@pytest.mark.parametrize("name", SHAPES)
def test_each_step_runs_one_node_and_changes_nothing_else(name: str, place: str) -> None:
    shape = SHAPES[name]

    async def story(runs: Runs) -> None:
        undisturbed = await begin(runs, shape.flow, shape.script)
        run_id = await begin(runs, shape.flow, shape.script, paused=True)
        assert await walk(runs, run_id, lambda: runs.step(run_id)) == shape.steps.split()
        await assert_same_trace(runs, run_id, undisturbed)
        assert await runs.replay(run_id) is None

    run_story(place, story)


@pytest.mark.parametrize("name", SHAPES)
def test_a_step_of_a_round_goes_to_the_next_round_of_the_innermost_loop(name: str, place: str) -> None:
    shape = SHAPES[name]

    async def story(runs: Runs) -> None:
        undisturbed = await begin(runs, shape.flow, shape.script)
        run_id = await begin(runs, shape.flow, shape.script, paused=True)
        assert await walk(runs, run_id, lambda: runs.step(run_id, round=True)) == shape.rounds.split()
        await assert_same_trace(runs, run_id, undisturbed)
        assert await runs.replay(run_id) is None

    run_story(place, story)


@pytest.mark.parametrize("name", SHAPES)
def test_a_resumed_run_stops_at_every_breakpoint_once(name: str, place: str) -> None:
    """Branches that are ready together are one pause. Rounds of tools have breakpoints on rounds."""
    shape = SHAPES[name]

    async def story(runs: Runs) -> None:
        undisturbed = await begin(runs, shape.flow, shape.script)
        run_id = await begin(runs, shape.flow, shape.script, breakpoints=["cel: true"])
        places = await walk(runs, run_id, lambda: runs.resume(run_id))
        stops = [stop for stop in shape.steps.split() if not stop.endswith("]")]
        assert set(places) <= set(stops)
        [state] = await runs.breakpoints(run_id)
        assert (state.text, state.hits) == ("cel: true", len(stops))
        await assert_same_trace(runs, run_id, undisturbed)
        assert await runs.replay(run_id) is None

    run_story(place, story)


@pytest.mark.parametrize("name", SHAPES)
def test_steps_and_resumes_mixed_make_each_call_once(name: str, place: str) -> None:
    """With middleware around each node, which is part of the step."""
    shape, watch, expected = SHAPES[name], Watch(), Watch()

    async def story(runs: Runs) -> None:
        attach = Attachment(middleware=[expected])
        undisturbed = await begin(runs, shape.flow, shape.script, attach=attach)
        first = shape.steps.split()[0].rpartition("/")[2]
        run_id = await begin(
            runs,
            shape.flow,
            shape.script,
            breakpoints=[first],
            attach=Attachment(middleware=[watch]),
        )
        ways: list[Callable[[], Awaitable[roundel.Result]]] = [
            lambda: runs.step(run_id, middleware=[watch]),
            lambda: runs.step(run_id, middleware=[watch]),
            lambda: runs.step(run_id, round=True, middleware=[watch]),
            lambda: runs.resume(run_id, middleware=[watch]),
        ]
        turns = itertools.cycle(ways)

        async def go() -> roundel.Result:
            return await next(turns)()

        await walk(runs, run_id, go)
        await assert_same_trace(runs, run_id, undisturbed)
        assert (sorted(watch.keys), watch.twice) == (sorted(expected.keys), [])
        assert await runs.replay(run_id) is None

    run_story(place, story)


def test_steps_survive_snapshots(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 2)
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", 0)
    shape = SHAPES["nested loops"]

    async def story(runs: Runs) -> None:
        undisturbed = await begin(runs, shape.flow, shape.script)
        run_id = await begin(runs, shape.flow, shape.script, paused=True, breakpoints=["Critic"])
        assert await walk(runs, run_id, lambda: runs.step(run_id)) == shape.steps.split()
        await assert_same_trace(runs, run_id, undisturbed)
        assert [state.hits for state in await runs.breakpoints(run_id)] == [4]

    run_story(place, story)


# Where breakpoints come from.


def test_breakpoints_of_the_file_hold_for_every_run(place: str) -> None:
    workflow = copy.deepcopy(NESTED)
    workflow["debug"] = {"break_at": "Outer[2]"}
    workflow["graph"]["debug"] = {"break_at": [{"cel": "node == 'Critic' && round == 2"}]}
    workflow["graph"]["nodes"][4]["config"]["debug"] = True  # OuterGate

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, says("Outer", "Inner", "Critic"))
        row = await runs.row(run_id)
        assert row.summary is not None
        assert row.summary["pause"] == {
            "reason": "breakpoint",
            "address": "Outer[1].Inner[2]/Critic",
            "breakpoint": "cel: node == 'Critic' && round == 2",
        }
        assert await walk(runs, run_id, lambda: runs.resume(run_id)) == [
            "Outer[1].Inner[2]/Critic",
            "Outer[1]/OuterGate",
            "Outer[2]/Outer",
            "Outer[2].Inner[2]/Critic",
            "Outer[2]/OuterGate",
        ]
        hits = [(state.text, state.hits) for state in await runs.breakpoints(run_id)]
        assert hits == [("Outer[2]", 1), ("cel: node == 'Critic' && round == 2", 2), ("OuterGate", 2)]

    run_story(place, story)


@pytest.mark.parametrize(
    ("workflow", "script", "breakpoints", "places"),
    [
        (NESTED, says("Outer", "Inner", "Critic"), ["Inner[2]"], ["Outer[1].Inner[2]/Inner"]),
        (NESTED, says("Outer", "Inner", "Critic"), ["Outer[2].Inner[1]"], ["Outer[2].Inner[1]/Inner"]),
        (NESTED, says("Outer", "Inner", "Critic"), ["Inner[2]/Critic"], ["Outer[1].Inner[2]/Critic"]),
        (PARALLEL, BRANCHES, ["C"], ["C"]),
        (SUBGRAPH, says("A", "X", "Y"), ["Y", "Part/Y"], ["Part/Y"]),
        (MAP_SUBGRAPH, SHAPES["dynamic edge to a subgraph"].script, ["Part#2/Y"], ["Part#2/Y"]),
        (TOOLS, {"T": RESEARCH, **says("Last")}, ["T[2]"], ["T[2]"]),
        (PARALLEL, BRANCHES, ["cel: text == 'A 0' && node != 'B'"], ["C"]),
        (GATE, says("W"), ["cel: data.current_round == 2"], ["W[3]/W"]),
        (GATE, says("W"), ["cel: run.input == 'go' && address == 'End'"], ["End"]),
    ],
)
def test_a_run_stops_where_the_breakpoint_of_its_start_says(
    workflow: Any, script: Any, breakpoints: list[Any], places: list[str], place: str
) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, script, breakpoints=breakpoints)
        seen = await runs.debug(run_id)
        assert (seen.reason, seen.stopped_at) == ("breakpoint", places[0])
        assert [node.breakpoints for node in seen.ready if node.address == places[0]] == [tuple(breakpoints)]

    run_story(place, story)


def test_a_breakpoint_on_a_round_stops_before_the_first_node_of_the_round_only(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, NESTED, says("Outer", "Inner", "Critic"), breakpoints=["Inner[1]"])
        places = await walk(runs, run_id, lambda: runs.resume(run_id))
        assert places == ["Outer[1].Inner[1]/Inner", "Outer[2].Inner[1]/Inner"]

    run_story(place, story)


def test_a_loop_inside_a_loop_of_the_same_name_is_stopped_at_in_every_round(place: str) -> None:
    inner = copy.deepcopy(GATE["graph"])
    outer = copy.deepcopy(GATE)
    outer["graph"]["nodes"][0] = {
        "id": "W",
        "type": "subgraph",
        "config": {"type": "config", "config": inner},
    }

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, outer, says("W"), breakpoints=["W[3]"])
        places = await walk(runs, run_id, lambda: runs.resume(run_id))
        assert places == ["W[1]/W/W[3]/W", "W[2]/W/W[3]/W", "W[3]/W", "W[3]/W/W[3]/W"]

    run_story(place, story)


def test_a_paused_run_begins_before_its_first_node(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, NESTED, says("Outer", "Inner", "Critic"), paused=True)
        assert await stopped(runs, run_id) == ("paused", "Outer[1]/Outer", "")
        assert (await runs.inspect(run_id)).state.run_counts == [0] * 6
        assert (await runs.resume(run_id)).completed

    run_story(place, story)


def test_an_unstored_run_cannot_have_breakpoints(bench: Bench) -> None:
    """It could not continue."""
    with_debug = {**PARALLEL, "debug": {"break_at": "C"}}

    async def story(runs: Runs) -> None:
        for workflow, options in ((PARALLEL, {"breakpoints": ["C"]}), (PARALLEL, {"paused": True})):
            with pytest.raises(BreakpointError, match="has to be stored; give it a store, or remove the br"):
                await runs.start(workflow, "go", script=BRANCHES, stored=False, **options)
        with pytest.raises(BreakpointError, match=r"remove the breakpoints \(`debug` in the workflow\)"):
            await runs.start(with_debug, "go", script=BRANCHES, stored=False)
        bench.close("W[1]/W")
        run_id = await runs.start(FUNCTIONS, "go", stored=False)
        await bench.has_started.wait()
        with pytest.raises(BreakpointError, match="is not stored, so it could not continue"):
            await runs.set_breakpoints(run_id, "B")
        bench.open()
        assert (await runs.result(run_id)).completed

    run_story("memory:", story)


def test_python_run_takes_breakpoints_as_an_option(tmp_path: Path) -> None:
    options: Any = {"script": BRANCHES, "store": tmp_path / "runs.db", "breakpoints": ["Join"]}
    result = roundel.run(PARALLEL, "go", **options)
    assert (result.status, result.summary["pause"]["address"]) == ("paused", "Join")
    with pytest.raises(BreakpointError, match=r"no breakpoint can be at 'Joni'.*did you mean 'Join'"):
        roundel.run(PARALLEL, "go", **{**options, "breakpoints": ["Joni"]})


# Breakpoints that are set and removed while a run is executed.


def test_breakpoints_of_a_live_run_are_set_and_removed(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        bench.close("W[1]/W", "W[2]/W")
        run_id = await runs.start(FUNCTIONS, "go", breakpoints=["W[2]/B"])
        await bench.has_started.wait()
        with pytest.raises(BreakpointError, match=r"has no breakpoint 'C'; it has W\[2\]/B"):
            await runs.set_breakpoints(run_id, remove=["C"])
        states = await runs.set_breakpoints(run_id, "Gate", "cel: node == 'C' && round == 3")
        assert [state.text for state in states] == ["W[2]/B", "Gate", "cel: node == 'C' && round == 3"]
        states = await runs.set_breakpoints(run_id, remove=["W[2]/B", {"at": "Gate"}])
        assert [(state.text, state.hits) for state in states] == [("cel: node == 'C' && round == 3", 0)]
        bench.open()
        assert (await runs.result(run_id)).status == "paused"
        assert await stopped(runs, run_id) == ("breakpoint", "W[3]/C", "cel: node == 'C' && round == 3")
        assert await ready(runs, run_id) == ["W[3]/C"], "the branch beside it has run"
        await runs.set_breakpoints(run_id, remove=["cel: node == 'C' && round == 3"])
        assert (await runs.resume(run_id)).completed
        assert sorted(bench.calls) == sorted(f"W[{number}]/{name}" for number in (1, 2, 3) for name in "WBC")

    run_story(place, story)


class Child:
    """A process that executes a run of FUNCTIONS: each function says where it is, and waits for a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, place: str, *arguments: str) -> Child:
        command = [sys.executable, "-m", "tests.hosts.debug_process", "execute", place, *arguments]
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe))

    async def says(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        assert await self._process.wait() == 0


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db?sync=off"


def test_breakpoints_of_a_run_in_another_process_are_set_and_removed(file: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        child = await Child.start(file, "Gate")
        run_id = await child.says()
        assert await child.says() == "W[1]/W"
        states = await runs.set_breakpoints(run_id, "C", remove=["Gate"])
        assert [state.text for state in states] == ["C"]
        with pytest.raises(
            StoreError, match=r"is running; `roundel pause .*` pauses it, and then it can take"
        ):
            await runs.step(run_id)
        with pytest.raises(StoreError, match="can be edited while it is paused or locked; it is running"):
            await runs.edit(run_id, "x", at="W[1]/B", position=0)
        child.go_on()
        assert await child.says() == "W[1]/B"
        child.go_on()
        assert await child.says() == "paused"
        await child.end()
        assert await stopped(runs, run_id) == ("breakpoint", "W[1]/C", "C")
        assert (await runs.step(run_id)).status == "paused"
        assert (bench.calls, await ready(runs, run_id)) == (["W[1]/C"], ["W[1]/Gate"])

    run_story(file, story)


def test_a_run_whose_process_died_takes_its_calls_up_again_as_a_step(file: str, bench: Bench) -> None:
    """Breakpoints can be set before."""

    async def story(runs: Runs) -> None:
        child = await Child.start(file, "Gate")
        run_id = await child.says()
        assert await child.says() == "W[1]/W"
        await child.kill()
        states = await runs.set_breakpoints(run_id, "W[2]", remove=["Gate"])
        assert [state.text for state in states] == ["W[2]"]
        assert (await runs.row(run_id)).status == "running"
        assert (await runs.step(run_id)).status == "paused"
        assert (bench.calls, await ready(runs, run_id)) == (["W[1]/W"], ["W[1]/B", "W[1]/C"])
        assert (await runs.resume(run_id)).status == "paused"
        assert await stopped(runs, run_id) == ("breakpoint", "W[2]/W", "W[2]")
        await runs.set_breakpoints(run_id, remove=["W[2]"])
        assert (await runs.resume(run_id)).completed
        assert len(bench.calls) == len(set(bench.calls)) == 9

    run_story(file, story)


# Pauses, interrupts, locks and failures while stepping.


def test_a_pause_that_is_requested_during_a_step_is_refused_since_it_comes_anyway(
    place: str, bench: Bench
) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, FUNCTIONS, paused=True)
        bench.close("W[1]/W")
        await runs.step_in_background(run_id)
        await bench.has_started.wait()
        with pytest.raises(StoreError, match="a pause is already requested; it is running"):
            await runs.pause(run_id, wait=False)
        with pytest.raises(StoreError, match="is running; `roundel pause"):
            await runs.step(run_id)
        bench.open()
        assert (await runs.result(run_id)).status == "paused"
        assert (await ready(runs, run_id), bench.calls) == (["W[1]/B", "W[1]/C"], ["W[1]/W"])

    run_story(place, story)


def test_a_pause_ends_a_step_to_the_next_round_early(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, FUNCTIONS, paused=True)
        bench.close("W[1]/W")
        await runs.step_in_background(run_id, round=True)
        await bench.has_started.wait()
        await runs.pause(run_id, "coffee", wait=False)
        bench.open()
        assert (await runs.result(run_id)).status == "paused"
        assert await stopped(runs, run_id) == ("coffee", "W[1]/B", "")
        assert await ready(runs, run_id) == ["W[1]/B", "W[1]/C"]
        assert (await runs.step(run_id, round=True)).status == "paused"
        assert await ready(runs, run_id) == ["W[2]/W"]

    run_story(place, story)


def test_a_step_can_be_turned_into_a_resume_while_it_is_taken(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, FUNCTIONS, paused=True)
        bench.close("W[1]/W")
        await runs.step_in_background(run_id)
        await bench.has_started.wait()
        await runs.resume_in_background(run_id)
        bench.open()
        assert (await runs.result(run_id)).completed
        assert len(bench.calls) == len(set(bench.calls)) == 9

    run_story(place, story)


@pytest.mark.parametrize("way", ["step", "step of a round", "resume"])
def test_an_interrupted_step_is_made_again_with_the_same_keys(way: str, place: str, bench: Bench) -> None:
    """The calls of one round of tools are in flight; the one that has finished is not made again."""

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, TOOLS, {"T": RESEARCH, **says("Last")}, paused=True)
        await runs.step(run_id)
        assert await ready(runs, run_id) == ["T[1]"]
        bench.close("b")
        await runs.step_in_background(run_id)
        await bench.has_started.wait()
        runs.interrupt(run_id)
        assert (await runs.result(run_id)).status == "paused"
        seen = await runs.debug(run_id)
        assert (seen.reason, seen.in_flight, seen.ready) == ("interrupted", ("T[1]/look#2",), ())
        first, second = bench.calls
        bench.open()
        if way == "resume":
            assert (await runs.resume(run_id)).completed
        else:
            assert (await runs.step(run_id, round=way != "step")).status == "paused"
            assert await ready(runs, run_id) == ["T[2]"]
            assert bench.calls == [first, second, second]
            assert await walk(runs, run_id, lambda: runs.step(run_id)) == ["T[2]", "Last"]
        assert bench.calls[:3] == [first, second, second]
        assert len(bench.calls) == 4
        undisturbed = await begin(runs, TOOLS, {"T": RESEARCH, **says("Last")})
        await assert_same_trace(runs, run_id, undisturbed)

    run_story(place, story)


def test_an_interrupted_step_holds_the_other_branches_back(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, FUNCTIONS, breakpoints=["B"])
        assert await ready(runs, run_id) == ["W[1]/B", "W[1]/C"]
        bench.close("W[1]/B")
        await runs.step_in_background(run_id)
        await bench.has_started.wait()
        runs.interrupt(run_id)
        await runs.result(run_id)
        seen = await runs.debug(run_id)
        assert (seen.in_flight, [node.address for node in seen.ready]) == (("W[1]/B",), ["W[1]/C"])
        bench.open()
        await runs.step(run_id)
        assert await ready(runs, run_id) == ["W[1]/C"]
        assert bench.calls == ["W[1]/W", "W[1]/B", "W[1]/B"]

    run_story(place, story)


def is_answered(event: Event) -> bool:
    """Whether a model has answered."""
    return isinstance(event.data, ModelCallEnded) and event.data.status == "completed"


@pytest.mark.parametrize("way", ["step", "step of a round", "breakpoints"])
def test_after_a_lock_a_run_does_not_stop_twice_at_the_same_node(way: str, place: str) -> None:
    async def story(runs: Runs) -> None:
        options: Any = {"breakpoints": ["cel: true"]} if way == "breakpoints" else {"paused": True}
        run_id = await begin(runs, PARALLEL, BRANCHES, limits={"model_calls": 2}, **options)

        async def go() -> roundel.Result:
            if way == "breakpoints":
                return await runs.resume(run_id)
            return await runs.step(run_id, round=way == "step of a round")

        places = []
        while (await runs.row(run_id)).status == "paused":
            places.append((await ready(runs, run_id))[0])
            await go()
        row = await runs.row(run_id)
        assert row.status == "suspended_locked"
        with pytest.raises(StoreError, match=r"is locked; `roundel unlock .*` unlocks it"):
            await runs.step(run_id)
        assert (await runs.edit(run_id, "edited while locked", at="C")).status == "suspended_locked"
        await runs.unlock(run_id, "go on", checks=CHECKS, limits={"model_calls": 10}, execute=False)
        if way == "step":
            assert await stopped(runs, run_id) == ("step", "C", "")
            rest = await walk(runs, run_id, go)
            assert (places, rest) == (["A", "B", "C"], ["C", "D", "Join"])
        else:
            assert (await runs.row(run_id)).status == "running"  # a person let it run
            result = await runs.resume(run_id)
            assert result.completed or await ready(runs, run_id) == ["Join"]
            assert (places, result.status) == (
                (["A"], "completed") if way == "step of a round" else (["A", "B"], "paused")
            )
        undisturbed = await begin(runs, PARALLEL, BRANCHES)
        calls = [event.address for event in await runs.events(run_id) if is_answered(event)]
        done = [event.address for event in await runs.events(undisturbed) if is_answered(event)]
        assert len(calls) == len(set(calls))
        assert set(calls) <= set(done)

    run_story(place, story)


@pytest.mark.parametrize("way", ["step", "step of a round"])
def test_a_run_that_fails_during_a_step_can_be_retried(way: str, place: str) -> None:
    """What was held back when it failed runs as well."""
    failing = {**BRANCHES, "B": [{"error": "no connection"}, "B at last"]}

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, failing, paused=True)
        assert (await runs.step(run_id)).status == "paused"
        assert (await runs.step(run_id, round=way == "step of a round")).status == "failed"
        with pytest.raises(StoreError, match=r"has failed; `roundel retry .*` runs again what failed"):
            await runs.step(run_id)
        # The script counts from the beginning: the second reply is another run of the node.
        result = await runs.retry(run_id, script=BRANCHES)
        assert (result.status, result.output) == ("completed", "Join 0")
        assert result.summary["nodes"] == dict.fromkeys(["A", "B", "C", "D", "Join"], 1)

    run_story(place, story)


@pytest.mark.parametrize("way", ["step", "pause"])
def test_a_run_that_fails_while_it_is_about_to_pause_can_be_retried_without_changes(
    way: str, place: str, bench: Bench
) -> None:
    async def story(runs: Runs) -> None:
        graph, go = roundel.Graph(start=["A", "B"], end="C"), asyncio.Event()

        @graph.function("A")
        async def a() -> str:
            await bench.call("A", "A")
            if not go.is_set():
                raise ValueError("no connection")
            return "a"

        @graph.function("B")
        async def b() -> str:
            await bench.call("B", "B")
            return "b"

        graph.node("C", "passthrough").edge("A", "C").edge("B", "C")
        bench.close("A")
        run_id = await runs.start(graph, "go", paused=way == "step")
        if way == "step":
            await runs.result(run_id)
            await runs.step_in_background(run_id, workflow=graph)
        await bench.has_started.wait()
        if way == "pause":
            await runs.pause(run_id, wait=False)
        bench.open()
        assert (await runs.result(run_id)).status == "failed"
        go.set()
        assert (await runs.retry(run_id, workflow=graph)).completed
        assert sorted(bench.calls) == ["A", "A", "B"]

    run_story(place, story)


# People.


def test_a_step_to_a_person_leaves_the_question_open_and_goes_on_after_the_answer(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, HUMAN, says("W", "Last"), breakpoints=["H"])
        assert (await runs.step(run_id)).status == "paused"
        assert [question.address for question in await runs.questions(run_id)] == ["H"]
        assert await ready(runs, run_id) == []
        for whole_round in (False, True):
            with pytest.raises(StoreError, match="is paused: nothing is ready: the run waits for an answer"):
                await runs.step(run_id, round=whole_round)
        assert (await runs.answer(run_id, "yes", execute=False)).status == "paused"
        assert await ready(runs, run_id) == ["Last"]
        assert (await runs.step(run_id)).output == "Last 0"
        undisturbed = await begin(runs, HUMAN, {**says("W", "Last"), "H": "yes"})
        await assert_same_trace(runs, run_id, undisturbed)

    run_story(place, story)


@pytest.mark.parametrize("default", ["nobody came", ""])
def test_a_question_whose_deadline_has_passed_while_the_run_was_paused_ends_with_the_next_step(
    default: str,
) -> None:
    workflow = copy.deepcopy(HUMAN)
    workflow["graph"]["nodes"][1]["config"] |= {"timeout": 60, **({"default": default} if default else {})}
    now = [1000.0]

    async def story() -> None:
        store = InMemoryStore()
        runs = Runs(store, engine=LocalEngine(lambda: store, clock=lambda: now[0]))
        run_id = await begin(runs, workflow, says("W", "Last"), breakpoints=["H"])
        await runs.step(run_id)
        now[0] += 59
        with pytest.raises(StoreError, match="nothing is ready: the run waits for an answer"):
            await runs.step(run_id)
        now[0] += 1
        result = await runs.step(run_id)
        if default:
            assert (result.status, await ready(runs, run_id)) == ("paused", ["Last"])
            assert (await runs.step(run_id)).completed
        else:
            assert (result.status, result.error) == ("failed", "H: nobody answered within 1m")
        assert [event.address for event in await runs.events(run_id) if event.event == "human_input_timeout"]

    asyncio.run(story())


def test_steps_go_on_beside_an_open_question(place: str) -> None:
    workflow = copy.deepcopy(PARALLEL)
    workflow["graph"]["nodes"][1] = debug_workflows.human("B")

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, says("A", "C", "D", "Join"), paused=True)
        steps = []
        while places := await ready(runs, run_id):
            steps.append(places[0])
            assert (await runs.step(run_id)).status == "paused"
        assert steps == ["A", "B", "C", "D"]
        await runs.answer(run_id, "yes", execute=False)
        assert await ready(runs, run_id) == ["Join"]
        assert (await runs.resume(run_id)).completed

    run_story(place, story)


def test_tool_calls_wait_for_their_approval_between_steps(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, APPROVAL, {"T": RESEARCH, **says("Last")}, breakpoints=["T[1]"])
        [node] = (await runs.debug(run_id)).ready
        assert (node.address, node.calls) == ("T[1]", ("look", "look#2"))
        assert (await runs.step(run_id)).status == "paused"
        asked = [question.address for question in await runs.questions(run_id)]
        assert len(asked) == 2
        with pytest.raises(StoreError, match="nothing is ready: the run waits for an answer"):
            await runs.step(run_id)
        await runs.answer(run_id, "yes", at=asked[0], execute=False)
        await runs.answer(run_id, "no", at=asked[1], execute=False)
        assert bench.calls == [], "the run is paused"
        assert (await runs.step(run_id)).status == "paused"
        assert (await ready(runs, run_id), len(bench.calls)) == (["T[2]"], 1)

    run_story(place, story)


def test_a_paused_run_says_where_it_stands_after_an_answer(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, HUMAN, says("W", "Last"), breakpoints=["H"])
        await runs.step(run_id)
        await runs.answer(run_id, "yes", execute=False)
        assert await ready(runs, run_id) == ["Last"]
        assert await stopped(runs, run_id) == ("step", "Last", "")
        summary = (await runs.row(run_id)).summary
        assert summary is not None
        assert summary["pause"] == {"reason": "step", "address": "Last"}

    run_story(place, story)


# Steps that are not possible.


def test_a_run_that_is_not_paused_takes_no_step_and_says_what_to_do(place: str, bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        refusals = {}

        async def refused(run_id: str, **options: Any) -> str:
            with pytest.raises(StoreError) as caught:
                await runs.step(run_id, **options)
            refusals[run_id] = (await runs.row(run_id)).status
            return str(caught.value)

        completed = await begin(runs, PARALLEL, BRANCHES)
        assert await refused(completed) == (
            f"run {completed} is over: it is completed; `roundel fork {completed} --at ADDRESS` starts a new "
            "one from any point of it"
        )
        failed = await begin(runs, PARALLEL, {**BRANCHES, "A": {"error": "no connection"}})
        assert await refused(failed) == (
            f"run {failed} has failed; `roundel retry {failed}` runs again what failed, and keeps the rest"
        )
        waiting = await begin(runs, HUMAN, says("W", "Last"))
        assert await refused(waiting, round=True) == (
            f"nothing of run {waiting} is ready: it waits for an answer at H; "
            f"`roundel answer {waiting}` gives it"
        )
        locked = await begin(runs, PARALLEL, BRANCHES, limits={"model_calls": 1})
        assert await refused(locked) == f"run {locked} is locked; `roundel unlock {locked}` unlocks it"
        bench.close("W[1]/W")
        running = await runs.start(FUNCTIONS, "go")
        await bench.has_started.wait()
        assert await refused(running) == (
            f"run {running} is running; `roundel pause {running}` pauses it, and then it can take steps"
        )
        await runs.stop(running)
        assert "is over: it is stopped; `roundel fork" in await refused(running)
        assert refusals == {
            completed: "completed",
            failed: "failed",
            waiting: "waiting",
            locked: "suspended_locked",
            running: "stopped",
        }
        with pytest.raises(StoreError, match="is over: it is completed; it cannot reach a breakpoint"):
            await runs.set_breakpoints(completed, "A")

    run_story(place, story)


def test_a_run_that_is_just_started_refuses_a_step_by_its_name(place: str, bench: Bench) -> None:
    """Its task has not begun."""

    async def story(runs: Runs) -> None:
        bench.close("W[1]/W")
        run_id = await runs.start(FUNCTIONS, "go")
        with pytest.raises(StoreError, match=f"run {run_id} is running; `roundel pause {run_id}`"):
            await runs.step(run_id)
        bench.open()
        assert (await runs.result(run_id)).completed

    run_story(place, story)


class SlowToClose(roundel.Middleware):
    """Sends a request once the run is paused, when its process has not released it yet."""

    def __init__(self, send: Callable[[str], Awaitable[object]]) -> None:
        self.send = send
        self.sending: asyncio.Task[object] | None = None

    def applies(self, node: Node) -> bool:
        return False

    async def close(self, run_id: str) -> None:
        if self.sending is None:
            self.sending = asyncio.ensure_future(self.send(run_id))
            for _ in range(20):  # the request arrives meanwhile
                await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["step", "resume", "set", "edit"])
def test_a_request_that_follows_the_pause_at_once_is_applied(kind: str, place: str) -> None:
    async def story(runs: Runs) -> None:
        sends: dict[str, Callable[[str], Awaitable[object]]] = {
            "step": runs.step_in_background,
            "resume": runs.resume_in_background,
            "set": lambda run_id: runs.set_breakpoints(run_id, "D"),
            "edit": lambda run_id: runs.edit(run_id, "edited", at="C"),
        }
        slow = SlowToClose(sends[kind])
        attach = Attachment(middleware=[slow])
        run_id = await runs.start(PARALLEL, "go", script=BRANCHES, breakpoints=["B"], attach=attach)
        assert (await runs.result(run_id)).status == "paused"
        assert slow.sending is not None
        await slow.sending
        result = await runs.result(run_id)
        if kind == "step":
            assert await ready(runs, run_id) == ["C", "D"]
        elif kind == "resume":
            assert result.completed
        elif kind == "set":
            assert [state.text for state in await runs.breakpoints(run_id)] == ["B", "D"]
        else:
            edits = [event for event in await runs.events(run_id) if event.event == "message_edited"]
            assert [(event.address, event.fields()["text"]) for event in edits] == [("C", "edited")]

    run_story(place, story)


# Conditions that fail.


def test_a_condition_that_cannot_be_evaluated_counts_as_false_and_is_reported_once(place: str) -> None:
    async def story(runs: Runs) -> None:
        broken = "cel: data.current_round >= 2"
        run_id = await begin(runs, GATE, says("W"), breakpoints=[broken])
        assert await stopped(runs, run_id) == ("breakpoint", "W[3]/W", broken)
        warnings = [event for event in await runs.events(run_id) if event.event == "warning"]
        assert [(event.node_id, event.address) for event in warnings] == [("W", "W[1]/W")]
        assert (
            "the condition of a breakpoint counts as false where it fails: "
            in warnings[0].fields()["message"]
        )
        assert "current_round" in warnings[0].fields()["message"]
        [state] = await runs.breakpoints(run_id)
        assert (state.hits, "current_round" in state.problem) == (1, True)
        assert (await runs.resume(run_id)).status == "paused"
        await runs.set_breakpoints(run_id, remove=[broken])
        [state] = await runs.set_breakpoints(run_id, broken)
        assert (state.hits, state.problem) == (0, ""), "it is a new one"
        assert (await runs.resume(run_id)).completed
        assert await runs.replay(run_id) is None

    run_story(place, story)
