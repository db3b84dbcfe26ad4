"""Events of one run, and of all runs that the caller may see, as server-sent events or as JSON Lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from roundel.kernel.events import encode_event
from roundel.server.admission import Route
from roundel.server.bodies import problems
from roundel.server.context import ServerContext, caller, context_of, still_sees
from roundel.server.cursors import RUN_CURSOR, STORE_CURSOR, EventCursor, read_cursor
from roundel.server.identity import Principal
from roundel.server.routes.runs import RunId
from roundel.server.sse import MEDIA_TYPE, CountedResponse, EventStream

router = APIRouter(prefix="/api/v1", tags=["events"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
JSON_LINES = "application/jsonl"
LINES_BYTES = 64 * 1024
"""The least bytes of a write of JSON Lines, except for the last one."""
After = Annotated[
    str,
    Query(
        pattern=RUN_CURSOR,
        description="Only events after this one: its `seq`, or its `id` as server-sent event.",
    ),
]
Follow = Annotated[
    bool,
    Query(description="`true`: server-sent events, as they happen. `false`: what is stored, as JSON Lines."),
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=RUN_CURSOR,
        description="The `id` of the last event that the client has; takes precedence over `after`.",
    ),
]
AppendId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=STORE_CURSOR,
        description="The `id` of the last event that the client has; takes precedence over `after`.",
    ),
]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, as they are committed.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}, JSON_LINES: {"schema": {"type": "string"}}},
    }
}


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_STREAM | problems(409, 429))
async def run_events(
    run_id: RunId,
    request: Request,
    who: Viewer,
    after: After = "0",
    follow: Follow = True,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of a run after a `seq`. `Last-Event-ID` continues a stream that was interrupted. If the
    server numbers events otherwise than the one that gave the `id`, the stream begins with the notice
    `reset`, and has all events."""
    context = context_of(request)
    group = (await context.visible_row(who, run_id)).group
    start = read_cursor(last_event_id if last_event_id is not None else after)
    release = context.hub.reserve(who.id)
    if not follow:
        known = 0 if start.is_outdated else start.position
        return _stored(context, _lines(context, run_id, known), release)
    return EventStream(context.hub.stream(run_id, start), lambda: still_sees(request, group), release)


async def _lines(context: ServerContext, run_id: str, after: int) -> AsyncIterator[bytes]:
    async for event in context.runs.follow(run_id, after=after, live=False):
        yield encode_event(event) + b"\n"


def _stored(context: ServerContext, lines: AsyncIterator[bytes], release: Callable[[], None]) -> Response:
    return CountedResponse(context.hub.counted(_together(lines)), release, media_type=JSON_LINES)


async def _together(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same in fewer writes: each costs the server and the client more than the line."""
    gathered: list[bytes] = []
    size = 0
    async for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= LINES_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
            await asyncio.sleep(0)  # a replay is work; the others must not wait for all of it
    if gathered:
        yield b"".join(gathered)


@router.get("/events", response_class=StreamingResponse, responses=_STREAM | problems(429))
async def all_events(
    request: Request,
    who: Viewer,
    after: Annotated[
        str | None,
        Query(
            pattern=STORE_CURSOR,
            description="Only events after this position, or this `id`; without it, from now on.",
        ),
    ] = None,
    follow: Follow = True,
    last_event_id: AppendId = None,
) -> Response:
    """The events of all runs that the caller may see, after a position of the store; from now on if there is
    none. The `id` of an event is the position of its append, with its number in the append if it is not the
    last one of it: a client that continues after it misses nothing, and gets nothing twice. The notice
    `reset` says that events are now numbered otherwise than when the `id` was given."""
    context = context_of(request)
    known = last_event_id if last_event_id is not None else after
    cursor = read_cursor(known) if known is not None else None
    release = context.hub.reserve(who.id)  # from here on nothing may fail before the response
    if not follow:
        return _stored(context, _all_lines(context, who, cursor), release)
    chunks = context.hub.stream_all(who.groups, cursor)
    return EventStream(chunks, lambda: still_sees(request, None), release)


async def _all_lines(
    context: ServerContext, who: Principal, cursor: EventCursor | None
) -> AsyncIterator[bytes]:
    """The events after a place; those of an append of which the client knows a part come once more."""
    if cursor is None:
        return
    after = max(0, cursor.position - 1) if cursor.part else cursor.position
    async for position, events in context.runs.follow_all(after=after, groups=who.groups, live=False):
        for event in events:
            yield b'{"position":%d,"event":%b}\n' % (position, encode_event(event))
