"""What a Python function takes, as a JSON Schema; and arguments from a model, as the function wants them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_type_hints

import msgspec

from roundel.nodes.services import NodeError, ToolError

CONTEXT, KEY, WORKSPACE = "_context", "idempotency_key", "workspace"
LENT = (CONTEXT, KEY, WORKSPACE)
"""Parameters that the host fills in; a model never sees them."""
_GOOGLE = re.compile(r"^\s*(?:Args|Arguments|Parameters):\s*$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_GOOGLE_ITEM = re.compile(r"^\s+(\w+)\s*(?:\([^)]*\))?:\s*(.+)$", re.MULTILINE)
_FIELD_ITEM = re.compile(r"^\s*:param\s+(?:[\w\[\], .|]+\s+)?(\w+):\s*(.+)$", re.MULTILINE)


def description(function: Callable[..., Any]) -> str:
    """The first paragraph of its docstring."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of what it takes; NodeError if nobody can know."""
    properties: dict[str, Any] = {}
    required, anything = [], False
    said = _said(function)
    for name, parameter in _taken(function).items():
        if parameter.kind is parameter.VAR_KEYWORD:
            anything = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            properties[name] = _schema(function, parameter)
            if name in said:
                properties[name]["description"] = said[name]
            if parameter.default is parameter.empty:
                required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": anything}
    if required:
        schema["required"] = required
    return schema


def bound(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the types that the function names; ToolError says what does not fit."""
    taken, hints = _taken(function), _hints(function)
    try:
        inspect.Signature(list(taken.values())).bind(**_by_name(taken, arguments))
    except TypeError as error:
        wanted = ", ".join(taken) or "nothing"
        raise ToolError(f"wrong arguments: {error}; it takes {wanted}") from None
    first, named = [], {}
    for name, value in arguments.items():
        value = _converted(name, value, hints.get(name, Any))
        if name in taken and taken[name].kind is inspect.Parameter.POSITIONAL_ONLY:
            first.append((list(taken).index(name), value))
        else:
            named[name] = value
    return tuple(value for _, value in sorted(first, key=lambda item: item[0])), named


def lends(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _by_name(taken: dict[str, inspect.Parameter], arguments: dict[str, Any]) -> dict[str, Any]:
    """For a first look a positional-only parameter may be named."""
    for name, parameter in taken.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            taken[name] = parameter.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return arguments


def _taken(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        name = getattr(function, "__name__", repr(function))
        message = f"nobody can know what the function '{name}' takes; give its 'parameters' as a JSON Schema"
        raise NodeError(message) from None
    return {name: parameter for name, parameter in signature.parameters.items() if name not in LENT}


@lru_cache(maxsize=512)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # names that are not there at run time: take what comes
        return {}


def _schema(function: Callable[..., Any], parameter: inspect.Parameter) -> dict[str, Any]:
    hint = _hints(function).get(parameter.name, Any)
    try:
        schema = _inlined(hint)
    except TypeError:  # a type that has no JSON form
        schema = {}
    plain = isinstance(parameter.default, (str, int, float, bool, list, dict))
    return {**schema, "default": parameter.default} if plain else schema


def _inlined(hint: Any) -> dict[str, Any]:
    """The schema of a type, with its definitions inside."""
    (schema,), definitions = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
    return {**schema, "$defs": definitions} if definitions else schema


def _converted(name: str, value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"wrong arguments: '{name}': {error}") from None
    except TypeError:
        return value  # a type that msgspec does not know


def _said(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each parameter."""
    text = inspect.getdoc(function) or ""
    section = _GOOGLE.search(text)
    items = _GOOGLE_ITEM.findall(section[1]) if section else []
    return {name: words.strip() for name, words in (*items, *_FIELD_ITEM.findall(text))}
