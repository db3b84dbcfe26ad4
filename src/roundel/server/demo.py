"""The demo of `roundel serve --demo`: runs to look at, with no key and no network.

The workflows and their scripts are in `roundel/demo`, and the engine is the real one. A server that shows the
demo has a store in memory, so nothing of it is left behind.

    finished    some runs that are over, one of which has failed
    circles     repeats itself until the breaker locks it
    letter      waits for a person
    slogan      converges slowly; a new run begins some seconds after the last one is over
    parser      a loop in a loop, likewise

The number of new runs is bounded: a server that somebody forgets must not fill the memory of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from importlib.resources import files

import msgspec
from msgspec import Struct

from roundel.journal.store import NoRun
from roundel.kernel.events import is_over
from roundel.llm.script import Script, script_from
from roundel.server.context import ServerContext
from roundel.server.library import WORKFLOWS, SavedWorkflow, compile_accepted, document_key, in_reader
from roundel.server.problems import Problem

MAX_RUNS = 200
"""Runs of each kind that a demo starts, one after the other."""
PAUSE_SECONDS = 5.0
"""From the end of a run to the start of the next one."""
LOOK_SECONDS = 0.5
"""How often the demo looks whether a run is over. Not by waiting for its result: somebody may pause it."""
STARTED_BY = "demo"
logger = logging.getLogger("roundel.server")


class DemoWorkflow(Struct, frozen=True):
    """A workflow of the demo. `load_workflow` creates it."""

    name: str
    text: str
    script: str
    """The text of its script file."""
    description: str
    """What it shows: the comment at the beginning of its file."""


def load_workflow(name: str) -> DemoWorkflow:
    folder = files("roundel") / "demo"
    text = (folder / f"{name}.yaml").read_text("utf-8")
    comment = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    script = (folder / f"{name}.script.yaml").read_text("utf-8")
    return DemoWorkflow(name, text, script, " ".join(comment))


NAMES = ("slogan", "parser", "letter", "circles")
REPEATED = {
    "slogan": ("a line that sells tea, at most twelve words", "a slogan for a tea house by the sea"),
    "parser": ("a parser for durations such as 2h 30m", "read the time limits of a settings file"),
}
"""Workflows that run again and again, with the inputs that they get in turn."""
WAITING = {"letter": "an invitation to tea", "circles": "Find a day for the launch."}
"""Workflows that run once, until they need a person."""
ANSWERED = """
Writer:
  - {text: "Dear Ann, please come to tea.", tokens: {input: 95, output: 12}}
  - {text: "Dear Ann, please come to tea on Sunday at four.", tokens: {input: 160, output: 18}}
Editor: [Say when., OK]
"""
FAILING = """
Writer: {text: Our tea is very good., tokens: {input: 210, output: 16}}
Critic: {error: too many requests, type: RateLimited}
"""
FINISHED = (
    ("letter", "an invitation to tea", ANSWERED),
    ("parser", "a parser for durations such as 2h 30m", ""),
    ("slogan", "a line that sells tea", FAILING),
    ("slogan", "a line that sells tea, at most twelve words", ""),
)
"""Runs that are over when somebody looks first: a workflow, its input, and a script if it is not its own."""


class Demo:
    """One for each server that shows the demo; `start` and `stop` frame its life."""

    def __init__(
        self,
        context: ServerContext,
        *,
        pause: float = PAUSE_SECONDS,
        max_runs: int = MAX_RUNS,
        with_delays: bool = True,
    ) -> None:
        self._context, self._pause, self._max_runs = context, pause, max_runs
        self._with_delays = with_delays
        self._workflows = {name: load_workflow(name) for name in NAMES}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._play(), name="roundel-demo")

    async def stop(self) -> None:
        """Starts no more runs. Those that are executed are handed back with all others of the server."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _play(self) -> None:
        try:
            await self._save_workflows()
            for name, text, other in FINISHED:
                script = script_from(other or self._workflows[name].script).without_delays()
                await self._wait(await self._start(name, text, script))
            for name, text in WAITING.items():
                await self._start(name, text)
            await asyncio.gather(*(self._repeat(name) for name in REPEATED))
        except Problem as problem:
            if problem.status != 503:  # which says that the server shuts down
                logger.warning("the demo has ended: %s", problem)
        except Exception:  # the server is of use without its demo
            logger.exception("the demo has ended")

    async def _save_workflows(self) -> None:
        for one in self._workflows.values():
            saved = SavedWorkflow(one.text, one.description)
            key = document_key("", one.name)
            await self._context.documents.put(
                WORKFLOWS, key, msgspec.to_builtins(saved), author=STARTED_BY, keep_history=True
            )
            # A person who starts one of them in the browser has no model either.
            self._context.scripts[one.name] = self._script(one.name)

    def _script(self, name: str) -> Script:
        script = script_from(self._workflows[name].script)
        return script if self._with_delays else script.without_delays()

    async def _start(self, name: str, text: str, script: Script | None = None) -> str:
        context = self._context
        source = self._workflows[name].text
        plan = await in_reader(compile_accepted, context.settings.policy, source, None, name)
        return await context.execute(
            lambda: context.runs.start(
                plan,
                text,
                script=script or self._script(name),
                group="",
                started_by=STARTED_BY,
                attach=context.attachment(),
            )
        )

    async def _repeat(self, name: str) -> None:
        for number in range(self._max_runs):
            inputs = REPEATED[name]
            await self._wait(await self._start(name, inputs[number % len(inputs)]))
            await asyncio.sleep(self._pause)

    async def _wait(self, run_id: str) -> None:
        """Returns when a run is over, or somebody has deleted it."""
        with contextlib.suppress(NoRun):
            while not is_over((await self._context.runs.store.row(run_id)).status):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
