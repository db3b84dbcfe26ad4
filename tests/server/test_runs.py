"""Runs over HTTP: a person starts, watches, debugs, answers, unlocks, forks and retries them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.server.api import Server, serving

RUNS = "/api/v1/runs"
REVIEW = """
graph:
  id: review
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Reviewer, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 3}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer}
    - {from: Reviewer, to: Guard}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final}
"""
REPLIES = {"Writer": ["draft 1", "draft 2", "draft 3"], "Reviewer": ["shorter", "longer", "fine"]}
ASKS = """
graph:
  id: asks
  start: Editor
  nodes:
    - {id: Editor, type: human, config: {description: "Is it good?"}}
    - {id: Printer, type: passthrough}
  edges: [{from: Editor, to: Printer}]
"""


def played(story: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving() as server:
            await story(server)

    asyncio.run(main())


async def started(server: Server, client: httpx2.AsyncClient, text: str = REVIEW, **more: Any) -> str:
    """The id of a new run, once it is idle."""
    body = {"workflow": {"text": text}, "input": "go", "script": REPLIES, **more}
    answer = await client.post(RUNS, json=body)
    assert answer.status_code == 202, answer.text
    run_id: str = answer.json()["id"]
    assert answer.headers["location"] == f"{RUNS}/{run_id}"
    await server.context.runs.result(run_id)
    return run_id


async def sent(client: httpx2.AsyncClient, run_id: str, action: str, code: int = 200, **body: Any) -> Any:
    answer = await client.post(f"{RUNS}/{run_id}/{action}", json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


def test_a_run_is_started_and_its_rounds_are_read() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author)
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert (row["status"], row["workflow"], row["output"]) == (
            "completed",
            "review",
            "Loop limit reached (3)",
        )
        [loop] = (await author.get(f"{RUNS}/{run_id}/rounds", params={"from": 2, "outputs": True})).json()
        assert [one["number"] for one in loop["rounds"]] == [2, 3]
        assert loop["rounds"][0]["outputs"] == {"Writer[2]/Writer": "draft 2", "Writer[2]/Reviewer": "longer"}
        [bands] = (await author.get(f"{RUNS}/{run_id}/rounds", params={"band": 2})).json()
        assert [(one["from"], one["to"]) for one in bands["rounds"]] == [(1, 2), (3, 3)]
        events = (await author.get(f"{RUNS}/{run_id}/events", params={"follow": False})).text.splitlines()
        assert [json.loads(line)["seq"] for line in events] == list(range(1, len(events) + 1))
        listed = (await author.get(RUNS, params={"q": "review", "status": "completed"})).json()
        assert [one["id"] for one in listed["runs"]] == [run_id]

    played(story)


def test_a_run_is_debugged_and_a_message_is_edited() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, breakpoints=["Reviewer"])
        state = (await author.get(f"{RUNS}/{run_id}/state")).json()
        [ready] = state["ready"]
        assert (ready["address"], ready["breakpoints"]) == ("Writer[1]/Reviewer", ["Reviewer"])
        [message] = ready["messages"]
        await sent(author, run_id, "edit", text="better", version=message["version"])
        conflict = await sent(author, run_id, "edit", 409, text="worse", version=message["version"])
        assert conflict["type"] == "urn:roundel:problem:stale"
        await sent(author, run_id, "breakpoints", add=[{"cel": "round == 2"}], remove=["Reviewer"])
        await sent(author, run_id, "step")
        await server.context.runs.result(run_id)
        assert (await author.get(f"{RUNS}/{run_id}")).json()["pause"]["address"] == "Writer[1]/Guard"
        await sent(author, run_id, "step", round=True)
        await server.context.runs.result(run_id)
        [state] = (await author.get(f"{RUNS}/{run_id}/breakpoints")).json()
        assert (state["text"], state["hits"]) == ("cel: round == 2", 1)
        await sent(author, run_id, "breakpoints", remove=["cel: round == 2"])
        await sent(author, run_id, "resume")
        assert (await server.context.runs.result(run_id)).status == "completed"
        refused = await sent(author, run_id, "step", 409)
        assert "is over" in refused["detail"]

    played(story)


def test_a_question_is_answered() -> None:
    async def story(server: Server) -> None:
        author, viewer = await server.client("author"), await server.client("viewer")
        run_id = await started(server, author, ASKS, script=None)
        [question] = (await viewer.get(f"{RUNS}/{run_id}/questions")).json()
        assert (question["address"], question["prompt"]) == ("Editor", "Is it good?")
        await sent(viewer, run_id, "answer", 403, text="yes")
        await sent(author, run_id, "answer", text="yes", data={"score": 9})
        result = await server.context.runs.result(run_id)
        assert (result.status, result.output, result.data) == ("completed", "yes", {"score": 9})

    played(story)


def test_a_locked_run_is_unlocked_and_forked() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, limits={"steps": 4})
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert (row["status"], row["lock"]["what"]) == ("suspended_locked", "steps")
        await sent(author, run_id, "unlock", 422, reason="more", checks=["cost_accepted"])
        checks = ["cause_understood", "cost_accepted", "workflow_reviewed"]
        await sent(author, run_id, "unlock", reason="more", checks=checks, limits={"steps": 99})
        assert (await server.context.runs.result(run_id)).status == "completed"
        fork = await sent(author, run_id, "fork", 201, at="Writer[2]/Reviewer", message="shorter draft")
        assert (await server.context.runs.result(fork["id"])).status == "completed"
        row = (await author.get(f"{RUNS}/{fork['id']}")).json()
        assert (row["parent"], row["forked_at"]) == (run_id, "Writer[2]/Reviewer")
        assert (await sent(author, run_id, "replay"))["difference"] is None

    played(story)


def test_a_failed_run_is_retried_with_other_replies() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, script={**REPLIES, "Reviewer": [{"error": "no"}]})
        assert (await author.get(f"{RUNS}/{run_id}")).json()["status"] == "failed"
        await sent(author, run_id, "resume", 409)
        await sent(author, run_id, "retry", script=REPLIES)
        assert (await server.context.runs.result(run_id)).status == "completed"

    played(story)


def test_a_start_is_repeated_without_a_second_run() -> None:
    async def story(server: Server) -> None:
        author, other = await server.client("author"), await server.client("author")
        body = {"workflow": {"text": REVIEW}, "input": "go", "script": REPLIES}
        key = {"idempotency-key": "order-7"}
        first, again = [(await author.post(RUNS, json=body, headers=key)).json()["id"] for _ in range(2)]
        assert first == again
        changed = await author.post(RUNS, json={**body, "input": "stop"}, headers=key)
        assert changed.status_code == 409 and changed.json()["type"].endswith("idempotency-conflict")
        assert (await other.post(RUNS, json=body, headers=key)).json()["id"] != first

    played(story)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"workflow": "nowhere"}, 404),
        ({"workflow": {"text": "graph: {"}}, 422),
        ({"workflow": {"text": REVIEW}}, 422),  # without a script, its models are not allowed
        ({"workflow": {"text": REVIEW}, "script": REPLIES, "limit": {"steps": 1}}, 422),
        ({"workflow": {"text": REVIEW}, "script": REPLIES, "limits": {"stepps": 1}}, 422),
        ({"workflow": {"text": REVIEW}, "script": REPLIES, "breakpoints": ["Reviever"]}, 422),
    ],
)
def test_a_wrong_start_leaves_no_run(body: dict[str, Any], status: int) -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        answer = await author.post(RUNS, json=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert (await author.get(RUNS)).json()["runs"] == []

    played(story)
