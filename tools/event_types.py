"""What the structs of events say about themselves, for the tables of docs/events.md and for TypeScript."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from roundel.kernel.payloads import EventData, Payload, kinds_of
from roundel.runs.view import ViewSnapshot
from roundel.workflow.address import PathStep

NAMES = tuple(dict.fromkeys(kind.event for kind in get_args(EventData)))
"""The names of all events."""


def field_texts(kind: type[Any]) -> dict[str, str]:
    """The texts below the fields of a struct, by field."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__ == kind.__module__:
            found |= dict(_texts_in(one))
    return {name: found[name] for name in kind.__struct_fields__}


def _texts_in(kind: type[Any]) -> Iterator[tuple[str, str]]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, " ".join(str(text.value.value).split())


def tag_of(kind: type[Payload]) -> tuple[str, tuple[str, ...]] | None:
    """The field that says which struct of its event it is, and its values; None if the event has only one."""
    if len(kinds_of(kind.event)) == 1:
        return None
    config = kind.__struct_config__
    if config.tag_field:
        return config.tag_field, (str(config.tag),)
    hint = msgspec.inspect.type_info(kind)
    assert isinstance(hint, msgspec.inspect.StructType)
    (status,) = (one.type for one in hint.fields if one.name == "status")
    assert isinstance(status, msgspec.inspect.LiteralType)
    return "status", tuple(map(str, status.values))


def table(name: str) -> str:
    """The tables of an event; KeyError if there is none of that name."""
    kinds = kinds_of(name)
    if not kinds:
        raise KeyError(name)
    return "\n".join(map(_table, kinds))


def _table(kind: type[Payload]) -> str:
    tag, texts = tag_of(kind), field_texts(kind)
    head = "| field | meaning |\n|---|---|\n"
    rows = [f"| `{field}` | {text} |\n" for field, text in texts.items()]
    if tag is None:
        return "".join([head, *rows])
    values = " or ".join(f"`{value}`" for value in tag[1])
    summary = " ".join((kind.__doc__ or "").split())
    if not kind.__struct_config__.tag_field:
        return "".join([f"With the `{tag[0]}` {values}:\n\n", head, *rows])
    return "".join(
        [head, f"| `{tag[0]}` | {values}: {summary[0].lower()}{summary[1:].rstrip('.')} |\n", *rows]
    )


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of all structs that occur in events, by name, with the texts of their fields."""
    return _schemas(get_args(EventData), Payload)


def view_schemas() -> dict[str, dict[str, Any]]:
    """The same for the structs of a view that do not occur in events, nor around them."""
    found = _schemas((ViewSnapshot,), ViewSnapshot)
    return {name: schema for name, schema in found.items() if name not in {*schemas(), PathStep.__name__}}


def _schemas(kinds: tuple[Any, ...], home: type[Any]) -> dict[str, dict[str, Any]]:
    """`home` is in the module that knows all of them."""
    components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    found: dict[str, dict[str, Any]] = dict(components[1])
    for name, schema in found.items():
        kind = getattr(inspect.getmodule(home), name, None)
        for field, text in field_texts(kind).items() if kind is not None else ():
            schema["properties"][field] = {**_shown(schema["properties"][field]), "description": text}
    return found


def _shown(field: dict[str, Any]) -> dict[str, Any]:
    """A field as JSON has it: one that is None by default is left out, and never null."""
    if "default" not in field or field["default"] is not None or "anyOf" not in field:
        return field
    return {**field, "anyOf": [one for one in field["anyOf"] if one != {"type": "null"}]}
