"""Read JSON out of the answers of models, and validate it against a JSON Schema.

A schema is part of a workflow, and an answer may be anything, so validation is bounded. All keywords
together have the budget of a step (workflow/evaluation_budget.py). Patterns of a schema are matched like all
others (workflow/pattern.py), not by Python's `re`, which cannot be interrupted; unique items are compared by
their hashes, not each with each; and references are counted, since a few that refer to each other twice
describe more work than there is time.

`jsonschema` is imported only when a schema is used, since importing it takes longer than loading a
workflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from itertools import islice
from math import inf
from typing import Any

from roundel.workflow.evaluation_budget import (
    STEP_SECONDS,
    BudgetExceeded,
    current_budget,
    evaluation_budget,
    note_work,
)
from roundel.workflow.pattern import PatternError, compile_pattern

_MAX_OBJECTS_TRIED = 1000
"""How many opening braces are tried. It bounds the time for text that consists of braces."""
_MAX_DECODED = 20_000_000
"""Characters that are decoded in vain before the search ends: after a mistake it begins anew inside of what
was decoded."""
MAX_REFERENCES = 10_000
"""How many references one validation follows."""
MAX_ERRORS = 1000
"""How many errors one validation looks for."""
_MAX_REASON = 500
"""Characters that are kept at either end of an error. The library writes the whole value into it."""
_references_left: ContextVar[list[int]] = ContextVar("roundel_references")
"""A counter, since the validators of the library have no place for state of their own."""


class JsonScanner:
    """Decodes JSON values in a long text, one behind the other.

    An error of the library counts the lines before it. In a text with many mistakes that takes a time that
    grows with the square of its length, so the scanner cuts off what it has passed."""

    _CUT = 1 << 16

    def __init__(self, text: str, decoder: json.JSONDecoder) -> None:
        self._text, self._decode = text, decoder.raw_decode
        self._passed = 0

    def decode(self, start: int) -> tuple[Any, int]:
        """The value that begins at `start`, which never decreases, and where it ends. Raises what the decoder
        raises; `mistake_at` then says where the mistake is."""
        if start - self._passed > self._CUT:
            self._text = self._text[start - self._passed :]
            self._passed = start
        value, end = self._decode(self._text, start - self._passed)
        return value, end + self._passed

    def mistake_at(self, error: json.JSONDecodeError) -> int:
        return error.pos + self._passed


_decoder = json.JSONDecoder(strict=False)  # models write line breaks inside of strings


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order: the whole text, in a fenced block, or among words. Objects
    inside of others are not found, nor those inside of an object that is cut off at the end of the text:
    a part of an incomplete answer must not count as the answer."""
    note_work(len(text))
    scanner, decoded = JsonScanner(text, _decoder), 0
    start, end = text.find("{"), len(text.rstrip())
    for _ in range(_MAX_OBJECTS_TRIED):
        if start < 0:
            return
        try:
            found, after = scanner.decode(start)
        except json.JSONDecodeError as error:
            at = scanner.mistake_at(error)
            decoded += at - start
            if at >= end or error.msg.startswith("Unterminated") or decoded > _MAX_DECODED:
                return
            after = start + 1
        except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
            return
        else:
            yield found
        start = text.find("{", after)


_FENCE_BEGINS = re.compile(r"```(?:json)?[^\S\n]*\n")
"""Up to the end of the line only: a pattern that could divide blank lines in several ways would take a time
that grows with the square of their number."""


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
        with evaluation_budget() as budget:
            budget.begin(inf)
            found = list(islice(validator.iter_errors(value), MAX_ERRORS))
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

    keywords = {
        **make.VALIDATORS,
        "pattern": _validate_pattern,
        "patternProperties": _validate_pattern_properties,
        "additionalProperties": _validate_additional_properties,
        "uniqueItems": _validate_unique_items,
    }
    for keyword in make.VALIDATORS.keys() & {"$ref", "$dynamicRef", "$recursiveRef"}:
        keywords[keyword] = _count_references(make.VALIDATORS[keyword])
    extend: Any = jsonschema.validators.extend  # has no annotations
    return extend(make, {keyword: _bound(validate) for keyword, validate in keywords.items()})


def _bound(validate: Any) -> Any:
    """A keyword that counts for the budget, and whose errors are short."""

    def bounded(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget = current_budget.get()
        assert budget is not None
        try:
            budget.spend()
        except BudgetExceeded:
            raise SchemaCostError(f"that takes more than {STEP_SECONDS:g} seconds") from None
        for error in validate(validator, expected, instance, schema) or ():
            if len(error.message) > 2 * _MAX_REASON:
                error.message = f"{error.message[:_MAX_REASON]} … {error.message[-_MAX_REASON:]}"
            yield error

    return bounded


def _count_references(validate: Any) -> Any:
    def count(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        left = _references_left.get()
        left[0] -= 1
        if left[0] < 0:
            raise SchemaCostError(f"it follows more than {MAX_REFERENCES} references")
        yield from validate(validator, reference, instance, schema)

    return count


def _validate_unique_items(validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[Any]:
    import jsonschema

    if not wanted or not validator.is_type(instance, "array"):
        return
    if len({_identity(item) for item in instance}) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


def _identity(value: Any) -> Any:
    """Equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return frozenset((key, _identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_identity, value))
    return (value,) if isinstance(value, bool) else value


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
    note_work(len(text))
    begin = _FENCE_BEGINS.search(text)
    end = text.find("```", begin.end()) if begin is not None else -1
    return json.loads(text[begin.end() : end] if begin is not None and end >= 0 else text)
