"""How the place of a store is written: a path, or `sqlite:///path?sync=normal`. Imports nothing heavy, since
shell completion needs it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote

from roundel.workflow.secrets import Secrets

VARIABLE = "ROUNDEL_STORE"
DEFAULT = Path(".roundel", "runs.db")
SCHEME = "sqlite:///"


def parse(place: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The path of the file, and `sync`. Without a place the variable counts, else the default; ValueError."""
    wanted = os.fspath(place) if place else os.environ.get(VARIABLE) or os.fspath(DEFAULT)
    if "://" not in wanted:
        return wanted, "full"
    if not wanted.startswith(SCHEME):
        secrets = Secrets()
        secrets.add_urls(wanted)
        raise ValueError(
            f"'{secrets.mask(wanted)}' is no store that this version knows; give a path, or {SCHEME}PATH"
        )
    path, _, query = wanted.removeprefix(SCHEME).partition("?")
    if not path:
        raise ValueError(f"'{wanted}' names no file; write {SCHEME}PATH")
    options = parse_qs(query)
    unknown = options.keys() - {"sync"}
    if unknown:
        raise ValueError(f"a store has no option '{min(unknown)}'; there is only sync")
    return unquote(path), options.get("sync", ["full"])[0]
