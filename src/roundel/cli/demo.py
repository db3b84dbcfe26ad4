"""`roundel demo`: a loop that ends because it is good, and one that is stopped because it goes in circles."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roundel.cli.execution import person_is_there
from roundel.cli.next_step import program, suggest_plainly
from roundel.cli.stored import finished
from roundel.hosts.local_run import LocalRun
from roundel.kernel.events import Event
from roundel.kernel.facts import Unlocked
from roundel.kernel.unlock import CHECKS
from roundel.llm.scripted import Script, script_from
from roundel.plan.graph import Plan, compile_workflow
from roundel.runs.rounds import loop_rounds
from roundel.workflow.loader import examine_text
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from rich.console import Console

    from roundel.hosts.engine import Result
    from roundel.kernel.state import Run

NOTE = "You have both said that any day will do. Name one."
FIRST = "my-workflow"


@click.command("demo")
def command() -> None:
    """See two loops, with no key and no network: one that ends because it is good enough, and one that the
    breaker stops because it goes in circles, with the evidence, and the unlock."""
    from roundel.cli.output import console

    finished(lambda: _play(console()))


async def _play(out: Console) -> None:
    from rich.text import Text

    from roundel.cli.evidence import evidence

    out.rule(Text("1  A loop that ends because it is good enough", "bold"))
    out.print("A writer and a critic go round until the score is 90; at most 8 times.\n")
    plan, script = _story("polish", out.is_terminal)
    events: list[Event] = []
    host = LocalRun(plan, script=script, on_event=events.append)
    result = await _shown(host, plan, out, "a line that sells tea")
    _plot(events, out)
    out.print(Text(f"{result.output}\n", "bold"))
    out.rule(Text("2  A loop that goes in circles", "bold"))
    out.print("Ann and Ben are too polite to decide. Only the cap of 100 rounds would end it.\n")
    plan, script = _story("circles", out.is_terminal)
    host = LocalRun(plan, script=script)
    await _shown(host, plan, out, "Find a day for the launch.")
    lock = host.state.lock
    assert lock is not None
    out.print("", evidence(lock), "", sep="\n")
    if person_is_there():
        from roundel.cli.prompt import ask

        ask("Press Enter to unlock it ")
    await _unlocked(host, plan, script, out)
    _suggest()


def _story(name: str, slowly: bool) -> tuple[Plan, Script]:
    """A workflow and its script; without a terminal nobody watches, so nobody need wait."""
    folder = files("roundel.demo")
    from roundel.nodes import TYPES

    workflow, _ = examine_text((folder / f"{name}.yaml").read_text("utf-8"), TYPES)
    assert workflow is not None
    script = script_from((folder / f"{name}.script.yaml").read_text("utf-8"))
    return compile_workflow(workflow), script if slowly else script.at_once()


async def _shown(host: LocalRun, plan: Plan, out: Console, text: str) -> Result:
    return await _watched(host, plan, out, lambda: host.run((Message(text),)))


async def _watched(host: LocalRun, plan: Plan, out: Console, go: Any, goes_on: Run | None = None) -> Result:
    from roundel.cli.live import LiveView

    view = LiveView(plan, out, out.is_terminal, scripted=True, goes_on=goes_on)
    host.observe(view)
    with view:
        result: Result = await go()
        view.settle(result.usage)
    return result


def _plot(events: list[Event], out: Console) -> None:
    from roundel.cli.plotting.text import TextPlot

    out.print(TextPlot(loop_rounds(events, {"Writer", "Critic"})))


async def _unlocked(locked: LocalRun, plan: Plan, script: Script, out: Console) -> None:
    from rich.text import Text

    fact = Unlocked("they are about to agree", "you", CHECKS, locked.now(), note=NOTE)
    out.print(Text("unlocked", "bold").append(", as this command does for a run that is kept:", "not bold"))
    out.print(Text(f"  {_command(fact)}\n", "cyan", overflow="fold"), soft_wrap=True)
    host = LocalRun(plan, script=script, run_id=locked.run_id)
    state = locked.state
    result = await _watched(host, plan, out, lambda: host.resume(state, fact), goes_on=state)
    out.print(Text(f"{result.output}\n", "bold"))


def _command(fact: Unlocked) -> str:
    """What would do the same to a run of the store."""
    checks = [f"--{name.replace('_', '-')}" for name in fact.checks]
    words = ["unlock", "last", "--reason", fact.reason, *checks, "--note", fact.note]
    return shlex.join([*program(), *words])


def _suggest() -> None:
    """A workflow of one's own: to write it, or to run it if it has been written before."""
    if Path(f"{FIRST}.yaml").exists():
        suggest_plainly("run", f"{FIRST}.yaml", "--script", f"{FIRST}.script.yaml", "--input", "tea")
    else:
        suggest_plainly("new", FIRST)
