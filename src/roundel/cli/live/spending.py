"""What a run has used so far, counted from its events; at its end the run says so itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roundel.kernel.events import Event
from roundel.workflow.money import dollars, picodollars


@dataclass(frozen=True, slots=True)
class Usage:
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    """Of the calls whose price is known."""
    unpriced_calls: int = 0
    paid: bool = True
    """Whether models are asked that cost something; a script does not."""

    @property
    def priced(self) -> bool:
        """Whether the price of any call is known."""
        return self.paid and self.unpriced_calls < self.model_calls


class Spending:
    def __init__(self, paid: bool) -> None:
        self._paid = paid
        self._used: Counter[str] = Counter()
        self._cost = 0  # in picodollars
        self._counted: Counter[str] = Counter()
        """The model calls that were counted already of each node at work."""

    def usage(self) -> Usage:
        used = self._used
        tokens = used["input_tokens"] + used["output_tokens"]
        cost = dollars(self._cost)
        return Usage(
            used["model_calls"], used["tool_calls"], tokens, cost, used["unpriced_calls"], self._paid
        )

    def tokens(self, event: Event) -> None:
        data = event.data
        for name in ("input_tokens", "output_tokens"):
            self._used[name] += data.get(name, 0)
        self._count(event.address or "", 1)
        cost = data.get("cost_usd")
        self._cost += picodollars(cost or 0)
        self._used["unpriced_calls"] += cost is None

    def tool(self, event: Event) -> None:
        self._used["tool_calls"] += event.data["status"] in ("completed", "failed")

    def spoken(self, address: str, rounds: int) -> None:
        """An agent is done. Calls that told of no tokens are counted now: one, and one for each round."""
        missing = rounds + 1 - self._counted[address]
        if missing > 0:
            self._count(address, missing)
            self._used["unpriced_calls"] += missing
        del self._counted[address]

    def settle(self, usage: Mapping[str, Any]) -> None:
        """The run's own figures; the events seen here may have begun in the middle."""
        for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens", "unpriced_calls"):
            self._used[name] = usage.get(name, self._used[name])
        self._cost = picodollars(usage.get("cost_usd", dollars(self._cost)) or 0)

    def _count(self, address: str, calls: int) -> None:
        self._used["model_calls"] += calls
        self._counted[address] += calls
