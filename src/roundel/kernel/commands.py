"""Commands: what the kernel asks a host to do.

A host executes a command and answers with a fact for the same address (facts.py). At most one command is
in flight at an address, so the address identifies it, and together with the run it is the idempotency
key of the call. A command whose answer is missing after a crash is executed again under the same
address.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.codec import Codec, typed
from roundel.plan.graph import Plan
from roundel.workflow.message import Message


class CallContext(Struct, frozen=True, omit_defaults=True):
    """How the input of an agent was composed (context.py)."""

    task: str = ""
    """The text of the task: of the innermost loop, or of the graph."""
    previous: str = ""
    """The agent's last answer in this loop."""
    new: int = 0
    """How many of the last messages of the input are new."""
    head: int = 0
    """How many of the first messages are the task."""


class Call(Struct, frozen=True, gc=False, tag="call"):
    """Run the behaviour of a node; answered by Finished or Failed."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    state: Any
    ordinal: int
    """The number of earlier calls of this node in this run."""
    round: int
    """The round of the innermost loop around the node; 0 outside of any loop."""
    context: CallContext | None = None
    """None if the input is the queue of the node."""
    carried: Message | None = None
    """The last message, in this entry of the loop, of the node that this one carries messages of
    (`NodeType.carries`); None if there is none."""
    heard: tuple[Message, ...] | None = None
    """What the agents and people of the loop said last in this round, each with its speaker as source
    (`NodeType.hears`); None for other nodes, and if fewer than two of them speak there."""
    number: int = 0
    """The number of the call among the model calls of one execution of the node, from 1; 0 if it is none."""


class Ask(Struct, frozen=True, tag="ask"):
    """Ask a person; answered by Answered, now or in a month, or by Expired at its deadline."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    ordinal: int
    about: dict[str, Any] | None = None
    """What the person is shown, if the question comes from a tool loop and not from the node's
    config."""
    deadline: float | None = None
    """The time from which on an answer does not count any more; then the host reports Expired."""
    timeout: float = 0
    """The seconds that the person had when the question was asked."""
    asked: float = 0
    """When it was asked."""


class EvaluateEdges(Struct, frozen=True, tag="evaluate_edges"):
    """Call the functions of users on the edges of a node; answered by EdgesEvaluated or Failed."""

    address: str
    site: int
    messages: tuple[Message, ...]
    pairs: tuple[tuple[int, int], ...]
    """Pairs of an edge and the number of a message."""


class Intercept(Struct, frozen=True, tag="intercept"):
    """Ask middleware about a node; answered by Intercepted, or by Failed if it rejects."""

    address: str
    site: int
    inputs: tuple[Message, ...]
    ordinal: int
    round: int
    messages: tuple[Message, ...] | None = None
    """The output of the node; None for the intercept before it runs."""


class Cancel(Struct, frozen=True, tag="cancel"):
    """The result of the command at this address is not needed any more. No fact answers it."""

    address: str


def subject_of(ask: Ask, plan: Plan) -> dict[str, Any]:
    """What a person is asked: `prompt`, and for a tool approval `tool`. A question that does not come from a
    tool loop is the description of its node."""
    return ask.about or {"prompt": getattr(plan.sites[ask.site].config, "description", "")}


Command = Call | Ask | EvaluateEdges | Intercept | Cancel
COMMANDS: Codec[Command] = Codec("a command", Command)
"""For hosts in other processes."""


def encode_command(command: Command) -> bytes:
    return COMMANDS.encode_versioned(command)


def decode_command(body: bytes, plan: Plan) -> Command:
    """Decodes a command of a run of this plan; CodecError."""
    command = COMMANDS.decode_versioned(body)
    if not isinstance(command, Call):
        return command
    node = plan.sites[command.site]
    # The calls of a conversation or a composite node carry a request in `state`, not the state of the node.
    kind = node.kind.state if node.kind.request is None else node.kind.request
    if command.state is None:
        return command
    return replace(command, state=typed(kind, command.state))
