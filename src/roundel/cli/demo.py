"""`roundel demo`: two loops, one that ends because its result is good enough, and one that the breaker
stops.

It uses the real engine with a scripted model and a store in memory, so it needs no key and no network,
and shows exactly what a user's own run would show.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roundel.cli.execution import is_interactive
from roundel.cli.next_step import program, suggest_without_store
from roundel.cli.output import print_warnings
from roundel.cli.store_access import run_to_end
from roundel.hosts.engine import Attach, Attachment, Inspection, Result
from roundel.kernel.unlock import CHECKS
from roundel.llm.script import Script, script_from
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.runs.runs import Runs
from roundel.workflow.loader import examine_text

if TYPE_CHECKING:
    from rich.console import Console

    from roundel.cli.live_view import LiveView

REASON = "they are about to agree"
NOTE = "You have both said that any day will do. Name one."
FIRST = "my-workflow"


@click.command("demo")
def demo_command() -> None:
    """Watch two loops, with no key and no network: one ends because its result is good enough; the
    breaker stops the other one because it repeats itself, shows the evidence, and you unlock it."""
    from roundel.cli.output import console

    run_to_end(lambda: _play(console()))


async def _play(out: Console) -> None:
    from rich.text import Text

    from roundel.cli.prompt import evidence

    async with Runs("memory:", on_warnings=print_warnings) as runs:
        out.rule(Text("1  A loop that ends because it is good enough", "bold"))
        out.print("A writer and a critic iterate until the score is 90, at most 8 times.\n")
        view = _DemoView(runs, out)
        run_id = await _start(runs, view, "polish", "a line that sells tea")
        result = await view.watch(run_id)
        await _plot(runs, run_id, out)
        out.print(Text(f"{result.output}\n", "bold"))
        out.rule(Text("2  A loop that goes in circles", "bold"))
        out.print("Ann and Ben are too polite to decide. Only the cap of 100 rounds would end it.\n")
        view = _DemoView(runs, out)
        run_id = await _start(runs, view, "circles", "Find a day for the launch.")
        await view.watch(run_id)
        out.print("", evidence(await runs.locked(run_id)), "", sep="\n")
        if is_interactive():
            from roundel.cli.prompt import ask

            ask("Press Enter to unlock it ")
        await _unlock(runs, run_id, out)
    _suggest()


class _DemoView:
    """The live view of one run of the demo."""

    def __init__(self, runs: Runs, out: Console) -> None:
        self._runs, self.out = runs, out
        self._view: LiveView | None = None

    async def attach(self, run_id: str, inspection: Inspection) -> Attachment:
        from roundel.cli.live_view import LiveView

        # A row means that the run existed before: here, that it was unlocked. Its earlier rounds then
        # count.
        before = await self._runs.view(run_id) if inspection.row is not None else None
        self._view = LiveView(
            inspection.plan,
            self.out,
            self.out.is_terminal,
            scripted=True,
            before=before,
            worked=inspection.state.worked if before is not None else 0.0,
        )
        # Entered here and left in `watch`: the view must exist before the first event, which precedes
        # `start`'s return.
        self._view.__enter__()
        return Attachment(on_event=self._view)

    async def watch(self, run_id: str) -> Result:
        """Waits until the run is idle."""
        assert self._view is not None
        try:
            return await self._runs.wait(run_id)
        finally:
            self._view.__exit__(None, None, None)


async def _start(runs: Runs, view: _DemoView, name: str, text: str) -> str:
    plan, script = _load_demo(name, view.out.is_terminal)
    return await runs.start(plan, text, script=script, attach=view.attach)


def _load_demo(name: str, with_delays: bool) -> tuple[Plan, Script]:
    """A workflow and its script; the delays of the script are for a person who watches in a terminal."""
    folder = files("roundel.demo")
    workflow, _ = examine_text((folder / f"{name}.yaml").read_text("utf-8"), TYPES)
    assert workflow is not None
    script = script_from((folder / f"{name}.script.yaml").read_text("utf-8"))
    return compile_workflow(workflow), script if with_delays else script.without_delays()


async def _plot(runs: Runs, run_id: str, out: Console) -> None:
    from roundel.cli.text_plot import TextPlot

    out.print(TextPlot(await runs.rounds(run_id)))


async def _unlock(runs: Runs, run_id: str, out: Console) -> None:
    from rich.text import Text

    out.print(Text("unlocked", "bold").append(", as this command does for a stored run:", "not bold"))
    out.print(Text(f"  {_command()}\n", "cyan", overflow="fold"), soft_wrap=True)
    view = _DemoView(runs, out)
    attach: Attach = view.attach
    await runs.unlock(run_id, REASON, checks=CHECKS, by="you", note=NOTE, execute=attach)
    result = await view.watch(run_id)
    out.print(Text(f"{result.output}\n", "bold"))


def _command() -> str:
    """The command that does the same to a stored run."""
    checks = [f"--{name.replace('_', '-')}" for name in CHECKS]
    return shlex.join([*program(), "unlock", "last", "--reason", REASON, *checks, "--note", NOTE])


def _suggest() -> None:
    """Suggests to write a first workflow, or to run it if it exists."""
    if Path(f"{FIRST}.yaml").exists():
        suggest_without_store("run", f"{FIRST}.yaml", "--script", f"{FIRST}.script.yaml", "--input", "tea")
    else:
        suggest_without_store("new", FIRST)
