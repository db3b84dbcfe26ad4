"""Roundel runs loops of agents that always end.

The public names of the package. Each is imported on first use, so that `import roundel`, and with it the
command line, starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roundel.agents import Agent, LoopAgent, SequentialAgent
    from roundel.api import check, draw, resume, resume_async, run, run_async, stream, to_svg
    from roundel.builder import Graph
    from roundel.hosts.control import Question
    from roundel.hosts.engine import Result
    from roundel.journal.store import StoreError
    from roundel.kernel.events import Event
    from roundel.kernel.facts import Outcome
    from roundel.loop_processor import LoopProcessor
    from roundel.modes import LoopMode, LoopStrategy
    from roundel.nodes.jump import break_loop, continue_loop
    from roundel.nodes.loading import load, prepare
    from roundel.nodes.middleware import Middleware, Veto, Visit
    from roundel.nodes.python import to
    from roundel.nodes.user_code import progress
    from roundel.runs.memory import Memory
    from roundel.runs.runs import Runs
    from roundel.workflow.diagnostics import Diagnostic, WorkflowError
    from roundel.workflow.functions import condition, function, middleware, processor, tool
    from roundel.workflow.graph import Workflow
    from roundel.workflow.message import Message
    from roundel.workflow.node_type import NodeType
    from roundel.workflow.python_warnings import RoundelWarning

# The module of each public name. The imports above are for type checkers only.
_LOCATIONS = {
    "Agent": "roundel.agents",
    "Diagnostic": "roundel.workflow.diagnostics",
    "Event": "roundel.kernel.events",
    "Graph": "roundel.builder",
    "LoopAgent": "roundel.agents",
    "LoopMode": "roundel.modes",
    "LoopProcessor": "roundel.loop_processor",
    "LoopStrategy": "roundel.modes",
    "Memory": "roundel.runs.memory",
    "Message": "roundel.workflow.message",
    "Middleware": "roundel.nodes.middleware",
    "NodeType": "roundel.workflow.node_type",
    "Outcome": "roundel.kernel.facts",
    "Question": "roundel.hosts.control",
    "Result": "roundel.hosts.engine",
    "RoundelWarning": "roundel.workflow.python_warnings",
    "Runs": "roundel.runs.runs",
    "SequentialAgent": "roundel.agents",
    "StoreError": "roundel.journal.store",
    "Veto": "roundel.nodes.middleware",
    "Visit": "roundel.nodes.middleware",
    "Workflow": "roundel.workflow.graph",
    "WorkflowError": "roundel.workflow.diagnostics",
    "break_loop": "roundel.nodes.jump",
    "check": "roundel.api",
    "condition": "roundel.workflow.functions",
    "continue_loop": "roundel.nodes.jump",
    "draw": "roundel.api",
    "function": "roundel.workflow.functions",
    "load": "roundel.nodes.loading",
    "middleware": "roundel.workflow.functions",
    "prepare": "roundel.nodes.loading",
    "processor": "roundel.workflow.functions",
    "progress": "roundel.nodes.user_code",
    "resume": "roundel.api",
    "resume_async": "roundel.api",
    "run": "roundel.api",
    "run_async": "roundel.api",
    "stream": "roundel.api",
    "to": "roundel.nodes.python",
    "to_svg": "roundel.api",
    "tool": "roundel.workflow.functions",
}

__all__ = [
    "Agent",
    "Diagnostic",
    "Event",
    "Graph",
    "LoopAgent",
    "LoopMode",
    "LoopProcessor",
    "LoopStrategy",
    "Memory",
    "Message",
    "Middleware",
    "NodeType",
    "Outcome",
    "Question",
    "Result",
    "RoundelWarning",
    "Runs",
    "SequentialAgent",
    "StoreError",
    "Veto",
    "Visit",
    "Workflow",
    "WorkflowError",
    "break_loop",
    "check",
    "condition",
    "continue_loop",
    "draw",
    "function",
    "load",
    "middleware",
    "prepare",
    "processor",
    "progress",
    "resume",
    "resume_async",
    "run",
    "run_async",
    "stream",
    "to",
    "to_svg",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'roundel' has no attribute '{name}'")
    # Stored in the module, so that Python calls this once for each name.
    value = globals()[name] = getattr(importlib.import_module(_LOCATIONS[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
