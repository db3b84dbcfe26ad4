"""Why a run is locked, for the person who decides whether it may go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group
from rich.text import Text

from roundel.cli.output import one_line
from roundel.kernel.state import Lock


def evidence(lock: Lock) -> Group:
    """The limit or the trigger, the figures behind it, and the last messages."""
    what = Text.assemble(("locked", "bold red"), f": {one_line(str(lock))}, at {one_line(lock.address)}")
    return Group(what, *_figures(dict(lock.evidence)))


def _figures(figures: dict[str, Any]) -> Iterator[Text]:
    messages = figures.pop("messages", ())
    for names, words in _KNOWN.items():
        if all(name in figures for name in names):
            yield Text(one_line(words.format(**{name: _told(name, figures.pop(name)) for name in names})))
    for name, value in figures.items():
        yield Text(one_line(f"{name.replace('_', ' ')}: {_told(name, value)}"))
    for message in messages:
        yield Text.assemble("  ", (one_line(message["address"]), "cyan"), f"  {one_line(message['text'])}")
        if "repeats" in message:
            yield Text(f"    {one_line(_repeats(message))}", style="dim")


def _repeats(message: dict[str, Any]) -> str:
    """Which message it repeats, and what little changed."""
    changes = [f"'{before}' → '{now}'" for before, now in message["changed"]]
    return f"repeats {message['repeats']}" + (f", with {', '.join(changes)}" if changes else ", unchanged")


def _told(name: str, value: Any) -> str:
    if name == "novelty":
        value = max(value)
    if isinstance(value, (int, float)):
        if name in _SHARES:
            return f"{value:.0%}"
        return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}".rstrip("0")
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


_SHARES = ("novelty", "threshold")
_KNOWN = {
    ("stale_rounds", "threshold", "novelty"): (
        "in {stale_rounds} rounds every message repeats an earlier one of its speaker: "
        "at most {novelty} new, where {threshold} would do"
    ),
    ("tokens", "estimate", "factor"): (
        "{tokens} tokens, where about {estimate} were expected; at {factor} times as many the breaker trips"
    ),
    ("seconds", "limit"): "{seconds} seconds of work; after {limit} the breaker trips",
    ("scope", "spent", "reserved", "wanted"): (
        "{scope}: {spent} spent, {reserved} reserved by calls in flight, {wanted} more wanted"
    ),
    ("guard",): "the guard that would end the loop: {guard}",
}
"""Figures that are one statement together."""
