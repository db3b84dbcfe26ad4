"""What is wrong with a store, and what to do about it.

SQLite says that it cannot open or write a file, and not why: the errno of the system call is lost. So the
reason is looked for here, once something has failed, by doing what SQLite wanted to do.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from roundel.journal.store import StoreError
from roundel.kernel.codec import CodecError

ELSEWHERE = "use another --store"
LATER = "a run that was cut off continues with `roundel resume`"
DAMAGED = f"the file is damaged; `sqlite3 FILE .recover` may save it, or {ELSEWHERE}"
SPARE_DESCRIPTORS = 4
"""As many files as SQLite opens for one connection, and one more."""
SPARE_BYTES = 1 << 18
"""More than SQLite writes at once, as a rule."""

UNDECODABLE = (zlib.error, msgspec.MsgspecError, CodecError)
_ADVICE = {
    "disk is full": f"make room; {LATER}",
    "readonly": f"the file or its folder may not be written; {ELSEWHERE}",
    "unable to open": ELSEWHERE,
    "malformed": DAMAGED,
    "locked": "another program holds it; try again when it is done",
    "no such module": "this Python has an SQLite without full-text search (FTS5); use one that has it",
    "disk I/O": f"the disk does not answer; {LATER}",
}
_REMEDIES = {
    errno.ENOSPC: f"make room; {LATER}",
    errno.EDQUOT: f"make room; {LATER}",
    errno.EFBIG: f"raise the limit for the size of a file (ulimit -f); {LATER}",
    errno.EMFILE: f"raise the limit (ulimit -n), or run less at the same time; {LATER}",
    errno.ENFILE: f"the whole system has reached its limit; {LATER}",
    errno.EIO: f"the disk does not answer; {LATER}",
}
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def explained(error: Exception, path: Path, file: Path | None = None) -> StoreError:
    """The error of a store that users call `path`, with its cause; `file` is the same as an absolute path."""
    file = file or path
    if isinstance(error, OSError):
        return StoreError(f"{path}: {_of_way(file) or _of_system(error)}")
    if isinstance(error, UNDECODABLE):
        return StoreError(f"{path}: {error}; {DAMAGED}")
    if not isinstance(error, sqlite3.Error):
        return StoreError(f"{path}: {type(error).__name__}: {error}")
    text = str(error) or type(error).__name__
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a Roundel store: {text}; {ELSEWHERE}")
    if cause := _cause(file, code):
        return StoreError(f"{path}: {cause}")
    advice = next((advice for words, advice in _ADVICE.items() if words in text), "")
    return StoreError(f"{path}: {text}; {advice}" if advice else f"{path}: {text}")


def no_file(path: Path, mode: int) -> StoreError:
    """Something is at the path of a store, and it is no file."""
    if stat.S_ISDIR(mode):
        return StoreError(f"{path} is a directory; a store is a file, for example {path / 'runs.db'}")
    kind = _KINDS.get(stat.S_IFMT(mode), "a device")
    return StoreError(f"{path} is {kind}, not a file; {ELSEWHERE}, or --no-store to keep nothing")


@contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Around the decoding of what a store holds: StoreError if that is damaged."""
    try:
        yield
    except (TypeError, *UNDECODABLE) as error:
        raise StoreError(f"{path}: {what} cannot be read: {error}; {DAMAGED}") from None


def may(path: Path, mode: int) -> bool:
    """Whether this process may do that, by the user that it acts as."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _cause(file: Path, code: int) -> str:
    """Why SQLite could not do what it was asked for; empty if nothing is found."""
    opens, writes = code == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_IOERR
    cause = _of_descriptors() if opens or writes else ""
    if opens or code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        cause = cause or _of_way(file) or _of_permissions(file)
    return cause or (_of_room(file) if opens or writes else "")


def _of_descriptors() -> str:
    with ExitStack() as opened:
        try:
            for _ in range(SPARE_DESCRIPTORS):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return _of_system(error)
    return ""


def _of_way(file: Path) -> str:
    """What is wrong with the folders that lead to a file."""
    before = Path(file.anchor)
    for folder in reversed(file.parents):
        try:
            mode = folder.stat().st_mode
        except FileNotFoundError:
            if folder.is_symlink():
                return f"{folder} is a link to {folder.readlink()}, which is not there; {ELSEWHERE}"
            return ""
        except PermissionError:
            return f"permission denied: {before} may not be entered; {ELSEWHERE}"
        except OSError:
            return ""
        if not stat.S_ISDIR(mode):
            return f"{folder} is a file, not a folder; {ELSEWHERE}"
        before = folder
    return "" if may(before, os.X_OK) else f"permission denied: {before} may not be entered; {ELSEWHERE}"


def _of_permissions(file: Path) -> str:
    """What may not be read or written, of the folder, the file and those beside it."""
    beside = [file.with_name(f"{file.name}-{end}") for end in ("wal", "shm")]
    there = [place for place in (file, *beside) if place.exists()]
    for place in there:
        if not may(place, os.R_OK):
            return f"permission denied: {place.name} may not be read; {ELSEWHERE}"
    for place in (*there, file.parent):
        if place.exists() and not may(place, os.W_OK):
            named = f"the folder {place}" if place == file.parent else place.name
            if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
                return f"{named} is on a read-only file system, and can only be read; {ELSEWHERE}"
            return f"permission denied: {named} may not be written; {ELSEWHERE}"
    return ""


def _of_room(file: Path) -> str:
    """Lets a file grow as SQLite would have, and says what the system has against it."""
    beside = (file, file.with_name(f"{file.name}-wal"))
    try:
        size = max((place.stat().st_size for place in beside if place.exists()), default=0)
        with tempfile.TemporaryFile(dir=file.parent) as probe:
            probe.write(bytes(SPARE_BYTES))
            probe.flush()
            probe.truncate(size + SPARE_BYTES)
    except OSError as error:
        return _of_system(error)
    return ""


def _of_system(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy:
        return f"{reason}; {remedy}"
    return f"{reason}{f' ({error.filename})' if error.filename else ''}; {ELSEWHERE}"
