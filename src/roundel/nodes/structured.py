"""Answers that have to fit a JSON Schema."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def schema_problem(schema: dict[str, Any]) -> str:
    """Why this is no JSON Schema; empty if it is one."""
    import jsonschema

    try:
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)
    return ""


def fitting(
    text: str, data: dict[str, Any] | None, schema: dict[str, Any]
) -> tuple[dict[str, Any] | None, str]:
    """The answer as data, and why it does not fit the schema if it does not.

    An answer that is no JSON object is found in the data under `value`."""
    try:
        answer = data if data is not None else parsed(text)
    except ValueError as error:
        return None, f"it is not JSON ({error})"
    problem = misfit(answer, schema)
    if problem:
        return None, problem
    return (answer if isinstance(answer, dict) else {"value": answer}), ""


def misfit(value: Any, schema: dict[str, Any]) -> str:
    """Where and why a value does not fit; empty if it does."""
    import jsonschema

    make = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    errors = sorted(make(schema).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    shown = (f"{_path(error.absolute_path)}{error.message}" for error in errors[:5])
    return "; ".join(shown)


def _path(parts: Any) -> str:
    path = ".".join(str(part) for part in parts)
    return f"at {path}: " if path else ""


def parsed(text: str) -> Any:
    """The JSON in a text, which may stand between fences."""
    found = _FENCED.search(text)
    return json.loads(found[1] if found else text)
