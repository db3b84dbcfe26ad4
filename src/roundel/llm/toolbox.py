"""The tools of a run, and the tools of each agent in it.

`Tools` finds what agents declare (Python functions, functions of the dialect, MCP servers), and
`AgentTools` offers the tools of one agent under names that providers accept and calls them. An error of
a tool never fails the agent: it is a result that the model gets.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from roundel.kernel.facts import Outcome
from roundel.llm.mcp import McpConnection, McpTool, require_mcp
from roundel.llm.python_tool import PythonTool, ToolHost
from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.agent_config import Config
from roundel.nodes.evaluation import evaluate
from roundel.nodes.jump import break_loop
from roundel.nodes.services import LoopExit, NodeError, Tool, ToolError, ToolRequest, ToolResult, ToolSpec
from roundel.nodes.structured_output import parse_answer
from roundel.nodes.user_code import TimeLimit, TimeLimitExceeded, valid_unicode
from roundel.workflow.functions import EXIT_LOOP, FunctionFinder, format_exception
from roundel.workflow.graph import Node
from roundel.workflow.message import Message, as_message, json_text
from roundel.workflow.secrets import SecretMasker
from roundel.workflow.tool_source import ALL_FUNCTIONS_SUFFIX, FunctionTooling, McpServer, Tooling, ToolSource

_INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
MAX_NAME_LENGTH = 64
"""Providers accept names of tools with these characters and this length only."""


class Tools:
    """The tools of one run. The host creates it; `for_node` gives each agent its own.

    Connections to servers belong to the pool of the process. Without a lease on the pool the run is
    offline, as a run with a script is: it starts no server and connects to none (decision 13). Without
    `calls` it calls no tool at all, and the script has to give the results (decision 53)."""

    def __init__(
        self,
        sources: Mapping[str, ToolSource],
        finder: FunctionFinder,
        caller: ToolHost,
        secrets: SecretMasker,
        folder: Path | None,
        *,
        lease: ResourceLease | None,
        calls: bool = True,
    ) -> None:
        self._lease = lease
        self._calls = calls
        self._sources = sources
        self._finder = finder
        self._host = caller
        self._secrets = secrets
        self._folder = folder

    def for_node(self, node: Node) -> AgentTools:
        """The tools of one agent; NodeError or LookupError if a tool that it names cannot be used."""
        config: Config = node.config
        entries: list[ToolEntry] = [
            self._named_entry(name) for name in config.tool_names if name != EXIT_LOOP
        ]
        if config.offers_exit:
            entries.append(ToolEntry(self._exit_tool(config.output_schema)))
        for tooling in config.tooling:
            entries.extend(self._tooling_entries(tooling))
        approval_names = config.approval.names if config.approval is not None else ()
        return AgentTools(entries, self._secrets, approval_names, calls=self._calls)

    def _server_entry(
        self, source: ToolSource, server: McpServer, timeout: float | None, name: str = ""
    ) -> ToolEntry:
        """The entry of a server; without a connection if the run is offline."""
        connection = None if self._lease is None else self._connect(server, source, name, self._lease)
        return ToolEntry(None, connection, timeout, name, source.poll)

    def _named_entry(self, name: str) -> ToolEntry:
        source = self._sources.get(name)
        if source is None:
            return ToolEntry(PythonTool(name, self._finder.find("tool", name).call, self._host, source=name))
        if source.mcp is not None:
            return self._server_entry(source, source.mcp, source.timeout, name)
        function = self._finder.find("function", source.python).call
        tool = PythonTool(
            f"{source.prefix}_{name}" if source.prefix else name,
            function,
            self._host,
            about=source.description,
            schema=source.parameters,
            source=name,
        )
        return ToolEntry(tool, timeout=source.timeout, polls=source.poll)

    def _exit_tool(self, schema: dict[str, Any] | None) -> PythonTool:
        """The built-in tool that ends the loop around an agent; `schema` is that of the agent's
        answer."""

        async def exit_loop(reason: str = "", result: Any = None) -> Outcome:
            """Ends the loop that you work in. Call it when the work is done, or when another round would
            not help.

            Args:
                reason: Why the loop ends, in a few words.
                result: What you pass on: text, or any JSON value.
            """
            if schema is None:
                # One message, also for a list; that of a function would be several.
                return break_loop(None if result is None else as_message(result), reason)
            text = json_text(result)
            data, problem = await evaluate(partial(parse_answer, text, None, schema))
            if problem:
                raise ToolError(f"'result' does not fit the JSON Schema of your answer: {problem}")
            return break_loop(Message(text, "assistant", data), reason)

        return PythonTool(EXIT_LOOP, exit_loop, self._host, source=EXIT_LOOP)

    def _tooling_entries(self, tooling: Tooling) -> list[ToolEntry]:
        server = tooling.server()
        prefix = f"{tooling.prefix}_" if tooling.prefix else ""
        if server is not None:
            return [self._server_entry(ToolSource(mcp=server, prefix=tooling.prefix), server, server.timeout)]
        assert isinstance(tooling.config, FunctionTooling)
        entries = []
        for tool_function in (tool for tool in tooling.config.tools if tool.name != EXIT_LOOP):
            for name, function in self._functions(tool_function.name):
                tool = PythonTool(
                    prefix + name,
                    function,
                    self._host,
                    about=tool_function.description,
                    schema=tool_function.parameters,
                )
                entries.append(ToolEntry(tool, timeout=tooling.config.timeout))
        return entries

    def _functions(self, name: str) -> list[tuple[str, Any]]:
        """The functions that an entry of the dialect names. Missing ones are left out; loading the
        workflow has already warned of them (nodes/agent_config.py)."""
        try:
            if name.endswith(ALL_FUNCTIONS_SUFFIX):
                module = self._finder.module(name.removesuffix(ALL_FUNCTIONS_SUFFIX))
                return sorted(public_functions(module).items()) if module is not None else []
            return [(name.rpartition(":")[2], self._finder.find("tool", name).call)]
        except LookupError:
            return []

    def _connect(
        self, server: McpServer, source: ToolSource, name: str, lease: ResourceLease
    ) -> McpConnection:
        require_mcp()
        policy = lease.policy
        allowed = policy.find_server(server)
        if allowed is None:
            raise NodeError(f"the MCP server '{name or server.command or server.url}' is not allowed here")

        def connect() -> McpConnection:
            return McpConnection(
                allowed,
                self._folder,
                prefix=source.prefix,
                only=source.only,
                timeout=source.timeout,
                name=name,
                secrets=self._secrets,
                networks=policy.networks_key,
            )

        # The key contains the program, its arguments, its environment and its headers: runs share a
        # server only if they have the same secrets for it.
        options = msgspec.json.encode(
            (allowed, source.prefix, source.only, source.timeout, name, policy.networks_key)
        )
        return lease.take(("mcp", self._folder, options), connect, McpConnection.close)


def public_functions(module: Any) -> dict[str, Any]:
    """The public functions that a module itself defines, not those that it imports."""
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    }


class ToolEntry:
    """One declaration of an agent: a tool, or a server with many tools. It has neither for a server in
    an offline run."""

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
        return list(await self.server.tools()) if self.server is not None else []

    def spec(self, tool: Tool) -> ToolSpec:
        """The declaration of a tool under a name that providers accept."""
        name = _INVALID_CHARACTERS.sub("_", tool.spec.name)[:MAX_NAME_LENGTH]
        source = tool.spec.source or self._source
        return msgspec.structs.replace(tool.spec, name=name, source=source)


class AgentTools:
    """The tools that one agent offers to its model: the `Toolbox` of nodes/services.py.

    The tools of servers are known only after connecting, so they are registered on first use. Tools that
    are Python functions are registered at once, so that a name that occurs twice fails before the run
    starts."""

    def __init__(
        self,
        entries: Sequence[ToolEntry],
        secrets: SecretMasker,
        approval_names: Sequence[str] = (),
        *,
        calls: bool = True,
    ) -> None:
        self._entries = entries
        self._calls = calls
        self._secrets = secrets
        self._approval_names = approval_names
        """The tools whose calls need the approval of a person."""
        self._known: dict[str, tuple[Tool, ToolEntry]] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self._is_offline = any(entry.is_offline for entry in entries)
        """Whether servers are left out because the run is offline, so that not all tools are known."""
        if all(entry.server is None for entry in entries):
            self._register([(entry, entry.tool) for entry in entries if entry.tool is not None])

    async def specs(self) -> tuple[ToolSpec, ...]:
        """The declarations of all tools. The first call connects to the servers; the result stays the
        same for the run."""
        if self._specs is None:
            return self._register([(entry, tool) for entry in self._entries for tool in await entry.tools()])
        return self._specs

    def _register(self, tools: Sequence[tuple[ToolEntry, Tool]]) -> tuple[ToolSpec, ...]:
        known: dict[str, tuple[Tool, ToolEntry]] = {}
        specs = []
        for entry, tool in tools:
            spec = entry.spec(tool)
            if spec.name in known:
                raise NodeError(f"two tools have the name '{spec.name}'; give one of them a prefix")
            known[spec.name] = (tool, entry)
            specs.append(spec)
        for name in self._approval_names:
            # A misspelt name would mean that the tool is called without approval, so it is an error and
            # no warning.
            if name not in known and not self._is_offline:
                raise NodeError(
                    f"'approval' names the tool '{name}', which does not exist; {_list_names(known)}"
                )
        self._known, self._specs = known, tuple(specs)
        return self._specs

    async def check_request(self, request: ToolRequest) -> ToolRequest:
        await self.specs()
        if request.problem or (request.name in self._known and self._may_call(request)):
            return request
        if request.name in self._known:
            problem = f"the tool '{request.name}' is not called: the script of this run may call no tools; "
            problem += "give the call a `result` in the script, or let an author of the server start the run"
            return msgspec.structs.replace(request, problem=problem)
        problem = f"there is no tool '{request.name}'; {_list_names(self._known)}"
        if self._is_offline:
            if request.given is not None:
                return (
                    request  # the script has the result, so whether the server has the tool does not matter
                )
            problem += "; a scripted run starts no MCP server: give the call a `result` in the script"
        return msgspec.structs.replace(request, problem=problem)

    def _may_call(self, request: ToolRequest) -> bool:
        """The tool that ends the loop has no effects outside of the run."""
        tool, _ = self._known[request.name]
        return self._calls or request.given is not None or tool.spec.source == EXIT_LOOP

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        """See `Toolbox.call`. The second value is False if no tool was called, since such a call is not
        charged."""
        request = await self.check_request(request)
        if request.problem:
            return self._result(request, "failed", request.problem), False
        if request.given is not None:
            status = "failed" if request.given.failed else "completed"
            return self._result(request, status, request.given.text), True
        tool, entry = self._known[request.name]
        try:
            async with TimeLimit(entry.timeout):
                value = await tool.call(request.arguments, key)
        except Exception as error:
            return self._result(request, "failed", _describe_error(error)), True
        if isinstance(value, LoopExit):
            text = value.messages[-1].text if value.messages else value.reason
            result = self._result(request, "completed", text)
            return msgspec.structs.replace(result, exit=value), True
        return self._result(request, "completed", value), True

    def is_remote(self, name: str) -> bool:
        """Whether a tool belongs to a server. Records store the results of such calls only."""
        tool, _ = self._known.get(name, (None, None))
        return isinstance(tool, McpTool)

    def _result(self, request: ToolRequest, status: Any, text: str) -> ToolResult:
        # Masked here, where every result passes: it is stored, shown, and sent to a model.
        _, entry = self._known.get(request.name, (None, None))
        text = self._secrets.mask(valid_unicode(text))
        return ToolResult(request.id, request.name, status, text, entry is not None and entry.polls)


def _list_names(known: Mapping[str, object]) -> str:
    return f"there are: {', '.join(sorted(known)) or 'none'}"


def _describe_error(error: Exception) -> str:
    if isinstance(error, (NodeError, ToolError, TimeLimitExceeded)):
        return str(error)
    return format_exception(error)
