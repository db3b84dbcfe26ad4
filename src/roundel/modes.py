"""When a loop agent goes on, said in Python: as a file says it, or in your own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Literal

from msgspec import Struct

from roundel.nodes.loop_agent import describe_value, strategy_methods

Predicate = str | Callable[..., Any]
"""A CEL expression, or a function of the messages."""


class LoopStrategy:
    """When a loop agent goes on, in your own words.

    `state` has the `messages` so far, `round` (how many there have been) and `results`. Whatever else is put
    there is kept from round to round, for each loop apart; it has to be JSON. Nothing belongs into `self`,
    since one strategy may serve in many loops at the same time.
    """

    def init(self, state: dict[str, Any]) -> Any:
        """Called once, before the first `dispatch`."""

    def dispatch(self, state: dict[str, Any]) -> Any:
        """Called before each round: true goes on, false ends; anything else is what the round gets."""
        raise NotImplementedError


class LoopMode(Struct, frozen=True):
    """A strategy as a file has it."""

    strategy: Mapping[str, Any]

    @classmethod
    def count(cls, n: int) -> LoopMode:
        """So many rounds; none for 0 or less."""
        return cls({"mode": "count", "max": n})

    @classmethod
    def condition(
        cls, predicate: Predicate, max: int = 1000, on_limit: Literal["finish", "suspend"] = "finish"
    ) -> LoopMode:
        """Until the predicate holds, tested before each round."""
        return cls({"mode": "condition", "until": _to_config(predicate), "max": max, "on_limit": on_limit})

    @classmethod
    def array(
        cls,
        converter: Predicate | None = None,
        *,
        max: int = 1000,
        max_parallel: int = 1,
        on_error: Literal["stop", "null", "drop"] | None = "stop",
        gather: bool = True,
    ) -> LoopMode:
        """A round for each element of a list: of the last message, or of what the converter gives."""
        strategy: dict[str, Any] = {"mode": "array", "max": max, "max_parallel": max_parallel}
        if converter is not None:
            strategy["items"] = _to_config(converter)
        return cls({**strategy, "on_error": on_error, "gather": gather})

    @classmethod
    def custom(cls, strategy: Any, max: int = 1000) -> LoopMode:
        """As an object with `init` and `dispatch` says, or a function that is the `dispatch`."""
        made = strategy() if isinstance(strategy, type) else strategy
        strategy_methods(made)
        return cls({"mode": "custom", "use": made, "max": max})

    def with_max_parallel(self, width: int | None) -> LoopMode:
        """The same with so many rounds at the same time, if that can be."""
        configured = self.strategy.get("max_parallel", 1)
        if width is None or width == configured:
            return self
        if not self.has_parallel_rounds:
            raise ValueError(f"there cannot be {width} rounds at the same time")
        if configured != 1:
            raise ValueError(f"it is told to run {configured} rounds at the same time, and {width}")
        return LoopMode({**self.strategy, "max_parallel": width})

    @property
    def has_parallel_rounds(self) -> bool:
        """Whether its rounds may run at the same time: only those of an array do not follow each other."""
        return self.strategy.get("mode") == "array"


def _to_config(value: Predicate) -> Any:
    return {"function": value} if callable(value) else value


def to_mode(strategy: Any) -> LoopMode:
    """A strategy of any form; LookupError says what is wrong with it."""
    if isinstance(strategy, LoopMode):
        return strategy
    if isinstance(strategy, Mapping):
        return LoopMode(strategy)
    if getattr(strategy, "__self__", None) is LoopMode:
        raise LookupError(
            f"LoopMode.{strategy.__name__} is not a loop strategy: it makes one when it is called"
        )
    return LoopMode.custom(strategy)


def to_executor(given: Any, name: str) -> Executor | None:
    """What the functions of a body run on; a number stands for a pool of so many threads."""
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
    """How many calls it can run at the same time; ValueError if it does not say."""
    workers = getattr(executor, "_max_workers", None)
    if isinstance(workers, int):
        return workers
    raise ValueError("the executor does not say how many workers it has, so max_parallel has to be given")
