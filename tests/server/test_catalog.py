"""What an editor offers: node types, templates, models and tools."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

from roundel.llm.script import script_from
from roundel.nodes import TYPES
from roundel.server.examples import FIRST, examples, examples_folder
from roundel.workflow.catalog import describe, localize
from roundel.workflow.policy import TRUSTED, Policy, load_policy
from tests.server.api import Server, serving

ROOT = Path(__file__).parents[2]


def played(story: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(**options) as server:
            await story(server)

    asyncio.run(main())


def read(path: str, params: dict[str, str] | None = None, **options: Any) -> Any:
    """The answer to a viewer, compared with the schema of the route."""
    found: list[Any] = []

    async def story(server: Server) -> None:
        client = await server.client("viewer")
        answer = await client.get(path, params=params or {})
        assert answer.status_code == 200, answer.text
        document = (await client.get("/api/v1/openapi.json")).json()
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
        found.append(answer.json())
        assert (await (await server.anyone()).get(path)).status_code == 401

    played(story, **options)
    return found[0]


def test_node_types_in_both_languages_or_in_one() -> None:
    described = describe(TYPES)
    assert read("/api/v1/node-types") == described
    for language in ("en", "zh"):
        assert read("/api/v1/node-types", {"language": language}) == localize(described, language)

    async def story(server: Server) -> None:
        client = await server.client("viewer")
        assert (await client.get("/api/v1/node-types", params={"language": "fr"})).status_code == 422

    played(story)


def test_every_example_is_a_template_with_a_title_a_picture_and_a_script() -> None:
    found = {one["name"]: one for one in read("/api/v1/templates")["templates"]}
    assert tuple(found)[: len(FIRST)] == FIRST, "the plain loop comes first"
    folder = examples_folder()
    assert folder is not None
    assert found.keys() == {file.parent.name for file in folder.glob("*/workflow.yaml")}
    for name, template in found.items():
        assert template["text"] == (folder / name / "workflow.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(template["script"]), name
        assert 5 < len(template["title"]) < 110 and "roundel run" not in template["description"], name
        assert template["description"].startswith(template["title"])
        assert template["input"], name
        picture = ElementTree.fromstring(template["svg"])
        assert picture.tag.endswith("svg"), name
        assert len(template["drawing"]["nodes"]) >= 2 and template["drawing"]["density"] == "compact", name
    assert found["nested_loops"]["title"] == "A loop in a loop"
    # Those with Python functions or further files need the permission of the operator.
    assert {name for name, one in found.items() if not one["ok"]} == {
        *("analyst", "python_functions", "subgraph")
    }


def test_a_picture_contains_the_graphs_of_other_files() -> None:
    subgraph = next(one for one in examples() if one.name == "subgraph")
    assert "Critic" in subgraph.svg


def test_a_template_runs_offline() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        for template in (await author.get("/api/v1/templates")).json()["templates"]:
            if not template["ok"] or template["name"] == "timer":  # which takes a second by itself
                continue
            body = {
                "workflow": {"text": template["text"]},
                "input": template["input"],
                "script": json.loads(script_from(template["script"]).without_delays().text),
            }
            started = await author.post("/api/v1/runs", json=body)
            assert started.status_code == 202, started.text
            result = await server.context.runs.result(started.json()["id"])
            expected = "paused" if template["name"] == "debugging" else "completed"
            assert result.status == expected, template["name"]

    played(story)


def test_the_wheel_contains_the_examples(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [file for file in (ROOT / "examples").rglob("*.yaml") if file.is_file()]
    assert files
    for file in files:
        assert f"roundel/{file.relative_to(ROOT).as_posix()}" in names


def test_models_are_those_of_the_allow_list_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-a-secret-of-the-shop")
    file = tmp_path / "allow.yaml"
    file.write_text(
        "models:\n"
        "  - {provider: openai, key: SHOP_API_KEY}\n"
        "  - {base_url: 'https://models.example.com/v1', key: OTHER_API_KEY}\n"
    )
    found = read("/api/v1/models", policy=load_policy(file))
    assert found["unrestricted"] is False
    assert {"provider": "openai", "base_url": "", "has_key": True} in found["models"]
    assert {"provider": "", "base_url": "https://models.example.com/v1", "has_key": False} in found["models"]
    assert "sk-a-secret" not in str(found) and "API_KEY" not in str(found)
    assert read("/api/v1/models", policy=Policy())["models"] == [
        one for one in found["models"] if one["provider"] not in ("openai", "")
    ]
    everything = read("/api/v1/models", policy=TRUSTED)
    assert everything["unrestricted"] is True
    assert "anthropic" in {one["provider"] for one in everything["models"]}


def test_tools_are_those_of_the_allow_list_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "a-long-secret-token")
    file = tmp_path / "allow.yaml"
    file.write_text(
        "functions: ['shop:order', 'shop.stock:*']\n"
        "mcp:\n"
        "  docs:\n"
        "    url: 'https://docs.example.com/mcp?api_key=abcdef123456'\n"
        "    headers: {Authorization: 'Bearer ${DOCS_TOKEN}'}\n"
        "  time: {command: mcp-server-time, args: ['--zone=UTC', '--token=${DOCS_TOKEN}'], env: {A: b}}\n"
    )
    found = read("/api/v1/tools", policy=load_policy(file))
    assert found["unrestricted"] is False and found["python_code"] is False
    names = [one["name"] for one in found["functions"]]
    assert names[:2] == ["shop:order", "shop.stock:*"]
    servers = {one["name"]: one for one in found["mcp"]}
    assert servers["docs"]["url"].startswith("https://docs.example.com/mcp")
    assert servers["time"]["command"] == "mcp-server-time" and servers["time"]["args"][0] == "--zone=UTC"
    assert "a-long-secret-token" not in str(found) and "abcdef123456" not in str(found)
    assert "env" not in servers["time"] and "headers" not in servers["docs"]

    assert read("/api/v1/tools", policy=Policy())["mcp"] == []
    assert read("/api/v1/tools", policy=TRUSTED)["unrestricted"] is True
