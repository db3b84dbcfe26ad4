"""Masks secrets in the logs of client libraries.

They log what they send: URLs with credentials in them, and at the level DEBUG whole requests, whose prompts
may hold a secret. The records are changed before any handler sees them, wherever the program sends its logs.

HTTP clients for models, shared by all runs of the process that send the same headers.

From a profile to a client of the provider's: which model class, which key, which address.
"""

from __future__ import annotations

import inspect
import logging
import os
import traceback
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.services import NodeError
from roundel.workflow.model_profile import PROVIDER_ALIASES, Profile
from roundel.workflow.secrets import SecretMasker

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ClientModel

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
    """One for the process: a record does not tell which run it is about, so all runs are masked in it."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: weakref.WeakSet[SecretMasker] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        masked = self._mask(text)
        if masked is not text:
            record.msg, record.args = masked, None
        if record.exc_info:
            record.exc_text = self._mask("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True

    def _mask(self, text: str) -> str:
        for secrets in self.secrets:
            text = secrets.mask(text)
        return text


_SECRET_FILTER = _SecretFilter()


def mask_client_logs(secrets: SecretMasker) -> None:
    """From now on, and as long as these secrets are in use. Call it once the libraries have been imported:
    a filter holds for the loggers that there are, not for those below them."""
    _SECRET_FILTER.secrets.add(secrets)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _LIBRARIES:
            logger.addFilter(_SECRET_FILTER)  # adds it once


MAX_IDLE_CONNECTIONS = 200
"""Connections that wait for another request."""
READ_TIMEOUT = 600.0
"""For the parts of an answer to come, unless a profile has a timeout."""
CONNECT_TIMEOUT = 10.0
_HEADERS_ADDED = "roundel.headers"


def http_client(headers: Mapping[str, str], lease: ResourceLease) -> Any:
    """The client for all who send the same headers; None without the package."""
    try:
        import httpx2
    except ImportError:
        return None  # the client library is missing too, and says so next

    def make() -> Any:
        return httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
            timeout=httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None),
            follow_redirects=True,
            verify=_ssl_context(),
            event_hooks={"request": [_add_headers_hook(headers)]} if headers else None,
        )

    return lease.take(("http", *sorted(headers.items())), make, lambda client: client.aclose())


@cache
def _ssl_context() -> Any:
    """The certificates of those who may be trusted; to read them takes longer than many a run."""
    import httpx2

    return httpx2.create_ssl_context()


def _add_headers_hook(headers: Mapping[str, str]) -> Callable[[Any], Awaitable[None]]:
    """Puts headers on a request as it leaves. Client libraries write what they are given into their logs,
    and headers are where gateways want their keys."""

    async def add(request: Any) -> None:
        if _HEADERS_ADDED not in request.extensions:  # a redirect keeps what may be sent there, and no more
            request.extensions[_HEADERS_ADDED] = True
            request.headers.update(headers)

    return add


Made = TypeVar("Made")
KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
PROTOCOL = "protocol"
"""`chat` or `responses`, among the parameters of files of the dialect; not one of the provider's."""
NO_KEY = "none"
"""What servers of one's own are sent, which ask for no key but whose client wants one."""


def client_model(profile: Profile, secrets: SecretMasker, lease: ResourceLease) -> ClientModel:
    """The model's client, from the pool; NodeError says what has to be installed or set."""
    return _lease_client(profile, secrets, lease, _make_model)


def client_provider(profile: Profile, secrets: SecretMasker, lease: ResourceLease) -> tuple[str, Any]:
    """The provider's name, and its client; for what else it offers beside models."""
    return _lease_client(profile, secrets, lease, _make_provider)


async def _no_close(_client: object) -> None:
    """The connections of a client are those of the HTTP client, which the pool closes."""


def _lease_client(
    profile: Profile, secrets: SecretMasker, lease: ResourceLease, make: Callable[..., Made]
) -> Made:
    provider, name = profile.provider_and_name
    provider = PROVIDER_ALIASES.get(provider, provider)
    key = profile.api_key or _find_key(provider) or (NO_KEY if profile.base_url else "")
    secrets.add(key)
    for header in profile.headers.values():
        secrets.add_header(header)
    try:
        http = http_client(profile.headers, lease)
        client = lease.take(
            (make.__name__, key, msgspec.json.encode(profile)),
            lambda: make(provider, name, profile, key, http),
            _no_close,
        )
        mask_client_logs(secrets)
        return client
    except ImportError as error:
        raise NodeError(f"{provider}:{name} cannot be used: {_describe_missing_package(error)}") from None
    except Exception as error:
        reason = secrets.mask(_describe_error(provider, key, error))
        raise NodeError(f"{provider}:{name} cannot be used: {reason}") from None


def _make_model(provider: str, name: str, profile: Profile, key: str, http_client: Any) -> ClientModel:
    from pydantic_ai.models import infer_model

    _, client = _make_provider(provider, name, profile, key, http_client)
    if provider == "openai":
        provider = "openai-responses" if profile.params.get(PROTOCOL) == "responses" else "openai-chat"
    return infer_model(f"{provider}:{name}", lambda _name: client)


def _make_provider(
    provider: str, _name: str, profile: Profile, key: str, http_client: Any
) -> tuple[str, Any]:
    from pydantic_ai.providers import infer_provider_class

    kind = infer_provider_class(provider)
    wanted = {"api_key": key or None, "base_url": profile.base_url or None, "http_client": http_client}
    accepted = inspect.signature(kind.__init__).parameters
    if profile.base_url and "base_url" not in accepted:
        raise NodeError(f"the provider '{provider}' takes no base_url")
    if profile.headers and "http_client" not in accepted:
        raise NodeError(f"the provider '{provider}' takes no headers")
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
