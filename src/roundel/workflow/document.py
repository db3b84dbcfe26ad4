"""Documents: reads YAML and JSON files into values with locations, and bounds which files a workflow may
name.

A document is a tree of `Located` values. Each value has its line and column, so that every later stage
(the substitution of variables, the reader, the checks of names) can report a problem at its place. A
value that comes from Python has no location; the same readers handle it, with line 0.

Reading. PyYAML is used as a source of events only; yaml_parser.py decides what the events mean. It
follows the YAML 1.2 core schema, rejects what is unsafe or ambiguous, and continues after a problem
where it can. Strict JSON has an event source of its own. Functions here never raise for bad input: they
report an error and return None.

File access. A path in a workflow is resolved with all its links and `..` before it is checked, so it
does not matter how it leads outside: a rule about the text of a path would not see links. The result has
to be in the folder of the main file, or in a folder that the user has allowed. The file that a user
names on the command line or in Python is never checked: it defines the workflow's folder. This protects
against workflows that were downloaded, which could otherwise have any file of the user read and sent to
a model. It is no sandbox: Python functions, programs and MCP servers run with the rights of the user
(docs/decisions/0012).
"""

from __future__ import annotations

import codecs
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from roundel.workflow.diagnostics import Report

AllowPaths = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]
"""One folder or several, as a user gives them."""


ALLOWED_FOLDERS_HINT: Final = "the operator names the folders under 'files' of the allow-list"
MAX_LINKS: Final = 40
"""Links in one path. Linux follows as many."""


class FoundPath(Struct, frozen=True):
    """A path that exists, and the folder that it has to stay in. `FileAccess.find` creates it.

    The memory of files checks each file below `place` against `root` again (memory/files.py): a link
    inside a folder may lead outside."""

    place: Path
    root: Path


class OutsideFolderError(Exception):
    """A path leads outside the folders that a workflow may use. The hint names the folder to allow; without
    a place, the error says nothing about where the path leads, or whether anything is there."""

    def __init__(self, place: Path | None) -> None:
        if place is None:
            super().__init__("no folder that it may use has such a file")
            self.hint = ALLOWED_FOLDERS_HINT
            return
        super().__init__(f"it leads to {place}, outside the workflow's folder")
        self.hint = (
            "put it into that folder, or allow the folder where it is: "
            f"--allow-path {shlex.quote(str(place.parent))} (in Python: allow_paths=)"
        )


def describe_refused_file(path: str) -> str:
    """The message for a file that a text may not use: the same for one that is forbidden and one that is
    missing, wherever a text names it."""
    return f"the file '{path}' cannot be used: {OutsideFolderError(None)}"


class FileAccess(Struct, frozen=True):
    """The folders whose files a workflow may name. The loader creates it; a stored run preserves it, so
    that a resumed run has the same rights as the one that was started."""

    folder: Path | None = None
    """The folder of the main file. A workflow built in Python has none: its paths start in the working
    folder."""
    allowed: tuple[Path, ...] = ()
    """Folders from `--allow-path` or `allow_paths=`, resolved by `resolve_folders`."""
    confined: bool = False
    """Whether the allowed folders are all: neither the folder of a file nor the working folder counts. For
    texts under a policy (allow_list.py), which must not learn which files exist elsewhere."""

    @property
    def root(self) -> Path:
        return self.folder if self.folder is not None else Path.cwd()

    def resolve_inside(self, place: Path, root: Path | None = None) -> Path:
        """Resolves a path; raises OutsideFolderError if the result is neither in the root nor in an
        allowed folder."""
        if self.confined:
            found = resolve_within(place, self.allowed)
            if found is None:
                raise OutsideFolderError(None)
            return found
        real = Path(os.path.realpath(place))
        if not any(real.is_relative_to(one) for one in (root or self.root, *self.allowed)):
            raise OutsideFolderError(real)
        return real

    def find(self, path: str, folder: Path | None) -> FoundPath | None:
        """Finds the path of a memory: relative to the file that names it, else relative to the working
        folder.

        Published files of the dialect have such paths start in the working folder, so for a path that is
        found from there, the working folder counts as inside. Raises OutsideFolderError if the path
        leads anywhere else; returns None if nothing exists."""
        if self.confined:
            return self._find_confined(path)
        places = [(folder / path, self.root)] if folder is not None else []
        places.append((Path.cwd() / path, Path.cwd()))
        for place, root in places:
            # Path.exists raises if no file could have the name.
            if os.path.exists(place):  # noqa: PTH110
                self.resolve_inside(place, root)
                return FoundPath(place, root)
        return None

    def _find_confined(self, path: str) -> FoundPath | None:
        """Finds a path in the allowed folders. The result is the resolved place, so that no link is followed
        again."""
        inside = False
        for root in self.allowed:
            place = resolve_within(root / path, self.allowed)
            inside = inside or place is not None
            if place is not None and os.path.exists(place):  # noqa: PTH110
                return FoundPath(place, root)
        if not inside:
            raise OutsideFolderError(None)
        return None


def resolve_within(place: Path, roots: tuple[Path, ...]) -> Path | None:
    """Resolves the links and `..` of a path; None if it leaves the folders, which are resolved already.

    Unlike `os.path.realpath` it never touches what is outside: where a link leads is decided by its text,
    before anything there is looked at. So neither an error nor the time it takes tells whether a file outside
    exists."""
    target = os.path.normpath(place)
    for _ in range(MAX_LINKS):
        path = Path(target)
        root = next((root for root in roots if path.is_relative_to(root)), None)
        if root is None or "\0" in target:
            return None
        steps = [*reversed(path.parents), path][len(root.parts) :]
        for step in steps:
            try:
                aim = step.readlink()
            except OSError:
                continue  # no link; or nothing is there, which the caller finds out
            except ValueError:
                return None  # no file could have this name
            target = os.path.normpath(step.parent / aim / path.relative_to(step))
            break
        else:
            return path
    return None


def resolve_folders(paths: AllowPaths) -> tuple[Path, ...]:
    """Makes the folders absolute and resolves their links, as `resolve_inside` compares real paths."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return tuple(Path(os.path.realpath(path)) for path in given)


MAX_DEPTH: Final = 100
"""How deep lists and mappings may be nested. Everything that walks a document recurses, with several
Python frames for each level; this bound keeps all of them far from the recursion limit."""

Value: TypeAlias = "bool | int | float | str | list[Located] | dict[str, Located] | None"


class Located(Struct, eq=False):
    """A value with its line and column, counted from 1; 0 means unknown. Parsers and `locate` create it.

    It has no `eq`, so it is compared and hashed by identity. The same object may stand in several places
    of a tree (YAML aliases, variables), and walks over a tree remember what they have seen by `id`."""

    value: Value
    line: int = 0
    column: int = 0
    keys: dict[str, tuple[int, int]] | None = None
    """For a mapping, the line and column of each key; an unknown key is reported there, not at its
    value."""

    def plain(self) -> Any:
        """The value without locations, as plain dicts, lists and scalars."""
        value = self.value
        if isinstance(value, dict):
            return {key: item.plain() for key, item in value.items()}
        if isinstance(value, list):
            return [item.plain() for item in value]
        return value


def locate(value: Any) -> Located:
    """Wraps a plain Python value. Tuples become lists; a value of a type that YAML does not have stays
    unchanged.

    Raises ValueError if the value is nested too deeply, which includes a value that contains itself."""
    return _locate(value, 1)


def _locate(value: Any, depth: int) -> Located:
    if not isinstance(value, (Mapping, list, tuple)):
        return Located(value)
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested more than {MAX_DEPTH} deep, or contains itself")
    if isinstance(value, Mapping):
        return Located({str(key): _locate(item, depth + 1) for key, item in value.items()}, keys={})
    return Located([_locate(item, depth + 1) for item in value])


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """Converts an index into a text with `\\n` line breaks to a line and a column, both counted from
    1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


__all__ = ["MAX_BYTES", "Located", "locate", "read_file", "read_text"]

MAX_BYTES: Final = 5 * 1024 * 1024
"""The largest workflow file. Parsing takes time and memory in proportion to it, and `roundel check` runs
on every save."""

_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_READ_ERRORS: Final[dict[type[Exception], tuple[str, str]]] = {
    FileNotFoundError: ("file-not-found", "there is no such file"),
    NotADirectoryError: ("file-not-found", "there is no such file"),
    IsADirectoryError: ("file-unreadable", "this is a directory, not a file"),
    PermissionError: ("file-unreadable", "you do not have permission to read the file"),
}


def read_file(path: Path, report: Report, texts: dict[str, str] | None = None) -> Located | None:
    """Reads the document in a file; None, with an error in the report, if that is not possible.

    `texts` is a cache by resolved path. It holds texts and not trees, since a tree has to be parsed
    again to report its problems to another report."""
    report.file = report.file or str(path)
    name = str(path.resolve()) if texts is not None else ""
    text = texts.get(name) if texts is not None else None
    if text is None:
        data = _read_bytes(path, report)
        text = None if data is None else _decode(data, report)
        if texts is not None and text is not None:
            texts[name] = text
    return None if text is None else read_text(text, report)


def read_text(text: str, report: Report) -> Located | None:
    """Reads the document in a text; None, with an error in the report, if that is not possible.

    JSON is tried first. YAML 1.2 is a superset of JSON, but PyYAML implements 1.1 and fails on some
    valid JSON (see `json_events`). The error of the JSON decoder is passed on, to explain files that are
    almost JSON."""
    text = _normalize_line_breaks(text)
    if len(text) > MAX_BYTES:
        _report_too_large(report)
        return None
    # PyYAML is slow to import, and a workflow that is made in Python does without it.
    from roundel.workflow.yaml_parser import compose, compose_yaml, find_json_error, json_events

    json_error = find_json_error(text)
    return (
        compose(json_events(text), report) if json_error is None else compose_yaml(text, json_error, report)
    )


def _read_bytes(path: Path, report: Report) -> bytes | None:
    try:
        with path.open("rb") as file:
            # Reading one byte too many, instead of asking for the size: that of a pipe is not known, and
            # a file may grow.
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        other = ("file-unreadable", f"the file cannot be read: {getattr(error, 'strerror', error)}")
        report.error(*_READ_ERRORS.get(type(error), other))
        return None
    if len(data) > MAX_BYTES:
        _report_too_large(report)
        return None
    return data


def _report_too_large(report: Report) -> None:
    report.error("file-too-large", f"the file is larger than {MAX_BYTES // 1024**2} MB")


def _decode(data: bytes, report: Report) -> str | None:
    head = data[:64]
    # UTF-16 without a BOM has a zero byte for every ASCII character, UTF-32 three. Decoded as UTF-8 it
    # would be valid, and the error would be about control characters.
    if data.startswith(_WIDE_BOMS) or (data and head.count(0) * 3 >= len(head)):
        report.error("encoding", "the file is UTF-16 or UTF-32 text", (1, 1), "save the file as UTF-8")
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Everything before the faulty byte is valid, so it can be decoded to count lines.
        before = _normalize_line_breaks(data[: error.start].decode("utf-8"))
        message = f"the byte 0x{data[error.start]:02X} is not valid UTF-8"
        report.error("encoding", message, line_and_column(before, len(before)), "save the file as UTF-8")
        return None


def _normalize_line_breaks(text: str) -> str:
    # Not `str.splitlines`, which knows more line breaks than YAML 1.2 does.
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
