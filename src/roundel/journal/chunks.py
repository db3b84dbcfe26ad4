"""Facts as rows: many in one, so that what is written together is read together and takes little room.

A chunk holds its entries, a line of JSON each, compressed if that makes it smaller. Each chunk has the
version of its entries; older ones are brought up to date as they are read, one version at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from roundel.kernel.facts import VERSION, Entry, decode_entry

PLAIN, PACKED = b"j", b"d"
WORTH_PACKING = 300
"""Bytes from which on the room is worth the time: less is compressed slower than it is written."""
DICTIONARY = (
    b'"error":"","arguments":{"tool_calls":[{"id":"call_"metadata":{"source":"","role":"tool""role":"user"'
    b'{"type":"consulted","verdicts":[{"edge":0,"message":0,"fires":true,"result":{"type":"answered"'
    b'"state":{"reply":{"text":""usage":{"model_calls":1,"input_tokens":1,"output_tokens":1,"cost_usd":0.0,'
    b'"model":"","port":"continue","reason":"","data":{"state":1,"report":{"count":1,"max_iterations":10}}'
    b',"outcome":{"messages":[{"content":"","role":"assistant"}]},"time":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"state":1,"report":{"count":1'
    b'}\n{"type":"finished","address":"[1]/","outcome":{"messages":[{"content":"'
)
"""What nearly all entries contain, for zlib to refer to: most chunks hold one or two entries, which have
little of their own to repeat. It is part of the format. Another one needs another letter than PACKED."""


def pack(lines: Iterable[bytes]) -> bytes:
    body = b"\n".join(lines)
    if len(body) >= WORTH_PACKING:
        compressor = zlib.compressobj(6, zdict=DICTIONARY)
        packed = compressor.compress(body) + compressor.flush()
        if len(packed) < len(body):
            return PACKED + packed
    return PLAIN + body


def unpack(body: bytes, version: int = VERSION) -> list[Entry]:
    """ValueError if it cannot be read."""
    try:
        text = _decompressed(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error as error:
        raise ValueError(f"the facts are damaged: {error}") from None
    lines = text.split(b"\n") if text else []
    return [decode_entry(line, version) for line in lines]


def _decompressed(packed: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=DICTIONARY)
    text = decompressor.decompress(packed)
    if not decompressor.eof:
        raise zlib.error("they are incomplete")
    return text
