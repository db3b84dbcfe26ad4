"""Retries of stored runs: with the same workflow, with changes, after crashes and in sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.control import Resume
from roundel.journal import run_journal
from roundel.journal.store import StoreError
from roundel.runs import forking

Story = Callable[[roundel.Runs], Awaitable[None]]


def using(tmp_path: Path, story: Story) -> None:
    async def work() -> None:
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            await story(runs)

    asyncio.run(work())


def agent(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "agent", "config": {"provider": "openai", "name": "m", **config}}


def workflow(condition: str, **root: Any) -> dict[str, Any]:
    """A and B answer; the edge from B to End has a condition."""
    edges = [{"from": "A", "to": "B"}, {"from": "B", "to": "End", "condition": {"cel": condition}}]
    nodes = [agent("A"), agent("B"), {"id": "End", "type": "passthrough"}]
    return {"graph": {"nodes": nodes, "edges": edges, "start": "A", "end": "End"}, **root}


BROKEN, CORRECTED = workflow("data.score > 3"), workflow("text.size() > 3")
SCRIPT = {"A": ["hello"], "B": ["no score"]}


async def failed(runs: roundel.Runs, of: dict[str, Any], script: dict[str, Any]) -> str:
    run_id = await runs.start(of, "hi", script=script)
    assert (await runs.result(run_id)).status == "failed"
    return run_id


async def check_events(runs: roundel.Runs, run_id: str) -> list[str]:
    """Events have no gaps, and reading from any number on gives the same."""
    events = await runs.events(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for after in range(len(events)):
        assert await runs.events(run_id, after=after) == events[after:]
    return [event.event for event in events]


def test_a_corrected_condition_completes_the_run_with_the_results_it_has(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, BROKEN, SCRIPT)
        seen: list[str] = []
        result = await runs.retry(run_id, workflow=CORRECTED, on_event=lambda event: seen.append(event.event))
        assert (result.status, result.output) == ("completed", "no score")
        assert result.usage["model_calls"] == 2  # none was made again
        assert seen == ["run_state_change", "node_state_change", "node_state_change", "run_finished"]
        names = await check_events(runs, run_id)
        assert names.count("run_finished") == 2
        assert (await runs.row(run_id)).status == "completed"

    using(tmp_path, story)


def test_a_correction_that_does_not_help_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, BROKEN, SCRIPT)
        before = await runs.events(run_id)
        with pytest.raises(StoreError, match="would fail again: B: the condition on B → End failed"):
            await runs.retry(run_id, workflow=workflow("data.points > 3"))
        assert await runs.events(run_id) == before
        assert (await runs.row(run_id)).owner == ""

    using(tmp_path, story)


def test_a_workflow_that_the_history_does_not_fit_is_refused(tmp_path: Path) -> None:
    other = workflow("true")
    other["graph"]["edges"][0]["to"] = "End"

    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, BROKEN, SCRIPT)
        with pytest.raises(StoreError, match="does not fit these changes: B: ran then, and does not now"):
            await runs.retry(run_id, workflow=other)
        assert (await runs.row(run_id)).status == "failed"

    using(tmp_path, story)


def test_a_new_error_edge_handles_the_failure_that_happened(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"graph": {"nodes": [agent("A"), agent("B")], "edges": [], "start": "A"}}
    handled: dict[str, Any] = {
        "graph": {**plain["graph"], "edges": [{"from": "A", "to": "B", "port": "error"}]}
    }

    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, plain, {"A": [{"error": "boom"}], "B": ["saved"]})
        result = await runs.retry(run_id, workflow=handled)
        assert (result.status, result.output) == ("completed", "saved")
        assert result.nodes == {"A": 1, "B": 1}
        events = await runs.events(run_id)
        (handled_event,) = [event for event in events if event.fields().get("handled")]
        assert handled_event.address == "A"
        await check_events(runs, run_id)

    using(tmp_path, story)


LOOP: dict[str, Any] = {
    "graph": {
        "nodes": [
            agent("Write"),
            agent("Review"),
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
            agent("After"),
        ],
        "edges": [
            {"from": "Write", "to": "Review"},
            {"from": "Review", "to": "Write"},
            {"from": "Review", "to": "Guard"},
            {"from": "Guard", "to": "Write"},
            {"from": "Guard", "to": "After"},
        ],
        "start": "Write",
        "end": "After",
    }
}


def with_counter(rounds: int) -> dict[str, Any]:
    nodes = [
        {**node, "config": {"max_iterations": rounds}} if node["id"] == "Guard" else node
        for node in LOOP["graph"]["nodes"]
    ]
    return {"graph": {**LOOP["graph"], "nodes": nodes}}


def test_a_retry_inside_a_loop_with_more_rounds_and_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshots of the old workflow and of the new one are never taken for each other's."""
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 2)
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", 0)
    script = {"Write": ["a", "b", {"error": "boom"}, "c", "d", {"error": "again"}, "e"], "Review": ["no"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, LOOP, script)
        result = await runs.retry(run_id, workflow=with_counter(4))
        assert (result.status, result.error) == ("completed", None)
        assert result.loops["Write"]["rounds"] == 4
        assert result.nodes == {"Write": 4, "Review": 4, "Guard": 4, "After": 1}
        await check_events(runs, run_id)
        fork = await runs.fork(run_id, "Write[4]/Review")
        assert (await runs.resume(fork)).loops["Write"]["rounds"] == 4
        assert await runs.replay(run_id, workflow=with_counter(4)) is None
        other = str(await runs.replay(run_id, workflow=with_counter(3)))
        assert other.startswith("After: gets another input")

    using(tmp_path, story)


def test_a_run_is_retried_with_changes_more_than_once(tmp_path: Path) -> None:
    script = {"A": [{"error": "one"}, "a"], "B": [{"error": "two"}, {"error": "three"}, "b"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, workflow("true"), script)
        first = await runs.retry(run_id, limits={"model_calls": 100})
        assert (first.status, first.error) == ("failed", "B: two")
        second = await runs.retry(run_id)
        assert (second.status, second.error) == ("failed", "B: three")
        third = await runs.retry(run_id, limits={"model_calls": 200})
        assert (third.status, third.output) == ("completed", "b")
        names = await check_events(runs, run_id)
        assert names.count("run_finished") == 4
        assert (await runs.inspect(run_id)).plan.limits.model_calls == 200
        assert (await runs.inspect(run_id)).state.revision == 2

    using(tmp_path, story)


def test_a_crash_between_the_change_and_the_calls_loses_nothing(tmp_path: Path) -> None:
    script = {"A": ["a"], "B": [{"error": "two"}, "b"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, workflow("true"), script)
        assert await forking.revise(runs.store, run_id, limits={"model_calls": 50}, warnings=[])
        row = await runs.row(run_id)
        assert (row.status, row.owner) == ("running", "")
        assert await runs.engine.control(run_id, Resume()) is False
        result = await runs.resume(run_id)
        assert (result.status, result.output) == ("completed", "b")

    using(tmp_path, story)


def test_other_replies_and_variables(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "vars: {LEAST: 3}\n"
        "graph:\n  start: A\n  nodes:\n"
        "    - {id: A, type: agent, config: {provider: openai, name: m}}\n"
        "    - {id: End, type: passthrough}\n"
        "    - {id: B, type: agent, config: {provider: openai, name: m}}\n"
        "  edges:\n"
        "    - {from: A, to: B}\n"
        "    - {from: B, to: End, condition: {cel: 'text.size() > ${LEAST}'}}\n",
        encoding="utf-8",
    )

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(str(file), "hi", script={"A": ["a"], "B": [{"error": "down"}]})
        assert (await runs.result(run_id)).status == "failed"
        result = await runs.retry(run_id, variables={"LEAST": 1}, script={"B": ["b!"]})
        assert (result.status, result.output) == ("completed", "b!")

    using(tmp_path, story)


def test_functions_are_given_again(tmp_path: Path) -> None:
    broken = {"now": True}

    def check(text: str) -> str:
        if broken["now"]:
            raise LookupError("no such file")
        return f"checked {text}"

    def graph() -> roundel.Graph:
        built = roundel.Graph("functions", start="A", end="Check")
        built.node("A", "agent", provider="openai", name="m")
        return built.node("Check", "python", function=check).edge("A", "Check")

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph(), "hi", script={"A": ["a"]})
        result = await runs.result(run_id)
        assert result.status == "failed"
        broken["now"] = False
        again = await runs.retry(run_id, workflow=graph())
        assert (again.status, again.output) == ("completed", "checked a")
        assert again.nodes == {"A": 1, "Check": 1}
        assert (await runs.inspect(run_id)).state.revision == 0  # only the code is another

    using(tmp_path, story)


def test_only_a_failed_run_can_be_retried(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(workflow("true"), "hi", script=SCRIPT)
        assert (await runs.result(run_id)).status == "completed"
        changes: tuple[dict[str, Any], ...] = ({}, {"limits": {"rounds": 7}})
        for change in changes:
            with pytest.raises(StoreError, match="has not failed, so it cannot be retried"):
                await runs.retry(run_id, **change)
        with pytest.raises(StoreError, match="is over"):
            await runs.resume(run_id)

    using(tmp_path, story)


def test_resume_of_a_failed_run_names_retry(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await failed(runs, BROKEN, SCRIPT)
        with pytest.raises(StoreError, match=f"`roundel retry {run_id}`"):
            await runs.resume(run_id)

    using(tmp_path, story)
