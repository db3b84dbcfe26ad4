"""The JSON objects in a text: the whole of it, in a fenced block, or among words.

Answers that have to fit a JSON Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_decoder = json.JSONDecoder(strict=False)  # models break lines inside of strings
_MAX_OBJECTS_TRIED = 1000
"""How many opening braces are tried; text that is all braces must not take for ever."""


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """In order; not those inside of others, and none of an object that is cut off at the end."""
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
        except (RecursionError, ValueError):  # too deep, or a number of too many digits
            return
        else:
            yield found
        start = text.find("{", after)


_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def schema_error(schema: dict[str, Any]) -> str:
    """Why this is no JSON Schema; empty if it is one."""
    import jsonschema

    try:
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)
    unresolved = next((name for name in _references(schema) if not _resolves(name, schema)), "")
    return f"it refers to '{unresolved}', which it does not hold" if unresolved else ""


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
    """The answer as data, and why it does not fit the schema if it does not.

    An answer that is no JSON object is found in the data under `value`."""
    try:
        answer = data if data is not None else parse_json(text)
    except ValueError as error:
        return None, f"it is not JSON ({error})"
    problem = validation_error(answer, schema)
    if problem:
        return None, problem
    return (answer if isinstance(answer, dict) else {"value": answer}), ""


def validation_error(value: Any, schema: dict[str, Any]) -> str:
    """Where and why a value does not fit; empty if it does."""
    import jsonschema
    from referencing.jsonschema import EMPTY_REGISTRY

    make = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    validator = make(schema, registry=EMPTY_REGISTRY)  # what a schema refers to is never fetched
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    shown = (f"{_format_path(error.absolute_path)}{error.message}" for error in errors[:5])
    return "; ".join(shown)


def _format_path(parts: Any) -> str:
    path = ".".join(str(part) for part in parts)
    return f"at {path}: " if path else ""


def parse_json(text: str) -> Any:
    """The JSON in a text, which may stand between fences."""
    found = _FENCED.search(text)
    return json.loads(found[1] if found else text)
