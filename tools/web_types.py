"""Writes TypeScript: web/src/api/schema.ts, the types of everything that the HTTP API sends and takes, from
docs/openapi.json; web/src/api/events.ts, from the structs of events (kernel/payloads.py);
web/src/api/view.ts, from those of the view of a run (runs/view.py); and web/src/api/statuses.ts, from
kernel/events.py.

A test compares the files with what this program would write.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

from roundel.kernel.events import OVER, NodeStatus, RoundStatus, RunStatus, ToolStatus
from roundel.kernel.payloads import kinds_of
from tools.event_types import NAMES, schemas, view_schemas

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "docs" / "openapi.json"
TARGET = ROOT / "web" / "src" / "api" / "schema.ts"
HEAD = "// Written by tools/web_types.py from docs/openapi.json. `make tables` writes it again.\n"
STATUSES = ROOT / "web" / "src" / "api" / "statuses.ts"
STATUSES_HEAD = "// Written by tools/web_types.py from kernel/events.py. `make tables` writes it again.\n"
EVENTS = ROOT / "web" / "src" / "api" / "events.ts"
EVENTS_HEAD = "// Written by tools/web_types.py from kernel/payloads.py. `make tables` writes it again.\n"
VIEW = ROOT / "web" / "src" / "api" / "view.ts"
VIEW_HEAD = "// Written by tools/web_types.py from runs/view.py. `make tables` writes it again.\n"
SPARSE = {"RunOutput", "Problem", *schemas(), *view_schemas()}
"""Answers in which fields without a value are missing."""
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def types_of(document: dict[str, Any]) -> str:
    """The types of all components of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    sent = _sent(document)
    return HEAD + "".join(_declaration(name, schemas[name], name in sent) for name in sorted(schemas))


def statuses() -> str:
    """The statuses of runs, nodes, rounds and tool calls, and which of them end a run."""
    kinds = {
        "RunStatus": RunStatus,
        "NodeStatus": NodeStatus,
        "RoundStatus": RoundStatus,
        "ToolStatus": ToolStatus,
    }
    types = [
        f"export type {name} = {_union(map(json.dumps, get_args(kind)))};\n" for name, kind in kinds.items()
    ]
    over = [status for status in get_args(RunStatus) if status in OVER]
    test = " || ".join(f"status === {json.dumps(status)}" for status in over)
    return (
        f"{STATUSES_HEAD}\n{''.join(types)}\n/** Whether nothing more can happen to a run. */\n"
        f"export function isOver(status: RunStatus): status is {_union(map(json.dumps, over))} {{\n"
        f"  return {test};\n}}\n"
    )


def event_types() -> str:
    """The types of events: their data, and `RunEvent`, a union on `event`. Where the data of an event has
    several types, `status` or `trigger` says which it is."""
    declared = [_declaration(name, schema, True) for name, schema in sorted(schemas().items())]
    variants = [f"  | {_variant(name)}\n" for name in NAMES]
    union = f"export type RunEvent =\n{''.join(variants)}".rstrip("\n")
    return f"{EVENTS_HEAD}{''.join(declared)}{_ENVELOPE}{union};\n"


def view_types() -> str:
    """The types of the view of a run; those that it shares with events come from there."""
    own = view_schemas()
    declared = "".join(_declaration(name, schema, True) for name, schema in sorted(own.items()))
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(own))) - set(own)
    names = "".join(f"  {name},\n" for name in sorted(used))
    return f'{VIEW_HEAD}import type {{\n{names}}} from "./events";\n{declared}'


def _variant(name: str) -> str:
    data = _union(kind.__name__ for kind in kinds_of(name))
    return f"(Envelope & {{ event: {json.dumps(name)}; data: {data} }})"


_ENVELOPE = """
/** A round of a loop, or the inside of a node. Numbers count from 1. */
export interface PathStep {
  /** The entry of a loop of edges. */
  loop?: string;
  /** A node with a graph inside. */
  node?: string;
  round?: number;
  part?: string;
  repeat?: number;
}

/** What every event has (docs/events.md). */
export interface Envelope {
  /** Missing for a transient event. */
  seq?: number;
  timestamp: string;
  run_id: string;
  node_id?: string;
  address?: string;
  /** What is around the node, outermost first. */
  path?: PathStep[];
  /** The number of a part of a dynamic edge: "2" or "2.1". */
  part?: string;
}

"""


def _sent(document: dict[str, Any]) -> set[str]:
    """The components that clients send. Only there may a field with a default be missing."""
    operations = [one for path in document["paths"].values() for one in path.values()]
    pending = [one["requestBody"] for one in operations if "requestBody" in one]
    found: set[str] = set()
    for part in pending:  # grows during the iteration
        for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part)):
            if name not in found:
                found.add(name)
                pending.append(document["components"]["schemas"][name])
    return found


def _declaration(name: str, schema: dict[str, Any], is_sent: bool) -> str:
    comment = _comment(schema.get("description", ""), "")
    if schema.get("type") == "object" and "properties" in schema:
        needed = set(schema.get("required", ()))
        if not is_sent and name not in SPARSE:
            needed |= {field for field, about in schema["properties"].items() if "default" in about}
        body = _object({**schema, "required": needed}, "")
        return f"\n{comment}export interface {_name(name)} {body}\n"
    return f"\n{comment}export type {_name(name)} = {_type(schema, '')};\n"


def _name(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def _comment(text: str, indent: str) -> str:
    return f"{indent}/** {' '.join(text.split())} */\n" if text else ""


def _object(schema: dict[str, Any], indent: str) -> str:
    inner = indent + "  "
    needed = schema.get("required", ())
    lines = []
    for name, field in schema.get("properties", {}).items():
        key = name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
        optional = "" if name in needed else "?"
        lines.append(
            f"{_comment(field.get('description', ''), inner)}{inner}{key}{optional}: {_type(field, inner)};\n"
        )
    return "{\n" + "".join(lines) + indent + "}"


def _type(schema: Any, indent: str) -> str:
    if not isinstance(schema, dict) or not schema:
        return "unknown"
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return _union(json.dumps(value) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _union(_type(one, indent) for one in schema[several])
    if "allOf" in schema:
        return " & ".join(_type(one, indent) for one in schema["allOf"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union(_type({**schema, "type": one}, indent) for one in kind)
    if kind == "array":
        return _array(schema, indent)
    if kind == "object":
        if "properties" in schema:
            return _object(schema, indent)
        return f"Record<string, {_type(schema.get('additionalProperties'), indent)}>"
    return {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}.get(
        kind or "", "null" if kind == "null" else "unknown"
    )


def _array(schema: dict[str, Any], indent: str) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(one, indent) for one in schema['prefixItems'])}]"
    item = _type(schema.get("items"), indent)
    return f"({item})[]" if " " in item and not item.startswith("{") else f"{item}[]"


def _union(parts: Any) -> str:
    return " | ".join(dict.fromkeys(parts))


def main() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(types_of(json.loads(SOURCE.read_text())))
    STATUSES.write_text(statuses())
    EVENTS.write_text(event_types())
    VIEW.write_text(view_types())


if __name__ == "__main__":
    main()
