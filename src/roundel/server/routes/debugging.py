"""Debugging a run: steps, breakpoints, and edits of messages that wait."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import Field

from roundel.runs.inspection import BreakpointState
from roundel.server.admission import PART_BODY, TEXT_BODY, Route
from roundel.server.bodies import Data, RequestBody, ShortText, Text, problems
from roundel.server.context import context_of
from roundel.server.problems import Problem
from roundel.server.routes.control import controlled, current_view
from roundel.server.routes.inspection import RunState, state_view
from roundel.server.routes.runs import (
    Breakpoints,
    Operator,
    RunId,
    RunView,
    Viewer,
    breakpoint_sources,
)
from roundel.server.schemas import struct_response

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=Route)


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


@router.post("/runs/{run_id}/step", responses=problems(409, 429))
async def step_run(run_id: RunId, body: StepBody, request: Request, who: Operator) -> RunView:
    """Run the next node of a paused run, or its next round, and pause again."""
    context = await controlled(request, who, run_id, "step", round=body.round)
    await context.check_allowed(run_id)
    await context.execute(
        lambda: context.runs.step_in_background(
            run_id, round=body.round, attach=context.attachment(), by=who.name
        ),
        run_id,
    )
    return await current_view(context, run_id)


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
    openapi_extra=PART_BODY,
    responses={**problems(409), 200: struct_response(list[BreakpointState])},
)
async def change_breakpoints(
    run_id: RunId, body: BreakpointsBody, request: Request, who: Operator
) -> list[dict[str, Any]]:
    """Set and remove breakpoints, whichever process executes the run."""
    context = await controlled(request, who, run_id, "breakpoints")
    states = await context.runs.set_breakpoints(
        run_id, *breakpoint_sources(body.add), remove=breakpoint_sources(body.remove), by=who.name
    )
    return [msgspec.to_builtins(state) for state in states]


@router.post(
    "/runs/{run_id}/edit",
    openapi_extra=TEXT_BODY,
    responses={**problems(409), 200: struct_response(RunState)},
)
async def edit_run(run_id: RunId, body: EditBody, request: Request, who: Operator) -> dict[str, Any]:
    """Edit a message that waits at a node of a paused or locked run."""
    context = await controlled(request, who, run_id, "edit", at=body.at)
    if body.text is None and body.data is None:
        raise Problem(422, "bad-request", "an edit has a text, data, or both")
    seen = await context.runs.edit(
        run_id,
        body.text,
        at=body.at,
        position=body.position,
        data=body.data,
        version=body.version,
        by=who.name,
    )
    return state_view(seen)
