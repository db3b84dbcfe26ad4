"""Models of providers that installed packages add.

A package offers a provider under the entry point group `roundel.providers`: a function from a profile to
a `ProviderModel`. The model answers one request. Retries, fallbacks, the cache and the budget are around
it as around every other model, so a provider should not retry by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from roundel.kernel.facts import CallRecord, StopReason
from roundel.llm.provider_errors import LateAnswer
from roundel.llm.remote_model import TextStream
from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.prices import FREE, Prices, cost_of_tokens
from roundel.nodes.services import NodeError, Reply, Request, StreamCallback
from roundel.workflow.functions import ModuleError, format_exception, load_entry_point
from roundel.workflow.model_profile import Profile, installed_providers


class ProviderModel(Protocol):
    """A model of a third-party provider. The function of the package creates one for each profile, and
    the runs of a process share it. If it has a coroutine `close`, the pool awaits it when no run has
    used the model for a while."""

    async def reply(self, request: Request, say: Callable[[str], None] | None) -> Reply:
        """Answers a request. `say` takes each part of the answer as it arrives; None if nobody follows
        the stream.

        An exception is a failed attempt. It is retried if the exception has a `status_code` or a text
        that the `retry` of the agent names, or is a ConnectionError or a TimeoutError."""


class PluginModel:
    """Adapts a `ProviderModel` to `ModelEndpoint`: adds its label, its time limit and its price."""

    def __init__(self, model: ProviderModel, profile: Profile, prices: Prices) -> None:
        provider, name = profile.provider_and_name
        self._model = model
        self._timeout = profile.timeout
        self._price = prices.profile_price(provider, name)
        self.label = f"{provider}:{name}"

    async def ask(self, request: Request, say: StreamCallback | None, attempt: int) -> Reply:
        text_stream = None if say is None else TextStream(say, attempt)
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                reply = await self._model.reply(request, None if text_stream is None else text_stream.add)
        except TimeoutError:
            if limit.expired():
                raise LateAnswer(f"no answer after {self._timeout:g} seconds") from None
            raise
        if not isinstance(reply, Reply):
            raise NodeError(f"{self.label} gave {type(reply).__name__} in place of a Reply")
        if text_stream is not None:
            text_stream.flush()
        return self._complete_reply(reply, None if text_stream is None else text_stream.first_token)

    def _complete_reply(self, reply: Reply, first_token: float | None) -> Reply:
        """Adds the name of the model, the cost by the price of its profile, and why the model stopped, unless
        the reply has them."""
        cost = reply.cost_usd
        # Without usage the cost is unknown, unless the model is free: it is not the same as 0.
        counted = reply.input_tokens or reply.output_tokens or self._price == FREE
        if cost is None and self._price is not None and counted:
            cost = cost_of_tokens(self._price, reply.input_tokens, reply.output_tokens)
        stop: StopReason = "length" if reply.cut else "tool_calls" if reply.tool_calls else ""
        record = replace(reply.call or CallRecord(0, stop=stop), first_token=first_token)
        return replace(reply, model=reply.model or self.label, cost_usd=cost, call=record)

    def check(self, params: dict[str, Any]) -> None:
        """Accepts all parameters: the provider gets them with each request and decides what it
        accepts."""


async def _close(model: ProviderModel) -> None:
    close = getattr(model, "close", None)
    if close is not None:
        await close()


def plugin_model(profile: Profile, prices: Prices, lease: ResourceLease) -> PluginModel | None:
    """The model of a profile whose provider belongs to an installed package; None if there is no such
    package, NodeError if it fails."""
    provider, name = profile.provider_and_name
    point = installed_providers().get(provider)
    if point is None:
        return None
    try:
        make = load_entry_point(point)
        key = ("offered", msgspec.json.encode(profile))
        made: ProviderModel = lease.take(key, lambda: make(profile), _close)
    except NodeError:
        raise
    except ModuleError as error:
        raise NodeError(f"{provider}:{name} cannot be used: {error}") from None
    except Exception as error:
        raise NodeError(f"{provider}:{name} cannot be used: {format_exception(error)}") from error
    return PluginModel(made, profile, prices)
