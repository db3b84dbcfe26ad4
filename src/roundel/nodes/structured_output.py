"""Read JSON out of the answers of models, and validate it against a JSON Schema.

A schema is part of a workflow, and an answer may be anything, so validation is bounded. Patterns of a schema
are matched like all others (workflow/pattern.py), not by Python's `re`, which cannot be interrupted; and
references are counted, since a few that refer to each other twice describe more work than there is time.

`jsonschema` is imported only when a schema is used, since importing it takes longer than loading a
workflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from roundel.workflow.evaluation_budget import evaluation_budget
from roundel.workflow.pattern import PatternError, compile_pattern

_decoder = json.JSONDecoder(strict=False)  # models write line breaks inside of strings
_MAX_OBJECTS_TRIED = 1000
"""How many opening braces are tried. It bounds the time for text that consists of braces."""
MAX_REFERENCES = 10_000
"""How many references one validation follows."""
_references_left: ContextVar[list[int]] = ContextVar("roundel_references")
"""A counter, since the validators of the library have no place for state of their own."""


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
    if _has_key(schema, "unevaluatedProperties") and _has_key(schema, "patternProperties"):
        return "'patternProperties' and 'unevaluatedProperties' cannot be used together here"
    unresolved = next((name for name in _references(schema) if not _resolves(name, schema)), "")
    return f"it refers to '{unresolved}', which it does not contain" if unresolved else ""


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_has_key(item, key) for item in value.values())
    return isinstance(value, list) and any(_has_key(item, key) for item in value)


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

    make = _bounded(jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator))
    # An empty registry: by default the library would fetch references of a schema from the network.
    validator = make(schema, registry=EMPTY_REGISTRY)
    _references_left.set([MAX_REFERENCES])
    try:
        with evaluation_budget():
            found = list(validator.iter_errors(value))
    except (PatternError, SchemaCostError) as error:
        return f"it cannot be compared with the schema: {error}"
    except RecursionError:
        return "it cannot be compared with the schema: the schema refers to itself without an end"
    errors = sorted(found, key=lambda error: list(map(str, error.absolute_path)))
    shown = (f"{_format_path(error.absolute_path)}{error.message}" for error in errors[:5])
    return "; ".join(shown)


class SchemaCostError(Exception):
    """Validation would take too long."""


@cache
def _bounded(make: Any) -> Any:
    """A validator class whose patterns have a time limit, and whose references are counted."""
    import jsonschema

    counted = {
        keyword: _count_references(make.VALIDATORS[keyword])
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef")
        if keyword in make.VALIDATORS
    }
    patterns = {
        "pattern": _validate_pattern,
        "patternProperties": _validate_pattern_properties,
        "additionalProperties": _validate_additional_properties,
    }
    extend: Any = jsonschema.validators.extend  # has no annotations
    return extend(make, {**patterns, **counted})


def _count_references(validate: Any) -> Any:
    def count(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        left = _references_left.get()
        left[0] -= 1
        if left[0] < 0:
            raise SchemaCostError(f"it follows more than {MAX_REFERENCES} references")
        yield from validate(validator, reference, instance, schema)

    return count


def _validate_pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    import jsonschema

    if validator.is_type(instance, "string") and compile_pattern(pattern).search(instance) is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _validate_pattern_properties(
    validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        found = compile_pattern(pattern)
        for key, value in instance.items():
            if found.search(key) is not None:
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _validate_additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[Any]:
    import jsonschema

    if not validator.is_type(instance, "object"):
        return
    patterns = [compile_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    extra = [key for key in instance if key not in known and not any(one.search(key) for one in patterns)]
    if validator.is_type(allowed, "object"):
        for key in extra:
            yield from validator.descend(instance[key], allowed, path=key)
    elif not allowed and extra:
        names = ", ".join(map(repr, sorted(extra)))
        verb = "was" if len(extra) == 1 else "were"
        yield jsonschema.ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


def _format_path(parts: Any) -> str:
    path = ".".join(str(part) for part in parts)
    return f"at {path}: " if path else ""


def parse_json(text: str) -> Any:
    """Parses a text as JSON, or its first fenced block if it has one."""
    found = _FENCED.search(text)
    return json.loads(found[1] if found else text)
