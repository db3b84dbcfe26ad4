"""Middleware: code around the nodes of a run that observes, changes the output of a node, or forbids it.

Middleware is called in the order in which it was given, before a node and after it. Observing costs a
run nothing. What `before` and `after` decide is a fact of the run, like the result of a node: the
journal stores it before anything follows from it, and a resumed run does not ask again. Only a call that
a crash interrupted is repeated, with the same key. Rejected: a wrapper around the behaviour of each
node, which would not see people, subgraphs and loops, and would repeat its effects after a crash
(decision 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roundel.kernel.events import Event
from roundel.kernel.payloads import Custom
from roundel.workflow.graph import Node
from roundel.workflow.message import Message


class Veto(Exception):
    """Raised by middleware to forbid a node to run, or its output to be used. The node fails with this
    text."""


class Visit:
    """One execution of a node, as middleware sees it. Hosts create it for each call of `before` and
    `after`."""

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
        """How many times the node has run before in this run."""
        self.round = round
        """The round of the innermost loop around the node; 0 outside of any loop."""
        self.key = key
        """The idempotency key: the same if this call is repeated after a crash."""
        self.events: list[tuple[str, dict[str, Any]]] = []

    def tell(self, event: str, **data: Any) -> None:
        """Emits the event `custom` with this name and these fields, at the address of the node. It is part of
        the stored decision."""
        self.events.append((Custom.event, {"name": event, "data": data}))


class Middleware:
    """The base class of middleware: override what is needed. `before` and `after` may be coroutines;
    plain functions run in a thread."""

    def applies(self, node: Node) -> bool:
        """Whether `before` and `after` are called for a node. It is called once for each node, when the
        run is prepared; nodes to which no middleware applies cost nothing."""
        return True

    def begin(self, run_id: str, workflow: str, nodes: Sequence[Node]) -> object:
        """A run starts or resumes in this process: its id, the id of its workflow, and all of its
        nodes."""

    def before(self, visit: Visit) -> Any:
        """Called before a node. Raises Veto to forbid it to run."""

    def after(self, visit: Visit, messages: tuple[Message, ...]) -> Any:
        """Called with the output of a node. Returns another output (messages, texts or mappings), or
        None to leave it unchanged. Raises Veto to forbid its use; the usage of the node counts all the
        same."""

    def observe(self, event: Event) -> object:
        """Gets every event of the run, after the journal has stored the facts that it follows from."""

    async def close(self, run_id: str) -> None:
        """This process stops working on the run: the run has ended or waits, or its host has failed."""
