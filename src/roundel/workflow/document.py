"""Which files a workflow may name: those in its folder, and in the folders that its user has allowed.

A path in a workflow is followed with all its links and `..` before it is judged, so it does not matter how it
leads outside. The file that a user names on the command line, or in Python, is never judged: that is where
the workflow's folder is.

Values that know their line and column.

Reads YAML or JSON into values that know their line and column.

PyYAML's parser only gives events here; what they mean is decided by the composer, which follows the
YAML 1.2 core schema, refuses what is unsafe or ambiguous, and goes on after each problem. Strict JSON
has an event source of its own. Nothing here raises: what is wrong goes to the report.
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
"""Folders, or one folder."""


class FoundPath(Struct, frozen=True):
    """A file or folder that a path means, and the folder that it has to be in."""

    place: Path
    root: Path


class OutsideFolderError(Exception):
    """A path leads out of the folders that a workflow may use."""

    def __init__(self, place: Path) -> None:
        super().__init__(f"it leads to {place}, outside the workflow's folder")
        self.hint = (
            "put it into that folder, or allow the folder where it is: "
            f"--allow-path {shlex.quote(str(place.parent))} (in Python: allow_paths=)"
        )


class FileAccess(Struct, frozen=True):
    folder: Path | None = None
    """That of the main file. Without one, as in Python, paths start in the working folder."""
    allowed: tuple[Path, ...] = ()

    @property
    def root(self) -> Path:
        return self.folder if self.folder is not None else Path.cwd()

    def resolve_inside(self, place: Path, root: Path | None = None) -> Path:
        """Where a path really leads; Outside if that is not in the root, nor in a folder that is allowed."""
        real = Path(os.path.realpath(place))
        if not any(real.is_relative_to(one) for one in (root or self.root, *self.allowed)):
            raise OutsideFolderError(real)
        return real

    def find(self, path: str, folder: Path | None) -> FoundPath | None:
        """What a path of a memory means: beside the file that names it, else in the working folder.

        Programs of the dialect have such paths start in the working folder, so it counts as inside for what
        is found from there. Outside if it leads anywhere else; None if there is nothing."""
        places = [(folder / path, self.root)] if folder is not None else []
        places.append((Path.cwd() / path, Path.cwd()))
        for place, root in places:
            if os.path.exists(place):  # noqa: PTH110 (pathlib raises if no file could have the name)
                self.resolve_inside(place, root)
                return FoundPath(place, root)
        return None


def resolve_folders(paths: AllowPaths) -> tuple[Path, ...]:
    """Absolute, without links."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return tuple(Path(os.path.realpath(path)) for path in given)


MAX_DEPTH: Final = 100

Value: TypeAlias = "bool | int | float | str | list[Located] | dict[str, Located] | None"


class Located(Struct, eq=False):
    """A value and where it stands; `keys` holds the places of a mapping's keys."""

    value: Value
    line: int = 0
    column: int = 0
    keys: dict[str, tuple[int, int]] | None = None

    def plain(self) -> Any:
        value = self.value
        if isinstance(value, dict):
            return {key: item.plain() for key, item in value.items()}
        if isinstance(value, list):
            return [item.plain() for item in value]
        return value


def locate(value: Any) -> Located:
    """Wraps a plain Python value. Tuples become lists; what YAML has no type for is kept as it is."""
    return _locate(value, 1)


def _locate(value: Any, depth: int) -> Located:
    if not isinstance(value, (Mapping, list, tuple)):
        return Located(value)
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested more than {MAX_DEPTH} deep, or holds itself")
    if isinstance(value, Mapping):
        return Located({str(key): _locate(item, depth + 1) for key, item in value.items()}, keys={})
    return Located([_locate(item, depth + 1) for item in value])


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """The line and column of an index."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


__all__ = ["MAX_BYTES", "Located", "locate", "read_file", "read_text"]

MAX_BYTES: Final = 5 * 1024 * 1024

_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_READ_ERRORS: Final[dict[type[Exception], tuple[str, str]]] = {
    FileNotFoundError: ("file-not-found", "there is no such file"),
    NotADirectoryError: ("file-not-found", "there is no such file"),
    IsADirectoryError: ("file-unreadable", "this is a directory, not a file"),
    PermissionError: ("file-unreadable", "there is no permission to read the file"),
}


def read_file(path: Path, report: Report, texts: dict[str, str] | None = None) -> Located | None:
    """The document in a file. A text that is in `texts` is not read again; one that is read is put there."""
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
            # A pipe, or a file that grows, does not tell its size beforehand.
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
    if data.startswith(_WIDE_BOMS) or (data and head.count(0) * 3 >= len(head)):
        report.error("encoding", "the file is UTF-16 or UTF-32 text", (1, 1), "save the file as UTF-8")
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = _normalize_line_breaks(data[: error.start].decode("utf-8"))
        message = f"the byte 0x{data[error.start]:02X} is not valid UTF-8"
        report.error("encoding", message, line_and_column(before, len(before)), "save the file as UTF-8")
        return None


def _normalize_line_breaks(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
