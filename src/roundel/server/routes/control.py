"""Control of a run: pause, resume, stop, lock, unlock, answer, retry, fork and replay."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Struct
from pydantic import Field

from roundel.drawing.labels import Labels
from roundel.hosts.control import Pause, find_question
from roundel.kernel.state import Execution
from roundel.kernel.unlock import CHECKS
from roundel.kernel.walk import try_edges
from roundel.runs.forking import Difference, inherited_rights
from roundel.server.admission import PART_BODY, TEXT_BODY, Route
from roundel.server.bodies import FEW_ENTRIES, LOCATION, Name, RequestBody, ShortText, Text, problems
from roundel.server.context import ServerContext, context_of
from roundel.server.identity import Principal
from roundel.server.library import SavedAs, WorkflowText, in_reader, plan_to_run
from roundel.server.problems import Problem
from roundel.server.routes.checks import MAX_TRIED
from roundel.server.routes.runs import (
    Limits,
    Operator,
    RunId,
    RunInput,
    RunView,
    ScriptBody,
    StartedRun,
    Variables,
    message_of,
    run_view,
    script_of,
    script_rights,
    scripted,
)
from roundel.server.schemas import json_response, struct_response
from roundel.workflow.message import Message

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=Route)


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
    limits: Annotated[dict[Name, float], *FEW_ENTRIES] = {}
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


class PreviewBody(AnswerBody):
    """An answer that is not given yet."""

    text: Annotated[str, Field(max_length=MAX_TRIED)] | None = None
    """The text."""


class EdgePreview(Struct, frozen=True):
    """An edge of the node that asks, and whether the answer would take it."""

    source: str
    """The id of the node that asks."""
    target: str
    """The id of the node that the edge leads to."""
    text: str
    """Its port, condition and processing; empty for a plain edge."""
    fires: bool
    """Whether the answer takes it. If one that leaves a loop is taken and triggers, there is no further
    round."""
    error: str | None
    """Why this is not known: the condition failed, or is a Python function; null if it is known."""
    leaves: bool
    """Whether it leaves a loop."""
    back: bool
    """Whether it leads to the entry of a loop, and so begins the next round."""
    triggers: bool
    """Whether a message on it makes the target run."""


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

    script: ScriptBody = None
    """Replies of models, tools and people, as a script file has them, or its text. Tools without a result
    in it are called only if the role of the caller is author, and approvals are given by people."""
    failed_items: bool = False
    """Whether a new run retries the items of lists that failed while the run went on."""


class ForkBody(ChangesBody):
    """Where a new run departs from this one, and with which changes."""

    script: ScriptBody = None
    """Replies of models, tools and people, as a script file has them, or its text. Tools without a result
    in it are called only if the role of the caller is author, and approvals are given by people."""
    at: ShortText = ""
    """The address at which the new run begins; empty for where the run is now."""
    message: Text | None = None
    """Another message at this point."""
    run: bool = True
    """Whether the new run begins at once."""


async def controlled(
    request: Request, who: Principal, run_id: str, action: str, **details: Any
) -> ServerContext:
    """Checks that the caller may control a run, and writes it to the audit log."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    await context.audit(who, f"run.{action}", run_id, group=row.group, **details)
    return context


async def _how_scripted(request: Request, who: Principal, run_id: str, given: ScriptBody) -> dict[str, Any]:
    """What the audit log says about the script of a new run that is made from another one."""
    if given is not None:
        return scripted(given, who)
    pinned = await context_of(request).runs.store.pinned(run_id)
    if not pinned.script:
        return {}
    return {"script": {"rights": inherited_rights(pinned, script_rights(who)), "inherited": True}}


async def current_view(context: ServerContext, run_id: str) -> RunView:
    return run_view(await context.row(run_id))


@router.post("/runs/{run_id}/pause", responses=problems(409))
async def pause_run(run_id: RunId, body: ReasonBody, request: Request, who: Operator) -> RunView:
    """Pause a run: calls in flight finish, and nothing new begins."""
    context = await controlled(request, who, run_id, "pause", reason=body.reason)
    await context.runs.pause(run_id, body.reason, wait=False, by=who.name)
    return await current_view(context, run_id)


@router.post("/runs/{run_id}/resume", responses=problems(409, 429))
async def resume_run(run_id: RunId, request: Request, who: Operator) -> RunView:
    """Continue a run that is paused, waits or was interrupted."""
    context = await controlled(request, who, run_id, "resume")
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.resume_in_background(run_id, attach=context.attachment(), by=who.name), run_id
    )
    return await current_view(context, run_id)


@router.post("/runs/{run_id}/stop", responses=problems(409))
async def stop_run(run_id: RunId, body: ReasonBody, request: Request, who: Operator) -> RunView:
    """Stop a run for good."""
    context = await controlled(request, who, run_id, "stop", reason=body.reason)
    await context.runs.stop(run_id, body.reason, by=who.name)
    return await current_view(context, run_id)


@router.post("/runs/{run_id}/lock", responses=problems(409))
async def lock_run(run_id: RunId, body: LockBody, request: Request, who: Operator) -> RunView:
    """Lock a run: it does not continue until somebody unlocks it with a reason."""
    context = await controlled(request, who, run_id, "lock", reason=body.reason)
    await context.runs.lock(run_id, body.reason, by=who.name)
    return await current_view(context, run_id)


@router.post("/runs/{run_id}/unlock", openapi_extra=TEXT_BODY, responses=problems(409))
async def unlock_run(run_id: RunId, body: UnlockBody, request: Request, who: Operator) -> RunView:
    """Unlock a run, with a reason and the three self-checks; it continues in the same round."""
    context = await controlled(request, who, run_id, "unlock", reason=body.reason, limits=body.limits)
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
    return await current_view(context, run_id)


@router.post("/runs/{run_id}/answer", openapi_extra=TEXT_BODY, responses=problems(409))
async def answer_run(run_id: RunId, body: AnswerBody, request: Request, who: Operator) -> RunView:
    """Answer a question, or decide about a tool call."""
    context = await controlled(request, who, run_id, "answer", at=body.at)
    if body.text is None and body.data is None:
        raise Problem(422, "bad-request", "an answer has a text, data, or both")
    await context.check_allowed(run_id)
    message = msgspec.structs.replace(message_of(body), role="user")
    await context.execute(
        lambda: context.runs.answer(
            run_id, message, at=body.at, exact=True, by=who.name, execute=context.attachment()
        ),
        run_id,
        limited=False,
    )
    return await current_view(context, run_id)


@router.post(
    "/runs/{run_id}/answer/preview",
    openapi_extra=PART_BODY,
    responses={**problems(409), 200: struct_response(list[EdgePreview])},
)
async def preview_answer(run_id: RunId, body: PreviewBody, request: Request, who: Operator) -> Response:
    """Which edges an answer would take. Nothing is answered, and Python functions are not called. The
    decision about a tool call takes no edge."""
    context = context_of(request)
    await context.visible_row(who, run_id)
    state = (await context.runs.inspect(run_id)).state
    question = find_question(body.at, state)
    message = msgspec.structs.replace(message_of(body), role="user")
    return json_response(await in_reader(_preview, state.calls[question.address], message))


def _preview(execution: Execution, message: Message) -> bytes:
    if execution.owner is not None:  # a tool loop: its node has not finished
        return b"[]"
    labels, scope = Labels(), execution.activation.scope
    found = []
    for edge, loops, fires, error in try_edges(execution, message):
        target = scope
        for _ in range(loops):
            assert target.parent is not None
            target = target.parent
        found.append(
            EdgePreview(
                edge.source_id,
                scope.graph.nodes[edge.target].id,
                labels.edge_in_full(edge.edge),
                fires,
                labels.line(error) or None,
                leaves=loops > 0,
                back=edge.target == target.entry,
                triggers=edge.trigger,
            )
        )
    return msgspec.json.encode(found)


@router.post("/runs/{run_id}/retry", openapi_extra=TEXT_BODY, responses=problems(409, 429))
async def retry_run(run_id: RunId, body: RetryBody, request: Request, who: Operator) -> RunView:
    """Run again what failed; everything that finished is kept. The answer is the run that was retried, or the
    new run that retries failed items."""
    context = await controlled(request, who, run_id, "retry", **scripted(body.script, who))
    await context.check_allowed(run_id)
    changes, _ = await _changes(request, who, body)
    script = await script_of(request, who, body.script)
    # Without changes, a retry reads only the end of the run.
    rereads = body.failed_items or script is not None or any(changes.values())
    async with context.long_work.turn(who, await context.row(run_id) if rereads else None):
        retried = await context.execute(
            lambda: context.runs.retry_in_background(
                run_id,
                failed_items=body.failed_items,
                script=script,
                script_rights=script_rights(who),
                attach=context.attachment(),
                by=who.name,
                **changes,
            )
        )
    return await current_view(context, retried)


async def _changes(request: Request, who: Principal, body: ChangesBody) -> tuple[dict[str, Any], SavedAs]:
    """Changes as `Runs` takes them, and where their workflow is saved. Other variables need the text again,
    in which they are not replaced yet."""
    if body.workflow is None:
        if body.variables:
            raise Problem(422, "bad-request", "other variables need the workflow again: give `workflow`")
        return {"limits": body.limits}, SavedAs("", "")
    plan, origin = await plan_to_run(request, who, body.workflow, body.variables)
    return {"limits": body.limits, "workflow": plan.workflow}, origin


@router.post(
    "/runs/{run_id}/fork",
    openapi_extra=TEXT_BODY,
    status_code=201,
    responses={
        **problems(409, 429),
        201: {"description": "The new run is stored.", "headers": LOCATION},
    },
)
async def fork_run(
    run_id: RunId, body: ForkBody, request: Request, response: Response, who: Operator
) -> StartedRun:
    """Start a new run from a point of this one."""
    how = await _how_scripted(request, who, run_id, body.script)
    context = await controlled(request, who, run_id, "fork", at=body.at, **how)
    await context.check_allowed(run_id)
    context.check_capacity()
    row = await context.row(run_id)
    if body.script is None:
        await context.check_shared_limits(row, who.id)
    changes, origin = await _changes(request, who, body)
    script = await script_of(request, who, body.script)
    async with context.long_work.turn(who, row):
        new = await context.runs.fork(
            run_id,
            body.at,
            message=body.message,
            script=script,
            script_rights=script_rights(who),
            started_by=who.id,
            by=who.name,
            saved_as=origin.saved_as,
            workflow_version=origin.workflow_version,
            **changes,
        )
    if body.run:
        await context.execute(
            lambda: context.runs.resume_in_background(new, attach=context.attachment(), by=who.name), new
        )
    elif (await context.row(new)).status == "running":
        # Otherwise the supervisor would take it for a run whose process died, and resume it.
        await context.runs.engine.control(new, Pause("forked", by=who.name))
    response.headers["location"] = f"/api/v1/runs/{new}"
    return StartedRun(id=new, status=(await context.row(new)).status)


class ReplayResult(Struct, frozen=True):
    """What a replay found."""

    difference: Difference | None
    """The first difference; null if there is none."""


@router.post(
    "/runs/{run_id}/replay",
    openapi_extra=TEXT_BODY,
    responses={**problems(409, 429), 200: struct_response(ReplayResult)},
)
async def replay_run(run_id: RunId, body: ChangesBody, request: Request, who: Operator) -> dict[str, Any]:
    """Where the run would first have differed with these changes; no model is called."""
    context = await controlled(request, who, run_id, "replay")
    changes, _ = await _changes(request, who, body)
    async with context.long_work.turn(who, await context.row(run_id)):
        difference = await context.runs.replay(run_id, **changes)
    return {"difference": msgspec.to_builtins(difference) if difference is not None else None}
