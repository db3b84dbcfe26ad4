"""Runs: start, list, read, control and debug them. The routes do what the commands of the same name do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from roundel.journal.store import RunRow
from roundel.kernel.events import stamp
from roundel.kernel.unlock import CHECKS
from roundel.server.bodies import Data, Name, RequestBody, ShortText, Text, problems
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import WorkflowText, plan_to_run
from roundel.server.problems import Problem
from roundel.workflow.message import Message, data_text

router = APIRouter(prefix="/api/v1", tags=["runs"])
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]
RunId = Annotated[str, Field(min_length=1, max_length=64, pattern="^[0-9A-Za-z_-]+$")]
Status = Literal["running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"]
Limits = dict[Name, int | float | Literal["lock", "allow"]]
Variables = dict[Name, str | int | float | bool | None]


class RunInput(RequestBody):
    """An input or an answer with structured fields."""

    text: Text | None = None
    data: Data | None = None


class BreakpointBody(RequestBody):
    """A breakpoint: a place, or a condition."""

    at: ShortText = ""
    cel: ShortText = ""


Breakpoints = Annotated[list[ShortText | BreakpointBody], Field(max_length=100)]


class StartBody(RequestBody):
    """A run to start."""

    workflow: Name | WorkflowText
    input: Text | RunInput = ""
    variables: Variables = {}
    limits: Limits = {}
    script: dict[str, JsonValue] | None = None
    group: ShortText | None = None
    breakpoints: Breakpoints = []
    paused: bool = False


class StartedRun(BaseModel):
    id: str
    status: str


class RunView(BaseModel):
    """A run, as lists and pages show it."""

    id: str
    workflow: str
    status: str
    created: str
    updated: str
    input: str
    group: str
    started_by: str
    parent: str = ""
    forked_at: str = ""
    is_executed: bool
    """Whether a process executes it now."""
    pruned: str = ""
    loops: list[dict[str, Any]] = []
    score: float | None = None
    usage: dict[str, Any] = {}
    guard: dict[str, Any] | None = None
    lock: dict[str, Any] | None = None
    pause: dict[str, Any] | None = None
    questions: list[str] = []
    deadline: str | None = None
    output: str = ""
    error: str | None = None


class RunList(BaseModel):
    runs: list[RunView]
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def run_view(row: RunRow) -> RunView:
    summary, progress = row.summary or {}, row.progress or {}
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
        loops=progress.get("loops") or [],
        score=progress.get("score"),
        usage=summary.get("usage") or progress.get("usage") or {},
        guard=progress.get("guard"),
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


@router.post("/runs", status_code=202, responses=problems(409))
async def start_run(
    body: StartBody,
    request: Request,
    response: Response,
    who: Operator,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
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
    status: Annotated[list[Status] | None, Query(max_length=10)] = None,
    workflow: ShortText = "",
    group: ShortText | None = None,
    q: ShortText = "",
    cursor: Annotated[str, Field(pattern="^[0-9]{0,18}$")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
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


@router.get("/runs/{run_id}/output", responses=problems())
async def get_output(run_id: RunId, request: Request, who: Viewer) -> dict[str, Any]:
    """The result of a run so far: status, output, data, nodes, loops and usage."""
    row = await context_of(request).visible_row(who, run_id)
    return {"id": run_id, "status": row.status, **(row.summary or {})}


@router.get(
    "/runs/{run_id}/script",
    responses={
        **problems(409),
        200: {
            "description": "A script file",
            "content": {"application/yaml": {"schema": {"type": "string"}}},
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


@router.get("/runs/{run_id}/state", responses=problems())
async def get_state(run_id: RunId, request: Request, who: Viewer) -> dict[str, Any]:
    """What a debugger shows: what is ready and why, what waits, queues, guards, breakpoints."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    seen: dict[str, Any] = msgspec.to_builtins(await context.runs.debug(run_id), enc_hook=repr)
    return seen


@router.get("/runs/{run_id}/questions", responses=problems())
async def get_questions(run_id: RunId, request: Request, who: Viewer) -> list[dict[str, Any]]:
    """The questions that wait for a person."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    return [
        {
            **msgspec.to_builtins(question, enc_hook=repr),
            "deadline": stamp(question.deadline) if question.deadline is not None else None,
        }
        for question in await context.runs.questions(run_id)
    ]


class RoundsQuery(BaseModel):
    """Which rounds to read."""

    loop: ShortText = ""
    first: Annotated[int, Field(ge=1, alias="from")] = 1
    last: Annotated[int | None, Field(ge=1, alias="to")] = None
    band: Annotated[int, Field(ge=1, le=1000)] = 1


@router.get("/runs/{run_id}/rounds", responses=problems())
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
            msgspec.to_builtins(one)
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
    reason: ShortText = ""


class LockBody(RequestBody):
    reason: Annotated[str, Field(min_length=1, max_length=2_000)]


class UnlockBody(RequestBody):
    reason: ShortText
    checks: Annotated[
        list[Literal["cause_understood", "cost_accepted", "workflow_reviewed"]], Field(max_length=3)
    ]
    limits: dict[Name, float] = {}
    message: Text | None = None
    note: Text = ""
    exit: ShortText = ""


class AnswerBody(RunInput):
    at: ShortText = ""


class ChangesBody(RequestBody):
    """The changes that a retry, a fork or a replay brings."""

    workflow: Name | WorkflowText | None = None
    limits: Limits = {}
    variables: Variables = {}


class RetryBody(ChangesBody):
    script: dict[str, JsonValue] | None = None


class ForkBody(RetryBody):
    at: ShortText = ""
    message: Text | None = None
    run: bool = True
    """Whether the new run begins at once."""


class StepBody(RequestBody):
    round: bool = False


class BreakpointsBody(RequestBody):
    add: Breakpoints = []
    remove: Breakpoints = []


class EditBody(RequestBody):
    at: ShortText = ""
    position: Annotated[int, Field(ge=0)] | None = None
    text: Text | None = None
    data: Data | None = None
    version: ShortText = ""


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
    context = await _controlled(request, who, run_id, "pause", reason=body.reason)
    await context.runs.pause(run_id, body.reason)
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/resume", responses=problems(409))
async def resume_run(run_id: RunId, request: Request, who: Operator) -> RunView:
    context = await _controlled(request, who, run_id, "resume")
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.resume_in_background(run_id, attach=context.attachment()), run_id
    )
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/stop", responses=problems(409))
async def stop_run(run_id: RunId, body: ReasonBody, request: Request, who: Operator) -> RunView:
    context = await _controlled(request, who, run_id, "stop", reason=body.reason)
    await context.runs.stop(run_id, body.reason)
    return await _shown(context, run_id)


@router.post("/runs/{run_id}/lock", responses=problems(409))
async def lock_run(run_id: RunId, body: LockBody, request: Request, who: Operator) -> RunView:
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


@router.post("/runs/{run_id}/retry", responses=problems(409))
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


@router.post("/runs/{run_id}/fork", status_code=201, responses=problems(409))
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


@router.post("/runs/{run_id}/replay", responses=problems(409))
async def replay_run(run_id: RunId, body: ChangesBody, request: Request, who: Operator) -> dict[str, Any]:
    """Where the run would first have differed with these changes; no model is called."""
    context = await _controlled(request, who, run_id, "replay")
    difference = await context.runs.replay(run_id, **await _changes(context, who, body))
    return {"difference": msgspec.to_builtins(difference) if difference is not None else None}


# Debugging.


@router.post("/runs/{run_id}/step", responses=problems(409))
async def step_run(run_id: RunId, body: StepBody, request: Request, who: Operator) -> RunView:
    context = await _controlled(request, who, run_id, "step", round=body.round)
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.step_in_background(run_id, round=body.round, attach=context.attachment()),
        run_id,
    )
    return await _shown(context, run_id)


@router.get("/runs/{run_id}/breakpoints", responses=problems())
async def get_breakpoints(run_id: RunId, request: Request, who: Viewer) -> list[dict[str, Any]]:
    context = context_of(request)
    await context.visible_row(who, run_id)
    return [msgspec.to_builtins(state) for state in await context.runs.breakpoints(run_id)]


@router.post("/runs/{run_id}/breakpoints", responses=problems(409))
async def change_breakpoints(
    run_id: RunId, body: BreakpointsBody, request: Request, who: Operator
) -> list[dict[str, Any]]:
    """Set and remove breakpoints, whichever process executes the run."""
    context = await _controlled(request, who, run_id, "breakpoints")
    states = await context.runs.set_breakpoints(
        run_id, *breakpoint_sources(body.add), remove=breakpoint_sources(body.remove)
    )
    return [msgspec.to_builtins(state) for state in states]


@router.post("/runs/{run_id}/edit", responses=problems(409))
async def edit_run(run_id: RunId, body: EditBody, request: Request, who: Operator) -> dict[str, Any]:
    """Edit a message that waits at a node of a paused or locked run."""
    context = await _controlled(request, who, run_id, "edit", at=body.at)
    if body.text is None and body.data is None:
        raise Problem(422, "bad-request", "an edit has a text, data, or both")
    seen = await context.runs.edit(
        run_id, body.text, at=body.at, position=body.position, data=body.data, version=body.version
    )
    shown: dict[str, Any] = msgspec.to_builtins(seen, enc_hook=repr)
    return shown
