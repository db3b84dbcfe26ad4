"""What a text from the web may use: what the operator allows by name, and nothing else."""

from __future__ import annotations

import asyncio
import encodings
import json
import os
import pkgutil
from encodings.aliases import aliases
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.hosts.control import Answer
from roundel.hosts.engine import Attachment, RunSpec
from roundel.hosts.local import LocalEngine
from roundel.nodes import TYPES
from roundel.nodes.loading import check_plan, draft_plan, draft_text_plan, load_plan
from roundel.plan.graph import compile_workflow
from roundel.workflow.allow_list import AllowedModel, key_reference, normalize_url
from roundel.workflow.diagnostics import Diagnostic, WorkflowError
from roundel.workflow.encoding import decode_workflow, encode_workflow
from roundel.workflow.graph import Workflow
from roundel.workflow.loader import examine_mapping, examine_text
from roundel.workflow.memory_config import _is_encoding
from roundel.workflow.message import Message
from roundel.workflow.model_profile import Profile
from roundel.workflow.policy import TRUSTED, Policy, check_policy, load_policy
from roundel.workflow.policy import __all__ as exported
from roundel.workflow.quotas import Quota, find_quota
from roundel.workflow.tool_source import McpServer
from tests.deadline import Deadline
from tests.docs.manual import DOCS, blocks, code, rows, sections
from tests.workflow.samples import INSTEAD, OBJECTS
from tests.workflow.test_descriptions import ALL, FIELDS, around, field_id, small

OTHER_URL = "https://other.example/v1"
HOSTILE = {
    "function": "os:system",
    "tool": "os:system",
    "url": "http://169.254.169.254/latest",
    "file": "/etc/passwd",
}
"""What a text may name in a field of each widget, if nobody looks."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that texts may use, which is not the working folder; and two keys."""
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    shared.mkdir()
    elsewhere.mkdir()
    (shared / "other.yaml").write_text("graph: {nodes: [{id: A, type: passthrough}], start: A}\n")
    (elsewhere / "secret.yaml").write_text("graph: {nodes: [{id: A, type: passthrough}], start: A}\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-0123456789")
    monkeypatch.setenv("OTHER_KEY", "other-0123456789")
    monkeypatch.setenv("TEAM", "red")
    monkeypatch.setenv("INTERNAL", "internal-0123456789")
    return shared


def operator(folder: Path, **more: Any) -> Policy:
    """A policy that allows what the samples use."""
    return Policy(
        functions=("statistics:mean", "roundel:Middleware", "roundel:LoopStrategy"),
        mcp={"serve": McpServer(command="serve"), "tools": McpServer(url="https://tools.example")},
        files=(str(folder),),
        environment=("TEAM",),
        python_code=True,
        models=(
            AllowedModel(provider="openai", key="OPENAI_API_KEY"),
            AllowedModel(base_url=OTHER_URL, key="OTHER_KEY"),
        ),
        **more,
    )


def refused(workflow: Any, policy: Policy) -> list[Diagnostic]:
    """What of a text is not allowed: errors, and warnings about models. It has no other errors."""
    text = workflow if isinstance(workflow, str) else json.dumps(workflow)
    _, report = examine_text(text, TYPES, policy=policy)
    assert {one.code for one in report.errors} <= {"not-allowed"}, report.errors
    return [one for one in report.diagnostics if one.code == "not-allowed"]


def agent(**config: Any) -> dict[str, Any]:
    return {"graph": {"start": "A", "nodes": [{"id": "A", "type": "agent", "config": config}]}}


# Complete by construction


@pytest.mark.parametrize("name", [name for name in ALL if name != "approval"])
def test_the_samples_are_allowed_where_the_operator_lists_what_they_use(name: str, folder: Path) -> None:
    workflow = around(name, small(name))
    assert refused(workflow, operator(folder)) == []


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, field in FIELDS if field["widget"] in HOSTILE], ids=field_id
)
def test_each_field_that_names_something_is_checked(name: str, field: Any, folder: Path) -> None:
    """The fields come from the descriptions: a new one is checked, or fails here."""
    value = HOSTILE[field["widget"]]
    placed = [value] if field["shape"] == "list" else value
    one = {**INSTEAD.get(f"{name}.{field['key']}", small(name)), field["key"]: placed}
    errors = refused(around(name, one), operator(folder))
    assert errors, f"{name}.{field['key']}"
    assert all("allow-list" in error.hint or "operator" in error.hint for error in errors)


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, field in FIELDS if field["type"] == "text"], ids=field_id
)
def test_a_key_is_for_one_endpoint_and_for_no_other_field(name: str, field: Any, folder: Path) -> None:
    """Wherever a text puts the key of another endpoint, it is an error, or the text does not have it."""
    placed: Any = "${OTHER_KEY}"
    placed = {"list": [placed], "map": {"A": placed}}.get(field["shape"], placed)
    one = {**INSTEAD.get(f"{name}.{field['key']}", small(name)), field["key"]: placed}
    plan, report = draft_text_plan(json.dumps(around(name, one)), policy=operator(folder))
    assert not report.ok or key_reference("OTHER_KEY") not in encode_workflow(plan.workflow)  # type: ignore[union-attr]
    assert "other-0123456789" not in str(report.diagnostics)


@pytest.mark.parametrize(
    "workflow",
    [
        OBJECTS["edge"][1]({"from": "A", "to": "B", "condition": "os:system"}),
        OBJECTS["edge"][1](
            {"from": "A", "to": "B", "process": {"type": "function", "config": {"name": "os:system"}}}
        ),
        {"middleware": ["os:system"], **OBJECTS["graph"][1](small("graph"))},
        OBJECTS["mcp_server"][1]({"command": "sh"}),
        OBJECTS["mcp_server"][1]({"command": "serve", "args": ["--all"]}),
        OBJECTS["mcp_server"][1]({"command": "serve", "env": {"LD_PRELOAD": "/tmp/x.so"}}),
        OBJECTS["mcp_server"][1]({"url": "https://tools.example", "headers": {"Host": "internal"}}),
        OBJECTS["local_tooling"][1]({"command": "sh", "args": ["-c", "id"]}),
        OBJECTS["function_tool"][1]({"name": "os:All"}),
        agent(model="anthropic:claude"),
        agent(model="gateway/openai:gpt-4o"),
        agent(provider="openai", name="gpt-4o", base_url="https://evil.example/v1"),
        OBJECTS["embedding"][1]({"model": "small", "provider": "local"}),
    ],
    ids=lambda workflow: json.dumps(workflow)[-60:],
)
def test_short_forms_and_whole_servers_are_checked(workflow: Any, folder: Path) -> None:
    assert refused(workflow, operator(folder))


def test_without_an_allow_list_nothing_is_allowed_and_all_is_reported_at_once(folder: Path) -> None:
    text = """
tools:
  shell: {python: "os:system"}
  server: {mcp: {command: sh, args: [-c, id]}}
models:
  default: {model: "openai:gpt-4o"}
middleware: ["evil:Class"]
graph:
  start: A
  memory:
    - {name: notes, type: file, config: {file_sources: [{path: /etc/passwd}]}}
  nodes:
    - {id: A, type: agent, config: {tools: [shell, "subprocess:run"], base_url: "http://evil"}}
    - {id: P, type: python}
    - {id: S, type: subgraph, config: {type: file, config: {path: ../x.yaml}}}
  edges:
    - {from: A, to: P, condition: "shutil:rmtree"}
    - {from: P, to: A, process: {type: function, config: {name: code_save_and_run}}}
"""
    lines = text.split("\n")
    found = [lines[one.line - 1][one.column - 1 :].strip('"') for one in refused(text, Policy())]
    beginnings = ["os:system", "sh", "openai:gpt-4o", "evil:Class", "/etc/passwd", "subprocess:run"]
    beginnings += ["http://evil", "python}", "../x.yaml", "shutil:rmtree", "code_save_and_run"]
    assert [one.startswith(two) for one, two in zip(found, beginnings, strict=True)] == [True] * 11


def test_a_model_that_nobody_has_set_up_is_only_for_runs_with_a_script() -> None:
    workflow, report = examine_text(json.dumps(agent(model="openai:gpt-4o")), TYPES, policy=Policy())
    assert [(one.code, one.severity) for one in report.diagnostics] == [("not-allowed", "warning")]
    assert workflow is not None
    assert [one.severity for one in check_policy(workflow, Policy())] == ["error"]
    assert check_policy(workflow, Policy(), scripted=True) == []
    # An address of the text's own is refused in any case, and so is what makes embeddings.
    for other in (
        agent(model="openai:gpt-4o", base_url="http://10.0.0.1"),
        OBJECTS["embedding"][1]({"model": "x"}),
    ):
        assert any(one.severity == "error" for one in refused(other, Policy()))


PAID = ("model", "n", "messages", "stream", "tools", "extra_headers", "extra_body", "service_tier", "timeout")


@pytest.mark.parametrize("name", PAID)
def test_parameters_that_change_who_is_called_or_the_cost_are_refused(name: str) -> None:
    policy = Policy(models=(AllowedModel(provider="openai", key="OPENAI_API_KEY"),))
    text = f"""
models:
  default:
    model: openai:gpt-4o
    params:
      temperature: 0
      {name}: 9
graph:
  nodes:
    - id: A
      type: agent
      config:
        model: openai:gpt-4o
        params: {{{name}: 9, seed: 1}}
    - {{id: B, type: agent, config: {{parameters: {{max_tokens: 5, {name}: 9}}}}}}
  edges: [{{from: A, to: B}}]
  start: A
"""
    for scripted in (False, True):
        _, report = examine_text(text, TYPES, policy=policy)
        found = [(one.code, one.line, one.column) for one in report.errors]
        assert found == [("not-allowed", 7, 7), ("not-allowed", 14, 18), ("not-allowed", 15, 65)], (
            report.errors
        )
        assert f"the parameter '{name}' of a model is not allowed" in str(report.errors[0])
        workflow = examine_text(text, TYPES)[0]
        assert workflow is not None
        assert len(check_policy(workflow, policy, scripted=scripted)) == 3
        assert check_policy(workflow, TRUSTED) == []
        allowed = msgspec.structs.replace(policy, params=(name,))
        assert check_policy(workflow, allowed) == []


def test_header_that_leads_elsewhere_is_refused() -> None:
    policy = Policy(models=(AllowedModel(provider="openai", key="OPENAI_API_KEY"),))
    text = """
models:
  default:
    model: openai:gpt-4o
    headers: {X-Team: red, Host: evil.example}
graph: {nodes: [{id: A, type: agent}], start: A}
"""
    _, report = examine_text(text, TYPES, policy=policy)
    assert [(one.code, one.line, one.column) for one in report.errors] == [("not-allowed", 5, 28)]


def many_refusals(count: int) -> int:
    """How many of a text's refusals are found: all, however long it takes to find their places."""
    value = {f"v{number}": f"x${{secret:KEY}}{number}" for number in range(count)}
    nodes = [{"id": f"N{number}", "type": "python"} for number in range(count)]
    workflow = {"vars": value, "graph": {"start": "N0", "nodes": nodes}}
    policy = Policy(models=(AllowedModel(provider="openai", key="KEY"),))
    return examine_text(json.dumps(workflow), TYPES, policy=policy)[1].error_count


def test_thousands_of_refusals_are_reported_in_time() -> None:
    assert Deadline(many_refusals)(5000) >= 5000


def test_what_needs_nothing_from_outside_is_allowed(folder: Path) -> None:
    """Built-in conditions, people, literals, expressions and agents that a script answers for."""
    text = """
graph:
  start: A
  nodes:
    - {id: A, type: agent, config: {tools: [exit_loop], prompt: "{{ text }}"}}
    - {id: H, type: human}
    - {id: B, type: literal, config: {content: done}}
  edges:
    - {from: A, to: H, condition: code_pass}
    - from: H
      to: B
      condition: {cel: "size(text) > 3"}
      process: {type: function, config: {name: uppercase_payload}}
    - {from: A, to: B, port: exit}
"""
    assert refused(text, Policy()) == []


# Functions


def test_a_wildcard_is_for_one_module_and_its_public_functions(folder: Path) -> None:
    policy = Policy(functions=("statistics:*",))
    assert policy.allows_function("function", "statistics:mean")
    for name in (
        "statistics:_sum",
        "statistics.x:mean",
        "os:system",
        "statistics:",
        "statistics:*",
        "statistics",
    ):
        assert not policy.allows_function("function", name)


def test_a_wildcard_does_not_cover_what_a_module_imports(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy_tools.py").write_text(
        "from subprocess import run\ndef own(text): return text.upper()\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    finder = Policy(functions=("policy_tools:*",)).finder({}, None)
    assert finder.find("function", "policy_tools:own").call("a") == "A"
    with pytest.raises(LookupError, match="does not define it"):
        finder.find("function", "policy_tools:run")
    with pytest.raises(LookupError, match="not allowed"):
        finder.find("function", "os:system")
    by_name = Policy(functions=("policy_tools:run",)).finder({}, None)
    assert by_name.find("function", "policy_tools:run").name == "policy_tools:run"


def test_a_file_beside_the_workflow_is_no_function_under_a_policy(folder: Path) -> None:
    """Texts may be saved in a folder; Python files there must not become code of the server."""
    (folder / "statistics.py").write_text("raise SystemExit('imported')\n")
    path = folder / "workflow.yaml"
    path.write_text(json.dumps(OBJECTS["tool"][1]({"python": "statistics:mean"})))
    plan = load_plan(path, policy=operator(folder))
    assert plan.workflow.file == ""
    assert plan.workflow.access.confined


# Files


@pytest.mark.parametrize(
    "path",
    [
        "missing.yaml",
        "../elsewhere/secret.yaml",
        "../elsewhere/missing.yaml",
        "secret.yaml",
        "/etc/passwd",
        "/etc/no-such-file",
        "link.yaml",
        "dangling.yaml",
        "inner/link.yaml",
        "circle/other.yaml",
        "folder-link/secret.yaml",
        "other.yaml\0.txt",
        "x" * 5000,
        "~/x.yaml",
        "\udcff.yaml",
    ],
    ids=lambda path: ascii(path)[:40],
)
def test_missing_and_forbidden_files_are_told_apart_by_nothing(path: str, folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    (folder / "link.yaml").symlink_to(elsewhere / "secret.yaml")
    (folder / "dangling.yaml").symlink_to(elsewhere / "missing.yaml")
    (folder / "inner").mkdir()
    (folder / "inner" / "link.yaml").symlink_to("../link.yaml")
    (folder / "circle").symlink_to("circle")
    (folder / "folder-link").symlink_to(elsewhere)
    subgraph = {"type": "file", "config": {"path": path}}
    source = {"graph": {"start": "S", "nodes": [{"id": "S", "type": "subgraph", "config": subgraph}]}}
    files = OBJECTS["file_source"][1]({"path": path})
    for workflow in (source, files):
        _, report = examine_mapping(workflow, TYPES, policy=operator(folder))
        (error,) = report.errors
        shown = path.encode("utf-8", "replace").decode()
        assert error.code == "not-allowed"
        assert error.message.replace(shown, "PATH") == (
            "the file 'PATH' cannot be used: no folder that it may use has such a file"
        )


def test_what_is_outside_is_not_even_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not its existence either: the time that it takes would tell."""
    (folder / "link").symlink_to("/etc")
    (folder / "again").symlink_to("link")
    policy, seen = operator(folder), []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(path: Any, *rest: Any, **more: Any) -> Any:
            seen.append(os.fspath(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(os, name, call)

    for name in ("stat", "lstat", "readlink", "open", "scandir", "listdir"):
        watch(name)
    for path in ("/etc/passwd", "link/passwd", "again/passwd", "../elsewhere/secret.yaml", "other.yaml"):
        files = OBJECTS["file_source"][1]({"path": path})
        subgraph = OBJECTS["graph_file"][1]({"path": path})
        for workflow in (files, subgraph):
            examine_mapping(workflow, TYPES, policy=policy)
    assert str(folder / "other.yaml") in seen
    above = {str(parent) for parent in (folder, *folder.parents)}
    assert [path for path in seen if not path.startswith(str(folder)) and path not in above] == []


@pytest.mark.parametrize("path", ["other.yaml", "./x/../other.yaml", "inside.yaml", "inner/up.yaml"])
def test_files_in_an_allowed_folder_may_be_named(path: str, folder: Path) -> None:
    (folder / "inside.yaml").symlink_to("other.yaml")
    (folder / "inner").mkdir()
    (folder / "inner" / "up.yaml").symlink_to("../other.yaml")
    subgraph = {"type": "file", "config": {"path": path}}
    source = {"graph": {"start": "S", "nodes": [{"id": "S", "type": "subgraph", "config": subgraph}]}}
    assert refused(source, operator(folder)) == []
    assert refused(source, Policy())


def test_a_subgraph_file_is_a_text_too(folder: Path) -> None:
    """Neither its functions nor a `.env` beside it count, and errors are reported in its own lines."""
    (folder / ".env").write_text("HIDDEN=x\n")
    (folder / "tools.yaml").write_text(
        "tools:\n  t: {python: 'os:system'}\n"
        "graph: {start: A, nodes: [{id: A, type: literal, config: {content: '${HIDDEN}'}}]}\n"
    )
    subgraph = {"type": "file", "config": {"path": "tools.yaml"}}
    source = {"graph": {"start": "S", "nodes": [{"id": "S", "type": "subgraph", "config": subgraph}]}}
    _, report = draft_text_plan(json.dumps(source), policy=operator(folder))
    found = {(one.code, one.file, one.line) for one in report.errors}
    assert found == {("not-allowed", "tools.yaml", 2), ("unresolved-variable", "tools.yaml", 3)}


def test_a_memory_reads_only_allowed_folders_when_it_runs(folder: Path) -> None:
    access = operator(folder).access()
    found = access.find("other.yaml", Path.cwd())
    assert found is not None
    assert found.place == folder / "other.yaml"
    assert access.find("missing.yaml", Path.cwd()) is None
    with pytest.raises(Exception, match="no folder that it may use"):
        access.find("../elsewhere/secret.yaml", folder)


# The environment, and keys


def test_variables_come_from_the_text_the_caller_and_the_allowed_names(folder: Path) -> None:
    text = (
        "vars: {OWN: a}\n"
        "graph: {start: A, nodes: [{id: A, type: literal, config: {content: '${OWN} ${GIVEN} ${TEAM}'}}]}"
    )
    plan, report = draft_text_plan(text, {"GIVEN": "b"}, policy=operator(folder))
    assert report.ok
    assert plan is not None
    assert plan.workflow.graph.nodes[0].config.content == "a b red"


@pytest.mark.parametrize("name", ["INTERNAL", "PATH", "HOME", "INTERNAI", "NO_SUCH_VARIABLE"])
def test_other_variables_have_no_value_whether_they_exist_or_not(name: str, folder: Path) -> None:
    text = f"graph: {{start: A, nodes: [{{id: A, type: literal, config: {{content: '${{{name}}}'}}}}]}}"
    _, report = draft_text_plan(text, policy=operator(folder))
    (error,) = report.errors
    assert (error.code, error.message) == ("unresolved-variable", f"${{{name}}} has no value")
    assert error.hint == "add it to `vars`; the operator allows others under 'environment' of the allow-list"


def test_a_text_that_contains_a_value_of_the_environment_is_not_told_so(folder: Path) -> None:
    """Otherwise a text could ask whether a guess is right."""
    os.environ["DEPLOY_TOKEN"] = "guess-0123456789"
    try:
        one, other = (
            examine_mapping(
                {
                    "graph": {
                        "start": "A",
                        "nodes": [{"id": "A", "type": "passthrough"}, {"id": "B", "type": "passthrough"}],
                        "edges": [{"from": "A", "to": "B", "condition": {"cel": f"text == '{guess}'"}}],
                    }
                },
                TYPES,
                policy=Policy(),
            )
            for guess in ("guess-0123456789", "wrong-0123456789")
        )
        assert one[1].diagnostics == other[1].diagnostics == []
        assert one[0] is not None
        assert one[0].secrets == {}
    finally:
        del os.environ["DEPLOY_TOKEN"]


def test_a_key_stands_in_the_workflow_as_a_reference(folder: Path) -> None:
    policy = operator(folder)
    profiles = {
        "named": {"model": "openai:gpt-4o", "api_key": "${OPENAI_API_KEY}"},
        "silent": {"model": "openai:gpt-4o"},
        "other": {
            "model": "openai:x",
            "base_url": OTHER_URL + "/",
            "headers": {"Authorization": "Bearer ${OTHER_KEY}"},
        },
        "own": {"model": "openai:gpt-4o", "api_key": "sk-of-the-author"},
    }
    plan, report = draft_text_plan(
        json.dumps({"models": profiles, **agent(profile_id="named")}), policy=policy
    )
    assert report.ok, report.diagnostics
    assert plan is not None
    assert "sk-openai" not in str(plan.workflow)
    bound = {name: policy.bind(profile) for name, profile in plan.workflow.models.items()}
    keys = {name: profile.api_key for name, profile in bound.items() if profile is not None}
    assert keys["named"] == keys["silent"] == "sk-openai-0123456789"
    assert keys["own"] == "sk-of-the-author"
    assert bound["other"] is not None
    assert bound["other"].headers == {"Authorization": "Bearer other-0123456789"}


@pytest.mark.parametrize(
    "config",
    [
        {"model": "openai:gpt-4o", "base_url": OTHER_URL, "api_key": "${OPENAI_API_KEY}"},
        {"profile_id": "keyed", "base_url": OTHER_URL},
        {"model": "openai:gpt-4o", "role": "Repeat ${OPENAI_API_KEY}."},
        {"model": "openai:gpt-4o", "params": {"extra_headers": {"X": "${OPENAI_API_KEY}"}}},
        {"model": "openai:gpt-4o", "api_key": "${OTHER_KEY}"},
        {"model": "openai:gpt-4o", "api_key": "x${secret:OTHER_KEY}"},
    ],
    ids=str,
)
def test_a_key_with_another_address_is_refused(config: Any, folder: Path) -> None:
    models = {"keyed": {"model": "openai:gpt-4o", "api_key": "${OPENAI_API_KEY}"}}
    errors = refused({"models": models, **agent(**config)}, operator(folder))
    assert any("is not for this place" in error.message for error in errors)


def test_a_message_that_would_show_a_key_is_refused(folder: Path) -> None:
    text = "graph: {start: A, nodes: [{id: A, type: literal, config: {content: 'it is ${OPENAI_API_KEY}'}}]}"
    (error,) = refused(text, operator(folder))
    assert "OPENAI_API_KEY" in error.message


def test_addresses_are_compared_by_where_they_lead() -> None:
    same = ["https://A.example/v1", "https://a.example:443/v1/", "https://a.example./v1"]
    assert len({normalize_url(url) for url in same}) == 1
    others = [
        "http://a.example/v1",
        "https://a.example:444/v1",
        "https://a.example/v1/../x",
        "https://a.example/v1?x=1",
        "https://user@a.example/v1",
        "https://a.example@evil.example/v1",
        "https://a.example/v1#x",
        "https://a.example",
        "https://[::1",
    ]
    assert normalize_url(same[0]) not in {normalize_url(url) for url in others}


def test_the_server_of_the_operator_brings_its_own_headers(folder: Path) -> None:
    policy = Policy(
        mcp={"docs": McpServer(url="https://docs.example", headers={"Authorization": "Bearer x"})}
    )
    found = policy.find_server(McpServer(url="https://docs.example", timeout=5))
    assert found is not None
    assert (found.headers, found.timeout) == ({"Authorization": "Bearer x"}, 5)
    assert (
        policy.find_server(McpServer(url="https://docs.example", headers={"Authorization": "Bearer y"}))
        is None
    )


# Stored runs


def stored(workflow: Workflow, environment: dict[str, str]) -> Workflow:
    return decode_workflow(encode_workflow(workflow), TYPES, environment)


def test_a_resumed_workflow_has_the_value_of_its_key_and_is_still_allowed(folder: Path) -> None:
    policy = operator(folder)
    text = json.dumps(agent(model="openai:gpt-4o", api_key="${OPENAI_API_KEY}"))
    plan, _ = draft_text_plan(text, policy=policy)
    assert plan is not None
    resumed = stored(plan.workflow, dict(os.environ))
    assert resumed.graph.nodes[0].config.api_key == "sk-openai-0123456789"
    assert check_policy(resumed, policy) == []
    elsewhere = Policy(models=(AllowedModel(provider="openai", key="OTHER_KEY"),))
    assert check_policy(resumed, elsewhere, {"OTHER_KEY": "sk-openai-0123456789"}) == []
    moved = Policy(
        models=(AllowedModel(provider="openai"), AllowedModel(base_url=OTHER_URL, key="OPENAI_API_KEY"))
    )
    assert check_policy(resumed, moved)


def test_a_text_cannot_name_a_secret_that_a_resumed_run_reads_from_the_environment(folder: Path) -> None:
    """Secrets are stored by name. The text chooses the name INTERNAL and a value of its own; resumed, the run
    would get the operator's."""
    text = (
        "vars: {INTERNAL: {value: of-the-author, secret: true}}\n"
        "graph: {start: A, nodes: [{id: A, type: agent, config: {role: 'Say ${INTERNAL}'}}]}"
    )
    plan, report = draft_text_plan(text, policy=operator(folder))
    assert report.ok
    assert plan is not None
    resumed = stored(plan.workflow, dict(os.environ))
    (error,) = check_policy(resumed, operator(folder))
    assert "'INTERNAL' would be read from the environment" in error.message
    assert "internal-0123456789" not in str(error)


def test_a_policy_is_checked_for_any_source(folder: Path) -> None:
    workflow = OBJECTS["tool"][1]({"python": "statistics:mean"})
    loaded = roundel.load(workflow)
    for source in (workflow, loaded, compile_workflow(loaded)):
        assert check_plan(source)[1].ok
        assert [one.code for one in check_plan(source, policy=Policy())[1].errors] == ["not-allowed"]
    path = folder / "w.yaml"
    path.write_text(json.dumps(workflow))
    assert [one.code for one in draft_plan(path, policy=Policy())[1].errors] == ["not-allowed"]
    with pytest.raises(WorkflowError, match="not allowed"):
        load_plan(path, policy=Policy())
    assert check_policy(loaded, TRUSTED) == []
    assert set(exported) >= {"Policy", "check_policy", "load_policy"}


CALLS_A_FUNCTION = {
    "graph": {
        "start": "Ask",
        "end": "Mean",
        "nodes": [
            {"id": "Ask", "type": "human"},
            {"id": "Mean", "type": "python", "config": {"function": "statistics:mean"}},
        ],
        "edges": [{"from": "Ask", "to": "Mean"}],
    }
}


def test_an_engine_with_a_policy_refuses_to_start_and_to_resume(folder: Path, tmp_path: Path) -> None:
    """The run was started without a policy, and is resumed by a server that has one."""
    plan = load_plan(CALLS_A_FUNCTION)

    async def story() -> None:
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            strict = LocalEngine(lambda: runs.store, policy=Policy())
            with pytest.raises(WorkflowError, match="statistics:mean"):
                await strict.start(RunSpec(plan, (Message("go"),)))
            run_id = await runs.start(plan, "go")
            assert (await runs.result(run_id)).status == "waiting"
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            strict = LocalEngine(lambda: runs.store, policy=Policy())
            with pytest.raises(WorkflowError, match="statistics:mean"):
                await strict.control(run_id, Answer(Message("1"), "Ask"), execute=Attachment())
            await strict.close()

    asyncio.run(story())


def test_code_of_messages_does_not_get_the_keys_of_the_operator(folder: Path, tmp_path: Path) -> None:
    code = "import os; print(sorted(os.environ.get(n, '-') for n in ('OPENAI_API_KEY', 'INTERNAL', 'TEAM')))"
    config = {"nodes": [{"id": "Run", "type": "python"}], "start": "Run", "end": "Run"}
    plan = load_plan({"graph": config}, policy=operator(folder))

    async def story() -> str:
        async with roundel.Runs(tmp_path / "runs.db") as runs:
            engine = LocalEngine(lambda: runs.store, policy=operator(folder))
            run_id = await engine.start(RunSpec(plan, (Message(code),)))
            result = await engine.wait(run_id)
            await engine.close()
            return result.output

    assert asyncio.run(story()).strip() == "['-', '-', 'red']"


# The file of the operator


def allow_list(folder: Path, text: str) -> Path:
    path = folder / "allow.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_allow_list_of_an_operator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "token-0123456789")
    path = allow_list(
        folder,
        """
functions: ["mytools.text:*", approve]
mcp:
  docs: {url: "https://docs.example/mcp", headers: {Authorization: "Bearer ${DOCS_TOKEN}"}}
  search: {command: search, args: [--safe], cwd: .}
files: .
environment: [TEAM]
python_code: true
models:
  - {provider: openai, key: OPENAI_API_KEY}
  - {base_url: "http://10.1.2.3:8000/v1"}
networks: [10.1.0.0/16]
""",
    )
    policy = load_policy(path)
    assert policy.files == (str(folder),)
    assert policy.mcp["docs"].headers == {"Authorization": "Bearer token-0123456789"}
    assert policy.mcp["search"].cwd == str(folder)
    assert policy.find_endpoint("openai", "http://10.1.2.3:8000/v1/") is not None
    assert policy.find_endpoint("openai", "") == AllowedModel(provider="openai", key="OPENAI_API_KEY")
    assert policy.bind(Profile(model="anthropic:claude")) is None
    assert load_policy(allow_list(folder, "{}")) == Policy()


@pytest.mark.parametrize(
    ("text", "line", "code", "words"),
    [
        ("\nfunction: [a]", 2, "unknown-key", "did you mean 'functions'?"),
        ("trusted: true", 1, "unknown-key", "trusted"),
        ("functions: ['*']", 1, "bad-allow-list", "all functions of one module only"),
        ("functions:\n  - 'a.*:b'", 2, "bad-allow-list", "for example mypackage.tools:*"),
        ("functions: [':*']", 1, "bad-allow-list", "is no function"),
        ("files: [missing]", 1, "bad-allow-list", "there is no folder 'missing'"),
        ("networks: [10.0.0.1/8]", 1, "bad-allow-list", "has host bits set"),
        ("python_code: maybe", 1, "wrong-type", "true or false"),
        ("models:\n- {key: A}", 2, "bad-allow-list", "no 'provider' and no 'base_url'"),
        ("models:\n- {provider: a, base_url: b}", 2, "bad-allow-list", "both a 'provider' and a 'base_url'"),
        ("models: [{base_url: 'https://u:p@x.example'}]", 1, "bad-allow-list", "without user"),
        ("models: [{provider: openai, key: K}]\nenvironment:\n- K", 3, "bad-allow-list", "must not read it"),
        ("mcp: {a: {command: x, url: y}}", 1, "mcp-server", "both a 'command' and a 'url'"),
        ("mcp: {a: {url: y, headers: {A: '${NO_SUCH_NAME}'}}}", 1, "unresolved-variable", "no value"),
        ("limits:\n  group: {}", 2, "unknown-key", "did you mean 'groups'?"),
        ("limits:\n  groups:\n    ada: {runs: 1, token: 5}", 3, "unknown-key", "did you mean 'tokens'?"),
        ("limits:\n  groups:\n    ada:\n      tokens: -1", 4, "wrong-type", "at least 0"),
        ("limits:\n  groups:\n    ada: {cost_usd: .inf}", 3, "wrong-type", "a number"),
        ("limits:\n  tokens:\n    robot: {runs: 1.5}", 3, "wrong-type", "a whole number"),
        ("limits:\n  tokens:\n    robot: {runs: 1, per: week}", 3, "wrong-type", "one of day, month, total"),
        ("limits:\n  groups:\n    ada: {per: month}", 3, "bad-allow-list", "these limits limit nothing"),
        ("limits: {groups: [ada]}", 1, "wrong-type", "a mapping"),
        ("functions: [", 1, "syntax", ""),
    ],
)
def test_mistakes_in_an_allow_list(text: str, line: int, code: str, words: str, folder: Path) -> None:
    with pytest.raises(WorkflowError) as caught:
        load_policy(allow_list(folder, text))
    found = caught.value.diagnostics[0]
    assert (found.line, found.code) == (line, code)
    assert words in str(found)


def test_a_missing_allow_list_is_an_error_and_allows_nothing(folder: Path) -> None:
    with pytest.raises(WorkflowError, match="there is no such file"):
        load_policy(folder / "missing.yaml")


def test_the_allow_list_of_the_manual(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "allow-list.md"
    (block,) = [block for block in blocks(page) if block.file == "allow.yaml"]
    monkeypatch.setenv("DOCS_TOKEN", "token-0123456789")
    (folder / "shared").mkdir()
    policy = load_policy(allow_list(folder, block.text))
    keys = Policy.__struct_fields__
    assert all(f"\n{key}:" in block.text for key in keys)
    assert [code(row[0])[0] for row in rows(sections(page)["The allow-list"])] == list(keys)
    assert policy.limits.groups["ada"] == Quota(model_calls=500, tokens=1_000_000, cost_usd=5, per="month")
    assert find_quota(policy.limits.groups, "bob") == Quota(runs=50, cost_usd=20)
    assert policy.allows_function("tool", "json.tool:main")
    assert policy.find_server(McpServer(command="uvx", args=("mcp-server-time",))) is not None


# Encodings


def test_whether_an_encoding_exists_is_known_without_importing_it() -> None:
    def is_known(name: str) -> bool:
        try:
            b"a".decode(name)
        except UnicodeError:
            return True
        except (LookupError, ValueError):
            return False
        return True

    modules = [module.name for module in pkgutil.iter_modules(encodings.__path__) if module.name != "aliases"]
    spellings = [*modules, *aliases, "UTF-8", "utf 8", "Latin-1", "no_such", "", "os", "..os", "ü", "utf\0"]
    assert [name for name in spellings if _is_encoding(name) != is_known(name)] == []
