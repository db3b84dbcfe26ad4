"""Everything that a package needs to extend Roundel, in one place.

Node types, tools, conditions and processors, loop strategies, middleware, model providers and stores are
written with the names of this module and of `roundel` alone; docs/extending.md has a small package for
each kind. The names here are stable. The modules behind them may move, so third-party code should not
import them.

Each name is imported when it is first used: a package that offers a tool does not load the store.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roundel.hosts.engine import Attachment, Engine
    from roundel.journal.documents import Document, DocumentConflict, DocumentStore, LogEntry
    from roundel.journal.in_memory import InMemoryStore
    from roundel.journal.sqlite import SqliteStore
    from roundel.journal.store import (
        Appended,
        Busy,
        Chunk,
        Claim,
        ControlRequest,
        Fenced,
        Gone,
        NewRun,
        NoRun,
        Pinned,
        RunExists,
        RunRow,
        RunTotals,
        Snapshot,
        Store,
        StoreError,
    )
    from roundel.kernel.commands import Call
    from roundel.kernel.events import Event
    from roundel.kernel.facts import Entry, Outcome, Usage
    from roundel.llm.provider_plugins import ProviderModel
    from roundel.llm.python_tool import description as tool_description
    from roundel.llm.python_tool import parameters as tool_parameters
    from roundel.memory.store import Item, Match, MemoryEntry, MemoryStore, Shelf
    from roundel.modes import LoopMode, LoopStrategy
    from roundel.nodes.jump import break_loop, continue_loop
    from roundel.nodes.middleware import Middleware, Veto, Visit
    from roundel.nodes.python import to
    from roundel.nodes.services import (
        Behaviour,
        Exchange,
        NodeError,
        Reply,
        Request,
        Services,
        ToolError,
        ToolRequest,
        ToolResult,
        ToolSpec,
        outcome_of,
    )
    from roundel.workflow.catalog import describe
    from roundel.workflow.description import Description, Field, Short, Unit, Variants, Widget
    from roundel.workflow.diagnostics import Diagnostic, Report
    from roundel.workflow.document import Located
    from roundel.workflow.fields import INVALID, Reader, child
    from roundel.workflow.functions import condition, function, middleware, processor, tool
    from roundel.workflow.graph import Node
    from roundel.workflow.message import Block, Message
    from roundel.workflow.model_profile import Price, Profile
    from roundel.workflow.node_type import Bound, Calls, NodeType

_LOCATIONS = {
    # Node types
    "NodeType": "roundel.workflow.node_type",
    "Bound": "roundel.workflow.node_type",
    "Calls": "roundel.workflow.node_type",
    "Node": "roundel.workflow.graph",
    "Call": "roundel.kernel.commands",
    "Outcome": "roundel.kernel.facts",
    "Usage": "roundel.kernel.facts",
    "Message": "roundel.workflow.message",
    "Block": "roundel.workflow.message",
    "Services": "roundel.nodes.services",
    "Behaviour": "roundel.nodes.services",
    "NodeError": "roundel.nodes.services",
    "outcome_of": "roundel.nodes.services",
    "to": "roundel.nodes.python",
    "break_loop": "roundel.nodes.jump",
    "continue_loop": "roundel.nodes.jump",
    # Config structs: how they describe, read and check themselves
    "Description": "roundel.workflow.description",
    "Field": "roundel.workflow.description",
    "Short": "roundel.workflow.description",
    "Variants": "roundel.workflow.description",
    "Widget": "roundel.workflow.description",
    "Unit": "roundel.workflow.description",
    "describe": "roundel.workflow.catalog",
    "Located": "roundel.workflow.document",
    "Reader": "roundel.workflow.fields",
    "Report": "roundel.workflow.diagnostics",
    "Diagnostic": "roundel.workflow.diagnostics",
    "INVALID": "roundel.workflow.fields",
    "child": "roundel.workflow.fields",
    # Functions by name: conditions, processors, functions of python nodes, tools
    "condition": "roundel.workflow.functions",
    "processor": "roundel.workflow.functions",
    "function": "roundel.workflow.functions",
    "tool": "roundel.workflow.functions",
    "ToolError": "roundel.nodes.services",
    "tool_description": "roundel.llm.python_tool:description",
    "tool_parameters": "roundel.llm.python_tool:parameters",
    # Loop strategies
    "LoopStrategy": "roundel.modes",
    "LoopMode": "roundel.modes",
    # Middleware
    "Middleware": "roundel.nodes.middleware",
    "Veto": "roundel.nodes.middleware",
    "Visit": "roundel.nodes.middleware",
    "Event": "roundel.kernel.events",
    "middleware": "roundel.workflow.functions",
    # Model providers
    "ProviderModel": "roundel.llm.provider_plugins",
    "Profile": "roundel.workflow.model_profile",
    "Price": "roundel.workflow.model_profile",
    "Request": "roundel.nodes.services",
    "Reply": "roundel.nodes.services",
    "Exchange": "roundel.nodes.services",
    "ToolSpec": "roundel.nodes.services",
    "ToolRequest": "roundel.nodes.services",
    "ToolResult": "roundel.nodes.services",
    # Executing runs
    "Attachment": "roundel.hosts.engine",
    "Engine": "roundel.hosts.engine",
    # Stores of runs
    "Store": "roundel.journal.store",
    "SqliteStore": "roundel.journal.sqlite",
    "InMemoryStore": "roundel.journal.in_memory",
    "StoreError": "roundel.journal.store",
    "Busy": "roundel.journal.store",
    "Fenced": "roundel.journal.store",
    "Gone": "roundel.journal.store",
    "NoRun": "roundel.journal.store",
    "RunExists": "roundel.journal.store",
    "NewRun": "roundel.journal.store",
    "Pinned": "roundel.journal.store",
    "RunRow": "roundel.journal.store",
    "RunTotals": "roundel.journal.store",
    "Claim": "roundel.journal.store",
    "Chunk": "roundel.journal.store",
    "Snapshot": "roundel.journal.store",
    "Appended": "roundel.journal.store",
    "ControlRequest": "roundel.journal.store",
    "Entry": "roundel.kernel.facts",
    "DocumentStore": "roundel.journal.documents",
    "Document": "roundel.journal.documents",
    "LogEntry": "roundel.journal.documents",
    "DocumentConflict": "roundel.journal.documents",
    # Stores of memories
    "MemoryStore": "roundel.memory.store",
    "Shelf": "roundel.memory.store",
    "Item": "roundel.memory.store",
    "Match": "roundel.memory.store",
    "MemoryEntry": "roundel.memory.store",
}
"""The module of each name; after a colon, its name in that module."""

__all__ = [
    "INVALID",
    "Appended",
    "Attachment",
    "Behaviour",
    "Block",
    "Bound",
    "Busy",
    "Call",
    "Calls",
    "Chunk",
    "Claim",
    "ControlRequest",
    "Description",
    "Diagnostic",
    "Document",
    "DocumentConflict",
    "DocumentStore",
    "Engine",
    "Entry",
    "Event",
    "Exchange",
    "Fenced",
    "Field",
    "Gone",
    "InMemoryStore",
    "Item",
    "Located",
    "LogEntry",
    "LoopMode",
    "LoopStrategy",
    "Match",
    "MemoryEntry",
    "MemoryStore",
    "Message",
    "Middleware",
    "NewRun",
    "NoRun",
    "Node",
    "NodeError",
    "NodeType",
    "Outcome",
    "Pinned",
    "Price",
    "Profile",
    "ProviderModel",
    "Reader",
    "Reply",
    "Report",
    "Request",
    "RunExists",
    "RunRow",
    "RunTotals",
    "Services",
    "Shelf",
    "Short",
    "Snapshot",
    "SqliteStore",
    "Store",
    "StoreError",
    "ToolError",
    "ToolRequest",
    "ToolResult",
    "ToolSpec",
    "Unit",
    "Usage",
    "Variants",
    "Veto",
    "Visit",
    "Widget",
    "break_loop",
    "child",
    "condition",
    "continue_loop",
    "describe",
    "function",
    "middleware",
    "outcome_of",
    "processor",
    "to",
    "tool",
    "tool_description",
    "tool_parameters",
]


def __getattr__(name: str) -> Any:
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'roundel.extend' has no attribute '{name}'")
    # Imported once, then found in the module.
    module, _, there = _LOCATIONS[name].partition(":")
    value = globals()[name] = getattr(importlib.import_module(module), there or name)
    return value


def __dir__() -> list[str]:
    return __all__
