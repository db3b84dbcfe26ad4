"""Whatever stands in a file, drawing it never fails: an editor draws while a person types."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing
from roundel.drawing.mermaid import mermaid
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_plan, draft_text_plan
from roundel.workflow.diagnostics import Report
from tests.drawing.drawings import assert_tidy, shown
from tests.test_broken import FILES
from tests.workflow.test_loader_fuzz import damaged, damaged_text, in_time, misspelt

DENSITIES: tuple[Density, ...] = ("normal", "compact")
THOROUGH = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def assert_drawn(plan: Any, report: Report) -> Drawing | None:
    """Draws in every format; None if there is no graph."""
    assert plan is not None or not report.ok
    if plan is None:
        return None
    drawings = [draw(plan, report.findings, density=density) for density in DENSITIES]
    for drawing in drawings:
        assert_tidy(drawing)
        assert msgspec.json.decode(msgspec.json.encode(drawing), type=Drawing) == drawing
        ET.fromstring(svg(drawing))
    assert shown(plan, findings=report.findings) and mermaid(plan, report.findings)
    return drawings[0]


@THOROUGH
@given(damaged())
@in_time
def test_damaged_values_are_drawn(value: dict[str, Any]) -> None:
    assert_drawn(*draft_text_plan(json.dumps(value)))


@THOROUGH
@given(misspelt())
@in_time
def test_misspelt_keys_are_drawn(case: tuple[dict[str, Any], str, str]) -> None:
    assert_drawn(*draft_text_plan(json.dumps(case[0])))


@THOROUGH
@given(damaged_text())
@in_time
def test_damaged_text_is_drawn(text: str) -> None:
    assert_drawn(*draft_text_plan(text))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=200))
@example("graph: {nodes: [{id: [], type: {}}], edges: [[], {from: {}}], start: {}}")
@example('graph: {nodes: [{id: "\\x1b[31m", type: "\\u202e"}], edges: [{from: "\\x1b", to: "<&>"}]}')
@in_time
def test_any_text_is_drawn_or_has_no_graph(text: str) -> None:
    assert_drawn(*draft_text_plan(text))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_broken_files_are_drawn(file: Path) -> None:
    plan, report = draft_plan(file)
    drawing = assert_drawn(plan, report)
    if drawing is not None:
        places = [item.problems for item in drawing.nodes] + [item.problems for item in drawing.edges]
        assert drawing.problems or any(places) or any(item.problems for item in drawing.regions)
