"""`human`: asks a person, and waits for the answer however long it takes.

A run that waits for people alone needs no process: it is stored as `waiting`, and the answer resumes it.
"""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.graph import Node
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    description: str = ""
    """The question to the person."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "description": Field(
                    en=(
                        "Question",
                        "The question that the person sees, with the messages of the node's queue.",
                    ),
                    zh=("问题", "向人显示的问题，与节点队列中的消息一同展示。"),
                    widget="textarea",
                ),
            },
        )


def prepare(_node: Node, _services: Services) -> Behaviour:
    # `asks=True` makes the kernel send an `Ask` instead of a `Call`, so this is never executed.
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is answered by a person, not called")

    return behave


EXAMPLE = """
- id: Approval
  type: human
  config: {description: "Shall we send it?"}
"""

NODE = NodeType(
    "human",
    Config,
    "Asks a person and waits for the answer.",
    prepare,
    title="Person",
    zh=("人工", "向人提问，并等待答复。"),
    example=EXAMPLE,
    asks=True,
    single=lambda _config: True,
)
