"""Files that are read for a memory, and never written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from roundel.workflow.attachment import FileSource

LARGEST = 5 * 1024 * 1024
Stamp = tuple[str, int, int]


def listed(place: Path, source: FileSource) -> Iterator[Path]:
    """The files of a source, in an order that stays the same."""
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


def stamp(path: Path) -> Stamp:
    """Another one if the file has changed."""
    try:
        told = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), told.st_mtime_ns, told.st_size)


def content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024**2} MB")
    return data


def named(path: Path) -> str:
    """A path as it can be shown and kept: in a name there may be bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def writable(text: str) -> str:
    """As it can be shown and kept: what stands in a file may hold halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
