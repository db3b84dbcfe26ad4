"""A wire for each test, and an environment that holds no keys but the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.llm.wire import Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as wire:
        yield wire


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ROUNDEL_CACHE", str(tmp_path / "cache"))
