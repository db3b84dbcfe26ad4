"""Which rounds a pruned run retains."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.stored_run import read_events
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.kernel import events as kernel_events
from roundel.kernel.codec import Codec
from roundel.kernel.events import Event
from roundel.kernel.payloads import Custom
from roundel.runs.retention import parse_policy, prune, select_events
from tests.events import event_of
from tests.journal.stores import query, using

LITERAL = {"id": "A", "type": "literal", "config": {"content": "word"}}


def event(kind: str, address: str | None = None, **data: Any) -> Event:
    return event_of(kind, address=address, **data)


def rounds(*scores: float | None) -> list[Event]:
    """A loop with a node in each round, and one after it."""
    found = [event("run_started")]
    for number, score in enumerate(scores, 1):
        found.append(event("loop_round", f"Writer[{number}]", loop="Writer", round=number))
        found.append(event("node_state_change", f"Writer[{number}]/Gate", status="completed", score=score))
    last = f"Writer[{len(scores)}]"
    return [
        *found,
        event("loop_exit", last),
        event("node_state_change", "Final", status="completed"),
        event("run_finished"),
    ]


@pytest.mark.parametrize(
    ("keep", "stay"),
    [
        ("first", [1]),
        ("last", [6]),
        ("best", [4]),
        ("first, best ,last", [1, 4, 6]),
        ("every:2", [2, 4, 6]),
        ("every:4,last", [4, 6]),
        ("every:100", []),
    ],
)
def test_policy_selects_rounds(keep: str, stay: list[int]) -> None:
    events = rounds(10, 30, 20, 90, 40, 50)
    left = list(select_events(events, parse_policy(keep)))
    nodes = [one.address for one in left if one.event == "node_state_change"]
    assert nodes == [*(f"Writer[{number}]/Gate" for number in stay), "Final"]
    assert [one.event for one in left if one.event.startswith(("run_", "loop_exit"))] == [
        "run_started",
        "loop_exit",
        "run_finished",
    ]


def test_the_best_of_rounds_without_scores_is_the_last() -> None:
    left = select_events(rounds(None, None, None), ["best"])
    assert [one.address for one in left if one.event == "loop_round"] == ["Writer[3]"]


def test_later_of_two_equally_good_rounds_is_kept() -> None:
    left = select_events(rounds(70, 70, 10), ["best"])
    assert [one.address for one in left if one.event == "loop_round"] == ["Writer[2]"]


@pytest.mark.parametrize("keep", ["", " , ", "bits", "every:", "every:0", "every:-1", "Best", "first;last"])
def test_invalid_retention_policy_is_rejected(keep: str) -> None:
    with pytest.raises(StoreError, match="every:N"):
        parse_policy(keep)


def test_kept_events_are_upgraded_by_later_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events have the version that they were written with, and are upgraded when they are read."""
    path = tmp_path / "runs.db"

    def upgraded(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "event": f"{fields['event']}!"}

    async def story(store: SqliteStore) -> None:
        result = await roundel.run_async({"graph": {"nodes": [LITERAL], "start": "A"}}, store=store)
        events = await read_events(store, result.run_id)
        await prune(store, result.run_id, "last")
        assert await read_events(store, result.run_id) == events
        known = kernel_events.EVENTS
        version = known.version
        newer: Codec[Any] = Codec(
            "an event", known.kind, version=version + 1, upgrades={version: upgraded}, oldest=version
        )
        monkeypatch.setattr(kernel_events, "EVENTS", newer)
        upgraded_events = await read_events(store, result.run_id)
        assert [event.data for event in upgraded_events] == [
            Custom(f"{event.event}!", event.fields()) for event in events
        ]
        query(path, f"UPDATE kept SET version = {version + 7}")
        with pytest.raises(StoreError, match=f"version {version + 7}: .* {version} to {version + 1}"):
            await read_events(store, result.run_id)

    asyncio.run(using(path, story))
