"""How a store is found: by its location, its URL, and the environment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import roundel
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.runs.lookup import resolve_store


def test_explicit_store_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUNDEL_STORE", raising=False)
    assert resolve_store().location == str(Path(".roundel/runs.db"))
    monkeypatch.setenv("ROUNDEL_STORE", "there.db")
    assert resolve_store().location == str(Path("there.db"))
    assert resolve_store("here.db").location == str(Path("here.db"))
    assert resolve_store(Path("here.db")).location == str(Path("here.db"))
    monkeypatch.setenv("ROUNDEL_STORE", "")
    assert resolve_store().location == str(Path(".roundel/runs.db"))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///runs.db", "runs.db"),
        ("sqlite:////var/lib/runs.db", "/var/lib/runs.db"),
        ("sqlite:///my%20runs.db?sync=off", "my runs.db"),
        ("sqlite:///runs.db?sync=normal", "runs.db"),
    ],
)
def test_store_urls_are_resolved(url: str, path: str) -> None:
    assert resolve_store(url).location == str(Path(path))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgres://host/runs", "not a known kind of store"),
        ("sqlite://runs.db", "sqlite:///PATH"),
        ("sqlite:///runs.db?sync=often", "full, normal, off"),
        ("sqlite:///runs.db?cache=1&sync=off", "no option 'cache'"),
        ("sqlite:///", "sqlite:///PATH"),
    ],
)
def test_invalid_store_urls_are_rejected(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        resolve_store(url)


def test_password_in_a_store_url_is_masked() -> None:
    with pytest.raises(StoreError, match=r"mysql://ann:\*\*\*@host/runs"):
        resolve_store("mysql://ann:tea@host/runs")


def test_given_store_is_left_open(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        async with roundel.Runs(store) as runs:
            assert runs.store is store
        assert await store.rows() == []
        await store.close()

    asyncio.run(story())
