"""`literal`: says the same each time it runs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    content: str
    role: Literal["user", "assistant"] = "user"

    def __check__(self, at: Located, report: Report) -> bool:
        if not self.content.strip():
            report.error("empty-content", "the 'content' of a literal is empty", at)
            return False
        return True


def prepare(node: Node, _services: Services) -> Behaviour:
    config: Config = node.config
    outcome = Outcome((Message(config.content, config.role, preserve_role=True),))
    return lambda _call: outcome


NODE = NodeType(
    "literal",
    Config,
    "Says the same each time it runs.",
    prepare,
    pure=True,
    single=lambda _config: True,
)
