"""What somebody has changed in a value: where, from what and to what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from roundel.kernel.payloads import Change

MAX_CHANGES = 50
MAX_DEPTH = 20
"""Values that are nested deeper are compared as a whole."""


def changes_between(before: Any, after: Any) -> list[Change]:
    """The differences of two JSON values, in the order of `before`, at most MAX_CHANGES."""
    found: list[Change] = []
    for change in _changes("", before, after):
        if len(found) == MAX_CHANGES:
            break
        found.append(change)
    return found


def _changes(path: str, before: Any, after: Any, depth: int = 0) -> Iterator[Change]:
    is_deep = depth == MAX_DEPTH
    if isinstance(before, dict) and isinstance(after, dict) and not is_deep:
        for key in dict.fromkeys([*before, *after]):
            inner = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield from _changes(inner, before.get(key, UNSET), after.get(key, UNSET), depth + 1)
    elif isinstance(before, list) and isinstance(after, list) and not is_deep:
        for at in range(max(len(before), len(after))):
            yield from _changes(f"{path}/{at}", _at(before, at), _at(after, at), depth + 1)
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield Change(path, before, after)


def _at(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else UNSET
