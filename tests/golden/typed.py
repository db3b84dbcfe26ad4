"""What programs of earlier versions told of a run, in the form of this one, as far as both say the same.

They gave the data of events no types, had no beginnings of model calls and no ends of rounds, and said less
of most things. So
their events are upgraded, and what only this version says is left out. Numbers of events are left out, too:
there are more events now.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from roundel.kernel.old_events import of_version_1
from tests.events import FOR_PROGRAMS

ADDED = FOR_PROGRAMS | {
    "best",
    "by",
    "code",
    "failed_at",
    "scripted",
    "stop",
    "attempts",
    "cached_calls",
    "cancelled_calls",
}
KEYS = ("events", "later")
COUNT = "count"


def upgraded(expected: dict[str, Any]) -> dict[str, Any]:
    """What an earlier version told of a run."""
    return comparable({**expected, **{key: list(map(_upgraded, expected[key])) for key in _keys(expected)}})


def comparable(told: dict[str, Any]) -> dict[str, Any]:
    """What is told of a run, as far as earlier versions told it as well."""
    return {
        key: _events(value) if key in KEYS else _plain(value) for key, value in told.items() if key != COUNT
    }


def _events(events: list[Any]) -> list[Any]:
    return [event for event in map(_comparable, events) if event is not None]


def newest(told: dict[str, Any], most: int) -> dict[str, Any]:
    """With only so many of the newest events."""
    return {**told, **{key: told[key][-most:] for key in _keys(told)}}


def _keys(told: dict[str, Any]) -> list[str]:
    return [key for key in KEYS if key in told]


def _upgraded(event: list[Any]) -> list[Any]:
    seq, name, node_id, address, fields = event
    data = of_version_1(name, fields, address or "")
    return [seq, data.event, node_id, address, msgspec.to_builtins(data)]


def _comparable(event: list[Any]) -> list[Any] | None:
    _, name, node_id, address, fields = event
    if name == "model_call":
        # Only the usage of a call was told, and only if there was any.
        known = ("model", "input_tokens", "output_tokens", "cost_usd", "cached")
        fields = {key: fields[key] for key in known if key in fields}
        if "input_tokens" not in fields:
            return None
        fields["cost_usd"] = fields.get("cost_usd") or 0
    if name == "round_finished":
        return None
    if name in ("loop_round", "loop_exit"):
        fields = {key: fields[key] for key in ("loop", "round", "rounds", "reason", "by") if key in fields}
    if name == "loop_exit":  # a node that repeats by itself was left at its own address
        fields.pop("round", None)
        address = re.sub(r"\[\d+\]$", "", address or "").replace("].", "]/")
    if fields.get("status") == "running" and name == "node_state_change":
        fields = {key: value for key, value in fields.items() if key != "type"}
    return [name, node_id, address, _plain(fields)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in ADDED}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
