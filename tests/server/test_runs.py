"""Runs over HTTP: a person starts, watches, debugs, answers, unlocks, forks and retries them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from roundel.kernel.events import stamp
from roundel.kernel.facts import Answered, Started
from roundel.server.supervisor import Supervisor
from tests.server.api import Server, serving
from tests.server.live import loop_text

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
        assert [(one["failed"], one["ended"] >= one["started"]) for one in bands["rounds"]] == [(0, True)] * 2
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


def test_a_variable_that_the_workflow_does_not_have_is_refused() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        text = REVIEW + "\nvars: {TOPIC: tea}\n"
        run_id = await started(server, author, text, variables={"TOPIC": "milk"})
        body = {"workflow": {"text": text}, "variables": {"TOPICS": "milk"}}
        refused = await author.post(RUNS, json={**body, "script": REPLIES})
        assert refused.status_code == 422
        [found] = refused.json()["diagnostics"]
        assert (found["code"], found["hint"]) == ("unknown-variable", "did you mean 'TOPIC'?")
        [found] = (await sent(author, run_id, "fork", 422, at="Writer[2]", **body))["diagnostics"]
        assert found["code"] == "unknown-variable"

    played(story)


def test_a_limit_that_does_not_exist_is_refused_wherever_it_is_given() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        refused = await author.post(RUNS, json={"workflow": {"text": REVIEW}, "limits": {"max_tokens": 9}})
        assert refused.status_code == 422
        assert "there is no limit 'max_tokens'; did you mean 'tokens'?" in refused.json()["detail"]
        run_id = await started(server, author, limits={"steps": 4})
        checks = ["cause_understood", "cost_accepted", "workflow_reviewed"]
        body = await sent(author, run_id, "unlock", 422, reason="more", checks=checks, limits={"calls": 9})
        assert "did you mean 'model_calls'?" in body["detail"]
        body = await sent(author, run_id, "fork", 422, at="Writer[2]", limits={"timeout": 9})
        assert "did you mean 'seconds'?" in body["detail"]
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert row["status"] == "suspended_locked"

    played(story)


def test_a_fork_that_is_to_wait_is_left_alone_until_somebody_resumes_it() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author)
        fork = await sent(author, run_id, "fork", 201, at="Writer[2]", run=False)
        assert fork["status"] == "paused"
        await Supervisor(server.context).scan()
        row = (await author.get(f"{RUNS}/{fork['id']}")).json()
        assert (row["status"], row["is_executed"]) == ("paused", False)
        await sent(author, fork["id"], "resume")
        assert (await server.context.runs.result(fork["id"])).status == "completed"

    played(story)


def test_a_failed_run_is_retried_with_other_replies() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, script={**REPLIES, "Reviewer": [{"error": "no"}]})
        assert (await author.get(f"{RUNS}/{run_id}")).json()["status"] == "failed"
        [loop] = (await author.get(f"{RUNS}/{run_id}/rounds")).json()
        assert [(one["status"], one["failures"]) for one in loop["rounds"]] == [("failed", 1)]
        [bands] = (await author.get(f"{RUNS}/{run_id}/rounds", params={"band": 10})).json()
        assert [one["failed"] for one in bands["rounds"]] == [1]
        await sent(author, run_id, "resume", 409)
        await sent(author, run_id, "retry", script=REPLIES)
        assert (await server.context.runs.result(run_id)).status == "completed"

    played(story)


def test_failed_items_are_retried_in_a_new_run() -> None:
    text = """
graph:
  id: prices
  nodes:
    - id: Each
      type: loop_agent
      config: {strategy: {mode: array, on_error: drop}, body: {id: Price, type: agent}}
  start: Each
  end: Each
"""

    async def story(server: Server) -> None:
        author = await server.client("author")
        script = {"Price": ["one", {"error": "busy"}, "three"]}
        body = {"workflow": {"text": text}, "input": "[1, 2]", "script": script}
        run_id = (await author.post(RUNS, json=body)).json()["id"]
        assert (await server.context.runs.result(run_id)).output == '["one"]'
        await sent(author, run_id, "retry", 409)
        new = await sent(author, run_id, "retry", failed_items=True)
        assert new["id"] != run_id and new["parent"] == run_id
        assert (await server.context.runs.result(new["id"])).output == '["one", "three"]'
        await sent(author, new["id"], "retry", 409, failed_items=True)

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


def test_the_plan_of_a_run_is_what_it_executes() -> None:
    async def work(server: Server) -> None:
        operator = await server.client("author")
        text = loop_text(7)
        body = {"workflow": {"text": text}, "script": {"Writer": "a"}, "limits": {"tokens": 5000}}
        run_id = (await operator.post("/api/v1/runs", json=body)).json()["id"]
        plan = (await operator.get(f"/api/v1/runs/{run_id}/plan")).json()
        assert plan["workflow"] == "review" and plan["drawing"]["density"] == "compact"
        assert [(loop["id"], loop["worst_case_rounds"]) for loop in plan["loops"]] == [("Writer", 7)]
        assert plan["limits"]["tokens"] == 5000 and plan["speakers"] == ["Writer"]
        assert plan["novelty"] is None and plan["time_limit"] is None, "the text turns the breaker off"
        assert plan["forecast"]["model_calls"]["worst"] == 7 * 2, "an empty answer is asked for again"
        wide = (await operator.get(f"/api/v1/runs/{run_id}/plan?density=normal")).json()
        assert wide["drawing"]["height"] > plan["drawing"]["height"]
        stranger = await server.client("viewer", groups=["red"])
        assert (await stranger.get(f"/api/v1/runs/{run_id}/plan")).status_code == 404

    played(work)


GATED = """
graph:
  id: gated
  start: Writer
  end: Done
  nodes:
    - {id: Writer, type: agent}
    - {id: Critic, type: agent}
    - {id: Gate, type: loop, config: {max_rounds: 9, exit_on_score: 90}}
    - {id: Editor, type: human, config: {description: "Is it good?"}}
    - {id: Done, type: passthrough}
  edges:
    - {from: Writer, to: Critic}
    - {from: Critic, to: Gate}
    - {from: Gate, to: Writer, port: continue}
    - {from: Gate, to: Editor, port: exit}
    - {from: Editor, to: Done}
"""
GATED_REPLIES = {
    "Writer": ["tea", "green tea", "green tea from Assam"],
    "Critic": [{"text": f"{score}", "data": {"score": score}} for score in (40, 70, 95)],
}


def test_a_row_shows_scores_questions_and_results() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, GATED, script=GATED_REPLIES)
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert (row["status"], row["scores"], row["threshold"]) == ("waiting", [40, 70, 95], 90)
        assert row["question"] == {
            "address": "Editor",
            "node_id": "Editor",
            "prompt": "Is it good?",
            "tool": None,
        }
        assert (row["results"], row["active"], row["work_seconds"] < 5) == ([], [], True)
        await sent(author, run_id, "answer", text="yes")
        await server.context.runs.result(run_id)
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert (row["status"], row["scores"], row["threshold"]) == ("completed", [40, 70, 95], 90)
        assert (row["question"], row["questions"]) == (None, [])
        assert row["results"] == [
            {"loop": "Writer", "rounds": 3, "exit_reason": "score_threshold_reached", "entries": 1}
        ]

    played(story)


def test_a_lock_is_one_sentence_and_ends_with_the_unlock() -> None:
    slow = {"Writer": ["one", {"text": "two", "delay": 30}], "Reviewer": ["shorter"]}

    async def story(server: Server) -> None:
        author = await server.client("author")
        run_id = await started(server, author, limits={"steps": 2}, script=slow)
        row = (await author.get(f"{RUNS}/{run_id}")).json()
        assert row["lock"]["what"] == "steps"
        assert row["lock"]["text"] == "limit of 2 steps"
        checks = ["cause_understood", "cost_accepted", "workflow_reviewed"]
        row = await sent(author, run_id, "unlock", reason="more", checks=checks, limits={"steps": 40})
        assert (row["status"], row["lock"]) == ("running", None)
        await sent(author, run_id, "stop")

    played(story)


def test_runs_are_counted_and_listed_since_a_time() -> None:
    prices = "models: {default: {model: 'test:tea', price: {input: 1, output: 1}}}\n"

    async def story(server: Server) -> None:
        author, red = await server.client("author"), await server.client("author", groups=["red"])
        before = stamp(time.time() - 60)
        counted = (await author.get(f"{RUNS}/summary")).json()
        assert (counted["statuses"], counted["created"], counted["cost_usd"]) == ({}, 0, None)
        replies = {**GATED_REPLIES, "Writer": [{"text": "tea", "tokens": {"input": 400_000, "output": 0}}]}
        first = await started(server, author, prices + GATED, script=replies)
        await started(server, author)
        await started(server, red)
        counted = (await author.get(f"{RUNS}/summary", params={"since": before})).json()
        assert counted["statuses"] == {"waiting": 1, "completed": 2}
        assert (counted["needs_person"], counted["running"], counted["created"]) == (1, 0, 3)
        cost = (await author.get(f"{RUNS}/{first}")).json()["usage"]["cost_usd"]
        assert cost > 0 and counted["cost_usd"] == pytest.approx(cost)
        assert counted["since"] == before
        counted = (await red.get(f"{RUNS}/summary")).json()
        assert (counted["statuses"], counted["cost_usd"]) == ({"completed": 1}, None)
        counted = (await red.get(f"{RUNS}/summary", params={"group": ""})).json()
        assert counted["statuses"] == {}
        later = stamp(time.time() + 60)
        counted = (await author.get(f"{RUNS}/summary", params={"since": later})).json()
        assert (counted["created"], counted["cost_usd"], len(counted["statuses"])) == (0, None, 2)
        for since, expected in ((before, 3), (later, 0)):
            listed = (await author.get(RUNS, params={"since": since})).json()["runs"]
            assert len(listed) == expected
        assert (await author.get(RUNS, params={"since": "yesterday"})).status_code == 422
        needy = {"status": ["waiting", "suspended_locked", "paused"]}
        assert [one["id"] for one in (await author.get(RUNS, params=needy)).json()["runs"]] == [first]
        assert (await author.delete(f"{RUNS}/summary")).status_code == 404

    played(story)


PREVIEWED = """
graph:
  id: previewed
  start: Writer
  end: Done
  nodes:
    - {id: Writer, type: agent}
    - {id: Editor, type: human, config: {timeout: 2h}}
    - {id: Log, type: passthrough}
    - {id: Late, type: passthrough}
    - {id: Done, type: passthrough}
  edges:
    - {from: Writer, to: Editor}
    - {from: Editor, to: Writer, condition: {type: keyword, config: {none: [OK]}}}
    - {from: Editor, to: Done, condition: {cel: 'data.score >= 90 && round == 1'}}
    - {from: Editor, to: Log, trigger: false}
    - {from: Editor, to: Late, port: timeout}
"""


def test_the_edges_of_an_answer_are_previewed() -> None:
    async def story(server: Server) -> None:
        author, viewer = await server.client("author"), await server.client("viewer")
        foreign = await server.client("operator", groups=["red"])
        run_id = await started(server, author, PREVIEWED, script={"Writer": ["draft"]})
        before = (await author.get(f"{RUNS}/{run_id}/events", params={"follow": False})).text

        async def previewed(**body: Any) -> dict[str, tuple[bool, str | None]]:
            found = await sent(author, run_id, "answer/preview", **body)
            return {edge["target"]: (edge["fires"], edge["error"]) for edge in found}

        answer = await sent(author, run_id, "answer/preview", text="shorter", data={"score": 91})
        assert [(edge["source"], edge["target"], edge["leaves"], edge["back"]) for edge in answer] == [
            ("Editor", "Writer", False, True),
            ("Editor", "Done", True, False),
            ("Editor", "Log", True, False),
            ("Editor", "Late", True, False),
        ]
        assert answer[1]["text"] == "data.score >= 90 && round == 1"
        assert [edge["triggers"] for edge in answer] == [True, True, False, True]
        assert [edge["fires"] for edge in answer] == [True, True, True, False]
        plain = await previewed(text="OK", at="Writer[1]/Editor")
        assert (plain["Writer"], plain["Log"]) == ((False, None), (True, None))
        fires, error = plain["Done"]
        assert not fires and error is not None and "score" in error
        assert (await previewed(data={"score": 10}))["Done"] == (False, None)
        assert (await previewed(data={"score": 10}))["Writer"] == (True, None)

        await sent(viewer, run_id, "answer/preview", 403, text="OK")
        await sent(foreign, run_id, "answer/preview", 404, text="OK")
        await sent(author, run_id, "answer/preview", 409, text="OK", at="Writer")
        await sent(author, run_id, "answer/preview", 422, text="x" * 200_000)
        after = (await author.get(f"{RUNS}/{run_id}/events", params={"follow": False})).text
        assert after == before
        await sent(author, run_id, "answer", text="OK", data={"score": 95})
        assert (await server.context.runs.result(run_id)).status == "completed"
        await sent(author, run_id, "answer/preview", 409, text="OK")

    played(story)


def test_a_script_may_be_the_text_of_a_script_file() -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        body = {"workflow": {"text": REVIEW}, "input": "tea", "script": "Writer: [a, b, c]\nReviewer: no\n"}
        run_id = (await author.post(RUNS, json=body)).json()["id"]
        assert (await server.context.runs.wait(run_id)).completed
        wrong = await author.post(RUNS, json={**body, "script": "Writer: ["})
        assert wrong.status_code == 422
        (problem,) = wrong.json()["diagnostics"]
        assert problem["file"] == "<script>" and problem["line"] == 1

    played(work)


def test_a_run_of_a_saved_workflow_has_its_name_and_version_and_who_started_it() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        url = "/api/v1/workflows/Tea"
        new = await author.put(url, json={"text": ASKS}, headers={"if-none-match": "*"})
        assert new.status_code == 201, new.text
        changed = ASKS.replace("good", "hot")
        etag = {"if-match": new.headers["etag"]}
        assert (await author.put(url, json={"text": changed}, headers=etag)).status_code == 200
        answer = await author.post(RUNS, json={"workflow": "Tea", "input": "go"})
        assert answer.status_code == 202, answer.text
        run_id = answer.json()["id"]
        await server.context.runs.result(run_id)
        await started(server, author)  # of a text
        listed = (await author.get(RUNS, params={"saved_as": "Tea"})).json()["runs"]
        assert [(row["id"], row["saved_as"], row["workflow_version"]) for row in listed] == [
            (run_id, "Tea", "2")
        ]
        assert (await author.get(RUNS, params={"saved_as": "Te"})).json()["runs"] == []
        fork = (await sent(author, run_id, "fork", 201, at="Editor", run=False))["id"]
        row = (await author.get(f"{RUNS}/{fork}")).json()
        assert (row["saved_as"], row["workflow_version"], row["parent"]) == ("Tea", "2", run_id)
        await sent(author, run_id, "answer", text="yes")
        facts = [entry.fact for entry in await server.context.runs.store.entries(run_id)]
        begun, answered = facts[0], next(fact for fact in facts if isinstance(fact, Answered))
        assert isinstance(begun, Started)
        assert (begun.saved_as, begun.workflow_version) == ("Tea", "2")
        assert begun.by == answered.by != ""

    played(story)
