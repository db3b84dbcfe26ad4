"""The texts that have passed a worker process, by digest, and what was made of the last ones.

Plans and scripts are shared: neither changes after it was made. The plan of a workflow with secrets is not
kept, since its variables belong to one request; only that its text has passed. No plan is remembered where
texts may name files, whose contents change, or where functions are imported.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from roundel.llm.script import Script
from roundel.plan.graph import Plan
from roundel.workflow.policy import Policy

MAX_WEIGHT = 20_000
"""How much is kept: nodes and edges, and one for each 500 characters."""
_KEY = os.urandom(32)
"""Variables may be secrets that are short; nobody should find them by their digests."""


def digest_of(*parts: Any) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(parts), key=_KEY, digest_size=32).digest()


class AcceptedTexts:
    """One for each server."""

    def __init__(self, policy: Policy) -> None:
        self._remembers_plans = not (policy.trusted or policy.files)
        self._found: dict[bytes, tuple[Plan | Script | None, int]] = {}
        """What was made of each text, and its weight; the one that was used last at the end."""
        self._weight = 0

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._found

    def find(self, digest: bytes) -> Plan | Script | None:
        """What was made of a text; None if it is not known, or has to be made again."""
        entry = self._found.pop(digest, None)
        if entry is None:
            return None
        self._found[digest] = entry
        return entry[0]

    def add(self, digest: bytes, made: Plan | Script, length: int) -> None:
        """Remembers a text of this length that has passed, and what was made of it."""
        if digest in self._found or (isinstance(made, Plan) and not self._remembers_plans):
            return
        kept, weight = _kept(made, length)
        self._found[digest] = (kept, weight)
        self._weight += weight
        while self._weight > MAX_WEIGHT:
            self._weight -= self._found.pop(next(iter(self._found)))[1]


def _kept(made: Plan | Script, length: int) -> tuple[Plan | Script | None, int]:
    weight = 1 + length // 500
    if isinstance(made, Plan):
        weight += sum(len(graph.nodes) + len(graph.edges) for graph in made.graph.family)
        if made.workflow.secrets:
            return None, 1
    return (made, weight) if weight < MAX_WEIGHT // 4 else (None, 1)
