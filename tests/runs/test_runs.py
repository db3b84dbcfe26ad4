"""Stored runs from Python: start, answer, resume, fork, compare, prune."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import roundel
import roundel.extend
from roundel.hosts.control import Question
from tests.runs.polish_workflow import ALONE, BOTH, DRAFTS, POLISH, run_stored, using


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_run_is_answered_round_by_round_until_it_completes(place: Path) -> None:
    assert run_stored(place, ALONE).status == "waiting"

    async def story(runs: roundel.Runs) -> None:
        (row,) = await runs.list(status="waiting")
        assert (row.name, row.input, row.owner) == ("polish", "tea", "")
        outputs = []
        for number in range(1, 5):
            (question,) = await runs.questions(row.id)
            assert question.address == f"Writer[{number}]/Editor"
            answered = await runs.answer("last", roundel.Message("go on", "user"), execute=False)
            assert answered.status == "running"
            outputs.append((await runs.resume(row.id)).output)
        assert outputs == ["", "", "", DRAFTS[-1]["text"]]
        assert (await runs.row(row.id[:4])).status == "completed"
        events = await runs.events(row.id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert await runs.questions(row.id) == []

    using(place, story)


def test_resume_uses_the_ask_callback(place: Path) -> None:
    run_id = run_stored(place, ALONE).run_id
    asked: list[str] = []

    async def ask(question: Question) -> str:
        asked.append(question.address)
        return "go on"

    seen: list[roundel.Event] = []
    result = roundel.resume("last", store=place, ask=ask, on_event=seen.append)
    assert (result.run_id, result.status) == (run_id, "completed")
    assert asked == [f"Writer[{number}]/Editor" for number in range(1, 5)]
    assert seen[-1].event == "run_finished"
    with pytest.raises(roundel.StoreError, match="is over: it is completed"):
        roundel.resume(run_id, store=place)


def test_unowned_run_is_paused_and_stopped_in_the_store(place: Path) -> None:
    run_stored(place, ALONE)

    async def story(runs: roundel.Runs) -> None:
        await runs.pause("last", "for lunch")
        assert (await runs.row("last")).status == "paused"
        with pytest.raises(roundel.StoreError, match="is paused"):
            await runs.pause("last")
        await runs.answer("last", "go on", execute=False)
        assert (await runs.row("last")).status == "paused"
        assert (await runs.resume("last")).status == "waiting"
        await runs.stop("last")
        assert (await runs.row("last")).status == "stopped"
        with pytest.raises(roundel.StoreError, match="is stopped"):
            await runs.stop("last")
        reasons = [
            event.fields()["reason"] for event in await runs.events("last") if "reason" in event.fields()
        ]
        assert "for lunch" in reasons
        other = await runs.fork("last", "Writer[1]")
        with pytest.raises(roundel.StoreError, match=r"no process executes.*resume"):
            await runs.pause(other)

    using(place, story)


def test_fork_shares_only_the_past(place: Path) -> None:
    first = run_stored(place)

    async def story(runs: roundel.Runs) -> None:
        before = await runs.events(first.run_id)
        other = await runs.fork(first.run_id, "Writer[3]", message="say it with a picture", script=ALONE)
        assert (await runs.resume(other)).status == "waiting"
        events = await runs.events(other)
        same = [(event.event, event.address, event.data) for event in events[:20]]
        assert same == [(event.event, event.address, event.data) for event in before[:20]]
        (edited,) = [event for event in events if event.event == "message_edited"]
        assert (edited.address, edited.fields()["text"]) == ("Writer[3]/Writer", "say it with a picture")
        assert events[-1].fields()["status"] == "waiting"
        assert await runs.events(first.run_id) == before
        row = await runs.row(other)
        assert (row.parent, row.forked_at) == (first.run_id, "Writer[3]")

    using(place, story)


def test_runs_have_a_group_and_say_who_started_them(place: Path) -> None:
    grouped = {**POLISH, "memory": {"group_id": "red"}}

    async def story(runs: roundel.Runs) -> None:
        own = await runs.start(grouped, "tea", script=ALONE, started_by="ann")
        given = await runs.start(grouped, "rain", script=ALONE, group="blue")
        none = await runs.start(POLISH, "sun", script=ALONE)
        for run_id in (own, given, none):
            assert (await runs.result(run_id)).status == "waiting"
        rows = {row.id: (row.group, row.started_by) for row in await runs.list()}
        assert rows == {own: ("red", "ann"), given: ("blue", ""), none: ("", "")}
        # The memory of a run is that of its group.
        assert (await runs.plan(given)).workflow.memory.group_id == "blue"
        fork = await runs.fork(own, "Writer[1]")
        other = await runs.fork(own, "Writer[1]", workflow={**POLISH, "memory": {"group_id": "green"}})
        for run_id in (fork, other):
            row = await runs.row(run_id)
            assert (row.group, row.started_by, row.parent) == ("red", "ann", own)
            assert (await runs.plan(run_id)).workflow.memory.group_id == "red"
        assert {row.id for row in await runs.list(groups=["red"], text="TEA")} == {own, fork, other}
        assert [row.id for row in await runs.list(groups=["blue", ""], name="polish")] == [none, given]
        first = (await runs.list(limit=2))[-1]
        assert [row.id for row in await runs.list(before=first.number)] == [none, given, own]
        assert [row.id for row in await runs.list(since=first.created)] == [other]

    using(place, story)


def test_a_row_shows_how_far_its_run_is(place: Path) -> None:
    def shown(row: roundel.extend.RunRow) -> dict[str, Any]:
        assert row.progress is not None
        return row.progress

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(POLISH, "tea", script=ALONE)
        begun = shown(await runs.row(run_id))
        assert (begun["loops"][0]["address"], begun["score"], begun["questions"]) == ("Writer[1]", None, [])
        await runs.wait(run_id)
        await runs.answer(run_id, "go on", execute=False)
        await runs.resume(run_id)
        progress = shown(await runs.row(run_id))
        assert progress == {
            "loops": [{"address": "Writer[2]", "loop": "Writer", "round": 2, "limit": 5, "by": "Gate"}],
            "score": 80,
            "scores": [50, 80],
            "threshold": 90,
            "usage": (await runs.inspect(run_id)).state.summary()["usage"],
            "guards": [
                {
                    "kind": "rounds",
                    "name": "Gate",
                    "used": 2,
                    "limit": 5,
                    "share": 0.4,
                    "address": "Writer[2]/Gate",
                },
                *progress["guards"][1:],
            ],
            "questions": ["Writer[2]/Editor"],
            "question": {"address": "Writer[2]/Editor", "node_id": "Editor", "prompt": "Good?", "tool": None},
            "active": [],
            "work_seconds": progress["work_seconds"],
        }
        await runs.lock(run_id, "lunch", by="ann")
        locked = shown(await runs.row(run_id))
        assert (locked["lock"]["what"], locked["lock"]["text"]) == ("manual", "a person locked it")
        assert locked["loops"] == progress["loops"]
        fork = await runs.fork(run_id, "Writer[2]")
        assert shown(await runs.row(fork))["loops"] == progress["loops"]
        await runs.resume(fork)
        await runs.pause(fork, "tea")
        assert shown(await runs.row(fork))["pause"] == {"reason": "tea"}
        await runs.stop(fork)
        over = shown(await runs.row(fork))
        assert (over["loops"], over["questions"], over["guards"], over["score"]) == ([], [], [], 80)

    using(place, story)


@pytest.mark.parametrize(
    ("at", "message", "said"),
    [
        ("", None, "is over; say where"),
        ("Writer[9]", None, "never reached 'Writer\\[9\\]'"),
        ("Writer[1]/Gate/x", None, "never reached"),
    ],
)
def test_invalid_forks_are_rejected(place: Path, at: str, message: str | None, said: str) -> None:
    run_stored(place)

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match=said):
            await runs.fork("last", at, message=message)
        assert len(await runs.list()) == 1

    using(place, story)


def test_replay_matches_until_something_is_changed(place: Path) -> None:
    run_stored(place)

    async def story(runs: roundel.Runs) -> None:
        assert await runs.replay("last") is None
        fewer = await runs.replay("last", limits={"rounds": 2})
        assert fewer is not None and fewer.address.startswith("Writer[3]")
        easier = {"graph": {**POLISH["graph"], "nodes": [*POLISH["graph"]["nodes"]]}}
        easier["graph"]["nodes"][2] = {"id": "Gate", "type": "loop", "config": {"exit_on_score": 75}}
        differs = await runs.replay("last", workflow=easier)
        assert differs is not None and "the run is completed" in str(differs)
        forked = await runs.fork("last", "Writer[2]", workflow=easier)
        result = await runs.resume(forked)
        assert result.output == "tea is picked at dawn"

    using(place, story)


def test_limits_are_pinned(place: Path) -> None:
    assert run_stored(place, BOTH, limits={"rounds": 2}).status == "suspended_locked"

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match=r"is locked.*roundel unlock"):
            await runs.resume("last")
        other = await runs.fork("last", limits={"rounds": 10})
        assert (await runs.resume(other)).completed

    using(place, story)


def test_limits_of_one_loop_are_pinned_and_dropped_where_it_is_missing(place: Path) -> None:
    rounds = {"Writer.rounds": 2}
    assert run_stored(place, BOTH, limits={**rounds, "unpriced": "allow"}).status == "suspended_locked"
    other: dict[str, object] = {
        "graph": {"nodes": [{"id": "Solo", "type": "literal", "config": {"content": "x"}}], "start": "Solo"}
    }

    async def story(runs: roundel.Runs) -> None:
        assert await runs.replay("last") is None
        assert (await runs.resume(await runs.fork("last", limits={"Writer.rounds": 10}))).completed
        with pytest.raises(ValueError, match="no loop or node 'Nobody'"):
            await runs.fork("last", limits={"Nobody.rounds": 10})
        assert await runs.replay("last", workflow=other) is not None  # no error about 'Writer'

    using(place, story)


def test_workflow_with_functions_must_be_given_on_resume(place: Path) -> None:
    graph = roundel.Graph("shout", start="Ask", end="Shout").node("Ask", "human")

    @graph.function("Shout")
    def shout(text: str) -> str:
        return text.upper()

    graph.edge("Ask", "Shout")
    assert roundel.run(graph, "hello", store=place).status == "waiting"

    async def story(runs: roundel.Runs) -> None:
        (question,) = await runs.questions("last")
        await runs.answer("last", "hey", at=question.address, execute=False)
        with pytest.raises(roundel.WorkflowError, match=r"'shout' was given in Python.*workflow="):
            await runs.resume("last")
        assert (await runs.resume("last", workflow=graph)).output == "HEY"

    using(place, story)


def test_unknown_run_references_are_rejected(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        for name in ("last", "", "abc"):
            with pytest.raises(roundel.StoreError, match="no run"):
                await runs.row(name)

    using(place, story)


def test_pruned_runs_keep_the_selected_rounds(place: Path) -> None:
    run_stored(place)

    async def story(runs: roundel.Runs) -> None:
        everything = await runs.events("last")
        with pytest.raises(roundel.StoreError, match="is not a selection of rounds"):
            await runs.prune("last", keep="some")
        await runs.prune("last", keep="all")
        assert await runs.events("last") == everything
        assert await runs.events("last", after=20) == everything[20:]
        await runs.prune("last", keep="first,best")
        rounds = {(event.address or "")[:9] for event in await runs.events("last")} - {"", "Final"}
        assert rounds == {"Writer[1]", "Writer[4]"}
        assert [event for event in await runs.events("last") if event.seq > 20] == await runs.events(
            "last", after=20
        )
        with pytest.raises(roundel.StoreError, match="first,best"):
            await runs.fork("last", "Writer[1]")
        await runs.prune("last", keep="nothing")
        assert await runs.list() == []

    using(place, story)


def test_code_nodes_work_next_to_the_store_wherever_the_run_is_resumed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"Write": "open('notes', 'w').write('kept')", "Read": "print(open('notes').read())"}
    nodes = [
        *(
            {"id": f"{name} Code", "type": "literal", "config": {"content": text}}
            for name, text in code.items()
        ),
        *({"id": name, "type": "python"} for name in code),
        {"id": "Wait", "type": "human"},
    ]
    ways = ["Write Code", "Write", "Wait", "Read Code", "Read"]
    edges = [{"from": one, "to": other} for one, other in pairwise(ways)]
    graph = {"nodes": nodes, "edges": edges, "start": "Write Code", "end": "Read"}
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    assert roundel.run({"graph": graph}, store=place).status == "waiting"
    monkeypatch.chdir(second)

    async def ask(_question: Question) -> str:
        return "go on"

    assert roundel.resume("last", store=place, ask=ask).output.strip() == "kept"
    assert list(first.iterdir()) == list(second.iterdir()) == []
