"""Writes the OpenAPI document into the manual: docs/openapi.json, and the tables of docs/api.md.

    python tools/api_docs.py           # rewrite them
    python tools/api_docs.py --check   # change nothing; exit with 1 if one is out of date

The page has pairs of comments, `<!-- api: NAME -->` and `<!-- end -->`; what stands between them is replaced.
NAME is `problems`, `routes` or `bodies`. Everything else on the page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roundel.server.openapi import TAGS, describe_api
from roundel.server.problems import TITLES, TYPE_PREFIX

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA, PAGE = "openapi.json", "api.md"
MARKER = re.compile(r"<!-- api: (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)
_NOUNS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "mapping",
    "array": "list",
}
_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _size(limit: int) -> str:
    return f"{limit // 1024} KiB" if limit < 1024 * 1024 else f"{limit // (1024 * 1024)} MiB"


class ApiPages:
    """The document, and the pages that follow from it."""

    def __init__(self, folder: Path = DOCS) -> None:
        self._folder = folder
        self._document: dict[str, Any] = describe_api()

    def written(self) -> dict[str, str]:
        """The files as they should be."""
        page = (self._folder / PAGE).read_text(encoding="utf-8")
        parts: dict[str, Callable[[], str]] = {
            "problems": self._problems,
            "routes": self._routes,
            "bodies": self._bodies,
        }

        def write(found: re.Match[str]) -> str:
            return f"<!-- api: {found['name']} -->\n{parts[found['name']]()}<!-- end -->"

        return {
            SCHEMA: json.dumps(self._document, indent=1, ensure_ascii=False) + "\n",
            PAGE: MARKER.sub(write, page),
        }

    def _problems(self) -> str:
        statuses: dict[str, list[str]] = {name: [] for name in TITLES}
        for response in self._document["components"]["responses"].values():
            narrowed = response["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]
            for kind in narrowed["type"]["enum"]:
                statuses[kind.removeprefix(TYPE_PREFIX)].append(str(narrowed["status"]["const"]))
        statuses["method-not-allowed"] = ["405"]
        rows = [(f"`{name}`", ", ".join(statuses[name]), title) for name, title in TITLES.items()]
        return _table(("type", "status", "title"), rows)

    def _routes(self) -> str:
        return "\n".join(self._tag(name, text) for name, text in TAGS.items())

    def _tag(self, tag: str, text: str) -> str:
        operations = [
            (method.upper(), path, operation)
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
            if operation["tags"] == [tag]
        ]
        rows = [
            (method, f"`{path}`", operation["x-role"], operation["description"])
            for method, path, operation in operations
        ]
        parts = [f"### {tag.capitalize()}\n", f"{text}\n", _table(("method", "path", "role", "does"), rows)]
        parts += [self._operation(*one) for one in operations]
        return "\n".join(parts)

    def _operation(self, method: str, path: str, operation: dict[str, Any]) -> str:
        parts = [f"#### {method} {path}\n"]
        rows = [
            (
                f"`{one['name']}`",
                one["in"],
                self._type(one["schema"]),
                "required" if one["required"] else _default(one["schema"]),
                one["description"],
            )
            for one in operation.get("parameters", ())
        ]
        if rows:
            parts.append(_table(("parameter", "in", "type", "default", "meaning"), rows))
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]["schema"]
            parts.append(f"Body: {self._type(body)}, at most {_size(operation['x-body-limit'])}.\n")
        parts.append(self._answers(operation["responses"]))
        return "\n".join(parts)

    def _answers(self, responses: dict[str, Any]) -> str:
        lines = []
        for status, response in responses.items():
            if "$ref" in response:
                continue
            kinds = response.get("content", {})
            shown = [
                self._type(one["schema"]) if kind == "application/json" else f"`{kind}`"
                for kind, one in kinds.items()
            ]
            text = f"`{status}`: {' or '.join(shown) or 'no body'}"
            headers = response.get("headers", {})
            if headers:
                text += f", with {' and '.join(f'`{name}`' for name in headers)}"
            lines.append(text)
        errors = [status for status, response in responses.items() if "$ref" in response]
        return f"Answers: {'; '.join(lines)}. Problems: {', '.join(errors)}.\n"

    def _bodies(self) -> str:
        return "\n".join(
            self._body(name, schema)
            for name, schema in self._document["components"]["schemas"].items()
            if schema.get("properties")
        )

    def _body(self, name: str, schema: dict[str, Any]) -> str:
        required = schema.get("required", ())
        rows = [
            (
                f"`{field}`",
                self._type(about),
                "required" if field in required else _default(about),
                about["description"],
            )
            for field, about in schema["properties"].items()
        ]
        return "\n".join(
            [
                f"### {name}\n",
                f"{schema['description']}\n",
                _table(("field", "type", "default", "meaning"), rows),
            ]
        )

    def _type(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            known = self._document["components"]["schemas"][name].get("properties")
            return f"[{name}](#{name.lower()})" if known else "any"
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                return " or ".join(dict.fromkeys(map(self._type, schema[key])))
        if "enum" in schema or "const" in schema:
            return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
        kind = schema.get("type")
        if kind == "array" and schema.get("items"):
            return f"list of {self._type(schema['items'])}"
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, dict) and values:
            return f"mapping of names to {self._type(values)}"
        if not isinstance(kind, str):
            return "any"
        bounds = [f"{sign} {schema[key]:g}" for key, sign in _SIGNS.items() if schema.get(key) is not None]
        if "maxLength" in schema:
            bounds.append(f"of at most {schema['maxLength']:,} characters")
        return f"{_NOUNS[kind]} {' and '.join(bounds)}".strip()


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    plain = isinstance(value, (bool, int, float, str)) and value != ""
    return f"`{json.dumps(value)}`" if plain else "–"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    rule = f"|{'---|' * len(head)}"
    return "".join(f"{line}\n" for line in (f"| {lines[0]} |", rule, *(f"| {one} |" for one in lines[1:])))


def main(arguments: list[str]) -> int:
    stale = {
        name: text
        for name, text in ApiPages().written().items()
        if not (DOCS / name).exists() or text != (DOCS / name).read_text(encoding="utf-8")
    }
    for name, text in stale.items():
        print(f"docs/{name} {'is out of date; run: make tables' if '--check' in arguments else 'rewritten'}")
        if "--check" not in arguments:
            (DOCS / name).write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
