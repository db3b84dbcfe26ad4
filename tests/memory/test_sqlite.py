"""Entries on shelves, against a plain model of them in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.journal.sqlite import SqliteStore
from roundel.memory.sqlite import SqliteMemories
from roundel.memory.store import Item, Shelf
from roundel.memory.words import asked
from tests.journal.stores import query
from tests.memory.remembering import do, remember

GROUPS = ("", "a", "A")
NAMES = ("x", "working")
SHELVES = [Shelf(group, name) for group in GROUPS for name in NAMES]
TEXTS = ("tea", "milk", "東京", "tea milk", "東京 tea")
FOREVER = 1e9


class Plain:
    """The same, as simply as it can be written."""

    def __init__(self) -> None:
        self.entries: list[tuple[Shelf, str, float, float]] = []
        """From the oldest to the newest: where, what, when, until when."""

    def remember(self, shelf: Shelf, text: str, time: float, until: float | None, newest: int | None) -> None:
        self.entries = [entry for entry in self.entries if entry[:2] != (shelf, text)]
        self.entries.append((shelf, text, time, until or FOREVER))
        if newest is None:
            return
        here = [entry for entry in self.entries if entry[0] == shelf]
        gone = [entry for entry in here if entry[3] <= time] + here[:-newest]
        self.entries = [entry for entry in self.entries if entry not in gone]

    def newest(self, shelf: Shelf, now: float) -> list[str]:
        return [text for place, text, _, until in reversed(self.entries) if place == shelf and until > now]

    def search(self, shelf: Shelf, words: list[str], now: float) -> set[str]:
        return {text for text in self.newest(shelf, now) if set(words) & set(text.split())}


shelves = st.sampled_from(SHELVES)
phrases = st.sampled_from(TEXTS)
writes = st.tuples(
    st.just("remember"), shelves, phrases, st.none() | st.integers(1, 5), st.sampled_from((None, 2, 3))
)
reads = st.tuples(st.sampled_from(("newest", "search")), shelves, phrases)
losses = st.tuples(st.sampled_from(("forget", "forget_all")), st.sampled_from(GROUPS), st.integers(0, 30))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(writes, reads, losses), max_size=40))
def test_a_shelf_gives_what_was_put_there_and_nothing_else(operations: list[tuple[Any, ...]]) -> None:
    do(_compare(operations))


async def _compare(operations: list[tuple[Any, ...]]) -> None:
    memories, plain = SqliteMemories.in_process(), Plain()
    try:
        for now, (name, *given_) in enumerate(operations, 1):
            await _one(memories, plain, float(now), name, *given_)
        for shelf in SHELVES:
            assert [m.entry.text for m in await memories.newest(shelf, 99, 99)] == plain.newest(shelf, 99)
    finally:
        await memories.close()


async def _one(memories: SqliteMemories, plain: Plain, now: float, name: str, *given_: Any) -> None:
    if name == "remember":
        shelf, text, hours, newest = given_
        until = now + hours if hours else None
        await memories.remember(shelf, [Item(text, now, until=until)], newest)
        plain.remember(shelf, text, now, until, newest)
    elif name == "newest":
        found = await memories.newest(given_[0], 99, now)
        assert [match.entry.text for match in found] == plain.newest(given_[0], now)
        assert all(
            (match.entry.group, match.entry.shelf) == (given_[0].group, given_[0].name) for match in found
        )
    elif name == "search":
        shelf, text = given_
        found = await memories.search(shelf, asked(text), 99, now)
        assert {match.entry.text for match in found} == plain.search(shelf, text.split(), now)
    elif name == "forget_all":
        await memories.forget(given_[0])
        plain.entries = [entry for entry in plain.entries if entry[0].group != given_[0]]
    else:
        group, number = given_
        entries = [entry for entry in await memories.entries(group, now) if entry.id == number]
        assert await memories.forget(group, [number]) >= len(entries)
        gone = [(Shelf(entry.group, entry.shelf), entry.text) for entry in entries]
        plain.entries = [entry for entry in plain.entries if entry[:2] not in gone]
        if not entries:  # of another group, or over
            plain.entries = [entry for entry in plain.entries if entry[3] > now or entry[0].group != group]


def test_an_entry_of_another_group_cannot_be_forgotten() -> None:
    async def story() -> None:
        memories = SqliteMemories.in_process()
        (mine,) = await remember(memories, Shelf("a", "x"), "tea")
        assert await memories.forget("b", [mine]) == 0
        assert await memories.forget("b") == 0
        assert await memories.forget("a", [mine, mine, 99]) == 1
        await memories.close()

    do(story())


def test_the_same_visit_again_changes_nothing() -> None:
    async def story() -> None:
        memories, shelf = SqliteMemories.in_process(), Shelf("a", "x")
        first = await memories.remember(shelf, [Item("tea", 1.0, key="run:A")])
        await remember(memories, shelf, "milk", time=2.0)
        assert await memories.remember(shelf, [Item("tea", 3.0, key="run:A")]) == first
        matches = await memories.newest(shelf, 9, 9)
        assert [(match.entry.text, match.entry.time) for match in matches] == [("milk", 2.0), ("tea", 1.0)]
        assert await memories.remember(shelf, [Item("tea", 4.0, key="run:B")]) == first
        assert [match.entry.text for match in await memories.newest(shelf, 9, 9)] == ["tea", "milk"]
        await memories.close()

    do(story())


def test_what_is_forgotten_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story() -> None:
        store = SqliteStore(path, sync="off")
        memories, shelf = SqliteMemories(store.writer), Shelf("a", "x")
        (number,) = await remember(memories, shelf, "tea")
        await memories.keep_vectors("m", {number: b"\0\0\0\0", 99: b"\0\0\0\0"})
        assert query(path, "SELECT count(*) FROM memory_vectors") == [(1,)]
        await memories.forget("a")
        await store.close()

    do(story())
    for table in ("memories", "memory_words", "memory_vectors"):
        assert query(path, f"SELECT count(*) FROM {table}") == [(0,)]


def test_texts_of_any_kind_are_kept_as_they_are() -> None:
    async def story() -> None:
        memories, shelf = SqliteMemories.in_process(), Shelf("'; DROP TABLE memories; --", 'x" OR 1')
        odd = ["'quoted'", "\x00 in it", "line\nbreak", "🫖", "", " ", "%_*", "a" * 100_000]
        await remember(memories, shelf, *odd)
        assert [match.entry.text for match in await memories.newest(shelf, 99, 9)] == odd[::-1]
        await memories.close()

    do(story())
