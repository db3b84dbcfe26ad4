"""Texts that need not be saved: check and draw them, forecast what a run costs, and try parts of them.

Nothing here imports code of users, starts a process, or calls a model. All of it takes time in proportion to
the text, so it happens in the threads of the library, under its time limit; also the encoding of the answer,
which is megabytes for a large drawing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Struct
from pydantic import Field, JsonValue

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing
from roundel.drawing.svg import Scheme, svg
from roundel.kernel.commands import Call
from roundel.nodes.agent_models import pricing
from roundel.nodes.loading import check_models
from roundel.nodes.prompt import Template
from roundel.nodes.score import Score, make_scorer
from roundel.nodes.services import NodeError
from roundel.plan.forecast import Forecast, forecast
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.overrides import with_limits
from roundel.plan.proof import Proof, prove
from roundel.server.bodies import Data, Name, RequestBody, ShortText, Text, problems
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import in_reader, read_text_plan
from roundel.server.problems import Problem
from roundel.server.schemas import json_response, struct_response
from roundel.workflow.condition import Condition, compile_condition
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.fields import INVALID, Reader, locate_or_report
from roundel.workflow.functions import FunctionError, get_builtin
from roundel.workflow.message import Message
from roundel.workflow.model_profile import choose_model
from roundel.workflow.processor import Processor, RegexExtract, compile_processor

router = APIRouter(prefix="/api/v1", tags=["checks"])
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]
Variables = dict[Name, str | int | float | bool | None]
Limits = dict[Name, int | float | Literal["lock", "allow"]]

MAX_TRIED = 100_000
"""Characters of a text that something is tried on."""
MAX_CONFIG = 20_000
"""Characters of what is tried, as JSON."""
MAX_EXPRESSIONS = 50
"""Expressions in a template that is tried: each may take half a second."""
MAX_COLLAPSED = 1_000
"""Nodes that are drawn as single cards."""
MAX_RESULT = 1_000_000
"""Characters of a result."""


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


class VariableView(Struct, frozen=True):
    """A variable of a workflow, for the form that starts it."""

    name: str
    """The name of the variable."""
    value: Any
    """Its value, if it is no secret."""
    secret: bool
    """Whether it is secret; then its value is null."""


class CheckResult(Struct, frozen=True):
    """What is known about a text."""

    ok: bool
    """It has no errors, and can be run."""
    draft: bool
    """It has errors, and is drawn as far as it can be read."""
    workflow: str
    """The name that runs of it have."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings."""
    loops: tuple[Proof, ...]
    """What bounds each loop; empty for a draft."""
    variables: tuple[VariableView, ...]
    """The variables of the workflow."""
    drawing: Drawing | None
    """Everything in the text; null if it has no graph."""
    collapsed_drawing: Drawing | None = None
    """The same with the nodes of `collapsed` as single cards; null if there are none of them."""


@router.post("/check", responses={**problems(), 200: struct_response(CheckResult)}, response_class=Response)
async def check_text(body: CheckBody, request: Request, _who: Viewer) -> Response:
    """The diagnostics of a text, its loops with their bounds, and its drawing, also if it has errors."""
    return json_response(await in_reader(_check, context_of(request), body))


def _check(context: ServerContext, body: CheckBody) -> bytes:
    name = body.name or "<text>"
    plan, report = read_text_plan(context, body.text, body.variables, name, choose_model())
    # A run of a demo's workflow has a script.
    if plan is not None and plan.workflow.name not in context.scripts:
        check_models(plan, report)
    masker = report.secrets.masker if report.secrets is not None else None
    proofs = tuple(prove(plan)) if plan is not None and not plan.draft else ()
    drawing = _drawn(plan, report, body.density) if plan is not None else None
    result = CheckResult(
        ok=report.ok and plan is not None and not plan.draft,
        draft=plan is None or plan.draft or not report.ok,
        workflow=plan.workflow.name if plan is not None else "",
        diagnostics=tuple(report.diagnostics),
        loops=masker.mask_value(proofs) if masker is not None else proofs,
        variables=_variables(plan, report),
        drawing=drawing,
        collapsed_drawing=_collapsed(plan, report, body) if plan is not None and body.collapsed else None,
    )
    return msgspec.json.encode(result, enc_hook=str)


def _collapsed(plan: Plan, report: Report, body: CheckBody) -> Drawing | None:
    drawing = _drawn(plan, report, body.density, body.collapsed)
    return drawing if any(node.inside is not None for node in drawing.nodes) else None


def _drawn(plan: Plan, report: Report, density: Density, collapsed: Collection[str] = ()) -> Drawing:
    masker = report.secrets.masker if report.secrets is not None else None
    mask = masker.mask if masker is not None else str
    return draw(plan, report.findings, mask=mask, density=density, collapsed=collapsed)


def _variables(plan: Plan | None, report: Report) -> tuple[VariableView, ...]:
    finder = report.secrets
    if plan is None or finder is None:
        return ()
    return tuple(
        VariableView(name, None, secret=True)
        if finder.is_secret(name)
        else VariableView(name, finder.masker.mask_value(value), secret=False)
        for name, value in plan.workflow.vars.items()
    )


class PictureBody(CheckBody):
    """A text to draw."""

    scheme: Scheme = "auto"
    """The colours; `auto` follows what the reader of the picture prefers."""


@router.post(
    "/picture",
    responses={
        **problems(),
        200: {"description": "The picture.", "content": {"image/svg+xml": {"schema": {"type": "string"}}}},
    },
    response_class=Response,
)
async def draw_text(body: PictureBody, request: Request, _who: Viewer) -> Response:
    """The drawing of a text as an SVG file, also if it has errors; 422 if it has no graph."""
    return Response(await in_reader(_picture, context_of(request), body), media_type="image/svg+xml")


def _picture(context: ServerContext, body: PictureBody) -> bytes:
    plan, report = read_text_plan(context, body.text, body.variables, body.name or "<text>")
    if plan is None:
        raise Problem(422, "invalid-workflow", "the text has no graph that could be drawn")
    drawing = _drawn(plan, report, body.density, body.collapsed)
    for problem in drawing.problems:
        if problem.code == "too-large-to-draw":
            raise Problem(422, "invalid-workflow", problem.message)
    return svg(drawing, body.scheme).encode()


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


class ForecastResult(Struct, frozen=True):
    """What a run of a text may take."""

    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings."""
    forecast: Forecast | None
    """None if the text has errors."""
    loops: tuple[Proof, ...]
    """What bounds each loop."""


@router.post(
    "/forecast", responses={**problems(), 200: struct_response(ForecastResult)}, response_class=Response
)
async def forecast_text(body: ForecastBody, request: Request, _who: Viewer) -> Response:
    """How many model calls, tool calls and tokens a run takes, and what they cost: at worst, and usually."""
    return json_response(await in_reader(_forecast, context_of(request), body))


def _forecast(context: ServerContext, body: ForecastBody) -> bytes:
    name = body.name or "<text>"
    plan, report = read_text_plan(context, body.text, body.variables, name, choose_model())
    diagnostics = tuple(report.diagnostics)
    if plan is None or plan.draft or not report.ok:
        return msgspec.json.encode(ForecastResult(diagnostics, None, ()))
    if body.limits:
        plan = compile_workflow(with_limits(plan.workflow, body.limits))
    found = forecast(plan, pricing(plan.workflow.models)), tuple(prove(plan))
    if report.secrets is not None:
        found = report.secrets.masker.mask_value(found)
    return msgspec.json.encode(ForecastResult(diagnostics, *found))


# Trying parts of a workflow.


class TryBody(RequestBody):
    """A part of a workflow, as it is written there, and a message to try it on."""

    kind: Literal["condition", "processor", "score", "template"]
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


class TryResult(Struct, frozen=True):
    """What became of it. An error is part of the answer: the text that is tried may well be wrong."""

    result: Any = None
    """condition: a truth value. score: a number, or null if there is none. template: a text. processor: the
    text and the data of the message, or null if it is dropped."""
    error: str | None = None
    """Why it did not work; null if it did."""


class _Refused(ValueError):
    """It cannot be tried; the text says why."""


@router.post("/try", responses={**problems(), 200: struct_response(TryResult)}, response_class=Response)
async def try_part(body: TryBody, _who: Operator) -> Response:
    """Try a condition, a processor, a score or a template on a message. The code is that of the engine;
    Python functions are not called."""
    return json_response(await in_reader(_try, body))


def _try(body: TryBody) -> bytes:
    message = Message(body.text, data=body.data)
    try:
        if len(msgspec.json.encode(body.config)) > MAX_CONFIG:
            raise _Refused(f"it has more than {MAX_CONFIG:,} characters")
        result = TryResult(_PARTS[body.kind](body, message))
    # RecursionError: data that is nested more deeply than the evaluator can follow.
    except (ValueError, NodeError, FunctionError, RecursionError) as error:
        result = TryResult(error=str(error) or type(error).__name__)
    encoded = msgspec.json.encode(result, enc_hook=str)
    if len(encoded) > MAX_RESULT:
        encoded = msgspec.json.encode(TryResult(error=f"the result has more than {MAX_RESULT:,} characters"))
    return encoded


def _try_condition(body: TryBody, message: Message) -> bool:
    if body.config is None:
        return True
    condition: Condition | None = _read(body.config, Condition, "the condition")
    if condition is not None and condition.function is not None:
        _refuse_function("condition", condition.function)
    test = compile_condition(condition)
    run = {"id": "try", "input": body.text}
    return test is None or test(message, lambda: {"round": body.round, "run": run, "vars": body.vars})


def _try_processor(body: TryBody, message: Message) -> dict[str, Any] | None:
    processor: Processor = _read(body.config, Processor, "the processor")
    if processor.function is not None:
        _refuse_function("processor", processor.function)
    if processor.regex is not None:
        _refuse_large_result(processor.regex, body.text)
    process = compile_processor(processor)
    assert process is not None
    delivered = process(message)
    return None if delivered is None else {"text": delivered.text, "data": delivered.data}


def _refuse_large_result(extract: RegexExtract, text: str) -> None:
    """Refuses an extraction that may multiply the text: a template is written once for each match."""
    matches = len(text) + 1 if extract.multiple else 1
    template = extract.template
    if matches * len(template) + template.count("{match}") * len(text) > 20 * MAX_RESULT:
        raise _Refused("the template is too long for this text: the result could become too large")


def _try_score(body: TryBody, message: Message) -> int | float | None:
    score = None if body.config is None else _read(body.config, Score, "the score")
    return make_scorer(score)(message, body.round)


def _try_template(body: TryBody, message: Message) -> str:
    if not isinstance(body.config, str):
        raise _Refused("a template is a text")
    if body.config.count("{{") > MAX_EXPRESSIONS:
        raise _Refused(f"it has more than {MAX_EXPRESSIONS} expressions")
    return Template(body.config).render(Call("try", 0, (message,), None, 0, body.round))


_PARTS = {
    "condition": _try_condition,
    "processor": _try_processor,
    "score": _try_score,
    "template": _try_template,
}


def _read(config: JsonValue, kind: Any, what: str) -> Any:
    """Reads a part as the loader does; `_Refused` with its errors."""
    report = Report()
    at = locate_or_report(config, report)
    found = INVALID if at is None else Reader(report).read(at, kind, what)
    if found is INVALID or not report.ok:
        raise _Refused(
            "; ".join(f"{one.message}{f' ({one.hint})' if one.hint else ''}" for one in report.errors)
        )
    return found


def _refuse_function(kind: Literal["condition", "processor"], name: str) -> None:
    """Functions of the engine are the same everywhere. All others are code, and only a run calls them."""
    if get_builtin(kind, name) is None:
        raise _Refused(f"'{name:.200}' is a Python function; it is called in a run, and cannot be tried")
