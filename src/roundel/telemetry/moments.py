"""When an event happened, as OpenTelemetry counts time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000_000


@lru_cache(maxsize=16)  # events of one step share a timestamp
def nanoseconds(timestamp: str) -> int:
    """Since 1970, from the timestamp of an event."""
    return (datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND * 1000
