"""Shell completion: commands, workflow files, the ids of runs, and the options that click knows.

A shell asks at every press of Tab. What it asks for most, the command and what stands directly behind it, is
answered without importing the command, since that would import the engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from roundel.cli import COMMANDS, COMPLETION
from roundel.cli.next_step import PROGRAM
from roundel.cli.output import printable
from roundel.journal.registry import peek_runs, store_url

Items = list[CompletionItem]
MAX_RUNS = 50
"""More would only fill the screen."""
SUFFIXES = (".yaml", ".yml", ".json")
LAST = "last"
FILES = ("run", "check", "show", "forecast")
RUNS = ("log", "plot", "resume", "pause", "stop", "answer", "unlock", "fork", "replay", "prune")
"""Commands by what their first argument is."""
REPEATABLE = ("check", "prune")
"""Commands that take more than one of them."""
_SPECIAL = re.compile(r"([^\w@%+=:,./~-])")


def complete(commands: click.Command, instruction: str) -> int:
    """Answers a shell, by the protocol of click; the exit code."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)
    return shell_complete(commands, {}, PROGRAM, COMPLETION, instruction)


class _QuickComplete(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> Items:
        found = _complete_quickly(args, incomplete)
        return super().get_completions(args, incomplete) if found is None else found


class Bash(_QuickComplete, BashComplete):
    def format_completion(self, item: CompletionItem) -> str:
        # Bash puts values into the line as they are; and the script of click reads them with `read`, which
        # takes every backslash for a quotation of its own.
        quoted = _SPECIAL.sub(r"\\\1", item.value).replace("\\", "\\\\")
        return f"{item.type},{quoted}"


class Zsh(_QuickComplete, ZshComplete):
    pass


class Fish(_QuickComplete, FishComplete):
    pass


def _complete_quickly(args: list[str], incomplete: str) -> Items | None:
    """None if it takes the command itself to know."""
    if any(word.startswith("-") for word in (*args, incomplete)):
        return None
    if not args:
        names = (name for name in COMMANDS if name.startswith(incomplete))
        return [CompletionItem(name, help=COMMANDS[name]) for name in names]
    command, *given = args
    if given and command not in REPEATABLE:
        return None
    if command in FILES:
        return files(incomplete)
    return runs(incomplete) if command in RUNS else None


def files(incomplete: str) -> Items:
    """Workflow files and folders. A folder that is the only choice is looked into at once: the shell would
    take its name for the whole argument."""
    found = sorted(_entries(incomplete))
    while len(found) == 1 and found[0].endswith(os.sep):
        inside = sorted(_entries(found[0]))
        if not inside:
            break
        found = inside
    return [CompletionItem(path) for path in found]


def _entries(incomplete: str) -> Iterator[str]:
    folder, name = os.path.split(incomplete)
    try:
        entries = list(os.scandir(Path(folder or ".").expanduser()))
    except (OSError, RuntimeError):  # it is not there, or `~` is nobody's
        return
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        path = os.path.join(folder, entry.name)  # noqa: PTH118 (`./` stays as it was typed)
        if entry.is_dir():
            yield path + os.sep
        elif entry.name.endswith(SUFFIXES):
            yield path


def runs(incomplete: str, place: str | None = None) -> Items:
    """The ids that begin so, the newest first, with what each run is; none if there is no store."""
    rows = peek_runs(store_url(place), incomplete, MAX_RUNS)
    found = [_item(run_id, f"{name}, {status}") for run_id, name, status in rows]
    # No id begins like `last`; where there are no runs, it would name none.
    newest = [_item(LAST, "the newest run")] if LAST.startswith(incomplete) and (found or incomplete) else []
    return newest + found


def _item(value: str, help_text: str) -> CompletionItem:
    # The protocol has one line for each field.
    return CompletionItem(value, help=printable(" ".join(help_text.split())))
