"""The models of one run: which one answers for which agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from roundel.llm.cache import CachedModel
from roundel.llm.offered import OfferedModel, offered_model
from roundel.llm.persistence import PersistentModel
from roundel.llm.prices import Prices
from roundel.llm.provider import client_model
from roundel.llm.remote import RemoteModel
from roundel.llm.resource_pool import Lease
from roundel.nodes.agent_config import Config
from roundel.nodes.model_retry import ModelRetry
from roundel.nodes.services import Model, NodeError
from roundel.workflow.graph import Node
from roundel.workflow.profile import DEFAULT_PROFILE, Profile
from roundel.workflow.providers import ALIASES, PROVIDERS
from roundel.workflow.secrets import Secrets


class Models:
    """Chooses and makes models. Their clients come from the pool of the process by `lease`; prices and the
    masking of secrets are the run's own."""

    def __init__(self, profiles: Mapping[str, Profile], secrets: Secrets, lease: Lease) -> None:
        self._profiles = profiles
        self._secrets = secrets
        self._prices = Prices(profiles)
        self._made: dict[bytes, RemoteModel | OfferedModel] = {}
        self._lease = lease

    def of(self, node: Node) -> Model:
        """The model of an agent; NodeError if it names none, or one that cannot be used."""
        config: Config = node.config
        profile = self.profile(node)
        behind = [self._profiles[name] for name in config.fallback or profile.fallback]
        remotes = [self._remote(one) for one in (profile, *behind)]
        for remote in remotes:
            remote.check(config.sent)
        model: Model = PersistentModel(remotes, config.retry or ModelRetry(), self._secrets)
        if profile.cache if config.cache is None else config.cache:
            model = CachedModel(model, profile, cache_folder(), self._secrets)
        return model

    def profile(self, node: Node) -> Profile:
        return profile_of(node, self._profiles)

    def _remote(self, profile: Profile) -> RemoteModel | OfferedModel:
        key = msgspec.json.encode(profile)
        if key not in self._made:
            self._made[key] = self._offered(profile) or self._client(profile)
        return self._made[key]

    def _offered(self, profile: Profile) -> OfferedModel | None:
        # A name that we know is never a package's: nobody takes over the requests to another provider.
        provider = profile.named[0]
        if provider in PROVIDERS or provider in ALIASES:
            return None
        self._secrets.add(profile.api_key)
        for header in profile.headers.values():
            self._secrets.add_header(header)
        return offered_model(profile, self._prices, self._lease)

    def _client(self, profile: Profile) -> RemoteModel:
        return RemoteModel(client_model(profile, self._secrets, self._lease), profile, self._prices)


def profile_of(node: Node, profiles: Mapping[str, Profile]) -> Profile:
    """What an agent says of its model, over the profile that it names."""
    config: Config = node.config
    own = {
        name: getattr(config, name)
        for name in ("provider", "name", "model", "base_url", "api_key")
        if getattr(config, name)
    }
    if config.profile_id:
        base = profiles[config.profile_id]
    elif "name" not in own and "model" not in own and DEFAULT_PROFILE in profiles:
        base = profiles[DEFAULT_PROFILE]
    elif "name" in own or "model" in own:
        return Profile(**own)
    else:
        raise NodeError(
            f"agent '{node.id}' has no model; give it `model: provider:name`, a profile under `models`, "
            "or answer for it from a script (--script FILE, or script= in Python)"
        )
    if "name" in own or "model" in own:
        base = msgspec.structs.replace(base, name="", model="")
    return msgspec.structs.replace(base, **own)


def cache_folder() -> Path:
    return Path(os.environ.get("ROUNDEL_CACHE") or Path(".roundel", "cache"))
