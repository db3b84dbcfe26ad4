"""Memories that other programs have written, as a JSON file: a list of what was said, and on what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roundel.memory.sources import Stamp, content, stamp, writable
from roundel.memory.store import Entry, Match
from roundel.memory.words import held
from roundel.workflow.attachment import AUTO
from roundel.workflow.file_access import FileAccess, Outside


class Trouble(Exception):
    """A memory cannot be read; the text says why."""


class Elsewhere:
    """What lies at the path of a memory, if anything does."""

    def __init__(self, path: str, folder: Path | None, access: FileAccess) -> None:
        self._path = "" if path == AUTO else path
        self._folder, self._access = folder, access
        self._seen: Stamp | None = None
        self._matches: list[Match] = []

    def matches(self) -> list[Match]:
        """Trouble if it cannot be read."""
        try:
            found = self._access.find(self._path, self._folder) if self._path else None
        except Outside as outside:
            raise Trouble(f"{self._path} cannot be read: {outside}; {outside.hint}") from None
        if found is None or not found.place.is_file():
            return []
        place = found.place
        now = stamp(place)
        if now != self._seen:
            self._matches = self._read(place)
            self._seen = now
        return self._matches

    def _read(self, place: Path) -> list[Match]:
        try:
            found = json.loads(content(place).decode("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise Trouble(f"{self._path} cannot be read: {error}") from None
        items = found.get("items", found.get("memories")) if isinstance(found, dict) else found
        if not isinstance(items, list):
            raise Trouble(f"{self._path} cannot be read: it holds no list of memories")
        texts = [map(writable, _texts(item)) for item in items]
        return [_match(number, said, asked) for number, (said, asked) in enumerate(texts, 1) if said]


def _texts(item: Any) -> tuple[str, str]:
    """What was said, and what it was about."""
    if not isinstance(item, dict):
        return (item if isinstance(item, str) else ""), ""
    said, asked = _snapshot(item.get("output_snapshot")), _snapshot(item.get("input_snapshot"))
    summary = item.get("content_summary")
    return (said or (summary if isinstance(summary, str) else "") or asked), asked


def _snapshot(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else ""


def _match(number: int, said: str, asked: str) -> Match:
    return Match(Entry(-number, "", "", said, 0.0), frozenset(held(f"{said}\n{asked}")))
