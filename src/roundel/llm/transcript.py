"""What is said to a model, in the words of the client library, and what it said, in ours."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from roundel.nodes.services import UNREADABLE, Exchange, NodeError, Reply, Request, ToolRequest
from roundel.workflow.message import Block, Message, json_text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, UserContent

OUTCOMES: dict[str, Literal["success", "failed", "denied"]] = {
    "completed": "success",
    "failed": "failed",
    "refused": "failed",
    "rejected": "denied",
    "repeated": "failed",
}
"""What became of a tool call, in the words of the client library: each provider has its way to say so."""


def transcript(request: Request) -> list[ModelMessage]:
    """The whole talk as the model is to see it."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart

    made: list[Any] = []
    if request.system:
        made.append(SystemPromptPart(request.system))
    made.extend(_message_part(message) for message in request.messages)
    for exchange in request.exchanges:
        made.append(_client_response(exchange.reply))
        made.extend(_tool_returns(exchange))
    made.extend(_message_part(message) for message in request.after)
    conversation: list[ModelMessage] = []
    for part in made:
        if part.__class__.__name__ == "ModelResponse":
            conversation.append(part)
        elif conversation and isinstance(conversation[-1], ModelRequest):
            conversation[-1].parts.append(part)  # type: ignore[attr-defined]
        else:
            conversation.append(ModelRequest([part]))
    return conversation


def _message_part(message: Message) -> Any:
    from pydantic_ai.messages import ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    if message.role == "assistant":
        return ModelResponse([TextPart(message.text)])
    if message.role == "system":
        return SystemPromptPart(message.text)
    if isinstance(message.content, str):
        return UserPromptPart(message.content)
    return UserPromptPart([content(block) for block in message.content])


def content(block: Block) -> UserContent:
    """A block as the model is to see it: media by their address, or by their bytes in base64."""
    from pydantic_ai.messages import AudioUrl, DocumentUrl, ImageUrl, VideoUrl

    if block.type == "text":
        return block.text
    if block.type == "data":
        return json_text(block.data)
    kinds = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl, "file": DocumentUrl}
    if block.url and not block.url.startswith("data:"):
        made: UserContent = kinds[block.type](block.url, media_type=block.media_type or None)
        return made
    if block.url or (isinstance(block.data, str) and block.media_type):
        return _binary(block)
    raise NodeError(f"a block of the type {block.type} has no url, nor data in base64 with a media_type")


def _binary(block: Block) -> UserContent:
    from pydantic_ai.messages import BinaryContent

    try:
        if block.url:
            return BinaryContent.from_data_uri(block.url)
        data = base64.b64decode("".join(block.data.split()), validate=True)
        return BinaryContent(data, media_type=block.media_type)
    except ValueError as error:
        raise NodeError(f"the data of a block of the type {block.type} cannot be read: {error}") from None


def _client_response(reply: Reply) -> ModelResponse:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

    if reply.raw is not None:
        return ModelMessagesTypeAdapter.validate_python([reply.raw])[0]  # type: ignore[return-value]
    parts: list[Any] = [TextPart(reply.text)] if reply.text else []
    parts.extend(ToolCallPart(call.name, call.arguments, call.id) for call in reply.tool_calls)
    return ModelResponse(parts)


def _tool_returns(exchange: Exchange) -> Iterable[Any]:
    from pydantic_ai.messages import ToolReturnPart

    for result in exchange.results:
        yield ToolReturnPart(result.name, result.text, result.id, outcome=OUTCOMES[result.status])


def parse_response(response: ModelResponse, model: str, cost_usd: float | None) -> Reply:
    from pydantic_ai.messages import TextPart, ToolCallPart

    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [_tool_request(part) for part in response.parts if isinstance(part, ToolCallPart)]
    return Reply(
        "".join(texts),
        None,
        response.usage.input_tokens,
        response.usage.output_tokens,
        tuple(calls),
        model,
        cost_usd,
        cut=response.finish_reason == "length",
        raw=_provider_data(response, any(call.problem for call in calls)) if calls else None,
    )


def _tool_request(part: Any) -> ToolRequest:
    try:
        arguments, problem = part.args_as_dict(raise_if_invalid=True), ""
    except (ValueError, AssertionError):
        arguments, problem = {}, f"{UNREADABLE}{part.args!s}"
    return ToolRequest(part.tool_call_id, part.tool_name, arguments, problem)


def _provider_data(response: ModelResponse, unreadable: bool) -> Any:
    """Only if there is more in it than text and calls: thoughts, signatures, ids of the provider's, or what
    stands in the place of arguments."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    plain = all(
        isinstance(part, (TextPart, ToolCallPart)) and not part.provider_details and not part.id
        for part in response.parts
    )
    return (
        None if plain and not unreadable else ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    )
