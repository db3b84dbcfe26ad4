"""A server to test against: `toolbox.py stdio`, or `toolbox.py http PORT` (0: any; the port is printed).

With `old` behind it, it speaks only the older protocol, which has sessions.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

Context = ServerRequestContext[Any, Any]
PAGE = 5
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
_ANY: dict[str, Any] = {"type": "object", "properties": {}}
_TOTAL = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
_DATA = base64.b64encode(bytes(1234)).decode()


def text(value: object) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=str(value))])


def leave_mark(path: str) -> None:
    Path(path).touch()


async def echo(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(arguments["text"])


async def add(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(arguments["a"] + arguments["b"])


async def fail(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=f"no such city: {arguments.get('text')}")]
    return CallToolResult(content=content, is_error=True)


async def refuse(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    raise MCPError(INVALID_PARAMS, "these arguments are wrong")


async def slow(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    """Leaves a mark when it begins, and another when it is cancelled."""
    leave_mark(arguments["text"] + ".begun")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        leave_mark(arguments["text"] + ".cancelled")
        raise
    return text("late")


async def media(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(type="text", text="two lines"),
            ImageContent(type="image", data=_DATA, mime_type="image/png"),
            AudioContent(type="audio", data=_DATA, mime_type="audio/wav"),
            ResourceLink(type="resource_link", name="notes", uri="file:///notes.txt"),
            EmbeddedResource(type="resource", resource=TextResourceContents(uri="a:b", text="of a file")),
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(uri="a:c", blob=_DATA, mime_type="application/pdf"),
            ),
        ]
    )


async def structured(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[], structured_content={"total": 3})


async def off_schema(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[], structured_content={"total": "three"})


async def key(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text((context.meta or {}).get("roundel/idempotency-key"))


async def header(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(context.request.headers.get(arguments["text"]) if context.request else None)


async def env(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(os.environ.get(arguments["text"]))


async def cwd(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(os.getcwd())  # noqa: PTH109


async def pid(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    return text(os.getpid())


async def die(context: Context, arguments: dict[str, Any]) -> CallToolResult:
    print("out of memory, says", os.environ.get("TOOLBOX_SECRET"), file=sys.stderr, flush=True)
    os._exit(3)


_WORK: list[tuple[Callable[[Context, dict[str, Any]], Awaitable[CallToolResult]], dict[str, Any]]] = [
    (echo, _TEXT),
    (add, _NUMBERS),
    (fail, _TEXT),
    (refuse, _ANY),
    (slow, _TEXT),
    (media, _ANY),
    (structured, _ANY),
    (off_schema, _ANY),
    (key, _ANY),
    (header, _TEXT),
    (env, _TEXT),
    (cwd, _ANY),
    (pid, _ANY),
    (die, _ANY),
]
_FUNCTIONS = {function.__name__: function for function, _ in _WORK}
_TOOLS = [
    Tool(
        name=function.__name__,
        description=f"Does {function.__name__}.",
        input_schema=schema,
        output_schema=_TOTAL if function in (structured, off_schema) else None,
    )
    for function, schema in _WORK
]


async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    end = start + PAGE
    return ListToolsResult(tools=_TOOLS[start:end], next_cursor=str(end) if end < len(_TOOLS) else None)


async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    return await _FUNCTIONS[params.name](context, params.arguments or {})


async def refuse_new_protocol(ctx: Context, call_next: CallNext) -> HandlerResult:
    if ctx.method == "server/discover":
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


async def on_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def on_http(server: Server[Any], port: int) -> None:
    # The event loop sends small answers at once only if the socket says that it is TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    box: Server[Any] = Server("toolbox", on_list_tools=list_tools, on_call_tool=call_tool)
    if "old" in sys.argv:
        box.middleware.append(refuse_new_protocol)
    asyncio.run(on_stdio(box) if sys.argv[1] == "stdio" else on_http(box, int(sys.argv[2])))
