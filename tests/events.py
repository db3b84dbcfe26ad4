"""Events for tests that need no run."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec.structs import FieldInfo, fields, replace

from roundel.kernel.events import Event
from roundel.kernel.payloads import EventData, NodeRunning, NodeStateChange, RunUsage, kinds_of

NOW = "2026-11-15T20:00:00.000Z"
_EMPTY: dict[Any, Any] = {str: "", int: 0, float: 0.0, RunUsage: RunUsage(0, 0, 0, 0, None, 0)}


def payload(name: str, /, **given: Any) -> EventData:
    """The data of an event: the given fields, and empty ones where it needs more."""
    kinds = kinds_of(name)
    tags = [kind for kind in kinds if given.get("status", given.get("trigger")) == kind.__struct_config__.tag]
    # Calls, whose structs have no tags.
    ended = given.get("status", "completed") not in ("running", "waiting")
    (kind,) = tags or (kinds[-1:] if ended else kinds[:1])
    own = {key: value for key, value in given.items() if key in kind.__struct_fields__}
    needed = {field.name: _empty(field) for field in fields(kind) if field.required and field.name not in own}
    made: EventData = msgspec.convert(
        {**msgspec.to_builtins({**needed, **own}), **{key: given[key] for key in given if key not in own}},
        kind,
    )  # type: ignore[assignment]
    return made


def _empty(field: FieldInfo) -> Any:
    if field.type in _EMPTY:
        return _EMPTY[field.type]
    choices = get_args(field.type)
    if type(None) in choices:
        return None
    return (
        choices[0] if choices and isinstance(choices[0], str) else getattr(field.type, "__origin__", dict)()
    )


def event_of(
    name: str,
    /,
    seq: int = 1,
    node_id: str | None = None,
    address: str | None = None,
    *,
    timestamp: str = NOW,
    run_id: str = "run",
    **data: Any,
) -> Event:
    return Event(seq, name, timestamp, run_id, node_id, address, payload(name, **data))


def node_status(event: Event) -> str | None:
    """The status of a node, if the event is about one."""
    return event.data.status if isinstance(event.data, NodeStateChange) else None


def without_figures(data: EventData) -> EventData:
    """The data without what depends on time, and on which of several calls ends first."""
    figures = dict.fromkeys(
        name for name in ("total", "seconds", "work_seconds", "waited") if name in data.__struct_fields__
    )
    return replace(data, **figures)


FIGURES = frozenset({"first_token", "lane", "seconds", "total", "waited", "work_seconds"})


def timeless(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event in JSON without what depends on the clock, and on which call ends first."""
    return {name: value for name, value in data.items() if name not in FIGURES}


FOR_PROGRAMS = frozenset(
    {
        "attempts", "before", "by", "call", "caller", "cause", "inside", "locks", "messages", "node",
        "origin", "port", "questions", "ran", "score", "seconds", "speaks", "total", "usage", "waited",
        "work_seconds",
    }
)  # fmt: skip


def readable(event: Event) -> dict[str, Any]:
    """The fields of an event that say what has happened, without figures and without what says the same for
    programs."""
    left_out = FOR_PROGRAMS | {"type"} if isinstance(event.data, NodeRunning) else FOR_PROGRAMS
    return {name: value for name, value in event.fields().items() if name not in left_out}
