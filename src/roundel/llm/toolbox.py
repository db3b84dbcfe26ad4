"""The tools of a run, and of each agent in it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roundel.llm.mcp import McpConnection, McpTool, require_mcp
from roundel.llm.python_tool import Caller, PythonTool
from roundel.llm.resource_pool import Lease
from roundel.nodes.agent_config import Config
from roundel.nodes.services import NodeError, Tool, ToolError, ToolRequest, ToolResult, ToolSpec
from roundel.nodes.time_limit import Overdue, TimeLimit
from roundel.workflow.functions import Finder, raised
from roundel.workflow.graph import Node
from roundel.workflow.secrets import Secrets
from roundel.workflow.tool_source import EVERY_FUNCTION, FunctionTooling, McpServer, Tooling, ToolSource

_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64


class Tools:
    """Everything that the agents of a run may use. Connections to servers are those of the pool.

    Without a lease on the pool the run is offline, as one with a script is: it starts no server, and connects
    to none."""

    def __init__(
        self,
        sources: Mapping[str, ToolSource],
        finder: Finder,
        caller: Caller,
        secrets: Secrets,
        folder: Path | None,
        *,
        lease: Lease | None,
    ) -> None:
        self._lease = lease
        self._sources = sources
        self._finder = finder
        self._caller = caller
        self._secrets = secrets
        self._folder = folder

    def of(self, node: Node) -> AgentTools:
        """NodeError or LookupError if a tool that the agent names cannot be had."""
        config: Config = node.config
        parts: list[Part] = [self._named(name) for name in config.tool_names]
        for tooling in config.tooling:
            parts.extend(self._tooling(tooling))
        asked = config.approval.names if config.approval is not None else ()
        return AgentTools(parts, self._secrets, asked)

    def _served(self, source: ToolSource, server: McpServer, timeout: float | None, name: str = "") -> Part:
        """The tools of a server."""
        connection = None if self._lease is None else self._server(server, source, name, self._lease)
        return Part(None, connection, timeout, name, source.poll)

    def _named(self, name: str) -> Part:
        source = self._sources.get(name)
        if source is None:
            return Part(PythonTool(name, self._finder.find("tool", name).call, self._caller, source=name))
        if source.mcp is not None:
            return self._served(source, source.mcp, source.timeout, name)
        function = self._finder.find("function", source.python).call
        tool = PythonTool(
            f"{source.prefix}_{name}" if source.prefix else name,
            function,
            self._caller,
            about=source.description,
            schema=source.parameters,
            source=name,
        )
        return Part(tool, timeout=source.timeout, polls=source.poll)

    def _tooling(self, tooling: Tooling) -> list[Part]:
        server = tooling.server()
        prefix = f"{tooling.prefix}_" if tooling.prefix else ""
        if server is not None:
            return [self._served(ToolSource(mcp=server, prefix=tooling.prefix), server, server.timeout)]
        assert isinstance(tooling.config, FunctionTooling)
        parts = []
        for wanted in tooling.config.tools:
            for name, function in self._functions(wanted.name):
                tool = PythonTool(
                    prefix + name,
                    function,
                    self._caller,
                    about=wanted.description,
                    schema=wanted.parameters,
                )
                parts.append(Part(tool, timeout=tooling.config.timeout))
        return parts

    def _functions(self, name: str) -> list[tuple[str, Any]]:
        """The functions that an entry of the dialect means; `check` warns of those that cannot be had."""
        try:
            if name.endswith(EVERY_FUNCTION):
                module = self._finder.module(name.removesuffix(EVERY_FUNCTION))
                return sorted(public(module).items()) if module is not None else []
            return [(name.rpartition(":")[2], self._finder.find("tool", name).call)]
        except LookupError:
            return []

    def _server(self, server: McpServer, source: ToolSource, name: str, lease: Lease) -> McpConnection:
        require_mcp()

        def connect() -> McpConnection:
            return McpConnection(
                server,
                self._folder,
                prefix=source.prefix,
                only=source.only,
                timeout=source.timeout,
                name=name,
                secrets=self._secrets,
            )

        # The program, its arguments, environment and headers are all in the key, so that runs share a
        # server only if they have the same secrets for it.
        options = msgspec.json.encode((server, source.prefix, source.only, source.timeout, name))
        return lease.take(("mcp", self._folder, options), connect, McpConnection.close)


def public(module: Any) -> dict[str, Any]:
    """The functions that a module defines for others."""
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    }


class Part:
    """A tool, or a server with tools; neither for the server of a run that is offline."""

    def __init__(
        self,
        tool: Tool | None,
        server: McpConnection | None = None,
        timeout: float | None = None,
        source: str = "",
        polls: bool = False,
    ) -> None:
        self.tool, self.server, self.timeout, self._source = tool, server, timeout, source
        self.polls = polls

    @property
    def is_offline(self) -> bool:
        return self.tool is None and self.server is None

    async def tools(self) -> list[Tool]:
        if self.tool is not None:
            return [self.tool]
        return await self.server.tools() if self.server is not None else []

    def spec(self, tool: Tool) -> ToolSpec:
        name = _STRANGE.sub("_", tool.spec.name)[:LONGEST_NAME]
        source = tool.spec.source or self._source
        return msgspec.structs.replace(tool.spec, name=name, source=source)


class AgentTools:
    """What one agent offers to its model."""

    def __init__(self, parts: Sequence[Part], secrets: Secrets, asked: Sequence[str] = ()) -> None:
        self._parts = parts
        self._secrets = secrets
        self._asked = asked
        """The tools that a person has to allow."""
        self._known: dict[str, tuple[Tool, Part]] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self._lacks_servers = any(part.is_offline for part in parts)
        """Whether there would be more tools if the run were not offline."""
        if all(
            part.server is None for part in parts
        ):  # so that nothing is found out only when the agent runs
            self._take([(part, part.tool) for part in parts if part.tool is not None])

    async def specs(self) -> tuple[ToolSpec, ...]:
        if self._specs is None:
            return self._take([(part, tool) for part in self._parts for tool in await part.tools()])
        return self._specs

    def _take(self, tools: Sequence[tuple[Part, Tool]]) -> tuple[ToolSpec, ...]:
        known: dict[str, tuple[Tool, Part]] = {}
        specs = []
        for part, tool in tools:
            spec = part.spec(tool)
            if spec.name in known:
                raise NodeError(f"two tools have the name '{spec.name}'; give one of them a prefix")
            known[spec.name] = (tool, part)
            specs.append(spec)
        for name in self._asked:
            # Or it would be called without anybody being asked.
            if name not in known and not self._lacks_servers:
                raise NodeError(f"'approval' names the tool '{name}', which is not there; {_there(known)}")
        self._known, self._specs = known, tuple(specs)
        return self._specs

    async def checked(self, request: ToolRequest) -> ToolRequest:
        await self.specs()
        if request.problem or request.name in self._known:
            return request
        problem = f"there is no tool '{request.name}'; {_there(self._known)}"
        if self._lacks_servers:
            if request.given is not None:
                return request  # what the server offers is not known, and need not be
            problem += "; a scripted run starts no MCP server: give the call a `result` in the script"
        return msgspec.structs.replace(request, problem=problem)

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        request = await self.checked(request)
        if request.problem:
            return self._result(request, "failed", request.problem), False
        if request.given is not None:
            status = "failed" if request.given.failed else "completed"
            return self._result(request, status, request.given.text), True
        tool, part = self._known[request.name]
        try:
            async with TimeLimit(part.timeout):
                text = await tool.call(request.arguments, key)
        except Exception as error:
            return self._result(request, "failed", _told(error)), True
        return self._result(request, "completed", text), True

    def is_remote(self, name: str) -> bool:
        """Whether a tool is one of a server."""
        tool, _ = self._known.get(name, (None, None))
        return isinstance(tool, McpTool)

    def _result(self, request: ToolRequest, status: Any, text: str) -> ToolResult:
        _, part = self._known.get(request.name, (None, None))
        text = self._secrets.mask(_valid(text))
        return ToolResult(request.id, request.name, status, text, part is not None and part.polls)


def _valid(text: str) -> str:
    """As it can be written down: what a function gave may hold halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _there(known: Mapping[str, object]) -> str:
    return f"there are: {', '.join(sorted(known)) or 'none'}"


def _told(error: Exception) -> str:
    if isinstance(error, (NodeError, ToolError, Overdue)):
        return str(error)
    return raised(error)
