"""Codecs: encode values to versioned JSON, and decode them.

Stored data outlives the program that wrote it. Each kind of value that leaves the process has one codec,
which names its type, the version that this program writes, and for each older version a function that
upgrades its decoded JSON to the next version:

    facts        one line each in a chunk, whose row has the version (facts.py, journal/run_journal.py)
    decisions    after their fact in the same line, under the same version (facts.py)
    commands     the version is a prefix (commands.py)
    events       of pruned runs, whose row has the version (events.py)
    snapshots    the version is a prefix; older ones are not read, facts can rebuild them (snapshot.py)

A type may change without a new version as long as the JSON of the old one still decodes to the same
value: a new field with a default can be added. Every other change needs a version and an upgrade.

JSON has no structs: `typed` restores the states of nodes, of the types that their node types declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
Upgrade = Callable[[Any], Any]
"""Converts the decoded JSON of one version to that of the next."""


class CodecError(ValueError):
    """A value cannot be decoded: it is damaged, or its version is not known."""


class Codec(Generic[T]):
    """Encodes and decodes values of one type. There is one for each kind, made where the type is
    defined."""

    def __init__(
        self,
        name: str,
        kind: Any,
        *,
        version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
        oldest: int = 1,
        hook: Callable[[Any], Any] | None = None,
    ) -> None:
        """`oldest` is the oldest version that can be read; `hook` encodes objects that are not JSON."""
        self.name, self.kind = name, kind
        self.version = version
        self._oldest = oldest
        self._upgrades = dict(upgrades or {})
        if sorted(self._upgrades) != list(range(oldest, version)):
            raise ValueError(f"the codec of {name} lacks an upgrade, or has one too many")
        # Bound methods of msgspec, without a wrapper: each effect of a run encodes and decodes a fact.
        self.encode: Callable[[T], bytes] = msgspec.json.Encoder(enc_hook=hook).encode
        self._decode: Callable[[bytes | str], T] = msgspec.json.Decoder(kind).decode

    def decode(self, body: bytes | str, version: int | None = None) -> T:
        """Decodes a value of this or of an older version; CodecError."""
        try:
            if version is None or version == self.version:
                return self._decode(body)
            return self._decode(msgspec.json.encode(self._upgraded(msgspec.json.decode(body), version)))
        except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError) as error:
            raise CodecError(f"{self.name} cannot be decoded: {error}") from error

    def _upgraded(self, fields: Any, version: int) -> Any:
        if not self._oldest <= version < self.version:
            known = f"{self._oldest} to {self.version}" if self._oldest < self.version else str(self.version)
            raise CodecError(f"{self.name} of version {version}: this program knows {known}")
        for older in range(version, self.version):
            fields = self._upgrades[older](fields)
        return fields

    def encode_versioned(self, value: T) -> bytes:
        """Encodes the value with its version as a prefix, where nothing else stores the version."""
        return b"%d %b" % (self.version, self.encode(value))

    def decode_versioned(self, body: bytes) -> T:
        """Decodes the result of `encode_versioned`, in this or in an older version; CodecError."""
        version, _, encoded = body.partition(b" ")
        if not version.isdigit():
            raise CodecError(f"{self.name} has no version as a prefix")
        return self.decode(encoded, int(version))


def typed(kind: Any, state: Any) -> Any:
    """Converts a node's state to the type that its node type declares; CodecError if it does not fit.

    None as the type declares nothing, and None as the state means that there is none: both leave it
    unchanged.
    """
    if kind is None or state is None or state.__class__ is kind:
        return state
    try:
        return msgspec.convert(msgspec.to_builtins(state), kind)
    except (msgspec.MsgspecError, TypeError) as error:
        raise CodecError(f"the state does not fit its type: {error}") from error
