"""Everything that a workflow file can contain is described, truly and in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

import roundel
from roundel.nodes import TYPES
from roundel.workflow.catalog import describe, localize
from roundel.workflow.description import UNITS, Unit, Widget
from roundel.workflow.graph import Edge, GraphSettings, NodeEnvelope
from roundel.workflow.loader import WorkflowFile, examine, examine_mapping
from roundel.workflow.node_type import NodeType, NodeTypes
from roundel.workflow.schema import field_infos, get_description, inspect_type, is_struct, workflow_schema
from tests.workflow.samples import INSTEAD, NODE_TYPES, OBJECTS, TEXTS, Mapping, node

DATA = describe(TYPES)
SCHEMA = workflow_schema(TYPES)
VALIDATOR = Draft202012Validator(SCHEMA)
ALL: dict[str, Any] = {
    **DATA["objects"],
    **{f"node_type:{name}": kind for name, kind in DATA["node_types"].items()},
}
FIELDS = [(name, field) for name, about in ALL.items() for field in about["fields"]]
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def field_id(value: Any) -> str:
    return value["key"] if isinstance(value, dict) else str(value)


def small(name: str) -> Mapping:
    """An object with nothing in it that could be left out."""
    kind = name.removeprefix("node_type:")
    return OBJECTS[name][0] if kind == name else NODE_TYPES.get(kind, {})


def around(name: str, one: Mapping) -> Mapping:
    """A workflow with this object in it."""
    kind = name.removeprefix("node_type:")
    return OBJECTS[name][1](one) if kind == name else node(kind)(one)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the file that a subgraph names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.yaml").write_text("graph: {nodes: [{id: A, type: agent}], start: A}\n")
    return tmp_path


def check(workflow: Mapping, folder: Path) -> tuple[roundel.Workflow | None, list[str]]:
    """The workflow as it is read from a file, and the errors."""
    (folder / "workflow.yaml").write_text(json.dumps(workflow))
    made, report = examine("workflow.yaml", TYPES)
    return made, [found.message for found in report.diagnostics if found.severity == "error"]


# --- what people read


def texts(value: Any) -> Iterator[dict[str, str]]:
    if isinstance(value, dict):
        if value.keys() == {"en", "zh"}:
            yield value
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


@pytest.mark.parametrize("name", ALL)
def test_every_object_has_a_title_and_a_text_in_both_languages(name: str) -> None:
    about = ALL[name]
    for part in (about, *about["fields"], *about["short"]):
        title, text = part["title"], part["description"]
        assert title["en"] and title["en"][0].isupper() and not title["en"].endswith("."), part
        assert text["en"].endswith(".") and len(text["en"]) > 10, part
        assert text["zh"].endswith("。"), part
        for words in (
            title["zh"],
            text["zh"],
            *(choice["title"]["zh"] for choice in part.get("choices") or ()),
        ):
            assert CHINESE.search(words), words
        for choice in part.get("choices") or ():
            assert choice["title"]["en"] and choice["title"]["zh"], choice


@pytest.mark.parametrize("name", ALL)
def test_no_two_fields_of_an_object_have_the_same_title(name: str) -> None:
    for language in ("en", "zh"):
        titles = [field["title"][language] for field in ALL[name]["fields"]]
        assert len(titles) == len(set(titles)), titles
        for field in ALL[name]["fields"]:
            choices = [choice["title"][language] for choice in field["choices"] or ()]
            assert len(choices) == len(set(choices)), choices


def test_descriptions_can_be_localized_to_one_language() -> None:
    chinese = localize(DATA, "zh")
    assert chinese["objects"]["edge"]["title"] == "边"
    assert not list(texts(chinese))
    assert localize(DATA, "en")["node_types"]["human"]["title"] == "Person"


def test_data_is_json_and_its_references_resolve() -> None:
    assert json.loads(json.dumps(DATA)) == DATA
    widgets = set(get_args(Widget))
    for _, field in FIELDS:
        assert field["widget"] in widgets
        assert set(field["objects"]) <= set(DATA["objects"])
    for about in ALL.values():
        if about["variants"]:
            assert set(about["variants"]["objects"].values()) <= set(DATA["objects"])
    assert set(UNITS) == set(get_args(Unit))
    assert widgets == {
        part["widget"] for about in ALL.values() for part in (*about["fields"], *about["short"])
    }


# --- what the types say


def described_types() -> dict[Any, None]:
    """All types that can be met in a workflow file."""
    found: dict[Any, None] = {}
    waiting: list[Any] = [
        WorkflowFile,
        GraphSettings,
        NodeEnvelope,
        Edge,
        *(kind.config for kind in TYPES.values()),
    ]
    while waiting:
        kind = waiting.pop()
        if kind in found or not hasattr(kind, "__describe__"):
            assert kind in found or not is_struct(kind), f"{kind} has no __describe__"
            continue
        found[kind] = None
        about = get_description(kind)
        if about.variants is not None:
            waiting += about.variants.forms.values()
        infos = {} if about.refers or about.complete else field_infos(kind)
        given = [field.kind for field in about.fields.values() if field.kind is not None]
        own = [info.type for name, info in infos.items() if name in about.fields]
        waiting += [inspect_type(each).kind for each in (*given, *own) if inspect_type(each).type == "object"]
    return found


@pytest.mark.parametrize("kind", described_types(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_class_describes_exactly_its_own_keys(kind: Any) -> None:
    about = kind.__describe__()
    if not (about.refers or about.complete or about.variants):
        assert set(about.fields) == set(field_infos(kind))
    for name, field in about.fields.items():
        value = inspect_type(field.kind if field.kind is not None else field_infos(kind)[name].type)
        assert set(field.choices) == set(value.choices), name


def test_every_object_has_a_small_sample() -> None:
    assert set(OBJECTS) == set(DATA["objects"]) - {"approval"}


@pytest.mark.parametrize("name", [name for name in ALL if name != "approval"])
def test_the_small_samples_are_valid(name: str, folder: Path) -> None:
    workflow = around(name, small(name))
    assert check(workflow, folder)[1] == []
    assert list(VALIDATOR.iter_errors(workflow)) == []


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=field_id)
def test_described_default_equals_the_loader_default(name: str, field: Mapping, folder: Path) -> None:
    if field["default"] in (None, "", [], {}):
        return
    without = {key: value for key, value in small(name).items() if key != field["key"]}
    missing, _ = check(around(name, without), folder)
    given, errors = check(around(name, {**without, field["key"]: field["default"]}), folder)
    assert not errors and given is not None and missing == given


REQUIRED = [(name, field) for name, field in FIELDS if field["required"]]


@pytest.mark.parametrize(("name", "field"), REQUIRED, ids=field_id)
def test_missing_required_key_is_an_error(name: str, field: Mapping, folder: Path) -> None:
    rest = {key: value for key, value in small(name).items() if key != field["key"]}
    workflow = around(name, rest)
    assert check(workflow, folder)[1]
    assert not VALIDATOR.is_valid(workflow)


EITHER = {"graph.start", "keyword_condition.any", "model_profile.model", "tool.python", "mcp_server.command"}
EITHER.add("node_type:debate.participants")  # `agent_pairs` may name nodes of the graph instead
"""Keys that may be left out if others are given in their place."""
NEEDED = [
    (name, key) for name in ALL if name != "approval" for key in small(name) if f"{name}.{key}" not in EITHER
]


@pytest.mark.parametrize(("name", "key"), NEEDED)
def test_key_that_cannot_be_omitted_is_required(name: str, key: str, folder: Path) -> None:
    """The samples hold nothing but such keys."""
    about = ALL[name]
    field = next(field for field in about["fields"] if field["key"] == key)
    chosen = about["variants"] is not None and key == about["variants"]["config"]
    assert field["required"] or chosen or key in about["alone"]
    rest = around(name, {other: value for other, value in small(name).items() if other != key})
    assert check(rest, folder)[1]
    assert not VALIDATOR.is_valid(rest)


BOUNDED = [(name, field, bound) for name, field in FIELDS for bound in field["bounds"]]


@pytest.mark.parametrize(("name", "field", "bound"), BOUNDED, ids=field_id)
def test_a_value_beyond_its_bounds_is_refused(name: str, field: Mapping, bound: str, folder: Path) -> None:
    limit = field["bounds"][bound]
    steps = {"minimum": -1, "exclusive_minimum": 0, "maximum": 1, "exclusive_maximum": 0}
    workflow = around(name, {**small(name), field["key"]: limit + steps[bound]})
    assert any("must be" in error for error in check(workflow, folder)[1])
    assert not VALIDATOR.is_valid(workflow)


def sample(name: str, field: Mapping) -> str:
    """A text that the environment may give for a field."""
    given = TEXTS.get(f"{name}.{field['key']}")
    if given is not None:
        return given
    if field["choices"]:
        return str(field["choices"][0]["value"])
    return {"integer": "2", "number": "0.5", "boolean": "true"}.get(field["type"], "a")


def with_variable(name: str, field: Mapping) -> Mapping:
    placed: Any = "${FROM_OUTSIDE}"
    if f"{name}.{field['key']}" == "node.position":
        placed = [placed, placed]  # x and y
    elif field["shape"] == "list":
        placed = [placed]
    elif field["shape"] == "map":
        placed = {"A": placed}
    one = INSTEAD.get(f"{name}.{field['key']}", small(name))
    return {**one, field["key"]: placed}


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=field_id)
def test_variables_are_accepted_where_the_description_allows(
    name: str, field: Mapping, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if f"{name}.{field['key']}" in ("graph.vars", "edge.port"):
        return  # an error in any case; needs a source with that port
    if f"{name}.{field['key']}" in ("node_type:debate.agent_pairs", "node_type:agent.output_schema"):
        return  # a list of lists, and a schema: their values are no single texts
    monkeypatch.setenv("FROM_OUTSIDE", sample(name, field))
    workflow = around(name, with_variable(name, field))
    errors = check(workflow, folder)[1]
    assert field["env_allowed"] == (not errors), errors
    if field["widget"] not in ("select", "object") or field["key"] not in ("type", "mode"):
        assert VALIDATOR.is_valid(workflow) == field["env_allowed"]


# --- the schema


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for key, inner in schema.items():
            if key == "properties":
                yield from inner.items()
            yield from properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties(inner)


def test_every_property_of_the_schema_has_a_title_and_a_text() -> None:
    found = [(name, schema) for name, schema in properties(SCHEMA) if schema is not True]
    assert len(found) > 350
    assert [name for name, schema in found if not schema.get("title")] == []
    # Inside `if` and `then` a property says only what differs.
    chosen = {"Type", "Mode", "Settings"}
    plain = [
        name for name, schema in found if not schema.get("description") and schema["title"] not in chosen
    ]
    assert plain == []


def test_the_schema_has_every_type_of_node() -> None:
    built_in = (
        *("agent", "break", "continue", "debate", "human", "literal", "loop", "loop_agent", "loop_counter"),
        *("loop_timer", "passthrough", "python", "subgraph", "vote"),
    )
    assert tuple(DATA["node_types"]) == built_in
    assert set(SCHEMA["$defs"]["node"]["properties"]["type"]["enum"]) == {*built_in, "llm"}
    offered = next(field["choices"] for name, field in FIELDS if (name, field["key"]) == ("node", "type"))
    assert tuple(choice["value"] for choice in offered) == built_in
    assert {"value": "agent", "title": {"en": "Agent", "zh": "智能体"}} in offered


@pytest.mark.parametrize(
    "edge",
    [
        {"condition": {"cel": "true", "type": "keyword"}},
        {"condition": {"config": {"any": "x"}}},
        {"condition": {"type": "keyword", "config": {"words": "x"}}},
        {"condition": {"type": "expression"}},
        {"condition": ["code_pass"]},
        {"process": "uppercase_payload"},
        {"process": {"type": "regex_extract", "config": {"pattern": "a", "on_no_match": "fail"}}},
        {"dynamic": {"type": "map", "config": {"group_size": 3}}},
        {"dynamic": {"type": "map", "split": {"type": "regex"}}},
        {"trigger": "perhaps"},
        {"keep_message": 1},
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_loader_refuses(edge: Mapping, folder: Path) -> None:
    workflow = OBJECTS["edge"][1]({"from": "A", "to": "B", **edge})
    _, report = examine_mapping(workflow, TYPES)
    assert report.diagnostics
    assert not VALIDATOR.is_valid(workflow)


def test_the_schema_uses_all_its_definitions() -> None:
    text = json.dumps(SCHEMA)
    assert [name for name in SCHEMA["$defs"] if f'"#/$defs/{name}"' not in text] == []


@pytest.mark.parametrize("kind", [TYPES[name] for name in TYPES], ids=lambda kind: kind.name)
def test_the_example_of_a_node_type_is_a_valid_node(kind: NodeType, folder: Path) -> None:
    import yaml

    (one,) = yaml.safe_load(kind.example)
    assert one["type"] == kind.name
    (folder / "counting.py").write_text("def count(text): return text\n")
    workflow = {"graph": {"nodes": [one], "start": one["id"]}}
    _, errors = check(workflow, folder)
    assert [error for error in errors if "port" not in error and "loop" not in error] == []
    assert list(VALIDATOR.iter_errors(workflow)) == []


# --- node types of others


class Point(Struct, frozen=True):
    """Where something is."""

    x: float
    y: float = 0
    """How far up."""


class Own(Struct, frozen=True):
    max_size: Annotated[int, Meta(ge=1)] = 4
    """How large it gets.

    More is said below the first line."""
    label: Annotated[str, Meta(title="Caption", description="Shown above.")] = ""
    at: Point | None = None
    colour: str = "red"


def test_every_node_type_has_the_port_for_failures() -> None:
    for about in DATA["node_types"].values():
        (title,) = [port["title"] for port in about["ports"] if port["name"] == "error"]
        assert title["en"]
        assert CHINESE.search(title["zh"])


def test_a_node_type_without_descriptions_gets_them_from_its_names_and_docstrings() -> None:
    own = NodeType("spot", Own, "Marks a spot.", lambda node, services: lambda call: None)
    data = describe(NodeTypes([own]))
    about = data["node_types"]["spot"]
    assert about["title"] == {"en": "Spot", "zh": "Spot"}
    assert about["description"]["en"] == "Marks a spot."
    assert [port["name"] for port in about["ports"]] == ["error"]
    fields = {field["key"]: field for field in about["fields"]}
    assert list(fields) == ["max_size", "label", "at", "colour"]
    assert fields["max_size"]["title"]["en"] == "Max size"
    assert fields["max_size"]["description"]["en"].startswith("How large it gets.")
    assert fields["max_size"]["bounds"] == {"minimum": 1}
    assert fields["max_size"]["env_allowed"] and not fields["at"]["env_allowed"]
    assert (fields["label"]["title"]["en"], fields["label"]["description"]["en"]) == (
        "Caption",
        "Shown above.",
    )
    assert fields["colour"]["default"] == "red"
    (name,) = fields["at"]["objects"]
    point = data["objects"][name]
    assert point["description"]["en"] == "Where something is."
    assert [field["required"] for field in point["fields"]] == [True, False]
    schema = Draft202012Validator(workflow_schema(NodeTypes([own])))
    spot = {"id": "S", "type": "spot", "config": {"max_size": 2, "at": {"x": 1}}}
    assert schema.is_valid({"graph": {"nodes": [spot], "start": "S"}})
    wrong = msgspec.json.decode(msgspec.json.encode(spot).replace(b'"x":1', b'"z":1'))
    assert not schema.is_valid({"graph": {"nodes": [wrong], "start": "S"}})
