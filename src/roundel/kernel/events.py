"""What is shown of a run: one envelope everywhere."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from msgspec import Struct

from roundel.kernel.codec import Codec

TRANSIENT = ("token_stream", "progress")
"""Events about a call while it is made. They are no part of the run: they have no number, are never stored,
and reach only those who follow the run at that moment."""


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    seq: int
    """Counts the events of a run, from 1; 0 for a transient event, which has no number (in JSON no `seq`)."""
    event: str
    timestamp: str
    run_id: str
    node_id: str | None = None
    address: str | None = None
    data: dict[str, Any] = {}


EVENTS: Codec[Event] = Codec("an event", Event, hook=repr)
_NO_NUMBER = b'{"seq":0,'


def encode_event(event: Event) -> bytes:
    if event.seq:
        return EVENTS.encode(event)
    # Without the number, a field of its own type would be needed; its text is cut off instead.
    return b"{" + EVENTS.encode(event)[len(_NO_NUMBER) :]


def decode_event(line: bytes, version: int | None = None) -> Event:
    """CodecError if it cannot be decoded."""
    return EVENTS.decode(line if line.startswith(b'{"seq":') else _NO_NUMBER + line[1:], version)


def stamp(seconds: float) -> str:
    """A time as it stands in an event, `2026-11-15T20:00:00.000Z`."""
    whole, rest = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(whole: int) -> str:
    # Many runs may be at work in one second; its text is made once.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
