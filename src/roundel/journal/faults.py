"""Explains what is wrong with a store, and what to do about it.

SQLite reports that it cannot open or write a file, and not why: the errno of the system call is lost. So
the reason is searched here, after something has failed, by doing what SQLite wanted to do: opening
files, entering folders, letting a file grow. That may take a while and is never done before something
fails. If nothing is found, the text of SQLite is used, with advice by its words.
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

from roundel.journal.store import StoreFailure
from roundel.kernel.codec import CodecError

USE_ANOTHER_STORE = "use another --store"
RESUME_LATER = "a run that was cut off continues with `roundel resume`"
START_AGAIN = "the run was not stored; start it again then"
DAMAGED = f"the file is damaged; `sqlite3 FILE .recover` may save it, or {USE_ANOTHER_STORE}"
SPARE_DESCRIPTORS = 4
"""One more than SQLite opens for one connection."""
SPARE_BYTES = 1 << 18
"""More than SQLite usually writes at once."""

# What damaged rows raise when they are decoded.
UNDECODABLE = (zlib.error, msgspec.MsgspecError, CodecError)
_ADVICE = {
    "disk is full": f"make room; {RESUME_LATER}",
    "readonly": f"the file or its folder may not be written; {USE_ANOTHER_STORE}",
    "unable to open": USE_ANOTHER_STORE,
    "malformed": DAMAGED,
    "locked": "another program has locked it; try again when it is done",
    "no such module": "this Python has an SQLite without full-text search (FTS5); use one that has it",
    "disk I/O": f"the disk does not respond; {RESUME_LATER}",
}
_REMEDIES = {
    errno.ENOSPC: f"make room; {RESUME_LATER}",
    errno.EDQUOT: f"make room; {RESUME_LATER}",
    errno.EFBIG: f"raise the limit for the size of a file (ulimit -f); {RESUME_LATER}",
    errno.EMFILE: f"raise the limit (ulimit -n), or run less at the same time; {RESUME_LATER}",
    errno.ENFILE: f"the whole system has reached its limit; {RESUME_LATER}",
    errno.EIO: f"the disk does not respond; {RESUME_LATER}",
}
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def explain_error(error: Exception, path: Path, file: Path | None = None) -> StoreFailure:
    """The error of a store with its cause and a remedy. `path` is as the user wrote it, for the text;
    `file` is the same as an absolute path, since the working folder may have changed."""
    file = file or path
    if isinstance(error, OSError):
        return StoreFailure(f"{path}: {_path_problem(file) or _os_problem(error)}")
    if isinstance(error, UNDECODABLE):
        return StoreFailure(f"{path}: {error}; {DAMAGED}")
    if isinstance(error, RuntimeError) and "new thread" in str(error):
        return StoreFailure(
            f"{path}: {error}; raise the limit (ulimit -u), or run less at the same time; {RESUME_LATER}"
        )
    if not isinstance(error, sqlite3.Error):
        return StoreFailure(f"{path}: {type(error).__name__}: {error}")
    text = str(error) or type(error).__name__
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the lower byte, without SQLite's subcode
    if code == sqlite3.SQLITE_NOTADB:
        return StoreFailure(f"{path} is not a Roundel store: {text}; {USE_ANOTHER_STORE}")
    if cause := _find_cause(file, code):
        return StoreFailure(f"{path}: {cause}")
    advice = next((advice for words, advice in _ADVICE.items() if words in text), "")
    return StoreFailure(f"{path}: {text}; {advice}" if advice else f"{path}: {text}")


def not_stored_error(error: StoreFailure) -> StoreFailure:
    """The error if a run could not even be stored, so that there is nothing to resume."""
    return StoreFailure(str(error).replace(RESUME_LATER, START_AGAIN))


def not_a_file_error(path: Path, mode: int) -> StoreFailure:
    """The error if there is something else than a file at the path of a store."""
    if stat.S_ISDIR(mode):
        return StoreFailure(f"{path} is a directory; a store is a file, for example {path / 'runs.db'}")
    kind = _KINDS.get(stat.S_IFMT(mode), "a device")
    return StoreFailure(f"{path} is {kind}, not a file; {USE_ANOTHER_STORE}, or --no-store to keep nothing")


@contextmanager
def decoding_from(path: Path, what: str) -> Iterator[None]:
    """Around the decoding of what a store contains: StoreFailure if that is damaged. `what` names it."""
    try:
        yield
    except (TypeError, *UNDECODABLE) as error:
        raise StoreFailure(f"{path}: {what} cannot be read: {error}; {DAMAGED}") from None


def has_access(path: Path, mode: int) -> bool:
    """Whether this process has access, by its effective user, as the system will decide (a plain
    `os.access` asks for the real user, which differs under setuid)."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _find_cause(file: Path, code: int) -> str:
    """The cause of an error of SQLite; empty if nothing is found. File descriptors come first: without
    any, the other checks would fail, too, and blame the wrong thing."""
    opens, writes = code == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_IOERR
    cause = _descriptor_problem() if opens or writes else ""
    if opens or code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        cause = cause or _path_problem(file) or _permission_problem(file)
    return cause or (_space_problem(file) if opens or writes else "")


def _descriptor_problem() -> str:
    """Whether this process can open no more files."""
    with ExitStack() as opened:
        try:
            for _ in range(SPARE_DESCRIPTORS):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return _os_problem(error)
    return ""


def _path_problem(file: Path) -> str:
    """What is wrong with the folders on the path to a file, from the root on."""
    before = Path(file.anchor)
    for folder in reversed(file.parents):
        try:
            mode = folder.stat().st_mode
        except FileNotFoundError:
            if folder.is_symlink():
                return f"{folder} is a link to {folder.readlink()}, which does not exist; {USE_ANOTHER_STORE}"
            return ""
        except PermissionError:
            return f"permission denied: {before} may not be entered; {USE_ANOTHER_STORE}"
        except OSError:
            return ""
        if not stat.S_ISDIR(mode):
            return f"{folder} is a file, not a folder; {USE_ANOTHER_STORE}"
        before = folder
    return (
        ""
        if has_access(before, os.X_OK)
        else f"permission denied: {before} may not be entered; {USE_ANOTHER_STORE}"
    )


def _permission_problem(file: Path) -> str:
    """Which of the file, its log, its shared memory and their folder may not be read or written."""
    beside = [file.with_name(f"{file.name}-{end}") for end in ("wal", "shm")]
    existing = [place for place in (file, *beside) if place.exists()]
    for place in existing:
        if not has_access(place, os.R_OK):
            return f"permission denied: {place.name} may not be read; {USE_ANOTHER_STORE}"
    for place in (*existing, file.parent):
        if place.exists() and not has_access(place, os.W_OK):
            named = f"the folder {place}" if place == file.parent else place.name
            if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
                return f"{named} is on a read-only file system, and can only be read; {USE_ANOTHER_STORE}"
            return f"permission denied: {named} may not be written; {USE_ANOTHER_STORE}"
    return ""


def _space_problem(file: Path) -> str:
    """Lets a temporary file grow to the size that SQLite wanted, and returns the error of the system: a
    full disk, a quota or a limit for the size of a file. The size matters for the last one."""
    beside = (file, file.with_name(f"{file.name}-wal"))
    try:
        size = max((place.stat().st_size for place in beside if place.exists()), default=0)
        with tempfile.TemporaryFile(dir=file.parent) as probe:
            probe.write(bytes(SPARE_BYTES))
            probe.flush()
            probe.truncate(size + SPARE_BYTES)
    except OSError as error:
        return _os_problem(error)
    return ""


def _os_problem(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy:
        return f"{reason}; {remedy}"
    return f"{reason}{f' ({error.filename})' if error.filename else ''}; {USE_ANOTHER_STORE}"
