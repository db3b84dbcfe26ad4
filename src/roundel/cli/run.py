"""`roundel run`: runs a workflow to its end, with a live view or with its events as JSON."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from roundel.cli import EXIT, INVALID
from roundel.cli.output import assignments, print_json, say, tell, variables
from roundel.hosts.local import LocalHost
from roundel.hosts.result import Question, Result
from roundel.kernel.events import stamp
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Script, load_script
from roundel.plan.graph import Plan, compile_workflow
from roundel.sources import check
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.graph import Limits, Workflow
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.cli.live import LiveView

LIMITS = ("rounds", "steps")


@click.command("run")
@click.argument("file")
@click.option("--input", "-i", "text", metavar="TEXT|-", help="The input; - reads standard input.")
@click.option(
    "--script", "script_file", metavar="FILE", help="Replies for models and people, to run offline."
)
@click.option("--record", "record_file", metavar="FILE", help="Keep what models say, as a script.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help=f"Set a limit: {', '.join(LIMITS)}.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
def command(
    file: str,
    text: str | None,
    script_file: str | None,
    record_file: str | None,
    as_json: bool,
    limits: tuple[str, ...],
    pairs: tuple[str, ...],
) -> None:
    """Run a workflow to its end.

    The result goes to standard output, everything else to standard error.
    Exit codes: 0 completed, 1 failed, 2 bad usage or an invalid workflow, 3 locked by a limit,
    4 waiting for a person, 130 stopped.
    """
    try:
        workflow = _limited(_loaded(file, variables(pairs)), assignments(limits, "--limit"))
        plan = compile_workflow(workflow)
        recorder = _recorder(record_file, script_file)
        script = _scripted(script_file, plan)
        messages = (Message(_input(text, workflow)),)
        make = partial(LocalHost, plan, script=script, record=recorder)
        if as_json:
            code = _run_as_json(make, messages)
        else:
            code = _run_live(plan, make, messages, scripted=script is not None)
        if recorder is not None and recorder.problem:
            say(click.style(recorder.problem, fg="red"))
        sys.exit(code)
    except WorkflowError as error:
        tell(error.diagnostics)
        sys.exit(INVALID)


def _loaded(file: str, values: dict[str, Any]) -> Workflow:
    workflow, report = check(file, values)
    if workflow is None or not report.ok:
        raise WorkflowError(report.diagnostics)
    tell(report.diagnostics)
    return workflow


def _limited(workflow: Workflow, limits: Any) -> Workflow:
    if not limits:
        return workflow
    unknown = set(limits) - set(LIMITS)
    if unknown:
        raise click.UsageError(f"--limit knows {', '.join(LIMITS)}, not '{min(unknown)}'")
    try:
        given = {name: int(value) for name, value in limits.items()}
        changed = msgspec.structs.asdict(workflow.graph.limits) | given
        graph_limits = msgspec.convert(changed, Limits)
    except (ValueError, msgspec.ValidationError):
        raise click.UsageError("--limit takes a whole number of at least 1") from None
    graph = msgspec.structs.replace(workflow.graph, limits=graph_limits)
    return msgspec.structs.replace(workflow, graph=graph)


def _scripted(file: str | None, plan: Plan) -> Script | None:
    if file is None:
        return None
    script, report = load_script(file)
    script.check((node.id for node in plan.sites), report)
    tell(report.diagnostics)
    return script


def _recorder(file: str | None, script_file: str | None) -> Recorder | None:
    if file is None:
        return None
    if script_file is not None:
        raise click.UsageError("--record keeps what models say, and with --script none is asked")
    recorder = Recorder(Path(file))
    try:
        recorder.check()
    except OSError as error:
        raise click.UsageError(str(error)) from None
    return recorder


def _input(text: str | None, workflow: Workflow) -> str:
    if text == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is None and _person_is_there():
        if workflow.graph.initial_instruction:
            say(workflow.graph.initial_instruction)
        answer: str = click.prompt("input", default="", show_default=False, err=True)
        return answer
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _person_is_there() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _run_as_json(make: Callable[..., LocalHost], messages: tuple[Message, ...]) -> int:
    host = make(on_event=print_json)
    result = _carried_out(host, messages)
    if result.status in ("waiting", "suspended_locked"):
        summary = {
            "event": "run_summary",
            "timestamp": stamp(host.now()),
            "run_id": host.run_id,
            "data": result.summary,
        }
        print_json(summary)
    return EXIT[result.status]


def _run_live(
    plan: Plan, make: Callable[..., LocalHost], messages: tuple[Message, ...], *, scripted: bool
) -> int:
    from roundel.cli.live import LiveView
    from roundel.cli.output import console

    terminal = console()
    view = LiveView(plan, terminal, interactive=terminal.is_terminal, scripted=scripted)
    asker = _terminal_asker(view) if _person_is_there() else None
    host = make(asker=asker, on_event=view)
    with view:
        result = _carried_out(host, messages)
        view.settle(result.usage)
    _conclude(result)
    return EXIT[result.status]


def _terminal_asker(view: LiveView) -> Callable[[Question], Awaitable[str]]:
    from roundel.cli.prompt import ask_in_terminal

    return lambda question: ask_in_terminal(question, view)


def _conclude(result: Result) -> None:
    if result.output:
        click.echo(result.output)
    if result.status == "failed":
        say(click.style(f"failed: {result.error}", fg="red"))
    elif result.status == "waiting":
        say("waiting for a person: run it in a terminal, or give the answer in a script")
    elif result.status == "stopped":
        say("stopped")


def _carried_out(host: LocalHost, messages: tuple[Message, ...]) -> Result:
    async def work() -> Result:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await host.run(messages)

    try:
        return asyncio.run(work())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return host.result()
