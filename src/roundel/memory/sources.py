"""Files that are read for a memory, and never written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from roundel.workflow.attachment import FileSource

MAX_BYTES = 5 * 1024 * 1024
FileStamp = tuple[str, int, int]


def list_files(place: Path, source: FileSource) -> Iterator[Path]:
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


def file_stamp(path: Path) -> FileStamp:
    """Another one if the file has changed."""
    try:
        status = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), status.st_mtime_ns, status.st_size)


def read_content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 1024**2} MB")
    return data


def display_path(path: Path) -> str:
    """A path as it can be shown and kept: in a name there may be bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def valid_unicode(text: str) -> str:
    """As it can be shown and kept: what stands in a file may hold halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
