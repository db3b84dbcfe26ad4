"""The vectors again, with delayed replies: no result depends on the order of arrival."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

import roundel
from roundel.kernel.payloads import with_report
from tests.conformance.test_vectors import VECTORS, missing


def runs(path: Path) -> bool:
    return not yaml.safe_load(path.read_text(encoding="utf-8")).get("check")


def delayed(script: dict[str, Any], seed: int) -> dict[str, Any]:
    dice = random.Random(seed)
    return {name: [_line(reply, dice) for reply in _replies(replies)] for name, replies in script.items()}


def _replies(replies: Any) -> list[Any]:
    return replies if isinstance(replies, list) else [replies]


def _line(reply: Any, dice: random.Random) -> dict[str, Any]:
    line = dict(reply) if isinstance(reply, dict) else {"text": str(reply)}
    return {**line, "delay": dice.random() * 0.02}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "path", [path for path in VECTORS if runs(path)], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_vector_with_delays(path: Path, seed: int) -> None:
    vector = yaml.safe_load(path.read_text(encoding="utf-8"))
    source = vector["workflow"]
    workflow = yaml.safe_load(source) if isinstance(source, str) else source
    events: list[dict[str, Any]] = []

    def note(event: roundel.Event) -> None:
        data = with_report(event.data, event.fields())
        events.append(
            {"event": event.event, "node_id": event.node_id, "address": event.address, "data": data}
        )

    script = delayed(vector.get("script", {}), seed)
    result = roundel.run(workflow, vector.get("input", "go"), script=script, on_event=note)
    expect = vector["expect"]
    assert not missing(expect.get("summary", {}), result.summary)
    for want in expect.get("events", []):
        assert any(not missing(want, event) for event in events), want
    for unwanted in expect.get("no_events", []):
        assert all(missing(unwanted, event) for event in events), unwanted
