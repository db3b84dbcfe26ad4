"""Read JSON out of the answers of models, and validate it against a JSON Schema.

`jsonschema` is imported only when a schema is used, since importing it takes longer than loading a
workflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_decoder = json.JSONDecoder(strict=False)  # models write line breaks inside of strings
_MAX_OBJECTS_TRIED = 1000
"""How many opening braces are tried. It bounds the time for text that consists of braces."""


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order: the whole text, in a fenced block, or among words. Objects
    inside of others are not found, nor those inside of an object that is cut off at the end of the text:
    a part of an incomplete answer must not count as the answer."""
    start, end = text.find("{"), len(text.rstrip())
    for _ in range(_MAX_OBJECTS_TRIED):
        if start < 0:
            return
        try:
            found, after = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if error.pos >= end or error.msg.startswith("Unterminated"):
                return
            after = start + 1
        except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
            return
        else:
            yield found
        start = text.find("{", after)


_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def schema_error(schema: dict[str, Any]) -> str:
    """Why this is no valid JSON Schema; empty if it is one. References to other documents are errors,
    since they are never fetched."""
    import jsonschema

    try:
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)
    unresolved = next((name for name in _references(schema) if not _resolves(name, schema)), "")
    return f"it refers to '{unresolved}', which it does not contain" if unresolved else ""


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _references(item)


def _resolves(reference: str, schema: dict[str, Any]) -> bool:
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

    whole = Resource.from_contents(schema, default_specification=DRAFT202012)
    name = whole.id() or ""
    try:
        EMPTY_REGISTRY.with_resource(name, whole).resolver(name).lookup(reference)
    except Unresolvable:
        return False
    return True


def parse_answer(
    text: str, data: dict[str, Any] | None, schema: dict[str, Any]
) -> tuple[dict[str, Any] | None, str]:
    """Returns the answer as data, and why it does not fit the schema (empty if it does).

    The data of a message is a mapping, so an answer that is no JSON object is returned as `{"value":
    answer}`."""
    try:
        answer = data if data is not None else parse_json(text)
    except ValueError as error:
        return None, f"it is not JSON ({error})"
    problem = validation_error(answer, schema)
    if problem:
        return None, problem
    return (answer if isinstance(answer, dict) else {"value": answer}), ""


def validation_error(value: Any, schema: dict[str, Any]) -> str:
    """Where and why a value does not fit a schema, for a model to repair; empty if it fits. At most five
    errors, in the order of their paths."""
    import jsonschema
    from referencing.jsonschema import EMPTY_REGISTRY

    make = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    # An empty registry: by default the library would fetch references of a schema from the network.
    validator = make(schema, registry=EMPTY_REGISTRY)
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    shown = (f"{_format_path(error.absolute_path)}{error.message}" for error in errors[:5])
    return "; ".join(shown)


def _format_path(parts: Any) -> str:
    path = ".".join(str(part) for part in parts)
    return f"at {path}: " if path else ""


def parse_json(text: str) -> Any:
    """Parses a text as JSON, or its first fenced block if it has one."""
    found = _FENCED.search(text)
    return json.loads(found[1] if found else text)
