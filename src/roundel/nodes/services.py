"""What a host lends to the nodes of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.workflow.message import Message, as_message

Behaviour = Callable[[Call], Outcome | Awaitable[Any]]
"""What is awaited may be anything that `outcome_of` understands."""


class NodeError(Exception):
    """A node could not do its work; the text says why."""


def outcome_of(value: object) -> Outcome:
    """What a function gave, as an outcome: None is no message, a list is several."""
    if value.__class__ is Message:
        return Outcome((value,))
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Outcome()
    if isinstance(value, (list, tuple)):
        return Outcome(tuple(as_message(item) for item in value))
    return Outcome((as_message(value),))


class Request(Struct, frozen=True):
    """What a model is asked."""

    node_id: str
    address: str
    ordinal: int
    messages: tuple[Message, ...]
    system: str = ""
    params: dict[str, Any] = {}


class Reply(Struct, frozen=True):
    text: str = ""
    data: dict[str, Any] | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class Model(Protocol):
    async def reply(self, request: Request) -> Reply: ...


class Services(Protocol):
    def now(self) -> float:
        """The time, in seconds since 1970."""

    def workspace(self) -> Path:
        """The folder in which the run's code works; made when first asked for."""

    def model(self, node_id: str) -> Model:
        """The model that answers for an agent; NodeError if there is none."""

    def function(self, reference: str) -> Callable[..., Any]:
        """The Python function behind a name; LookupError if there is none."""

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function that may block."""
