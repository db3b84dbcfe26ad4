"""Clients of model providers: from a profile to a client with its key, its address and its headers.

Clients and their HTTP connections are shared by all runs of the process that have the same settings
(resource_pool.py). Secrets stay out of logs in two ways. Headers are added to requests behind the back
of the client libraries. And everything that those libraries log is masked before a handler sees it: they
log addresses with credentials, and at the level DEBUG whole requests.
"""

from __future__ import annotations

import inspect
import logging
import os
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.services import NodeError
from roundel.workflow.model_profile import PROVIDER_ALIASES, Profile
from roundel.workflow.secrets import SecretMasker

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ClientModel

# The loggers of libraries that may log requests, by the first part of their name.
_LIBRARIES = (
    "anthropic",
    "asyncio",
    "client",
    "google",
    "google_genai",
    "httpcore2",
    "httpx2",
    "mcp",
    "openai",
    "pydantic_ai",
)


class _SecretFilter(logging.Filter):
    """Masks secrets in log records. There is one filter for the process: a record does not say to which
    run it belongs, so the secrets of all runs are masked in it. The references are weak, so secrets go
    with their run."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: weakref.WeakSet[SecretMasker] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        masked = self._mask(text)
        if masked is not text:
            record.msg, record.args = masked, None
        if record.exc_info:
            # A traceback is formatted here, since a handler would format the exception without masking
            # it.
            record.exc_text = self._mask("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True

    def _mask(self, text: str) -> str:
        for secrets in self.secrets:
            text = secrets.mask(text)
        return text


_SECRET_FILTER = _SecretFilter()


def mask_client_logs(secrets: SecretMasker) -> None:
    """Masks these secrets in the logs of client libraries, as long as the masker is alive. Call it after
    the libraries have been imported: a filter applies to the loggers that exist, and loggers do not
    inherit filters."""
    _SECRET_FILTER.secrets.add(secrets)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _LIBRARIES:
            logger.addFilter(_SECRET_FILTER)  # has no effect if it was added before


MAX_IDLE_CONNECTIONS = 200
"""Open connections that wait for another request."""
READ_TIMEOUT = 300.0
"""Seconds without any data, unless a profile has a timeout."""
CONNECT_TIMEOUT = 10.0
"""Seconds."""
_HEADERS_ADDED = "roundel.headers"


def http_client(headers: Mapping[str, str], lease: ResourceLease) -> Any:
    """The HTTP client for all profiles with the same headers, from the pool; None if the package is not
    installed.

    The number of connections is not limited, so that no run waits for a connection of another. Under a
    policy, addresses are checked (addresses.py); proxies of the environment are not used then, since a proxy
    would resolve the names again."""
    try:
        import httpx2
    except ImportError:
        return None  # the client library is missing as well, and its error says what to install

    networks = lease.policy.networks_key
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS)

    def make() -> Any:
        return httpx2.AsyncClient(
            limits=limits,
            timeout=httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None),
            follow_redirects=True,
            verify=_ssl_context(),
            event_hooks={
                "request": [_add_headers_hook(headers)] if headers else [],
                "response": [_keep_beginning],
            },
            transport=None if networks is None else _checked_transport(networks, limits),
        )

    return lease.take(("http", networks, *sorted(headers.items())), make, lambda client: client.aclose())


def _checked_transport(networks: tuple[str, ...], limits: Any) -> Any:
    from roundel.llm.addresses import CheckedTransport

    return CheckedTransport(networks, verify=_ssl_context(), limits=limits)


@cache
def _ssl_context() -> Any:
    """The trusted certificates, read once: reading them takes longer than many runs."""
    import httpx2

    return httpx2.create_ssl_context()


def _add_headers_hook(headers: Mapping[str, str]) -> Callable[[Any], Awaitable[None]]:
    """Adds the headers of a profile to each request as it is sent. They are not passed to the client
    libraries, which log what they are given, because gateways expect their keys in headers."""

    async def add(request: Any) -> None:
        # Once only: on a redirect the HTTP client drops headers that another host must not see, and
        # adding them again would undo that.
        if _HEADERS_ADDED not in request.extensions:
            request.extensions[_HEADERS_ADDED] = True
            request.headers.update(headers)

    return add


KEPT_BYTES = 2000


class AnswerBeginning:
    """The first bytes of a provider's answer, for the error if nobody can read it. The client libraries
    report only that they could not."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        """None before the answer begins, or if it is not kept."""

    @property
    def text(self) -> str | None:
        return None if self.content is None else self.content.decode(errors="replace").strip()


answer_beginning: ContextVar[AnswerBeginning | None] = ContextVar("roundel_answer", default=None)
"""Where to keep the beginning of the answer to the current request."""


async def _keep_beginning(response: Any) -> None:
    kept = answer_beginning.get()
    # Compressed bytes say nothing, and errors have their body in the exception.
    if kept is None or response.status_code != HTTPStatus.OK or "content-encoding" in response.headers:
        return
    response.stream = _kept_stream()(response.stream, kept)


@cache
def _kept_stream() -> Any:
    import httpx2

    class KeptStream(httpx2.AsyncByteStream):
        """The body of an answer; its beginning is kept as it passes."""

        def __init__(self, body: Any, kept: AnswerBeginning) -> None:
            self._body, self._kept = body, kept

        async def __aiter__(self) -> AsyncIterator[bytes]:
            content = self._kept.content = b""
            async for part in self._body:
                if len(content) < KEPT_BYTES:
                    content = self._kept.content = content + part[:KEPT_BYTES]
                yield part

        async def aclose(self) -> None:
            await self._body.aclose()

    return KeptStream


T = TypeVar("T")
KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
PROTOCOL = "protocol"
"""A parameter of the dialect that selects the interface of OpenAI, `chat` or `responses`. It is not
sent."""
NO_KEY = "none"
"""Sent to servers with a `base_url` if no key is given: they often need none, but the client library
requires one."""


def client_model(profile: Profile, secrets: SecretMasker, lease: ResourceLease) -> ClientModel:
    """The client of a model, from the pool; NodeError says what has to be installed or set."""
    return _lease_client(profile, secrets, lease, _make_model)


def client_provider(profile: Profile, secrets: SecretMasker, lease: ResourceLease) -> tuple[str, Any]:
    """The name of a provider and its client, for services other than models, such as embeddings."""
    return _lease_client(profile, secrets, lease, _make_provider)


async def _no_close(_client: object) -> None:
    """A client has no connections of its own: the HTTP client has them, and the pool closes that."""


def _lease_client(profile: Profile, secrets: SecretMasker, lease: ResourceLease, make: Callable[..., T]) -> T:
    provider, name = profile.provider_and_name
    provider = PROVIDER_ALIASES.get(provider, provider)
    policy = lease.policy
    bound = policy.bind(profile)
    if bound is None:
        raise NodeError(f"{provider}:{name} cannot be used: it is not allowed here")
    profile = bound
    if policy.trusted or policy.is_operators(profile):
        key = profile.api_key or _find_key(provider) or (NO_KEY if profile.base_url else "")
    else:
        # Never empty: the client libraries would look for a key in the environment themselves.
        key = profile.api_key or NO_KEY
    # Registered before anything can fail or log.
    secrets.add(key)
    for header in profile.headers.values():
        secrets.add_header(header)
    try:
        http = http_client(profile.headers, lease)
        client = lease.take(
            # The key of the environment is part of the identity: it may change between two runs.
            (make.__name__, key, policy.networks_key, msgspec.json.encode(profile)),
            lambda: make(provider, name, profile, key, http, not policy.trusted),
            _no_close,
        )
        mask_client_logs(secrets)
        return client
    except ImportError as error:
        raise NodeError(f"{provider}:{name} cannot be used: {_describe_missing_package(error)}") from None
    except Exception as error:
        reason = secrets.mask(_describe_error(provider, key, error))
        raise NodeError(f"{provider}:{name} cannot be used: {reason}") from None


def _make_model(
    provider: str, name: str, profile: Profile, key: str, http_client: Any, is_checked: bool
) -> ClientModel:
    from pydantic_ai.models import infer_model

    _, client = _make_provider(provider, name, profile, key, http_client, is_checked)
    if provider == "openai":
        if profile.params.get(PROTOCOL) != "responses":
            from roundel.llm.openai_chat import NamedChatModel

            return NamedChatModel(name, provider=client)
        provider = "openai-responses"
    return infer_model(f"{provider}:{name}", lambda _name: client)


def _make_provider(
    provider: str, _name: str, profile: Profile, key: str, http_client: Any, is_checked: bool
) -> tuple[str, Any]:
    from pydantic_ai.providers import infer_provider_class

    kind = infer_provider_class(provider)
    wanted = {"api_key": key or None, "base_url": profile.base_url or None, "http_client": http_client}
    # Providers of the library take different arguments. One that a profile needs must not be dropped
    # silently.
    accepted = inspect.signature(kind.__init__).parameters
    if profile.base_url and "base_url" not in accepted:
        raise NodeError(f"the provider '{provider}' takes no base_url")
    if profile.headers and "http_client" not in accepted:
        raise NodeError(f"the provider '{provider}' takes no headers")
    if is_checked and profile.base_url and "http_client" not in accepted:
        raise NodeError(f"the provider '{provider}' takes no base_url here: its address cannot be checked")
    client = kind(
        **{option: value for option, value in wanted.items() if option in accepted and value is not None}
    )
    return provider, client


def _find_key(provider: str) -> str:
    return next((os.environ[name] for name in KEY_VARIABLES.get(provider, ()) if os.environ.get(name)), "")


def _describe_missing_package(error: ImportError) -> str:
    if (error.name or "").partition(".")[0] == "pydantic_ai" or "pydantic_ai" in str(error):
        return 'real models need an extra: pip install "roundel[llm]"; or give a script (--script FILE)'
    return f"a package is missing ({error}); see the providers of pydantic-ai for its extra"


def _describe_error(provider: str, key: str, error: Exception) -> str:
    if isinstance(error, NodeError):
        return str(error)
    if not key and provider in KEY_VARIABLES:
        return f"there is no key; set {KEY_VARIABLES[provider][0]}, or give api_key in its profile"
    if isinstance(error, ValueError) and "nknown provider" in str(error):
        return f"there is no provider '{provider}'; openai with a base_url speaks to most servers"
    return str(error)
