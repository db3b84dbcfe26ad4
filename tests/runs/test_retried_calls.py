"""Which calls a retry makes again: those that failed or were not made, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.extend import Attachment
from roundel.journal.store import StoreError

Story = Callable[[roundel.Runs], Awaitable[None]]
AGENT = {"provider": "openai", "name": "m"}


def using(place: Any, story: Story) -> None:
    async def work() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)

    asyncio.run(work())


async def fail(runs: roundel.Runs, graph: roundel.Graph, text: str = "go", **options: Any) -> str:
    run_id = await runs.start(graph, text, **options)
    assert (await runs.result(run_id)).status == "failed"
    return run_id


def noting(calls: list[str]) -> Callable[..., str]:
    def note(word: str, idempotency_key: str) -> str:
        """Notes a word."""
        calls.append(idempotency_key.partition(":")[2])
        return f"noted {word}"

    return note


def asked(*words: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "note", "arguments": {"word": word}} for word in words]}


def test_agent_continues_in_its_round_of_tools(tmp_path: Path) -> None:
    calls: list[str] = []
    graph = roundel.Graph(start="Clerk").node("Clerk", "agent", **AGENT, tools=[noting(calls)])
    script = {"Clerk": [asked("one", "two"), asked("three"), {"error": "too many requests"}, "done"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, script=script)
        # The two calls of the first round are made at the same time.
        assert sorted(calls) == ["Clerk[1]/note", "Clerk[1]/note#2", "Clerk[2]/note"]
        result = await runs.retry(run_id, workflow=graph)
        assert (result.status, result.output) == ("completed", "done")
        assert len(calls) == 3
        assert (result.data or {})["tool_rounds"] == 2
        assert result.usage["tool_calls"] == 3
        assert result.nodes == {"Clerk": 1}

    using(tmp_path / "runs.db", story)


def test_approvals_are_not_asked_for_again(tmp_path: Path) -> None:
    calls: list[str] = []
    graph = roundel.Graph(start="Clerk").node(
        "Clerk", "agent", **AGENT, tools=[noting(calls)], approval=["note"]
    )
    script = {"Clerk": [asked("one"), {"error": "too many requests"}, "done"]}
    questions: list[str] = []

    async def approve(question: roundel.Question) -> str:
        questions.append(question.address)
        return "approve"

    async def story(runs: roundel.Runs) -> None:
        attach = Attachment(ask=approve)
        run_id = await fail(runs, graph, script=script, attach=attach)
        assert (questions, calls) == (["Clerk[1]/note"], ["Clerk[1]/note"])
        result = await runs.retry(run_id, workflow=graph, attach=attach)
        assert result.output == "done"
        assert (len(questions), len(calls)) == (1, 1)

    using(tmp_path / "runs.db", story)


@pytest.mark.parametrize("on_failure", ["finish", "cancel"])
def test_list_continues_with_the_elements_that_did_not_end(tmp_path: Path, on_failure: str) -> None:
    """Three at a time; the fifth fails when the fourth and the sixth are in flight."""
    calls: list[str] = []
    ended: list[str] = []
    broken = {"now": True}
    in_flight = asyncio.Event()

    async def work(text: str) -> str:
        calls.append(text)
        if broken["now"] and text in ("4", "6"):
            if {"4", "6"} <= set(calls):
                in_flight.set()
            if on_failure == "cancel":
                await asyncio.Event().wait()
        if broken["now"] and text == "5":
            await in_flight.wait()
            raise ConnectionError("lost")
        ended.append(text)
        return f"did {text}"

    body = roundel.Graph("body", start="Work", on_failure=on_failure).node("Work", "python", function=work)
    strategy = {"mode": "array", "max_parallel": 3}
    graph = roundel.Graph(start="Each", on_failure=on_failure)
    graph.node("Each", "loop_agent", strategy=strategy, body=body)

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, str([*range(1, 11)]))
        before = set(ended)
        if on_failure == "cancel":
            assert before == {"1", "2", "3"}
        else:
            assert {"1", "2", "3", "4", "6"} <= before
            assert not before & {"5", "9", "10"}
        calls.clear()
        broken["now"] = False
        result = await runs.retry(run_id, workflow=graph)
        assert result.status == "completed"
        assert (result.data or {})["results"] == [f"did {number}" for number in range(1, 11)]
        assert sorted(calls, key=int) == [str(number) for number in range(1, 11) if str(number) not in before]

    using(tmp_path / "runs.db", story)


def test_question_is_asked_again_and_the_sibling_is_kept(tmp_path: Path) -> None:
    graph = roundel.Graph(start=["A", "B", "Person"])
    graph.node("A", "agent", **AGENT).node("B", "agent", **AGENT).node("Person", "human")
    script = {"A": ["kept"], "B": [{"error": "down"}, "up"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, script=script)
        assert await runs.questions(run_id) == []
        assert (await runs.retry(run_id)).status == "waiting"
        (question,) = await runs.questions(run_id)
        assert question.address == "Person"
        await runs.answer(run_id, "fine", execute=False)
        result = await runs.result(run_id)
        assert (result.status, result.nodes) == ("completed", {"A": 1, "B": 1, "Person": 1})
        names = [event.event for event in await runs.events(run_id)]
        assert names.count("run_finished") == 2
        assert names.count("human_input_required") == 2

    using(tmp_path / "runs.db", story)


def test_run_that_fails_again_is_retried_again(tmp_path: Path) -> None:
    graph = roundel.Graph(start="A").node("A", "agent", **AGENT)
    script = {"A": [{"error": "one"}, {"error": "two"}, "three"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, script=script)
        again = await runs.retry(run_id)
        assert (again.status, again.error) == ("failed", "A: two")
        assert (await runs.retry("last")).output == "three"
        finished = [event.fields() for event in await runs.events(run_id) if event.event == "run_finished"]
        assert [data["status"] for data in finished] == ["failed", "failed", "completed"]
        assert [data.get("error") for data in finished] == ["A: one", "A: two", None]

    using(tmp_path / "runs.db", story)


def test_another_process_needs_the_functions_again(tmp_path: Path) -> None:
    def fails(_text: str) -> str:
        raise OSError("no")

    graph = roundel.Graph(start="A").node("A", "python", function=fails)

    async def story(runs: roundel.Runs) -> None:
        await fail(runs, graph)

    async def later(runs: roundel.Runs) -> None:
        with pytest.raises((StoreError, roundel.WorkflowError), match="workflow="):
            await runs.retry("last")
        assert (await runs.row("last")).status == "failed"

    using(tmp_path / "runs.db", story)
    using(tmp_path / "runs.db", later)


def test_run_that_is_not_stored_cannot_be_retried(tmp_path: Path) -> None:
    graph = roundel.Graph(start="A").node("A", "agent", **AGENT)

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph, "go", script={"A": [{"error": "no"}]}, stored=False)
        assert (await runs.wait(run_id)).status == "failed"
        with pytest.raises(StoreError, match="there is no run"):
            await runs.retry(run_id)

    using(tmp_path / "runs.db", story)


def test_run_in_a_store_in_memory_is_retried() -> None:
    graph = roundel.Graph(start="A").node("A", "agent", **AGENT)

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, script={"A": [{"error": "no"}, "yes"]})
        assert (await runs.retry(run_id)).output == "yes"

    using("memory:", story)


def test_rounds_of_a_run_with_failures(tmp_path: Path) -> None:
    graph = roundel.Graph(start="Try", end="Out").node("Try", "agent", **AGENT)
    graph.node("Guard", "loop_counter", max_iterations=3).node("Out", "agent", **AGENT)
    graph.edge("Try", "Out").edge("Try", "Try", port="error").edge("Try", "Guard", port="error")
    graph.edge("Guard", "Try").edge("Guard", "Out")
    script = {"Try": [{"error": "down"}, "up"], "Out": [{"error": "down"}, "done"]}

    async def story(runs: roundel.Runs) -> None:
        run_id = await fail(runs, graph, script=script)
        before = await runs.rounds(run_id)
        assert (await runs.retry(run_id)).output == "done"
        after = await runs.rounds(run_id)
        assert [len(loop.rounds) for loop in after] == [2]
        assert [loop.exit_reason for loop in after] == ["exit_edge"]
        assert before == after

    using(tmp_path / "runs.db", story)
