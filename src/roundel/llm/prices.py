"""What a call costs: by the price that a profile gives, else by the table of the package genai-prices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from roundel.llm.provider import NAMES
from roundel.workflow.profile import Price, Profile

MILLION = 1_000_000


class Prices:
    """A profile's price holds for every agent that uses the same model."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._own = {
            _known_as(*profile.named): profile.price
            for profile in profiles.values()
            if profile.price is not None
        }

    def own(self, provider: str, name: str) -> Price | None:
        return self._own.get(_known_as(provider, name))

    def cost(self, provider: str, name: str, usage: Any) -> float | None:
        """In US dollars; None if nobody knows."""
        price = self.own(provider, name)
        if price is None:
            return listed(provider, name, usage)
        cost: float = usage.input_tokens * price.input + usage.output_tokens * price.output
        return cost / MILLION


def _known_as(provider: str, name: str) -> tuple[str, str]:
    return NAMES.get(provider, provider), name


def listed(provider: str, name: str, usage: Any) -> float | None:
    """By the package's table; None without the package, or if the model is not in it."""
    try:
        from genai_prices import calc_price

        return float(calc_price(usage, name, provider_id=provider).total_price)
    except (ImportError, LookupError, ValueError, TypeError):
        return None


@lru_cache(maxsize=256)
def rate(provider: str, name: str) -> Price | None:
    """The listed price of a million tokens, for a forecast."""
    try:
        from genai_prices import Usage
    except ImportError:
        return None
    input_cost = listed(provider, name, Usage(input_tokens=MILLION, output_tokens=0))
    output_cost = listed(provider, name, Usage(input_tokens=0, output_tokens=MILLION))
    if input_cost is None or output_cost is None:
        return None
    return Price(input_cost, output_cost)
