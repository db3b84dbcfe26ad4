"""Facts as rows: many in one, so that what is written together is read together and takes little room.

A chunk is the JSON of its facts, a line each, packed if that makes it smaller. Each has the version of the
facts in it; older ones are brought up to date as they are read, one version at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from roundel.kernel.facts import Fact, decode_fact, encode_fact

VERSION = 1
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From each older version to the next."""
PLAIN, PACKED = b"j", b"z"
WORTH_PACKING = 300


def pack(lines: Iterable[bytes]) -> bytes:
    body = b"\n".join(lines)
    if len(body) >= WORTH_PACKING:
        packed = zlib.compress(body, 1)
        if len(packed) < len(body):
            return PACKED + packed
    return PLAIN + body


def unpack(body: bytes, version: int = VERSION) -> list[Fact]:
    """ValueError if it cannot be read."""
    if version > VERSION:
        raise ValueError(f"the facts have version {version}; this program knows {VERSION} and older ones")
    try:
        text = zlib.decompress(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error as error:
        raise ValueError(f"the facts are damaged: {error}") from None
    lines = text.split(b"\n") if text else []
    return [_decoded(line, version) for line in lines]


def _decoded(line: bytes, version: int) -> Fact:
    if version == VERSION:
        return decode_fact(line)
    fields = msgspec.json.decode(line)
    for older in range(version, VERSION):
        fields = UPGRADES[older](fields)
    return decode_fact(msgspec.json.encode(fields))


__all__ = ["UPGRADES", "VERSION", "encode_fact", "pack", "unpack"]
