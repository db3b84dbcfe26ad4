"""SqliteMemoryStore: memories in the file of a SQLite store (memory/store.py is the protocol).

*Transactions.* Memories are written in a transaction of their own, after what the journal writes:
whatever happens to a memory, the facts of the runs are committed. A memory makes an answer better, but a
run works without it.

*Search.* SQLite's full-text index only narrows the entries down. Words are split by memory/search.py,
since the index of SQLite knows only words between spaces, and a query never reaches SQLite as query
syntax. Ranking uses the entries of one namespace alone: statistics over all groups would let the entries
of one group change what another group is shown.

*Repeated writes.* A visit of a node that a crash cut off is made again after a resume, with the same
key. If it writes the same text, nothing changes; if it writes another, the first is removed.
"""

from __future__ import annotations

import hashlib
import heapq
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from roundel.journal.writer import Writer
from roundel.memory.search import index_words, word_weights
from roundel.memory.store import Item, Match, MemoryEntry, Shelf

COLUMNS = "no, group_id, shelf, text, time, run_id, node, address, confidence, about"
ENTRY = ", ".join(f"m.{name}" for name in COLUMNS.split(", "))
WITH_WORDS = f"SELECT {ENTRY}, w.words FROM memories m JOIN memory_words w ON w.rowid = m.no"
_LARGEST = (1 << 63) - 1
"""The largest integer of SQLite."""
ON_SHELF = "m.group_id = ? AND m.shelf = ? AND (m.until IS NULL OR m.until > ?)"


class SqliteMemoryStore:
    """Created by SqliteStore, whose writing thread it shares."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def remember(self, shelf: Shelf, items: Sequence[Item], newest: int | None = None) -> list[int]:
        # Split into words here, on the event loop, and not in the job: the thread would delay the
        # commits of all runs meanwhile.
        words = [" ".join(index_words(f"{item.text}\n{item.found_by}")) for item in items]

        def job(db: sqlite3.Connection) -> list[int]:
            _remove_retracted(db, shelf, items)
            ids = [_remember(db, shelf, *pair) for pair in zip(items, words, strict=True)]
            if newest is not None:
                _drop_old(db, shelf, max((item.time for item in items), default=0), newest)
            return ids

        return await self._writer.write_separately(job)

    async def newest(self, shelf: Shelf, limit: int, now: float, since: float = 0) -> list[Match]:
        query = f"{WITH_WORDS} WHERE {ON_SHELF} AND m.time > ? ORDER BY m.turn DESC LIMIT ?"
        return await self._matches(query, (shelf.group, shelf.name, now, since, limit))

    async def search(self, shelf: Shelf, words: Sequence[str], limit: int, now: float) -> list[Match]:
        best = await self._writer.read(lambda db: _best_matches(db, shelf, words, limit))
        if not best:
            return []
        # The index only narrows the search down; the entry's own row decides where it belongs.
        query = f"{WITH_WORDS} WHERE {ON_SHELF} AND m.no IN ({','.join('?' * len(best))})"
        return await self._matches(query, (shelf.group, shelf.name, now, *best))

    async def _matches(self, query: str, values: tuple[Any, ...]) -> list[Match]:
        # Decoded in the job, where the writer explains an error as damage of the store.
        return await self._writer.read(
            lambda db: [
                Match(_entry(row[:-1]), frozenset(row[-1].split())) for row in db.execute(query, values)
            ]
        )

    async def entries(self, group: str, now: float, shelf: str = "") -> list[MemoryEntry]:
        where = "AND m.shelf = ?" if shelf else ""
        query = (
            f"SELECT {ENTRY} FROM memories m WHERE m.group_id = ? "
            f"AND (m.until IS NULL OR m.until > ?) {where} ORDER BY m.shelf, m.turn DESC"
        )
        values = (group, now, shelf) if shelf else (group, now)
        return await self._writer.read(lambda db: [_entry(row) for row in db.execute(query, values)])

    async def page(self, group: str, now: float, limit: int, before: int = 0) -> list[MemoryEntry]:
        query = (
            f"SELECT {ENTRY} FROM memories m WHERE m.group_id = ? AND m.no < ? "
            "AND (m.until IS NULL OR m.until > ?) ORDER BY m.no DESC LIMIT ?"
        )
        values = (group, before or _LARGEST, now, limit)
        return await self._writer.read(lambda db: [_entry(row) for row in db.execute(query, values)])

    async def forget(self, group: str, ids: Sequence[int] | None = None) -> int:
        def job(db: sqlite3.Connection) -> int:
            query = "SELECT no FROM memories WHERE group_id = ?"
            found = {number for (number,) in db.execute(query, (group,))}
            gone = found if ids is None else found & set(ids)
            _remove(db, gone)
            return len(gone)

        return await self._writer.write_separately(job)

    async def vectors(self, shelf: Shelf, model: str, now: float) -> list[tuple[MemoryEntry, bytes | None]]:
        query = (
            f"SELECT {ENTRY}, v.vector FROM memories m LEFT JOIN memory_vectors v "
            f"ON v.entry = m.no AND v.model = ? WHERE {ON_SHELF} ORDER BY m.turn DESC"
        )
        values = (model, shelf.group, shelf.name, now)
        return await self._writer.read(
            lambda db: [(_entry(row[:-1]), row[-1]) for row in db.execute(query, values)]
        )

    async def keep_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        # An entry may have been deleted while its vector was computed; then nothing is inserted.
        query = "REPLACE INTO memory_vectors SELECT no, ?, ? FROM memories WHERE no = ?"
        rows = [(model, vector, number) for number, vector in vectors.items()]
        await self._writer.write_separately(lambda db: db.executemany(query, rows).rowcount)

    async def close(self) -> None:
        """The store closes the file."""


def _shelf_digest(shelf: Shelf) -> str:
    return _digest(shelf.group, shelf.name).hex()


def _digest(*parts: str) -> bytes:
    """A digest of several texts. Their lengths are part of it, so that ("ab", "c") and ("a", "bc")
    differ."""
    sizes = ",".join(str(len(part)) for part in parts)
    return hashlib.blake2b(f"{sizes}:{''.join(parts)}".encode(), digest_size=16).digest()


def _remove_retracted(db: sqlite3.Connection, shelf: Shelf, items: Sequence[Item]) -> None:
    """Removes what an earlier attempt of the same visit wrote and this one does not: the node was
    executed again after a crash, and the result of the first attempt is not part of the run."""
    digests_by_key: dict[str, set[bytes]] = {}
    for item in items:
        if item.key:
            digests_by_key.setdefault(item.key, set()).add(_digest(item.apart, item.text))
    query = "SELECT no, digest FROM memories WHERE group_id = ? AND shelf = ? AND key = ?"
    for key, digests in digests_by_key.items():
        known = db.execute(query, (shelf.group, shelf.name, key)).fetchall()
        _remove(db, [number for number, digest in known if digest not in digests])


def _remember(db: sqlite3.Connection, shelf: Shelf, item: Item, words: str) -> int:
    """Writes an entry and returns its number. The same text in the same place is one entry: written
    again by another visit, it becomes the newest."""
    place, digest = (shelf.group, shelf.name), _digest(item.apart, item.text)
    query = "SELECT no, key FROM memories WHERE group_id = ? AND shelf = ? AND digest = ?"
    number, key = db.execute(query, (*place, digest)).fetchone() or (None, "")
    if number is not None and item.key and key == item.key:
        return int(number)
    query = "SELECT coalesce(max(turn), 0) + 1 FROM memories WHERE group_id = ? AND shelf = ?"
    (turn,) = db.execute(query, place).fetchone()
    when, who = (item.time, item.until), (item.run_id, item.node, item.address, item.confidence)
    about = msgspec.json.encode(item.about, enc_hook=repr)
    row = (*place, digest, item.key, turn, item.text, *when, *who, about)
    if number is not None:
        db.execute("DELETE FROM memory_words WHERE rowid = ?", (number,))
    query = f"REPLACE INTO memories VALUES ({','.join('?' * (len(row) + 1))})"
    number = db.execute(query, (number, *row)).lastrowid
    assert number is not None
    db.execute(
        "INSERT INTO memory_words (rowid, place, words) VALUES (?, ?, ?)",
        (number, _shelf_digest(shelf), words),
    )
    return int(number)


def _best_matches(db: sqlite3.Connection, shelf: Shelf, words: Sequence[str], limit: int) -> list[int]:
    """The numbers of the entries that contain the most of the words, rare words counting more. SQLite
    could rank them itself, but would count how common a word is over all groups."""
    query, place = "SELECT rowid FROM memory_words WHERE memory_words MATCH ?", _shelf_digest(shelf)
    holders = {
        word: [number for (number,) in db.execute(query, (f'place : "{place}" AND words : "{word}"',))]
        for word in words
    }
    found = {number for numbers in holders.values() for number in numbers}
    weights = word_weights({word: len(numbers) for word, numbers in holders.items()}, len(found))
    scores = dict.fromkeys(found, 0.0)
    for word, numbers in holders.items():
        for number in numbers:
            scores[number] += weights[word]
    return heapq.nlargest(limit, found, key=lambda number: (scores[number], number))


def _drop_old(db: sqlite3.Connection, shelf: Shelf, now: float, newest: int) -> None:
    """Removes expired entries, then all but the `newest` ones. In this order: an expired entry must not
    take the place of a live one."""
    place = (shelf.group, shelf.name)
    query = "SELECT no FROM memories WHERE group_id = ? AND shelf = ? AND until <= ?"
    _remove(db, [number for (number,) in db.execute(query, (*place, now))])
    query = "SELECT no FROM memories WHERE group_id = ? AND shelf = ? ORDER BY turn DESC LIMIT -1 OFFSET ?"
    _remove(db, [number for (number,) in db.execute(query, (*place, newest))])


def _remove(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    rows = [(number,) for number in ids]
    for query in (
        "DELETE FROM memory_words WHERE rowid = ?",
        "DELETE FROM memory_vectors WHERE entry = ?",
        "DELETE FROM memories WHERE no = ?",
    ):
        db.executemany(query, rows)


def _entry(row: Sequence[Any]) -> MemoryEntry:
    values: list[Any] = [*row[:-1], msgspec.json.decode(row[-1])]
    return MemoryEntry(*values)
