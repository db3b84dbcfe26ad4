"""`roundel memory`: shows and changes the memory of groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from roundel.cli.event_lines import excerpt
from roundel.cli.next_step import suggest, suggest_without_store
from roundel.cli.options import RunAddress, RunName, run_argument
from roundel.cli.output import echo, pluralize, print_json, styled
from roundel.cli.store_access import count_option, store_option, with_runs
from roundel.kernel.events import stamp
from roundel.memory.store import MemoryEntry
from roundel.runs.memory import Memory, Quarantined

T = TypeVar("T")
group_option = click.option("--group", required=True, metavar="NAME", help="The group.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print each entry as a line of JSON.")
kind_option = click.option(
    "--kind", default="", metavar="NAME", help="Only this memory: working, long_term, or its name or path."
)


@click.group("memory")
def memory_command() -> None:
    """Show and change the memory of groups."""


# The store of memories is the store of runs, so these commands open it in the same way.


def _with_memory(place: str | None, action: Callable[[Memory], Awaitable[T]], *, creates: bool = False) -> T:
    return with_runs(place, lambda runs: action(Memory(runs.store)), creates=creates)


@memory_command.command("list")
@group_option
@kind_option
@json_option
@store_option
def list_entries(group: str, kind: str, as_json: bool, place: str | None) -> None:
    """List the entries of a group, the newest first."""
    entries = _with_memory(place, lambda memory: memory.list(group, kind))
    suggest_without_store("memory", "--help")
    _show(entries, as_json, f"group '{group}' has no entries{f' in {kind}' if kind else ''}")


@memory_command.command("search")
@click.argument("text")
@group_option
@kind_option
@count_option(10)
@json_option
@store_option
def search(text: str, group: str, kind: str, limit: int, as_json: bool, place: str | None) -> None:
    """Find entries by words, the best match first."""
    entries = _with_memory(place, lambda memory: memory.search(group, text, kind, limit))
    suggest("memory", "list", "--group", group)
    _show(entries, as_json, f"group '{group}' has no entries with these words")


@memory_command.command("promote")
@click.argument("entry", type=int, required=False, metavar="[ID]")
@group_option
@click.option(
    "--run",
    default="",
    metavar="RUN",
    type=RunName(),
    help="Promote the output of a node of this run, instead of an entry.",
)
@click.option(
    "--at",
    default="",
    type=RunAddress(),
    metavar="ADDRESS",
    help="The address of that output in the run.",
)
@click.option("--text", default="", metavar="TEXT", help="Promote this text, instead of an entry.")
@json_option
@store_option
def promote(
    entry: int | None, group: str, run: str, at: str, text: str, as_json: bool, place: str | None
) -> None:
    """Copy something into the long-term memory."""
    if sum((entry is not None, bool(run), bool(text))) != 1 or bool(run) != bool(at):
        raise click.UsageError("give the ID of an entry, --run with --at, or --text")
    # A text needs no run, so it may be the first thing in a store.
    promoted = _with_memory(
        place, lambda memory: memory.promote(group, entry, run=run, at=at, text=text), creates=bool(text)
    )
    _show(promoted, as_json, "")
    suggest("memory", "list", "--group", group)
    echo(f"promoted {pluralize(len(promoted), 'passage')} for group '{group}'")


@memory_command.command("forget")
@click.argument("entries", type=int, nargs=-1, metavar="[ID]...")
@group_option
@click.option("--all", "everything", is_flag=True, help="Delete all entries of the group.")
@store_option
def forget(entries: tuple[int, ...], group: str, everything: bool, place: str | None) -> None:
    """Delete entries of a group, or all of them."""
    if bool(entries) == everything:
        raise click.UsageError("name the entries by their ids, or give --all")

    async def work(memory: Memory) -> int:
        return await (memory.forget_all(group) if everything else memory.forget(group, *entries))

    suggest("memory", "list", "--group", group)
    deleted = _with_memory(place, work)
    # The entries that exist are deleted all the same; the error names the difference.
    if entries and deleted < len(set(entries)):
        raise click.ClickException(
            f"group '{group}' had {deleted or 'none'} of these entries; "
            "`roundel memory list` shows what it has"
        )
    echo(f"forgot {pluralize(deleted, 'entry') if deleted == 1 else f'{deleted} entries'}")


@memory_command.command("quarantine")
@run_argument
@json_option
@store_option
def quarantine(run: str, as_json: bool, place: str | None) -> None:
    """Show the outputs of the nodes of a run.

    RUN is an id, the beginning of one, or `last`.
    """
    given = _with_memory(place, lambda memory: memory.quarantine(run))
    suggest_without_store("memory", "promote", "--help")
    for one in given:
        if as_json:
            print_json(_as_data(one))
            continue
        sure = "" if one.confidence is None else f"  {one.confidence:g}"
        time = styled(stamp(one.time)[11:23], dim=True)
        echo(time, f"  {one.address}{sure}  {excerpt(one.content)}", err=False)
    if not given:
        echo("no node of this run has an output")


def _as_data(one: MemoryEntry | Quarantined) -> dict[str, Any]:
    # Times as in events, not as floats; data of third-party nodes may contain any object.
    return {**msgspec.to_builtins(one, enc_hook=repr), "time": stamp(one.time)}


def _show(entries: Sequence[MemoryEntry], as_json: bool, nothing: str) -> None:
    for entry in entries:
        if as_json:
            print_json(_as_data(entry))
            continue
        number, time = styled(str(entry.id), bold=True), styled(stamp(entry.time)[:16], dim=True)
        echo(number, f"  {entry.shelf}  ", time, f"  {excerpt(entry.text)}", err=False)
    if not entries and nothing:
        echo(nothing)
