"""Forks, replays and retries of runs that were debugged: edits are part of what happened, pauses are not."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.local import LocalEngine
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.store import StoreError
from tests.events import node_status
from tests.runs.debug_workflows import (
    CHECKS,
    GATE,
    NESTED,
    PARALLEL,
    SHAPES,
    assert_same_trace,
    begin,
    ready,
    run_story,
    says,
    walk,
)

Runs = roundel.Runs
BRANCHES = says(*"ABCD", "Join")
LOOPS = says("Outer", "Inner", "Critic")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db?sync=off"


def with_breakpoints(workflow: dict[str, Any], *breakpoints: Any) -> dict[str, Any]:
    return {**copy.deepcopy(workflow), "debug": {"break_at": list(breakpoints)}}


def with_rounds(workflow: dict[str, Any], node: int, rounds: int) -> dict[str, Any]:
    changed = copy.deepcopy(workflow)
    changed["graph"]["nodes"][node]["config"]["max_rounds"] = rounds
    return changed


async def inputs_at(runs: Runs, run_id: str, address: str) -> list[str]:
    """What the call in flight at an address is given."""
    command: Any = (await runs.inspect(run_id)).state.calls[address].command
    return [message.text for message in command.inputs]


async def completed(runs: Runs, run_id: str) -> list[str]:
    events = await runs.events(run_id)
    return [str(event.address) for event in events if node_status(event) == "completed" and event.node_id]


async def edited_run(runs: Runs, workflow: Any, **options: Any) -> str:
    """A run whose second round was given another message, and that is over."""
    run_id = await begin(runs, workflow, says("W"), **options)
    assert await ready(runs, run_id) == ["W[2]/W"]
    await runs.edit(run_id, "edited")
    assert (await runs.resume(run_id)).completed
    return run_id


# Replays.


@pytest.mark.parametrize("name", SHAPES)
def test_a_debugged_run_replayed_on_its_workflow_shows_no_difference(name: str, place: str) -> None:
    """Whatever it was: steps, breakpoints that were set and removed, edits, pauses."""
    shape = SHAPES[name]

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, shape.flow, shape.script, paused=True)
        edits = 0

        async def go() -> roundel.Result:
            nonlocal edits
            seen = await runs.debug(run_id)
            if seen.queues and edits < 4:
                edits += 1
                queue = seen.queues[-1]
                if queue.messages[-1].data is None and not queue.messages[-1].text.startswith(("[", "{")):
                    await runs.edit(run_id, f"edit {edits}", at=queue.address)
            await runs.set_breakpoints(run_id, "cel: round == 2")
            if edits % 2:
                await runs.set_breakpoints(run_id, remove=["cel: round == 2"])
            return await runs.step(run_id, round=edits == 3)

        await walk(runs, run_id, go)
        assert await runs.replay(run_id) is None
        assert await runs.replay(run_id, workflow=shape.flow) is None
        assert await runs.replay(run_id, workflow=with_breakpoints(shape.flow, "cel: true")) is None

    run_story(place, story)


def test_an_undisturbed_run_replayed_on_a_workflow_with_breakpoints_shows_no_difference(place: str) -> None:
    async def story(runs: Runs) -> None:
        for shape in SHAPES.values():
            run_id = await begin(runs, shape.flow, shape.script)
            assert await runs.replay(run_id, workflow=with_breakpoints(shape.flow, "cel: true")) is None

    run_story(place, story)


def test_a_replay_still_finds_what_would_differ_behind_a_breakpoint(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, GATE, says("W"), paused=True)
        await walk(runs, run_id, lambda: runs.step(run_id))
        shorter = with_breakpoints(with_rounds(GATE, 1, 2), "cel: true")
        difference = await runs.replay(run_id, workflow=shorter)
        assert difference is not None
        assert (difference.address, difference.what[:8]) == ("W[3]/W", "ran then")

    run_story(place, story)


def ticking() -> Callable[[], float]:
    """A clock that shows another second each time."""
    times = iter(range(1000, 100_000))
    return lambda: float(next(times))


def at_ticking_clock(story: Callable[[Runs], Awaitable[None]]) -> None:
    """Pure nodes run anew in a replay, and their messages contain another time then."""

    async def main() -> None:
        store = InMemoryStore()
        await story(Runs(store, engine=LocalEngine(lambda: store, clock=ticking())))

    asyncio.run(main())


def test_an_edit_of_a_message_with_the_time_is_replayed() -> None:
    """The message of the gate contains the time, so its version is another one in the replay."""

    async def story(runs: Runs) -> None:
        run_id = await edited_run(runs, GATE, breakpoints=["W[2]"])
        assert await runs.replay(run_id) is None
        more = await runs.fork(run_id, "W[2]/W", workflow=with_rounds(GATE, 1, 5), script=says("W"))
        assert (await inputs_at(runs, more, "W[2]/W"))[-1] == "edited"

    at_ticking_clock(story)


# Forks.


def test_a_fork_keeps_the_edits_before_its_address(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await edited_run(runs, GATE, breakpoints=["W[2]"])
        fork = await runs.fork(run_id, "W[2]/W")
        assert (await inputs_at(runs, fork, "W[2]/W"))[-1] == "edited"
        assert (await runs.resume(fork)).completed
        await assert_same_trace(runs, fork, run_id)
        earlier = await runs.fork(run_id, "W[1]/W")
        await runs.resume(earlier)
        assert await ready(runs, earlier) == ["W[2]/W"], (
            "it has the breakpoints that the run was started with"
        )
        assert [message.text for message in (await runs.debug(earlier)).queues[0].messages] == ["W 0"]
        for workflow in (with_rounds(GATE, 1, 5), with_breakpoints(GATE, "End")):
            changed = await runs.fork(run_id, "W[2]/W", workflow=workflow, script=says("W"))
            assert (await inputs_at(runs, changed, "W[2]/W"))[-1] == "edited"

    run_story(place, story)


def test_a_fork_keeps_edits_on_a_workflow_that_has_lost_its_breakpoints(place: str) -> None:
    """A message can be edited where a run is paused, and the new workflow does not pause there. The
    breakpoints of the old one are not those of the fork."""
    workflow = with_breakpoints(GATE, "W[2]", "End")

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, says("W"))
        await runs.edit(run_id, "edited")
        await runs.resume(run_id)
        assert await ready(runs, run_id) == ["End"]
        assert (await runs.resume(run_id)).completed
        assert await runs.replay(run_id, workflow=GATE) is None
        fork = await runs.fork(run_id, "W[3]/W", workflow=GATE)
        assert list(await runs.breakpoints(fork)) == []
        assert (await runs.resume(fork)).completed
        await assert_same_trace(runs, fork, run_id)
        assert [
            event.fields()["text"] for event in await runs.events(fork) if event.event == "message_edited"
        ]

    run_story(place, story)


def test_breakpoints_of_a_changed_workflow_do_not_keep_a_fork_from_using_results(place: str) -> None:
    """The fork has everything that the run has done, and stops at the next breakpoint after that."""
    workflow = with_breakpoints(with_rounds(NESTED, 4, 3), "cel: true")

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, NESTED, LOOPS)
        fork = await runs.fork(run_id, workflow=workflow, script=LOOPS)
        last = "Outer[2].Inner[2]/Critic"
        done = await completed(runs, run_id)
        assert await completed(runs, fork) == done[: done.index(last) + 1]
        assert await ready(runs, fork) == ["Outer[2].Inner[2]/InnerGate"], "a result was used up to here"
        await runs.set_breakpoints(fork, remove=["cel: true"])
        result = await runs.resume(fork)
        assert result.summary["nodes"]["Outer"] == 3
        assert result.usage["model_calls"] == 15, "those of the old run are counted, and were not made again"

    run_story(place, story)


def test_a_fork_of_a_paused_run_is_where_the_run_is(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, breakpoints=["B"])
        await runs.step(run_id)
        await runs.edit(run_id, "edited", at="D")
        fork = await runs.fork(run_id)
        seen, copied = await runs.debug(run_id), await runs.debug(fork)
        assert (copied.status, copied.reason, copied.stopped_at) == ("paused", "step", "C")
        assert (copied.ready, copied.queues, copied.breakpoints) == (
            seen.ready,
            seen.queues,
            seen.breakpoints,
        )
        assert (await runs.step(fork)).status == "paused"
        assert (await ready(runs, fork), await ready(runs, run_id)) == (["D"], ["C", "D"])
        await runs.set_breakpoints(fork, remove=["B"])
        assert [state.text for state in await runs.breakpoints(run_id)] == ["B"]
        assert (await runs.resume(fork)).completed
        assert (await runs.resume(run_id)).completed
        await assert_same_trace(runs, fork, run_id)

    run_story(place, story)


def test_a_fork_at_an_address_inside_a_step_takes_steps_of_its_own(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, paused=True)
        await walk(runs, run_id, lambda: runs.step(run_id))
        fork = await runs.fork(run_id, "C")
        seen = await runs.debug(fork)
        assert (seen.in_flight, [node.address for node in seen.ready]) == (("C",), ["D"])
        assert (await runs.step(fork)).status == "paused"
        assert await ready(runs, fork) == ["D"], "the call in flight was the step"
        assert await walk(runs, fork, lambda: runs.step(fork)) == ["D", "Join"]
        await assert_same_trace(runs, fork, run_id)

    run_story(place, story)


def test_a_fork_of_a_locked_run_keeps_the_edits_that_were_made_meanwhile(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, limits={"model_calls": 2}, paused=True)
        for _ in range(3):
            await runs.step(run_id)
        await runs.edit(run_id, "edited", at="D")
        await runs.unlock(run_id, "go on", checks=CHECKS, limits={"model_calls": 9}, execute=False)
        assert await walk(runs, run_id, lambda: runs.step(run_id)) == ["C", "D", "Join"]
        assert await runs.replay(run_id) is None
        fork = await runs.fork(run_id, "D")
        assert await inputs_at(runs, fork, "D") == ["edited"]

    run_story(place, story)


# Retries.


def test_a_retry_with_other_replies_keeps_edits_and_steps(place: str) -> None:
    failing = {**BRANCHES, "C": {"error": "no connection"}}

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, failing, breakpoints=["B"])
        await runs.edit(run_id, "edited for B", at="B")
        await runs.edit(run_id, "edited for D", at="D")
        assert (await runs.step(run_id)).status == "paused"
        assert (await runs.step(run_id)).status == "failed"
        result = await runs.retry(run_id, script=BRANCHES)
        assert (result.status, result.output) == ("completed", "Join 0")
        assert result.usage["model_calls"] == 6, "one has failed"
        edits = [event for event in await runs.events(run_id) if event.event == "message_edited"]
        assert [(event.address, event.fields()["text"]) for event in edits] == [
            ("B", "edited for B"),
            ("D", "edited for D"),
        ]
        assert await runs.replay(run_id) is None

    run_story(place, story)


def test_a_retry_with_a_workflow_without_breakpoints_keeps_edits(place: str) -> None:
    """Everything that finished has to fit, and it would not without the edit."""
    failing = {**says("W"), "W": ["W 0", "W 1", {"error": "no connection"}]}

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, with_breakpoints(GATE, "W[2]"), failing)
        await runs.edit(run_id, "edited")
        assert (await runs.resume(run_id)).status == "failed"
        result = await runs.retry(run_id, workflow=GATE, script=says("W"))
        assert (result.status, result.output) == ("completed", "W 3")  # the next reply of the script
        assert list(await runs.breakpoints(run_id)) == []
        edits = [event for event in await runs.events(run_id) if event.event == "message_edited"]
        assert len(edits) == 1

    run_story(place, story)


def test_a_retry_stops_at_the_breakpoints_of_the_corrected_workflow(place: str) -> None:
    failing = {**BRANCHES, "B": {"error": "no connection"}}

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, failing)
        corrected = with_breakpoints(PARALLEL, "Join")
        assert (await runs.retry(run_id, workflow=corrected, script=BRANCHES)).status == "paused"
        assert await ready(runs, run_id) == ["Join"]
        assert (await runs.step(run_id)).completed

    run_story(place, story)


def test_a_fork_that_never_reaches_its_address_says_so(place: str) -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, breakpoints=["C"])
        with pytest.raises(StoreError, match="the run never reached 'Join'"):
            await runs.fork(run_id, "Join")

    run_story(place, story)
