"""Which values of a workflow are secret, and by which names they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes.loading import check, load
from roundel.plan.overrides import with_limits
from roundel.workflow.graph import with_group

LONG = "a-long-value-0123456789"


def graph(*nodes: dict[str, Any]) -> dict[str, Any]:
    first = nodes or ({"id": "A", "type": "literal", "config": {"content": "hello"}},)
    return {"nodes": list(first), "start": [first[0]["id"]]}


def agent(**config: Any) -> dict[str, Any]:
    return {"id": "A", "type": "agent", "config": {"model": "openai:m", **config}}


def secrets(**source: Any) -> dict[str, str]:
    return load({"graph": graph(), **source}).secrets


def test_a_literal_key_is_numbered() -> None:
    assert secrets(graph=graph(agent(api_key=LONG))) == {"ROUNDEL_SECRET_1": LONG}


def test_numbers_follow_the_file_and_a_value_has_one_name() -> None:
    models = {
        "a": {"model": "openai:m", "api_key": "key-of-a-0123", "headers": {"X": "Bearer key-of-a-0123"}},
        "b": {"model": "openai:m", "api_key": "key-of-b-0123"},
    }
    assert secrets(models=models) == {
        "ROUNDEL_SECRET_1": "key-of-a-0123",
        "ROUNDEL_SECRET_2": "key-of-b-0123",
    }


def test_header_value_after_the_scheme_is_secret() -> None:
    models = {"a": {"model": "openai:m", "headers": {"Authorization": f"Bearer {LONG}"}}}
    assert secrets(models=models) == {"ROUNDEL_SECRET_1": LONG}


def test_secret_from_a_variable_uses_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", LONG)
    found = secrets(
        models={"a": {"model": "openai:m", "headers": {"Authorization": "Bearer ${HOUSE_TOKEN}"}}}
    )
    assert found == {"HOUSE_TOKEN": LONG}


def test_a_variable_with_another_name_in_the_place_of_a_key() -> None:
    found = load({"graph": graph(agent(api_key="${OURS}"))}, {"OURS": LONG}).secrets
    assert found == {"ROUNDEL_SECRET_1": LONG}


@pytest.mark.parametrize("name", ["API_KEY", "token", "MySecret", "db_password"])
def test_names_that_mark_a_secret(name: str) -> None:
    assert secrets(vars={name: LONG}) == {name: LONG}
    assert load({"vars": {name: "none"}, "graph": graph()}, {name: LONG}).secrets[name] == LONG


def test_other_variables_are_not_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_OF_TODAY", LONG)
    assert secrets(vars={"topic": "${TOPIC_OF_TODAY}", "size": 3}) == {}


def test_dotenv_next_to_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN={LONG}\nTOPIC=tea-and-biscuits\n")
    file = tmp_path / "flow.yaml"
    file.write_text("graph: {start: A, nodes: [{id: A, type: literal, config: {content: '${TOPIC}'}}]}")
    assert load(file).secrets == {"SERVICE_TOKEN": LONG}


def test_environment_secret_written_in_the_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", LONG)
    found = load({"graph": graph(agent(prompt=f"use {LONG}"))})
    assert found.secrets == {"HOUSE_TOKEN": LONG}


def test_subgraph_files_share_the_names(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "graph: {start: B, nodes: [{id: B, type: agent, config: {model: 'openai:m', api_key: key-of-b-0}}]}"
    )
    file = tmp_path / "flow.yaml"
    file.write_text(
        "models: {a: {model: 'openai:m', api_key: key-of-a-0123}}\n"
        "graph:\n  start: A\n"
        "  nodes: [{id: A, type: subgraph, config: {type: file, config: {path: inner.yaml}}}]"
    )
    assert load(file).secrets == {"ROUNDEL_SECRET_1": "key-of-a-0123", "ROUNDEL_SECRET_2": "key-of-b-0"}


def test_credentials_of_urls() -> None:
    models = {
        "a": {"model": "openai:m", "base_url": "https://ann:pa55%40word@host/v1?api_key=q-0123456789&n=1"}
    }
    assert secrets(models=models) == {"ROUNDEL_SECRET_1": "pa55%40word", "ROUNDEL_SECRET_2": "q-0123456789"}


def test_schema_property_is_not_a_secret() -> None:
    schema = {"type": "object", "properties": {"env": {"type": "object", "description": "an environment"}}}
    assert secrets(graph=graph(agent(output_schema=schema))) == {}


# Marked variables.


def test_a_variable_that_is_marked() -> None:
    workflow = load({"vars": {"db": {"value": LONG, "secret": True}}, "graph": graph(agent(prompt="${db}"))})
    assert workflow.secrets == {"db": LONG}
    assert workflow.graph.node("A").config.prompt == LONG
    assert workflow.vars == {"db": LONG}
    assert workflow.graph.vars == {"db": "***"}


@pytest.mark.parametrize("way", ["environment", "variables"])
def test_a_marked_variable_without_a_value_comes_from_outside(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"db": LONG} if way == "variables" else {}
    if way == "environment":
        monkeypatch.setenv("db", LONG)
    workflow = load({"vars": {"db": {"secret": True}}, "graph": graph(agent(prompt="${db}"))}, given)
    assert workflow.secrets == {"db": LONG}
    assert workflow.graph.node("A").config.prompt == LONG


def test_a_marked_variable_without_any_value() -> None:
    source = {"vars": {"db": {"secret": True}}, "graph": graph(agent(prompt="${db}"))}
    _, report = check(source)
    assert [(found.code, found.message) for found in report.errors] == [
        ("unresolved-variable", "${db} has no value")
    ]
    assert load({"vars": {"db": {"secret": True}}, "graph": graph()}).secrets == {}


def test_an_error_names_the_key_that_has_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    _, report = check({"graph": graph(agent(api_key="${SOME_API_KEY}"))})
    assert [(found.code, found.message) for found in report.errors] == [
        ("unresolved-variable", "${SOME_API_KEY} has no value")
    ]


def test_overridden_value_in_the_file_is_still_secret() -> None:
    source = {"vars": {"db": {"value": "in-the-file-0123", "secret": True}}, "graph": graph()}
    found = load(source, {"db": LONG}).secrets
    assert found == {"db": LONG, "ROUNDEL_SECRET_1": "in-the-file-0123"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"value": LONG, "secret": False}, "'secret' of the variable 'db' must be true"),
        ({"value": LONG, "secret": "yes"}, "'secret' of the variable 'db' must be true"),
        ({"vlaue": LONG, "secret": True}, "the secret variable 'db' has an unknown key 'vlaue'"),
    ],
)
def test_invalid_secret_mark_is_rejected(value: dict[str, Any], message: str) -> None:
    _, report = check({"vars": {"db": value}, "graph": graph()})
    assert [(found.code, found.message) for found in report.errors] == [("secret-variable", message)]


def test_mappings_that_are_not_secret_marks_are_values() -> None:
    plain = {"secret": True, "name": "x", "size": 3}
    workflow = load({"vars": {"config": plain, "box": {"value": 1}}, "graph": graph()})
    assert workflow.vars == {"config": plain, "box": {"value": 1}}
    assert workflow.secrets == {}


def test_all_values_of_a_secret_mapping_are_secret() -> None:
    found = secrets(vars={"PASSWORDS": {"ann": "first-0123456", "ben": ["second-0123456"]}})
    assert sorted(found.values()) == ["first-0123456", "second-0123456"]


# What is said about a workflow.


def test_diagnostics_do_not_repeat_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    source: dict[str, Any] = {
        "vars": {"API_TOKEN": LONG * 4, "PIN": {"value": "4711", "secret": True}},
        "models": {"a": {"model": "openai:m", "headers": f"Bearer {LONG}", "api_key": 12345}},
        "graph": {**graph(agent(max_tool_calls="${API_TOKEN}", tools=[LONG])), "end": ["${API_TOKEN}"]},
    }
    _, report = check(source)
    text = str(report.diagnostics) + "\n".join(map(str, report.diagnostics))
    assert len(report.errors) >= 4
    assert LONG[:12] not in text
    assert "12345" not in text


def test_secret_in_a_node_name_is_rejected() -> None:
    source = {"vars": {"API_TOKEN": LONG}, "graph": graph({"id": "to ${API_TOKEN}", "type": "passthrough"})}
    _, report = check(source)
    (found,) = report.errors
    assert (found.code, found.message) == (
        "secret-in-name",
        "the name of a node contains the secret variable API_TOKEN, and names are shown",
    )
    assert LONG not in str(found)


@pytest.mark.parametrize(
    "source",
    [
        {"graph": {**graph(), "id": "${API_TOKEN}"}},
        {"graph": graph(), "memory": {"group_id": "${API_TOKEN}"}},
    ],
    ids=["graph", "group"],
)
def test_secret_in_a_graph_or_group_name_is_rejected(source: dict[str, Any]) -> None:
    _, report = check({"vars": {"API_TOKEN": LONG}, **source})
    assert [found.code for found in report.errors] == ["secret-in-name"]


def test_a_value_of_a_server_may_be_a_name() -> None:
    tools = {"near": {"mcp": {"command": "x", "env": {"AGENT": "Researcher"}}}}
    workflow = load({"tools": tools, "graph": graph({"id": "Researcher", "type": "passthrough"})})
    assert roundel.run(workflow, "a Researcher").output == "a Researcher"


def test_limits_and_groups_leave_the_secrets() -> None:
    workflow = load({"graph": graph(agent(api_key=LONG))})
    assert with_group(with_limits(workflow, {"steps": 3}), "team").secrets == {"ROUNDEL_SECRET_1": LONG}


def test_graphs_that_are_built_in_python() -> None:
    built = roundel.Graph(start="A", end="A")
    built.node("A", "agent", model="openai:m", api_key=LONG)
    assert load(built).secrets == {"ROUNDEL_SECRET_1": LONG}


# What a run repeats.


def test_texts_that_a_run_repeats_are_masked_and_prompts_are_not() -> None:
    nodes = [
        {"id": "A", "type": "literal", "config": {"content": "say ${TOKEN}"}},
        {"id": "H", "type": "human", "config": {"description": "is ${TOKEN} right?"}},
        agent(prompt="use ${TOKEN}", role="you have ${TOKEN}") | {"id": "M"},
        {
            "id": "V",
            "type": "vote",
            "config": {"question": "${TOKEN}?", "participants": [agent(prompt="use ${TOKEN}") | {"id": "P"}]},
        },
    ]
    process = {"type": "regex_extract", "config": {"pattern": "x", "template": "{match} ${TOKEN}"}}
    edges = [{"from": "A", "to": "H", "process": process}]
    source = {"vars": {"TOKEN": LONG}, "graph": {"nodes": nodes, "edges": edges, "start": ["A"]}}
    found = load(source).graph
    assert found.node("A").config.content == "say ***"
    assert found.node("H").config.description == "is *** right?"
    assert found.node("M").config.prompt == f"use {LONG}"
    assert found.node("M").config.role == f"you have {LONG}"
    vote = found.node("V").config
    assert vote.question == "***?"
    assert vote.participants[0].graph.nodes[0].config.prompt == f"use {LONG}"
    assert found.edges[0].process is not None and found.edges[0].process.regex is not None
    assert found.edges[0].process.regex.template == "{match} ***"


def test_workflow_without_secrets_is_unchanged() -> None:
    workflow = load({"vars": {"topic": "tea"}, "graph": graph()})
    assert workflow.secrets == {}
    assert roundel.run(workflow).output == "hello"
