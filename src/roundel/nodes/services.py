"""The protocols between nodes and hosts: what a node may use, and what it exchanges with models and
tools.

Nodes depend on these protocols, and the packages that implement them (llm, memory, hosts) depend on
nodes. So a node type can be tested without any of them, and loading a workflow imports no client
library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from roundel.kernel.commands import Call
from roundel.kernel.facts import Attempt, CallRecord, Outcome, Usage
from roundel.workflow.functions import FunctionError
from roundel.workflow.graph import Node
from roundel.workflow.message import Message, as_message

Behaviour = Callable[[Call], Outcome | Awaitable[Any]]
"""What a node does when it is called. An awaitable may return anything that `outcome_of` accepts. Nodes
that do no I/O return an `Outcome` directly."""


class NodeError(Exception):
    """A node failed; the text is the complete error message.

    `type` is the kind of failure for error edges (`RateLimited`, `Timeout`, `ModelError`, …), `attempts`
    how often the call was made. `reason` says why the same call must fail again, such as `authentication`;
    it is empty if another attempt may succeed. `tried` describes the attempts, as far as they are known."""

    def __init__(
        self,
        text: str = "",
        type: str = "",
        attempts: int = 1,
        reason: str = "",
        tried: tuple[Attempt, ...] = (),
    ) -> None:
        super().__init__(text)
        self.type, self.attempts, self.reason, self.tried = type, attempts, reason, tried


def failure_type(error: BaseException) -> tuple[str, int]:
    """The kind of a failure, and how often the call was made.

    The class of an exception of a user is its kind, also if the engine has wrapped it."""
    attempts = getattr(error, "attempts", 1) if isinstance(error, NodeError) else 1
    while isinstance(error, (NodeError, FunctionError)):
        if isinstance(error, NodeError) and error.type:
            return error.type, attempts
        if error.__cause__ is None:
            break
        error = error.__cause__
    return type(error).__name__, attempts


def failure_reason(error: BaseException) -> str:
    """Why the same call must fail again; empty if another attempt may succeed."""
    seen: BaseException | None = error
    while isinstance(seen, (NodeError, FunctionError)):
        if isinstance(seen, NodeError) and seen.reason:
            return seen.reason
        seen = seen.__cause__
    return ""


def failed_attempts(error: BaseException) -> tuple[Attempt, ...]:
    """The attempts of a call that failed, also the last one; empty if they are not known."""
    seen: BaseException | None = error
    while isinstance(seen, (NodeError, FunctionError)):
        if isinstance(seen, NodeError) and seen.tried:
            return seen.tried
        seen = seen.__cause__
    return ()


def outcome_of(value: object) -> Outcome:
    """The return value of a function as an outcome: None is no message, a list is several messages."""
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
    """The declaration of a tool that a model gets."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """The JSON Schema of its arguments."""
    source: str = ""
    """The name under `tools` that declares it; a server declares many tools under one name."""


UNREADABLE_ARGUMENTS = "the arguments are not a JSON object: "
"""The beginning of `ToolRequest.problem` if a model sent something else, which follows it. Records cut
it off again."""


class ScriptedResult(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call from a script; the tool itself is not called."""

    text: str
    failed: bool = False


class ToolRequest(Struct, frozen=True, omit_defaults=True):
    """A tool call that a model requests."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""
    """Why the call cannot be made: unreadable arguments, or an unknown tool. The model gets it as the
    result."""
    given: ScriptedResult | None = None


class LoopExit(Struct, frozen=True, omit_defaults=True):
    """What a tool returns to end the loop around its agent, in place of a text for the model."""

    messages: tuple[Message, ...] = ()
    """The output of the agent; without any, what its model said with the request."""
    reason: str = ""


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call. `refused` and `repeated` are calls that the engine did not make,
    `rejected` are those that a person did not allow."""

    id: str
    name: str
    status: Literal["completed", "failed", "refused", "rejected", "repeated"]
    text: str
    polls: bool = False
    """The tool is meant to be polled: equal calls with equal results are no repetition."""
    exit: LoopExit | None = None
    """The tool ends the loop around the agent."""


class ToolError(Exception):
    """A tool failed; the text is for the model, as the result of the call."""


class Tool(Protocol):
    """One tool: a Python function (llm/python_tool.py) or a tool of an MCP server (llm/mcp.py)."""

    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], key: str) -> str | LoopExit:
        """Calls the tool and returns its result as text, or that the loop ends. `key` is the idempotency
        key: it is the same if the same call is repeated after a crash or an interrupt."""


class Exchange(Struct, frozen=True):
    """One round of tools: the reply that requested them, and their results in the order of the
    requests."""

    reply: Reply
    results: tuple[ToolResult, ...]


class Request(Struct, frozen=True):
    """One request to a model, independent of the provider."""

    node_id: str
    address: str
    ordinal: int
    """The number of this call among all calls of the node in the run; scripts choose a reply by it."""
    messages: tuple[Message, ...]
    system: str = ""
    params: dict[str, Any] = {}
    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Message, ...] = ()
    """Messages behind the exchanges: earlier answers, and instructions to repair or reflect."""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """Whether the model may use the tools. They are declared even if not, where the history has calls of
    them."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer."""
    call: int = 0
    """The number of this call within one execution of the node."""
    speakers: bool = True
    """Whether the model is told who said what, where several nodes speak to the agent."""
    unscripted: str | None = None
    """For calls that a script need not answer: the reply of a script that has none for this node."""
    number: int = 1
    """The number of this call among the model calls of one execution of the node, as events have it."""


class Reply(Struct, frozen=True, omit_defaults=True):
    """One reply of a model. It is stored as part of a fact, so it must be representable as JSON."""

    text: str = ""
    data: dict[str, Any] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: tuple[ToolRequest, ...] = ()
    model: str = ""
    """The model that answered, as `provider:name`; a fallback may have answered."""
    cost_usd: float | None = None
    """None if no price is known, or the provider reported no usage."""
    cached: bool = False
    cut: bool = False
    """The reply was cut off at its token limit."""
    trouble: tuple[str, ...] = ()
    """Problems on the way to this reply, such as failed attempts; each becomes a warning."""
    raw: Any = None
    """The reply in the provider's form, if the provider requires it back in the next request, as for
    signed thoughts."""
    scripted: bool = False
    """The reply comes from a script, so its cost is only a rehearsal."""
    call: CallRecord | None = None
    """How the call went. It is stored with the outcome of the call and not with the reply, which later calls
    of a conversation contain again."""


StreamCallback = Callable[[str, int, int], None]
"""Takes a part of a model's answer, the attempt that it belongs to, and how many characters precede
it."""


class CallSent(Struct, frozen=True):
    """A request leaves for a model."""

    call: int
    """The number of the call among the model calls of one execution of the node, from 1."""
    attempt: int
    of: int
    """How many attempts are made at most."""
    model: str


class CallWait(Struct, frozen=True):
    """A call failed, and is made again after a wait."""

    seconds: float
    attempt: int
    """The attempt that failed."""
    of: int
    """How many attempts are made at most."""
    error: str
    """The error of the attempt in one line, without secrets."""
    status: int | None = None
    """The HTTP status of a provider's answer."""
    model: str = ""
    call: int = 0
    """As in CallSent; 0 if it is no call of a model."""


CallCallback = Callable[[str, CallSent | CallWait], None]
"""Takes the address of a call, and what happens to it."""


class Model(Protocol):
    """Answers requests of one agent. Retries, fallbacks and the cache are inside of it
    (llm/models.py)."""

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply: ...


class Toolbox(Protocol):
    """The tools of one agent."""

    async def specs(self) -> tuple[ToolSpec, ...]: ...

    async def check_request(self, request: ToolRequest) -> ToolRequest:
        """Returns the request, with a `problem` if there is no such tool."""

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        """Returns the result, and whether a tool was called at all, which counts as usage. An error of a
        tool is a result with the status `failed`, never an exception."""

    def is_remote(self, name: str) -> bool:
        """Whether a tool, by the name that the model uses, belongs to a server. Known once `specs` was
        called."""


class RecalledMemories(Struct, frozen=True):
    """The text that an agent recalls, with the events and the usage of the search."""

    text: str = ""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Usage | None = None
    """Usage of embedding models; None if no vectors were made."""


class MemoryReader(Protocol):
    """The memories of one agent."""

    async def related(self, stage: Any, question: str) -> RecalledMemories:
        """Searches the memories for a question. It never raises: problems become events, and the agent
        answers without memory (decision 11)."""


class Services(Protocol):
    """What a host provides to the nodes of one run. `hosts/services.py` implements it.

    Nodes reach the clock, files, models and code of users through this protocol alone, so each host
    decides how they are executed, and tests replace them without patching."""

    def now(self) -> float:
        """The time in seconds since 1970."""

    def elapsed(self) -> float:
        """A reading, in seconds, of a clock that nobody sets. Only the difference between two readings means
        something."""

    def worked(self) -> float:
        """A reading of the run's clock for working time, in seconds. Only the difference between two readings
        means something."""

    def workspace(self) -> Path:
        """The working folder of the run; created on the first call."""

    def model(self, node: Node) -> Model:
        """The model that answers for an agent; NodeError if there is none."""

    def tools(self, node: Node) -> Toolbox:
        """The tools that an agent offers; NodeError if one of them cannot be used."""

    def memory(self, node: Node) -> MemoryReader:
        """The memories that an agent reads."""

    def speaker(self, address: str) -> StreamCallback | None:
        """A callback for the parts of a streamed answer; None if nobody follows the stream."""

    def key(self, address: str) -> str:
        """The idempotency key of the call at an address: the same for each attempt, and for no other
        call."""

    def function(self, reference: str) -> Callable[..., Any]:
        """The Python function behind a name; LookupError if there is none."""

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a function of a user: awaits a coroutine, and runs any other function in a thread."""
