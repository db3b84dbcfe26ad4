"""The behaviour that every memory store must have: against a simple model, and case by case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.journal.sqlite import SqliteStore
from roundel.memory.process_store import ProcessMemoryStore
from roundel.memory.search import query_words
from roundel.memory.store import Item, Match, MemoryEntry, MemoryStore, Shelf
from tests.journal.stores import query
from tests.memory.memory_runs import do, remember

GROUPS = ("", "a", "A")
NAMES = ("x", "working")
SHELVES = [Shelf(group, name) for group in GROUPS for name in NAMES]
TEXTS = ("tea", "milk", "東京", "tea milk", "東京 tea")
FOREVER = 1e9


SHELF = Shelf("a", "x")


@asynccontextmanager
async def in_file() -> AsyncIterator[MemoryStore]:
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "runs.db"), sync="off")
        yield store.memory()
        await store.close()


@asynccontextmanager
async def in_process() -> AsyncIterator[MemoryStore]:
    yield ProcessMemoryStore()


STORES = {"sqlite": in_file, "process": in_process}


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest) -> Callable[[Callable[[MemoryStore], Awaitable[None]]], None]:
    """Tells a story with an empty store of memories."""

    def run_story(story: Callable[[MemoryStore], Awaitable[None]]) -> None:
        async def run_async_story() -> None:
            async with STORES[request.param]() as memories:
                await story(memories)

        do(run_async_story())

    return run_story


Tell = Callable[[Callable[[MemoryStore], Awaitable[None]]], None]


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
        self.entries = [entry for entry in self.entries if entry[0] != shelf or entry[3] > time]
        gone = [entry for entry in self.entries if entry[0] == shelf][:-newest]
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


@pytest.mark.parametrize("name", STORES)
@settings(max_examples=100, deadline=None)
@given(operations=st.lists(st.one_of(writes, reads, losses), max_size=40))
def test_namespace_returns_exactly_what_was_stored(name: str, operations: list[tuple[Any, ...]]) -> None:
    do(_compare(name, operations))


async def _compare(name: str, operations: list[tuple[Any, ...]]) -> None:
    async with STORES[name]() as memories:
        plain = Plain()
        for now, (operation, *given_) in enumerate(operations, 1):
            await _one(memories, plain, float(now), operation, *given_)
        for shelf in SHELVES:
            assert [m.entry.text for m in await memories.newest(shelf, 99, 99)] == plain.newest(shelf, 99)


async def _one(memories: MemoryStore, plain: Plain, now: float, name: str, *given_: Any) -> None:
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
        found = await memories.search(shelf, query_words(text), 99, now)
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


async def newest(memories: MemoryStore, shelf: Shelf = SHELF, now: float = 9.0) -> list[str]:
    return texts(await memories.newest(shelf, 99, now))


def texts(found: list[Match] | list[MemoryEntry]) -> list[str]:
    return [(one.entry if isinstance(one, Match) else one).text for one in found]


def test_an_expired_entry_does_not_displace_a_live_one(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        await memories.remember(SHELF, [Item("milk", 1.0)])
        await memories.remember(SHELF, [Item("tea", 1.0, until=2.0)])
        await memories.remember(SHELF, [Item("coffee", 3.0)], 2)
        assert await newest(memories) == ["coffee", "milk"]

    opened(story)


def test_an_entry_of_another_group_cannot_be_forgotten(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        (mine,) = await remember(memories, SHELF, "tea")
        assert await memories.forget("b", [mine]) == 0
        assert await memories.forget("b") == 0
        assert await memories.forget("a", [mine, mine, 99]) == 1
        assert await memories.entries("a", 9) == []

    opened(story)


def test_remembering_an_existing_text_makes_it_the_newest(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        tea, milk = await remember(memories, SHELF, "tea", "milk")
        assert await newest(memories) == ["milk", "tea"]
        assert await remember(memories, SHELF, "tea") == [tea]
        assert await newest(memories) == ["tea", "milk"]
        (other,) = await memories.remember(SHELF, [Item("tea", 1.0, apart="other")])
        assert other not in (tea, milk)
        assert await newest(memories) == ["tea", "tea", "milk"]

    opened(story)


def test_repeated_execution_with_the_same_text_changes_nothing(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        first = await memories.remember(SHELF, [Item("tea", 1.0, key="run:A")])
        await remember(memories, SHELF, "milk", time=2.0)
        assert await memories.remember(SHELF, [Item("tea", 3.0, key="run:A")]) == first
        matches = await memories.newest(SHELF, 9, 9)
        assert [(match.entry.text, match.entry.time) for match in matches] == [("milk", 2.0), ("tea", 1.0)]
        assert await memories.remember(SHELF, [Item("tea", 4.0, key="run:B")]) == first
        assert await newest(memories) == ["tea", "milk"]

    opened(story)


def test_repeated_execution_replaces_its_earlier_items(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        replies = [Item("tea", 1.0, key="run:A"), Item("milk", 1.0, key="run:A")]
        await memories.remember(SHELF, [*replies, Item("cake", 1.0, key="run:B")])
        await memories.remember(SHELF, [Item("milk", 2.0, key="run:A"), Item("jam", 2.0, key="run:A")])
        assert await newest(memories) == ["jam", "cake", "milk"]

    opened(story)


def test_entries_expire_and_are_deleted_with_the_oldest(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        await memories.remember(SHELF, [Item("soon", 1.0, until=3.0), Item("later", 1.0, until=9.0)])
        await remember(memories, SHELF, "a", "b", "c")
        assert await newest(memories, now=2.0) == ["c", "b", "a", "later", "soon"]
        assert await newest(memories, now=3.0) == ["c", "b", "a", "later"]
        assert texts(await memories.entries("a", 3.0)) == ["c", "b", "a", "later"]
        assert texts(await memories.search(SHELF, ["soon", "later"], 9, 3.0)) == ["later"]
        assert [entry.text for entry, _ in await memories.vectors(SHELF, "m", 3.0)] == [
            "c",
            "b",
            "a",
            "later",
        ]
        await memories.remember(SHELF, [Item("d", 4.0)], 3)
        assert await newest(memories, now=0.0) == ["d", "c", "b"]

    opened(story)


def test_only_entries_since_a_time_and_up_to_a_limit(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        for number in range(5):
            await remember(memories, SHELF, f"text {number}", time=float(number))
        assert texts(await memories.newest(SHELF, 2, 9)) == ["text 4", "text 3"]
        assert texts(await memories.newest(SHELF, 9, 9, since=2.0)) == ["text 4", "text 3"]

    opened(story)


def test_search_returns_the_best_matches_within_the_limit(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        await remember(memories, SHELF, *(f"tea {number}" for number in range(20)))
        await remember(memories, SHELF, "tea milk", "milk", "rare")
        await memories.remember(SHELF, [Item("sugar", 1.0, found_by="rare things")])
        words = query_words("tea milk rare")
        assert set(texts(await memories.search(SHELF, words, 3, 9))) == {"tea milk", "rare", "sugar"}
        assert len(await memories.search(SHELF, words, 99, 9)) == 24
        assert await memories.search(SHELF, query_words("cake"), 9, 9) == []
        assert await memories.search(SHELF, [], 9, 9) == []
        (found,) = await memories.search(SHELF, query_words("things"), 9, 9)
        assert (found.entry.text, found.words) == ("sugar", frozenset(("sugar", "rare", "things")))

    opened(story)


def test_groups_and_namespaces_are_listed_separately(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        for group, name in (("a", "y"), ("a", "x"), ("b", "x"), ("", "x")):
            await remember(memories, Shelf(group, name), f"{group}{name}1", f"{group}{name}2")
        assert texts(await memories.entries("a", 9)) == ["ax2", "ax1", "ay2", "ay1"]
        assert texts(await memories.entries("a", 9, "y")) == ["ay2", "ay1"]
        assert texts(await memories.entries("", 9)) == ["x2", "x1"]
        assert await memories.forget("a") == 4
        assert texts(await memories.entries("b", 9)) == ["bx2", "bx1"]

    opened(story)


def test_pages_are_by_id_over_all_namespaces_of_a_group(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        for number in range(6):
            await remember(memories, Shelf("a", "xy"[number % 2]), f"a{number}")
            await remember(memories, Shelf("b", "x"), f"b{number}")
        await memories.remember(Shelf("a", "x"), [Item("gone", 1.0, until=2.0)])
        first = await memories.page("a", 9, 4)
        assert texts(first) == ["a5", "a4", "a3", "a2"]
        assert texts(await memories.page("a", 9, 4, first[-1].id)) == ["a1", "a0"]
        assert texts(await memories.page("a", 1.5, 1)) == ["gone"]
        assert await memories.page("a", 9, 0) == await memories.page("c", 9, 4) == []

    opened(story)


def test_item_fields_round_trip(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        about: dict[str, Any] = {"file": "a.txt", "lines": [1, 2], "odd": {1, 2}.__class__}
        item = Item("tea", 2.0, "key", "run", "Node", "[1]/Node", 0.5, None, about)
        (number,) = await memories.remember(SHELF, [item])
        about["lines"].append(3)  # what is remembered does not change with the caller's object
        (entry,) = await memories.entries("a", 9)
        origin = (entry.run_id, entry.node, entry.address, entry.confidence, entry.time)
        assert (entry.id, *origin) == (number, "run", "Node", "[1]/Node", 0.5, 2.0)
        assert entry.about == {"file": "a.txt", "lines": [1, 2], "odd": "<class 'set'>"}

    opened(story)


def test_vectors_are_per_model_and_deleted_with_their_entry(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        tea, _ = await remember(memories, SHELF, "tea", "milk")
        await memories.keep_vectors("m", {tea: b"\0\0\0\1", 99: b"\0\0\0\2"})
        await memories.keep_vectors("n", {tea: b"\0\0\0\3"})
        assert [vector for _, vector in await memories.vectors(SHELF, "m", 9)] == [None, b"\0\0\0\1"]
        assert [vector for _, vector in await memories.vectors(SHELF, "n", 9)] == [None, b"\0\0\0\3"]
        assert await remember(memories, SHELF, "tea") == [tea]
        assert [vector for _, vector in await memories.vectors(SHELF, "m", 9)] == [b"\0\0\0\1", None]
        await memories.forget("a", [tea])
        await remember(memories, SHELF, "tea")
        assert [vector for _, vector in await memories.vectors(SHELF, "m", 9)] == [None, None]

    opened(story)


def test_forgotten_entries_leave_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def story() -> None:
        store = SqliteStore(path, sync="off")
        memories = store.memory()
        (number,) = await remember(memories, SHELF, "tea")
        await memories.keep_vectors("m", {number: b"\0\0\0\0", 99: b"\0\0\0\0"})
        assert query(path, "SELECT count(*) FROM memory_vectors") == [(1,)]
        await memories.forget("a")
        await store.close()

    do(story())
    for table in ("memories", "memory_words", "memory_vectors"):
        assert query(path, f"SELECT count(*) FROM {table}") == [(0,)]


def test_unusual_texts_are_stored_unchanged(opened: Tell) -> None:
    async def story(memories: MemoryStore) -> None:
        shelf = Shelf("'; DROP TABLE memories; --", 'x" OR 1')
        odd = ["'quoted'", "\x00 in it", "line\nbreak", "🫖", "", " ", "%_*", "a" * 100_000]
        await remember(memories, shelf, *odd)
        assert await newest(memories, shelf) == odd[::-1]

    opened(story)
