"""Memories that other programs have written, as a JSON file: a list of what was said, and on what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roundel.memory.sources import FileStamp, file_stamp, read_content, valid_unicode
from roundel.memory.store import Match, MemoryEntry
from roundel.memory.words import index_words
from roundel.workflow.attachment import AUTO
from roundel.workflow.file_access import FileAccess, Outside


class JsonImportError(Exception):
    """A memory cannot be read; the text says why."""


class JsonImport:
    """What lies at the path of a memory, if anything does."""

    def __init__(self, path: str, folder: Path | None, access: FileAccess) -> None:
        self._path = "" if path == AUTO else path
        self._folder, self._access = folder, access
        self._last_stamp: FileStamp | None = None
        self._matches: list[Match] = []

    def matches(self) -> list[Match]:
        """Trouble if it cannot be read."""
        try:
            found = self._access.find(self._path, self._folder) if self._path else None
        except Outside as outside:
            raise JsonImportError(f"{self._path} cannot be read: {outside}; {outside.hint}") from None
        if found is None or not found.place.is_file():
            return []
        place = found.place
        now = file_stamp(place)
        if now != self._last_stamp:
            self._matches = self._read(place)
            self._last_stamp = now
        return self._matches

    def _read(self, place: Path) -> list[Match]:
        try:
            found = json.loads(read_content(place).decode("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise JsonImportError(f"{self._path} cannot be read: {error}") from None
        items = found.get("items", found.get("memories")) if isinstance(found, dict) else found
        if not isinstance(items, list):
            raise JsonImportError(f"{self._path} cannot be read: it holds no list of memories")
        texts = [map(valid_unicode, _item_texts(item)) for item in items]
        return [
            _make_match(number, output, input_text)
            for number, (output, input_text) in enumerate(texts, 1)
            if output
        ]


def _item_texts(item: Any) -> tuple[str, str]:
    """What was said, and what it was about."""
    if not isinstance(item, dict):
        return (item if isinstance(item, str) else ""), ""
    output, input_text = _snapshot(item.get("output_snapshot")), _snapshot(item.get("input_snapshot"))
    summary = item.get("content_summary")
    return (output or (summary if isinstance(summary, str) else "") or input_text), input_text


def _snapshot(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else ""


def _make_match(number: int, output: str, input_text: str) -> Match:
    return Match(MemoryEntry(-number, "", "", output, 0.0), frozenset(index_words(f"{output}\n{input_text}")))
