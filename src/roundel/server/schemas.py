"""Responses of plain structs in the OpenAPI document.

The data of lower layers are msgspec structs. A response of them is encoded as it is, and not copied into
models first: a drawing has thousands of parts. `struct_response` describes such a response, so that the
document stays true; tests compare answers with it. The text below a field describes it, as pydantic reads it
from models.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

REFERENCE = "#/components/schemas/{model}"
_kinds: list[Any] = []
"""The types of all responses that were described, of which the document has the components."""


def struct_response(kind: Any, description: str = "Successful Response") -> dict[str, Any]:
    """A JSON response with a value of this type, for `responses=` of a route."""
    _kinds.append(kind)
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE.format(model="{name}"))
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def either_response(*kinds: Any) -> dict[str, Any]:
    """A JSON response with a value of one of these types, which has no tag."""
    schemas = [struct_response(kind)["content"]["application/json"]["schema"] for kind in kinds]
    content = {"application/json": {"schema": {"anyOf": schemas}}}
    return {"description": "Successful Response", "content": content}


def struct_components() -> dict[str, Any]:
    """The schemas of all structs in responses, by name."""
    _, found = msgspec.json.schema_components(_kinds, ref_template=REFERENCE.format(model="{name}"))
    texts = {kind.__name__: field_texts(kind) for kind in _structs()}
    for name, schema in found.items():
        for field, text in texts.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field] = {**schema["properties"][field], "description": text}
    return {name: _plain(schema) for name, schema in found.items()}


def _structs() -> list[type[Struct]]:
    """All structs that the described types contain."""
    found: dict[type[Struct], None] = {}

    def visit(part: Any) -> None:
        if isinstance(part, (list, tuple)):
            for one in part:
                visit(one)
        elif isinstance(part, msgspec.inspect.Field):
            visit(part.type)
        elif isinstance(part, msgspec.inspect.StructType):
            if part.cls not in found:
                found[part.cls] = None
                visit(part.fields)
        elif isinstance(part, msgspec.inspect.Type):
            visit([getattr(part, name) for name in part.__struct_fields__])

    visit(msgspec.inspect.multi_type_info(_kinds))
    return list(found)


def field_texts(kind: type[Struct]) -> dict[str, str]:
    """The texts below the fields of a struct, also of those that it inherits."""
    texts: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if not issubclass(cls, Struct) or cls is Struct:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[field.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


def _plain(schema: Any) -> Any:
    """The same in words that every tool for OpenAPI understands."""
    if isinstance(schema, (list, tuple)):  # a default may be a tuple
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    parts = schema.get("prefixItems")
    if parts and all(part == parts[0] for part in parts):  # a point: two numbers
        schema = {key: value for key, value in schema.items() if key != "prefixItems"} | {"items": parts[0]}
    return {key: _plain(value) for key, value in schema.items()}


def json_response(body: bytes) -> Response:
    """A response whose body is encoded already, such as in a thread."""
    return Response(body, media_type="application/json")
