"""Finds and opens stores: the default location, URLs, and a quick look at run ids for shell completion.

The scheme of a URL names the kind of store:

    runs.db, sqlite:///runs.db?sync=normal    a file (sqlite.py)
    memory:, memory:NAME                      the memory of this process (in_memory.py)

Other packages add kinds with entry points in the group `roundel.stores`: the name is the scheme, the object a
function that takes the URL and returns a Store. It should raise StoreError or ValueError if the URL is wrong,
and should not connect before the store is used.

This module imports no store until one is opened: shell completion uses it, and has to be quick.
`peek_runs` reads with one query, imports nothing of the engine, and never creates or changes a store.
Stores of other kinds than SQLite complete nothing.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from roundel.journal.in_memory import InMemoryStore
    from roundel.journal.sqlite import SqliteStore
    from roundel.journal.store import Store

STORE_VARIABLE = "ROUNDEL_STORE"
DEFAULT_STORE = Path(".roundel", "runs.db")


def store_url(place: str | os.PathLike[str] | None = None) -> str:
    """The given path or URL, else that of `$ROUNDEL_STORE`, else a file in the working folder."""
    return os.fspath(place) if place else os.environ.get(STORE_VARIABLE) or os.fspath(DEFAULT_STORE)


ENTRY_POINT_GROUP = "roundel.stores"
SQLITE = "sqlite:///"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(//)?", re.IGNORECASE)
_in_memory: dict[str, InMemoryStore] = {}
_lock = threading.Lock()


def open_store(place: str | os.PathLike[str]) -> Store:
    """The store at a path or URL; StoreError if there is no such kind of store. Creates and reads nothing."""
    from roundel.journal.store import StoreError

    url = os.fspath(place)
    scheme = scheme_of(url)
    try:
        if scheme == "sqlite":
            return _open_sqlite(url)
        if scheme == "memory":
            return _open_in_memory(url)
        return _open_from_package(scheme, url)
    except ValueError as error:
        raise StoreError(str(error)) from None


def scheme_of(url: str) -> str:
    """The scheme of a URL, or `sqlite` for a path. A colon alone does not make a URL, since file names
    may contain one."""
    found = _SCHEME.match(url)
    if found is None:
        return "sqlite"
    scheme = found[1].lower()
    return scheme if found[2] or scheme == "memory" else "sqlite"


def sqlite_file(url: str) -> tuple[str, str]:
    """The path of the file and the value of `sync`, from a path or a URL of SQLite; ValueError if it is
    wrong."""
    if "://" not in url:
        return url, "full"
    if not url.startswith(SQLITE):
        raise ValueError(f"'{_mask_url(url)}' does not name a file; write {SQLITE}PATH")
    path, _, query = url.removeprefix(SQLITE).partition("?")
    if not path:
        raise ValueError(f"'{url}' does not name a file; write {SQLITE}PATH")
    options = parse_qs(query)
    unknown = options.keys() - {"sync"}
    if unknown:
        raise ValueError(f"a store has no option '{min(unknown)}'; the only option is sync")
    return unquote(path), options.get("sync", ["full"])[0]


def _open_sqlite(url: str) -> SqliteStore:
    from roundel.journal.sqlite import SqliteStore

    path, sync = sqlite_file(url)
    return SqliteStore(path, sync=sync)  # type: ignore[arg-type]


def _open_in_memory(url: str) -> InMemoryStore:
    """Returns the same store for the same URL, as with a file; it lives as long as the process."""
    from roundel.journal.in_memory import InMemoryStore

    name = url.partition(":")[2]
    if not re.fullmatch(r"[\w.-]*", name):
        raise ValueError(
            f"'{_mask_url(url)}' is not the name of an in-memory store; write memory: or memory:NAME"
        )
    with _lock:
        return _in_memory.setdefault(name, InMemoryStore(name))


def _open_from_package(scheme: str, url: str) -> Store:
    """Opens a store of another package. Its code runs here for the first time, so every failure of it
    becomes a StoreError that names the package."""
    from importlib.metadata import entry_points

    from roundel.journal.store import Store, StoreError

    known = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if scheme not in known:
        kinds = ", ".join(sorted(f"{name}:" for name in {"sqlite", "memory", *known}))
        raise ValueError(
            f"'{_mask_url(url)}' is not a known kind of store; use a path, or a URL of one of "
            f"{kinds} (packages add others by the entry point group {ENTRY_POINT_GROUP})"
        )
    try:
        store = known[scheme].load()(url)
    except (StoreError, ValueError):
        raise
    except Exception as error:  # anything: importing the package executes its code
        raise StoreError(_plugin_error(known[scheme], f"{type(error).__name__}: {error}")) from error
    if not isinstance(store, Store):
        raise StoreError(
            _plugin_error(known[scheme], f"it returns {type(store).__name__}, which is not a Store")
        )
    return store


def _plugin_error(point: EntryPoint, why: str) -> str:
    return (
        f"stores with {point.name}: cannot be opened, since {point.value} fails ({why}); update its package"
    )


def _mask_url(url: str) -> str:
    """A URL without its password, for messages."""
    from roundel.workflow.secrets import SecretMasker

    secrets = SecretMasker()
    secrets.add_urls(url)
    return secrets.mask(url)


PEEK_SECONDS = 0.2
"""How long completion waits for a lock; after that it shows nothing."""


def peek_runs(url: str, prefix: str, limit: int) -> list[tuple[str, str, str]]:
    """The id, the workflow and the status of runs whose id has this prefix, the newest first. Empty if
    the store does not exist or cannot be read: an error message would destroy the line that is being
    typed."""
    import sqlite3
    from contextlib import closing

    query = "SELECT id, name, status FROM runs WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT ?"
    try:
        path = Path(sqlite_file(url)[0]) if scheme_of(url) == "sqlite" else None
        if path is None or not path.is_file():
            return []
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=PEEK_SECONDS)) as connection:
            return connection.execute(query, (len(prefix), prefix, limit)).fetchall()
    except (ValueError, OSError, sqlite3.Error):
        return []
