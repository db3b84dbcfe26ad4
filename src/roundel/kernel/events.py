"""Events: what a run shows to observers, in one envelope for all.

Events are derived from facts and are never stored for a run that can be replayed (docs/decisions/0003
and 0021): the same facts produce the same events, with the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from roundel.kernel.codec import Codec, CodecError
from roundel.kernel.old_events import of_version_1, of_version_2
from roundel.kernel.payloads import Custom, EventData, decode_payload
from roundel.workflow.address import Path

NUMBERING = 1
"""The version of the numbers of events: another version may give the same event of a run another `seq`. The
positions of clients name it (server/cursors.py)."""


_NO_DATA = Custom("", {})
"""Fields without a default cannot follow the optional ones; every event has data."""


# Statuses. web/src/api/statuses.ts is written from them (tools/web_types.py).

RunStatus = Literal["running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"]
"""What a run does: it works, waits for people, is paused or locked, or is over."""
NodeStatus = Literal["running", "completed", "failed", "skipped"]
RoundStatus = Literal["running", "completed", "failed", "cancelled", "stopped"]
"""`stopped`: the end of the run cut it off. No event says so; readers decide it."""
ToolStatus = Literal[
    "waiting", "running", "completed", "failed", "refused", "rejected", "repeated", "cancelled"
]
"""What a tool call does: it waits for a person, runs, or has ended. Those that are `refused`, `rejected`
or `repeated` were never made."""

OVER: frozenset[RunStatus] = frozenset({"completed", "failed", "stopped"})


def is_over(status: str) -> bool:
    """Whether a run with this status has ended. Only a failed one can continue, if it is retried."""
    return status in OVER


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """One event. The kernel creates it; hosts add transient ones."""

    seq: int
    """The number of the event in its run, from 1; 0 for a transient event, which has no `seq` in
    JSON."""
    event: str
    """The name of the event: that of its data."""
    timestamp: str
    run_id: str
    node_id: str | None = None
    address: str | None = None
    data: EventData = _NO_DATA
    path: Path = ()
    """What is around the node, outermost first; for an event of a round, that round is the last step."""
    part: str = ""
    """`2` or `2.1`, for a part of a dynamic edge."""

    def fields(self) -> dict[str, Any]:
        """The data as JSON has it."""
        fields: dict[str, Any] = msgspec.to_builtins(self.data, enc_hook=repr)
        return fields


class _StoredEvent(Struct, frozen=True, gc=False):
    """An event whose data is not decoded yet: its name says which type it has."""

    seq: int
    event: str
    timestamp: str
    run_id: str
    node_id: str | None = None
    address: str | None = None
    data: Raw = Raw(b"{}")
    path: Path = ()
    part: str = ""


def _with_types(fields: dict[str, Any]) -> dict[str, Any]:
    """An event of version 1, whose data had no type."""
    return _with_data(fields, of_version_1)


def _with_calls(fields: dict[str, Any]) -> dict[str, Any]:
    """An event of version 2, in which model calls had no beginning."""
    return _with_data(fields, of_version_2)


def _with_data(fields: dict[str, Any], upgrade: Callable[..., EventData]) -> dict[str, Any]:
    payload = upgrade(fields["event"], fields.get("data", {}), fields.get("address") or "")
    return {**fields, "event": payload.event, "data": msgspec.to_builtins(payload)}


EVENTS: Codec[Any] = Codec(
    "an event", _StoredEvent, version=3, upgrades={1: _with_types, 2: _with_calls}, hook=repr
)
_NO_NUMBER = b'{"seq":0,'


def encode_event(event: Event) -> bytes:
    if event.seq:
        return EVENTS.encode(event)
    # An optional `seq` would need another type for all events; cutting the text off is cheaper.
    return b"{" + EVENTS.encode(event)[len(_NO_NUMBER) :]


def decode_event(line: bytes, version: int | None = None) -> Event:
    """Decodes an event; CodecError."""
    stored = EVENTS.decode(line if line.startswith(b'{"seq":') else _NO_NUMBER + line[1:], version)
    try:
        data = decode_payload(stored.event, stored.data)
    except msgspec.MsgspecError as error:
        raise CodecError(f"the data of the event {stored.event} cannot be decoded: {error}") from error
    return Event(
        stored.seq,
        data.event,
        stored.timestamp,
        stored.run_id,
        stored.node_id,
        stored.address,
        data,
        stored.path,
        stored.part,
    )


def stamp(seconds: float) -> str:
    """A time in the format of events, `2026-11-15T20:00:00.000Z`."""
    whole, rest = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(whole: int) -> str:
    # Many runs may be active in one second; its text is formatted once.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
