"""Tools of servers that speak the Model Context Protocol.

`McpConnection` represents a server over several sessions (mcp_session.py), `McpTool` one tool of it. The
package `mcp` is an extra, and slow to import: it is imported when a server is first used.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roundel.llm.mcp_session import McpErrors, McpSession, SessionExpired
from roundel.nodes.services import NodeError, ToolError, ToolSpec
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.message import json_text
from roundel.workflow.secrets import SecretMasker
from roundel.workflow.tool_source import McpServer

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock
    from mcp.types import Tool as McpToolInfo


def result_text(result: CallToolResult) -> str:
    """The result of a tool as text for a model. Images and other binary content are named, not included:
    a result is text for all providers. Structured content counts only if there is no text, which
    usually repeats it."""
    parts = [_block_text(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        parts.append(json_text(result.structured_content))
    return "\n".join(parts)


def _block_text(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {_decoded_size(block.data)} bytes]"
        case "resource_link":
            return f"[resource {block.name} {block.uri}]"
        case "resource":
            resource = block.resource
            if hasattr(resource, "text"):
                return resource.text
            kind = f" {resource.mime_type}" if resource.mime_type else ""
            return f"[resource {resource.uri}{kind}, {_decoded_size(resource.blob)} bytes]"


def _decoded_size(encoded: str) -> int:
    """The number of bytes in a base64 text, without decoding it."""
    return len(encoded) * 3 // 4 - encoded.count("=", -2)


def require_mcp() -> None:
    """Raises NodeError if the extra is not installed, without importing it."""
    if find_spec("mcp") is None:
        raise NodeError('MCP tools need the extra: pip install "roundel[mcp]"')


class McpConnection:
    """One MCP server, for all runs of the process that use it in the same way. The resource pool owns
    it, and closes it when no run has used it for a while (llm/toolbox.py).

    It has one session at a time, and opens a new one if the server has died or has lost the session."""

    def __init__(
        self,
        server: McpServer,
        folder: Path | None,
        *,
        prefix: str = "",
        only: tuple[str, ...] = (),
        timeout: float | None = None,
        name: str = "",
        secrets: SecretMasker | None = None,
        networks: tuple[str, ...] | None = None,
    ) -> None:
        """`networks` are the private networks that the server may be in; None checks no address."""
        self._server = server
        self._networks = networks
        self._folder = folder
        self._prefix = prefix
        self._only = only
        self._seconds = server.timeout or timeout
        self._errors = McpErrors(server, name, secrets or SecretMasker())
        self._session: McpSession | None = None
        self._closed = False

    async def tools(self) -> list[McpTool]:
        """The tools that the server offers. The first caller connects; others wait for the same
        session."""
        server_tools = await self._current_session().tools()
        chosen = self._select_tools({tool.name: tool for tool in server_tools})
        return [McpTool(self, tool.name, self._spec(tool)) for tool in chosen]

    async def call(self, name: str, arguments: dict[str, Any], key: str) -> str:
        """Calls a tool by its name on the server, without our prefix. ToolError if the tool failed.

        A call is repeated only if the server refused it because of the session, and so has not executed
        it. If the connection breaks during a call, its effect is unknown and the error goes to the
        model."""
        try:
            result = await self._call_once(name, arguments, key)
        except SessionExpired:
            result = await self._retry_in_new_session(name, arguments, key)
        text = result_text(result)
        if result.is_error:
            raise ToolError(self._errors.clean(text) or "the tool failed and did not say why")
        return text

    async def close(self) -> None:
        """Ends the server, or the session with it. The connection cannot be used afterwards."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _current_session(self) -> McpSession:
        """The session; a new one if there is none, or if it has ended. It does not await anything, so
        concurrent callers get the same session."""
        if self._closed:
            raise NodeError(f"{self._errors.label} is closed: the process is about to end")
        if self._session is None or self._session.ended:
            require_mcp()
            self._session = McpSession(
                self._server, self._folder, self._errors, self._session, self._networks
            )
        return self._session

    async def _call_once(self, name: str, arguments: dict[str, Any], key: str) -> CallToolResult:
        session = self._current_session()
        await session.tools()
        return await session.call(name, arguments, key, self._seconds)

    async def _retry_in_new_session(self, name: str, arguments: dict[str, Any], key: str) -> CallToolResult:
        """Repeats a call after the server has lost the session, as it does when it restarts. Once only:
        if the new session is unknown as well, probably several servers share the address."""
        try:
            return await self._call_once(name, arguments, key)
        except SessionExpired:
            raise NodeError(f"{self._errors.label} loses its sessions; is it several servers?") from None

    def _select_tools(self, offered: dict[str, McpToolInfo]) -> list[McpToolInfo]:
        for name in self._only:
            if name not in offered:
                available = ", ".join(offered) or "none"
                hint = did_you_mean(name, offered)
                text = (
                    f"{self._errors.label} has no tool '{name}', which 'only' names; there are: {available}"
                )
                raise NodeError(f"{text}. {hint}" if hint else text)
        return [offered[name] for name in self._only] if self._only else list(offered.values())

    def _spec(self, tool: McpToolInfo) -> ToolSpec:
        name = f"{self._prefix}_{tool.name}" if self._prefix else tool.name
        return ToolSpec(name, tool.description or "", tool.input_schema)


class McpTool:
    """A tool of a server, with the name and the schema that a model gets."""

    def __init__(self, connection: McpConnection, name: str, spec: ToolSpec) -> None:
        self.spec = spec
        self._connection = connection
        self._name = name

    async def call(self, arguments: dict[str, Any], key: str) -> str:
        return await self._connection.call(self._name, arguments, key)
