"""What vectors cost, counted where they are made: also if what they were made for comes to nothing."""

from __future__ import annotations

from roundel.kernel.facts import Usage


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
