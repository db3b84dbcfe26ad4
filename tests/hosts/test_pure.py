"""Nodes of pure types: the core runs them itself, and they get a clock and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import roundel
from roundel.extend import Call, NodeType, Outcome
from roundel.nodes import TYPES


class Config(Struct, frozen=True):
    pass


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any, Any], Any]], roundel.Graph]:
    """A graph of one node, whose type is pure and is prepared like this."""

    def graph(prepare: Callable[[Any, Any], Any]) -> roundel.Graph:
        kind = NodeType("odd", Config, "For a test.", prepare, pure=True)
        monkeypatch.setitem(TYPES._types, "odd", kind)
        return roundel.Graph(start="A", end="A").node("A", "odd")

    return graph


@pytest.mark.parametrize("stored", [True, False])
def test_a_pure_node_gets_a_clock_and_nothing_else(pure: Any, tmp_path: Path, stored: bool) -> None:
    given: list[Any] = []

    def prepare(_node: Any, services: Any) -> Callable[[Call], Outcome]:
        given.append(services)
        return lambda call: Outcome(call.inputs)

    result = roundel.run(pure(prepare), "tea", store=tmp_path / "runs.db" if stored else None)
    assert result.output == "tea"
    (services,) = given
    assert [name for name in dir(services) if not name.startswith("_")] == ["now", "worked"]
    assert services.now() > 1_700_000_000


@pytest.mark.parametrize("stored", [True, False])
def test_pure_node_may_be_a_coroutine_that_never_suspends(pure: Any, tmp_path: Path, stored: bool) -> None:
    def prepare(_node: Any, _services: Any) -> Any:
        async def behave(call: Call) -> str:
            return call.inputs[-1].text.upper()

        return behave

    result = roundel.run(pure(prepare), "tea", store=tmp_path / "runs.db" if stored else None)
    assert result.output == "TEA"


def test_pure_node_that_awaits_fails_with_an_explanation(pure: Any) -> None:
    def prepare(_node: Any, _services: Any) -> Any:
        async def behave(_call: Call) -> str:
            await asyncio.sleep(0)
            return "late"

        return behave

    result = roundel.run(pure(prepare), "tea")
    assert result.status == "failed"
    assert "a node of a pure type must not wait for anything" in str(result.error)
