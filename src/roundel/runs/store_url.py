"""Where runs are stored if nothing else is said. Imports nothing heavy, since shell completion needs it."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ROUNDEL_STORE"
DEFAULT = Path(".roundel", "runs.db")


def store_url(place: str | os.PathLike[str] | None = None) -> str:
    """The given path or URL, else that of `$ROUNDEL_STORE`, else a file in the working folder."""
    return os.fspath(place) if place else os.environ.get(VARIABLE) or os.fspath(DEFAULT)
