"""Files as memories: the passages of text files, and memories in JSON files of other programs.

Files are read and never written. `FileIndex` splits text files into passages and puts them on a shelf of
the store, where they are found like other entries. `JsonImport` reads memories that another program has
stored, and keeps them in memory. Both follow the rules for files that a workflow names (decision 12),
and report what cannot be read as problems.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from roundel.memory.search import index_words
from roundel.memory.store import Item, Match, MemoryEntry, MemoryStore, Shelf
from roundel.nodes.user_code import run_in_thread
from roundel.workflow.document import FileAccess, OutsideFolderError
from roundel.workflow.memory_config import AUTO, FileMemory, FileSource

MAX_BYTES = 5 * 1024 * 1024
"""The size of the largest file that is read."""
FileStamp = tuple[str, int, int]
"""Path, modification time and size of a file."""


def list_files(place: Path, source: FileSource) -> Iterator[Path]:
    """The files of a source, sorted, so that a limit on their number always selects the same ones."""
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
    """A stamp that differs if the file has changed, without reading it."""
    try:
        status = path.stat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), status.st_mtime_ns, status.st_size)


def read_content(path: Path) -> bytes:
    """The content of a file; ValueError if it is too large. It reads one byte more than allowed instead
    of trusting the size, since the file may grow meanwhile, or be no regular file."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 1024**2} MB")
    return data


def display_path(path: Path) -> str:
    """A path as text that can be stored and shown: a file name may contain bytes that are no valid
    text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def valid_unicode(text: str) -> str:
    """The text without lone surrogates, which JSON in a file may contain and the store cannot encode."""
    return text.encode("utf-8", "replace").decode()


PASSAGE_SIZE = 500
"""Characters of a passage at most."""
PASSAGE_OVERLAP = 50
"""Characters that two passages share, so that a sentence at a cut is found as a whole in one of them."""
PAUSES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "！", "？"), (" ",))
"""Places for a cut, from the best to the worst: paragraphs, lines, sentences, words."""


def split_passages(text: str, size: int = PASSAGE_SIZE, overlap: int = PASSAGE_OVERLAP) -> list[str]:
    """Splits a long text into passages, at places where a reader would pause; each begins with the end
    of the one before."""
    text, begin = text.strip(), 0
    found: list[str] = []
    while len(text) - begin > size:
        end = _passage_end(text, begin, size)
        found.append(text[begin:end])
        # At least one character further, or a text without pauses would never end.
        begin = max(_passage_start(text, end - overlap, end), begin + 1)
    found.append(text[begin:])
    return [piece.strip() for piece in found if piece.strip()]


def _passage_end(text: str, begin: int, size: int) -> int:
    """The end of a passage: behind the last pause in its second half, else at its full size."""
    for pauses in PAUSES:
        places = (text.rfind(pause, begin + size // 2, begin + size) for pause in pauses)
        ends = [place + len(pause) for place, pause in zip(places, pauses, strict=True) if place >= 0]
        if ends:
            return min(max(ends), begin + size)
    return begin + size


def _passage_start(text: str, place: int, end: int) -> int:
    """The start of the first whole word in the overlap; `place` itself if there is none."""
    words = (at for at in range(place, end) if text[at - 1].isspace())
    begin = next(words, place)
    while text[begin].isspace():
        begin += 1
    return begin


class JsonImportError(Exception):
    """A JSON file of memories cannot be read; the text says why. The agent runs without it."""


class JsonImport:
    """Memories that another program wrote as a JSON file, at the `memory_path` of a memory. The file is
    optional, read only, and read again when it changes. Its entries are never copied into the store,
    which would make them outlive the file."""

    def __init__(self, path: str, folder: Path | None, access: FileAccess) -> None:
        self._path = "" if path == AUTO else path
        self._folder, self._access = folder, access
        self._last_stamp: FileStamp | None = None
        self._matches: list[Match] = []

    def matches(self) -> list[Match]:
        """The entries of the file; none if there is no file. JsonImportError if it cannot be read. It
        blocks."""
        try:
            found = self._access.find(self._path, self._folder) if self._path else None
        except OutsideFolderError as outside:
            raise JsonImportError(f"{self._path} cannot be read: {outside}; {outside.hint}") from None
        if found is None or not found.place.is_file():
            return []
        place = found.place
        now = file_stamp(place)
        if now != self._last_stamp:
            # The stamp was taken before reading and is set after it: a file that changes meanwhile, or
            # that cannot be read, is read again the next time.
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
            raise JsonImportError(f"{self._path} cannot be read: it contains no list of memories")
        texts = [map(valid_unicode, _item_texts(item)) for item in items]
        return [
            _make_match(number, output, input_text)
            for number, (output, input_text) in enumerate(texts, 1)
            if output
        ]


def _item_texts(item: Any) -> tuple[str, str]:
    """The output and the input of an item, in the forms that the dialect writes: text, or text in a
    mapping."""
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
    # A negative id, so that it never equals that of a stored entry.
    return Match(MemoryEntry(-number, "", "", output, 0.0), frozenset(index_words(f"{output}\n{input_text}")))


MAX_FILES = 5000
"""Files of one memory that are read."""
WRITE_BATCH = 500
"""Passages after which a batch is written. The passages of one file are always in one batch."""
FileVersion = tuple[str, str]
"""The path of a file and the digest of its content."""


class FileIndex:
    """The passages of files, on a shelf of the store. One index serves all agents of a run that read the
    same files: the first one reads them, and concurrent ones wait for it at the lock.

    Files are read when an agent first needs them, and again if a stamp has changed. The content decides
    what is indexed again: each entry has the digest of its file, so an index of an earlier run or
    another process is reused."""

    def __init__(
        self,
        config: FileMemory,
        folder: Path | None,
        shelf: Shelf,
        access: FileAccess,
        mask: Callable[[str], str],
    ) -> None:
        self._config, self._folder, self._shelf, self._access = config, folder, shelf, access
        self._mask = mask
        """Masks secrets in what is read: passages are stored and sent to models."""
        self._last_stamps: list[FileStamp] | None = None
        self._lock = asyncio.Lock()

    async def refresh(self, memories: MemoryStore, now: float) -> list[str]:
        """Brings the shelf up to date and returns problems with the sources. Files that can be read are
        indexed even if others cannot."""
        async with self._lock:
            return await self._refresh(memories, now)

    async def _refresh(self, memories: MemoryStore, now: float) -> list[str]:
        """Writes in batches, so that a time limit or a crash loses little: the next call finds the files
        that are indexed already by their digests, and continues behind them."""
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
            known.pop(version, None)  # what is left in `known` at the end is outdated
            fresh += items
            if len(fresh) >= WRITE_BATCH:
                await self._replace(memories, known, fresh)
                fresh = []
        await self._replace(memories, known, fresh)
        await self._forget(memories, [number for ids in known.values() for number in ids])
        # Only now: after an interrupted refresh the files have to be looked at again.
        self._last_stamps = stamps
        return list(problems)

    async def _known(self, memories: MemoryStore, now: float) -> dict[FileVersion, list[int]]:
        """The ids of the entries of each file version on the shelf."""
        known: dict[FileVersion, list[int]] = {}
        for entry in await memories.entries(self._shelf.group, now, self._shelf.name):
            known.setdefault((entry.about["file"], entry.about["hash"]), []).append(entry.id)
        return known

    async def _replace(
        self, memories: MemoryStore, known: dict[FileVersion, list[int]], items: list[Item]
    ) -> None:
        """Replaces the entries of earlier versions of files by new ones. The old ones are deleted first:
        after a crash in between the file is unknown, and is indexed again."""
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
            except OutsideFolderError as outside:
                problems.append(f"'{source.path}' cannot be read: {outside}; {outside.hint}")
                continue
            if found_path is None:
                problems.append(f"'{source.path}' does not exist")
                continue
            for path in list_files(found_path.place, source):
                try:  # a link inside of a folder may lead out of it (decision 12)
                    self._access.resolve_inside(path, found_path.root)
                except OutsideFolderError as outside:
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
    """The version of a file, and its passages if this version is not indexed yet. It blocks."""
    data = read_content(path)
    version = (display_path(path), hashlib.blake2b(data, digest_size=12).hexdigest())
    if version in known:
        return version, []
    about = {"file": version[0], "hash": version[1]}
    texts = split_passages(mask(valid_unicode(data.decode(source.encoding))))
    return version, [
        Item(text, now, about=about, found_by=display_path(Path(path.name)), apart=version[0])
        for text in texts
    ]
