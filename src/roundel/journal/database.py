"""The SQLite file of a store: how it is identified, opened, and watched while it is in use. Its tables
are in schema.py.

Three rules apply to every connection:

- A file is written only once it is known to be a store or to be empty. Other databases and other files
  are refused and stay as they are, without so much as a write-ahead log beside them: `--store` may name
  anything, and SQLite would add our tables to the database of a browser. A store is marked by
  `application_id`, since other programs count `user_version` from 1 as well.
- A store that cannot be written is opened for reading. SQLite needs its shared-memory file for that, which
  it cannot create on read-only media: the file is then opened as immutable, or a temporary copy is read.
- While a store is in use, its file must stay where it is. A process that continues to write to a file
  that was deleted would lose everything silently. So the device and inode of the file and its log are
  compared with those at opening, before and after each batch of the writing thread: four calls of `stat`
  per batch.

The file is only ever read through SQLite. To open and close it by other means would drop the POSIX locks
that other connections of this process have on it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from roundel.journal.faults import explain_error, has_access, not_a_file_error
from roundel.journal.migration import convert
from roundel.journal.schema import LiveOwner, check_format, create_tables, pending_steps, read_format
from roundel.journal.store import Conversion, Gone, StoreError

APPLICATION_ID = 0x524E444C
"""`RNDL`, in the header of the file. Older formats did not have it and are known by their tables."""
FIRST_TABLES = frozenset({b"runs", b"chunks", b"snapshots", b"kept", b"controls"})
"""The tables that every version of a store has had."""
WAL_PAGES = 4000
"""How long the write-ahead log gets (16 MB) before a checkpoint moves it into the file. A checkpoint
waits for the disk, and a run waits with it. A commit writes two pages, of which the next commits write
one or both again, so a longer log also moves fewer pages. With SQLite's default of 1000 pages, a run
alone took half as long again."""
SYNCED_WAL_PAGES = 1000
"""The same where each commit waits for the disk: to make a file longer takes a disk more time than to write
over it, so a shorter log is quicker."""
FOLDER_MODE = 0o700
"""The mode of a folder that is created for a store."""
ROOM = SYNCED_WAL_PAGES * 4096 + (1 << 20)
"""How much space is set aside. On a full disk nothing can be deleted: a transaction needs room in the log,
and a checkpoint, which would empty the log, needs room in the file for what the log contains."""
Identity = tuple[int, int]
"""The device and the inode of a file."""


class FileContents(Struct, frozen=True):
    """What the header and the schema of a database say about it, to recognise a store."""

    application: int
    version: int
    tables: frozenset[bytes]

    @property
    def is_empty(self) -> bool:
        return not (self.application or self.version or self.tables)

    @property
    def is_store(self) -> bool:
        """By the mark, or by the tables for formats before the mark existed, which are refused with a
        better text than other programs' files."""
        if self.application:
            return self.application == APPLICATION_ID
        return self.version > 0 and self.tables >= FIRST_TABLES


class TemporaryCopy(sqlite3.Connection):
    """A connection to a temporary copy of a store, which is deleted when the connection is closed."""

    folder: tempfile.TemporaryDirectory[str]

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


class ImmutableConnection(sqlite3.Connection):
    """A connection that does not see what other processes write. `stamp` is the state of the file when
    it was opened, by which `is_current` notices that they have."""

    stamp: object = None


class Database:
    """One file, for the connections of one writer. Created by SqliteStore; touches nothing until `open`.

    `open` and `loss` are called by the writing thread, `open_second` on an event loop while the first
    connection is open."""

    def __init__(self, path: Path, *, sync: str, busy_seconds: float, live_owner: LiveOwner) -> None:
        self.path = path
        """As the user wrote it, for messages."""
        # Absolute: a function of a workflow may change the working folder, and the store must not move
        # with it.
        self._file = Path(os.path.abspath(path))  # noqa: PTH100 (links stay links)
        self._wal, self._shared_memory = (
            self._file.with_name(f"{self._file.name}-{end}") for end in ("wal", "shm")
        )
        self._room = self._file.with_name(f"{self._file.name}-room")
        self._sync = sync
        self._busy_seconds = busy_seconds
        self._live_owner = live_owner
        self._known: dict[Path, Identity] = {}
        """The identities of the files in use, from when they were opened. Empty for a store that is only
        read, where nothing can be lost."""

    def explain(self, error: Exception) -> StoreError:
        return explain_error(error, self.path, self._file)

    def exists(self) -> bool:
        """Whether anything is at the path; StoreError if that cannot be found out, or it is no file."""
        try:
            mode = self._file.stat().st_mode
        except FileNotFoundError:
            if self._file.is_symlink():
                target = self._file.readlink()
                raise StoreError(f"{self.path} is a link to {target}, which does not exist") from None
            return False
        except (OSError, ValueError) as error:
            raise self.explain(error) from None
        if not stat.S_ISREG(mode):
            raise not_a_file_error(self.path, mode)
        return True

    @property
    def folder(self) -> Path:
        """Where the file is, links resolved: the same folder by whichever path the store is opened."""
        return self._file.resolve().parent

    def size(self) -> int:
        """The size of the file and of its log."""
        return sum(file.stat().st_size for file in (self._file, self._wal) if file.exists())

    # Room for a full disk.

    def set_room_aside(self) -> None:
        """Makes a file that takes ROOM bytes, unless it is there. StoreError if the disk has no room."""
        try:
            self._file.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)  # a server does this first
            private = os.open(self._room, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(private, "ab") as file:
                missing = ROOM - os.fstat(file.fileno()).st_size
                if missing > 0:
                    file.write(os.urandom(missing))  # some file systems keep no zeros
        except OSError as error:
            self._room.unlink(missing_ok=True)
            raise self.explain(error) from None

    def use_room(self) -> bool:
        """Deletes that file; whether there was one."""
        try:
            self._room.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self.explain(error) from None
        return True

    # Opening.

    def open(self) -> sqlite3.Connection:
        """The first connection. A store that does not exist is created, one of another format is refused
        and stays as it is, and one that cannot be written is opened for reading."""
        self._known = {}
        if not self.exists():
            self._file.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            connection = self._create_private()
        elif self._is_store() and not self._is_writable():
            return self._open_read_only()
        else:
            connection = self._connect("mode=rwc")
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._known = {file: _identity(file) for file in (self._file, self._wal) if file.exists()}
        return connection

    def _create_private(self) -> sqlite3.Connection:
        """A connection to a new file that only its owner may read, since it will contain the texts of runs.

        SQLite creates it with the mode of a temporary file beside it, which is private, so there is no moment
        in which others could open it, whatever the umask is. It gives the log the mode of the file."""
        if not has_access(self._file.parent, os.W_OK):
            return self._connect("mode=rwc")  # fails, with an error that `explain` knows
        with tempfile.NamedTemporaryFile(prefix=".roundel-", dir=self._file.parent) as private:
            return self._connect(f"mode=rwc&modeof={quote(private.name)}")

    def open_second(self) -> sqlite3.Connection:
        """Another connection to the file that is open; Gone if it is not at its path any more."""
        # `mode=rw` creates nothing. The identity is checked after connecting: the path may lead to
        # another file by now, and the two connections must not write to different ones.
        connection = self._connect("mode=rw")
        loss = self.loss()
        if loss is not None:
            connection.close()
            raise loss
        connection.execute(f"PRAGMA synchronous = {self._sync}")
        return connection

    def _connect(self, options: str, file: Path | None = None, **more: Any) -> sqlite3.Connection:
        """A connection without Python's implicit transactions. It may be closed by another thread than
        the one that opened it, so SQLite's check of the thread is off; the writer serialises its use."""
        connection: sqlite3.Connection = sqlite3.connect(
            f"{(file or self._file).as_uri()}?{options}",
            uri=True,
            isolation_level=None,
            timeout=self._busy_seconds,
            check_same_thread=False,
            **more,
        )
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Sets up a connection, and the file if it is new. Nothing is written to a store that has its
        tables, so it can be read when the disk is full."""
        connection.execute(f"PRAGMA synchronous = {self._sync}")
        check_format(read_format(connection), str(self.path))  # before anything is written
        if _number(connection, "application_id") != APPLICATION_ID:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new file only
            # Before the write-ahead log exists: then the mark is in the file itself, and a process that
            # is killed a moment later leaves a file that is recognised.
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA journal_mode = WAL")
        pages = SYNCED_WAL_PAGES if self._sync == "full" else WAL_PAGES
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        create_tables(connection, str(self.path), self._live_owner)

    def migrate(self, check: bool) -> Conversion:
        """Converts the file to the current format; see HasFormats."""
        try:
            if not self.exists() or not self._is_known_store():
                raise StoreError(f"there is no store at {self.path}")
            if not self._is_writable():
                raise StoreError(f"{self.path} cannot be written, so it cannot be converted")
            with closing(self._connect("mode=rw")) as connection:
                connection.execute("PRAGMA synchronous = full")
                return convert(connection, self._file, str(self.path), self._live_owner, check)
        except (OSError, sqlite3.Error) as error:
            raise self.explain(error) from error

    # Identifying the file.

    def _is_store(self) -> bool:
        """False for an empty file; StoreError, and nothing changed, for one that is no store, or has another
        format."""
        found = self._store_contents()
        check_format(found.version, str(self.path))
        return not found.is_empty

    def _is_known_store(self) -> bool:
        """The same, for a store of any format."""
        return not self._store_contents().is_empty

    def _store_contents(self) -> FileContents:
        found = self._contents()
        if not (found.is_store or found.is_empty):
            raise StoreError(
                f"{self.path} is not a Roundel store: it is the database of another program, and was not "
                "changed; use another --store"
            )
        return found

    def _contents(self) -> FileContents:
        """What the file contains, read without leaving a trace: a connection would leave a log beside a
        file that has none, unless it is immutable."""
        if self._has_wal() and self._shared_memory.exists():
            return _contents_of(self._connect("mode=ro"))
        try:
            found = _contents_of(self._connect("mode=ro&immutable=1"))
        except sqlite3.DatabaseError:
            if not self._has_wal():
                raise
        else:
            if found.application or found.tables or not self._has_wal():
                return found
        # Without its log the file is empty or unreadable: a process was killed when everything was still
        # in the log, and an immutable connection ignores the log.
        return _contents_of(self._open_copy())

    # Reading a store that cannot be written.

    def _is_writable(self) -> bool:
        """Whether the file and its log can be written; SQLite creates the log if it does not exist, so
        its folder has to be writable then."""
        if not has_access(self._file, os.W_OK):
            return False
        return has_access(self._file.parent, os.W_OK) or (
            has_access(self._wal, os.W_OK) and has_access(self._shared_memory, os.W_OK)
        )

    def _open_read_only(self) -> sqlite3.Connection:
        """The way to read depends on the log. A log without its shared-memory file cannot be read in
        place; with it, an ordinary read-only connection sees what others write; without a log the file
        alone is complete."""
        connection: sqlite3.Connection
        if self._has_wal() and not self._shared_memory.exists():
            connection = self._open_copy()
        elif self._wal.exists():
            connection = self._connect("mode=ro")
        else:
            connection = self._open_immutable()
        try:
            version = read_format(connection)
            if not version or pending_steps(version):
                connection = self._copy_with_tables(connection)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _has_wal(self) -> bool:
        try:
            return self._wal.stat().st_size > 0
        except OSError:
            return False

    def _open_immutable(self) -> sqlite3.Connection:
        stamp = self._file_stamp()
        connection = self._connect("mode=ro&immutable=1", factory=ImmutableConnection)
        assert isinstance(connection, ImmutableConnection)
        connection.stamp = stamp
        return connection

    def _open_copy(self) -> TemporaryCopy:
        """A connection to a copy of the file and its log. Without a shared-memory file nobody has the
        store open, so copying the two files gives a consistent state."""
        folder = tempfile.TemporaryDirectory(prefix="roundel-")
        copy = Path(folder.name, self._file.name)
        for file, name in ((self._file, copy), (self._wal, copy.with_name(self._wal.name))):
            shutil.copyfile(file, name)
        return self._connect_copy(copy, folder)

    def _copy_with_tables(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """A copy to which the tables are added, or what the current format has more: readers expect them. The
        process that created the store was killed before it could, or was of an older version."""
        if not isinstance(connection, TemporaryCopy):
            folder = tempfile.TemporaryDirectory(prefix="roundel-")
            copy = self._connect_copy(Path(folder.name, self._file.name), folder)
            with closing(connection):
                connection.backup(copy)
            connection = copy
        try:
            create_tables(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_copy(self, file: Path, folder: tempfile.TemporaryDirectory[str]) -> TemporaryCopy:
        connection = self._connect("mode=rwc", file, factory=TemporaryCopy)
        assert isinstance(connection, TemporaryCopy)
        connection.folder = folder
        return connection

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """False if other processes have written what this connection cannot see, so that it has to be
        reopened."""
        return not isinstance(connection, ImmutableConnection) or connection.stamp == self._file_stamp()

    def _file_stamp(self) -> object:
        """What changes when another process writes: the file, or the existence of a log beside it."""
        found = self._file.stat()
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, self._wal.exists())

    # While it is in use.

    def loss(self) -> Gone | None:
        """Why everything that is written now would be lost; None if it would not. The log is checked,
        too: SQLite continues to write to a log that was deleted, and the commits in it are gone with the
        process."""
        for file, known in self._known.items():
            try:
                moved = _identity(file) != known
            except (FileNotFoundError, NotADirectoryError):
                moved = True
            except OSError:
                continue  # a `stat` that is not permitted does not prove that the file is gone
            if moved:
                return Gone(_describe_loss(self.path, file == self._file))
        return None


def _describe_loss(path: Path, whole: bool) -> str:
    """The text of Gone. `whole`: the file itself is gone, not only its log."""
    if whole:
        return (
            f"{path}: the store was deleted, moved or replaced while it was in use. The run has ended, since "
            "nothing more of it would be stored. If the file can be put back, do that and `roundel resume` "
            "the run; otherwise start it again"
        )
    return (
        f"{path}: the write-ahead log of the store, {path.name}-wal, was deleted or replaced while it was in "
        "use. The run has ended. End all programs that use the store, then `roundel resume` the run: it "
        "continues from what the store still has"
    )


def _contents_of(connection: sqlite3.Connection) -> FileContents:
    """Reads the header and the names of the tables, and closes the connection."""
    with closing(connection) as database:
        database.text_factory = bytes  # what other programs call their tables may be no text
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return FileContents(
            _number(database, "application_id"),
            _number(database, "user_version"),
            frozenset(name for (name,) in database.execute(query)),
        )


def _identity(file: Path) -> Identity:
    found = os.stat(file)  # noqa: PTH116 (often called, and pathlib is slower)
    return found.st_dev, found.st_ino


def _number(database: sqlite3.Connection, name: str) -> int:
    number: int = database.execute(f"PRAGMA {name}").fetchone()[0]
    return number
