"""Which files a workflow may name: those in its folder, and in the folders that its user has allowed.

A path in a workflow is followed with all its links and `..` before it is judged, so it does not matter how it
leads outside. The file that a user names on the command line, or in Python, is never judged: that is where
the workflow's folder is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

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
