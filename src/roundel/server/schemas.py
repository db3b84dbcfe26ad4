"""Responses of plain structs in the OpenAPI document.

The data of lower layers are msgspec structs. A response of them is encoded as it is, and not copied into
models first: a drawing has thousands of parts. `struct_response` describes such a response, so that the
document stays true; tests compare answers with it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


def struct_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, without references: those of msgspec would point into nowhere in a document
    of FastAPI. The type must not contain itself."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    inlined: dict[str, Any] = _inline(schema, definitions)
    return inlined


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"]], definitions)
    parts = schema.get("prefixItems")
    if parts and all(part == parts[0] for part in parts):
        # A point: two numbers. The same in words that every tool for OpenAPI understands.
        schema = {key: value for key, value in schema.items() if key != "prefixItems"} | {"items": parts[0]}
    return {key: _inline(value, definitions) for key, value in schema.items()}


def struct_response(kind: Any, description: str = "Successful Response") -> dict[str, Any]:
    """A JSON response with a value of this type, for `responses=` of a route."""
    return {"description": description, "content": {"application/json": {"schema": struct_schema(kind)}}}


def json_response(body: bytes) -> Response:
    """A response whose body is encoded already, such as in a thread."""
    return Response(body, media_type="application/json")
