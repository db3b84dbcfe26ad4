"""Writes the tables of fields, and the entries of node types, into the manual.

    python -m tools.field_tables           # rewrite the pages
    python -m tools.field_tables --check   # change nothing; exit with 1 if a page is out of date

A page says where a table goes with a pair of comments, `<!-- fields: NAME -->` and `<!-- end -->`. NAME is an
object of `roundel schema --fields`. `<!-- event: NAME -->` holds the fields of an event, and
`<!-- node: NAME -->` the entry of a node type: its text, ports, fields and example;
`<!-- node types -->` the list of all. A node type without an entry gets one at the end of nodes.md. What
stands between the comments is replaced; everything else on a page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from roundel.nodes import TYPES
from roundel.workflow.catalog import describe, localize
from roundel.workflow.node_type import ERROR_PORT
from tools import event_types

DOCS = Path(__file__).parents[1] / "docs"
NODES = "nodes.md"
MARKER = re.compile(
    r"<!-- (?P<what>fields|node|node types|event)(?:: (?P<name>\S+))? -->\n.*?<!-- end -->", re.DOTALL
)
MOST_CHOICES = 8
"""More of them, such as all node types, have a page of their own."""
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_BLOCK = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
_SIGNS = {"minimum": "≥", "exclusive_minimum": ">", "maximum": "≤", "exclusive_maximum": "<"}
_NOUNS = {
    "text": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "any": "any",
}
_WIDGETS = {
    "node": "node id",
    "model": "name of a profile",
    "tool": "name of a tool",
    "memory": "name of a memory",
    "expression": "expression",
    "pattern": "pattern",
    "function": "name of a function",
    "file": "path",
    "url": "address",
}
_PLURALS = {
    "node id": "node ids",
    "name of a profile": "names of profiles",
    "name of a tool": "names of tools",
}


class Manual:
    """The pages, and what the descriptions say should stand on them."""

    def __init__(self, folder: Path = DOCS) -> None:
        self.pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
        self.data: dict[str, Any] = localize(describe(TYPES), "en")
        self._add_missing_node_types()

    def _add_missing_node_types(self) -> None:
        for name in self.data["node_types"]:
            if NODES in self.pages and f"<!-- node: {name} -->" not in self.pages[NODES]:
                entry = f"## {name}\n\n<!-- node: {name} -->\n<!-- end -->\n"
                self.pages[NODES] = f"{self.pages[NODES].rstrip()}\n\n{entry}"

    def written(self) -> dict[str, str]:
        """All pages with their generated parts as they should be."""
        return {name: MARKER.sub(self._writer(name), text) for name, text in self.pages.items()}

    def _writer(self, page: str) -> Callable[[re.Match[str]], str]:
        def write(found: re.Match[str]) -> str:
            first = found[0].partition("\n")[0]
            try:
                return f"{first}\n{self.part(found['what'], found['name'] or '', page)}<!-- end -->"
            except KeyError:
                known = ", ".join(self.data["objects" if found["what"] == "fields" else "node_types"])
                raise SystemExit(
                    f"docs/{page}: `{first}` names nothing that is described; known are {known}"
                ) from None

        return write

    def part(self, what: str, name: str, page: str) -> str:
        """What belongs between the comments of a marker; KeyError if there is nothing of that name."""
        if what == "node types":
            return self._node_types()
        if what == "event":
            return event_types.table(name)
        if what == "node":
            return self._node_type(self.data["node_types"][name], page)
        return self._table(self.data["objects"][name]["fields"], page)

    @cached_property
    def places(self) -> Mapping[str, str]:
        """Where each object is described: `page.md#heading`."""
        found: dict[str, str] = {}
        for page, text in self.pages.items():
            plain = _BLOCK.sub(lambda block: " " * len(block[0]), text)
            for marker in MARKER.finditer(plain):
                titles = [heading["title"] for heading in _HEADING.finditer(plain[: marker.start()])]
                if marker["what"] == "fields" and titles:
                    found.setdefault(marker["name"], f"{page}#{_anchor(titles[-1])}")
        return found

    # Parts

    def _node_types(self) -> str:
        rows = [
            f"| [`{name}`](#{name}) | {about['title']} | {about['description']} |\n"
            for name, about in self.data["node_types"].items()
        ]
        return "".join(["| type | title | does |\n|---|---|---|\n", *rows])

    def _node_type(self, about: dict[str, Any], page: str) -> str:
        parts = [f"{about['description']}{_aliases(about['aliases'], ' is another name of the type.')}\n"]
        # All types have the port `error`, which the page describes once.
        ports = [port for port in about["ports"] if port["name"] != ERROR_PORT]
        if ports:
            parts.append("| port | what leaves by it |\n|---|---|\n")
            parts[-1] += "".join(f"| `{port['name']}` | {port['title']} |\n" for port in ports)
        if about["fields"]:
            parts.append(self._table(about["fields"], page))
        if about["example"]:
            parts.append(f"```yaml\n{about['example'].strip()}\n```\n")
        return "\n".join(parts)

    def _table(self, fields: list[dict[str, Any]], page: str) -> str:
        rows = [self._row(field, page) for field in fields]
        return "".join(["| key | type | default | meaning |\n|---|---|---|---|\n", *rows])

    def _row(self, field: dict[str, Any], page: str) -> str:
        text = field["description"] + _choices(field) + _aliases(field["aliases"], " is also accepted.")
        if field["see"] and field["see"] not in map(self.places.get, field["objects"]):
            text += f" [More]({_link(field['see'], page)})"
        cells = (f"`{field['key']}`", self._type(field, page), _default(field), text)
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"

    def _type(self, field: dict[str, Any], page: str) -> str:
        noun = self._object(field, page) if field["type"] == "object" else _noun(field)
        return _shaped(noun, field)

    def _object(self, field: dict[str, Any], page: str) -> str:
        words = []
        for name in field["objects"]:
            about = self.data["objects"][name]
            words += [_shaped(_noun(short), short) for short in about["short"]]
            place = self.places.get(name)
            title = about["title"][0].lower() + about["title"][1:]
            if about["title"].startswith("MCP"):
                title = about["title"]
            if place:
                words.append(f"[{title}]({_link(place, page)})")
            elif about["fields"]:
                words.append("mapping")
        return _or(words or ["mapping"])


def _noun(field: dict[str, Any]) -> str:
    """What one value of a field, or of a short form, is."""
    if field["choices"] and len(field["choices"]) <= MOST_CHOICES:
        return _or([f"`{choice['value']}`" for choice in field["choices"]])
    noun = _WIDGETS.get(field["widget"], _NOUNS[field["type"]])
    if field.get("unit") and field["widget"] in ("duration", "money"):
        noun = field["unit"]["title"]
    bounds = [f"{_SIGNS[name]} {bound}" for name, bound in field.get("bounds", {}).items()]
    return f"{noun} {' and '.join(bounds)}".strip()


def _shaped(noun: str, field: dict[str, Any]) -> str:
    if field["shape"] == "map":
        return "mapping" if noun == "any" else f"mapping of names to {noun}"
    if field["shape"] != "list":
        return noun
    if field.get("lone"):
        return f"{noun}, or a list"
    return "list" if noun == "any" else f"list of {_PLURALS.get(noun, noun)}"


def _choices(field: dict[str, Any]) -> str:
    """What each of the choices means, unless their names say it."""
    choices = field["choices"] or ()
    if len(choices) > MOST_CHOICES or all(map(_says, choices)):
        return ""
    telling = [
        f"`{choice['value']}`: {choice['title'][:1].lower()}{choice['title'][1:]}" for choice in choices
    ]
    return f" {'; '.join(telling)}." if telling else ""


def _says(choice: dict[str, Any]) -> bool:
    return bool(choice["title"].lower().startswith(choice["value"].replace("_", " ").lower()))


def _aliases(names: list[str], words: str) -> str:
    return f" {_or([f'`{name}`' for name in names])}{words}" if names else ""


def _default(field: dict[str, Any]) -> str:
    if field["required"]:
        return "required"
    value = field["default"]
    plain = isinstance(value, (bool, int, float, str)) and value != ""
    return f"`{json.dumps(value)}`" if plain else "–"


def _or(words: list[str]) -> str:
    words = list(dict.fromkeys(words))
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def _link(place: str, page: str) -> str:
    """A place in the manual as a page links to it."""
    other, _, anchor = place.partition("#")
    return f"#{anchor}" if other == page and anchor else place


def _anchor(title: str) -> str:
    """The name that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")


def main(arguments: list[str]) -> int:
    manual = Manual()
    stale = [
        name for name, text in manual.written().items() if text != (DOCS / name).read_text(encoding="utf-8")
    ]
    for name in stale:
        print(f"docs/{name} {'is out of date; run: make tables' if '--check' in arguments else 'rewritten'}")
        if "--check" not in arguments:
            (DOCS / name).write_text(manual.written()[name], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
