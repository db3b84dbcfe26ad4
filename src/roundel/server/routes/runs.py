"""Runs: start, list, read, control and debug them. The routes do what the commands of the same name do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from roundel.hosts.control import Question
from roundel.journal.store import RunRow
from roundel.kernel.events import stamp
from roundel.kernel.unlock import CHECKS
from roundel.runs.forking import Difference
from roundel.runs.inspection import BreakpointState, RunInspection
from roundel.server.bodies import (
    LOCATION,
    Cursor,
    Data,
    Name,
    PageSize,
    RequestBody,
    ResponseBody,
    ShortText,
    Text,
    problems,
)
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import WorkflowText, plan_to_run
from roundel.server.problems import Problem
from roundel.server.schemas import struct_response
from roundel.workflow.message import Message, data_text

router = APIRouter(prefix="/api/v1", tags=["runs"])
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]
RunId = Annotated[
    str,
    Field(min_length=1, max_length=64, pattern="^[0-9A-Za-z_-]+$", description="The complete id of a run."),
]
Status = Literal["running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"]
Limits = dict[Name, int | float | Literal["lock", "allow"]]
Variables = dict[Name, str | int | float | bool | None]


class RunInput(RequestBody):
    """An input or an answer with structured fields."""

    text: Text | None = None
    """The text."""
    data: Data | None = None
    """Structured fields."""


class BreakpointBody(RequestBody):
    """A breakpoint: a place, or a condition."""

    at: ShortText = ""
    """A node or an address, such as `Writer` or `Writer[3]`."""
    cel: ShortText = ""
    """A condition in CEL."""


Breakpoints = Annotated[list[ShortText | BreakpointBody], Field(max_length=100)]


class StartBody(RequestBody):
    """A run to start."""

    workflow: Name | WorkflowText
    """The name of a saved workflow; or a text, which takes the role author."""
    input: Text | RunInput = ""
    """The input of the run."""
    variables: Variables = {}
    """Values of variables."""
    limits: Limits = {}
    """Limits to use instead of those of the workflow."""
    script: dict[str, JsonValue] | None = None
    """Replies of models, tools and people, as a script file has them."""
    group: ShortText | None = None
    """The group of the run; without it, the first of the caller."""
    breakpoints: Breakpoints = []
    """Breakpoints to set before it begins."""
    paused: bool = False
    """Whether it is paused before its first node."""


class StartedRun(ResponseBody):
    """A run that was started."""

    id: str
    """The id of the run."""
    status: str
    """The status of the run."""


class LoopView(ResponseBody):
    """A loop that is running."""

    address: str
    """The address of the current round, such as `Writer[3]`."""
    loop: str
    """The name of the loop."""
    round: int
    """The number of the current round, from 1."""
    limit: int | None = None
    """The most rounds that it can have; null if there is no number."""
    by: str = ""
    """The guard that the limit follows from; empty for a cap."""


class GuardView(ResponseBody):
    """How much of a limit is used."""

    kind: str
    """What it limits: rounds, seconds, tokens, …"""
    name: str
    """The node, loop or graph that has the limit."""
    used: float
    """How much is used."""
    limit: float
    """The limit."""
    share: float
    """How near it is: 1 if the limit is reached."""


class RunView(ResponseBody):
    """A run, as lists and pages show it."""

    id: str
    """The id of the run."""
    workflow: str
    """The name of the workflow."""
    status: str
    """`running`, `waiting`, `paused`, `suspended_locked`, `completed`, `failed` or `stopped`."""
    created: str
    """When it was started."""
    updated: str
    """When it last changed."""
    input: str
    """The beginning of its input."""
    group: str
    """Its group; empty for the one without a name."""
    started_by: str
    """The id of the token that started it; empty for the command line."""
    parent: str = ""
    """The run that it was forked from."""
    forked_at: str = ""
    """Where it was forked."""
    is_executed: bool
    """Whether a process executes it now."""
    pruned: str = ""
    """Which rounds are left of it, if it was pruned."""
    loops: list[LoopView] = []
    """The loops that are running, with their current rounds."""
    score: float | None = None
    """The newest score."""
    usage: dict[str, Any] = {}
    """Calls, tokens and cost so far."""
    guard: GuardView | None = None
    """The limit that is nearest."""
    lock: dict[str, Any] | None = None
    """Why it is locked: `what`, `limit`, `address`, `evidence`."""
    pause: dict[str, Any] | None = None
    """Why it is paused: `reason`, `address`, `breakpoint`."""
    questions: list[str] = []
    """The addresses of nodes that wait for a person."""
    deadline: str | None = None
    """When the first of these questions has to be answered."""
    output: str = ""
    """Its output."""
    error: str | None = None
    """Why it failed."""


class RunList(ResponseBody):
    """A page of runs."""

    runs: list[RunView]
    """The runs of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def run_view(row: RunRow) -> RunView:
    summary, progress = row.summary or {}, row.progress or {}
    guard = progress.get("guard")
    return RunView(
        id=row.id,
        workflow=row.name,
        status=row.status,
        created=stamp(row.created),
        updated=stamp(row.updated),
        input=row.input,
        group=row.group,
        started_by=row.started_by,
        parent=row.parent,
        forked_at=row.forked_at,
        is_executed=bool(row.owner),
        pruned=row.pruned,
        loops=[LoopView(**loop) for loop in progress.get("loops") or ()],
        score=progress.get("score"),
        usage=summary.get("usage") or progress.get("usage") or {},
        guard=GuardView(**guard) if guard is not None else None,
        lock=summary.get("lock"),
        pause=summary.get("pause"),
        questions=progress.get("questions") or [],
        deadline=summary.get("deadline"),
        output=summary.get("output", ""),
        error=summary.get("error"),
    )


def message_of(given: str | RunInput) -> Message:
    """The message that a body means: a text, data, or both."""
    if isinstance(given, str):
        return Message(given)
    text = given.text if given.text is not None else data_text(given.data) if given.data is not None else ""
    return Message(text, data=given.data)


def breakpoint_sources(given: list[Any]) -> list[Any]:
    """Breakpoints as `Runs` takes them."""
    return [
        one if isinstance(one, str) else {name: text for name, text in one.model_dump().items() if text}
        for one in given
    ]


@router.post(
    "/runs",
    status_code=202,
    responses={
        **problems(404, 409, 429),
        202: {"description": "The run is stored, and executed in the background.", "headers": LOCATION},
    },
)
async def start_run(
    body: StartBody,
    request: Request,
    response: Response,
    who: Operator,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            max_length=200,
            description="A text of the client's choice. The same key with the same body gives the same run "
            "for 24 hours; with another body it is a conflict.",
        ),
    ] = None,
) -> StartedRun:
    """Start a run of a saved workflow, or of a text, which takes the role author."""
    context = context_of(request)
    group = _group_of(who, body.group)
    context.check_capacity()
    plan = await plan_to_run(context, who, body.workflow, body.variables)
    name = body.workflow if isinstance(body.workflow, str) else ""
    await context.audit(who, "run.start", plan.workflow.name, saved=name, group=group)
    run_id = await context.execute(
        lambda: context.runs.start(
            plan,
            message_of(body.input),
            script=body.script,
            limits=body.limits,
            group=group,
            breakpoints=breakpoint_sources(body.breakpoints),
            paused=body.paused,
            started_by=who.id,
            idempotency_key=f"{who.id}:{idempotency_key}" if idempotency_key else "",
            attach=context.attachment(),
        )
    )
    response.headers["location"] = f"/api/v1/runs/{run_id}"
    return StartedRun(id=run_id, status=(await context.runs.store.row(run_id)).status)


def _group_of(who: Principal, group: str | None) -> str:
    """The group of a new run: the given one, or the first of the caller."""
    if group is None:
        return who.groups[0] if who.groups else ""
    if not who.sees(group):
        raise Problem(403, "forbidden", "you are not a member of this group")
    return group


@router.get("/runs", responses=problems())
async def list_runs(
    request: Request,
    who: Viewer,
    status: Annotated[
        list[Status] | None, Query(max_length=10, description="Only runs with one of these statuses.")
    ] = None,
    workflow: Annotated[ShortText, Field(description="Only runs of the workflow with this name.")] = "",
    group: Annotated[ShortText | None, Field(description="Only runs of this group.")] = None,
    q: Annotated[ShortText, Field(description="A part of the id, the name or the input.")] = "",
    cursor: Cursor = "",
    limit: PageSize = 50,
) -> RunList:
    """The newest runs first, of the groups that the caller sees."""
    groups = who.groups
    if group is not None:
        groups = (group,) if who.sees(group) else ()
    rows = await context_of(request).runs.store.rows(
        limit + 1,
        statuses=tuple(status or ()),
        name=workflow,
        groups=groups,
        text=q,
        before=int(cursor or 0),
    )
    more = len(rows) > limit
    return RunList(
        runs=[run_view(row) for row in rows[:limit]], next=str(rows[limit - 1].number) if more else None
    )


@router.get("/runs/{run_id}", responses=problems())
async def get_run(run_id: RunId, request: Request, who: Viewer) -> RunView:
    """One run: its status, loop positions, usage, nearest limit, lock and questions."""
    return run_view(await context_of(request).visible_row(who, run_id))


@router.delete("/runs/{run_id}", status_code=204, responses=problems(409))
async def delete_run(run_id: RunId, request: Request, who: Operator) -> None:
    """Delete a run that is over, with everything that belongs to it."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    if row.status not in ("completed", "failed", "stopped"):
        raise Problem(409, "conflict", f"only a run that is over can be deleted; it is {row.status}")
    await context.audit(who, "run.delete", run_id)
    await context.runs.store.delete(run_id)


class LoopResult(ResponseBody):
    """What became of a loop."""

    rounds: int
    """All rounds that it had."""
    exit_reason: str | None = None
    """Why it was last left; null if it was not."""
    entries: int = 1
    """How often it was entered."""


class RunOutput(ResponseBody):
    """The result of a run so far."""

    id: str
    """The id of the run."""
    status: str
    """The status of the run."""
    output: str = ""
    """The text of its output."""
    data: JsonValue = None
    """The structured fields of its output."""
    nodes: dict[str, int] = {}
    """How often each node has run."""
    loops: dict[str, LoopResult] = {}
    """Each loop by name."""
    usage: dict[str, float | None] = {}
    """Calls, tokens and cost."""
    error: str | None = None
    """Why it failed."""
    lock: dict[str, Any] | None = None
    """Why it is locked: `what`, `limit`, `address`, `evidence`."""
    pause: dict[str, str] | None = None
    """Why it is paused: `reason`, `address`, `breakpoint`."""
    deadline: str | None = None
    """When the first open question has to be answered."""


@router.get("/runs/{run_id}/output", responses=problems(), response_model_exclude_unset=True)
async def get_output(run_id: RunId, request: Request, who: Viewer) -> RunOutput:
    """The result of a run so far: status, output, data, nodes, loops and usage."""
    row = await context_of(request).visible_row(who, run_id)
    return RunOutput(**{**(row.summary or {}), "id": run_id, "status": row.status})


@router.get(
    "/runs/{run_id}/script",
    responses={
        **problems(409),
        200: {
            "description": "A script file.",
            "content": {"application/yaml": {"schema": {"type": "object"}}},
        },
    },
    response_class=Response,
)
async def get_script(run_id: RunId, request: Request, who: Viewer) -> Response:
    """What models, tools and people answered, as a script file: `roundel run FILE --script` repeats the run
    offline."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return Response(await context.runs.script(run_id), media_type="application/yaml")


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


class RunState(RunInspection, frozen=True, kw_only=True):
    """The state of a run, for a debugger."""

    questions: tuple[QuestionView, ...]  # type: ignore[assignment]
    """The questions that wait for a person."""


def _question_view(question: Question) -> dict[str, Any]:
    seen: dict[str, Any] = msgspec.to_builtins(question, enc_hook=repr)
    return {**seen, "deadline": stamp(question.deadline) if question.deadline is not None else None}


def _state_view(state: RunInspection) -> dict[str, Any]:
    seen: dict[str, Any] = msgspec.to_builtins(state, enc_hook=repr)
    return {**seen, "questions": [_question_view(question) for question in state.questions]}


@router.get("/runs/{run_id}/state", responses={**problems(409), 200: struct_response(RunState)})
async def get_state(run_id: RunId, request: Request, who: Viewer) -> dict[str, Any]:
    """What a debugger shows: what is ready and why, what waits, queues, guards, breakpoints."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return _state_view(await context.runs.debug(run_id))


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
    await context.visible_row(who, run_id)
    found = []
    for loop in await context.runs.rounds(run_id):
        if query.loop and loop.loop != query.loop:
            continue
        rounds = [
            msgspec.to_builtins(one if query.outputs else msgspec.structs.replace(one, outputs={}))
            for one in loop.rounds
            if one.number >= query.first and (query.last is None or one.number <= query.last)
        ]
        shown = _bands(rounds, query.band) if query.band > 1 else rounds
        found.append({"loop": loop.loop, "exit_reason": loop.exit_reason, "rounds": shown})
    return found


def _bands(rounds: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Aggregates of `size` rounds each: the best and the median score, and sums."""
    bands = []
    for first in range(0, len(rounds), size):
        part = rounds[first : first + size]
        scores = sorted(one["score"] for one in part if one["score"] is not None)
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
            }
        )
    return bands


# Control.


class ReasonBody(RequestBody):
    """A reason."""

    reason: ShortText = ""
    """Why, for people."""


class LockBody(RequestBody):
    """Why a run is locked."""

    reason: Annotated[str, Field(min_length=1, max_length=2_000)]
    """Why, for people."""


class UnlockBody(RequestBody):
    """Why a locked run may continue, and with which changes."""

    reason: ShortText
    """Why the run may continue."""
    checks: Annotated[
        list[Literal["cause_understood", "cost_accepted", "workflow_reviewed"]], Field(max_length=3)
    ]
    """The self-checks; all three are needed."""
    limits: dict[Name, float] = {}
    """Higher limits."""
    message: Text | None = None
    """A text that replaces the last message."""
    note: Text = ""
    """A note for the agent that runs next."""
    exit: ShortText = ""
    """A node outside of the loop: the run leaves the loop, and continues there."""


class AnswerBody(RunInput):
    """An answer to a question."""

    at: ShortText = ""
    """The address of the question; needed if there are several."""


class ChangesBody(RequestBody):
    """The changes that a retry, a fork or a replay brings."""

    workflow: Name | WorkflowText | None = None
    """Another workflow: the name of a saved one, or a text."""
    limits: Limits = {}
    """Other limits."""
    variables: Variables = {}
    """Other values of variables; they need `workflow`."""


class RetryBody(ChangesBody):
    """The changes that a retry brings."""

    script: dict[str, JsonValue] | None = None
    """Replies of models, tools and people, as a script file has them."""


class ForkBody(RetryBody):
    """Where a new run departs from this one, and with which changes."""

    at: ShortText = ""
    """The address at which the new run begins; empty for where the run is now."""
    message: Text | None = None
    """Another message at this point."""
    run: bool = True
    """Whether the new run begins at once."""


class StepBody(RequestBody):
    """How far to go."""

    round: bool = False
    """Whether to go to the next round of the loop, and not only to the next node."""


class BreakpointsBody(RequestBody):
    """Breakpoints to set and to remove."""

    add: Breakpoints = []
    """Breakpoints to set."""
    remove: Breakpoints = []
    """Breakpoints to remove."""


class EditBody(RequestBody):
    """A new content for a message that waits."""

    at: ShortText = ""
    """The address of the node at which the message waits; empty for the first that is ready."""
    position: Annotated[int, Field(ge=0)] | None = None
    """Its number in the queue, from 0; null for the last one."""
    text: Text | None = None
    """The new text."""
    data: Data | None = None
    """The new structured fields."""
    version: ShortText = ""
    """The `version` of the message that was read, so that two people do not overwrite each other."""


async def _controlled(
    request: Request, who: Principal, run_id: str, action: str, **details: Any
) -> ServerContext:
    """Checks that the caller may control a run, and writes it to the audit log."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    await context.audit(who, f"run.{action}", run_id, **details)
    return context


async def _shown(context: ServerContext, run_id: str) -> RunView:
    return run_view(await context.runs.store.row(run_id))


@router.post("/runs/{run_id}/pause", responses=problems(409))
async def pause_run(run_id: RunId, body: ReasonBody, request: Request, who: Operator) -> RunView:
    """Pause a run: calls in flight finish, and nothing new begins."""
    context = await _controlled(request, who, run_id, "pause", reason=body.reason)
    await context.runs.pause(run_id, body.reason)
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/resume", responses=problems(409, 429))
async def resume_run(run_id: RunId, request: Request, who: Operator) -> RunView:
    """Continue a run that is paused, waits or was interrupted."""
    context = await _controlled(request, who, run_id, "resume")
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.resume_in_background(run_id, attach=context.attachment()), run_id
    )
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/stop", responses=problems(409))
async def stop_run(run_id: RunId, body: ReasonBody, request: Request, who: Operator) -> RunView:
    """Stop a run for good."""
    context = await _controlled(request, who, run_id, "stop", reason=body.reason)
    await context.runs.stop(run_id, body.reason)
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/lock", responses=problems(409))
async def lock_run(run_id: RunId, body: LockBody, request: Request, who: Operator) -> RunView:
    """Lock a run: it does not continue until somebody unlocks it with a reason."""
    context = await _controlled(request, who, run_id, "lock", reason=body.reason)
    await context.runs.lock(run_id, body.reason, by=who.name)
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/unlock", responses=problems(409))
async def unlock_run(run_id: RunId, body: UnlockBody, request: Request, who: Operator) -> RunView:
    """Unlock a run, with a reason and the three self-checks; it continues in the same round."""
    context = await _controlled(request, who, run_id, "unlock", reason=body.reason, limits=body.limits)
    missing = [check for check in CHECKS if check not in body.checks]
    if missing or not body.reason.strip():
        raise Problem(422, "bad-request", f"missing: {', '.join(missing) or 'reason'}")
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.unlock(
            run_id,
            body.reason,
            checks=body.checks,
            by=who.name,
            limits=body.limits,
            message=body.message,
            note=body.note,
            exit=body.exit,
            execute=context.attachment(),
        ),
        run_id,
        limited=False,
    )
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/answer", responses=problems(409))
async def answer_run(run_id: RunId, body: AnswerBody, request: Request, who: Operator) -> RunView:
    """Answer a question, or decide about a tool call."""
    context = await _controlled(request, who, run_id, "answer", at=body.at)
    if body.text is None and body.data is None:
        raise Problem(422, "bad-request", "an answer has a text, data, or both")
    await context.check_allowed(run_id)
    message = msgspec.structs.replace(message_of(body), role="user")
    await context.execute(
        lambda: context.runs.answer(run_id, message, at=body.at, exact=True, execute=context.attachment()),
        run_id,
        limited=False,
    )
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/retry", responses=problems(409, 429))
async def retry_run(run_id: RunId, body: RetryBody, request: Request, who: Operator) -> RunView:
    """Run again what failed; everything that finished is kept."""
    context = await _controlled(request, who, run_id, "retry")
    await context.check_allowed(run_id)
    changes = await _changes(context, who, body)
    await context.execute(
        lambda: context.runs.retry_in_background(
            run_id, script=body.script, attach=context.attachment(), **changes
        ),
        run_id,
    )
    return await _shown(context, run_id)


async def _changes(context: ServerContext, who: Principal, body: ChangesBody) -> dict[str, Any]:
    """Changes as `Runs` takes them. Other variables need the text again, in which they are not replaced
    yet."""
    if body.workflow is None:
        if body.variables:
            raise Problem(422, "bad-request", "other variables need the workflow again: give `workflow`")
        return {"limits": body.limits}
    plan = await plan_to_run(context, who, body.workflow, body.variables)
    return {"limits": body.limits, "workflow": plan.workflow}


@router.post(
    "/runs/{run_id}/fork",
    status_code=201,
    responses={**problems(409, 429), 201: {"description": "The new run is stored.", "headers": LOCATION}},
)
async def fork_run(
    run_id: RunId, body: ForkBody, request: Request, response: Response, who: Operator
) -> StartedRun:
    """Start a new run from a point of this one."""
    context = await _controlled(request, who, run_id, "fork", at=body.at)
    await context.check_allowed(run_id)
    context.check_capacity()
    changes = await _changes(context, who, body)
    new = await context.runs.fork(run_id, body.at, message=body.message, script=body.script, **changes)
    if body.run:
        await context.execute(
            lambda: context.runs.resume_in_background(new, attach=context.attachment()), new
        )
    response.headers["location"] = f"/api/v1/runs/{new}"
    return StartedRun(id=new, status=(await context.runs.store.row(new)).status)


class ReplayResult(Struct, frozen=True):
    """What a replay found."""

    difference: Difference | None
    """The first difference; null if there is none."""


@router.post("/runs/{run_id}/replay", responses={**problems(409), 200: struct_response(ReplayResult)})
async def replay_run(run_id: RunId, body: ChangesBody, request: Request, who: Operator) -> dict[str, Any]:
    """Where the run would first have differed with these changes; no model is called."""
    context = await _controlled(request, who, run_id, "replay")
    difference = await context.runs.replay(run_id, **await _changes(context, who, body))
    return {"difference": msgspec.to_builtins(difference) if difference is not None else None}


# Debugging.


@router.post("/runs/{run_id}/step", responses=problems(409, 429))
async def step_run(run_id: RunId, body: StepBody, request: Request, who: Operator) -> RunView:
    """Run the next node of a paused run, or its next round, and pause again."""
    context = await _controlled(request, who, run_id, "step", round=body.round)
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.step_in_background(run_id, round=body.round, attach=context.attachment()),
        run_id,
    )
    return await _shown(context, run_id)


@router.get(
    "/runs/{run_id}/breakpoints",
    responses={**problems(409), 200: struct_response(list[BreakpointState])},
)
async def get_breakpoints(run_id: RunId, request: Request, who: Viewer) -> list[dict[str, Any]]:
    """The breakpoints of a run, with how often each was reached."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return [msgspec.to_builtins(state) for state in await context.runs.breakpoints(run_id)]


@router.post(
    "/runs/{run_id}/breakpoints",
    responses={**problems(409), 200: struct_response(list[BreakpointState])},
)
async def change_breakpoints(
    run_id: RunId, body: BreakpointsBody, request: Request, who: Operator
) -> list[dict[str, Any]]:
    """Set and remove breakpoints, whichever process executes the run."""
    context = await _controlled(request, who, run_id, "breakpoints")
    states = await context.runs.set_breakpoints(
        run_id, *breakpoint_sources(body.add), remove=breakpoint_sources(body.remove)
    )
    return [msgspec.to_builtins(state) for state in states]


@router.post("/runs/{run_id}/edit", responses={**problems(409), 200: struct_response(RunState)})
async def edit_run(run_id: RunId, body: EditBody, request: Request, who: Operator) -> dict[str, Any]:
    """Edit a message that waits at a node of a paused or locked run."""
    context = await _controlled(request, who, run_id, "edit", at=body.at)
    if body.text is None and body.data is None:
        raise Problem(422, "bad-request", "an edit has a text, data, or both")
    seen = await context.runs.edit(
        run_id, body.text, at=body.at, position=body.position, data=body.data, version=body.version
    )
    return _state_view(seen)
