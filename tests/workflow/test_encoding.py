"""A workflow is written as JSON and read back without its files, its environment and its code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import roundel
from roundel.nodes import TYPES
from roundel.plan.graph import compile_workflow
from roundel.workflow.encoding import EncodingError, decode_workflow, encode_workflow, referenced_secrets
from roundel.workflow.graph import Workflow
from tests.conformance.test_vectors import VECTORS
from tests.runs.test_decisions import CASES

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / "tests/dialect").glob("*.yaml"))]


def sources() -> list[Any]:
    vectors = [yaml.safe_load(path.read_text("utf-8"))["workflow"] for path in VECTORS]
    mappings = [source for source in vectors if isinstance(source, dict)]
    return [*FILES, *mappings, *(source for source, _ in CASES.values())]


def sound(source: Any) -> Workflow | None:
    try:
        return roundel.load(source)
    except roundel.WorkflowError:
        return None  # a script, or a workflow that shows an error


def without_code(workflow: Workflow) -> Workflow:
    return replace(workflow, functions=dict.fromkeys(workflow.functions))


def places(workflow: Workflow) -> list[tuple[int, int]]:
    return [(node.at.line, node.at.column) for node in workflow.graph.nodes]


def test_every_workflow_of_the_project_round_trips() -> None:
    found = [workflow for source in sources() if (workflow := sound(source)) is not None]
    assert len(found) > 40
    for workflow in found:
        read = decode_workflow(encode_workflow(workflow), TYPES)
        assert read == without_code(workflow)
        assert places(read) == places(workflow)
        assert len(compile_workflow(read).sites) == len(compile_workflow(workflow).sites)


def test_values_of_every_kind_round_trip() -> None:
    values: dict[str, Any] = {
        "numbers": [0, -1, 2**70, 0.1, 1e300, float("inf")],
        "texts": ["", "ünï \ud800 \x00 '\"\\", '{"s": []}'],
        "nested": {"list": [[], {}, [None, True]], "s": "t", "x": ["a"], "": 1},
    }
    read = decode_workflow(encode_workflow(with_variables(values)), TYPES)
    assert read.vars == values
    assert [type(number) for number in read.vars["numbers"]] == [int, int, int, float, float, float]


def with_variables(values: dict[str, Any], **more: Any) -> Workflow:
    nodes = [{"id": "A", "type": "passthrough"}]
    return replace(roundel.load({"graph": {"nodes": nodes, "start": "A"}}), vars=values, **more)


def test_functions_are_written_by_name() -> None:
    graph = roundel.Graph(start="A").node("A", "python", function=lambda text: text)
    workflow = graph.workflow()
    text = encode_workflow(workflow)
    (name,) = workflow.functions
    assert decode_workflow(text, TYPES).functions == {name: None}


def test_value_that_is_not_json_is_rejected() -> None:
    with pytest.raises(EncodingError, match=r"\(object\) cannot be stored as JSON"):
        encode_workflow(with_variables({"odd": object()}))


KEY, PIN = "sk-0123456789", "4711"


def secretive() -> Workflow:
    source: dict[str, Any] = {
        "models": {
            "default": {
                "provider": "openai",
                "name": "m",
                "api_key": PIN,
                "headers": {"X-Auth": f"Bearer {KEY} {PIN}"},
                "base_url": f"https://me:{PIN}@example.org/v1",
            }
        },
        "graph": {
            "start": "A",
            "nodes": [{"id": "A", "type": "agent", "config": {"role": f"call {KEY}, room {PIN}"}}],
        },
    }
    return replace(
        roundel.load(source), variables={"MY_TOKEN": PIN, "room": PIN}, secrets={"SERVICE": KEY, "DOOR": PIN}
    )


def test_secrets_are_written_by_name() -> None:
    workflow = secretive()
    text = encode_workflow(workflow)
    assert KEY not in text
    assert referenced_secrets(text) == ["DOOR", "SERVICE"]
    read = decode_workflow(text, TYPES)
    profile = read.models["default"]
    assert profile.api_key == "${secret:DOOR}"
    assert profile.headers == {"X-Auth": "Bearer ${secret:SERVICE} ${secret:DOOR}"}
    assert profile.base_url == "https://me:${secret:DOOR}@example.org/v1"
    # A short one might be part of any text, so it is replaced only where a secret is expected.
    assert read.graph.nodes[0].config.role == "call ${secret:SERVICE}, room 4711"
    assert read.variables == {"MY_TOKEN": "${secret:DOOR}", "room": PIN}


def test_secrets_are_restored_from_the_environment() -> None:
    workflow = secretive()
    text = encode_workflow(workflow)
    assert decode_workflow(text, TYPES, {"SERVICE": KEY, "DOOR": PIN}) == workflow
    half = decode_workflow(text, TYPES, {"SERVICE": KEY})
    assert half.models["default"].headers == {"X-Auth": f"Bearer {KEY} ${{secret:DOOR}}"}


def test_secret_references_survive_reencoding() -> None:
    text = encode_workflow(secretive())
    again = encode_workflow(decode_workflow(text, TYPES))
    assert again == text
    assert decode_workflow(again, TYPES, {"SERVICE": KEY, "DOOR": PIN}) == secretive()


def changed(change: Any) -> str:
    nodes = [{"id": "A", "type": "passthrough"}]
    written = json.loads(encode_workflow(roundel.load({"graph": {"nodes": nodes, "start": "A"}})))
    change(written)
    return json.dumps(written)


BREAKS: dict[str, tuple[Any, str]] = {
    "a type that is not installed": (
        lambda written: written["types"].append("acme"),
        "node type 'acme', which is not installed",
    ),
    "a field that this version lacks": (
        lambda written: written["workflow"]["s"][1].update(colour="red"),
        "'workflow' has no field 'colour' in this version",
    ),
    "a tag that this version lacks": (
        lambda written: written["workflow"]["s"].__setitem__(0, "drawing"),
        "no 'drawing' in this version",
    ),
    "a class of this version that is in no table": (
        lambda written: written["workflow"]["s"].__setitem__(0, "roundel.workflow.graph:GraphSettings"),
        "no 'roundel.workflow.graph:GraphSettings' in this version",
    ),
    "code of others": (
        lambda written: written["workflow"]["s"].__setitem__(0, "subprocess:Popen"),
        "no 'subprocess:Popen' in this version",
    ),
    "a value that is no workflow": (
        lambda written: written.update(workflow={"t": []}),
        "contains no workflow",
    ),
    "another form": (lambda written: written.pop("functions"), "cannot be read: KeyError"),
}


@pytest.mark.parametrize("fault", BREAKS)
def test_encoding_of_another_version_is_rejected_with_a_reason(fault: str) -> None:
    change, reason = BREAKS[fault]
    with pytest.raises(EncodingError, match=reason):
        decode_workflow(changed(change), TYPES)


def test_invalid_json_is_rejected() -> None:
    with pytest.raises(EncodingError, match="cannot be read"):
        decode_workflow("graph:", TYPES)
