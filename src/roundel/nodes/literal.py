"""`literal`: sends the same message each time it runs. The shortest example of a node type."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    content: str
    role: Literal["user", "assistant"] = "user"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "content": Field(
                    en=("Content", "The text of the message; not empty."),
                    zh=("内容", "节点输出的文本，不可为空。"),
                    widget="textarea",
                ),
                "role": Field(
                    en=("Role", "The role of its message, which edges do not change."),
                    zh=("角色", "消息的角色，经过边时保持不变。"),
                    choices={"user": ("User", "用户"), "assistant": ("Assistant", "助手")},
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if not self.content.strip():
            report.error("empty-content", "the 'content' of a literal is empty", at)
            return False
        return True


def prepare(node: Node, _services: Services) -> Behaviour:
    config: Config = node.config
    outcome = Outcome((Message(config.content, config.role, preserve_role=True),))
    return lambda _call: outcome


EXAMPLE = """
- id: Task
  type: literal
  config: {content: Answer in one sentence.}
"""

NODE = NodeType(
    "literal",
    Config,
    "Sends the same message each time it runs, regardless of its queue.",
    prepare,
    title="Literal",
    zh=("固定文本", "每次运行都输出同一条消息，与队列内容无关。"),
    example=EXAMPLE,
    pure=True,
    single=lambda _config: True,
)
