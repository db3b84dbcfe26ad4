"""Servers with a socket, in this process and in others, and what their tests share."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from roundel.hosts.local import LocalEngine
from roundel.journal.registry import open_store
from roundel.runs.runs import Runs
from roundel.server.context import ServerSettings
from roundel.server.identity import Identities, Role, token_names
from roundel.server.serving import Serving
from roundel.workflow.policy import Policy

ROOT = Path(__file__).parents[2]
LOOP = """
graph:
  id: review
  nodes:
    - {id: Writer, type: agent, config: {role: Write.}}
    - {id: Guard, type: loop_counter, config: {max_iterations: ROUNDS}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Guard}
    - {from: Writer, to: Writer}
    - {from: Guard, to: Final}
    - {from: Guard, to: Writer}
  start: Writer
  end: Final
breaker: false
limits: {rounds: 100000, steps: 1000000}
"""


def loop_text(rounds: int) -> str:
    """A workflow whose loop goes round so often; each round has some ten events."""
    return LOOP.replace("ROUNDS", str(rounds))


class SseReader:
    """Reads server-sent events from bytes, as a browser does."""

    def __init__(self) -> None:
        self._rest = b""
        self.last_id = ""

    def feed(self, data: bytes) -> list[tuple[str, str, str]]:
        """The events that are complete now: id, name and data."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        found = []
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
            if "event" in fields:
                self.last_id = fields.get("id", self.last_id)
                found.append((fields.get("id", ""), fields["event"], fields["data"]))
        return found


@contextlib.asynccontextmanager
async def listening(
    store: str, *, policy: Policy | None = None, **options: Any
) -> AsyncIterator[tuple[str, Runs, Serving]]:
    """A server in this process with a real socket: its address, its runs and itself."""
    opened = open_store(store)
    chosen = policy or Policy()
    runs = Runs(
        opened,
        engine=LocalEngine(lambda: opened, policy=chosen, token_name=token_names(opened.documents())),
        on_warnings=None,
    )
    serving = Serving(runs, ServerSettings(port=0, policy=chosen, **options))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serving.serve(ready.set_result))
    try:
        waited: list[asyncio.Future[Any]] = [ready, task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield ready.result().partition("/login")[0], runs, serving
    finally:
        serving.stop()
        await task
        await opened.close()


async def client_of(
    runs: Runs, address: str, role: Role = "admin", groups: list[str] | None = None
) -> httpx2.AsyncClient:
    token = await Identities(runs.store.documents()).create_token(role, role, groups)
    headers = {"authorization": f"Bearer {token.secret}"}
    return httpx2.AsyncClient(base_url=address, headers=headers, timeout=60)


class ServerProcess:
    """`roundel serve` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, code: str) -> None:
        self.process, self.address, self.code = process, address, code

    async def end(self, sent: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(sent)
        return await self.process.wait()


async def start_server(
    store: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    descriptors: int = 0,
    log: Path | None = None,
) -> ServerProcess:
    """Starts a server on a store, and returns when it listens. `descriptors` is how many it may have. Its log
    goes to a file, if one is given."""

    def limit_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with log.open("ab") if log is not None else contextlib.nullcontext() as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "roundel", "serve", "--port", "0", "--sign-in-link"),
            *("--store", f"sqlite:///{store}?sync=normal", *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            cwd=store.parent,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **(environment or {})},
            preexec_fn=limit_descriptors if descriptors else None,
        )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    found = re.search(r"(https?://\S+)/login\?code=(\S+)", line)
    assert found is not None, f"it printed {line!r}"
    return ServerProcess(process, found[1], found[2])
