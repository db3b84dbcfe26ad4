"""What agents remember from files: folders that are indexed, and memories that others have written as JSON.

Nothing is ever written to them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from roundel.hosts.threads import in_thread
from roundel.memory.passages import passages
from roundel.memory.store import Entry, Item, Match, Memories, Shelf
from roundel.memory.words import held
from roundel.workflow.attachment import AUTO, Files, FileSource, find_path

MOST_FILES = 5000
LARGEST = 5 * 1024 * 1024
Stamp = tuple[str, int, int]


class Trouble(Exception):
    """A memory cannot be read; the text says why."""


class Index:
    """The passages of some files, on a shelf, and new whenever a file is."""

    def __init__(self, config: Files, folder: Path | None, shelf: Shelf) -> None:
        self._config, self._folder, self._shelf = config, folder, shelf
        self._seen: list[Stamp] | None = None

    async def refresh(self, memories: Memories, now: float) -> list[str]:
        """What is wrong with the sources; whatever can be read is on the shelf."""
        files, stamps, troubles = await in_thread(self._files)
        if stamps == self._seen:
            return list(troubles)
        entries = await memories.entries(self._shelf.group, now, self._shelf.name)
        known = {_version(entry) for entry in entries}
        items, current = await in_thread(self._read, files, known, troubles, now)
        stale = [entry.id for entry in entries if _version(entry) not in current]
        if stale:
            await memories.forget(self._shelf.group, stale)
        if items:
            await memories.remember(self._shelf, items)
        self._seen = stamps
        return list(troubles)

    def _files(self) -> tuple[list[tuple[Path, FileSource]], list[Stamp], list[str]]:
        found: dict[Path, FileSource] = {}
        troubles: list[str] = []
        for source in self._config.file_sources:
            place = find_path(source.path, self._folder)
            if place is None:
                troubles.append(f"'{source.path}' is not there")
                continue
            for path in _listed(place, source):
                found.setdefault(path, source)
        if len(found) > MOST_FILES:
            troubles.append(f"there are {len(found)} files; only the first {MOST_FILES} are read")
        files = list(found.items())[:MOST_FILES]
        return files, [_stamp(path) for path, _ in files], troubles

    def _read(
        self,
        files: Iterable[tuple[Path, FileSource]],
        known: set[tuple[str, str]],
        troubles: list[str],
        now: float,
    ) -> tuple[list[Item], set[tuple[str, str]]]:
        items: list[Item] = []
        current: set[tuple[str, str]] = set()
        for path, source in files:
            try:
                data = _bytes(path)
                version = (str(path), hashlib.blake2b(data, digest_size=12).hexdigest())
                current.add(version)
                if version not in known:
                    items += _items(data.decode(source.encoding), *version, now)
            except (OSError, ValueError, LookupError) as error:
                troubles.append(f"{path.name} cannot be read: {error}")
        return items, current


def _listed(place: Path, source: FileSource) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    endings = tuple(ending.lower() for ending in source.file_types)
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(inner) if source.recursive else []
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and (not endings or name.lower().endswith(endings)):
                yield path


def _stamp(path: Path) -> Stamp:
    try:
        told = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), told.st_mtime_ns, told.st_size)


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024**2} MB")
    return data


def _items(text: str, file: str, digest: str, now: float) -> list[Item]:
    about = {"file": file, "hash": digest}
    name = Path(file).name
    return [Item(piece, now, about=about, found_by=name, apart=file) for piece in passages(text)]


def _version(entry: Entry) -> tuple[str, str]:
    return entry.about.get("file", ""), entry.about.get("hash", "")


def written_elsewhere(path: str, folder: Path | None) -> list[Match]:
    """What a JSON file holds that stands where a memory has its path; nothing if there is none."""
    place = find_path(path, folder) if path and path != AUTO else None
    if place is None or place.is_dir():
        return []
    try:
        found = json.loads(_bytes(place).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Trouble(f"{path} cannot be read: {error}") from None
    items = found.get("items", found.get("memories")) if isinstance(found, dict) else found
    if not isinstance(items, list):
        raise Trouble(f"{path} cannot be read: it holds no list of memories")
    texts = (_texts(item) for item in items)
    return [_match(number, *text) for number, text in enumerate(texts, 1) if text[0]]


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
