"""What vectors cost, counted where they are made: also if what they were made for comes to nothing.

What a call costs: by the price that a profile gives, else by the table of the package genai-prices.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from math import isclose
from typing import Any

from roundel.kernel.facts import Usage
from roundel.workflow.model_profile import PROVIDER_ALIASES, Price, Profile


class EmbeddingMeter:
    def __init__(self) -> None:
        self._tokens = 0
        self._cost: float | None = 0.0
        self._models: dict[str, None] = {}

    def add(self, model: str, tokens: int, cost: float | None) -> None:
        """`cost` is None if nobody knows the price."""
        self._models[model] = None
        self._tokens += tokens
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    def usage(self) -> Usage | None:
        """None if no vectors were made."""
        if not self._models:
            return None
        return Usage(
            input_tokens=self._tokens,
            cost_usd=self._cost or 0,
            unpriced_calls=int(self._cost is None),
            model=", ".join(self._models),
        )


MILLION = 1_000_000
QUARTER_HOUR = 900
PER_TOKEN_FIELDS = frozenset({"input_tokens", "output_tokens", "details"})
"""What of a call's usage is charged by the token; cached tokens and sound have prices of their own."""


class Prices:
    """A profile's price holds for every agent that uses the same model."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profile_prices = {
            _price_key(*profile.provider_and_name): profile.price
            for profile in profiles.values()
            if profile.price is not None
        }

    def profile_price(self, provider: str, name: str) -> Price | None:
        return self._profile_prices.get(_price_key(provider, name))

    def cost(self, provider: str, name: str, usage: Any) -> float | None:
        """In US dollars; None if nobody knows."""
        price = self.profile_price(provider, name) or _flat_price(provider, name, usage)
        if price is None:
            return listed_cost(provider, name, usage)
        cost: float = usage.input_tokens * price.input + usage.output_tokens * price.output
        return cost / MILLION


def _price_key(provider: str, name: str) -> tuple[str, str]:
    return PROVIDER_ALIASES.get(provider, provider), name


def listed_cost(provider: str, name: str, usage: Any) -> float | None:
    """By the package's table; None without the package, or if the model is not in it."""
    try:
        from genai_prices import calc_price

        return float(calc_price(usage, name, provider_id=provider).total_price)
    except (ImportError, LookupError, ValueError, TypeError):
        return None


def _flat_price(provider: str, name: str, usage: Any) -> Price | None:
    """The listed price, if it is so much a token and nothing else; the table itself takes longer to ask."""
    special = any(count for kind, count in vars(usage).items() if kind not in PER_TOKEN_FIELDS)
    return None if special else _flat_rate(provider, name, int(time.time() // QUARTER_HOUR))


@lru_cache(maxsize=256)
def _flat_rate(provider: str, name: str, _quarter: int) -> Price | None:
    """None if a token costs more or less where there are many. Some prices go by the hour of the day."""
    try:
        from genai_prices import Usage
    except ImportError:
        return None
    points = ((MILLION, 0), (0, MILLION), (1000, 1000), (10 * MILLION, 10 * MILLION))
    found = [
        listed_cost(provider, name, Usage(input_tokens=sent, output_tokens=said)) for sent, said in points
    ]
    known_costs = [cost for cost in found if cost is not None]
    if len(known_costs) < len(points):
        return None
    sent, said, few, many = known_costs
    flat = all(isclose(cost * scale, sent + said) for cost, scale in ((few, 1000), (many, 0.1)))
    return Price(sent, said) if flat else None


@lru_cache(maxsize=256)
def listed_price(provider: str, name: str) -> Price | None:
    """The listed price of a million tokens, for a forecast."""
    try:
        from genai_prices import Usage
    except ImportError:
        return None
    input_cost = listed_cost(provider, name, Usage(input_tokens=MILLION, output_tokens=0))
    output_cost = listed_cost(provider, name, Usage(input_tokens=0, output_tokens=MILLION))
    if input_cost is None or output_cost is None:
        return None
    return Price(input_cost, output_cost)
