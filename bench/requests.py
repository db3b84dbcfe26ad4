"""What ordinary requests cost, beside another version of Roundel.

`ROUNDEL_BASE=DIR python -m bench requests`, where DIR is a checkout of the other version with its environment
in `.venv`. Both servers run at the same time, each on a store of its own with the same runs, and one client
sends the same requests to both in turn, in short blocks whose order alternates: what else happens on the
machine hits both alike. The figures are the medians of latency, and the CPU time of each server with its
child processes, as ratios to the other version.

Without ROUNDEL_BASE the other version is this one: the ratios then show how much noise there is.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.server.live import ROOT, loop_text
from tests.server.load import LINES, Client, free_port

BLOCKS = int(os.environ.get("ROUNDEL_BLOCKS", "60"))
REPEATS = 10
"""Requests of one kind in a block."""
RUNS = 50
"""Runs in each store before the measurement."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
CONDITION = {
    "kind": "condition",
    "config": {"contains": "ACCEPT"},
    "text": "ACCEPT: the text is good.",
}


class Version:
    """A server of one version, in a process of its own, and a client of it."""

    def __init__(self, tree: Path, folder: Path) -> None:
        python = tree / ".venv" / "bin" / "python"
        self._command = [str(python) if python.exists() else sys.executable, "-m", "roundel"]
        self._environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        self._folder, self._store = folder, f"sqlite:///{folder / 'runs.db'}?sync=normal"
        self._process: asyncio.subprocess.Process
        self.client: Client
        self.run_id = ""
        self.seconds: dict[str, list[float]] = {}

    async def start(self) -> None:
        token = await self._output("token", "create", "--role", "admin", "--name", "bench")
        port = free_port()
        self._process = await self._spawn("serve", "--port", str(port), "--max-runs", "1000")
        self.client = Client(port, token.strip())
        while True:
            try:
                await self.client.request("GET", "/healthz")
                break
            except OSError:
                await asyncio.sleep(0.05)
        body, only_new = {"text": loop_text(3)}, {"if-none-match": "*"}
        assert (await self.client.request("PUT", "/api/v1/workflows/review", body, only_new))[0] == 201
        for _ in range(RUNS):
            await self.send("start")
        self.run_id = (await self.client.request("GET", "/api/v1/runs"))[1]["runs"][-1]["id"]
        await self.client.close()  # a server ends connections that are idle while the other one starts

    async def _spawn(self, *arguments: str, **streams: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            *("--store", self._store),
            cwd=self._folder,
            env=self._environment,
            **({"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL} | streams),
        )

    async def _output(self, *arguments: str) -> str:
        process = await self._spawn(*arguments, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()

    async def end(self) -> None:
        self._process.terminate()
        await self._process.wait()

    async def send(self, kind: str) -> None:
        status, answer = await REQUESTS[kind](self)
        assert status < 300, (kind, status, answer)

    async def block(self, kind: str) -> None:
        for _ in range(REPEATS):
            begin = time.perf_counter()
            await self.send(kind)
            self.seconds.setdefault(kind, []).append(time.perf_counter() - begin)

    def cpu_seconds(self) -> float:
        """The CPU time of the server and of the processes that it has started."""
        return sum(_cpu_seconds(pid) for pid in (self._process.pid, *_children(self._process.pid)))


Answer = Awaitable[tuple[int, Any]]
REQUESTS: dict[str, Callable[[Version], Answer]] = {
    "health": lambda one: one.client.request("GET", "/healthz"),
    "me": lambda one: one.client.request("GET", "/api/v1/me"),
    "list of runs": lambda one: one.client.request("GET", "/api/v1/runs?limit=50"),
    "one run": lambda one: one.client.request("GET", f"/api/v1/runs/{one.run_id}"),
    "its output": lambda one: one.client.request("GET", f"/api/v1/runs/{one.run_id}/output"),
    "its rounds": lambda one: one.client.request("GET", f"/api/v1/runs/{one.run_id}/rounds"),
    "list of workflows": lambda one: one.client.request("GET", "/api/v1/workflows"),
    "check": lambda one: one.client.request("POST", "/api/v1/check", {"text": loop_text(3)}),
    "try": lambda one: one.client.request("POST", "/api/v1/try", CONDITION),
    "start": lambda one: one.client.request(
        "POST", "/api/v1/runs", {"workflow": "review", "input": "tea", "script": LINES}
    ),
}


def _cpu_seconds(pid: int) -> float:
    # The name of the process, in brackets, may contain spaces.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / CLOCK_TICKS


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="utf-8").split():
            found += [int(child), *_children(int(child))]
    return found


async def measure(folder: Path) -> None:
    base = Path(os.environ.get("ROUNDEL_BASE", ROOT))
    versions = [Version(tree, folder / name) for name, tree in (("base", base), ("here", ROOT))]
    cpu: dict[str, list[float]] = {kind: [0.0, 0.0] for kind in REQUESTS}
    for version, name in zip(versions, ("base", "here"), strict=True):
        (folder / name).mkdir()
        await version.start()
    try:
        for kind in REQUESTS:  # once, so that nothing is measured that happens only the first time
            for version in versions:
                await version.send(kind)
        for number in range(BLOCKS):
            for kind in REQUESTS:
                for at in (0, 1) if number % 2 else (1, 0):
                    before = versions[at].cpu_seconds()
                    await versions[at].block(kind)
                    cpu[kind][at] += versions[at].cpu_seconds() - before
    finally:
        for version in versions:
            await version.client.close()
            await version.end()
    _show(versions, cpu)


def _show(versions: list[Version], cpu: dict[str, list[float]]) -> None:
    print(f"{'request':18} {'base ms':>8} {'here ms':>8} {'ratio':>6} {'CPU ratio':>10}")
    for kind in REQUESTS:
        base, here = (statistics.median(one.seconds[kind]) * 1000 for one in versions)
        work = cpu[kind][1] / cpu[kind][0] if cpu[kind][0] else float("nan")
        print(f"{kind:18} {base:8.2f} {here:8.2f} {here / base:5.2f}× {work:9.2f}×")
    medians = [sum(statistics.median(one.seconds[kind]) for kind in REQUESTS) for one in versions]
    spent = [sum(times[at] for times in cpu.values()) for at in (0, 1)]
    print(f"{'together':18} {'':8} {'':8} {medians[1] / medians[0]:5.2f}× {spent[1] / spent[0]:9.2f}×")


def report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
    print("target: an ordinary request costs at most 1.05× that of the other version\n")


if __name__ == "__main__":
    report()
