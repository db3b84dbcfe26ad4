"""Runs whose node kills the process: the server survives, and everybody else is served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.server import deadly
from tests.server.counted import SECONDS, lines
from tests.server.live import ROOT
from tests.server.test_supervisor import Place, start_runs

POISON = """
graph:
  nodes:
    - {id: Boom, type: python, config: {function: 'tests.server.deadly:call'}}
    - {id: After, type: passthrough}
  edges: [{from: Boom, to: After}]
  start: Boom
  end: After
"""
SLOW = """
graph:
  nodes:
    - {id: Slow, type: python, config: {function: 'tests.server.counted:call'}}
  start: Slow
  end: Slow
"""
UNLOCK = {"reason": "repaired", "checks": ["cause_understood", "cost_accepted", "workflow_reviewed"]}


class DeadlyPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, seconds=3600)
        self.allow.write_text(
            'functions: ["tests.server.counted:call", "tests.server.deadly:call"]\n', encoding="utf-8"
        )
        self.boom, self.repaired = folder / "boom", folder / "repaired"
        self.environment |= {deadly.CALLS: str(self.boom), deadly.REPAIRED: str(self.repaired)}

    async def run_until_crash(self) -> None:
        """Starts a server, which the poisonous run kills, perhaps before it listens."""
        with contextlib.suppress(AssertionError):
            server = await self.start()
            assert await server.process.wait() == deadly.EXIT


async def start_and_crash(place: DeadlyPlace, client: httpx2.AsyncClient) -> None:
    """Starts the poisonous run. Its server may be dead before it can answer."""
    with contextlib.suppress(httpx2.TransportError):
        await start_runs(client, 1, POISON)


def test_run_is_locked_after_three_crashes_and_its_neighbour_is_not(tmp_path: Path) -> None:
    async def work() -> None:
        place = DeadlyPlace(tmp_path)
        await place.prepare()
        server = await place.start()
        async with place.client(server) as client:
            (neighbour,) = await start_runs(client, 1, SLOW)
            while not lines(place.calls):  # noqa: ASYNC110 (the call is made in another process)
                await asyncio.sleep(0.01)
            await start_and_crash(place, client)
        assert await server.process.wait() == deadly.EXIT
        while len(lines(place.boom)) < 3:
            await place.run_until_crash()
        # The first crash came after its call, the second may have come before it.
        assert len(lines(place.calls)) <= 2, "at the third crash its neighbour was not executed"

        place.environment[SECONDS] = "0"
        server = await place.start()
        async with place.client(server) as client:
            found = (await client.get("/api/v1/runs")).json()["runs"]
            (poison,) = {row["id"] for row in found} - {neighbour}
            (later,) = await start_runs(client, 1, SLOW)
            ended = await place.wait(poison, neighbour, later)
            assert ended == {poison: "suspended_locked", neighbour: "completed", later: "completed"}
            assert len(lines(place.boom)) == 3
            lock = (await client.get(f"/api/v1/runs/{poison}")).json()["lock"]
            assert (lock["what"], lock["address"]) == ("crashes", "Boom")
            assert lock["evidence"] == {"crashes": 3, "in_flight": ["Boom"]}

            place.repaired.touch()
            assert (await client.post(f"/api/v1/runs/{poison}/unlock", json=UNLOCK)).status_code == 200
            assert await place.wait(poison) == {poison: "completed"}
            assert (await client.get(f"/api/v1/runs/{poison}")).json()["output"] == "run 0, alive"
        assert len(lines(place.boom)) == 4
        assert await server.end() == 0

    asyncio.run(work())


def test_resume_on_the_command_line_counts(tmp_path: Path) -> None:
    file, boom, repaired = tmp_path / "poison.yaml", tmp_path / "boom", tmp_path / "repaired"
    file.write_text(POISON, encoding="utf-8")

    def roundel(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "roundel", *words, "--store", str(tmp_path / "runs.db")],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                deadly.CALLS: str(boom),
                deadly.REPAIRED: str(repaired),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    assert roundel("run", str(file), "--input", "go").returncode == deadly.EXIT
    assert [roundel("resume", "last").returncode for _ in range(2)] == [deadly.EXIT] * 2
    refused = roundel("resume", "last")
    assert refused.returncode not in (0, deadly.EXIT)
    assert "3 processes in a row died while they executed it, with Boom in flight" in refused.stderr
    assert "unlock" in refused.stderr.splitlines()[-1]
    assert len(lines(boom)) == 3

    checks = [f"--{check.replace('_', '-')}" for check in UNLOCK["checks"]]
    # An unlock tries again, and is counted anew.
    assert roundel("unlock", "last", "--reason", "again", *checks).returncode == deadly.EXIT
    assert roundel("resume", "last").returncode == deadly.EXIT
    repaired.touch()
    assert roundel("resume", "last").returncode == 0
    assert "go, alive" in roundel("log", "last").stdout
    assert len(lines(boom)) == 6
