"""What a call got, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from roundel.runs.calls import PAGE_CHARACTERS, CallDetails
from tests.server.api import Server, serving

WORKFLOW = """
models:
  default: {model: "openai:gpt-4o"}
graph:
  id: weather
  start: Writer
  end: Out
  nodes:
    - {id: Writer, type: agent, config: {role: Be brief.}}
    - {id: Guard, type: loop_counter, config: {max_iterations: 2}}
    - {id: Out, type: passthrough}
  edges:
    - {from: Writer, to: Guard}
    - {from: Writer, to: Writer}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Out}
"""
LONG = "word " * 30_000


def story(work: Callable[[Server], Any], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


async def start(server: Server) -> str:
    admin = await server.client("admin")
    body = {
        "workflow": {"text": WORKFLOW},
        "group": "red",
        "input": LONG,
        "script": {"Writer": ["one", "two"]},
    }
    answer = await admin.post("/api/v1/runs", json=body)
    assert answer.status_code == 202, answer.text
    run_id: str = answer.json()["id"]
    await server.context.runs.result(run_id)
    return run_id


def path(run_id: str, address: str) -> str:
    return f"/api/v1/runs/{run_id}/calls/{quote(address)}"


def test_a_viewer_of_the_group_sees_what_a_call_got() -> None:
    async def work(server: Server) -> None:
        run_id = await start(server)
        viewer = await server.client("viewer", groups=["red"])
        answer = await viewer.get(path(run_id, "Writer[2]/Writer"))
        assert answer.status_code == 200 and len(answer.content) < 40_000
        call = msgspec.json.decode(answer.content, type=CallDetails)
        assert call.system is not None and call.system.text == "Be brief."
        assert call.reply is not None and call.reply.text == "two"
        first = (await viewer.get(path(run_id, "Writer[1]/Writer"))).json()
        assert [message.get("more", False) for message in first["messages"]] == [True]
        same = (await viewer.get(path(run_id, "Writer[2]/Writer"), params={"call": 1})).json()
        assert same == answer.json()
        stranger = await server.client("viewer", groups=["blue"], name="stranger")
        assert (await stranger.get(path(run_id, "Writer[2]/Writer"))).status_code == 404
        nobody = await server.anyone()
        assert (await nobody.get(path(run_id, "Writer[2]/Writer"))).status_code == 401

    story(work)


def test_a_long_text_is_read_in_pages() -> None:
    async def work(server: Server) -> None:
        run_id = await start(server)
        viewer = await server.client("viewer")
        call = (await viewer.get(path(run_id, "Writer[1]/Writer"))).json()
        (long,) = [message for message in call["messages"] if message.get("more")]
        read = ""
        for offset in range(0, len(LONG), PAGE_CHARACTERS):
            params = {"piece": long["piece"], "offset": offset}
            page = (await viewer.get(path(run_id, "Writer[1]/Writer"), params=params)).json()
            read += page["text"]
            assert (page["offset"], page["length"]) == (offset, len(LONG))
            assert page["next"] == (len(read) if len(read) < len(LONG) else None)
        assert read == LONG

    story(work)


def test_what_is_not_there_is_a_404_that_says_so() -> None:
    async def work(server: Server) -> None:
        run_id = await start(server)
        viewer = await server.client("viewer")
        cases: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("Critic", {}, "no place 'Critic'"),
            ("Writer[2]", {}, "is a round"),
            ("Writer[9]/Writer", {}, "has called no model"),
            ("Out", {}, "has called no model"),
            ("Writer[2]/Writer", {"call": 2}, "has one call, and none with the number 2"),
            ("Writer[2]/Writer", {"piece": "f" * 32}, "has no piece"),
            ("Writer[2]/Writer", {"piece": "reply", "offset": 99}, "has 3 characters"),
        )
        for address, params, why in cases:
            answer = await viewer.get(path(run_id, address), params=params)
            assert answer.status_code == 404 and why in answer.json()["detail"], answer.text
        assert (await viewer.get(path("0" * 12, "Writer"))).status_code == 404
        for wrong in ({"call": "0"}, {"offset": "-1"}, {"call": "x"}):
            assert (await viewer.get(path(run_id, "Writer"), params=wrong)).status_code == 422
        await server.context.runs.prune(run_id, keep="last")
        answer = await viewer.get(path(run_id, "Writer[2]/Writer"))
        assert answer.status_code == 409 and "was pruned" in answer.json()["detail"]

    story(work)
