"""Where a client is in a stream of events, as the `id` of an event says it.

    1.123     event 123 of one run
    1.7       the last event of the append at position 7 of the store
    1.7:2     the second event of that append

The number before the dot is the version in which events are numbered (`NUMBERING`): after an update that
numbers the same events otherwise, what a client has does not fit any more. A plain number is of the version
of this server.
"""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.events import NUMBERING

RUN_CURSOR = r"^([0-9]{1,4}\.)?[0-9]{1,15}$"
STORE_CURSOR = r"^([0-9]{1,4}\.)?[0-9]{1,15}(:[0-9]{1,6})?$"


class EventCursor(Struct, frozen=True):
    """A place in a stream of events. `read_cursor` creates it."""

    position: int
    """The `seq` of an event of a run, or a position of the store."""
    part: int = 0
    """How many events of the append at this position are known; 0 is all of them."""
    is_outdated: bool = False
    """It counts in another version."""


def read_cursor(text: str) -> EventCursor:
    """A cursor from text that one of the patterns accepts."""
    version, dot, place = text.rpartition(".")
    position, _, part = place.partition(":")
    return EventCursor(int(position), int(part or 0), bool(dot) and int(version) != NUMBERING)


def cursor_text(position: int, part: int = 0) -> str:
    return f"{NUMBERING}.{position}:{part}" if part else f"{NUMBERING}.{position}"
