"""Shell completion: commands, workflow files, the ids of runs, and the options that click knows.

A shell calls this at every press of Tab. The most frequent cases, the command and its first argument,
are answered without importing the command, since that would import the engine. Options take the ordinary
way of click, which imports the command.
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
"""The newest runs to offer; more would only fill the screen."""
SUFFIXES = (".yaml", ".yml", ".json")
LAST = "last"
FILES = ("run", "check", "show", "forecast")
RUNS = (
    *("log", "plot", "resume", "retry", "step", "break", "edit", "pause", "stop", "answer"),
    *("lock", "unlock", "fork", "replay", "prune"),
)
"""Commands by the kind of their first argument."""
REPEATABLE = ("check", "prune")
"""Commands that take several such arguments."""
_SPECIAL = re.compile(r"([^\w@%+=:,./~-])")


def complete(commands: click.Command, instruction: str) -> int:
    """Answers a shell by the protocol of click, and returns the exit code."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)
    return shell_complete(commands, {}, PROGRAM, COMPLETION, instruction)


class _QuickComplete(ShellComplete):
    """Tries `_complete_quickly` first, then click's own completion."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        found = _complete_quickly(args, incomplete)
        return super().get_completions(args, incomplete) if found is None else found


class Bash(_QuickComplete, BashComplete):
    def format_completion(self, item: CompletionItem) -> str:
        # Bash inserts values as they are, so characters that are special to it are quoted. The script of
        # click reads each line with `read`, which removes one level of backslashes, so they are doubled.
        quoted = _SPECIAL.sub(r"\\\1", item.value).replace("\\", "\\\\")
        return f"{item.type},{quoted}"


class Zsh(_QuickComplete, ZshComplete):
    pass


class Fish(_QuickComplete, FishComplete):
    pass


def _complete_quickly(args: list[str], incomplete: str) -> Items | None:
    """Completions that need no import of a command; None if click has to import it."""
    # With an option on the line, a word may be the value of that option: only the command knows.
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
    """Workflow files and folders.

    If a folder is the only choice, its entries are offered: the shell would take the name of the folder
    for the whole argument, and add a space.
    """
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
    except (OSError, RuntimeError):  # no such folder, or `~name` is no user
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
    """The ids that begin with a text, the newest first, with the workflow and status of each run.

    `peek_runs` only reads: completion must not create a store, nor upgrade one.
    """
    rows = peek_runs(store_url(place), incomplete, MAX_RUNS)
    found = [_item(run_id, f"{name}, {status}") for run_id, name, status in rows]
    # No id begins like `last`, so it is offered beside them; without any runs it would name none.
    newest = [_item(LAST, "the newest run")] if LAST.startswith(incomplete) and (found or incomplete) else []
    return newest + found


def _item(value: str, help_text: str) -> CompletionItem:
    # The protocol has one line per field, so a line break in a name would shift all later fields.
    return CompletionItem(value, help=printable(" ".join(help_text.split())))
