"""The rounds of a run as figures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.cli.progress import Progress
from roundel.hosts.engine import RunSpec
from roundel.hosts.stored_run import Origin, create, open_run, pin
from roundel.journal.run_journal import pack
from roundel.journal.store import Chunk
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import Started, encode_entry
from roundel.llm.script import script_from
from roundel.runs.rounds import RoundTally, loop_rounds
from tests.events import event_of, node_status, payload
from tests.runs.polish_workflow import BOTH, POLISH

DAY = 86_400
WORDS = [
    "walnut",
    "harbour",
    "velvet",
    "engine",
    "quiet",
    "granite",
    "orange",
    "ladder",
    "simple",
    "thunder",
    "copper",
    "kettle",
]


def events_of(workflow: Any, script: Any) -> list[roundel.Event]:
    seen: list[roundel.Event] = []
    assert roundel.run(workflow, "tea", script=script, on_event=seen.append).completed
    return seen


def test_rounds_that_are_counted_on_equal_those_that_are_counted_at_once() -> None:
    seen, speakers = events_of(POLISH, BOTH), {"Writer", "Editor"}
    tally = RoundTally(speakers)
    for number, event in enumerate(seen, 1):
        tally.add(event)
        assert tally.loops() == loop_rounds(seen[:number], speakers)
    assert tally.loops("Writer") == tally.loops() and tally.loops("Editor") == []


def test_score_tokens_and_novelty_of_each_round() -> None:
    (loop,) = loop_rounds(events_of(POLISH, BOTH), {"Writer", "Editor"})
    assert (loop.loop, loop.exit_reason) == ("Writer", "score_threshold_reached")
    assert [one.number for one in loop.rounds] == [1, 2, 3, 4]
    assert [one.score for one in loop.rounds] == [50, 80, 60, 95]
    assert [one.tokens for one in loop.rounds] == [13, 25, 34, 47]
    assert [one.cost_usd for one in loop.rounds] == [None] * 4, "a script has no price"
    assert loop.rounds[0].novelty == 1
    assert all(0.2 <= (one.novelty or 0) <= 1 for one in loop.rounds[1:])


def test_repeating_writer_has_zero_novelty() -> None:
    script = {"Writer": [{"text": "the same again", "data": {"score": 1}}], "Editor": "no"}
    seen = events_of({"breaker": False, **POLISH}, script)
    (loop,) = loop_rounds(seen, {"Writer", "Editor"})
    assert [one.novelty for one in loop.rounds] == [1, 0, 0, 0, 0]


def test_nested_loops_count_for_themselves_and_the_outer_loop() -> None:
    folder = Path(__file__).parents[2] / "examples" / "nested_loops"
    script = {
        "Planner": ["plan a", "plan b"],
        "Coder": [{"text": f"{word} {word[::-1]}", "tokens": {"input": 1, "output": 1}} for word in WORDS],
        "*": [f"no {word}" for word in reversed(WORDS)],
    }
    seen = events_of(str(folder / "workflow.yaml"), script)
    found = {loop.loop: loop for loop in loop_rounds(seen)}
    outer, inner = found["Planner"], found["Coder"]
    assert sum(one.tokens for one in outer.rounds) == sum(one.tokens for one in inner.rounds) > 0
    assert {one.address.partition(".")[0] for one in inner.rounds} == {one.address for one in outer.rounds}
    # The outputs of a node belong to its innermost round.
    assert outer.rounds[0].outputs["Planner[1]/Planner"] == "plan a"
    assert not any("Coder[" in address for one in outer.rounds for address in one.outputs)
    for one in inner.rounds:
        assert one.outputs[f"{one.address}/Coder"]
    # All rounds of an inner loop have ended when the next outer round begins.
    second = next(number for number, event in enumerate(seen) if event.address == "Planner[2]")
    assert [(loop.loop, one.status) for loop in loop_rounds(seen[: second + 1]) for one in loop.rounds] == [
        ("Planner", "completed"),
        ("Planner", "running"),
        *[("Coder", "completed")] * sum(one.address.startswith("Planner[1]") for one in inner.rounds),
    ]
    assert {one.status for loop in found.values() for one in loop.rounds} == {"completed"}


def test_cost_and_time_of_each_round() -> None:
    def at(second: float, kind: str, address: str, **data: Any) -> Event:
        return event_of(kind, 1, "Writer", address, timestamp=stamp(1_000_000 + second), **data)

    usage = {"status": "completed", "input_tokens": 5, "output_tokens": 5}
    (loop,) = loop_rounds(
        [
            at(0, "loop_round", "W[1]", loop="W", round=1),
            at(1, "model_call", "W[1]/Writer", **usage, cost_usd=0.25),
            at(2, "model_call", "W[1]/Writer", **usage, cost_usd=None),
            at(2.5, "node_state_change", "W[1]/Writer", status="completed", output="said"),
            at(4, "loop_round", "W[2]", loop="W", round=2),
            at(7, "model_call", "W[2]/Writer", **usage, cost_usd=None),
            at(9, "node_state_change", "Other", status="completed", output="elsewhere", score=3),
        ]
    )
    assert [one.cost_usd for one in loop.rounds] == [0.25, None]
    assert [one.seconds for one in loop.rounds] == pytest.approx([2.5, 3])
    assert [one.novelty for one in loop.rounds] == [1, None]
    assert loop.exit_reason == ""
    assert all(one.score is None for one in loop.rounds)


def rounds_of(events: list[Event]) -> list[tuple[str, str, int, bool]]:
    """Address, status, failures, and whether it has ended, of all rounds."""
    return [
        (one.address, one.status, one.failures, one.ended is not None)
        for loop in loop_rounds(events)
        for one in loop.rounds
    ]


def test_rounds_have_a_beginning_an_end_and_a_status() -> None:
    seen = events_of(POLISH, BOTH)
    (loop,) = loop_rounds(seen)
    assert {(one.status, one.failures, one.lane) for one in loop.rounds} == {("completed", 0, 0)}
    starts = [event.timestamp for event in seen if event.event == "loop_round"]
    assert [one.started for one in loop.rounds] == starts
    assert all(one.started <= (one.ended or "") for one in loop.rounds)
    begun = next(number for number, event in enumerate(seen) if event.address == "Writer[3]")
    statuses = [status for _, status, _, _ in rounds_of(seen[: begun + 3])]
    assert statuses == ["completed", "completed", "running"]
    (loop,) = loop_rounds(seen[: begun + 3])
    assert loop.rounds[-1].ended is None


def test_a_failed_round_and_its_retry() -> None:
    seen: list[roundel.Event] = []
    script = {"Writer": BOTH["Writer"], "Editor": ["no", {"error": "rate limit"}]}
    assert roundel.run(POLISH, "tea", script=script, on_event=seen.append).status == "failed"
    assert rounds_of(seen) == [("Writer[1]", "completed", 0, True), ("Writer[2]", "failed", 1, True)]
    at = next(event.address for event in seen if node_status(event) == "failed")
    again = [
        Event(
            98, "run_state_change", stamp(0), "run", None, None, payload("run_state_change", status="running")
        ),
        Event(
            99,
            "node_state_change",
            stamp(0),
            "run",
            "Editor",
            at,
            payload("node_state_change", status="running"),
        ),
    ]
    assert rounds_of([*seen, *again])[1] == ("Writer[2]", "running", 1, False)
    stopped = Event(
        100, "run_finished", stamp(0), "run", None, None, payload("run_finished", status="stopped")
    )
    assert rounds_of([*seen, *again, stopped])[1] == ("Writer[2]", "stopped", 1, True)


EACH: dict[str, Any] = {
    "graph": {
        "id": "each",
        "start": "Each",
        "nodes": [
            {
                "id": "Each",
                "type": "loop_agent",
                "config": {
                    "strategy": {"mode": "array", "max_parallel": 2, "on_error": "drop"},
                    "body": {"id": "Say", "type": "agent"},
                },
            }
        ],
    }
}


def test_rounds_that_run_in_parallel_have_lanes() -> None:
    seen: list[roundel.Event] = []
    waits = [("a", 0.3), ("b", 0.05), ("c", 0.05), ("d", 0)]
    script = {"Say": [{"text": text, "delay": delay} for text, delay in waits]}
    script["Say"][1] = {"error": "rate limit", "delay": 0.05}
    roundel.run(EACH, '["1", "2", "3", "4"]', script=script, on_event=seen.append)
    (loop,) = loop_rounds(seen)
    assert [one.number for one in loop.rounds] == [1, 2, 3, 4]
    assert [one.lane for one in loop.rounds] == [0, 1, 1, 1]
    assert [one.status for one in loop.rounds] == ["completed", "failed", "completed", "completed"]
    third = next(number for number, event in enumerate(seen) if event.address == "Each[3]/Say")
    assert [status for _, status, _, _ in rounds_of(seen[: third + 1])] == ["running", "failed", "running"]


def test_a_failure_that_a_node_caught_is_not_one_of_the_round_around_it() -> None:
    each = {**EACH["graph"]["nodes"][0]}
    graph = {
        "id": "outer",
        "start": "Each",
        "end": "Out",
        "nodes": [
            each,
            {"id": "Gate", "type": "loop_counter", "config": {"max_iterations": 2}},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Each", "to": "Gate"},
            {"from": "Each", "to": "Each"},
            {"from": "Gate", "to": "Each"},
            {"from": "Gate", "to": "Out"},
        ],
    }
    seen: list[roundel.Event] = []
    script = {"Say": [{"error": "rate limit"}, "two"]}
    roundel.run({"graph": graph, "breaker": False}, '["1", "2"]', script=script, on_event=seen.append)
    found = {address: (status, failures) for address, status, failures, _ in rounds_of(seen)}
    assert found["Each[1].Each[1]"] == ("failed", 1)
    assert found["Each[1].Each[2]"] == ("completed", 0)
    assert found["Each[1]"] == ("completed", 1)


async def run_of_yesterday(runs: roundel.Runs) -> str:
    """A run whose first half was executed a day ago, by a process that died then."""
    whole = await runs.start(POLISH, "tea", script=BOTH)
    assert (await runs.result(whole)).completed
    entries = await runs.store.entries(whole)
    earlier = [
        entry._replace(fact=msgspec.structs.replace(entry.fact, time=entry.fact.time - DAY))
        for entry in entries[: len(entries) // 2]
    ]
    lines = [encode_entry(entry) for entry in earlier]
    plan = roundel.prepare(POLISH)
    origin = Origin("", "", (Chunk(len(lines), pack(lines)),))
    pinned = pin(plan, script_from(BOTH))
    started = earlier[0].fact
    assert isinstance(started, Started)
    await (await create(runs.store, "0" * 12, RunSpec(plan, started.input), pinned, origin=origin)).close()
    return "0" * 12


@pytest.mark.parametrize("change", ["", "limits", "message"])
def test_rounds_have_no_time_in_which_nobody_executed_the_run(tmp_path: Path, change: str) -> None:
    async def story() -> None:
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            run_id = await run_of_yesterday(runs)
            assert (await runs.resume(run_id)).completed
            changes: dict[str, Any] = {"limits": {"rounds": 50}} if change == "limits" else {}
            fork = await runs.fork(
                run_id, "Writer[2]", message="shorter" if change == "message" else None, **changes
            )
            await runs.resume(fork)
            for one in (run_id, fork):
                (loop,) = await runs.rounds(one)
                assert loop.rounds[0].started[:10] < (loop.rounds[-1].ended or "")[:10]
                assert [each.seconds for each in loop.rounds if not 0 <= each.seconds < 600] == [], one

    asyncio.run(story())


def test_resumed_run_shows_the_time_of_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            run_id = await run_of_yesterday(runs)
            state = (await open_run(runs.store, run_id)).state
            state.started_at -= 100
            view = await runs.view(run_id)
            progress = Progress(lambda: 5000.0, before=view, worked=state.worked)
            assert progress.snapshot().seconds == pytest.approx(state.worked) and state.worked > 99

    asyncio.run(story())
