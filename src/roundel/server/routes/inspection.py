"""What happens inside a run: its state, its questions and its rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from roundel.drawing.drawing import Density
from roundel.hosts.control import Question
from roundel.kernel.events import RoundStatus, stamp
from roundel.runs.calls import CallDetails, TextPage, page_of, shortened
from roundel.runs.inspection import RunInspection
from roundel.runs.rounds import LoopRounds
from roundel.runs.view import ViewSnapshot
from roundel.server.admission import Route
from roundel.server.bodies import Cursor, ResponseBody, ShortText, problems
from roundel.server.context import context_of
from roundel.server.library import in_worker
from roundel.server.problems import Problem
from roundel.server.routes.runs import RunId, Viewer
from roundel.server.schemas import either_response, json_response, struct_response
from roundel.server.text_jobs import DrawRun, RunPlan
from roundel.workflow.message import Message

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=Route)


PAGE_CHARACTERS = 1_000_000
"""A page of rounds ends when their outputs have so many characters."""
MAX_EXECUTIONS = 100_000
"""How many executions a view may have."""
MAX_VIEW_BYTES = 32_000_000
"""How long it may be."""
MAX_PLANS = 50
"""How many encoded plans a server keeps; one of 300 nodes has some 200 kB."""


@router.get("/runs/{run_id}/plan", responses={**problems(409, 429), 200: struct_response(RunPlan)})
async def get_plan(
    run_id: RunId,
    request: Request,
    who: Viewer,
    density: Annotated[Density, Query(description="`compact` draws smaller.")] = "compact",
) -> Response:
    """What the run executes: its drawing, what bounds its loops, its forecast and its limits."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    # It takes a third of a second to draw 300 nodes, and each tab asks for it.
    key = (run_id, density)
    encoded = context.plans.pop(key, None)
    if encoded is None:
        job = DrawRun(pinned=await context.runs.store.pinned(run_id), density=density)
        encoded = await in_worker(request, who, job)
    context.plans[key] = encoded
    if len(context.plans) > MAX_PLANS:
        del context.plans[next(iter(context.plans))]
    return json_response(encoded)


class QuestionView(Struct, frozen=True, kw_only=True):
    """A question to a person."""

    address: str
    """The address of the node that asks, such as `Review[2]`."""
    node_id: str
    """The id of the node that asks."""
    prompt: str
    """The question."""
    inputs: tuple[Message, ...]
    """The messages that the node has received."""
    tool: dict[str, Any] | None = None
    """The name and arguments of a tool call that a person has to approve."""
    deadline: str | None = None
    """When it has to be answered; null if there is no such time."""
    default: Any = None
    """The answer if nobody gives one by then: a text, or an object with the data of the answer; null if the
    node has none."""


class RunState(RunInspection, frozen=True, kw_only=True):
    """The state of a run, for a debugger."""

    questions: tuple[QuestionView, ...]  # type: ignore[assignment]
    """The questions that wait for a person."""


def _question_view(question: Question) -> dict[str, Any]:
    seen: dict[str, Any] = msgspec.to_builtins(question, enc_hook=repr)
    return {**seen, "deadline": stamp(question.deadline) if question.deadline is not None else None}


def state_view(state: RunInspection) -> dict[str, Any]:
    seen: dict[str, Any] = msgspec.to_builtins(state, enc_hook=repr)
    return {**seen, "questions": [_question_view(question) for question in state.questions]}


@router.get("/runs/{run_id}/state", responses={**problems(409), 200: struct_response(RunState)})
async def get_state(run_id: RunId, request: Request, who: Viewer) -> dict[str, Any]:
    """What a debugger shows: what is ready and why, what waits, queues, guards, breakpoints."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return state_view(await context.runs.debug(run_id))


@router.get(
    "/runs/{run_id}/questions",
    responses={**problems(409), 200: struct_response(list[QuestionView])},
)
async def get_questions(run_id: RunId, request: Request, who: Viewer) -> list[dict[str, Any]]:
    """The questions that wait for a person."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return [_question_view(question) for question in await context.runs.questions(run_id)]


class CallQuery(BaseModel):
    """Which call of an address to read, and what of it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    call: Annotated[int | None, Field(ge=1)] = None
    """Its number among the calls at the address; the last one without it."""
    piece: ShortText = ""
    """Only the text of this part, in pages."""
    offset: Annotated[int, Field(ge=0)] = 0
    """Where the page begins, in characters."""


@router.get(
    "/runs/{run_id}/calls/{address:path}",
    responses={**problems(409, 429), 200: either_response(CallDetails, TextPage)},
)
async def get_call(
    run_id: RunId,
    request: Request,
    who: Viewer,
    address: Annotated[str, Path(description="The address of the call, such as `Writer[3]/Critic`.")],
    query: Annotated[CallQuery, Query()],
) -> Response:
    """What a call of a model or a tool got and returned. Long texts are shortened (`more`); with `piece`, a
    page of the text of one part."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    async with context.long_work.turn(who, row):
        details = await context.runs.call(run_id, address, query.call)
    return json_response(await asyncio.to_thread(_encode_call, details, query))


def _encode_call(details: CallDetails, query: CallQuery) -> bytes:
    found = page_of(details, query.piece, query.offset) if query.piece else shortened(details)
    return msgspec.json.encode(found, enc_hook=repr)


@router.get("/runs/{run_id}/view", responses={**problems(409, 429), 200: struct_response(ViewSnapshot)})
async def get_view(run_id: RunId, request: Request, who: Viewer) -> Response:
    """What is to see of the run up to the event `seq`: its rounds, executions, calls and questions. A page
    continues with the events after it. What has its default is left out. 409 for a run with too much to see
    for one answer."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    async with context.long_work.turn(who, row):
        return json_response(await context.views.view(row, _encode_view))


def _encode_view(view: ViewSnapshot) -> bytes:
    encoded = msgspec.json.encode(view, enc_hook=repr) if len(view.order) <= MAX_EXECUTIONS else b""
    if not 0 < len(encoded) <= MAX_VIEW_BYTES:
        detail = "the view of this run is too large for one answer: read its rounds, in pages, or its events"
        raise Problem(409, "conflict", detail)
    return encoded


class RoundView(ResponseBody):
    """The figures of one round."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    number: int
    """Its number, from 1."""
    score: float | None
    """The last score that a node of the round returned."""
    tokens: int
    """The tokens that it used."""
    cost_usd: float | None
    """What it cost; null if no price is known."""
    novelty: float | None
    """How new its texts were, from 0 to 1; null if there were none."""
    seconds: float
    """How long it took."""
    outputs: dict[str, str] = {}
    """What its nodes returned, by address, if they were asked for; without those of loops inside it."""
    started: str
    """When it began."""
    ended: str | None
    """When it ended; null if it is running."""
    status: RoundStatus
    """`running`, `completed`, `failed`, or `stopped` if the run ended before the round did."""
    failures: int
    """How often nodes in it failed, without failures that an error edge took."""
    lane: int
    """The place beside other rounds of its loop that ran at the same time, from 0; always 0 for rounds that
    ran one after the other."""


class BandView(ResponseBody):
    """The figures of several rounds together."""

    first: Annotated[int, Field(alias="from")]
    """The number of the first round."""
    last: Annotated[int, Field(alias="to")]
    """The number of the last round."""
    best_score: float | None
    """The highest score."""
    median_score: float | None
    """The score in the middle."""
    tokens: int
    """The tokens of all rounds."""
    cost_usd: float | None
    """What they cost; null if no price is known."""
    seconds: float
    """How long they took."""
    started: str
    """When the first of them began."""
    ended: str | None
    """When the last of them ended; null if one is running."""
    failed: int
    """How many of them have failed."""


class LoopFigures(ResponseBody):
    """The rounds of one loop."""

    loop: str
    """The name of the loop."""
    exit_reason: str
    """Why it was last left; empty if it was not left yet."""
    rounds: list[RoundView] | list[BandView]
    """Single rounds; or, with `band`, aggregates."""
    next: str | None = None
    """The cursor of the next page of this loop, to be given together with `loop`; null on the last one."""


class RoundsQuery(BaseModel):
    """Which rounds to read."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    loop: ShortText = ""
    """Only the loop with this name."""
    first: Annotated[int, Field(ge=1, alias="from")] = 1
    """The first round."""
    last: Annotated[int | None, Field(ge=1, alias="to")] = None
    """The last round."""
    band: Annotated[int, Field(ge=1, le=1000)] = 1
    """Aggregate so many rounds each."""
    outputs: bool = False
    """Whether to include what the nodes returned."""
    cursor: Cursor = ""
    """`next` of the loop in the page before, together with `loop`; empty for the first page."""
    limit: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    """The most rounds, or aggregates, of a page, of all loops together."""


@router.get("/runs/{run_id}/rounds", responses=problems(409, 429), response_model=list[LoopFigures])
async def get_rounds(
    run_id: RunId, request: Request, who: Viewer, query: Annotated[RoundsQuery, Query()]
) -> Response:
    """The rounds of each loop as figures; with `band`, aggregates of so many rounds each. Each loop continues
    on pages of its own. With `outputs`, a page has about a megabyte at most."""
    if query.cursor and not query.loop:
        raise Problem(422, "bad-request", "a cursor belongs to one loop: give `loop`, too")
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    encode = partial(_encode_rounds, query)
    async with context.long_work.turn(who, row):
        return json_response(await context.views.rounds(row, query.loop, encode))


def _encode_rounds(query: RoundsQuery, loops: Sequence[LoopRounds]) -> bytes:
    """A page of the rounds of these loops."""
    found, start, left, size = [], int(query.cursor or 0), query.limit, 0
    for loop in loops:
        wanted = [
            one
            for one in loop.rounds
            if one.number >= query.first and (query.last is None or one.number <= query.last)
        ]
        rounds: list[dict[str, Any]] = []
        end = start
        while left and size < PAGE_CHARACTERS and end * query.band < len(wanted):
            part = [
                msgspec.to_builtins(one if query.outputs else msgspec.structs.replace(one, outputs={}))
                for one in wanted[end * query.band : (end + 1) * query.band]
            ]
            size += sum(len(text) for one in part for text in one["outputs"].values())
            rounds.append(_band(part) if query.band > 1 else part[0])
            end, left = end + 1, left - 1
        more = str(end) if end * query.band < len(wanted) else None
        found.append({"loop": loop.loop, "exit_reason": loop.exit_reason, "rounds": rounds, "next": more})
    return msgspec.json.encode(found)


def _band(part: list[dict[str, Any]]) -> dict[str, Any]:
    """Some rounds together: the best and the median score, and sums."""
    scores = sorted(one["score"] for one in part if one["score"] is not None)
    ends = [one["ended"] for one in part]
    costs = [one["cost_usd"] for one in part if one["cost_usd"] is not None]
    return {
        "from": part[0]["number"],
        "to": part[-1]["number"],
        "best_score": scores[-1] if scores else None,
        "median_score": scores[len(scores) // 2] if scores else None,
        "tokens": sum(one["tokens"] for one in part),
        "cost_usd": sum(costs) if costs else None,
        "seconds": sum(one["seconds"] for one in part),
        "started": min(one["started"] for one in part),
        "ended": None if any(end is None for end in ends) else max(ends),
        "failed": sum(one["status"] == "failed" for one in part),
    }
