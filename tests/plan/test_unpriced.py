"""The warning about limits on the cost that cover models without a known price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roundel.nodes.loading import check

HOUSE = "openai:house"
PRICE = {"input": 1, "output": 2}


def warnings(workflow: dict[str, Any]) -> list[str]:
    _, report = check(workflow)
    assert report.ok, report.diagnostics
    return [str(found.message) for found in report.diagnostics if found.code == "unpriced-model"]


def agents(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    node = {"id": "A", "type": "agent", "config": config}
    return {"graph": {"nodes": [node], "start": "A", "limits": {"cost_usd": 2}}, **more}


@pytest.mark.parametrize(
    ("config", "models", "unknown"),
    [
        ({"model": HOUSE}, {}, "no price is known for 'openai:house'"),
        ({"model": "openai:gpt-4o"}, {}, ""),
        ({}, {"default": {"model": HOUSE}}, "no price is known for 'openai:house'"),
        ({}, {"default": {"model": HOUSE, "price": PRICE}}, ""),
        ({}, {"default": {"model": HOUSE, "price": {"input": 0, "output": 0}}}, ""),
        ({"model": HOUSE}, {"other": {"model": HOUSE, "price": PRICE}}, ""),
        ({"profile_id": "b"}, {"b": {"model": "ollama:tiny"}}, "no price is known for 'ollama:tiny'"),
        ({"model": "gemini:gemini-2.5-pro"}, {}, ""),
        (
            {"model": "openai:gpt-4o", "fallback": ["b"]},
            {"b": {"model": HOUSE}},
            "no price is known for 'openai:house'",
        ),
        ({}, {}, "it names no model"),
    ],
)
def test_model_without_a_known_price(config: dict[str, Any], models: dict[str, Any], unknown: str) -> None:
    found = warnings(agents(config, models=models))
    limit = "the limit of 2 dollars cannot count the calls of 'A': "
    assert found == ([limit + unknown] if unknown else [])


def test_warning_has_a_place_and_a_hint(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "limits: {cost_usd: 2}\n"
        "graph:\n"
        "  start: A\n"
        "  nodes:\n"
        "    - {id: B, type: literal, config: {content: b}}\n"
        "    - {id: A, type: agent, config: {model: 'openai:house'}}\n"
    )
    _, report = check(tmp_path / "flow.yaml")
    (found,) = [found for found in report.diagnostics if found.code == "unpriced-model"]
    assert (found.severity, found.line, found.column) == ("warning", 6, 7)
    assert "price: {input: …, output: …}" in found.hint
    assert "unpriced: allow" in found.hint


COST, ALLOW = {"cost_usd": 2}, {"unpriced": "allow"}


@pytest.mark.parametrize(
    ("file", "sub", "graph", "loop", "node", "warned"),
    [
        (COST, {}, {}, {}, {}, "AB"),
        (COST | ALLOW, {}, {}, {}, {}, ""),
        ({}, COST, {}, {}, {}, "AB"),
        ({}, {}, COST, {}, {}, "AB"),
        ({}, {}, {}, COST, {}, "A"),
        ({}, {}, {}, {}, COST, "A"),
        (ALLOW, COST, {}, {}, COST | {"unpriced": "lock"}, "A"),
        (COST, COST | ALLOW, ALLOW, {}, ALLOW, "AB"),
        ({}, ALLOW, {}, COST, {}, ""),
        ({"tokens": 3}, {}, {}, {}, {}, ""),
    ],
)
def test_limits_at_every_level(file: Any, sub: Any, graph: Any, loop: Any, node: Any, warned: str) -> None:
    body = {
        "nodes": [
            {"id": "A", "type": "agent", "config": {"model": HOUSE}, "limits": node},
            {"id": "B", "type": "agent", "config": {"model": HOUSE}},
            {"id": "Gate", "type": "loop", "config": {"max_rounds": 2}},
        ],
        "edges": [
            {"from": "A", "to": "Gate"},
            {"from": "Gate", "to": "A", "port": "continue"},
            {"from": "Gate", "to": "B", "port": "exit"},
        ],
        "start": "A",
        "end": "B",
        "limits": graph,
        "loops": {"A": {"limits": loop}},
    }
    around = {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": body}, "limits": sub}
    found = warnings({"limits": file, "graph": {"nodes": [around], "start": "Sub"}})
    assert "".join(name for name in "AB" if any(f"of '{name}'" in text for text in found)) == warned
    assert len(found) == len(warned)
