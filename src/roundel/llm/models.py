"""The models of one run: which one answers for which agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from roundel.llm.cache import CachedModel
from roundel.llm.offered import PluginModel, plugin_model
from roundel.llm.persistence import RetryingModel
from roundel.llm.prices import Prices
from roundel.llm.provider import client_model
from roundel.llm.remote import RemoteModel
from roundel.llm.resource_pool import ResourceLease
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

    def __init__(self, profiles: Mapping[str, Profile], secrets: Secrets, lease: ResourceLease) -> None:
        self._profiles = profiles
        self._secrets = secrets
        self._prices = Prices(profiles)
        self._endpoints: dict[bytes, RemoteModel | PluginModel] = {}
        self._lease = lease

    def for_node(self, node: Node) -> Model:
        """The model of an agent; NodeError if it names none, or one that cannot be used."""
        config: Config = node.config
        profile = self.profile(node)
        fallbacks = [self._profiles[name] for name in config.fallback or profile.fallback]
        endpoints = [self._endpoint(one) for one in (profile, *fallbacks)]
        for remote in endpoints:
            remote.check(config.provider_params)
        model: Model = RetryingModel(endpoints, config.retry or ModelRetry(), self._secrets)
        if profile.cache if config.cache is None else config.cache:
            model = CachedModel(model, profile, cache_folder(), self._secrets)
        return model

    def profile(self, node: Node) -> Profile:
        return agent_profile(node, self._profiles)

    def _endpoint(self, profile: Profile) -> RemoteModel | PluginModel:
        key = msgspec.json.encode(profile)
        if key not in self._endpoints:
            self._endpoints[key] = self._plugin_model(profile) or self._remote_model(profile)
        return self._endpoints[key]

    def _plugin_model(self, profile: Profile) -> PluginModel | None:
        # A name that we know is never a package's: nobody takes over the requests to another provider.
        provider = profile.named[0]
        if provider in PROVIDERS or provider in ALIASES:
            return None
        self._secrets.add(profile.api_key)
        for header in profile.headers.values():
            self._secrets.add_header(header)
        return plugin_model(profile, self._prices, self._lease)

    def _remote_model(self, profile: Profile) -> RemoteModel:
        return RemoteModel(client_model(profile, self._secrets, self._lease), profile, self._prices)


def agent_profile(node: Node, profiles: Mapping[str, Profile]) -> Profile:
    """What an agent says of its model, over the profile that it names."""
    config: Config = node.config
    own_settings = {
        name: getattr(config, name)
        for name in ("provider", "name", "model", "base_url", "api_key")
        if getattr(config, name)
    }
    if config.profile_id:
        base = profiles[config.profile_id]
    elif "name" not in own_settings and "model" not in own_settings and DEFAULT_PROFILE in profiles:
        base = profiles[DEFAULT_PROFILE]
    elif "name" in own_settings or "model" in own_settings:
        return Profile(**own_settings)
    else:
        raise NodeError(
            f"agent '{node.id}' has no model; give it `model: provider:name`, a profile under `models`, "
            "or answer for it from a script (--script FILE, or script= in Python)"
        )
    if "name" in own_settings or "model" in own_settings:
        base = msgspec.structs.replace(base, name="", model="")
    return msgspec.structs.replace(base, **own_settings)


def cache_folder() -> Path:
    return Path(os.environ.get("ROUNDEL_CACHE") or Path(".roundel", "cache"))
