"""Events: what a run shows to observers, in one envelope for all.

Events are derived from facts and are never stored for a run that can be replayed (docs/decisions/0003
and 0021): the same facts produce the same events, with the same numbers.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from roundel.kernel.codec import Codec
from roundel.workflow.address import Path

TRANSIENT = ("token_stream", "progress", "call_waiting")
"""Events about a call in flight. They are not part of the run: they have no number, are never stored,
and reach only those who follow the run at that moment."""


# Statuses. web/src/api/statuses.ts is written from them (tools/web_types.py).

RunStatus = Literal["running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"]
"""What a run does: it works, waits for people, is paused or locked, or is over."""
NodeStatus = Literal["running", "completed", "failed", "skipped"]
RoundStatus = Literal["running", "completed", "failed", "stopped"]
"""`stopped`: the end of the run cut it off. No event says so; readers decide it."""
ToolStatus = Literal["waiting", "running", "completed", "failed", "refused", "rejected", "repeated"]
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
    timestamp: str
    run_id: str
    node_id: str | None = None
    address: str | None = None
    data: dict[str, Any] = {}
    path: Path = ()
    """What is around the node, outermost first; for an event of a round, that round is the last step."""
    part: str = ""
    """`2` or `2.1`, for a part of a dynamic edge."""


EVENTS: Codec[Event] = Codec("an event", Event, hook=repr)
_NO_NUMBER = b'{"seq":0,'


def encode_event(event: Event) -> bytes:
    if event.seq:
        return EVENTS.encode(event)
    # An optional `seq` would need another type for all events; cutting the text off is cheaper.
    return b"{" + EVENTS.encode(event)[len(_NO_NUMBER) :]


def decode_event(line: bytes, version: int | None = None) -> Event:
    """Decodes an event; CodecError."""
    return EVENTS.decode(line if line.startswith(b'{"seq":') else _NO_NUMBER + line[1:], version)


def stamp(seconds: float) -> str:
    """A time in the format of events, `2026-11-15T20:00:00.000Z`."""
    whole, rest = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(whole: int) -> str:
    # Many runs may be active in one second; its text is formatted once.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
