"""The breaker: when a run is locked because it goes in circles, costs too much or takes too long."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from roundel.workflow.document import Located
from roundel.workflow.fields import Reader

PATIENCE = 600.0
NEVER = 1e18


class Breaker(Struct, frozen=True, omit_defaults=True):
    """On unless it is turned off, as a whole (`breaker: false`) or one by one."""

    enabled: bool = True
    dead_loop: bool = True
    """Trips when every speaker of a loop repeats itself, and nothing else in it makes progress."""
    window: Annotated[int, Meta(ge=2)] = 3
    """The least number of messages that must be repetitions, in at least two rounds in a row."""
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """A message whose novelty is below this is a repetition; 1 is all new, 0 a repetition."""
    token_surge: bool = True
    """Trips when far more tokens are spent than the forecast says."""
    factor: Annotated[float, Meta(ge=1)] = 3
    """So many times the estimate."""
    timeout: bool = True
    """Trips when the run has worked for too long; waiting for people does not count."""
    seconds: Annotated[float, Meta(gt=0)] | None = None
    """So long; if it is not given, ten minutes and what the timers of the workflow ask for."""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, bool):
            return cls(enabled=at.value)
        return reader.read_struct(at, cls, "'breaker'")

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, maker.struct(cls)]}

    @property
    def watches_loops(self) -> bool:
        return self.enabled and self.dead_loop

    @property
    def watches_tokens(self) -> bool:
        return self.enabled and self.token_surge

    def patience(self, timers: float) -> float:
        """The seconds of work that are allowed, in a workflow whose timers take so many."""
        if not (self.enabled and self.timeout):
            return NEVER
        return self.seconds or PATIENCE + timers
