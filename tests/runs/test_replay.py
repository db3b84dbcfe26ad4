"""Runs played again, with no model called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.facts import Entry, Fact, Finished, Outcome, Paused, Reopened, Resumed, Started
from roundel.kernel.step import replay as kernel_replay
from roundel.runs.forking import Rerun
from roundel.workflow.message import Message
from tests.runs.polish_workflow import ALONE, run_stored, using


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_edited_message_is_part_of_the_replay(place: Path) -> None:
    run_stored(place)

    async def story(runs: roundel.Runs) -> None:
        other = await runs.fork("last", "Writer[2]", message="say it with a picture")
        assert (await runs.resume(other)).completed
        assert await runs.replay(other) is None
        third = await runs.fork(other, "Writer[3]", limits={"rounds": 50})
        texts = [
            event.fields()["text"] for event in await runs.events(third) if event.event == "message_edited"
        ]
        assert texts == ["say it with a picture"]

    using(place, story)


def test_pauses_and_answers_change_nothing(place: Path) -> None:
    run_stored(place, ALONE)

    async def story(runs: roundel.Runs) -> None:
        await runs.pause("last")
        await runs.answer("last", "go on", execute=False)
        assert (await runs.resume("last")).status == "waiting"
        assert await runs.replay("last") is None
        await runs.stop("last")
        assert await runs.replay("last") is None

    using(place, story)


def test_different_question_is_a_replay_difference(place: Path) -> None:
    flow = {
        "graph": {
            "start": "Ask",
            "nodes": [
                {"id": "Ask", "type": "literal", "config": {"content": "What is tea?"}},
                {"id": "Answer", "type": "agent"},
            ],
            "edges": [{"from": "Ask", "to": "Answer"}],
        }
    }
    roundel.run(flow, "go", script={"Answer": "a drink"}, store=place)
    other = {"graph": {**flow["graph"]}}
    other["graph"]["nodes"] = [
        {"id": "Ask", "type": "literal", "config": {"content": "What is coffee?"}},
        {"id": "Answer", "type": "agent"},
    ]

    async def story(runs: roundel.Runs) -> None:
        differs = await runs.replay("last", workflow=other)
        assert differs is not None
        assert (differs.address, differs.what) == ("Answer", "gets another input")
        assert "tea" in differs.before and "coffee" in differs.now
        assert "then: " in str(differs) and "now: " in str(differs)

    using(place, story)


class Sign(roundel.Middleware):
    def before(self, visit: roundel.Visit) -> None:
        return None

    def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> list[str]:
        return [message.text + "!" for message in messages]


@pytest.mark.parametrize("first", [True, False])
def test_a_run_resumed_with_other_middleware_replays_the_same(place: Path, first: bool) -> None:
    """What was asked about is asked about again, and what was not is not."""
    nodes = [
        {"id": "A", "type": "agent"},
        {"id": "Person", "type": "human"},
        {"id": "B", "type": "agent"},
        {"id": "End", "type": "passthrough"},
    ]
    edges = [{"from": "A", "to": "Person"}, {"from": "Person", "to": "B"}, {"from": "B", "to": "End"}]
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": "A"}}
    then, later = ([Sign()], []) if first else ([], [Sign()])
    roundel.run(workflow, "go", script={"A": "a", "B": "b"}, store=place, middleware=then)

    async def story(runs: roundel.Runs) -> None:
        await runs.answer("last", "yes", execute=False)
        result = await runs.resume("last", middleware=later)
        assert result.output == ("b" if first else "b!!")
        assert await runs.replay(result.run_id) is None
        assert await runs.replay(result.run_id, limits={"model_calls": 9}) is None
        other = await runs.fork(result.run_id, "End", limits={"model_calls": 9})
        assert (await runs.resume(other)).output == ("b" if first else "b!")

    using(place, story)


def test_fork_rejects_a_message_for_a_completed_node(place: Path) -> None:
    class Late(Sign):
        async def after(self, visit: roundel.Visit, messages: object) -> list[str]:  # type: ignore[override]
            raise KeyboardInterrupt

    workflow = {"graph": {"nodes": [{"id": "A", "type": "agent"}], "start": "A"}}
    with pytest.raises(KeyboardInterrupt):
        roundel.run(workflow, "go", script={"A": "a"}, store=place, middleware=[Late()])

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match="'A' has finished"):
            await runs.fork("last", message="other")

    using(place, story)


TALK = {
    "breaker": False,
    "graph": {
        "start": "Ann",
        "end": "End",
        "nodes": [
            {"id": "Ann", "type": "agent"},
            {"id": "Ben", "type": "agent"},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 6}},
            {"id": "Person", "type": "human"},
            {"id": "End", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Ann", "to": "Ben"},
            {"from": "Ben", "to": "Ann"},
            {"from": "Ben", "to": "Guard"},
            {"from": "Guard", "to": "Ann"},
            {"from": "Guard", "to": "Person"},
            {"from": "Person", "to": "End"},
        ],
    },
}
TALK_SCRIPT = {"Ann": [f"a{number}" for number in range(9)], "Ben": [f"b{number}" for number in range(9)]}
CHECKS = ("cause_understood", "cost_accepted", "workflow_reviewed")


def locked_run(place: Path, limits: dict[str, float]) -> str:
    result = roundel.run(TALK, "go", script=TALK_SCRIPT, store=place, limits=limits)
    assert result.status == "suspended_locked"
    return result.run_id


@pytest.mark.parametrize(
    ("limits", "unlocked"),
    [
        ({"rounds": 2}, {}),
        ({"rounds": 2}, {"limits": {"rounds": 50}}),
        ({"rounds": 2}, {"message": "another message"}),
        ({"rounds": 2}, {"note": "say something new", "limits": {"rounds": 50}}),
        ({"rounds": 2}, {"exit": "Person"}),
        ({"model_calls": 3}, {"limits": {"model_calls": 500}}),
        ({"steps": 4}, {"limits": {"steps": 500}}),
    ],
)
def test_unlocked_run_replays_the_same(
    place: Path, limits: dict[str, float], unlocked: dict[str, Any]
) -> None:
    run_id = locked_run(place, limits)

    async def story(runs: roundel.Runs) -> None:
        assert await runs.replay(run_id) is None, "while it is locked"
        status = "suspended_locked"
        while status == "suspended_locked":
            await runs.unlock(run_id, "go on", checks=CHECKS, by="me", **unlocked, execute=False)
            assert await runs.replay(run_id) is None, "once it is unlocked"
            status = (await runs.resume(run_id)).status
            if status == "suspended_locked" and not unlocked:
                await runs.unlock(
                    run_id, "again", checks=CHECKS, by="me", limits={"rounds": 50}, execute=False
                )
                status = (await runs.resume(run_id)).status
        assert status == "waiting"
        assert await runs.replay(run_id) is None, "while it waits"
        await runs.pause(run_id)
        assert await runs.replay(run_id) is None, "while it is paused"
        await runs.answer(run_id, "fine", execute=False)
        assert (await runs.resume(run_id)).completed
        assert await runs.replay(run_id) is None, "to its end"
        fork = await runs.fork(run_id, "Person")
        assert await runs.replay(fork) is None, "and its fork"
        await runs.answer(fork, "very fine", execute=False)
        assert (await runs.resume(fork)).completed
        assert await runs.replay(fork) is None, "and its fork, to its end"
        other = await runs.fork(run_id, "Person", limits={"cost_usd": 5})
        assert await runs.replay(other) is None, "and its fork with another limit"

    using(place, story)


def test_lock_avoided_or_moved_by_another_limit_is_a_replay_difference(place: Path) -> None:
    run_id = locked_run(place, {"rounds": 2})

    async def story(runs: roundel.Runs) -> None:
        await runs.unlock(run_id, "go on", checks=CHECKS, limits={"rounds": 50}, execute=False)
        assert (await runs.resume(run_id)).status == "waiting"
        gone = await runs.replay(run_id, limits={"rounds": 50})
        assert gone is not None
        assert (gone.address, gone.what) == ("Ann[2]", "was locked then, and is not now")
        moved = await runs.replay(run_id, limits={"rounds": 1})
        assert moved is not None
        assert (moved.address, moved.what) == (
            "Ann[2]/Ann",
            "ran then, and does not now: the run is suspended_locked",
        )

    using(place, story)


def test_idle_time_does_not_count_in_replay(place: Path) -> None:
    """It may work for a minute; it was paused for an hour, and later its process was dead for another."""
    nodes = [{"id": name, "type": "agent"} for name in ("A", "B", "C")]
    edges = [{"from": "A", "to": "B"}, {"from": "B", "to": "C"}]
    workflow = {"limits": {"seconds": 60}, "graph": {"start": "A", "nodes": nodes, "edges": edges}}
    said = Outcome((Message("done"),))
    facts: list[Fact] = [
        Started("r", (Message("go"),), 0.0),
        Paused("lunch", 1.0),
        Finished("A", said, 2.0),
        Resumed(4000.0),
        Finished("B", said, 4001.0),
        Reopened(8000.0),
        Finished("C", said, 8001.0),
    ]
    plan = roundel.prepare(workflow)
    entries = [Entry(fact) for fact in facts]
    assert kernel_replay(plan, entries)[0].status == "completed"
    rerun = Rerun(plan, entries, plan)
    rerun.play()
    assert (rerun.difference, rerun.state.status) == (None, "completed")
