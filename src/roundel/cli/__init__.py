"""The command line. Each command is a module, imported when it is called."""

from __future__ import annotations

import importlib
import sys

import click

COMMANDS = {
    "run": "Run a workflow to its end.",
    "check": "Say what is wrong with workflow files, and show their loops.",
    "show": "Draw a workflow with its loops.",
    "forecast": "Say what a run may cost, before it starts.",
    "runs": "List the runs that are kept.",
    "log": "Show what happened in a run.",
    "plot": "Draw the rounds of a run: score, tokens, cost, novelty, time.",
    "resume": "Go on with a run.",
    "pause": "Let a run come to rest.",
    "stop": "End a run.",
    "answer": "Answer what a run asks.",
    "unlock": "Let a locked run go on.",
    "fork": "Begin a new run from a point of an old one.",
    "replay": "Say where a run would go another way.",
    "prune": "Keep less of runs that are over.",
    "memory": "See and change what groups remember.",
    "demo": "See two loops, with no key and no network.",
    "new": "Write a starter workflow.",
    "schema": "Print the JSON Schema of workflow files, for editors.",
}

EXIT = {"completed": 0, "failed": 1, "suspended_locked": 3, "waiting": 4, "paused": 4, "stopped": 130}
INVALID = 2


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"roundel.cli.{cmd_name}").command
        return command

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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="roundel", prog_name="roundel")
def cli() -> None:
    """Roundel runs loops of agents that always end."""


def main() -> None:
    try:
        cli.main(standalone_mode=True)
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        sys.stderr.close()
        sys.exit(1)
