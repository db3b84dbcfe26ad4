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
