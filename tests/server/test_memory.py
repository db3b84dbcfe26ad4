"""The memory of groups over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import roundel.runs.memory
from roundel.memory.store import Item, Shelf
from tests.server.api import Server, serving
from tests.server.live import loop_text


def story(work: Callable[[Server], Any], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


def test_memory_is_promoted_listed_searched_and_deleted() -> None:
    async def work(server: Server) -> None:
        red = await server.client("author", groups=["red"])
        for text in ("Tea comes from China.", "Coffee comes from Ethiopia.", "Rain comes from clouds."):
            promoted = await red.post("/api/v1/memory/red", json={"text": text})
            assert promoted.status_code == 201
            assert promoted.json()["entries"][0]["text"] == text
        listed = (await red.get("/api/v1/memory/red")).json()
        assert [entry["text"].split()[0] for entry in listed["entries"]] == ["Rain", "Coffee", "Tea"]
        assert listed["next"] is None and listed["entries"][0]["shelf"] == "long_term"
        first = (await red.get("/api/v1/memory/red", params={"limit": 2})).json()
        second = (await red.get("/api/v1/memory/red", params={"limit": 2, "cursor": first["next"]})).json()
        assert first["entries"] + second["entries"] == listed["entries"] and second["next"] is None
        found = (await red.get("/api/v1/memory/red/search", params={"q": "where is coffee from"})).json()
        assert found["entries"][0]["text"].startswith("Coffee")
        entry = listed["entries"][0]["id"]
        assert (await red.delete(f"/api/v1/memory/red/{entry}")).status_code == 204
        assert (await red.delete(f"/api/v1/memory/red/{entry}")).status_code == 404
        assert (await red.get("/api/v1/memory/red", params={"kind": "working"})).json()["entries"] == []
        assert (await red.delete("/api/v1/memory/red")).json() == {"deleted": 2}
        assert (await red.get("/api/v1/memory/red")).json()["entries"] == []
        actions = [one.body["action"] for one in await server.context.documents.entries("audit")]
        assert actions == ["memory.forget_all", *["memory.forget"] * 2, *["memory.promote"] * 3]

    story(work)


def test_output_of_a_run_is_quarantined_until_it_is_promoted() -> None:
    async def work(server: Server) -> None:
        red = await server.client("author", groups=["red"])
        body = {"workflow": {"text": loop_text(2)}, "script": {"Writer": ["tea is green", "tea is black"]}}
        run_id = (await red.post("/api/v1/runs", json=body)).json()["id"]
        await server.context.runs.result(run_id)
        given = (await red.get(f"/api/v1/runs/{run_id}/quarantine")).json()["messages"]
        assert given[0]["content"] == "tea is green" and given[0]["node"] == "Writer"
        source = {"run": run_id, "at": given[0]["address"]}
        promoted = await red.post("/api/v1/memory/red", json=source)
        assert promoted.json()["entries"][0]["run_id"] == run_id
        nowhere = await red.post("/api/v1/memory/red", json={"run": run_id, "at": "Nowhere"})
        assert nowhere.status_code == 422
        for wrong in ({}, {"text": "x", "entry": 1}, {"run": run_id, "text": "x"}, {"entry": 99}):
            assert (await red.post("/api/v1/memory/red", json=wrong)).status_code == 422

    story(work)


def test_pages_of_a_kind_skip_the_entries_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundel.runs.memory, "PAGE", 3)

    async def work(server: Server) -> None:
        viewer = await server.client("viewer", groups=["red"])
        memories = server.context.runs.store.memory()
        for number in range(30):
            shelf = Shelf("red", "long_term" if number % 10 == 0 else "working")
            await memories.remember(shelf, [Item(f"entry {number}", 1.0)])
        seen: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            query = {"kind": "long_term", "limit": "2", "cursor": cursor}
            page = (await viewer.get("/api/v1/memory/red", params=query)).json()
            seen += [entry["text"] for entry in page["entries"]]
            cursor = page["next"]
        assert seen == ["entry 20", "entry 10", "entry 0"]

    story(work)


def test_group_sees_nothing_of_another() -> None:
    async def work(server: Server) -> None:
        root, red = await server.client("admin"), await server.client("admin", groups=["red"])
        blue = (await root.post("/api/v1/memory/blue", json={"text": "secret of blue"})).json()["entries"][0]
        for answer in (
            await red.get("/api/v1/memory/blue"),
            await red.get("/api/v1/memory/blue/search", params={"q": "secret"}),
            await red.post("/api/v1/memory/blue", json={"text": "x"}),
            await red.delete(f"/api/v1/memory/blue/{blue['id']}"),
            await red.delete(f"/api/v1/memory/red/{blue['id']}"),
            await red.delete("/api/v1/memory/blue"),
            await red.get("/api/v1/memory/~"),
        ):
            assert answer.status_code == 404
        assert (await red.post("/api/v1/memory/red", json={"entry": blue["id"]})).status_code == 422
        assert (await root.get("/api/v1/memory/blue")).json()["entries"] == [blue]
        assert (await root.get("/api/v1/memory/~")).json()["entries"] == []
        body = {"workflow": {"text": loop_text(2)}, "script": {"Writer": ["x"]}, "group": "blue"}
        run_id = (await root.post("/api/v1/runs", json=body)).json()["id"]
        await server.context.runs.result(run_id)
        stolen = await red.post("/api/v1/memory/red", json={"run": run_id, "at": "Writer[1]"})
        assert stolen.status_code == 404

    story(work)
