"""What calls and vectors cost: by the price of a profile, else by the table of the package
genai-prices."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from math import isclose
from typing import Any

from roundel.kernel.facts import Usage
from roundel.workflow.model_profile import PROVIDER_ALIASES, Price, Profile


class EmbeddingMeter:
    """Counts the tokens and the cost of vectors during one reading of memories. They are counted where
    they are made, so they count even if the reading fails or times out afterwards."""

    def __init__(self) -> None:
        self._tokens = 0
        self._cost: float | None = 0.0
        self._models: dict[str, None] = {}

    def add(self, model: str, tokens: int, cost: float | None) -> None:
        """Adds one request. `cost` is None if the price is unknown; the sum is then unknown too."""
        self._models[model] = None
        self._tokens += tokens
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    def usage(self) -> Usage | None:
        """The usage of all requests; None if no vectors were made."""
        if not self._models:
            return None
        return Usage(
            input_tokens=self._tokens,
            cost_usd=self._cost or 0,
            unpriced_calls=int(self._cost is None),
            model=", ".join(self._models),
        )


MILLION = 1_000_000
FREE = Price(0, 0)
QUARTER_HOUR = 900
PER_TOKEN_FIELDS = frozenset({"input_tokens", "output_tokens", "details"})
"""The fields of a usage that are charged at the plain rate. Cached tokens and audio have prices of their
own."""


class Prices:
    """Prices of one run. The price of a profile applies to every agent that uses the same model, whether
    or not it names the profile."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profile_prices = {
            _price_key(*profile.provider_and_name): profile.price
            for profile in profiles.values()
            if profile.price is not None
        }

    def profile_price(self, provider: str, name: str) -> Price | None:
        return self._profile_prices.get(_price_key(provider, name))

    def cost(self, provider: str, name: str, usage: Any) -> float | None:
        """The cost in US dollars; None if no price is known, which is not the same as 0."""
        price = self.profile_price(provider, name) or _flat_price(provider, name, usage)
        if price is None:
            return listed_cost(provider, name, usage)
        return cost_of_tokens(price, usage.input_tokens, usage.output_tokens)

    def known_price(self, provider: str, name: str) -> Price | None:
        """The price of a model by its profile or by the table, for plain tokens; None if neither has
        it."""
        return self.profile_price(provider, name) or listed_price(
            PROVIDER_ALIASES.get(provider, provider), name
        )

    def is_free(self, provider: str, name: str) -> bool:
        """Whether the price of a profile is 0. The cost is then known without counting tokens."""
        return self.profile_price(provider, name) == FREE


def cost_of_tokens(price: Price, sent: int, said: int) -> float:
    return (sent * price.input + said * price.output) / MILLION


def _price_key(provider: str, name: str) -> tuple[str, str]:
    return PROVIDER_ALIASES.get(provider, provider), name


def listed_cost(provider: str, name: str, usage: Any) -> float | None:
    """The cost by the table of the package; None without the package, or if the table does not have the
    model."""
    try:
        from genai_prices import calc_price

        return float(calc_price(usage, name, provider_id=provider).total_price)
    except (ImportError, LookupError, ValueError, TypeError):
        return None


def _flat_price(provider: str, name: str, usage: Any) -> Price | None:
    """The listed price if it is a plain rate per token. Computing with it is faster than asking the
    table for each call."""
    special = any(count for kind, count in vars(usage).items() if kind not in PER_TOKEN_FIELDS)
    return None if special else _flat_rate(provider, name, int(time.time() // QUARTER_HOUR))


@lru_cache(maxsize=256)
def _flat_rate(provider: str, name: str, _quarter: int) -> Price | None:
    """The plain rate of a model; None if the rate depends on the number of tokens. It is tested at four
    points.

    The parameter `_quarter` limits the age of a cached value to a quarter of an hour, since some prices
    depend on the time of the day."""
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
    """The listed price of a million tokens, for forecasts, checks and scripted runs."""
    try:
        from genai_prices import Usage
    except ImportError:
        return None
    input_cost = listed_cost(provider, name, Usage(input_tokens=MILLION, output_tokens=0))
    output_cost = listed_cost(provider, name, Usage(input_tokens=0, output_tokens=MILLION))
    if input_cost is None or output_cost is None:
        return None
    return Price(input_cost, output_cost)
