"""The passages of files, on a shelf: read when they are first asked for, and again when they have changed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from roundel.memory.passages import passages
from roundel.memory.sources import (
    FileStamp,
    display_path,
    file_stamp,
    list_files,
    read_content,
    valid_unicode,
)
from roundel.memory.store import Item, MemoryStore, Shelf
from roundel.nodes.threads import run_in_thread
from roundel.workflow.attachment import Files, FileSource
from roundel.workflow.file_access import FileAccess, Outside

MAX_FILES = 5000
WRITE_BATCH = 500
"""Passages that are written together; those of one file always are."""
FileVersion = tuple[str, str]
"""A file, and what is in it."""


class FileIndex:
    """One for all agents of a run that read the same files: those at work at once wait for the first of them,
    and find the files read."""

    def __init__(
        self,
        config: Files,
        folder: Path | None,
        shelf: Shelf,
        access: FileAccess,
        mask: Callable[[str], str],
    ) -> None:
        self._config, self._folder, self._shelf, self._access = config, folder, shelf, access
        self._mask = mask
        """Takes secrets out of what is read: passages are stored, and shown to models."""
        self._last_stamps: list[FileStamp] | None = None
        self._lock = asyncio.Lock()

    async def refresh(self, memories: MemoryStore, now: float) -> list[str]:
        """What is wrong with the sources; whatever can be read is on the shelf."""
        async with self._lock:
            return await self._refresh(memories, now)

    async def _refresh(self, memories: MemoryStore, now: float) -> list[str]:
        """A few files at a time: who is interrupted goes on from there the next time."""
        files: Mapping[Path, FileSource]
        files, stamps, problems = await run_in_thread(self._list_sources)
        if stamps == self._last_stamps:
            return list(problems)
        known = await self._known(memories, now)
        fresh: list[Item] = []
        for path, source in files.items():
            try:
                version, items = await run_in_thread(
                    _read_passages, path, source, known.keys(), now, self._mask
                )
            except (OSError, ValueError, LookupError) as error:
                problems.append(f"{display_path(Path(path.name))} cannot be read: {error}")
                continue
            known.pop(version, None)
            fresh += items
            if len(fresh) >= WRITE_BATCH:
                await self._replace(memories, known, fresh)
                fresh = []
        await self._replace(memories, known, fresh)
        await self._forget(memories, [number for ids in known.values() for number in ids])
        self._last_stamps = stamps
        return list(problems)

    async def _known(self, memories: MemoryStore, now: float) -> dict[FileVersion, list[int]]:
        """The entries of each file as it was when it was read."""
        known: dict[FileVersion, list[int]] = {}
        for entry in await memories.entries(self._shelf.group, now, self._shelf.name):
            known.setdefault((entry.about["file"], entry.about["hash"]), []).append(entry.id)
        return known

    async def _replace(
        self, memories: MemoryStore, known: dict[FileVersion, list[int]], items: list[Item]
    ) -> None:
        """What stands in files now, in place of what stood there."""
        files = {item.about["file"] for item in items}
        old = [version for version in known if version[0] in files]
        await self._forget(memories, [number for version in old for number in known.pop(version)])
        if items:
            await memories.remember(self._shelf, items)

    async def _forget(self, memories: MemoryStore, ids: list[int]) -> None:
        if ids:
            await memories.forget(self._shelf.group, ids)

    def _list_sources(self) -> tuple[dict[Path, FileSource], list[FileStamp], list[str]]:
        found: dict[Path, FileSource] = {}
        problems: list[str] = []
        for source in self._config.file_sources:
            try:
                found_path = self._access.find(source.path, self._folder)
            except Outside as outside:
                problems.append(f"'{source.path}' cannot be read: {outside}; {outside.hint}")
                continue
            if found_path is None:
                problems.append(f"'{source.path}' is not there")
                continue
            for path in list_files(found_path.place, source):
                try:  # a link in a folder may lead out of it
                    self._access.checked(path, found_path.root)
                except Outside as outside:
                    problems.append(
                        f"{display_path(Path(path.name))} cannot be read: {outside}; {outside.hint}"
                    )
                    continue
                found.setdefault(path, source)
        if len(found) > MAX_FILES:
            problems.append(f"there are {len(found)} files; only the first {MAX_FILES} are read")
        files = dict(list(found.items())[:MAX_FILES])
        return files, [file_stamp(path) for path in files], problems


def _read_passages(
    path: Path,
    source: FileSource,
    known: Mapping[FileVersion, object],
    now: float,
    mask: Callable[[str], str],
) -> tuple[FileVersion, list[Item]]:
    """A file as it is, and its passages if it is not known."""
    data = read_content(path)
    version = (display_path(path), hashlib.blake2b(data, digest_size=12).hexdigest())
    if version in known:
        return version, []
    about = {"file": version[0], "hash": version[1]}
    texts = passages(mask(valid_unicode(data.decode(source.encoding))))
    return version, [
        Item(text, now, about=about, found_by=display_path(Path(path.name)), apart=version[0])
        for text in texts
    ]
