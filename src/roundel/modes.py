"""Strategies of loop agents in Python: when a loop continues, and with which input.

`LoopMode` makes the mapping that a file would have under `strategy`, so there is one implementation for
both. `LoopStrategy` is a strategy as a class, for decisions that no mode covers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Literal

from msgspec import Struct

from roundel.nodes.loop_agent import describe_value, strategy_methods

PredicateLike = str | Callable[..., Any]
"""A CEL expression, or a function of the messages."""


class LoopStrategy:
    """A strategy of your own, as a base class: decides before each round whether a loop agent continues.

    `state` has the `messages` so far, `round` (the number of rounds so far) and `results`. Anything else
    that you put there is stored from round to round, for each loop separately; it has to be JSON. Do not
    store anything in `self`: one strategy may serve many loops at the same time, and only `state`
    survives a resume.
    """

    def init(self, state: dict[str, Any]) -> Any:
        """Called once, before the first `dispatch`."""

    def dispatch(self, state: dict[str, Any]) -> Any:
        """Called before each round: true continues, false ends; anything else is the input of the
        round."""
        raise NotImplementedError


class LoopMode(Struct, frozen=True):
    """A strategy as a file would have it; the class methods create it."""

    strategy: Mapping[str, Any]

    @classmethod
    def count(cls, n: int) -> LoopMode:
        """Exactly `n` rounds; none for 0 or less."""
        return cls({"mode": "count", "max": n})

    @classmethod
    def condition(
        cls, predicate: PredicateLike, max: int = 1000, on_limit: Literal["finish", "suspend"] = "finish"
    ) -> LoopMode:
        """Rounds until the predicate is true; it is tested before each round."""
        return cls({"mode": "condition", "until": _to_config(predicate), "max": max, "on_limit": on_limit})

    @classmethod
    def array(
        cls,
        converter: PredicateLike | None = None,
        *,
        max: int = 1000,
        max_parallel: int = 1,
        on_error: Literal["stop", "null", "drop"] | None = "stop",
        gather: bool = True,
    ) -> LoopMode:
        """A round for each element of a list: the last message, or the result of the converter."""
        strategy: dict[str, Any] = {"mode": "array", "max": max, "max_parallel": max_parallel}
        if converter is not None:
            strategy["items"] = _to_config(converter)
        return cls({**strategy, "on_error": on_error, "gather": gather})

    @classmethod
    def custom(cls, strategy: Any, max: int = 1000) -> LoopMode:
        """Decided by an object with `init` and `dispatch`, or by a function, which is the `dispatch`."""
        made = strategy() if isinstance(strategy, type) else strategy
        strategy_methods(made)
        return cls({"mode": "custom", "use": made, "max": max})

    def with_max_parallel(self, width: int | None) -> LoopMode:
        """The same mode with `width` parallel rounds; raises ValueError if that is impossible."""
        configured = self.strategy.get("max_parallel", 1)
        if width is None or width == configured:
            return self
        if not self.has_parallel_rounds:
            raise ValueError(f"{width} rounds cannot run at the same time")
        if configured != 1:
            raise ValueError(
                f"max_parallel is {configured} in the strategy, but {width} here; give one of them"
            )
        return LoopMode({**self.strategy, "max_parallel": width})

    @property
    def has_parallel_rounds(self) -> bool:
        """Whether rounds may run at the same time: only those of an array do not need the one before."""
        return self.strategy.get("mode") == "array"


def _to_config(value: PredicateLike) -> Any:
    return {"function": value} if callable(value) else value


def to_mode(strategy: Any) -> LoopMode:
    """A strategy of any form as a mode; raises LookupError with the reason if it is none."""
    if isinstance(strategy, LoopMode):
        return strategy
    if isinstance(strategy, Mapping):
        return LoopMode(strategy)
    # `LoopMode.count` without its call is a function too, and would become a custom strategy.
    if getattr(strategy, "__self__", None) is LoopMode:
        raise LookupError(
            f"LoopMode.{strategy.__name__} is not a loop strategy: it makes one when it is called"
        )
    return LoopMode.custom(strategy)


def to_executor(given: Any, name: str) -> Executor | None:
    """The executor for the functions of a body; a number makes a pool with so many threads."""
    if given is None or isinstance(given, Executor):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 1:
            raise ValueError(f"the executor has to have at least one thread, not {given}")
        return ThreadPoolExecutor(given, thread_name_prefix=name)
    raise ValueError(
        f"the executor is {describe_value(given)}, not a concurrent.futures.Executor or a number"
    )


def count_workers(executor: Executor) -> int:
    """How many calls an executor can run at the same time; raises ValueError if it is unknown."""
    # No public attribute has it; the executors of the standard library all have this one.
    workers = getattr(executor, "_max_workers", None)
    if isinstance(workers, int):
        return workers
    raise ValueError("the number of workers of the executor is unknown; give max_parallel")
