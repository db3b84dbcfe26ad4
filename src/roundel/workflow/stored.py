"""The structs that stores contain, by tags that never change: a closed list.

A stored workflow (encoding.py) and a snapshot (kernel/snapshot.py) name each struct by its tag. The table
says which class that is now, so a class may be renamed or moved: its entry changes, and what is stored does
not.

*A security boundary.* A store may come from somebody else. Nothing is imported by a name from a store; a tag
is only looked up, here or among those that installed node types declare (`NodeType.stored`).

*Names before tags.* Workflows in stores of formats 6 and 7 have `module:Class` in place of tags. OLD_NAMES
contains those that they may contain. It is frozen: no program writes such names any more. Snapshots of that
time are not read.

*Defaults are part of the format*, since fields that have their default are not stored. To change the default
of a field, put the one so far into DEFAULTS_BEFORE. A field that is not stored then means that one for ever,
and the new default is stored. `tests/workflow/stored_defaults.json` contains the defaults that stores rely
on.

The table contains texts and no classes, so that this package imports none of those that come after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from msgspec import Struct

from roundel.workflow.node_type import NodeType

WORKFLOW_TAGS = {
    "workflow": "roundel.workflow.graph:Workflow",
    "graph": "roundel.workflow.graph:GraphDefinition",
    "node": "roundel.workflow.graph:Node",
    "edge": "roundel.workflow.graph:Edge",
    "retry": "roundel.workflow.graph:Retry",
    "limits": "roundel.workflow.graph:Limits",
    "loop_settings": "roundel.workflow.graph:LoopSettings",
    "middleware": "roundel.workflow.graph:MiddlewareUse",
    "breakpoint": "roundel.workflow.breakpoints:Breakpoint",
    "debugging": "roundel.workflow.breakpoints:Debugging",
    "condition": "roundel.workflow.condition:Condition",
    "keyword": "roundel.workflow.condition:Keyword",
    "context": "roundel.workflow.context:Context",
    "file_access": "roundel.workflow.document:FileAccess",
    "fan_out": "roundel.workflow.fan_out:FanOut",
    "fan_out.message": "roundel.workflow.fan_out:MessageSplit",
    "fan_out.regex": "roundel.workflow.fan_out:RegexSplit",
    "fan_out.json_path": "roundel.workflow.fan_out:JsonPathSplit",
    "location": "roundel.workflow.fields:SourceLocation",
    "breaker": "roundel.workflow.limits:Breaker",
    "patience": "roundel.workflow.limits:Patience",
    "memory.settings": "roundel.workflow.memory_config:MemorySettings",
    "memory.declaration": "roundel.workflow.memory_config:MemoryDeclaration",
    "memory.simple": "roundel.workflow.memory_config:SimpleMemory",
    "memory.blackboard": "roundel.workflow.memory_config:BlackboardMemory",
    "memory.files": "roundel.workflow.memory_config:FileMemory",
    "memory.file_source": "roundel.workflow.memory_config:FileSource",
    "memory.working": "roundel.workflow.memory_config:WorkingMemory",
    "memory.long_term": "roundel.workflow.memory_config:LongTermMemory",
    "memory.mem0": "roundel.workflow.memory_config:Mem0",
    "memory.embedding": "roundel.workflow.memory_config:Embedding",
    "model": "roundel.workflow.model_profile:Profile",
    "model.price": "roundel.workflow.model_profile:Price",
    "processor": "roundel.workflow.processor:Processor",
    "processor.regex_extract": "roundel.workflow.processor:RegexExtract",
    "tools": "roundel.workflow.tool_source:Tooling",
    "tools.source": "roundel.workflow.tool_source:ToolSource",
    "tools.function": "roundel.workflow.tool_source:FunctionTool",
    "tools.functions": "roundel.workflow.tool_source:FunctionTooling",
    "tools.mcp_server": "roundel.workflow.tool_source:McpServer",
    "tools.local": "roundel.workflow.tool_source:LocalTooling",
    "tools.remote": "roundel.workflow.tool_source:RemoteTooling",
    "agent": "roundel.nodes.agent_config:Config",
    "agent.approval": "roundel.nodes.agent_config:Approval",
    "agent.dynamic_tools": "roundel.nodes.agent_config:DynamicTools",
    "agent.memory": "roundel.nodes.agent_config:MemoryUse",
    "agent.retry": "roundel.nodes.agent_config:ModelRetry",
    "agent.reflection": "roundel.nodes.agent_config:Reflection",
    "agent.thinking": "roundel.nodes.agent_config:Thinking",
    "consensus": "roundel.nodes.consensus:Consensus",
    "debate": "roundel.nodes.debate:Config",
    "debate.consensus": "roundel.nodes.debate:JudgedConsensus",
    "participant": "roundel.nodes.participants:Participant",
    "score": "roundel.nodes.score:Score",
    "human": "roundel.nodes.human:Config",
    "jump": "roundel.nodes.jump:Config",
    "literal": "roundel.nodes.literal:Config",
    "loop": "roundel.nodes.loop:Config",
    "loop_agent": "roundel.nodes.loop_agent:Config",
    "loop_agent.body": "roundel.nodes.loop_agent:Body",
    "loop_agent.strategy": "roundel.nodes.loop_strategies:Strategy",
    "loop_agent.predicate": "roundel.nodes.loop_strategies:Predicate",
    "loop_agent.array": "roundel.nodes.loop_strategies:ArrayStrategy",
    "loop_agent.count": "roundel.nodes.loop_strategies:CountStrategy",
    "loop_agent.condition": "roundel.nodes.loop_strategies:UntilStrategy",
    "loop_agent.custom": "roundel.nodes.loop_strategies:CustomStrategy",
    "loop_counter": "roundel.nodes.loop_counter:Config",
    "loop_timer": "roundel.nodes.loop_timer:Config",
    "passthrough": "roundel.nodes.passthrough:Config",
    "python": "roundel.nodes.python:Config",
    "subgraph": "roundel.nodes.subgraph:Config",
    "vote": "roundel.nodes.vote:Config",
}
"""What a workflow contains, the configs of the built-in node types included."""
STATE_TAGS = {
    "state.path_step": "roundel.workflow.address:PathStep",
    "state.agent_memory": "roundel.kernel.state:AgentMemory",
    "state.last_output": "roundel.kernel.state:LastOutput",
    "state.edge_walk": "roundel.kernel.state:EdgeWalk",
    "state.handled_failure": "roundel.kernel.state:HandledFailure",
    "state.iteration": "roundel.kernel.state:Iteration",
    "state.lock": "roundel.kernel.state:Lock",
    "state.round_step": "roundel.kernel.state:RoundStep",
    "state.node_calls": "roundel.kernel.state:NodeCalls",
    "state.call_totals": "roundel.kernel.state:CallTotals",
    "state.call_forecast": "roundel.kernel.state:CallForecast",
    "state.largest_call": "roundel.kernel.budget:LargestCall",
    "state.tool_loop_call": "roundel.kernel.tool_loop:ToolLoopCall",
    "command.call": "roundel.kernel.commands:Call",
    "command.call_context": "roundel.kernel.commands:CallContext",
    "command.ask": "roundel.kernel.commands:Ask",
    "command.evaluate_edges": "roundel.kernel.commands:EvaluateEdges",
    "command.intercept": "roundel.kernel.commands:Intercept",
    "command.cancel": "roundel.kernel.commands:Cancel",
    "fact.usage": "roundel.kernel.facts:Usage",
    "fact.outcome": "roundel.kernel.facts:Outcome",
    "fact.call_record": "roundel.kernel.facts:CallRecord",
    "fact.attempt": "roundel.kernel.facts:Attempt",
    "fact.intercept_points": "roundel.kernel.facts:InterceptPoints",
    "fact.edge_result": "roundel.kernel.facts:EdgeResult",
    "fact.inherited_result": "roundel.kernel.facts:InheritedResult",
    "fact.finished": "roundel.kernel.facts:Finished",
    "fact.failed": "roundel.kernel.facts:Failed",
    "fact.answered": "roundel.kernel.facts:Answered",
    "fact.edges_evaluated": "roundel.kernel.facts:EdgesEvaluated",
    "fact.intercepted": "roundel.kernel.facts:Intercepted",
    "fact.call_retried": "roundel.kernel.facts:CallRetried",
    "message": "roundel.workflow.message:Message",
    "message.block": "roundel.workflow.message:Block",
    "agent.model_call": "roundel.nodes.agent_conversation:ModelCall",
    "agent.tool_use": "roundel.nodes.agent_conversation:ToolUse",
    "agent.context_check": "roundel.nodes.agent_conversation:ContextCheck",
    "reply": "roundel.nodes.services:Reply",
    "exchange": "roundel.nodes.services:Exchange",
    "tool.request": "roundel.nodes.services:ToolRequest",
    "tool.result": "roundel.nodes.services:ToolResult",
    "tool.scripted_result": "roundel.nodes.services:ScriptedResult",
    "tool.loop_exit": "roundel.nodes.services:LoopExit",
}
"""What a snapshot contains besides."""
TAGS: Mapping[str, str] = {**WORKFLOW_TAGS, **STATE_TAGS}
OLD_NAMES: Mapping[str, str] = {
    "roundel.workflow.graph:Workflow": "workflow",
    "roundel.workflow.graph:GraphDefinition": "graph",
    "roundel.workflow.graph:Node": "node",
    "roundel.workflow.graph:Edge": "edge",
    "roundel.workflow.graph:Retry": "retry",
    "roundel.workflow.graph:Limits": "limits",
    "roundel.workflow.graph:LoopSettings": "loop_settings",
    "roundel.workflow.graph:MiddlewareUse": "middleware",
    "roundel.workflow.breakpoints:Breakpoint": "breakpoint",
    "roundel.workflow.breakpoints:Debugging": "debugging",
    "roundel.workflow.condition:Condition": "condition",
    "roundel.workflow.condition:Keyword": "keyword",
    "roundel.workflow.context:Context": "context",
    "roundel.workflow.document:FileAccess": "file_access",
    "roundel.workflow.fan_out:FanOut": "fan_out",
    "roundel.workflow.fan_out:MessageSplit": "fan_out.message",
    "roundel.workflow.fan_out:RegexSplit": "fan_out.regex",
    "roundel.workflow.fan_out:JsonPathSplit": "fan_out.json_path",
    "roundel.workflow.fields:SourceLocation": "location",
    "roundel.workflow.limits:Breaker": "breaker",
    "roundel.workflow.limits:Patience": "patience",
    "roundel.workflow.memory_config:MemorySettings": "memory.settings",
    "roundel.workflow.memory_config:MemoryDeclaration": "memory.declaration",
    "roundel.workflow.memory_config:SimpleMemory": "memory.simple",
    "roundel.workflow.memory_config:BlackboardMemory": "memory.blackboard",
    "roundel.workflow.memory_config:FileMemory": "memory.files",
    "roundel.workflow.memory_config:FileSource": "memory.file_source",
    "roundel.workflow.memory_config:WorkingMemory": "memory.working",
    "roundel.workflow.memory_config:LongTermMemory": "memory.long_term",
    "roundel.workflow.memory_config:Mem0": "memory.mem0",
    "roundel.workflow.memory_config:Embedding": "memory.embedding",
    "roundel.workflow.model_profile:Profile": "model",
    "roundel.workflow.model_profile:Price": "model.price",
    "roundel.workflow.processor:Processor": "processor",
    "roundel.workflow.processor:RegexExtract": "processor.regex_extract",
    "roundel.workflow.tool_source:Tooling": "tools",
    "roundel.workflow.tool_source:ToolSource": "tools.source",
    "roundel.workflow.tool_source:FunctionTool": "tools.function",
    "roundel.workflow.tool_source:FunctionTooling": "tools.functions",
    "roundel.workflow.tool_source:McpServer": "tools.mcp_server",
    "roundel.workflow.tool_source:LocalTooling": "tools.local",
    "roundel.workflow.tool_source:RemoteTooling": "tools.remote",
    "roundel.nodes.agent_config:Config": "agent",
    "roundel.nodes.agent_config:Approval": "agent.approval",
    "roundel.nodes.agent_config:DynamicTools": "agent.dynamic_tools",
    "roundel.nodes.agent_config:MemoryUse": "agent.memory",
    "roundel.nodes.agent_config:ModelRetry": "agent.retry",
    "roundel.nodes.agent_config:Reflection": "agent.reflection",
    "roundel.nodes.agent_config:Thinking": "agent.thinking",
    "roundel.nodes.consensus:Consensus": "consensus",
    "roundel.nodes.debate:Config": "debate",
    "roundel.nodes.debate:JudgedConsensus": "debate.consensus",
    "roundel.nodes.participants:Participant": "participant",
    "roundel.nodes.score:Score": "score",
    "roundel.nodes.human:Config": "human",
    "roundel.nodes.jump:Config": "jump",
    "roundel.nodes.literal:Config": "literal",
    "roundel.nodes.loop:Config": "loop",
    "roundel.nodes.loop_agent:Config": "loop_agent",
    "roundel.nodes.loop_agent:Body": "loop_agent.body",
    "roundel.nodes.loop_strategies:Strategy": "loop_agent.strategy",
    "roundel.nodes.loop_strategies:Predicate": "loop_agent.predicate",
    "roundel.nodes.loop_strategies:ArrayStrategy": "loop_agent.array",
    "roundel.nodes.loop_strategies:CountStrategy": "loop_agent.count",
    "roundel.nodes.loop_strategies:UntilStrategy": "loop_agent.condition",
    "roundel.nodes.loop_strategies:CustomStrategy": "loop_agent.custom",
    "roundel.nodes.loop_counter:Config": "loop_counter",
    "roundel.nodes.loop_timer:Config": "loop_timer",
    "roundel.nodes.passthrough:Config": "passthrough",
    "roundel.nodes.python:Config": "python",
    "roundel.nodes.subgraph:Config": "subgraph",
    "roundel.nodes.vote:Config": "vote",
    "roundel.workflow.file_access:FileAccess": "file_access",
}
"""The names of formats 6 and 7, each with its tag."""
DEFAULTS_BEFORE: Mapping[str, Mapping[str, Any]] = {}
"""By tag and field: the value of a field that is not stored, if that is not its default any more."""
_TAG_OF = {name: tag for tag, name in TAGS.items()}


class UnknownStructError(LookupError):
    """A struct has no tag, or a tag no struct."""


class StoredStructs:
    """The structs of Roundel and of some node types, by tag and by class."""

    def __init__(self, kinds: Iterable[NodeType] = ()) -> None:
        self._tags: dict[type[Struct], str] = {}
        self._structs: dict[str, type[Struct]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: NodeType) -> None:
        """Adds the structs of a node type. Those of Roundel have tags already."""
        package = _package_of(kind.config)
        if package == "roundel":
            return
        for key, struct in {"config": kind.config, **kind.stored}.items():
            tag = f"{package}/{kind.name}/{key}"
            self._tags.setdefault(struct, tag)  # two node types may have the same struct
            self._structs[tag] = self._structs[_path_of(struct)] = struct

    def tag(self, struct: type[Struct]) -> str:
        """The tag of a struct; UnknownStructError."""
        tag = self._tags.get(struct) or _own_tag(struct)
        if tag is None:
            raise UnknownStructError(
                f"{_path_of(struct)} has no tag; its node type has to declare it: "
                "NodeType(..., stored={'name': " + struct.__name__ + "})"
            )
        return tag

    def struct(self, name: str) -> type[Struct]:
        """The struct with a tag, or with a name of formats 6 and 7; UnknownStructError."""
        tag = OLD_NAMES.get(name, name)
        found = _own_struct(tag) if tag in TAGS else self._structs.get(tag)
        if found is None:
            raise UnknownStructError(f"there is no '{name}' in this version, or its package is not installed")
        return found


def defaults_before(tag: str) -> Mapping[str, Any]:
    return DEFAULTS_BEFORE.get(tag, {})


@lru_cache(maxsize=512)
def _own_tag(struct: type[Struct]) -> str | None:
    return _TAG_OF.get(_path_of(struct))


@lru_cache(maxsize=512)
def _own_struct(tag: str) -> type[Struct]:
    module, _, name = TAGS[tag].partition(":")
    found: type[Struct] = getattr(import_module(module), name)
    return found


def _path_of(struct: type[Struct]) -> str:
    return f"{struct.__module__}:{struct.__qualname__}"


def _package_of(struct: type[Struct]) -> str:
    return struct.__module__.partition(".")[0]
