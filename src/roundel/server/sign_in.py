"""Slows down those who guess: counts failed sign-ins by address, in bounded memory."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_FAILURES = 10
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000


class FailureLimiter:
    """Refuses addresses with too many failures. One for each server.

    Each address has a count that empties steadily, MAX_FAILURES in WINDOW_SECONDS. If more than MAX_ADDRESSES
    fail at the same time, the longest quiet ones are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How full the count of an address was, and when."""

    def wait_seconds(self, address: str) -> float:
        """How long the address has to wait before it may try again; 0 if it need not."""
        excess = self._level(network_of(address)) - (MAX_FAILURES - 1)
        return max(0.0, excess) * WINDOW_SECONDS / MAX_FAILURES

    def note_failure(self, address: str) -> None:
        key = network_of(address)
        self._levels[key] = (self._level(key) + 1, self._clock())
        self._levels.move_to_end(key)
        if len(self._levels) > MAX_ADDRESSES:
            self._levels.popitem(last=False)

    def _level(self, key: str) -> float:
        level, since = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - since) * MAX_FAILURES / WINDOW_SECONDS)

    def __len__(self) -> int:
        return len(self._levels)


def network_of(address: str) -> str:
    """Who an address belongs to: with IPv6 everybody has a whole network of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
