"""Runs played again, with no model called."""

from __future__ import annotations

from pathlib import Path

import pytest

import roundel
from tests.sessions.polishing import ALONE, kept, using


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_a_changed_message_belongs_to_the_run(place: Path) -> None:
    kept(place)

    async def story(runs: roundel.Runs) -> None:
        other = await runs.fork("last", "Writer[2]", message="say it with a picture")
        assert (await runs.resume(other)).completed
        assert await runs.replay(other) is None
        third = await runs.fork(other, "Writer[3]", limits={"rounds": 50})
        texts = [event.data["text"] for event in await runs.events(third) if event.event == "message_edited"]
        assert texts == ["say it with a picture"]

    using(place, story)


def test_pauses_and_answers_change_nothing(place: Path) -> None:
    kept(place, ALONE)

    async def story(runs: roundel.Runs) -> None:
        await runs.pause("last")
        await runs.answer("last", "go on")
        assert (await runs.resume("last")).status == "waiting"
        assert await runs.replay("last") is None
        await runs.stop("last")
        assert await runs.replay("last") is None

    using(place, story)


def test_another_question_is_a_difference(place: Path) -> None:
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
        assert (differs.address, differs.what) == ("Answer", "is asked something else")
        assert "tea" in differs.before and "coffee" in differs.now
        assert "then: " in str(differs) and "now: " in str(differs)

    using(place, story)


class Sign(roundel.Middleware):
    def before(self, visit: roundel.Visit) -> None:
        return None

    def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> list[str]:
        return [message.text + "!" for message in messages]


@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_went_on_with_other_middleware_goes_the_same_way_again(place: Path, first: bool) -> None:
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
        await runs.answer("last", "yes")
        result = await runs.resume("last", middleware=later)
        assert result.output == ("b" if first else "b!!")
        assert await runs.replay(result.run_id) is None
        assert await runs.replay(result.run_id, limits={"model_calls": 9}) is None
        other = await runs.fork(result.run_id, "End", limits={"model_calls": 9})
        assert (await runs.resume(other)).output == ("b" if first else "b!")

    using(place, story)


def test_a_fork_says_that_no_message_can_be_changed_where_a_node_is_done(place: Path) -> None:
    class Late(Sign):
        async def after(self, visit: roundel.Visit, messages: object) -> list[str]:  # type: ignore[override]
            raise KeyboardInterrupt

    workflow = {"graph": {"nodes": [{"id": "A", "type": "agent"}], "start": "A"}}
    with pytest.raises(KeyboardInterrupt):
        roundel.run(workflow, "go", script={"A": "a"}, store=place, middleware=[Late()])

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match="'A' has done its work"):
            await runs.fork("last", message="other")

    using(place, story)
