"""Values that know their line and column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

MAX_DEPTH: Final = 100

Value: TypeAlias = "bool | int | float | str | list[Located] | dict[str, Located] | None"


class Located(Struct, eq=False):
    """A value and where it stands; `keys` holds the places of a mapping's keys."""

    value: Value
    line: int = 0
    column: int = 0
    keys: dict[str, tuple[int, int]] | None = None

    def plain(self) -> Any:
        value = self.value
        if isinstance(value, dict):
            return {key: item.plain() for key, item in value.items()}
        if isinstance(value, list):
            return [item.plain() for item in value]
        return value


def locate(value: Any) -> Located:
    """Wraps a plain Python value. Tuples become lists; what YAML has no type for is kept as it is."""
    return _located(value, 1)


def _located(value: Any, depth: int) -> Located:
    if not isinstance(value, (Mapping, list, tuple)):
        return Located(value)
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested more than {MAX_DEPTH} deep, or holds itself")
    if isinstance(value, Mapping):
        return Located({str(key): _located(item, depth + 1) for key, item in value.items()}, keys={})
    return Located([_located(item, depth + 1) for item in value])


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """The line and column of an index."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
