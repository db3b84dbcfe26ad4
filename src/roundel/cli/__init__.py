"""The command line: the group of all commands, their exit codes, and the entry point `main`.

Each command is a function in a module of this package, which is imported when the command is called.
`roundel --help`, shell completion and usage errors therefore import neither the engine nor any model
library; the summaries in COMMANDS exist for the same reason. Commands are clients of `Runs` and contain
no logic of their own.

`Commands.main` replaces the standalone mode of click, which would exit before the next step is printed:
the line `next: …` is the last line of every command, also after an error (next_step.py).
"""

from __future__ import annotations

import errno
import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from functools import cache, wraps
from typing import Any, NoReturn

import click

from roundel.cli.next_step import NextStep, program, repeat_command
from roundel.cli.signals import INTERRUPTED, interrupts

COMMANDS = {
    "run": "Run a workflow to its end.",
    "check": "Check workflow files and prove that their loops end.",
    "show": "Draw a workflow with its loops.",
    "forecast": "Estimate what a run may cost, before it starts.",
    "runs": "List runs.",
    "log": "Show the events of a run.",
    "plot": "Draw the rounds of a run: score, tokens, cost, novelty, time.",
    "resume": "Resume a run.",
    "retry": "Retry a failed run.",
    "debug": "Debug a workflow or a run in the terminal.",
    "step": "Take one step of a paused run.",
    "break": "Set and list the breakpoints of a run.",
    "edit": "Edit a queued message of a paused run.",
    "pause": "Pause a run.",
    "stop": "Stop a run.",
    "answer": "Answer a question of a run.",
    "lock": "Lock a run.",
    "unlock": "Unlock a run.",
    "fork": "Start a new run from a point of an old one.",
    "replay": "Compare a run with another workflow or other limits.",
    "prune": "Delete rounds of finished runs.",
    "store": "Convert a store of an older version.",
    "memory": "Show and change the memory of groups.",
    "serve": "Serve the HTTP API, and execute runs.",
    "token": "Create, list and revoke the tokens of a server.",
    "demo": "Watch two loops, without a key or a network.",
    "new": "Write a starter workflow.",
    "schema": "Print the JSON Schema of workflow files, for editors.",
}

_MODULES = {
    **dict.fromkeys(("fork", "replay", "retry"), "run"),
    **dict.fromkeys(("check", "show", "forecast", "schema"), "workflows"),
    **dict.fromkeys(("resume", "pause", "stop", "answer", "lock", "unlock"), "control"),
    **dict.fromkeys(("step", "break", "edit"), "debugging"),
    **dict.fromkeys(("log", "prune"), "runs"),
}
"""The modules of commands that share one; every other command has a module with its own name."""

EXIT = {"completed": 0, "failed": 1, "suspended_locked": 3, "waiting": 4, "paused": 4, "stopped": 130}
"""Exit codes by the status of a run. 3 and 4 are not failures: the run can be unlocked, answered or
resumed."""
INVALID = 2
"""The exit code for bad usage, an invalid workflow and an unknown run; click uses it for usage
errors."""
NO_ANSWER = "the input ended before an answer was given"
COMPLETION = "_ROUNDEL_COMPLETE"
"""The environment variable with which a shell requests completion."""


class Commands(click.Group):
    """The group of all commands. It prints errors, and then the next step."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if os.environ.get(COMPLETION):
            from roundel.cli.completion import complete

            sys.exit(complete(self, os.environ[COMPLETION]))
        arguments = list(sys.argv[1:] if args is None else args)
        # Before click parses anything: an error message may repeat an argument with a secret.
        from roundel.cli.output import secret_masking

        secret_masking.start(arguments)
        # Passed as `obj`, so that commands at any depth share it, and a test can call them without a
        # global state.
        step = NextStep(arguments)
        extra["obj"] = step
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        code: Any = 1
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort as abort:
            # click turns both KeyboardInterrupt and the end of input at a prompt into Abort.
            interrupted = isinstance(abort.__context__, KeyboardInterrupt)
            code = INTERRUPTED if interrupted else 1
            click.echo("interrupted" if interrupted else f"{NO_ANSWER}; no changes were made", err=True)
            step.command = step.command or repeat_command(step)
        except click.ClickException as error:
            code = error.exit_code
            _show(error, step)
        except OSError as error:
            # Any line may need a descriptor, even an import. All else is a defect.
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            text = "too many open files; raise the limit (ulimit -n), or run less at the same time"
            _show(click.ClickException(text), step)
        except SystemExit as exit:
            code = exit.code
        return _end(code, step)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, without importing them; click would sort them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return _load_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from roundel.workflow.diagnostics import did_you_mean

            hint = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"{error.message} {hint}".rstrip(), ctx) from None


@cache
def _load_command(name: str) -> click.Command:
    command: click.Command = getattr(
        importlib.import_module(f"roundel.cli.{_MODULES.get(name, name)}"), f"{name}_command"
    )
    run = command.callback
    if run is not None and not isinstance(command, click.Group):

        @wraps(run)
        def with_own_output(*arguments: Any, **named: Any) -> Any:
            from roundel.cli.standard_output import reserved_for_command

            # Not earlier: click writes the help of a command to `sys.stdout`.
            with reserved_for_command():
                return run(*arguments, **named)

        command.callback = with_own_output
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="roundel", prog_name="roundel")
def cli() -> None:
    """Roundel runs loops of agents that always end."""


def _show(error: click.ClickException, step: NextStep) -> None:
    from roundel.cli.output import echo

    # Since click 8.2, a command without arguments raises its help text as an error.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        echo(context.get_usage())
        # The path of the root is several words if the program was started with `python -m roundel`.
        words = context.command_path.removeprefix(context.find_root().command_path).split()
        step.command = step.command or shlex.join([*program(), *words, "--help"])
    echo(f"Error: {error.format_message()}")


def _end(code: Any, step: NextStep) -> NoReturn:
    if step.command:
        from roundel.cli.output import echo, styled

        if step.advice:
            echo(f"the same call would fail again; first {step.advice}")
        echo(styled(f"next: {step.command}", dim=True))
    sys.exit(code)


def main() -> None:
    """The entry point of the program `roundel` and of `python -m roundel`."""
    from roundel.cli.output import print_traceback

    sys.excepthook = print_traceback
    interrupts.listen()
    try:
        cli.main(standalone_mode=True)
    except BrokenPipeError:
        # The reader of the output has closed it. Closing standard error suppresses a second traceback,
        # from the interpreter's last flush.
        sys.stderr.close()
        sys.exit(1)
    except SystemExit as end:
        # Threads of functions cannot be cancelled; a normal exit would wait for them.
        if interrupts.received:
            code = 0 if end.code is None else end.code
            interrupts.end(code if isinstance(code, int) else 1)
        raise
