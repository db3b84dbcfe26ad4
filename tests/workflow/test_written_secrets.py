"""Secrets that are written into a text: found where the text says that something is one, and never quoted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roundel.workflow.written_secrets import find_written_secrets, is_secret_word
from tests.deadline import Deadline

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASSWORD",
        "apiKey",
        "API_KEY",
        "APIKEY",
        "token",
        "accessToken",
        "GITHUB-TOKEN",
        "SECRET1",
        "myKEY",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_word(name)


@pytest.mark.parametrize(
    "name", ["MAX_TOKENS", "KEYWORDS", "KEYBOARD", "monkey", "tokens", "secretary", "", "_"]
)
def test_names_that_only_contain_the_letters(name: str) -> None:
    assert not is_secret_word(name)


WRITTEN = [
    (f"models:\n  m: {{model: openai:x, api_key: {SECRET}}}", (2, 33)),
    (f'{{"graph": {{"nodes": [{{"config": {{"apiKey": "{SECRET}"}}}}]}}}}', (1, 44)),
    (f"models: {{m: {{headers: {{Authorization: Bearer {SECRET}}}}}}}", (1, 39)),
    ("vars: {note: {value: blue, secret: true}}", (1, 22)),
    (f"vars:\n  DB_PASSWORD: {SECRET}", (2, 16)),
    ("vars:\n  apiKey: short", (2, 11)),
    (f"tools: {{t: {{mcp: {{command: x, env: {{GITHUB_TOKEN: {SECRET}}}}}}}}}", (1, 51)),
    (f"graph: {{nodes: [{{id: A, url: 'https://ann:{SECRET}@host.example/'}}]}}", (1, 30)),
    (f"vars: {{AUTH_TOKEN: 'Bearer ${{A}} {SECRET}'}}", (1, 20)),
    # Inside of other values.
    (f"vars: {{api_key: {{value: {SECRET}}}}}", (1, 25)),
    (f"vars: {{MY-API-KEY: [{SECRET}]}}", (1, 21)),
    (f"vars: {{database: {{user: ann, PASSWORD: {SECRET}}}}}", (1, 40)),
    ("vars: {note: {value: [blue, '${A}'], secret: true}}", (1, 23)),
    (f"vars: {{note: {{value: {SECRET}, secret: 'yes'}}}}", (1, 22)),
    ("models: {m: {headers: {Authorization: Bearer abc}}}", (1, 39)),
    ("mcp: {s: {url: 'https://a.example', headers: {X-Api-Key: 1234}}}", (1, 58)),
    (f"models: {{m: {{api-key: {SECRET}}}}}", (1, 23)),
    # What another tool would take for a default.
    (f"models: {{m: {{api_key: '${{KEY:-{SECRET}}}'}}}}", (1, 23)),
    # By way of variables with harmless names.
    (f"vars: {{a: '${{b}}', b: {SECRET}}}\nmodels: {{m: {{api_key: '${{a}}'}}}}", (1, 22)),
    (f"vars: {{a: {SECRET}}}\nmodels: {{m: {{headers: {{Authorization: 'Bearer ${{a}}'}}}}}}", (1, 11)),
    # A draft that cannot be parsed.
    (f"graph: [\nheaders:\n  Authorization: Bearer {SECRET}", (3, 18)),
    (f"graph: [\n  api_key: {SECRET}", (2, 12)),
    (f"vars:\n\tDB_PASSWORD: '{SECRET}'\n", (2, 16)),
]


@pytest.mark.parametrize(("text", "place"), WRITTEN, ids=[text for text, _ in WRITTEN])
def test_secrets_that_are_written_out(text: str, place: tuple[int, int]) -> None:
    (found,) = find_written_secrets(text, "saved")
    assert (found.code, found.severity, found.file) == ("written-secret", "error", "saved")
    assert (found.line, found.column) == place
    assert SECRET not in str(found) and "${NAME}" in found.hint


@pytest.mark.parametrize(
    "text",
    [
        "models: {m: {model: openai:x, api_key: '${OPENAI_KEY}', headers: {Authorization: 'Bearer ${K}'}}}",
        "models: {m: {model: openai:x, api_key: '', headers: {Accept: application/json, X-Team: red}}}",
        "vars: {DB_PASSWORD: '', apiKey: '${KEY}', MAX_TOKENS: many, note: {secret: true}, API_KEY: null}",
        "vars: {note: {value: '${NOTE}', secret: true}, plain: {value: a}}",
        "graph: {nodes: [{id: A, config: {output_schema: {properties: {api_key: {type: string}}}}}]}",
        "vars: {team: engineers, b: '${b}'}\nmodels: {m: {headers: {X-Team: '${team}'}, api_key: '${b}'}}",
        "tools: {t: {input: {properties: {api_key: {type: string, description: the key of it}}}}}",
        "graph: [\n  prompt: 'Authorization: Bearer tokens are best'\n  more: 'Authorization: Bearer ${A}'",
        "graph: {nodes: [{id: A, config: {prompt: 'The key: patience. PASSWORD: hunter2.'}}]}",
        "graph: [\n  prompt: The key: patience\n  api_key: ${OPENAI_API_KEY}\n  max_tokens: 5",
        "",
        "[",
    ],
)
def test_references_and_other_texts(text: str) -> None:
    assert find_written_secrets(text) == []


def find_in_a_large_text(size: int) -> int:
    aliases = ", ".join("*a" for _ in range(size))
    parsed = f"vars: &a {{API_KEY: {SECRET}, b: {{c: d}}}}\nmore: [{aliases}]"
    broken = "[" + "api_key" * size + ": a_" * size
    return len(find_written_secrets(parsed)) + len(find_written_secrets(broken))


def test_large_texts_are_searched_in_time() -> None:
    assert Deadline(find_in_a_large_text)(50_000) >= 1


def test_json_of_any_shape_is_searched() -> None:
    values: tuple[Any, ...] = (
        None,
        1,
        "a",
        [],
        {},
        {"vars": [1]},
        {"headers": "x"},
        {"env": {"a": {"b": []}}},
    )
    for value in values:
        assert find_written_secrets(json.dumps(value)) == []
