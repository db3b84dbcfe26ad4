"""Shell completion: commands, workflow files, the ids of runs, limits, addresses, and the options that click
knows.

A shell calls this at every press of Tab. The most frequent cases, the command and its first argument,
are answered without importing the command, since that would import the engine. Options take the ordinary
way of click, which imports the command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

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

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from roundel.kernel.events import Event
    from roundel.runs.runs import Runs

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
        # The words on the line, for `parameters_before`.
        self.ctx_args = {**self.ctx_args, "obj": args}
        found = _complete_quickly(args, incomplete)
        return super().get_completions(args, incomplete) if found is None else found


class Bash(_QuickComplete, BashComplete):
    # Without a space behind a value that is to be continued: `rounds=`, `Writer.`.
    source_template: ClassVar[str] = BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        "COMPREPLY+=($value)\n            [[ $value == *[=.] ]] && compopt -o nospace 2> /dev/null",
    )

    def format_completion(self, item: CompletionItem) -> str:
        # Bash inserts values as they are, so characters that are special to it are quoted. The script of
        # click reads each line with `read`, which removes one level of backslashes, so they are doubled.
        quoted = _SPECIAL.sub(r"\\\1", item.value).replace("\\", "\\\\")
        return f"{item.type},{quoted}"


class Zsh(_QuickComplete, ZshComplete):
    pass


class Fish(_QuickComplete, FishComplete):
    pass


def parameters_before(ctx: click.Context) -> dict[str, Any]:
    """The parameters of a command that precede the option whose value is being completed. The context that
    click gives has no arguments then: it stopped at the option, which has no value yet."""
    depth, context = 0, ctx
    while context.parent is not None:
        depth, context = depth + 1, context.parent
    words = context.obj[depth:]
    if words and words[-1].startswith("-"):
        words = words[:-1]
    given = ctx.command.make_context(ctx.info_name, list(words), ctx.parent, resilient_parsing=True)
    return given.params


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


MAX_ADDRESSES = 200
"""Addresses to offer; a run may have thousands, and a few more letters select among them."""
T = TypeVar("T")


def limits(incomplete: str, scopes: Iterable[str] = ()) -> Items:
    """The limits that `--limit` takes: `rounds=`, and `Writer.rounds=` for loops and nodes (`scopes`)."""
    from roundel.workflow.graph import LIMIT_NAMES

    values = [end for name in LIMIT_NAMES for end in _assignments(name)]
    inside = [
        f"{scope}.{value}" for scope in scopes for value in values if incomplete.startswith(f"{scope}.")
    ]
    return matching(incomplete, [*values, *(inside or (f"{scope}." for scope in scopes))])


def matching(incomplete: str, found: Iterable[str]) -> Items:
    return [CompletionItem(value) for value in dict.fromkeys(found) if value.startswith(incomplete)]


def _assignments(name: str) -> tuple[str, ...]:
    return ("unpriced=allow", "unpriced=lock") if name == "unpriced" else (f"{name}=",)


def file_nodes(file: str) -> list[str]:
    """The ids of the nodes in a workflow file, which are those of its loops, too."""
    from roundel.nodes.loading import draft_plan

    plan, _ = draft_plan(file) if Path(file).is_file() else (None, None)
    return [] if plan is None else [node.id for node in plan.sites]


def run_nodes(name: str, place: str | None) -> list[str]:
    """The ids of the nodes of a run."""

    async def read(runs: Runs, run_id: str) -> list[str]:
        return [node.id for node in (await runs.plan(run_id)).sites]

    return _read_run(name, place, read, [])


def addresses(incomplete: str, name: str, place: str | None = None) -> Items:
    """The addresses of a run at which a round, a node or a tool call began, in order."""

    async def read(runs: Runs, run_id: str) -> dict[str, str]:
        found: dict[str, str] = {}
        async for event in runs.follow(run_id, live=False):
            what = _started(event)
            if what and event.address and event.address.startswith(incomplete):
                found.setdefault(event.address, what)
                if len(found) == MAX_ADDRESSES:
                    break
        return found

    none: dict[str, str] = {}
    return [_item(address, what) for address, what in _read_run(name, place, read, none).items()]


def _started(event: Event) -> str:
    from roundel.kernel.payloads import LoopRound, NodeRunning, ToolCallChange

    match event.data:
        case LoopRound():
            return "round"
        case NodeRunning():
            return "node"
        case data:
            return "tool call" if isinstance(data, ToolCallChange) else ""


def questions(incomplete: str, name: str, place: str | None = None) -> Items:
    """The addresses of the open questions of a run."""

    async def read(runs: Runs, run_id: str) -> dict[str, str]:
        return {one.address: one.prompt for one in await runs.questions(run_id)}

    none: dict[str, str] = {}
    asked = _read_run(name, place, read, none)
    return [_item(address, prompt) for address, prompt in asked.items() if address.startswith(incomplete)]


def _read_run(name: str, place: str | None, read: Callable[[Runs, str], Awaitable[T]], otherwise: T) -> T:
    """Reads a run, if there is exactly one with this name. An error message would destroy the line that is
    being typed."""
    import asyncio

    # The store is opened only if it exists and has the run: completion must not create one.
    rows = peek_runs(store_url(place), "" if name == LAST else name, 1 if name == LAST else 2)
    if len(rows) != 1 or not name:
        return otherwise
    from roundel.journal.store import StoreError
    from roundel.runs.runs import Runs

    async def work() -> T:
        async with Runs(store_url(place)) as runs:
            return await read(runs, rows[0][0])

    try:
        return asyncio.run(work())
    except (StoreError, OSError):
        return otherwise
