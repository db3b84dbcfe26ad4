"""What a model is saying, while it is.

What is said to a model, in the words of the client library, and what it said, in ours.

A model behind a provider's interface: one request, one reply.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from roundel.llm.clients import PROTOCOL
from roundel.llm.prices import Prices
from roundel.nodes.agent_config import LOOP_LIMITS
from roundel.nodes.services import (
    UNREADABLE_ARGUMENTS,
    Exchange,
    NodeError,
    Reply,
    Request,
    StreamCallback,
    ToolRequest,
    ToolSpec,
)
from roundel.workflow.message import Block, Message, json_text
from roundel.workflow.model_profile import PROVIDER_ALIASES, Profile

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, UserContent
    from pydantic_ai.models import Model as ClientModel
    from pydantic_ai.models import ModelRequestParameters

FLUSH_SECONDS = 0.05
"""Seconds between two parts of what a model is saying."""


class TextStream:
    """Hands on what is said in parts that are worth an event."""

    def __init__(self, say: StreamCallback, attempt: int) -> None:
        self._say, self._attempt = say, attempt
        self._parts: list[str] = []
        self._offset = 0
        self._since = time.monotonic()

    def add_event(self, event: Any) -> None:
        if event.event_kind not in ("part_start", "part_delta"):
            return  # the end of a part says all of it once more
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        kind = getattr(part, "part_kind", None) or getattr(part, "part_delta_kind", None)
        if kind != "text":
            return
        self.add(str(getattr(part, "content", None) or getattr(part, "content_delta", "")))

    def add(self, text: str) -> None:
        self._parts.append(text)
        if time.monotonic() - self._since >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        self._since = time.monotonic()
        if text:
            self._say(text, self._attempt, self._offset)
            self._offset += len(text)


OUTCOMES: dict[str, Literal["success", "failed", "denied"]] = {
    "completed": "success",
    "failed": "failed",
    "refused": "failed",
    "rejected": "denied",
    "repeated": "failed",
}
"""What became of a tool call, in the words of the client library: each provider has its way to say so."""


def client_messages(request: Request) -> list[ModelMessage]:
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
        arguments, problem = {}, f"{UNREADABLE_ARGUMENTS}{part.args!s}"
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


OWN_PARAMETERS = frozenset({PROTOCOL, "stream", *LOOP_LIMITS})
"""Parameters that are not the provider's."""
NEEDS_TOOLS = frozenset({"anthropic", "bedrock"})
"""They refuse a history with tool calls unless the request names tools, so they are told not to use them."""

ALWAYS_STRICT = frozenset({"anthropic"})
"""They know schemas only in a strict form, which the client library makes of any."""


class IncompleteAnswer(Exception):
    """An answer that did not come to its end; it may when it is asked for again."""


class RemoteModel:
    def __init__(self, client: ClientModel, profile: Profile, prices: Prices) -> None:
        provider, name = profile.provider_and_name
        self._client = client
        self._provider = PROVIDER_ALIASES.get(provider, provider)
        self._name = name
        self._profile = profile
        self._prices = prices
        self._strict = None if self._provider in ALWAYS_STRICT else False
        self.label = f"{provider}:{name}"
        # Whoever asks again is us. As a setting of each request it would cost a new client each time.
        own: Any = getattr(client, "client", None)
        self._has_retries_off = hasattr(own, "max_retries")
        if self._has_retries_off:
            own.max_retries = 0
        self.check(profile.params)

    async def ask(self, request: Request, say: StreamCallback | None, attempt: int) -> Reply:
        response = await self._request_with_timeout(request, say, attempt)
        usage = response.usage
        counted = usage.input_tokens or usage.output_tokens  # some servers count nothing
        cost = self._prices.cost(self._provider, self._name, usage) if counted else None
        reply = parse_response(response, self.label, cost)
        if not reply.text and not reply.tool_calls:
            _check_empty_response(response)
        return reply

    async def _request_with_timeout(
        self, request: Request, say: StreamCallback | None, attempt: int
    ) -> ModelResponse:
        """The client library's timeout starts anew with each part of a stream; ours is for the whole."""
        limit = asyncio.timeout(self._profile.timeout)
        try:
            async with limit:
                return await self._response(request, say, attempt)
        except TimeoutError:
            if limit.expired():
                raise IncompleteAnswer(f"no answer after {self._profile.timeout:g} seconds") from None
            raise

    async def _response(self, request: Request, say: StreamCallback | None, attempt: int) -> ModelResponse:
        messages, parameters = client_messages(request), self._parameters(request)
        settings = self._settings(request, bool(parameters.function_tools))
        if say is None:
            return await self._client.request(messages, settings, parameters)
        return await self._streamed(messages, settings, parameters, say, attempt)

    async def _streamed(
        self,
        messages: Any,
        settings: Any,
        parameters: ModelRequestParameters,
        say: StreamCallback,
        attempt: int,
    ) -> ModelResponse:
        text_stream = TextStream(say, attempt)
        async with self._client.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                text_stream.add_event(event)
            text_stream.flush()
            response = stream.get()
        if _is_incomplete(response):
            raise IncompleteAnswer("the stream ended before the answer did")
        return response

    def _parameters(self, request: Request) -> ModelRequestParameters:
        from pydantic_ai.models import ModelRequestParameters

        tools = request.tools if request.may_call or self._provider in NEEDS_TOOLS else ()
        if request.schema is not None and not tools:
            native_output = self._native_output(request.schema)
            if native_output is not None:
                return native_output
        return ModelRequestParameters(function_tools=[_tool_definition(tool) for tool in tools])

    def _native_output(self, schema: dict[str, Any]) -> ModelRequestParameters | None:
        """A wish for an answer in this form; None if the model knows no schemas, or not this one. It is told
        of the schema in words too, and what it says is checked, so nothing is lost."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        if schema.get("type") != "object" or not self._client.profile.get("supports_json_schema_output"):
            return None
        form = OutputObjectDefinition(schema, "answer", strict=self._strict)
        native = ModelRequestParameters(output_mode="native", output_object=form)
        try:
            self._client.prepare_request(None, native)
        except Exception:  # the client library refuses what the provider would
            return None
        return native

    def _settings(self, request: Request, tools: bool) -> Any:
        """The provider's parameters; what the client library has no name for goes into the body as it is."""
        given = {**self._profile.params, **request.params}
        settings: dict[str, Any] = {} if self._has_retries_off else {"max_retries": 0}
        if self._profile.timeout is not None:
            settings["timeout"] = self._profile.timeout
        extra = {}
        for name, value in given.items():
            if name in OWN_PARAMETERS:
                continue
            if self._is_known_setting(name):
                settings[name] = value
            else:
                extra[name] = value
        if extra:
            settings["extra_body"] = {**settings.get("extra_body", {}), **extra}
        if not tools:
            settings.pop("tool_choice", None)
        elif not request.may_call:
            settings["tool_choice"] = "none"
        return settings

    def _is_known_setting(self, name: str) -> bool:
        return name in _known_settings() or name.startswith(f"{self._provider.partition('-')[0]}_")

    def check(self, params: dict[str, Any]) -> None:
        """NodeError if there is a parameter that could not be sent."""
        if "google" not in self._provider:
            return
        unknown = [name for name in params if name not in OWN_PARAMETERS and not self._is_known_setting(name)]
        if unknown:
            raise NodeError(f"{self.label} takes no parameter '{unknown[0]}'; known are {_list_settings()}")


def _is_incomplete(response: ModelResponse) -> bool:
    """Whether a stream stopped without a word of why, or of what it took.

    The client library may fill in the one, since there are servers that leave it out."""
    said_why = (response.provider_details or {}).get("finish_reason")
    return response.finish_reason is None or not (said_why or response.usage.output_tokens)


def _check_empty_response(response: ModelResponse) -> None:
    """Raises if it is no wonder that the answer is empty."""
    reason = (response.provider_details or {}).get("finish_reason", response.finish_reason)
    if response.finish_reason is None:
        raise IncompleteAnswer("the answer is empty")
    if response.finish_reason == "error":
        raise IncompleteAnswer(f"the provider gave up on the answer: {reason}")
    if response.finish_reason == "content_filter":
        raise NodeError(f"the provider held the answer back: {reason}")


def _known_settings() -> frozenset[str]:
    from pydantic_ai.settings import ModelSettings

    return frozenset(ModelSettings.__annotations__)


def _list_settings() -> str:
    return ", ".join(sorted(_known_settings()))


def _tool_definition(tool: ToolSpec) -> Any:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=tool.name,
        parameters_json_schema=tool.parameters,
        description=tool.description or None,
        strict=False,
    )
