"""`human`: asks a person, and waits for as long as it takes."""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.graph import Node
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    description: str = ""
    """What the person is asked."""


def prepare(_node: Node, _services: Services) -> Behaviour:
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is answered by a person, not called")

    return behave


NODE = NodeType(
    "human",
    Config,
    "Asks a person and waits for the answer.",
    prepare,
    asks=True,
    single=lambda _config: True,
)
