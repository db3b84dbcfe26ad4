"""`loop_timer`: silent until enough time has gone by since it was first triggered, then it speaks.

Whether it spoke goes to the journal with the rest of what happened, so a replay decides the same.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import Bound, NodeType

_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}


class Config(Struct, frozen=True, omit_defaults=True):
    max_duration: Annotated[float, Meta(gt=0)] = 60
    duration_unit: Literal["seconds", "minutes", "hours"] = "seconds"
    reset_on_emit: bool = True
    message: str = ""
    passthrough: bool = False
    """Below the limit hand the input on to the targets inside the loop, instead of silence."""


class Timing(Struct, frozen=True, omit_defaults=True):
    """What the node keeps from one trigger to the next."""

    since: float | None = None
    """When it was first triggered; None after it spoke and starts anew."""


def prepare(node: Node, services: Services) -> Behaviour:
    config: Config = node.config
    limit = config.max_duration * _SECONDS[config.duration_unit]
    text = config.message or f"Time limit reached ({config.max_duration:g} {config.duration_unit})"

    def behave(call: Call) -> Outcome:
        now = services.now()
        timing: Timing = call.state or Timing()
        since = now if timing.since is None else timing.since
        elapsed = max(0.0, now - since)
        report = {"elapsed": round(elapsed, 3), "limit": limit}
        if elapsed < limit or timing.since is None:
            messages = call.inputs if config.passthrough else ()
            return Outcome(messages, state=Timing(since), report=report, stay=True)
        after = None if config.reset_on_emit else since
        return Outcome(
            (Message(text, "assistant", report),),
            state=Timing(after),
            report=report,
            reason="max_duration_reached",
        )

    return behave


NODE = NodeType(
    "loop_timer",
    Config,
    "Ends a loop after some time.",
    prepare,
    pure=True,
    guard=True,
    bound=lambda config: Bound(seconds=config.max_duration * _SECONDS[config.duration_unit]),
    silent=True,
    state=Timing,
)
