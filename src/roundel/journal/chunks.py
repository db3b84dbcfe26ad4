"""Facts as rows: many in one, so that what is written together is read together and takes little room.

A chunk holds its entries, a line of JSON each, compressed if that makes it smaller. Each chunk has the
version of its entries; older ones are brought up to date as they are read, one version at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from roundel.kernel.facts import Entry, decode_entry

VERSION = 2
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda fact: fact}
"""The fields of a fact, from each older version to the next. Version 1 had no decisions."""
DECISIONS_SINCE = 2
PLAIN, PACKED = b"j", b"z"
WORTH_PACKING = 300


def pack(lines: Iterable[bytes]) -> bytes:
    body = b"\n".join(lines)
    if len(body) >= WORTH_PACKING:
        packed = zlib.compress(body, 1)
        if len(packed) < len(body):
            return PACKED + packed
    return PLAIN + body


def unpack(body: bytes, version: int = VERSION) -> list[Entry]:
    """ValueError if it cannot be read."""
    if version > VERSION:
        raise ValueError(f"the facts have version {version}; this program knows {VERSION} and older ones")
    try:
        text = zlib.decompress(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error as error:
        raise ValueError(f"the facts are damaged: {error}") from None
    lines = text.split(b"\n") if text else []
    return [_entry(line, version) for line in lines]


def _entry(line: bytes, version: int) -> Entry:
    if version == VERSION:
        return decode_entry(line)
    line, tab, decisions = line.partition(b"\t")
    fields = msgspec.json.decode(line)
    for older in range(version, VERSION):
        fields = UPGRADES[older](fields)
    entry = decode_entry(msgspec.json.encode(fields) + tab + decisions)
    return entry if version >= DECISIONS_SINCE else Entry(entry.fact, None)
