"""What an editor offers: node types with their fields, templates, models and tools.

All of it depends on the installed version and on the policy of the operator alone, so it is computed once.
Keys, and the variables that have them, are never part of an answer.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import Struct

from roundel.nodes import TYPES
from roundel.nodes.loading import draft_text_plan
from roundel.server.admission import Route
from roundel.server.bodies import ResponseBody, problems
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.examples import Example, examples
from roundel.server.identity import Principal
from roundel.server.library import in_reader
from roundel.server.schemas import json_response, struct_response
from roundel.workflow.catalog import describe, localize
from roundel.workflow.functions import FunctionKind, installed_functions
from roundel.workflow.model_profile import PROVIDERS, installed_providers
from roundel.workflow.secrets import SecretMasker

router = APIRouter(prefix="/api/v1", tags=["catalog"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Language = Literal["en", "zh"]
InLanguage = Annotated[
    Language | None, Query(description="The language of all texts; without it, each text has both.")
]
_FUNCTION_KINDS: tuple[FunctionKind, ...] = ("function", "tool", "condition", "processor", "middleware")


class Catalog(Struct, frozen=True):
    """Every node type, and every other object of a workflow, with its fields in order."""

    node_types: dict[str, dict[str, Any]]
    """Every node type by name: title, description, ports, fields, example."""
    objects: dict[str, dict[str, Any]]
    """Every other object of a workflow by name: title, description, fields."""


@router.get("/node-types", responses={**problems(), 200: struct_response(Catalog)}, response_class=Response)
async def get_node_types(_who: Viewer, language: InLanguage = None) -> Response:
    """The fields of each node type and of each other object, with titles, descriptions, units, widgets,
    defaults and choices: in one language, or each text in both, as `{en, zh}`."""
    return json_response(await in_reader(_catalog, language))


@cache
def _catalog(language: Language | None) -> bytes:
    described = describe(TYPES)
    return msgspec.json.encode(localize(described, language) if language else described)


class TemplateView(Example, frozen=True):
    """A workflow to begin with."""

    ok: bool
    """Whether it can be run here as it is: some need Python functions, or files beside them."""


class TemplateList(Struct, frozen=True):
    """The templates."""

    templates: list[TemplateView]
    """The templates."""


@router.get(
    "/templates", responses={**problems(), 200: struct_response(TemplateList)}, response_class=Response
)
async def get_templates(request: Request, _who: Viewer) -> Response:
    """The examples that ship with the package, each with a script, so that it runs without a model."""
    return json_response(await in_reader(_templates, context_of(request)))


_encoded: WeakKeyDictionary[ServerContext, bytes] = WeakKeyDictionary()


def _templates(context: ServerContext) -> bytes:
    body = _encoded.get(context)
    if body is None:
        found = [
            TemplateView(**msgspec.structs.asdict(example), ok=_is_sound(context, example.text))
            for example in examples()
        ]
        body = _encoded[context] = msgspec.json.encode(TemplateList(found))
    return body


def _is_sound(context: ServerContext, text: str) -> bool:
    plan, report = draft_text_plan(text, policy=context.settings.policy)
    return plan is not None and not plan.draft and report.ok


class ModelView(ResponseBody):
    """A model endpoint that workflows may use."""

    provider: str = ""
    """The name of the provider."""
    base_url: str = ""
    """The address of the endpoint; empty for that of the provider."""
    has_key: bool
    """Whether the operator has set a key for it, which workflows then need not name."""


class ModelList(ResponseBody):
    """The models that workflows may use."""

    unrestricted: bool
    """Workflows may use any endpoint; the list has the providers that are known."""
    models: list[ModelView]
    """The endpoints."""


@router.get("/models", responses=problems())
async def get_models(request: Request, _who: Viewer) -> ModelList:
    """The providers and addresses of models that workflows may use."""
    policy = context_of(request).settings.policy
    plugins = [name for name in installed_providers() if name not in PROVIDERS]
    if policy.trusted:
        names = [*PROVIDERS, *plugins]
        return ModelList(
            unrestricted=True, models=[ModelView(provider=name, has_key=False) for name in names]
        )
    listed = [
        ModelView(provider=one.provider, base_url=one.base_url, has_key=bool(os.environ.get(one.key)))
        for one in policy.models
    ]
    known = {one.provider for one in listed}
    more = [ModelView(provider=name, has_key=False) for name in plugins if name not in known]
    return ModelList(unrestricted=False, models=listed + more)


class McpView(ResponseBody):
    """An MCP server that workflows may use: a program, or an address. A workflow names it exactly so."""

    name: str
    """Its name."""
    command: str = ""
    """The program; empty if it is an address."""
    args: list[str] = []
    """The arguments of the program."""
    url: str = ""
    """The address; empty if it is a program."""


class FunctionView(ResponseBody):
    """A Python function that workflows may name; `module:*` stands for all functions of a module."""

    name: str
    """The name of the function, `module:function`."""
    kind: Literal["function", "tool", "condition", "processor", "middleware"] | None = None
    """What an installed package has registered it as; null if it may be used as anything."""


class ToolList(ResponseBody):
    """The functions and servers that workflows may use."""

    unrestricted: bool
    """Workflows may use any function and any server."""
    python_code: bool
    """Workflows may run code that models write."""
    functions: list[FunctionView]
    """Python functions."""
    mcp: list[McpView]
    """MCP servers."""


@router.get("/tools", responses=problems())
async def get_tools(request: Request, _who: Viewer) -> ToolList:
    """The Python functions and MCP servers that workflows may use."""
    policy, masker = context_of(request).settings.policy, SecretMasker()
    functions = [FunctionView(name=name) for name in policy.functions]
    functions += [
        FunctionView(name=name, kind=kind) for kind in _FUNCTION_KINDS for name in installed_functions(kind)
    ]
    servers = []
    for name, server in policy.mcp.items():
        # An argument or an address may contain a key of the operator.
        masker.add_urls(server.url)
        args = [masker.mask(arg) for arg in server.args]
        servers.append(McpView(name=name, command=server.command, args=args, url=masker.mask(server.url)))
    return ToolList(
        unrestricted=policy.trusted,
        python_code=policy.trusted or policy.python_code,
        functions=functions,
        mcp=servers,
    )
