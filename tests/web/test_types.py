"""The types of the page are those of the API."""

from __future__ import annotations

import json

from tools.web_types import (
    EVENTS,
    SOURCE,
    STATUSES,
    TARGET,
    VIEW,
    event_types,
    statuses,
    types_of,
    view_types,
)


def test_types_are_those_of_the_api() -> None:
    document = json.loads(SOURCE.read_text())
    assert TARGET.read_text() == types_of(document), "run `make tables`"


def test_statuses_are_those_of_the_kernel() -> None:
    assert STATUSES.read_text() == statuses(), "run `make tables`"


def test_types_of_events_are_those_of_their_structs() -> None:
    written = EVENTS.read_text()
    assert written == event_types(), "run `make tables`"
    assert '  | (Envelope & { event: "tool_call"; data: ToolCallStarted | ToolCallEnded })' in written
    assert '  status: "completed";' in written
    assert "  cost_usd?: number;" in written and "  output?: string;" in written


def test_types_of_views_are_those_of_their_structs() -> None:
    written = VIEW.read_text()
    assert written == view_types(), "run `make tables`"
    assert "  RunUsage,\n" in written.partition("export")[0] and "interface RunUsage" not in written
    assert "  seq: number;" in written and "  loops?: ViewedLoop[];" in written


def test_a_field_with_a_default_is_missing_only_in_requests() -> None:
    field = {"type": "integer", "default": 1}
    schema = {
        "type": "object",
        "properties": {"limit": field, "name": {"type": "string"}},
        "required": ["name"],
    }
    document = {
        "components": {"schemas": {"Body": schema, "Answer": schema}},
        "paths": {"/a": {"post": {"requestBody": {"$ref": "#/components/schemas/Body"}}}},
    }
    made = types_of(document)
    assert "interface Body {\n  limit?: number;\n  name: string;" in made
    assert "interface Answer {\n  limit: number;\n  name: string;" in made
