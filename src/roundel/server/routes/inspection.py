"""What happens inside a run: its state, its questions and its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing
from roundel.hosts.control import Question
from roundel.journal.store import RunRow
from roundel.kernel.events import stamp
from roundel.nodes.agent_models import pricing
from roundel.nodes.loop import Config as LoopConfig
from roundel.plan.forecast import Forecast, forecast
from roundel.plan.graph import Plan
from roundel.plan.proof import Proof, prove
from roundel.runs.inspection import RunInspection
from roundel.runs.rounds import LoopRounds, RoundStatus
from roundel.server.bodies import ResponseBody, ShortText, problems
from roundel.server.context import ServerContext, context_of
from roundel.server.library import in_reader
from roundel.server.routes.runs import RunId, Viewer
from roundel.server.schemas import json_response, struct_response
from roundel.workflow.limits import NO_TIME_LIMIT
from roundel.workflow.message import Message

router = APIRouter(prefix="/api/v1", tags=["runs"])


MAX_PLANS = 50
"""How many encoded plans a server keeps; one of 300 nodes has some 200 kB."""


class LoopRule(Struct, frozen=True, kw_only=True):
    """How a `loop` node decides whether there is another round."""

    node: str
    """The id of the node."""
    max_rounds: int
    """The most rounds."""
    exit_on_score: float | None
    """The score that ends the loop; null if none does."""
    patience: int | None
    """So many rounds in a row without a gain end the loop; null if they do not."""
    min_delta: float
    """What counts as a gain."""
    keep: str
    """Which output it keeps: `last` or `best`."""


class RunPlan(Struct, frozen=True, kw_only=True):
    """What a run executes, as it was started: the same for its whole life."""

    workflow: str
    """The name of the workflow."""
    drawing: Drawing
    """Where everything is."""
    loops: tuple[Proof, ...]
    """What bounds each loop."""
    forecast: Forecast
    """What a run takes, at worst and usually."""
    decisions: tuple[LoopRule, ...]
    """How each `loop` node decides."""
    speakers: tuple[str, ...]
    """The ids of nodes whose output is written by a model or a person."""
    limits: dict[str, Any]
    """The limits of the whole run."""
    novelty: float | None
    """Messages that are less new than this are repetitions, and trip the breaker; null if they do not."""
    window: int
    """So many of them."""
    token_factor: float | None
    """The breaker trips at so many times the tokens of the forecast; null if it does not."""
    time_limit: float | None
    """The seconds of work after which the breaker trips; null if it does not."""


@router.get("/runs/{run_id}/plan", responses={**problems(409), 200: struct_response(RunPlan)})
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
        encoded = await in_reader(_plan, await context.runs.plan(run_id), density)
    context.plans[key] = encoded
    if len(context.plans) > MAX_PLANS:
        del context.plans[next(iter(context.plans))]
    return json_response(encoded)


def _plan(plan: Plan, density: Density) -> bytes:
    breaker = plan.breaker
    loops = [(node.id, node.config) for node in plan.sites if isinstance(node.config, LoopConfig)]
    found = RunPlan(
        workflow=plan.workflow.name,
        drawing=draw(plan, density=density),
        loops=tuple(prove(plan)),
        forecast=forecast(plan, pricing(plan.workflow.models)),
        decisions=tuple(
            LoopRule(
                node=name,
                max_rounds=config.max_rounds,
                exit_on_score=config.exit_on_score if (config.exit_on_score or 0) > 0 else None,
                patience=config.patience,
                min_delta=config.min_delta,
                keep=config.keep,
            )
            for name, config in loops
        ),
        speakers=tuple(sorted({node.id for node in plan.sites if node.kind.speaks or node.kind.asks})),
        limits=msgspec.to_builtins(plan.limits),
        novelty=breaker.threshold if breaker.detects_dead_loops else None,
        window=breaker.window,
        token_factor=breaker.factor if breaker.enabled and breaker.token_surge else None,
        time_limit=plan.time_limit if plan.time_limit < NO_TIME_LIMIT else None,
    )
    return msgspec.json.encode(found, enc_hook=str)


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


@router.get("/runs/{run_id}/rounds", responses=problems(409), response_model=list[LoopFigures])
async def get_rounds(
    run_id: RunId, request: Request, who: Viewer, query: Annotated[RoundsQuery, Query()]
) -> list[dict[str, Any]]:
    """The rounds of each loop as figures; with `band`, aggregates of so many rounds each."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    found = []
    for loop in await _loops(context, row, query.loop):
        rounds = [
            msgspec.to_builtins(one if query.outputs else msgspec.structs.replace(one, outputs={}))
            for one in loop.rounds
            if one.number >= query.first and (query.last is None or one.number <= query.last)
        ]
        shown = _bands(rounds, query.band) if query.band > 1 else rounds
        found.append({"loop": loop.loop, "exit_reason": loop.exit_reason, "rounds": shown})
    return found


async def _loops(context: ServerContext, row: RunRow, loop: str) -> Sequence[LoopRounds]:
    if not row.pruned:
        return await context.round_figures.loops(row.id, loop)
    # Pruning has removed events that were counted before.
    context.round_figures.forget(row.id)
    return [one for one in await context.runs.rounds(row.id) if loop in ("", one.loop)]


def _bands(rounds: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Aggregates of `size` rounds each: the best and the median score, and sums."""
    bands = []
    for first in range(0, len(rounds), size):
        part = rounds[first : first + size]
        scores = sorted(one["score"] for one in part if one["score"] is not None)
        ends = [one["ended"] for one in part]
        costs = [one["cost_usd"] for one in part if one["cost_usd"] is not None]
        bands.append(
            {
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
        )
    return bands
