"""Events of a run that become events of the span in which they happened."""

from __future__ import annotations

from typing import Any

from roundel.kernel.events import Event
from roundel.telemetry.conventions import ADDRESS, as_json
from roundel.telemetry.part import Part

_EVIDENCE = ("stale_rounds", "threshold", "guard", "tokens", "estimate", "factor", "seconds", "limit")
_SHOWN = {
    "breaker_tripped": ("trigger", *_EVIDENCE),
    "breaker_unlocked": ("what", "by", "reason", "exit"),
    "end_not_reached": ("edges",),
    "limit_reached": ("what", "limit", "scope", "spent", "reserved", "wanted"),
    "loop_exit": ("loop", "rounds", "reason", "by"),
    "memory_error": ("store", "error"),
    "score_regression": ("score", "previous", "fall", "round"),
}
"""What is told of an event. Other fields may quote what was said, and are told only with content."""


def note(part: Part, event: Event, now: int) -> None:
    shown = ((name, event.data.get(name)) for name in _SHOWN.get(event.event, ()))
    told: dict[str, Any] = {f"roundel.{name}": value for name, value in shown if value is not None}
    if event.address:
        told[ADDRESS] = event.address
    if part.content:
        told["roundel.data"] = as_json(event.data)
    part.nearest(event.address).span.add_event(f"roundel.{event.event}", told, now)
