"""Documents of a store: versions, history, expiry and logs, in every store and from several processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.journal.documents import Document, DocumentConflict, DocumentStore, end_of_prefix
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Store, StoreError
from tests.journal.stores import query, using
from tests.journal.test_conformance import STORES

HOUR = 3600.0
Story = Callable[[DocumentStore], Awaitable[None]]


@pytest.fixture(params=STORES)
def documents(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Tells a story with the documents of an empty store."""

    async def tell(story: Story) -> None:
        store = STORES[request.param](tmp_path)()
        try:
            await story(store.documents())
        finally:
            await store.close()

    return lambda story: asyncio.run(tell(story))


def bodies(found: list[Document]) -> list[Any]:
    return [document.body for document in found]


def test_a_document_gets_a_version_with_each_put(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        before = time.time()
        assert await docs.get("workflows", "tea") is None
        body = {"text": "start: A", "tags": [1, None, "ü"]}
        assert await docs.put("workflows", "tea", body, author="ann") == 1
        found = await docs.get("workflows", "tea")
        assert found is not None
        assert (found.key, found.version, found.body, found.author) == ("tea", 1, body, "ann")
        assert before <= found.updated <= time.time()
        found.body["tags"].clear()
        assert (await docs.get("workflows", "tea")).body == body  # type: ignore[union-attr]
        assert await docs.put("workflows", "tea", "other") == 2
        assert await docs.get("tokens", "tea") is None

    documents(story)


def test_a_writer_with_an_old_version_is_refused(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        await docs.put("c", "key", 1, expected=0)
        for expected in (0, 2, 7):
            with pytest.raises(DocumentConflict, match="'key' in c has version 1 by now") as refused:
                await docs.put("c", "key", 9, expected=expected)
            assert refused.value.current == 1
        assert await docs.put("c", "key", 2, expected=1) == 2
        with pytest.raises(DocumentConflict):
            await docs.delete("c", "key", expected=1)
        assert bodies(await docs.list("c")) == [2]
        assert await docs.delete("c", "key", expected=2)
        assert not await docs.delete("c", "key")
        with pytest.raises(DocumentConflict, match="does not exist") as refused:
            await docs.delete("c", "key", expected=2)
        assert refused.value.current == 0
        with pytest.raises(DocumentConflict):
            await docs.put("c", "key", 3, expected=2)
        assert await docs.put("c", "key", 3, expected=0) == 1  # no history was kept

    documents(story)


def test_a_conflict_leaves_what_is_written_at_the_same_time(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        puts = (docs.put("c", str(number % 5), number, expected=0) for number in range(20))
        done = await asyncio.gather(*puts, docs.append("log", 1), return_exceptions=True)
        assert sum(isinstance(one, DocumentConflict) for one in done) == 15
        assert done[-1] == 1
        assert bodies(await docs.list("c")) == [0, 1, 2, 3, 4]

    documents(story)


def test_history_stays_after_deletion_until_it_is_forgotten(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        for number in (1, 2, 3):
            assert await docs.put("c", "key", number, keep_history=True, author=f"a{number}") == number
        assert await docs.put("c", "key", "not kept") == 4
        assert bodies(await docs.versions("c", "key")) == ["not kept", 3, 2, 1]
        assert [one.author for one in await docs.versions("c", "key", before=4)] == ["a3", "a2", "a1"]
        assert bodies(await docs.versions("c", "key", before=3, limit=1)) == [2]
        assert await docs.delete("c", "key")
        assert bodies(await docs.versions("c", "key")) == [3, 2, 1]
        # Version 4 was not kept, so its number is free again; those of versions that were kept never are.
        assert await docs.put("c", "key", "again", expected=0, keep_history=True) == 4
        assert await docs.versions("c", "other") == await docs.versions("d", "key") == []
        assert await docs.forget("c", "key")
        assert await docs.get("c", "key") is None
        assert await docs.versions("c", "key") == []
        assert not await docs.forget("c", "key")

    documents(story)


def test_kept_versions_are_deleted_but_for_the_newest(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        for number in range(1, 6):
            await docs.put("c", "key", number, keep_history=True)
        await docs.put("c", "other", 1, keep_history=True)
        assert await docs.forget_versions("c", "key", first=2, below=3) == 1
        assert bodies(await docs.versions("c", "key")) == [5, 4, 3, 1]
        assert await docs.forget_versions("c", "key", first=2, below=3) == 0
        assert await docs.forget_versions("c", "key", below=4) == 2
        assert await docs.forget_versions("c", "key", below=1 << 70) == 1
        assert bodies(await docs.versions("c", "key")) == [5]
        await docs.delete("c", "key")
        # Nobody may take a later version for the one that they know.
        assert await docs.forget_versions("c", "key", below=9) == 0
        assert await docs.put("c", "key", 6, keep_history=True) == 6
        assert bodies(await docs.versions("c", "other")) == [1]

    documents(story)


def test_versions_and_entries_are_trimmed_by_age(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        for number in (1, 2, 3):
            await docs.put("c", "key", number, keep_history=True)
            await docs.append("audit", number)
        await docs.put("d", "key", 1, keep_history=True)
        await docs.put("d", "key", 2, keep_history=True)
        last = await docs.append("other", 4)
        soon, past = time.time() + HOUR, time.time() - HOUR
        assert await docs.trim_versions("c", keep=2, until=past) == await docs.trim("audit", past) == 0
        assert await docs.trim_versions("c", keep=2) == 1
        assert bodies(await docs.versions("c", "key")) == [3, 2]
        assert await docs.trim_versions("c", keep=0, until=soon) == 1, "the newest always stays"
        assert bodies(await docs.versions("c", "key")) == [3]
        assert bodies(await docs.versions("d", "key")) == [2, 1]
        assert await docs.trim("audit", soon) == 3
        assert await docs.entries("audit") == []
        assert len(await docs.entries("other")) == 1
        assert await docs.append("audit", 5) == last + 1, "numbers are never given twice"
        assert [one.body for one in await docs.entries("audit", after=last)] == [5]

    documents(story)


def test_what_versions_contained_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    secret = b"sk-was-saved-by-mistake"

    async def story() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        docs = store.documents()
        for body in (secret.decode() * 1000, secret.decode(), "clean"):
            await docs.put("c", "key", {"text": body}, keep_history=True)
        assert await docs.forget_versions("c", "key", below=3) == 2
        assert secret not in (tmp_path / "runs.db").read_bytes()
        assert secret not in (tmp_path / "runs.db-wal").read_bytes()
        await store.close()

    asyncio.run(story())


def test_documents_are_listed_by_key_in_pages(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        keys = [
            "a",
            "a/1",
            "a/2",
            "a%",
            "a_",
            "b",
            "\x00",
            "a\x00b",
            "é",
            "\ud7ff",
            "\ue000",
            "\U0010ffff",
            "京",
        ]
        for key in keys:
            await docs.put("c", key, key)
        await docs.put("other", "a/0", 0)

        async def found(**options: Any) -> list[str]:
            return [document.key for document in await docs.list("c", **options)]

        assert await found() == sorted(keys)
        pages: list[str] = []
        while page := await found(after=pages[-1] if pages else "", limit=4):
            pages += page
        assert pages == sorted(keys)
        for prefix in [*keys, "a/", "x", ""]:
            assert await found(prefix=prefix) == sorted(key for key in keys if key.startswith(prefix))
        assert await found(prefix="a", after="a/1", limit=1) == ["a/2"]
        assert await found(limit=0) == await found(limit=-1) == []

    documents(story)


@given(st.text(max_size=3), st.text(max_size=4))
def test_the_end_of_a_prefix_separates_texts_with_it_from_larger_ones(prefix: str, text: str) -> None:
    end = end_of_prefix(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))


def test_expired_documents_are_never_returned(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        now = time.time()
        await docs.put("c", "past", 1, expires=now - 1)
        await docs.put("c", "soon", 2, expires=now + HOUR)
        await docs.put("c", "never", 3)
        assert await docs.get("c", "past") is None
        assert bodies(await docs.list("c")) == [3, 2]
        assert await docs.versions("c", "past") == []
        assert not await docs.delete("c", "past")
        await docs.put("c", "past", 4, expires=now - 1)
        assert await docs.put("c", "past", 5, expected=0, expires=now - 1) == 1  # as after a deletion
        found = await docs.get("c", "soon")
        assert found is not None
        assert found.expires == now + HOUR
        assert await docs.expire(now) == 1
        assert await docs.expire(now + 2 * HOUR) == 1
        assert bodies(await docs.list("c")) == [3]
        assert await docs.expire(now + 2 * HOUR) == 0

    documents(story)


def test_a_field_that_may_be_long_is_left_out(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        await docs.put("c", "a", {"text": "x" * 1000, "kind": {"text": 1}}, keep_history=True)
        await docs.put("c", "b", [1], keep_history=True)
        assert bodies(await docs.list("c", without="text")) == [{"kind": {"text": 1}}, [1]]
        (version,) = await docs.versions("c", "a", without="text")
        assert version.body == {"kind": {"text": 1}}
        assert (await docs.list("c"))[0].body["text"] == "x" * 1000

    documents(story)


def test_a_log_is_read_backwards_by_people_and_forwards_by_programs(
    documents: Callable[[Story], None],
) -> None:
    async def story(docs: DocumentStore) -> None:
        numbers = [await docs.append("audit", {"n": n}, author=f"a{n}") for n in range(6)]
        await docs.append("other", {"n": 99})
        assert numbers == sorted(set(numbers))

        async def found(**options: Any) -> list[int]:
            return [entry.body["n"] for entry in await docs.entries("audit", **options)]

        assert await found() == [5, 4, 3, 2, 1, 0]
        assert await found(limit=2) == [5, 4]
        assert await found(before=numbers[4], limit=2) == [3, 2]
        assert await found(after=numbers[1], limit=2) == [2, 3]
        assert await found(after=numbers[1], before=numbers[3]) == [2]
        assert await found(after=numbers[-1]) == await found(limit=0) == []
        assert await found(before=1 << 70, limit=1 << 70) == [5, 4, 3, 2, 1, 0]
        (newest,) = await docs.entries("audit", limit=1)
        assert (newest.number, newest.author) == (numbers[-1], "a5")
        assert newest.time <= time.time()

    documents(story)


def test_what_cannot_be_stored_is_refused(documents: Callable[[Story], None]) -> None:
    async def story(docs: DocumentStore) -> None:
        for body in (object(), {1j: 1}, "\ud800"):
            with pytest.raises(StoreError, match="the document for c is no JSON value"):
                await docs.put("c", "key", body)
            with pytest.raises(StoreError, match="is no JSON value"):
                await docs.append("c", body)
        for names in (("c", "\ud800"), ("\udc00", "key")):
            for work in (docs.put(*names, 1), docs.get(*names), docs.delete(*names), docs.forget(*names)):
                with pytest.raises(StoreError, match="cannot be stored"):
                    await work
        assert await docs.list("c") == []

    documents(story)


# All stores alike.

KEYS = st.sampled_from(["a", "ab", "b", "B", "é", "%"])
EXPECTED = st.none() | st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, EXPECTED, st.booleans(), st.sampled_from([None, -HOUR, HOUR])),
    st.tuples(st.just("delete"), KEYS, EXPECTED),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("list"), KEYS | st.just(""), KEYS | st.just(""), st.integers(-1, 4)),
    st.tuples(st.just("versions"), KEYS, st.integers(0, 4), st.integers(-1, 4)),
    st.tuples(st.just("forget_versions"), KEYS, st.integers(0, 4), st.integers(0, 5)),
    st.tuples(st.just("trim_versions"), st.integers(0, 3), st.sampled_from([-HOUR, HOUR])),
    st.tuples(st.just("append"), st.sampled_from(["x", "y"])),
    st.tuples(st.just("trim"), st.sampled_from(["x", "y"]), st.sampled_from([-HOUR, HOUR])),
    st.tuples(st.just("entries"), st.sampled_from(["x", "y"]), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("expire"), st.sampled_from([-HOUR, 0.0, 2 * HOUR])),
)


async def take(docs: DocumentStore, number: int, step: tuple[Any, ...], now: float) -> Any:
    """One step of a story, as a value that is the same in every store."""
    name, *values = step
    try:
        if name == "put":
            key, expected, keep, seconds = values
            expires = None if seconds is None else now + seconds
            return await docs.put("c", key, number, expected=expected, keep_history=keep, expires=expires)
        if name == "delete":
            return await docs.delete("c", values[0], expected=values[1])
        if name in ("get", "forget"):
            found = await getattr(docs, name)("c", values[0])
            return (found.version, found.body, found.expires) if isinstance(found, Document) else found
        if name == "list":
            return bodies(await docs.list("c", prefix=values[0], after=values[1], limit=values[2]))
        if name == "versions":
            versions = await docs.versions("c", values[0], before=values[1], limit=values[2])
            return [(one.version, one.body) for one in versions]
        if name == "forget_versions":
            return await docs.forget_versions("c", values[0], first=values[1], below=values[2])
        if name == "trim_versions":
            return await docs.trim_versions("c", keep=values[0], until=now + values[1])
        if name == "append":
            return await docs.append(values[0], number)
        if name == "trim":
            return await docs.trim(values[0], now + values[1])
        if name == "entries":
            entries = await docs.entries(values[0], before=values[1], after=values[2])
            return [(entry.number, entry.body) for entry in entries]
        return await docs.expire(now + values[0])
    except DocumentConflict as conflict:
        return str(conflict)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=60, deadline=None)
def test_all_stores_tell_random_stories_alike(steps: list[tuple[Any, ...]]) -> None:
    now = time.time()

    async def told(store: Store) -> list[Any]:
        try:
            return [await take(store.documents(), number, step, now) for number, step in enumerate(steps)]
        finally:
            await store.close()

    with tempfile.TemporaryDirectory() as folder:
        first, *others = [asyncio.run(told(make(Path(folder))())) for make in STORES.values()]
    assert all(other == first for other in others)


# Several processes, and a crash.


def start(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.journal.document_writer", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_of_several_processes_exactly_one_creates_a_key(tmp_path: Path) -> None:
    path, keys = tmp_path / "runs.db", 100
    writers = [start("compete", path, name, keys) for name in "abc"]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    won = {name: writer.communicate()[0].split() for name, writer in zip("abc", writers, strict=True)}
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert sorted(key for keys in won.values() for key in keys) == sorted(map(str, range(keys)))

    async def story(store: SqliteStore) -> None:
        for document in await store.documents().list("keys", limit=1000):
            assert document.version == 1
            assert document.key in won[document.body["writer"]]

    asyncio.run(using(path, story))


def test_what_was_written_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with start("write", path) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(30)]
        writer.kill()
        lines += writer.stdout.read().splitlines(keepends=True)
    version, number = map(int, [line for line in lines if line.endswith("\n")][-1].split())

    async def story(store: SqliteStore) -> None:
        documents = store.documents()
        found = await documents.get("kept", "key")
        assert found is not None
        assert found.version == found.body["version"] >= version >= 30
        kept = await documents.versions("kept", "key", limit=10_000)
        assert [one.version for one in kept] == list(range(found.version, 0, -1))
        entries = await documents.entries("log", limit=10_000)
        assert entries[0].number >= number
        assert [entry.number for entry in entries] == list(range(entries[0].number, 0, -1))

    asyncio.run(using(path, story))


def test_a_damaged_document_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def add(store: SqliteStore) -> None:
        await store.documents().put("c", "key", 1)

    async def read(store: SqliteStore) -> None:
        await store.documents().get("c", "key")

    asyncio.run(using(path, add))
    query(path, "UPDATE documents SET body = 'x{'")
    with pytest.raises(StoreError, match="damaged"):
        asyncio.run(using(path, read))
