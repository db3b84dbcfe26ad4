"""The memory of groups: read it, search it, add to it and delete from it, as `roundel memory` does.

A group without a name is written `~` in the path.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from roundel.journal.store import StoreError
from roundel.kernel.events import stamp
from roundel.memory.store import MemoryEntry
from roundel.runs.memory import Memory, Quarantined
from roundel.server.admission import TEXT_BODY, Route
from roundel.server.bodies import (
    Cursor,
    PageSize,
    RequestBody,
    ResponseBody,
    ShortText,
    Text,
    problems,
)
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.identity import Principal
from roundel.server.problems import Problem, not_found
from roundel.server.routes.runs import RunId

router = APIRouter(prefix="/api/v1", tags=["memory"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Operator = Annotated[Principal, caller("operator")]
Author = Annotated[Principal, caller("author")]
Group = Annotated[
    str, Path(min_length=1, max_length=200, description="The group; `~` is the one without a name.")
]
EntryId = Annotated[int, Path(ge=0, le=2**53, description="The id of the entry.")]
Shelf = Annotated[
    ShortText, Query(description="Only this memory: `working`, `long_term`, or one of a graph.")
]
NO_GROUP = "~"


class MemoryView(ResponseBody):
    """An entry of a memory."""

    id: int
    """The id of the entry."""
    shelf: str
    """The memory that it is in: `working`, `long_term`, or another one."""
    text: str
    """The text."""
    time: str
    """When it was written."""
    run_id: str
    """The run that wrote it; empty if a person did."""
    node: str
    """The node that wrote it."""
    address: str
    """The address of that node in the run."""
    confidence: float | None = None
    """The confidence that the node gave, from 0 to 1."""


class MemoryList(ResponseBody):
    """A page of entries."""

    entries: list[MemoryView]
    """The entries of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


class MemoryMatches(ResponseBody):
    """Entries that were found or added."""

    entries: list[MemoryView]
    """The entries."""


class PromoteBody(RequestBody):
    """What to add to long-term memory: an entry, the output of a node of a run, or a text."""

    entry: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """The id of an entry of the group."""
    run: RunId | None = None
    """The id of a run, together with `at`."""
    at: ShortText = ""
    """The address of a node of the run."""
    text: Text = ""
    """A text."""


class Deleted(ResponseBody):
    """How much was deleted."""

    deleted: int
    """How many entries were deleted."""


class QuarantinedView(ResponseBody):
    """A message that a node of a run returned."""

    address: str
    """The address of the node, such as `Writer[3]`."""
    node: str
    """The id of the node."""
    time: str
    """When it was returned."""
    content: str
    """The text."""
    metadata: dict[str, Any]
    """What the node noted about it."""
    confidence: float | None = None
    """The confidence that the node gave, from 0 to 1."""


class QuarantinePage(ResponseBody):
    """A page of messages."""

    messages: list[QuarantinedView]
    """The messages of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def _open(request: Request, who: Principal, group: str) -> tuple[ServerContext, Memory, str]:
    """The memory of a group that the caller may see."""
    name = "" if group == NO_GROUP else group
    if not who.sees(name):
        raise not_found()
    context = context_of(request)
    return context, Memory(context.runs.store), name


def _view(entry: MemoryEntry) -> MemoryView:
    fields = {name: getattr(entry, name) for name in MemoryView.model_fields if name != "time"}
    return MemoryView(**fields, time=stamp(entry.time))


def _quarantined_view(one: Quarantined) -> QuarantinedView:
    return QuarantinedView(**{**msgspec.to_builtins(one, enc_hook=repr), "time": stamp(one.time)})


@router.get("/memory/{group}", responses=problems())
async def list_memory(
    group: Group,
    request: Request,
    who: Viewer,
    kind: Shelf = "",
    cursor: Cursor = "",
    limit: PageSize = 50,
) -> MemoryList:
    """The entries of a group, the newest first."""
    _, memory, name = _open(request, who, group)
    found = await memory.page(name, kind, before=int(cursor or 0), limit=limit + 1)
    more = len(found) > limit
    return MemoryList(
        entries=[_view(entry) for entry in found[:limit]], next=str(found[limit - 1].id) if more else None
    )


@router.get("/memory/{group}/search", responses=problems())
async def search_memory(
    group: Group,
    request: Request,
    who: Viewer,
    q: Annotated[str, Query(min_length=1, max_length=2_000, description="Words to look for.")],
    kind: Shelf = "",
    limit: Annotated[int, Query(ge=1, le=100, description="The most entries.")] = 10,
) -> MemoryMatches:
    """The entries of a group that share words with a text, the best match first."""
    _, memory, name = _open(request, who, group)
    return MemoryMatches(entries=[_view(entry) for entry in await memory.search(name, q, kind, limit)])


@router.post("/memory/{group}", openapi_extra=TEXT_BODY, status_code=201, responses=problems(409, 429))
async def promote_memory(group: Group, body: PromoteBody, request: Request, who: Operator) -> MemoryMatches:
    """Add an entry, the output of a node or a text to the long-term memory of a group."""
    context, memory, name = _open(request, who, group)
    if sum((body.entry is not None, body.run is not None, bool(body.text))) != 1:
        raise Problem(422, "bad-request", "promote one thing: an `entry`, a `run` with `at`, or a `text`")
    row = await context.visible_row(who, body.run) if body.run is not None else None
    source = {"entry": body.entry, "run": body.run, "at": body.at}
    await context.audit(who, "memory.promote", name, group=name, **source)
    try:
        async with context.long_work.turn(who, row):
            promoted = await memory.promote(name, body.entry, run=body.run or "", at=body.at, text=body.text)
    except StoreError as error:
        raise Problem(422, "bad-request", str(error)) from error
    return MemoryMatches(entries=[_view(entry) for entry in promoted])


@router.delete("/memory/{group}/{entry_id}", status_code=204, responses=problems())
async def forget_entry(group: Group, entry_id: EntryId, request: Request, who: Operator) -> None:
    """Delete one entry of a group."""
    context, memory, name = _open(request, who, group)
    await context.audit(who, "memory.forget", name, group=name, entry=entry_id)
    if not await memory.forget(name, entry_id):
        raise not_found()


@router.delete("/memory/{group}", responses=problems())
async def forget_group(group: Group, request: Request, who: Author) -> Deleted:
    """Delete all entries of a group."""
    context, memory, name = _open(request, who, group)
    await context.audit(who, "memory.forget_all", name, group=name)
    return Deleted(deleted=await memory.forget_all(name))


@router.get("/runs/{run_id}/quarantine", responses=problems(409, 429))
async def get_quarantine(
    run_id: RunId, request: Request, who: Viewer, cursor: Cursor = "", limit: PageSize = 50
) -> QuarantinePage:
    """The messages that the nodes of a run returned, in order; some of them may be promoted. A page has about
    a megabyte at most, and may have no messages although more pages follow."""
    context = context_of(request)
    row = await context.visible_row(who, run_id)
    async with context.long_work.turn(who, row):
        found, after = await Memory(context.runs.store).quarantine_page(
            run_id, after=int(cursor or 0), limit=limit
        )
    return QuarantinePage(
        messages=[_quarantined_view(one) for one in found], next=str(after) if after is not None else None
    )
