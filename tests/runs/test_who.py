"""The facts of a run say who did what, and where its workflow comes from."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import roundel
from roundel.cli import cli
from roundel.hosts.control import Answer, Pause, decode_request, encode_request
from roundel.journal.store import ControlRequest
from roundel.kernel.facts import Started, decode_fact, encode_fact
from roundel.workflow.message import Message

CHECKS = ("cause_understood", "cost_accepted", "workflow_reviewed")


def asking() -> roundel.Graph:
    graph = roundel.Graph("asks", start="Ask", end="Print")
    return graph.node("Ask", "human").node("Print", "passthrough").edge("Ask", "Print")


def in_file(place: Path, story: Callable[[roundel.Runs], Awaitable[None]], by: str = "") -> None:
    async def work() -> None:
        async with roundel.Runs(place, by=by) as runs:
            await story(runs)

    asyncio.run(work())


async def who(runs: roundel.Runs, run_id: str) -> list[tuple[str, str]]:
    """The facts that people caused, with the names of these people."""
    facts = [entry.fact for entry in await runs.store.entries(run_id)]
    named = [(type(fact).__name__, str(getattr(fact, "by", ""))) for fact in facts]
    return [(name, by) for name, by in named if by]


def test_each_call_is_stored_with_its_person(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(asking(), "tea", paused=True, by="ada")
        await runs.result(run_id)
        await runs.set_breakpoints(run_id, "Print", by="ben")
        await runs.edit(run_id, "coffee", by="cem")
        await runs.step(run_id, by="dan")
        await runs.answer(run_id, "yes", by="eve")
        await runs.result(run_id)
        await runs.resume(run_id, by="fay")
        assert await who(runs, run_id) == [
            ("Started", "ada"),
            ("BreakpointsChanged", "ben"),
            ("WaitingEdited", "cem"),
            ("Stepped", "dan"),
            ("Answered", "eve"),
            ("Resumed", "fay"),
        ]
        run_id = await runs.start(asking(), "tea")
        await runs.result(run_id)
        await runs.lock(run_id, "wait", by="gus")
        await runs.unlock(run_id, "go", checks=CHECKS, by="hal", execute=False)
        await runs.stop(run_id, "enough", by="ian")
        assert await who(runs, run_id) == [("Locked", "gus"), ("Unlocked", "hal"), ("Stopped", "ian")]

    in_file(tmp_path / "runs.db", story)


def test_the_person_of_the_object_does_what_names_nobody_else(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(asking(), "tea")
        await runs.result(run_id)
        await runs.pause(run_id, by="ben")
        await runs.stop(run_id)
        assert await who(runs, run_id) == [("Started", "ada"), ("Paused", "ben"), ("Stopped", "ada")]

    in_file(tmp_path / "runs.db", story, by="ada")


def test_a_question_is_answered_by_the_person_who_is_asked(tmp_path: Path) -> None:
    async def ask(_question: Any) -> str:
        return "yes"

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(asking(), "tea", script={"Ask": "no"})
        await runs.result(run_id)
        assert ("Answered", "ada") not in await who(runs, run_id), "the script has answered"
        run_id = await runs.start(asking(), "tea", paused=True)
        await runs.result(run_id)
        result = await runs.resume(run_id, ask=ask, by="ben")
        assert (result.status, result.output) == ("completed", "yes")
        assert await who(runs, run_id) == [("Started", "ada"), ("Resumed", "ben"), ("Answered", "ben")]

    in_file(tmp_path / "runs.db", story, by="ada")


def test_a_retry_and_its_changes_have_a_person(tmp_path: Path) -> None:
    graph = roundel.Graph("writes", start="Writer", end="Writer").node("Writer", "agent")

    async def story(runs: roundel.Runs) -> None:
        failing = {"Writer": [{"error": "no luck"}]}
        run_id = await runs.start(graph, "tea", script=failing)
        assert (await runs.result(run_id)).status == "failed"
        await runs.retry(run_id, by="ben")
        result = await runs.retry(run_id, script={"Writer": "a line"}, by="cem")
        assert result.status == "completed"
        found = await who(runs, run_id)
        assert found[:2] == [("Started", "ada"), ("Retried", "ben")]
        assert ("Revised", "cem") in found

    in_file(tmp_path / "runs.db", story, by="ada")


def test_the_command_line_stores_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    place = tmp_path / "runs.db"
    file = tmp_path / "asks.yaml"
    file.write_text("graph:\n  id: asks\n  start: Ask\n  nodes: [{id: Ask, type: human}]\n")
    for command in (["run", str(file), "--input", "tea"], ["pause", "last"], ["stop", "last"]):
        done = CliRunner().invoke(cli, [*command, "--store", str(place)])
        assert done.exit_code in (0, 4), done.output

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.find("last")
        assert await who(runs, run_id) == [("Started", "ada"), ("Paused", "ada"), ("Stopped", "ada")]

    in_file(place, story)


def test_a_request_to_another_process_carries_the_person() -> None:
    for request in (Pause("later", by="ada"), Answer(Message("yes"), "Ask", by="ada")):
        stored = ControlRequest(1, "run", request.kind, encode_request(request))
        assert decode_request(stored) == request
    older = ControlRequest(1, "run", "pause", {"reason": "later"})
    assert decode_request(older) == Pause("later"), "a request of a version without persons"


def test_facts_without_the_new_fields_stay_as_they_were() -> None:
    line = b'{"type":"started","run_id":"a","input":[],"time":1.0}'
    fact = decode_fact(line)
    assert isinstance(fact, Started)
    assert (fact.by, fact.saved_as, fact.parent, fact.limits) == ("", "", "", {})
    assert encode_fact(fact) == line
    for line in (b'{"type":"resumed","time":1.0}', b'{"type":"stopped","reason":"enough","time":1.0}'):
        assert encode_fact(decode_fact(line)) == line


async def first(runs: roundel.Runs, run_id: str) -> Started:
    fact = (await runs.store.entries(run_id))[0].fact
    assert isinstance(fact, Started)
    return fact


def test_a_run_knows_its_saved_workflow_and_a_fork_where_it_comes_from(tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        saved: dict[str, Any] = {"saved_as": "tea time", "workflow_version": "3"}
        run_id = await runs.start(asking(), "tea", limits={"steps": 9}, **saved)
        await runs.start(asking(), "tea")
        fact = await first(runs, run_id)
        assert (fact.saved_as, fact.workflow_version, fact.limits) == ("tea time", "3", {"steps": 9})
        same = await runs.fork(run_id, "Ask", by="ben", limits={"steps": 7}, workflow=asking(), **saved)
        plain = await runs.fork(run_id, "Ask", by="ben")
        other = await runs.fork(run_id, "Ask", workflow=asking())
        assert [row.id for row in await runs.list(saved_as="tea time")] == [plain, same, run_id]
        assert await runs.list(saved_as="tea") == []
        fork = await first(runs, plain)
        assert (fork.run_id, fork.parent, fork.forked_at, fork.by) == (plain, run_id, "Ask", "ben")
        assert (fork.saved_as, fork.workflow_version, fork.limits) == ("tea time", "3", {"steps": 9})
        assert (await first(runs, same)).limits == {"steps": 7}
        row = await runs.row(plain)
        assert (row.parent, row.forked_at, row.saved_as, row.workflow_version) == (
            run_id,
            "Ask",
            "tea time",
            "3",
        )
        assert (await runs.row(other)).saved_as == "", "another workflow, which is not saved"

    in_file(tmp_path / "runs.db", story)
