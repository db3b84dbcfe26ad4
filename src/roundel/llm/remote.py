"""A model behind a provider's interface: one request, one reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from roundel.llm.prices import Prices
from roundel.llm.provider import PROTOCOL
from roundel.llm.speech import TextStream
from roundel.llm.transcript import parse_response, transcript
from roundel.nodes.agent_config import LOOP_LIMITS
from roundel.nodes.services import NodeError, Reply, Request, Say, ToolSpec
from roundel.workflow.profile import Profile
from roundel.workflow.providers import ALIASES

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as ClientModel
    from pydantic_ai.models import ModelRequestParameters

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
        provider, name = profile.named
        self._client = client
        self._provider = ALIASES.get(provider, provider)
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

    async def ask(self, request: Request, say: Say | None, attempt: int) -> Reply:
        response = await self._request_with_timeout(request, say, attempt)
        usage = response.usage
        counted = usage.input_tokens or usage.output_tokens  # some servers count nothing
        cost = self._prices.cost(self._provider, self._name, usage) if counted else None
        reply = parse_response(response, self.label, cost)
        if not reply.text and not reply.tool_calls:
            _check_empty_response(response)
        return reply

    async def _request_with_timeout(self, request: Request, say: Say | None, attempt: int) -> ModelResponse:
        """The client library's timeout starts anew with each part of a stream; ours is for the whole."""
        limit = asyncio.timeout(self._profile.timeout)
        try:
            async with limit:
                return await self._response(request, say, attempt)
        except TimeoutError:
            if limit.expired():
                raise IncompleteAnswer(f"no answer after {self._profile.timeout:g} seconds") from None
            raise

    async def _response(self, request: Request, say: Say | None, attempt: int) -> ModelResponse:
        messages, parameters = transcript(request), self._parameters(request)
        settings = self._settings(request, bool(parameters.function_tools))
        if say is None:
            return await self._client.request(messages, settings, parameters)
        return await self._streamed(messages, settings, parameters, say, attempt)

    async def _streamed(
        self, messages: Any, settings: Any, parameters: ModelRequestParameters, say: Say, attempt: int
    ) -> ModelResponse:
        speech = TextStream(say, attempt)
        async with self._client.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                speech.add_event(event)
            speech.flush()
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
