"""From a profile to a client of the provider's: which model class, which key, which address."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from roundel.llm.client_logs import mask_client_logs
from roundel.llm.connections import http_client
from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.services import NodeError
from roundel.workflow.profile import Profile
from roundel.workflow.providers import ALIASES
from roundel.workflow.secrets import Secrets

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ClientModel

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


def client_model(profile: Profile, secrets: Secrets, lease: ResourceLease) -> ClientModel:
    """The model's client, from the pool; NodeError says what has to be installed or set."""
    return _lease_client(profile, secrets, lease, _make_model)


def client_provider(profile: Profile, secrets: Secrets, lease: ResourceLease) -> tuple[str, Any]:
    """The provider's name, and its client; for what else it offers beside models."""
    return _lease_client(profile, secrets, lease, _make_provider)


async def _no_close(_client: object) -> None:
    """The connections of a client are those of the HTTP client, which the pool closes."""


def _lease_client(
    profile: Profile, secrets: Secrets, lease: ResourceLease, make: Callable[..., Made]
) -> Made:
    provider, name = profile.named
    provider = ALIASES.get(provider, provider)
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
