"""Expected events of programs that gave the data of events no types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from roundel.kernel.payloads import of_version_1


def with_types(expected: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """What is expected of a run, with the events under these keys as they are now: the report of a node was
    part of the data."""
    return {
        **expected,
        **{key: [_with_type(*one) for one in expected[key]] for key in keys if key in expected},
    }


def _with_type(seq: int, name: str, node_id: str | None, address: str | None, fields: Any) -> list[Any]:
    data = of_version_1(name, fields)
    return [seq, data.event, node_id, address, msgspec.to_builtins(data)]
