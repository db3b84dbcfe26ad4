"""What a host lends to the nodes of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome, Usage
from roundel.workflow.graph import Node
from roundel.workflow.message import Message, as_message

Behaviour = Callable[[Call], Outcome | Awaitable[Any]]
"""What is awaited may be anything that `outcome_of` understands."""


class NodeError(Exception):
    """A node could not do its work; the text says why."""


def outcome_of(value: object) -> Outcome:
    """What a function gave, as an outcome: None is no message, a list is several."""
    if value.__class__ is Message:
        return Outcome((value,))
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Outcome()
    if isinstance(value, (list, tuple)):
        return Outcome(tuple(as_message(item) for item in value))
    return Outcome((as_message(value),))


class ToolSpec(Struct, frozen=True):
    """What a model is told of a tool."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """The JSON Schema of its arguments."""
    source: str = ""
    """The name under `tools` that brought it."""


UNREADABLE_ARGUMENTS = "the arguments are not a JSON object: "
"""Stands before what a model gave instead."""


class ScriptedResult(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call as a script gives it, in place of the call."""

    text: str
    failed: bool = False


class ToolRequest(Struct, frozen=True, omit_defaults=True):
    """A model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""
    """Why the arguments cannot be read, if they cannot."""
    given: ScriptedResult | None = None


class ToolResult(Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    status: Literal["completed", "failed", "refused", "rejected", "repeated"]
    text: str
    polls: bool = False
    """The tool is meant to be called again and again until its result is another one."""


class ToolError(Exception):
    """A tool could not do what it was asked; the text is for the model."""


class Tool(Protocol):
    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], key: str) -> str:
        """What the tool gives, as text. `key` is the same each time one and the same call is made again."""


class Exchange(Struct, frozen=True):
    """A reply that asked for tools, and what they gave, in the order of the requests."""

    reply: Reply
    results: tuple[ToolResult, ...]


class Request(Struct, frozen=True):
    """What a model is asked."""

    node_id: str
    address: str
    ordinal: int
    """Which of the node's calls it is, in this run."""
    messages: tuple[Message, ...]
    system: str = ""
    params: dict[str, Any] = {}
    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Message, ...] = ()
    """What is said behind the exchanges."""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """Whether the tools may be used; they may be named for a history that holds calls of them."""
    schema: dict[str, Any] | None = None
    """The JSON Schema that the answer is to have."""
    call: int = 0
    """Which call it is of this one run of the node."""


class Reply(Struct, frozen=True, omit_defaults=True):
    text: str = ""
    data: dict[str, Any] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: tuple[ToolRequest, ...] = ()
    model: str = ""
    """Who answered, as `provider:name`."""
    cost_usd: float | None = None
    """None if no price is known."""
    cached: bool = False
    cut: bool = False
    """It ends because its token limit was met."""
    trouble: tuple[str, ...] = ()
    """What went wrong on the way to it, in the words of a warning."""
    raw: Any = None
    """What the provider wants to see again when the talk goes on, such as signed thoughts."""


StreamCallback = Callable[[str, int, int], None]
"""Takes a part of a model's answer, the attempt that it belongs to, and how many characters precede it."""


class Model(Protocol):
    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply: ...


class Toolbox(Protocol):
    """The tools of one agent."""

    async def specs(self) -> tuple[ToolSpec, ...]: ...

    async def check_request(self, request: ToolRequest) -> ToolRequest:
        """The same; with a problem if there is no such tool."""

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        """What came of it, and whether a tool was called at all. It never raises for what a tool does."""

    def is_remote(self, name: str) -> bool:
        """Whether a tool, as a model names it, is one of a server; known once the specs are."""


class RecalledMemories(Struct, frozen=True):
    """What an agent is reminded of, and what went wrong on the way to it."""

    text: str = ""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Usage | None = None
    """What it took to find it."""


class MemoryReader(Protocol):
    """The memories of one agent."""

    async def related(self, stage: Any, question: str) -> RecalledMemories:
        """What they have to say to a question; it never raises."""


class Services(Protocol):
    def now(self) -> float:
        """The time, in seconds since 1970."""

    def workspace(self) -> Path:
        """The folder in which the run's code works; made when first asked for."""

    def model(self, node: Node) -> Model:
        """The model that answers for an agent; NodeError if there is none."""

    def tools(self, node: Node) -> Toolbox:
        """The tools that an agent offers; NodeError if they cannot be had."""

    def memory(self, node: Node) -> MemoryReader:
        """The memories that an agent reads."""

    def speaker(self, address: str) -> StreamCallback | None:
        """Where what a model is saying goes, while it is; None if nobody wants to know."""

    def key(self, address: str) -> str:
        """The same for each attempt at one call, and for no other call."""

    def function(self, reference: str) -> Callable[..., Any]:
        """The Python function behind a name; LookupError if there is none."""

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a function of a user's: a coroutine is awaited, any other function has a thread to block."""
