"""`loop_counter`: silent until it has been triggered so many times, then it speaks, which ends the loop.

It is wired beside the loop's own back edge: one edge leads to it, one from it back into the loop (so that
it belongs to the loop) and one out of it.
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


class Config(Struct, frozen=True, omit_defaults=True):
    max_iterations: Annotated[int, Meta(ge=1)] = 10
    reset_on_emit: bool = True
    message: str = ""
    scope: Literal["run", "loop"] = "run"
    """`run` counts on when the loop is entered again, `loop` starts anew."""


def prepare(node: Node, _services: Services) -> Behaviour:
    config: Config = node.config
    limit, reset = config.max_iterations, config.reset_on_emit
    text = config.message or f"Loop limit reached ({limit})"

    def behave(call: Call) -> Outcome:
        count = (call.state or 0) + 1
        report = {"count": count, "max_iterations": limit}
        if count < limit:
            return Outcome(state=count, report=report)
        return Outcome(
            (Message(text, "assistant", report),),
            state=0 if reset else count,
            report=report,
            reason="max_iterations_reached",
        )

    return behave


NODE = NodeType(
    "loop_counter",
    Config,
    "Ends a loop after a number of rounds.",
    prepare,
    pure=True,
    guard=True,
    bound=lambda config: Bound(rounds=config.max_iterations),
    silent=True,
    single=lambda _config: True,
    forgets=lambda config: bool(config.scope == "loop"),
    state=int,
)
