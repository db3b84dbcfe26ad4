"""The OpenAPI document: what FastAPI derives from the routes, completed by what it cannot know.

    x-role       the role that a route needs, from its dependency `caller(role)`; `anyone` if it has none
    x-body-limit the most bytes of a body (admission.py)
    problems     which errors a route can answer with: those of the guard (security.py) follow from the method
                 and the parameters, all others are named by the route (`problems` in bodies.py)
    structs      the data of lower layers (schemas.py), as components

The document depends on the installed version alone, and never on how a server was started: a copy of it is in
`docs/openapi.json`, and a test compares both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from roundel.server.admission import ANYONE, BODY_LIMIT, body_limit, role_of
from roundel.server.bodies import ProblemBody
from roundel.server.context import COOKIE
from roundel.server.problems import MEDIA_TYPE, TITLES, TYPE_PREFIX
from roundel.server.routes import (
    access,
    budgets,
    catalog,
    checks,
    control,
    debugging,
    events,
    inspection,
    memory,
    page,
    runs,
    system,
    workflows,
)
from roundel.server.schemas import REFERENCE, struct_components
from roundel.server.security import UNSAFE

TITLE, VERSION, DESCRIPTION = "Roundel", "1", "Runs loops of agents that always end."
ROUTERS = tuple(
    module.router
    for module in (
        runs,
        inspection,
        control,
        debugging,
        events,
        workflows,
        checks,
        catalog,
        access,
        memory,
        budgets,
        system,
        page,
    )
)
"""All routes, in the order of the document."""
TAGS = {
    "runs": "Start, list, read, control and debug runs.",
    "events": "The events of one run or of all runs, live or as they are stored.",
    "workflows": "Saved workflows and their versions.",
    "checks": "Check, draw, forecast and try texts that need not be saved.",
    "catalog": "What an editor offers: node types, templates, models and tools.",
    "access": "Sessions of browsers, tokens of programs, and the audit log.",
    "memory": "What the runs of a group remember.",
    "system": "The server itself: health, metrics, version and what the operator allows.",
}
PROBLEMS: dict[int, tuple[str, tuple[str, ...]]] = {
    400: ("The request is malformed.", ("bad-request",)),
    401: ("There is no valid token or session.", ("unauthenticated",)),
    403: ("The role, the groups or the origin of the caller do not allow this.", ("forbidden",)),
    404: ("The resource does not exist, or the caller may not see it.", ("not-found",)),
    409: (
        "The current state does not allow this.",
        ("conflict", "idempotency-conflict", "stale"),
    ),
    412: ("Someone else has saved another version.", ("stale",)),
    413: ("The body is too large.", ("too-large",)),
    414: ("The query is too long.", ("too-large",)),
    415: ("The body is not JSON.", ("unsupported-media-type",)),
    421: ("The Host header is not a name of this server.", ("misdirected",)),
    422: ("A parameter, the body or the workflow is not valid.", ("bad-request", "invalid-workflow")),
    428: ("The request must name the version to change.", ("precondition-required",)),
    429: ("Too many requests; try again later.", ("too-many-requests",)),
    500: ("The server has a defect; its log has the details.", ("internal-error",)),
    503: ("The server is starting, shutting down, or overloaded.", ("unavailable",)),
}
"""What each error status means, and the problems that come with it."""
SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "description": "A token for programs, as `roundel token create` prints it.",
        "scheme": "bearer",
    },
    "session": {
        "type": "apiKey",
        "description": "The session of a browser. The name of the cookie ends with the port that the browser "
        "connects to. Under TLS it begins with `__Host-`.",
        "in": "cookie",
        "name": f"{COOKIE}8420",
    },
}
"""Not as dependencies of the routes, which FastAPI would call for each request: `admit` reads the headers."""
_GUARD = (400, 403, 414, 421, 500, 503)
"""What the guard, or a defect, can answer to every request."""
_PROBLEM_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "`Bearer`.", "required": True, "schema": {"type": "string"}}},
    412: {"ETag": {"description": "The current version, if there is one.", "schema": {"type": "string"}}},
    429: {
        "Retry-After": {
            "description": "Seconds to wait.",
            "required": True,
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
    },
}


class Application(FastAPI):
    """An app whose document is complete."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = describe_api()
        return self.openapi_schema


@cache
def describe_api() -> dict[str, Any]:
    """The OpenAPI document, which all apps of a process share."""
    routes = api_routes()
    document = get_openapi(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        routes=routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    for route in routes:
        for method in sorted(route.methods or ()):
            _complete(document["paths"][route.path_format][method.lower()], route, method)
    components = document["components"]
    schemas = components["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # all errors are problems here
        schemas.pop(name, None)
    added = {"Problem": _problem_schema(), **struct_components()}
    assert not set(schemas) & set(added), set(schemas) & set(added)
    schemas.update(added)
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {f"Problem{status}": _problem_response(status) for status in PROBLEMS}
    components["securitySchemes"] = SECURITY_SCHEMES
    _tidy(document)
    return document


def api_routes() -> list[APIRoute]:
    """The routes that are part of the document."""
    known = [route for router in ROUTERS for route in router.routes]
    return [route for route in known if isinstance(route, APIRoute) and route.include_in_schema]


def _complete(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    role = role_of(route)
    operation["x-role"] = role
    if role != ANYONE:  # one of them is enough; FastAPI writes that both are needed
        operation["security"] = [{"token": []}, {"session": []}]
    operation["summary"] = route.name.replace("_", " ").capitalize()
    operation["operationId"] = route.name
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _parameter_schema(parameter["schema"])
    statuses = {*_GUARD}
    if role != ANYONE:
        statuses.add(401)
    if method in UNSAFE:
        statuses |= {413, 415}
    if "requestBody" in operation:
        operation[BODY_LIMIT] = body_limit(route)
    if operation.get("parameters") or "requestBody" in operation:
        statuses.add(422)
    if any(one["in"] == "path" for one in operation.get("parameters", ())):
        statuses.add(404)
    responses: dict[str, Any] = operation["responses"]
    named = {int(status) for status in responses if int(status) in PROBLEMS} - {422}
    kept = {status: one for status, one in responses.items() if int(status) not in PROBLEMS}
    errors = {
        str(status): {"$ref": f"#/components/responses/Problem{status}"}
        for status in sorted(statuses | named)
    }
    operation["responses"] = {**dict(sorted(kept.items())), **errors}


def _parameter_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Without null, which no URL and no header can contain, and without what the parameter says itself."""
    schema = {key: value for key, value in schema.items() if key not in ("description", "title")}
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema |= kinds[0]
    return schema


def _problem_schema() -> dict[str, Any]:
    schema: dict[str, Any] = ProblemBody.model_json_schema(ref_template=REFERENCE)
    definitions = schema.pop("$defs", {})
    for name, inner in definitions.items():
        schema["properties"] = _replace(schema["properties"], REFERENCE.format(model=name), inner)
    types = [f"{TYPE_PREFIX}{name}" for name in TITLES]
    schema["properties"]["type"]["enum"] = types
    return {**schema, "title": "Problem"}


def _replace(schema: Any, reference: str, inner: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_replace(one, reference, inner) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("$ref") == reference:
        return inner
    return {key: _replace(value, reference, inner) for key, value in schema.items()}


def _problem_response(status: int) -> dict[str, Any]:
    text, names = PROBLEMS[status]
    narrowed = {
        "properties": {
            "type": {"enum": [f"{TYPE_PREFIX}{name}" for name in names]},
            "status": {"const": status},
        }
    }
    schema = {"allOf": [{"$ref": "#/components/schemas/Problem"}, narrowed]}
    headers = _PROBLEM_HEADERS.get(status)
    return {
        "description": text,
        **({"headers": headers} if headers else {}),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


def _tidy(part: Any) -> None:
    """Removes the titles that pydantic makes of names, and the line breaks of docstrings."""
    if isinstance(part, list):
        for one in part:
            _tidy(one)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if key == "description" and isinstance(value, str):
            part[key] = " ".join(value.split())
        elif key == "properties" and isinstance(value, dict):
            for schema in value.values():
                if isinstance(schema, dict):
                    schema.pop("title", None)
                _tidy(schema)
        elif key == "schema" and isinstance(value, dict):
            value.pop("title", None)
            _tidy(value)
        else:
            _tidy(value)
