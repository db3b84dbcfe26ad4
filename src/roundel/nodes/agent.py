"""`agent`: a model answers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome, Usage
from roundel.nodes.services import Behaviour, Request, Services
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import without_effect
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Tooling(Struct, frozen=True, omit_defaults=True):
    type: Literal["function", "mcp_remote", "mcp_local"]
    config: dict[str, Any]
    prefix: str = ""


class MemoryUse(Struct, frozen=True, omit_defaults=True):
    name: str
    retrieve_stage: Any = None
    top_k: int = 3
    similarity_threshold: float = -1.0
    read: bool = True
    write: bool = True


class Config(Struct, frozen=True, omit_defaults=True):
    provider: str = ""
    name: str = ""
    model: str = ""
    profile_id: str = ""
    role: str = ""
    prompt: str = ""
    base_url: str = ""
    api_key: str = ""
    params: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    input_mode: Literal["messages", "prompt"] = "messages"
    tooling: tuple[Tooling, ...] = ()
    tools: tuple[str, ...] = ()
    dynamic_tools: Any = None
    max_tool_calls: int = 10
    max_calls_per_round: Annotated[int, Meta(ge=1)] = 16
    on_limit: Literal["answer", "error", "suspend"] = "answer"
    on_error: Literal["fail", "message"] = "fail"
    approval: Any = None
    memories: tuple[MemoryUse, ...] = ()
    thinking: Any = None
    skills: Any = None
    retry: Any = None
    output_schema: Any = None

    __aliases__: ClassVar[dict[str, str]] = {
        "profileId": "profile_id",
        "maxToolCalls": "max_tool_calls",
        "dynamicTools": "dynamic_tools",
    }
    later: ClassVar[tuple[str, ...]] = (
        "tooling",
        "tools",
        "dynamic_tools",
        "memories",
        "thinking",
        "skills",
        "retry",
        "output_schema",
        "approval",
    )

    def __check__(self, at: Located, report: Report) -> bool:
        without_effect(self, self.later, at, report)
        if self.max_tool_calls < 0:
            given = at.value if isinstance(at.value, dict) else {}
            place = given.get("max_tool_calls", given.get("maxToolCalls"))
            report.error("negative-limit", "Max tool calls must be non-negative", place)
            return False
        return True


def prepare(node: Node, services: Services) -> Behaviour:
    config: Config = node.config
    model = services.model(node.id)
    params = {**config.params, **config.parameters}
    flatten = config.input_mode == "prompt"

    async def ask(call: Call) -> Outcome:
        messages = (_flattened(call.inputs),) if flatten else call.inputs
        if config.prompt:
            messages = (*messages, Message(config.prompt))
        request = Request(node.id, call.address, call.ordinal, messages, config.role, params)
        try:
            reply = await model.reply(request)
        except Exception as error:
            if config.on_error != "message":
                raise
            return Outcome((Message(f"Error calling model {config.name}: {error}", "assistant"),))
        usage = Usage(1, 0, reply.input_tokens, reply.output_tokens)
        return Outcome((Message(reply.text, "assistant", reply.data),), usage=usage)

    def behave(call: Call) -> Awaitable[Outcome]:
        return ask(call)

    return behave


def _flattened(messages: tuple[Message, ...]) -> Message:
    """All input as one text, each part under a heading that says where it comes from."""
    parts = (
        f"=== INPUT FROM {message.source or 'TASK'} ({message.role}) ===\n{message.text}"
        for message in messages
    )
    return Message("\n\n".join(parts))


NODE = NodeType("agent", Config, "A model answers.", prepare, aliases=("llm",), speaks=True)
