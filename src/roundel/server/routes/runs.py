"""Runs: start, list, read and delete them. The routes do what the commands of the same name do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AwareDatetime, Field, JsonValue

from roundel.journal.store import EXCERPT, RunRow
from roundel.kernel.events import RunStatus, is_over, stamp
from roundel.llm.script import Script, ScriptRight
from roundel.server.admission import TEXT_BODY, Route
from roundel.server.bodies import (
    FEW_ENTRIES,
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
from roundel.server.context import caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import WorkflowText, plan_to_run, read_script
from roundel.server.problems import Problem
from roundel.server.schemas import json_response
from roundel.workflow.message import Message, data_text

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]
RunId = Annotated[
    str,
    Field(min_length=1, max_length=64, pattern="^[0-9A-Za-z_-]+$", description="The complete id of a run."),
]
MOST_SHOWN = 100
"""Questions and running loops that the row of a run has: there may be thousands."""
NEEDS_PERSON = ("waiting", "suspended_locked", "paused")
"""Statuses in which a run does nothing until somebody does something."""
Since = Annotated[
    AwareDatetime | None,
    Query(description="A time (RFC 3339): only runs that were created after it."),
]
Limits = Annotated[dict[Name, int | float | Literal["lock", "allow"]], *FEW_ENTRIES]
Variables = Annotated[dict[Name, str | int | float | bool | None], *FEW_ENTRIES]


ScriptBody = dict[str, JsonValue] | Text | None


async def script_of(request: Request, who: Principal, given: ScriptBody) -> Script | None:
    """The script that a body means, with the rights of the caller; WorkflowError."""
    if given is None:
        return None
    return (await read_script(request, who, given)).with_rights(script_rights(who))


def script_rights(who: Principal) -> tuple[ScriptRight, ...]:
    """What a script of the caller may do. Calls of tools are approved by a person, never by a script."""
    return ("tools",) if who.may("author") else ()


def scripted(given: ScriptBody, who: Principal) -> dict[str, Any]:
    """What the audit log says about a script; nothing without one."""
    return {} if given is None else {"script": {"rights": script_rights(who)}}


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
    script: ScriptBody = None
    """Replies of models, tools and people, as a script file has them, or its text. Tools without a result
    in it are called only if the role of the caller is author, and approvals are given by people."""
    group: ShortText | None = None
    """The group of the run; without it, the first of the caller."""
    breakpoints: Breakpoints = []
    """Breakpoints to set before it begins."""
    paused: bool = False
    """Whether it is paused before its first node."""
    model: ShortText | None = None
    """The model of agents that name none, as `provider:name`, which the policy has to allow; without it, the
    one that the operator has set for the server."""


class StartedRun(ResponseBody):
    """A run that was started."""

    id: str
    """The id of the run."""
    status: RunStatus
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


class ToolCallView(ResponseBody):
    """A tool call that a person has to approve."""

    name: str
    """The name of the tool."""
    arguments: JsonValue = None
    """Its first arguments, with the beginnings of their texts."""


class QuestionSummary(ResponseBody):
    """The first question of a run, shortened; `/questions` has all of them complete."""

    address: str
    """The address of the node that asks, such as `Review[2]`."""
    node_id: str
    """The id of the node that asks."""
    prompt: str
    """The beginning of the question."""
    tool: ToolCallView | None = None
    """The tool call that a person has to approve; null for another question."""


class LoopOutcome(ResponseBody):
    """What became of a loop of a run that is over."""

    loop: str
    """The name of the loop."""
    rounds: int
    """All rounds that it had."""
    exit_reason: str = ""
    """Why it was last left; empty if it was not."""
    entries: int = 1
    """How often it was entered."""


class RunView(ResponseBody):
    """A run, as lists and pages show it."""

    id: str
    """The id of the run."""
    workflow: str
    """The name of the workflow."""
    status: RunStatus
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
    saved_as: str = ""
    """The name of the saved workflow that it was started from; empty if its workflow was not saved."""
    workflow_version: str = ""
    """The version of that workflow."""
    is_executed: bool
    """Whether a process executes it now."""
    pruned: str = ""
    """Which rounds are left of it, if it was pruned."""
    loops: list[LoopView] = []
    """The loops that are running, with their current rounds, at most 100."""
    score: float | None = None
    """The newest score."""
    scores: list[float] = []
    """The scores of the last rounds of one loop, at most 20, the oldest first: of the innermost running loop
    that has scores, else of the loop that had one last."""
    threshold: float | None = None
    """The score that ends this loop; null if no score does."""
    active: list[str] = []
    """The ids of nodes that work now, at most 5."""
    work_seconds: float = 0
    """How long it has worked until `updated`, without the time in which it waited."""
    usage: dict[str, Any] = {}
    """Calls, tokens and cost so far."""
    guard: GuardView | None = None
    """The limit that is nearest."""
    lock: dict[str, Any] | None = None
    """Why it is locked: `what`, `limit`, `address`, `evidence`, and `text`, which says it in one sentence."""
    pause: dict[str, Any] | None = None
    """Why it is paused: `reason`, `address`, `breakpoint`."""
    questions: list[str] = []
    """The addresses of nodes that wait for a person, at most 100."""
    question: QuestionSummary | None = None
    """The first of these questions."""
    deadline: str | None = None
    """When the first of these questions has to be answered."""
    output: str = ""
    """The beginning of its output, at most 500 characters; `/output` has all of it."""
    output_length: int = 0
    """How many characters the whole output has."""
    error: str | None = None
    """Why it failed, at most 500 characters."""
    results: list[LoopOutcome] = []
    """The loops of a run that is over, in the order in which they were first entered."""


class RunList(ResponseBody):
    """A page of runs."""

    runs: list[RunView]
    """The runs of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def run_view(row: RunRow) -> RunView:
    # A run that continues keeps the summary of when it was last idle, which is not true any more.
    summary, progress = (row.summary or {}) if row.status != "running" else {}, row.progress or {}
    # An earlier version stored only the nearest guard.
    guard = next(iter(progress.get("guards") or ()), progress.get("guard"))
    lock = summary.get("lock")
    if lock is not None:
        lock = {**lock, "text": (progress.get("lock") or {}).get("text", "")}
    loops = summary.get("loops") or {}
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
        saved_as=row.saved_as,
        workflow_version=row.workflow_version,
        is_executed=bool(row.owner),
        pruned=row.pruned,
        loops=[LoopView(**loop) for loop in (progress.get("loops") or ())[:MOST_SHOWN]],
        score=progress.get("score"),
        scores=progress.get("scores") or [],
        threshold=progress.get("threshold"),
        active=progress.get("active") or [],
        work_seconds=progress.get("work_seconds") or 0,
        usage=progress.get("usage") or summary.get("usage") or {},
        guard=GuardView(**guard) if guard is not None else None,
        lock=lock,
        pause=summary.get("pause"),
        questions=(progress.get("questions") or [])[:MOST_SHOWN],
        question=progress.get("question"),
        deadline=summary.get("deadline"),
        output=summary.get("output", ""),
        output_length=summary.get("output_length", 0),
        error=summary.get("error"),
        results=[LoopOutcome(loop=name, **loops[name]) for name in loops] if is_over(row.status) else [],
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
    openapi_extra=TEXT_BODY,
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
    plan, origin = await plan_to_run(request, who, body.workflow, body.variables)
    script = await script_of(request, who, body.script) or context.scripts.get(plan.workflow.name)
    about = scripted(body.script, who)
    await context.audit(who, "run.start", plan.workflow.name, saved=origin.saved_as, group=group, **about)
    run_id = await context.execute(
        lambda: context.runs.start(
            plan,
            message_of(body.input),
            script=script,
            limits=body.limits,
            group=group,
            breakpoints=breakpoint_sources(body.breakpoints),
            paused=body.paused,
            model=body.model,
            started_by=who.id,
            by=who.name,
            saved_as=origin.saved_as,
            workflow_version=origin.workflow_version,
            idempotency_key=f"{who.id}:{idempotency_key}" if idempotency_key else "",
            attach=context.attachment(),
        )
    )
    response.headers["location"] = f"/api/v1/runs/{run_id}"
    return StartedRun(id=run_id, status=(await context.row(run_id)).status)


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
        list[RunStatus] | None, Query(max_length=10, description="Only runs with one of these statuses.")
    ] = None,
    workflow: Annotated[ShortText, Field(description="Only runs of the workflow with this name.")] = "",
    saved_as: Annotated[
        ShortText, Field(description="Only runs that were started from the saved workflow with this name.")
    ] = "",
    group: Annotated[ShortText | None, Field(description="Only runs of this group.")] = None,
    q: Annotated[ShortText, Field(description="A part of the id, the name or the input.")] = "",
    since: Since = None,
    cursor: Cursor = "",
    limit: PageSize = 50,
) -> RunList:
    """The newest runs first, of the groups that the caller sees."""
    groups = _visible_groups(who, group)
    rows = await context_of(request).runs.store.rows(
        limit + 1,
        statuses=tuple(status or ()),
        name=workflow,
        saved_as=saved_as,
        groups=groups,
        text=q,
        before=int(cursor or 0),
        since=since.timestamp() if since is not None else 0,
        excerpt=True,
    )
    more = len(rows) > limit
    return RunList(
        runs=[run_view(row) for row in rows[:limit]], next=str(rows[limit - 1].number) if more else None
    )


def _visible_groups(who: Principal, group: str | None) -> Sequence[str] | None:
    """The groups of a list: those of the caller, or the given one if it is among them. None is all."""
    if group is None:
        return who.groups
    return (group,) if who.sees(group) else ()


class RunsSummary(ResponseBody):
    """How many runs there are, and what they cost."""

    statuses: dict[str, int]
    """The number of runs in each status that occurs."""
    needs_person: int
    """Runs that do nothing until somebody answers, unlocks or resumes them."""
    running: int
    """Runs that are running."""
    since: str
    """The time from which on `created` and `cost_usd` count."""
    created: int
    """Runs that were created after this time."""
    cost_usd: float | None
    """What these have cost so far; null if no price is known."""


# Before the routes of single runs: `summary` would be an id there.
@router.get("/runs/summary", responses=problems())
async def summarize_runs(
    request: Request,
    who: Viewer,
    group: Annotated[ShortText | None, Field(description="Only runs of this group.")] = None,
    since: Annotated[
        AwareDatetime | None,
        Query(description="A time (RFC 3339) from which on cost counts; without it, midnight in UTC."),
    ] = None,
) -> RunsSummary:
    """The number of runs by status, and what those of today have cost, in the groups that the caller sees."""
    context = context_of(request)
    now = context.clock()
    start = max(0.0, since.timestamp()) if since is not None else now - now % 86_400
    totals = await context.runs.store.totals(_visible_groups(who, group), start)
    return RunsSummary(
        statuses=totals.statuses,
        needs_person=sum(totals.statuses.get(status, 0) for status in NEEDS_PERSON),
        running=totals.statuses.get("running", 0),
        since=stamp(start),
        created=totals.created,
        cost_usd=totals.cost_usd,
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
    if not is_over(row.status):
        raise Problem(409, "conflict", f"only a run that is over can be deleted; it is {row.status}")
    await context.audit(who, "run.delete", run_id, group=row.group)
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
    status: RunStatus
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


@router.get("/runs/{run_id}/output", responses=problems(), response_model=RunOutput)
async def get_output(run_id: RunId, request: Request, who: Viewer) -> Response:
    """The result of a run so far: status, output, data, nodes, loops and usage."""
    context = context_of(request)
    row = await context.visible_row(who, run_id, excerpt=False)
    # It may have megabytes; a short one is encoded in less time than a thread takes.
    if (row.summary or {}).get("data") or len((row.summary or {}).get("output") or "") > EXCERPT:
        return json_response(await asyncio.to_thread(_encode_output, row))
    return json_response(_encode_output(row))


def _encode_output(row: RunRow) -> bytes:
    known = RunOutput.model_fields
    found = {name: value for name, value in (row.summary or {}).items() if name in known}
    return msgspec.json.encode({**found, "id": row.id, "status": row.status})


@router.get(
    "/runs/{run_id}/script",
    responses={
        **problems(409, 429),
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
    row = await context.visible_row(who, run_id)
    async with context.long_work.turn(who, row):
        return Response(await context.runs.script(run_id), media_type="application/yaml")
