"""A model behind the interface of a provider: one request, one reply.

The client library (pydantic-ai) translates for each provider. This module converts our requests into its
messages and its responses into our replies, streams the text of an answer, and decides whether an answer
is complete. The library is an extra, so it is imported inside of functions.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from roundel.kernel.facts import CallRecord, StopReason
from roundel.llm import clients
from roundel.llm.clients import PROTOCOL, AnswerBeginning, answer_beginning
from roundel.llm.provider_errors import (
    CONTENT_FILTER,
    IncompleteAnswer,
    LateAnswer,
    SilentProvider,
    UnreadableAnswer,
    class_names,
    error_chain,
    status_of,
)
from roundel.llm.provider_messages import speaker_name
from roundel.nodes.agent_config import LOOP_LIMITS
from roundel.nodes.prices import Prices
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
"""Seconds between two parts of a streamed answer. Models send a few characters at a time, which are not
worth an event each."""


class TextStream:
    """Collects the text of a streamed answer and passes it on in larger parts, each with its offset in
    the answer."""

    def __init__(self, say: StreamCallback, attempt: int) -> None:
        self._say, self._attempt = say, attempt
        self._parts: list[str] = []
        self._offset = 0
        self._began = self._since = time.monotonic()
        self.first_token: float | None = None
        """How many seconds passed before the first part, also one that is no text; None until then."""

    def add_event(self, event: Any) -> None:
        if event.event_kind not in ("part_start", "part_delta"):
            return  # the event of the end repeats the whole part
        self._note_first()
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        kind = getattr(part, "part_kind", None) or getattr(part, "part_delta_kind", None)
        if kind != "text":
            return
        self.add(str(getattr(part, "content", None) or getattr(part, "content_delta", "")))

    def _note_first(self) -> None:
        if self.first_token is None:
            self.first_token = round(time.monotonic() - self._began, 6)

    def add(self, text: str) -> None:
        self._note_first()
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
"""The status of a tool call in the terms of the client library, which translates them for each
provider."""


def client_messages(request: Request, with_names: bool = False) -> list[ModelMessage]:
    """The whole conversation in the types of the client library: system message, input, exchanges, later
    messages. `with_names` if the provider has a field for the name of a speaker."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart

    made: list[Any] = []
    if request.system:
        made.append(SystemPromptPart(request.system))
    made.extend(_message_part(message, with_names) for message in request.messages)
    for exchange in request.exchanges:
        made.append(_client_response(exchange.reply))
        made.extend(_tool_returns(exchange))
    made.extend(_message_part(message, with_names) for message in request.after)
    # Consecutive parts that are not from the model belong to one request of the client library.
    conversation: list[ModelMessage] = []
    for part in made:
        if part.__class__.__name__ == "ModelResponse":
            conversation.append(part)
        elif conversation and isinstance(conversation[-1], ModelRequest):
            conversation[-1].parts.append(part)  # type: ignore[attr-defined]
        else:
            conversation.append(ModelRequest([part]))
    return conversation


def _message_part(message: Message, with_names: bool) -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart, UserPromptPart

    if message.role == "assistant":
        return ModelResponse([TextPart(message.text)])
    parts = message.content if isinstance(message.content, str) else [content(b) for b in message.content]
    name = speaker_name(message) if with_names else ""
    if not name:
        return UserPromptPart(parts)
    from roundel.llm.openai_chat import NamedPromptPart

    return NamedPromptPart(parts, name=name)


def content(block: Block) -> UserContent:
    """A block of a message in the types of the client library: media by their address, or by their
    bytes."""
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

    if reply.raw is not None:  # the provider requires the reply back exactly as it was
        response: Any = ModelMessagesTypeAdapter.validate_python([reply.raw])[0]
        # Except for a text of white space, which Anthropic sends and does not take back.
        response.parts = [
            part for part in response.parts if not isinstance(part, TextPart) or part.content.strip()
        ]
        return response  # type: ignore[no-any-return]
    parts: list[Any] = [TextPart(reply.text)] if reply.text else []
    parts.extend(ToolCallPart(call.name, call.arguments, call.id) for call in reply.tool_calls)
    return ModelResponse(parts)


def _tool_returns(exchange: Exchange) -> Iterable[Any]:
    from pydantic_ai.messages import ToolReturnPart

    for result in exchange.results:
        yield ToolReturnPart(result.name, result.text, result.id, outcome=OUTCOMES[result.status])


STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_calls",
    "content_filter": "content_filter",
}
"""Why a model stopped, by the word of the client library."""


def parse_response(response: ModelResponse, model: str, cost_usd: float | None) -> Reply:
    """The response as our `Reply`. The raw form is stored only with tool calls, since only then another
    request with this reply follows."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [_tool_request(part) for part in response.parts if isinstance(part, ToolCallPart)]
    # A model that refuses says so in words, which some interfaces have in a place of their own.
    refusal = str((response.provider_details or {}).get("refusal") or "")
    trouble: tuple[str, ...] = ()
    if text and response.finish_reason == "content_filter":
        trouble = (f"the provider held a part of the answer back: {refusal or _finish_reason(response)}",)
    return Reply(
        text or refusal,
        None,
        response.usage.input_tokens,
        response.usage.output_tokens,
        tuple(calls),
        model,
        cost_usd,
        cut=response.finish_reason == "length",
        trouble=trouble,
        raw=_provider_data(response, any(call.problem for call in calls)) if calls else None,
        call=CallRecord(
            0,  # whoever asked knows how long it took
            stop=_stop_reason(response, bool(calls)),
            response_id=response.provider_response_id or "",
        ),
    )


def _stop_reason(response: ModelResponse, requests_tools: bool) -> StopReason:
    stop = STOP_REASONS.get(response.finish_reason or "", "")
    # Google says `stop` for these as well.
    return "tool_calls" if stop == "stop" and requests_tools else stop


def _tool_request(part: Any) -> ToolRequest:
    """A tool call of a response. Unreadable arguments are a problem of this call, which the model can
    correct, and no error of the whole reply."""
    try:
        arguments, problem = part.args_as_dict(raise_if_invalid=True), ""
    except (ValueError, AssertionError):
        arguments, problem = {}, f"{UNREADABLE_ARGUMENTS}{part.args!s}"
    return ToolRequest(part.tool_call_id, part.tool_name, arguments, problem)


def _provider_data(response: ModelResponse, unreadable: bool) -> Any:
    """The response in the provider's form, if it has more than text and calls: thoughts, signatures, ids
    of the provider, or unreadable arguments. Otherwise None, which keeps the facts of the run small."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    plain = all(
        isinstance(part, (TextPart, ToolCallPart)) and not part.provider_details and not part.id
        for part in response.parts
    )
    return (
        None if plain and not unreadable else ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    )


VERSION = re.compile(r"(?:[-@:](?:\d{3,8}|\d{4}-\d\d-\d\d|latest))?")
"""What a provider adds to the name of a model that has answered."""
OWN_PARAMETERS = frozenset({PROTOCOL, "stream", *LOOP_LIMITS})
"""Parameters that are for the engine, and are not sent to the provider."""
NEEDS_TOOLS = frozenset({"anthropic", "bedrock"})
"""Providers that refuse a history with tool calls unless the request declares tools. Their requests
declare them with `tool_choice: none`."""

ALWAYS_STRICT = frozenset({"anthropic"})
"""Providers that support schemas only in a strict form, to which the client library converts any
schema."""


READABLE = ("{", "[", "data:", "event:", "id:", "retry:", ":")
"""How answers begin: with JSON, or with an event of a stream."""
EXPLAINED = frozenset(
    {
        "ModelConnectionError",
        "TransportError",
        "TimeoutError",
        "LateAnswer",
        "NodeError",
        "ContentFilterError",
    }
)
"""Errors that are not about the content of an answer."""


class RemoteModel:
    """One model of a built-in provider: sends one request and returns one reply. `Models` creates it.

    Retries and the limit on the whole answer are ours. Streams are checked for completeness, because a
    connection that breaks in the middle can look like the end of an answer."""

    def __init__(self, client: ClientModel, profile: Profile, prices: Prices) -> None:
        provider, name = profile.provider_and_name
        self._client = client
        self._provider = PROVIDER_ALIASES.get(provider, provider)
        self._name = name
        self._profile = profile
        self._prices = prices
        self._strict = None if self._provider in ALWAYS_STRICT else False
        self.label = f"{provider}:{name}"
        # Retries are made by `RetryingModel`, so those of the library are turned off: on the client if
        # possible, since as a setting of each request the library would create a new client each time.
        own: Any = getattr(client, "client", None)
        self._has_retries_off = hasattr(own, "max_retries")
        if self._has_retries_off:
            own.max_retries = 0
        self.check(profile.params)

    async def ask(self, request: Request, say: StreamCallback | None, attempt: int) -> Reply:
        text_stream = None if say is None else TextStream(say, attempt)
        response = await self._request_explained(request, text_stream)
        usage = response.usage
        # Some servers report no usage. The cost is then unknown, which is not the same as 0.
        counted = (
            usage.input_tokens or usage.output_tokens or self._prices.is_free(self._provider, self._name)
        )
        cost = self._cost(response.model_name or "", usage) if counted else None
        reply = parse_response(response, self.label, cost)
        if not reply.text and not reply.tool_calls:
            _check_empty_response(response)
        if text_stream is None or reply.call is None:
            return reply
        return replace(reply, call=replace(reply.call, first_token=text_stream.first_token))

    def _cost(self, answered: str, usage: Any) -> float | None:
        """The cost of a call at the price of the model that answered, if a provider says that it was another
        one, and its price is known."""
        own = answered.startswith(self._name) and VERSION.fullmatch(answered.removeprefix(self._name))
        if answered and not own:
            cost = self._prices.cost(self._provider, answered, usage)
            if cost is not None:
                return cost
        return self._prices.cost(self._provider, self._name, usage)

    async def _request_explained(self, request: Request, text_stream: TextStream | None) -> ModelResponse:
        """Makes the request. Errors that say only that something could not be read, or that time is over, are
        replaced by errors that say what arrived, and how long nothing did."""
        beginning = AnswerBeginning()
        token = answer_beginning.set(beginning)
        try:
            return await self._request_with_timeout(request, text_stream)
        except Exception as error:
            if "ReadTimeout" in class_names(error):
                raise self._late_answer() from error
            unreadable = _unreadable_answer(error, beginning.text)
            if unreadable is None:
                raise
            raise unreadable from error
        finally:
            answer_beginning.reset(token)

    def _late_answer(self) -> LateAnswer:
        if self._profile.timeout is not None:
            return LateAnswer(f"no answer after {self._profile.timeout:g} seconds")
        return SilentProvider(f"no data for {clients.READ_TIMEOUT:g} seconds")

    async def _request_with_timeout(self, request: Request, text_stream: TextStream | None) -> ModelResponse:
        """Limits the time for the whole answer. The timeout of the client library starts again with each
        part of a stream, so a slow stream would never exceed it."""
        limit = asyncio.timeout(self._profile.timeout)
        try:
            async with limit:
                return await self._response(request, text_stream)
        except TimeoutError:
            if limit.expired():  # otherwise the error comes from the client library
                raise self._late_answer() from None
            raise

    async def _response(self, request: Request, text_stream: TextStream | None) -> ModelResponse:
        messages = client_messages(request, getattr(self._client, "sends_names", False))
        parameters = self._parameters(request)
        settings = self._settings(request, bool(parameters.function_tools))
        if text_stream is None:
            return await self._client.request(messages, settings, parameters)
        return await self._streamed(messages, settings, parameters, text_stream)

    async def _streamed(
        self,
        messages: Any,
        settings: Any,
        parameters: ModelRequestParameters,
        text_stream: TextStream,
    ) -> ModelResponse:
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
        """Parameters that request an answer by the schema; None if the model does not support schemas,
        or not this one. The system message states the schema too, and the answer is validated, so None
        is no loss of correctness."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        if schema.get("type") != "object" or not self._client.profile.get("supports_json_schema_output"):
            return None
        form = OutputObjectDefinition(schema, "answer", strict=self._strict)
        native = ModelRequestParameters(output_mode="native", output_object=form)
        try:
            self._client.prepare_request(None, native)
        except Exception:  # the client library refuses schemas that the provider would refuse
            return None
        return native

    def _settings(self, request: Request, tools: bool) -> Any:
        """The settings of a request. Parameters that the client library does not know are sent in the
        body unchanged, so that new parameters of a provider need no new version of the library."""
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
        if not tools:  # providers refuse a choice among no tools
            settings.pop("tool_choice", None)
        elif not request.may_call:
            settings["tool_choice"] = "none"
        return settings

    def _is_known_setting(self, name: str) -> bool:
        return name in _known_settings() or name.startswith(f"{self._provider.partition('-')[0]}_")

    def check(self, params: dict[str, Any]) -> None:
        """Raises NodeError for a parameter that cannot be sent: the interface of Google takes no extra
        fields."""
        if "google" not in self._provider:
            return
        unknown = [name for name in params if name not in OWN_PARAMETERS and not self._is_known_setting(name)]
        if unknown:
            raise NodeError(f"{self.label} takes no parameter '{unknown[0]}'; known are {_list_settings()}")


def _unreadable_answer(error: Exception, content: str | None) -> UnreadableAnswer | None:
    """The error that says what arrived in place of an answer; None if the error is about something else."""
    names = class_names(error)
    if status_of(error) is not None or names & EXPLAINED:
        return None
    # A page in place of a stream has no events, and the client library reports an answer without content.
    if content is not None and not content.startswith(READABLE):
        return UnreadableAnswer(content)
    broken = next((one.doc for one in error_chain(error) if isinstance(one, json.JSONDecodeError)), None)
    if broken is not None:
        return UnreadableAnswer(str(broken).strip())
    if content is None or "UnexpectedModelBehavior" not in names:
        return None
    return UnreadableAnswer(content, "cannot be read")


def _is_incomplete(response: ModelResponse) -> bool:
    """Whether a stream ended without a finish reason, or with neither a reason of the provider nor
    usage.

    The client library may fill in a finish reason by itself, because some servers send none. So the
    reason that the provider sent is checked as well."""
    details = response.provider_details or {}
    said_why = details.get("finish_reason") or details.get("refusal")
    return response.finish_reason is None or not (said_why or response.usage.output_tokens)


def _check_empty_response(response: ModelResponse) -> None:
    """Raises if there is a reason why the answer is empty. Without one, an empty answer is an answer."""
    reason = _finish_reason(response)
    if response.finish_reason is None:
        raise IncompleteAnswer("the answer is empty")
    if response.finish_reason == "error":
        raise IncompleteAnswer(f"the provider gave up on the answer: {reason}")
    if response.finish_reason == "content_filter":
        raise NodeError(f"the provider held the answer back: {reason}", reason=CONTENT_FILTER)


def _finish_reason(response: ModelResponse) -> str:
    """Why the answer ended, in the words of the provider."""
    details = response.provider_details or {}
    return str(details.get("finish_reason") or details.get("block_reason") or response.finish_reason)


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
