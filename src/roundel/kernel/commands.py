"""What the kernel asks of a host."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.codec import Codec, typed
from roundel.plan.graph import Plan
from roundel.workflow.message import Message


class Call(Struct, frozen=True, gc=False, tag="call"):
    """Run a node's behaviour; answer with Finished or Failed."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    state: Any
    ordinal: int
    """How many times this node has run before, in this run."""
    round: int
    """The round of the innermost loop around the node; 0 outside of any loop."""


class Ask(Struct, frozen=True, tag="ask"):
    """Ask a person; answer with Answered, now or in a month."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    ordinal: int
    about: dict[str, Any] | None = None
    """What is shown, if the question is not the node's own."""


class EvaluateEdges(Struct, frozen=True, tag="evaluate_edges"):
    """Ask the functions on a node's edges about its messages; answer with Consulted or Failed."""

    address: str
    site: int
    messages: tuple[Message, ...]
    pairs: tuple[tuple[int, int], ...]
    """Pairs of an edge and a message."""


class Intercept(Struct, frozen=True, tag="intercept"):
    """Ask the middleware about a node; answer with Reviewed, or with Failed if it refuses."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    ordinal: int
    round: int
    messages: tuple[Message, ...] | None = None
    """What the node gave; None before it runs."""


class Cancel(Struct, frozen=True, tag="cancel"):
    """Nobody waits for this any more."""

    address: str


Command = Call | Ask | EvaluateEdges | Intercept | Cancel
COMMANDS: Codec[Command] = Codec("a command", Command)
"""For hosts in other processes."""


def encode_command(command: Command) -> bytes:
    return COMMANDS.encode_versioned(command)


def decode_command(body: bytes, plan: Plan) -> Command:
    """A command of a run of this plan, whose node types know the types of states; CodecError."""
    command = COMMANDS.decode_versioned(body)
    if not isinstance(command, Call):
        return command
    node = plan.sites[command.site]
    # A node that talks or conducts has no state of its own: what its calls carry is a request.
    kind = node.kind.request if node.has_tool_loop or node.bodies else node.kind.state
    return replace(command, state=typed(kind, command.state))
