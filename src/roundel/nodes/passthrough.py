"""`passthrough`: sends its input on, unchanged."""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    only_last_message: bool = True

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "only_last_message": Field(
                    en=(
                        "Only the last message",
                        "Whether to forward only the last message in the queue.",
                    ),
                    zh=("仅最后一条", "只传递队列中的最后一条消息，而不是全部。"),
                ),
            },
        )


def prepare(node: Node, _services: Services) -> Behaviour:
    only_last = node.config.only_last_message
    empty = Outcome((Message(),))

    def behave(call: Call) -> Outcome:
        inputs = call.inputs
        if not inputs:
            return empty
        return Outcome(inputs[-1:] if only_last else inputs)

    return behave


EXAMPLE = """
- id: Final
  type: passthrough
  config: {only_last_message: false}
"""

NODE = NodeType(
    "passthrough",
    Config,
    "Forwards the messages in its queue.",
    prepare,
    title="Pass-through",
    zh=("直通", "原样传递队列中的消息。"),
    example=EXAMPLE,
    pure=True,
    single=lambda config: bool(config.only_last_message),
)
