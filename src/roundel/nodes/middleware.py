"""Code around the nodes of a run. It may watch, change what a node gives, or refuse.

Middleware is called in the order in which it was given, before a node as after it. To watch costs a run
nothing. What `before` and `after` decide is a fact of the run like what a node gave: it is in the journal
before anything follows from it, and is not decided anew when the run goes on after a crash. Only the call
that a crash cut off is made again, with the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roundel.kernel.events import Event
from roundel.workflow.graph import Node
from roundel.workflow.message import Message


class Veto(Exception):
    """The node is not to run, or what it gave is not to be used; the text says why."""


class Visit:
    """A node at work, as middleware sees it."""

    __slots__ = ("address", "events", "inputs", "key", "node", "ordinal", "round", "run_id")

    def __init__(
        self,
        run_id: str,
        node: Node,
        address: str,
        inputs: tuple[Message, ...],
        ordinal: int,
        round: int,
        key: str,
    ) -> None:
        self.run_id = run_id
        self.node = node
        self.address = address
        self.inputs = inputs
        self.ordinal = ordinal
        """How many times the node has run before, in this run."""
        self.round = round
        """The round of the innermost loop around the node; 0 outside of any loop."""
        self.key = key
        """The same each time one and the same visit is made again."""
        self.events: list[tuple[str, dict[str, Any]]] = []

    def tell(self, event: str, **data: Any) -> None:
        """Shows one more event at the node's address."""
        self.events.append((event, data))


class Middleware:
    """Override what is needed. `before` and `after` may be coroutines; other functions have a thread."""

    def applies(self, node: Node) -> bool:
        """Whether `before` and `after` are called for a node; asked once, when the run is made ready."""
        return True

    def begin(self, run_id: str, workflow: str, nodes: Sequence[Node]) -> object:
        """A run begins here, or goes on here: its id, that of its workflow, and all of its nodes."""

    def before(self, visit: Visit) -> Any:
        """Raises Veto if the node is not to run."""

    def after(self, visit: Visit, messages: tuple[Message, ...]) -> Any:
        """What the node is to have given instead: messages, texts or mappings; None leaves it as it is.

        Raises Veto if what it gave is not to be used."""

    def observe(self, event: Event) -> object:
        """Sees every event of the run, once it is safe."""

    async def close(self, run_id: str) -> None:
        """Nobody is at work on the run here any more: it has come to rest, or its host has failed."""
