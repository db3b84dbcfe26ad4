"""Keys that must not be seen: whatever leaves the host as an error or a tool's result passes through here."""

from __future__ import annotations

import os
import re

SHORTEST = 6
"""Anything shorter is no secret, and would be found everywhere."""
MASK = "***"
_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|ACCESS_KEY|SECRET_KEY|SECRET|TOKEN|PASSWORD)$", re.IGNORECASE)


class Secrets:
    """Those of the environment belong to them: tools see it, and so do client libraries."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._looked = False
        """Whether the environment was looked into; most runs have nothing to scrub."""

    def add(self, *values: str | None) -> None:
        for value in values:
            if value and len(value) >= SHORTEST:
                self._known.add(value)
                # `Authorization: Bearer KEY`: the key alone is as much of a secret.
                self._known.update(word for word in value.split() if len(word) >= 2 * SHORTEST)

    def _look(self) -> None:
        self._looked = True
        for name, value in os.environ.items():
            if _SECRET_NAME.search(name) and len(value) >= 2 * SHORTEST:
                self.add(value)

    def scrub(self, text: str) -> str:
        if not self._looked:
            self._look()
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text
