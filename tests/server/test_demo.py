"""The demo of `roundel serve --demo`: runs in every state, without a key, a network or a trace."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from roundel.server import demo
from roundel.server.demo import NAMES, Demo
from tests.server.api import Server, serving
from tests.server.live import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


async def counted(server: Server, **expected: int) -> None:
    """Waits until there are so many runs in each status."""
    async with asyncio.timeout(30):
        while (await server.context.runs.store.totals()).statuses != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_demo_has_runs_in_every_state_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LOOK_SECONDS", 0.02)

    async def story() -> None:
        async with serving() as server:
            shown = Demo(server.context, pause=0.02, max_runs=2, with_delays=False)
            shown.start()
            # Four runs at first; then slogan and parser, twice each. No third one begins.
            await counted(server, waiting=1, suspended_locked=1, failed=1, completed=7)
            await asyncio.sleep(0.2)
            await counted(server, waiting=1, suspended_locked=1, failed=1, completed=7)
            operator = await server.client("operator")
            rows = (await operator.get("/api/v1/runs")).json()["runs"]
            found = {(row["workflow"], row["status"]): row for row in rows}
            assert found["letter", "waiting"]["question"]["node_id"] == "Editor"
            assert found["circles", "suspended_locked"]["lock"]["what"] == "dead_loop"
            scores = found["slogan", "completed"]["scores"]
            assert scores == [41, 62, 47, 71, 79, 86, 93]
            assert [loop["loop"] for loop in found["parser", "completed"]["results"]] == ["Planner", "Coder"]
            assert found["parser", "completed"]["usage"]["cost_usd"] > 0
            await shown.stop()

    asyncio.run(story())


def test_workflows_of_the_demo_are_saved_and_start_without_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LOOK_SECONDS", 0.02)

    async def story() -> None:
        async with serving() as server:
            shown = Demo(server.context, max_runs=0, with_delays=False)
            shown.start()
            await counted(server, waiting=1, suspended_locked=1, failed=1, completed=3)
            author = await server.client("author")
            saved = (await author.get("/api/v1/workflows")).json()["workflows"]
            assert sorted(one["name"] for one in saved) == sorted(NAMES)
            assert all(one["description"] and not one["draft"] for one in saved)
            for name in NAMES:
                text = (await author.get(f"/api/v1/workflows/{name}")).json()["text"]
                checked: dict[str, Any] = (await author.post("/api/v1/check", json={"text": text})).json()
                assert checked["ok"], (name, checked["diagnostics"])
            started = await author.post("/api/v1/runs", json={"workflow": "slogan", "input": "tea"})
            assert started.status_code == 202, started.text
            assert (await server.context.runs.result(started.json()["id"])).status == "completed"
            await shown.stop()
        async with serving() as server:  # any other server has no scripts of its own
            author = await server.client("author")
            text = demo.load_workflow("slogan").text
            answer = await author.post("/api/v1/runs", json={"workflow": {"text": text}, "input": "tea"})
            assert answer.status_code == 422, answer.text

    asyncio.run(story())


def test_a_server_with_the_demo_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "roundel", "serve", "--demo", "--port", "0", "--sign-in-link"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env=ENVIRONMENT,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert b"/login?code=" in await process.stdout.readline()
        await asyncio.sleep(1)  # runs are in flight now
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(8):
            _, errors = await process.communicate()
        assert "nothing is kept" in errors.decode()
        assert "the server has stopped" in errors.decode()
        assert "Traceback" not in errors.decode()

    asyncio.run(story())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--store", "runs.db"), "--demo has a store of its own"),
        (("--host", "0.0.0.0"), "the demo is for this machine alone"),
    ],
)
def test_options_that_the_demo_cannot_have(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    async def story() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "roundel", "serve", "--demo", *options),
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env=ENVIRONMENT,
        )
        _, errors = await process.communicate()
        assert process.returncode == 2
        assert why in errors.decode()

    asyncio.run(story())
    assert not list(tmp_path.iterdir())
