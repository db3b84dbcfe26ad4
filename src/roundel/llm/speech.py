"""What a model is saying, while it is."""

from __future__ import annotations

import time
from typing import Any

from roundel.nodes.services import Say

FLUSH_SECONDS = 0.05
"""Seconds between two parts of what a model is saying."""


class TextStream:
    """Hands on what is said in parts that are worth an event."""

    def __init__(self, say: Say, attempt: int) -> None:
        self._say, self._attempt = say, attempt
        self._parts: list[str] = []
        self._offset = 0
        self._since = time.monotonic()

    def add_event(self, event: Any) -> None:
        if event.event_kind not in ("part_start", "part_delta"):
            return  # the end of a part says all of it once more
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        kind = getattr(part, "part_kind", None) or getattr(part, "part_delta_kind", None)
        if kind != "text":
            return
        self.add(str(getattr(part, "content", None) or getattr(part, "content_delta", "")))

    def add(self, text: str) -> None:
        self._parts.append(text)
        if time.monotonic() - self._since >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        self._since = time.monotonic()
        if text:
            self._say(text, self._attempt, self._offset)
            self._offset += len(text)
