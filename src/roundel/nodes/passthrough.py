"""`passthrough`: hands on what it got."""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    only_last_message: bool = True


def prepare(node: Node, _services: Services) -> Behaviour:
    only_last = node.config.only_last_message
    nothing = Outcome((Message(),))

    def behave(call: Call) -> Outcome:
        inputs = call.inputs
        if not inputs:
            return nothing
        return Outcome(inputs[-1:] if only_last else inputs)

    return behave


NODE = NodeType(
    "passthrough",
    Config,
    "Hands on what it got.",
    prepare,
    pure=True,
    single=lambda config: bool(config.only_last_message),
)
