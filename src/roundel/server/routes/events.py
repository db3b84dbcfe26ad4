"""Events of one run, and of all runs that the caller may see, as server-sent events or as JSON Lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from roundel.kernel.events import encode_event
from roundel.server.bodies import problems
from roundel.server.context import ServerContext, caller, context_of, still_sees
from roundel.server.identity import Principal
from roundel.server.routes.runs import RunId
from roundel.server.sse import MEDIA_TYPE, EventStream, encode_notice, encode_sse

router = APIRouter(prefix="/api/v1", tags=["events"])
Viewer = Annotated[Principal, caller("viewer")]
JSON_LINES = "application/jsonl"
Position = Annotated[int, Query(ge=0, le=2**53)]
LastEventId = Annotated[str | None, Header(alias="last-event-id", pattern="^[0-9]{1,15}$")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, as they are committed",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}, JSON_LINES: {"schema": {"type": "string"}}},
    }
}


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_STREAM | problems())
async def run_events(
    run_id: RunId,
    request: Request,
    who: Viewer,
    after: Position = 0,
    follow: bool = True,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of a run after a `seq`. `Last-Event-ID` continues a stream that was interrupted."""
    context = context_of(request)
    group = (await context.visible_row(who, run_id)).group
    start = int(last_event_id) if last_event_id is not None else after
    if not follow:
        return StreamingResponse(_lines(context, run_id, start), media_type=JSON_LINES)
    context.hub.check()
    return EventStream(context.hub.stream(run_id, start), lambda: still_sees(request, group))


async def _lines(context: ServerContext, run_id: str, after: int) -> AsyncIterator[bytes]:
    async for event in context.runs.follow(run_id, after=after, live=False):
        yield encode_event(event) + b"\n"


@router.get("/events", response_class=StreamingResponse, responses=_STREAM | problems())
async def all_events(
    request: Request,
    who: Viewer,
    after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    follow: bool = True,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of all runs that the caller may see, after a position of the store; from now on if there is
    none. The position is the `id` of an event: a client that continues after it misses nothing."""
    context = context_of(request)
    start = int(last_event_id) if last_event_id is not None else after
    if start is None:
        start = await context.runs.position()
    batches = context.runs.follow_all(after=start, groups=who.groups, live=follow)
    if follow:
        context.hub.check()
        return EventStream(context.hub.until_closed(_all_sse(batches)), lambda: still_sees(request, None))
    return StreamingResponse(_all_lines(batches), media_type=JSON_LINES)


async def _all_sse(batches: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Each append is one write. Only its last event has the position: a client that lost the connection in
    between gets the whole append again, or nothing of it."""
    async for position, events in batches:
        parts = [_without_id(encode_sse(event)) for event in events]
        yield b"".join(parts) + encode_notice("position", b"%d" % position, position)


def _without_id(body: bytes) -> bytes:
    """An event without its `seq` as the id: in this stream, ids are positions."""
    return body[body.index(b"event:") :]


async def _all_lines(batches: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for position, events in batches:
        for event in events:
            yield b'{"position":%d,"event":%b}\n' % (position, encode_event(event))
