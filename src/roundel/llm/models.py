"""The models of a run: which one answers for which agent, with cache, retries and fallbacks around it.

    ProviderRequests → CachedModel → RetryingModel → RemoteModel or PluginModel, one for the profile and
    one for each fallback

A layer implements `Model` (nodes/services.py); the innermost ones send one request (remote_model.py,
provider_plugins.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from roundel.kernel.facts import UNMASKED_FIELDS, Attempt, CallRecord, total_seconds
from roundel.llm.clients import client_model
from roundel.llm.provider_errors import (
    MAX_UNREADABLE_SHOWN,
    SilentProvider,
    UnreadableAnswer,
    describe_error,
    is_retryable,
    kind_of,
    permanent_reason,
    retry_after,
    status_of,
)
from roundel.llm.provider_messages import ProviderRequests
from roundel.llm.provider_plugins import PluginModel, plugin_model
from roundel.llm.remote_model import RemoteModel
from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.agent_config import Config, ModelRetry
from roundel.nodes.agent_models import agent_profile
from roundel.nodes.prices import Prices
from roundel.nodes.services import (
    CallCallback,
    CallSent,
    CallWait,
    Exchange,
    Model,
    NodeError,
    Reply,
    Request,
    StreamCallback,
)
from roundel.nodes.user_code import valid_unicode
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.model_profile import PROVIDER_ALIASES, PROVIDERS, Profile
from roundel.workflow.secrets import SecretMasker

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Reply)


class CachedModel:
    """Stores the replies of a model in files, so that the same request is paid for once. Off unless an
    agent or a profile sets `cache`.

    The key is a digest of all that is sent to the model and of nothing else, such as the address or the
    run."""

    def __init__(self, model: Model, profile: Profile, folder: Path, secrets: SecretMasker) -> None:
        self._model, self._folder, self._secrets = model, folder, secrets
        self._label = ":".join(profile.provider_and_name)
        self._model_key = (self._label, profile.base_url, profile.params)

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        path = self._folder / f"{self._digest(request)}.json"
        stored = _read_reply(path)
        if stored is not None:
            return stored
        reply = await self._model.reply(request, say)
        # The reply of a fallback is not stored: the next request should reach the model itself.
        if reply.model == self._label:
            try:
                _write_reply(path, self._secrets.mask_value(_storable(reply), UNMASKED_FIELDS))
            except OSError as error:  # no reason to fail: only the next request will cost as much again
                warning = f"the reply could not be put into the cache: {error}"
                return msgspec.structs.replace(reply, trouble=(*reply.trouble, warning))
        return reply

    def _digest(self, request: Request) -> str:
        """A digest of everything that is sent to the model, with the keys of mappings in order."""
        sent = (
            self._model_key,
            request.system,
            [_message_key(message) for message in request.messages],
            request.params,
            [_exchange_key(exchange) for exchange in request.exchanges],
            [_message_key(message) for message in request.after],
            request.tools,
            request.may_call,
            request.schema,
        )
        return hashlib.sha256(_encoder.encode(sent)).hexdigest()


def _message_key(message: Message) -> tuple[Any, ...]:
    return message.role, message.content


def _exchange_key(exchange: Exchange) -> tuple[Any, ...]:
    reply = exchange.reply
    return reply.text, reply.tool_calls, reply.raw, exchange.results


def _read_reply(path: Path) -> Reply | None:
    try:
        stored = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None  # missing or unreadable: ask the model
    record = stored.call or CallRecord(0)  # an older version stored none
    return msgspec.structs.replace(stored, cached=True, call=record)


def _storable(reply: Reply) -> Reply:
    """What the cache keeps of a reply: what belongs to this call alone is left out, and using the stored one
    takes no time."""
    record = reply.call or CallRecord(0)
    own = CallRecord(0, stop=record.stop, response_id=record.response_id)
    return msgspec.structs.replace(reply, trouble=(), call=own)


def _write_reply(path: Path, reply: Reply) -> None:
    """Writes the file completely or not at all: by renaming. Several processes may write the same
    reply."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.write_bytes(_encoder.encode(reply))
    part.replace(path)


MAX_RETRY_AFTER = 120.0
"""Seconds. A provider that asks for a longer wait counts as failed, so that a fallback is tried."""
MAX_ERROR_LENGTH = 1000
MAX_SILENT_ATTEMPTS = 2
"""How often a provider is asked that sends nothing at all until the time-out."""


class ModelEndpoint(Protocol):
    """A model without retries: of a built-in provider (RemoteModel) or of an installed package
    (PluginModel)."""

    label: str

    async def ask(self, request: Request, say: StreamCallback | None, attempt: int) -> Reply: ...


class RetryingModel:
    """Tries a model again after errors that may be temporary, then the fallbacks in order, each with its
    own attempts.

    All retries are here: those of the client libraries are off, because two layers would multiply the
    attempts, and the inner one would not be reported."""

    def __init__(
        self,
        models: Sequence[ModelEndpoint],
        retry: ModelRetry,
        secrets: SecretMasker,
        on_call: CallCallback,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._retry = retry
        self._secrets = secrets
        self._on_call = on_call
        self._elapsed = elapsed
        self._attempts = retry.max_attempts if retry.enabled else 1

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        made = 0  # counts over all models, so that the parts of streamed answers can be told apart
        tried: list[Attempt] = []
        failures: list[_Failure] = []
        for model in self._models:
            attempt, attempts = 0, self._attempts
            while True:
                made += 1
                attempt += 1
                call = request.number
                self._on_call(request.address, CallSent(call, attempt, attempts, model.label))
                began = self._elapsed()
                try:
                    reply = await model.ask(request, say, made)
                    return _with_attempts(reply, tried, self._elapsed() - began)
                except Exception as error:
                    seconds = self._elapsed() - began
                    failure = _Failure(model.label, self._describe_masked(error), error, attempt)
                    if isinstance(error, SilentProvider):
                        attempts = min(attempts, MAX_SILENT_ATTEMPTS)
                wait = self._retry_delay(failure.error, attempt) if attempt < attempts else None
                status = status_of(failure.error)
                tried.append(
                    Attempt(
                        failure.model,
                        failure.text,
                        status,
                        retry_after(failure.error),
                        round(seconds, 6),
                        round(wait or 0, 3),
                    )
                )
                if wait is None:
                    failures.append(failure)
                    break
                self._on_call(
                    request.address,
                    CallWait(wait, attempt, attempts, failure.text, status, model.label, call),
                )
                await asyncio.sleep(wait)
        raise _final_error(failures, request.node_id, tried) from None

    def _describe_masked(self, error: Exception) -> str:
        # Mask first, then cut: half a key would not be recognised.
        text = valid_unicode(self._secrets.mask(describe_error(error)))[:MAX_ERROR_LENGTH]
        if isinstance(error, UnreadableAnswer) and error.content:
            content = " ".join(valid_unicode(self._secrets.mask(error.content)).split())
            cut = len(content) > MAX_UNREADABLE_SHOWN
            return f"{text}: '{content[:MAX_UNREADABLE_SHOWN]}{'…' if cut else ''}'"
        return text

    def _retry_delay(self, error: Exception, attempt: int) -> float | None:
        """The seconds until the next attempt; None if a retry is useless."""
        if not is_retryable(error, self._retry):
            return None
        requested = retry_after(error)
        if requested is not None:
            return requested if requested <= MAX_RETRY_AFTER else None
        longest = min(self._retry.max_wait_seconds, self._retry.min_wait_seconds * 2 ** (attempt - 1))
        # With jitter, so that parallel calls that failed together do not return together.
        return random.uniform(longest / 2, longest)


class _Failure(NamedTuple):
    """The last failure of one model."""

    model: str
    text: str
    error: Exception
    attempts: int

    def __str__(self) -> str:
        text, requested = f"{self.model}: {self.text}", retry_after(self.error)
        if self.attempts > 1 or requested is not None:
            text += f"; given up after {self.attempts} attempt{'' if self.attempts == 1 else 's'}"
        if requested is not None:
            text += f"; the provider asked to wait {requested:g} s"
        return text


def _final_error(failures: list[_Failure], node_id: str, tried: list[Attempt]) -> NodeError:
    """The error of a call that no model answered.

    Its kind is that of the last failure. But if the context of any model was too small, that is the kind: a
    shorter conversation may still be answered. It must fail again only if every model would."""
    kinds = [kind_of(failure.error) for failure in failures]
    reasons = [permanent_reason(failure.error) for failure in failures]
    kind = "ContextOverflow" if "ContextOverflow" in kinds else kinds[-1]
    text = "; ".join(str(failure) for failure in failures)
    if kind == "ContextOverflow":
        text += f"; the conversation does not fit; set `context: {{max_tokens: …}}` on '{node_id}'"
    return NodeError(text, kind, len(tried), reasons[0] if all(reasons) else "", tuple(tried))


def _with_attempts(reply: Reply, tried: list[Attempt], seconds: float) -> Reply:
    """The reply with how long it took, and the attempts before it, each of which becomes a warning."""
    known = reply.call or CallRecord(0)
    record = msgspec.structs.replace(known, seconds=total_seconds(tried, seconds), attempts=tuple(tried))
    asked_again = (f"asked again: {attempt.model}: {attempt.error}" for attempt in tried)
    return msgspec.structs.replace(reply, call=record, trouble=(*asked_again, *reply.trouble))


class Models:
    """The models of one run. The host creates it; `for_node` gives each agent its model, with retries,
    fallbacks and cache. Clients come from the pool of the process through `lease`; prices and the
    masking of secrets belong to the run. `on_call` is told about each request that leaves, and about each
    wait before another attempt."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        secrets: SecretMasker,
        lease: ResourceLease,
        on_call: CallCallback,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profiles = profiles
        self._secrets = secrets
        self._on_call = on_call
        self._elapsed = elapsed
        self._prices = Prices(profiles)
        self._endpoints: dict[bytes, RemoteModel | PluginModel] = {}
        self._lease = lease

    def for_node(self, node: Node) -> Model:
        """The model of an agent; NodeError if it names none, or one that cannot be used."""
        config: Config = node.config
        profile = self.profile(node)
        fallbacks = [self._profiles[name] for name in config.fallback or profile.fallback]
        endpoints = [self._endpoint(one) for one in (profile, *fallbacks)]
        for endpoint in endpoints:
            endpoint.check(config.provider_params)
        retry = config.retry or ModelRetry()
        model: Model = RetryingModel(endpoints, retry, self._secrets, self._on_call, self._elapsed)
        if profile.cache if config.cache is None else config.cache:
            model = CachedModel(model, profile, cache_folder(), self._secrets)
        return ProviderRequests(model)

    def profile(self, node: Node) -> Profile:
        return agent_profile(node, self._profiles)

    def _endpoint(self, profile: Profile) -> RemoteModel | PluginModel:
        key = msgspec.json.encode(profile)
        if key not in self._endpoints:
            self._endpoints[key] = self._plugin_model(profile) or self._remote_model(profile)
        return self._endpoints[key]

    def _plugin_model(self, profile: Profile) -> PluginModel | None:
        # A package cannot replace a built-in provider: installing it must not redirect requests and
        # keys.
        provider = profile.provider_and_name[0]
        if provider in PROVIDERS or provider in PROVIDER_ALIASES:
            return None
        bound = self._lease.policy.bind(profile)
        if bound is None:
            return None  # the error of the built-in providers says that it is not allowed
        profile = bound
        self._secrets.add(profile.api_key)
        for header in profile.headers.values():
            self._secrets.add_header(header)
        return plugin_model(profile, self._prices, self._lease)

    def _remote_model(self, profile: Profile) -> RemoteModel:
        return RemoteModel(client_model(profile, self._secrets, self._lease), profile, self._prices)


def cache_folder() -> Path:
    return Path(os.environ.get("ROUNDEL_CACHE") or Path(".roundel", "cache"))
