"""Stores by their URLs, also those of other packages."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import roundel
from roundel.hosts.stored_run import read_events
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.registry import open_store, scheme_of
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.runs.lookup import resolve_store
from tests.journal.stores import STARTED, chunk, new

PACKAGE = """
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.store import StoreError

class Other(InMemoryStore):
    def __init__(self, url):
        super().__init__()
        if "wrong" in url:
            raise ValueError(f"'{url}' has no host")
        self.location = url

class Forgetful(Other):
    def memory(self):
        raise StoreError(f"{self.location} has no place for memories; use another --store")

def broken(url):
    raise RuntimeError("no driver")

def nothing(url):
    return url
"""
ENTRY_POINTS = """
[roundel.stores]
other = other_store:Other
forgetful = other_store:Forgetful
broken = other_store:broken
nothing = other_store:nothing
missing = other_store:missing
"""


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package is installed, with stores of its own."""
    site = tmp_path / "site"
    about = site / "other_store-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "other_store.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-store\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "other_store", raising=False)


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("runs.db", "sqlite"),
        ("a:b.db", "sqlite"),
        ("notes:runs.db", "sqlite"),
        ("C:\\runs.db", "sqlite"),
        ("sqlite:///runs.db", "sqlite"),
        ("memory:", "memory"),
        ("memory:tests", "memory"),
        ("PostgreSQL://host", "postgresql"),
    ],
)
def test_scheme_of_a_store_url(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


def test_paths_and_urls_of_files_are_sqlite(tmp_path: Path) -> None:
    for place in (tmp_path / "runs.db", str(tmp_path / "runs.db"), f"sqlite:///{tmp_path}/runs.db?sync=off"):
        assert isinstance(open_store(place), SqliteStore)
        assert open_store(place).location == str(tmp_path / "runs.db")


def test_a_store_in_memory_is_the_same_for_the_same_url() -> None:
    store = open_store("memory:shared")
    assert isinstance(store, InMemoryStore)
    assert store is open_store("memory:shared")
    assert store is not open_store("memory:other")
    assert open_store("memory:").location == "memory:"
    with pytest.raises(StoreError, match="write memory: or memory:NAME"):
        open_store("memory:a/b")


@pytest.mark.usefixtures("_package")
def test_entry_points_add_stores(tmp_path: Path) -> None:
    async def story() -> None:
        store = resolve_store("other://host/runs")
        assert store.location == "other://host/runs"
        await store.create(new(), chunk(STARTED))
        assert [row.id for row in await store.rows()] == ["run"]

    asyncio.run(story())


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("other://wrong", "'other://wrong' has no host"),
        (
            "broken://host",
            r"broken: cannot be opened, since other_store:broken fails \(RuntimeError: no driver\)",
        ),
        ("nothing://host", "other_store:nothing fails .it returns str, which is not a Store"),
        ("missing://host", "other_store:missing fails .AttributeError"),
        (
            "unknown://ann:tea@host",
            r"'unknown://ann:\*\*\*@host' is not a known kind of store.* one of broken:, forgetful:, memory:",
        ),
    ],
)
def test_invalid_store_urls_are_rejected_with_a_reason(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        open_store(url)


def flow() -> roundel.Graph:
    graph = roundel.Graph(start="A", end="A", memory=[{"name": "notes", "type": "simple"}])
    graph.node("A", "agent", memories=["notes"])
    return graph


def test_a_run_in_memory_is_a_stored_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[roundel.Event] = []
    result = roundel.run(flow(), "go", script={"A": ["tea"]}, store="memory:runs", on_event=shown.append)

    async def story() -> None:
        store = open_store("memory:runs")
        (row,) = await store.rows()
        assert (row.id, row.status, row.owner) == (result.run_id, "completed", "")
        assert await read_events(store, row.id) == shown
        assert [entry.text for entry in await store.memory().entries("", 0)] == ["tea"]

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_package")
def test_a_store_without_memories_is_an_error_for_workflows_that_need_them() -> None:
    with pytest.raises(StoreError, match="forgetful://host has no place for memories"):
        roundel.run(flow(), "go", script={"A": ["tea"]}, store="forgetful://host")
    store = open_store("forgetful://host")
    with pytest.raises(StoreError, match="no place for memories"):
        roundel.run(flow(), "go", script={"A": ["tea"]}, store=store)
    assert asyncio.run(store.rows()) == [], "no run is left behind"
    plain = roundel.Graph(start="A", end="A")
    plain.node("A", "agent")
    assert roundel.run(plain, "go", script={"A": ["tea"]}, store="forgetful://host").completed
