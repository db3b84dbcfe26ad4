"""Texts that need not be saved: check and draw them, forecast what a run costs, and try parts of them.

Nothing here imports code of users or calls a model. Worker processes do all of it, also the encoding of the
answer, which is megabytes for a large drawing (text_jobs.py, trials.py).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field, JsonValue

from roundel.drawing.drawing import Density
from roundel.drawing.svg import Scheme
from roundel.server.admission import PART_BODY, TEXT_BODY, Route
from roundel.server.bodies import Data, RequestBody, ShortText, Text, problems
from roundel.server.context import caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import UNNAMED, in_worker
from roundel.server.routes.runs import Limits, Variables
from roundel.server.schemas import json_response, struct_response
from roundel.server.text_jobs import Check, CheckResult, ForecastResult, ForecastText, Picture
from roundel.server.trials import Part, Try, TryResult
from roundel.workflow.model_profile import choose_model

router = APIRouter(prefix="/api/v1", tags=["checks"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]

MAX_TRIED = 100_000
"""Characters of a text that something is tried on."""
MAX_COLLAPSED = 1_000
"""Nodes that are drawn as single cards."""


class CheckBody(RequestBody):
    """A text to check."""

    text: Text
    """The text of a workflow."""
    variables: Variables = {}
    """Values of variables."""
    name: ShortText = ""
    """The name of the file in diagnostics."""
    density: Density = "normal"
    """`compact` draws smaller."""
    collapsed: Annotated[list[ShortText], Field(max_length=MAX_COLLAPSED)] = []
    """Keys of nodes with graphs inside that are drawn as single cards; keys of other nodes are ignored."""


@router.post(
    "/check",
    openapi_extra=TEXT_BODY,
    responses={**problems(429), 200: struct_response(CheckResult)},
    response_class=Response,
)
async def check_text(body: CheckBody, request: Request, who: Viewer) -> Response:
    """The diagnostics of a text, its loops with their bounds, and its drawing, also if it has errors."""
    job = Check(
        text=body.text,
        variables=body.variables,
        name=body.name or UNNAMED,
        model=choose_model(),
        density=body.density,
        collapsed=tuple(body.collapsed),
        scripted=tuple(context_of(request).scripts),
    )
    return json_response(await in_worker(request, who, job))


class PictureBody(CheckBody):
    """A text to draw."""

    scheme: Scheme = "auto"
    """The colours; `auto` follows what the reader of the picture prefers."""


@router.post(
    "/picture",
    openapi_extra=TEXT_BODY,
    responses={
        **problems(429),
        200: {"description": "The picture.", "content": {"image/svg+xml": {"schema": {"type": "string"}}}},
    },
    response_class=Response,
)
async def draw_text(body: PictureBody, request: Request, who: Viewer) -> Response:
    """The drawing of a text as an SVG file, also if it has errors; 422 if it has no graph."""
    job = Picture(
        text=body.text,
        variables=body.variables,
        name=body.name or UNNAMED,
        density=body.density,
        collapsed=tuple(body.collapsed),
        scheme=body.scheme,
    )
    return Response(await in_worker(request, who, job), media_type="image/svg+xml")


class ForecastBody(RequestBody):
    """A text to forecast."""

    text: Text
    """The text of a workflow."""
    variables: Variables = {}
    """Values of variables."""
    limits: Limits = {}
    """Limits to use instead of those in the text."""
    name: ShortText = ""
    """The name of the file in diagnostics."""


@router.post(
    "/forecast",
    openapi_extra=TEXT_BODY,
    responses={**problems(429), 200: struct_response(ForecastResult)},
    response_class=Response,
)
async def forecast_text(body: ForecastBody, request: Request, who: Viewer) -> Response:
    """How many model calls, tool calls and tokens a run takes, and what they cost: at worst, and usually."""
    job = ForecastText(
        text=body.text,
        variables=body.variables,
        name=body.name or UNNAMED,
        model=choose_model(),
        limits=body.limits,
    )
    return json_response(await in_worker(request, who, job))


# Trying parts of a workflow.


class TryBody(RequestBody):
    """A part of a workflow, as it is written there, and a message to try it on."""

    kind: Part
    """What is tried."""
    config: JsonValue
    """It, as it is written in a workflow."""
    text: Annotated[str, Field(max_length=MAX_TRIED)] = ""
    """The text of the message."""
    data: Data | None = None
    """The structured fields of the message."""
    round: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """The round that it is tried in."""
    vars: Data = {}
    """The variables that expressions read."""


@router.post(
    "/try",
    openapi_extra=PART_BODY,
    responses={**problems(429), 200: struct_response(TryResult)},
    response_class=Response,
)
async def try_part(body: TryBody, request: Request, who: Operator) -> Response:
    """Try a condition, a processor, a score or a template on a message. The code is that of the engine;
    Python functions are not called."""
    job = Try(
        kind=body.kind,
        config=body.config,
        text=body.text,
        data=body.data,
        round=body.round,
        vars=body.vars,
    )
    return json_response(await in_worker(request, who, job))
