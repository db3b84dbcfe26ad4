"""Which models answer for an agent, and what is known of their prices before a run.

The models themselves are created by `llm/models.py`; this module needs neither clients nor keys, so checks,
forecasts and scripted runs use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from roundel.nodes.agent_config import Config
from roundel.nodes.prices import Prices, cost_of_tokens
from roundel.nodes.services import NodeError
from roundel.plan.model_choice import GIVE_MODEL
from roundel.workflow.graph import Node, Workflow
from roundel.workflow.model_profile import (
    DEFAULT_PROFILE,
    PROVIDER_ALIASES,
    PROVIDERS,
    Price,
    Profile,
    installed_providers,
)


def agent_profile(node: Node, profiles: Mapping[str, Profile]) -> Profile:
    """The profile of an agent; NodeError if it names no model."""
    found = find_profile(node.config, profiles)
    if found is None:
        raise NodeError(f"agent '{node.id}' has no model; {GIVE_MODEL}")
    return found


def find_profile(config: Config, profiles: Mapping[str, Profile]) -> Profile | None:
    """The profile of an agent: its own settings over those of the profile that it names, or of
    `default`. An agent with a model of its own and no `profile_id` does not use `default`. None if the
    agent names no model."""
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
        return None
    if "name" in own_settings or "model" in own_settings:
        base = msgspec.structs.replace(base, name="", model="")
    return msgspec.structs.replace(base, **own_settings)


def agent_endpoints(config: Config, workflow: Workflow) -> tuple[Profile, ...]:
    """The profile that an agent calls, its own settings included; none if it names no model, or one that
    does not exist. Its fallbacks are profiles of the workflow as they are."""
    if config.profile_id and config.profile_id not in workflow.models:
        return ()
    profile = find_profile(config, workflow.models)
    return () if profile is None else (profile,)


def model_price(config: Config, profiles: Mapping[str, Profile]) -> Price | None:
    """The price of the model of an agent, by its profile or by the table; None if it is not known."""
    profile = find_profile(config, profiles)
    return None if profile is None else Prices(profiles).known_price(*profile.provider_and_name)


def pricing(profiles: Mapping[str, Profile]) -> Callable[[Node], Price | None]:
    """The prices of agents, for a forecast."""
    return lambda node: model_price(node.config, profiles) if isinstance(node.config, Config) else None


def unpriced_models(config: Config, workflow: Workflow) -> tuple[str, ...]:
    """The models that may answer for an agent and whose price is not known, as `provider:name`; an empty
    text for an agent that names no model.

    Providers of installed packages are left out: their replies may contain the cost."""
    profiles = workflow.models
    profile = find_profile(config, profiles)
    if profile is None:
        return ("",)
    fallbacks = [profiles[name] for name in config.fallback or profile.fallback]
    models = dict.fromkeys(one.provider_and_name for one in (profile, *fallbacks))
    prices = Prices(profiles)
    return tuple(
        f"{provider}:{name}"
        for provider, name in models
        if not _is_plugin(provider) and prices.known_price(provider, name) is None
    )


def _is_plugin(provider: str) -> bool:
    return not (provider in PROVIDERS or provider in PROVIDER_ALIASES) and provider in installed_providers()


class ScriptedPrice:
    """The price of an agent's model in a scripted run, so that limits on the cost can be rehearsed."""

    def __init__(self, config: Config, profiles: Mapping[str, Profile]) -> None:
        profile = find_profile(config, profiles)
        self.model = ":".join(profile.provider_and_name) if profile is not None else ""
        """The model as `provider:name`; empty if the agent names none."""
        self._price = model_price(config, profiles)

    def cost(self, sent: int, said: int) -> float | None:
        """The cost of a call; None if the price is not known."""
        return None if self._price is None else cost_of_tokens(self._price, sent, said)
