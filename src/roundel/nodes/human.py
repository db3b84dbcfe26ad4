"""`human`: asks a person, and waits for the answer however long it takes.

A run that waits for people alone needs no process: it is stored as `waiting`, and the answer resumes it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.kernel.lifecycle import TIMEOUT_PORT
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import Duration, child
from roundel.workflow.graph import Node
from roundel.workflow.message import Message, data_text
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    description: str = ""
    """The question to the person."""
    timeout: Duration | None = None
    """How long the person has to answer; None is for ever."""
    default: Any = None
    """The answer if there is none by then: text, or a mapping that becomes the data of the answer."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "description": Field(
                    en=(
                        "Question",
                        "The question that the person sees, together with the messages in the node's queue.",
                    ),
                    zh=("问题", "向人显示的问题，与节点队列中的消息一同展示。"),
                    widget="textarea",
                ),
                "timeout": Field(
                    en=(
                        "Time to answer",
                        "How long the person has to answer: seconds, or a text such as `30m`, `2h` or `3d`.",
                    ),
                    zh=("答复期限", "人须在多久之内答复：秒数，或 `30m`、`2h`、`3d` 这样的文本。"),
                    widget="duration",
                    unit="seconds",
                    see="nodes.md#deadlines",
                ),
                "default": Field(
                    en=(
                        "Default answer",
                        "The answer if no one answers in time: a text, or a mapping that becomes the "
                        "`data` of the answer.",
                    ),
                    zh=("默认答复", "逾期未答复时采用的答复：一段文本，或作为答复 `data` 的映射。"),
                    kind=str | dict[str, Any],
                    see="nodes.md#deadlines",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.default is None:
            return True
        if not isinstance(self.default, (str, dict)):
            message = f"'default' of a human node must be text or a mapping, not {self.default!r:.60}"
            report.error("wrong-type", message, child(at, "default"), "put it in quotes")
            return False
        if self.timeout is None:
            hint = "say how long the person has to answer, for example `timeout: 2h`"
            report.warning(
                "without-effect", "'default' has no effect without 'timeout'", child(at, "default"), hint
            )
        return True

    @property
    def default_answer(self) -> Message | None:
        """The answer that counts if there is none in time."""
        if self.default is None:
            return None
        if isinstance(self.default, str):
            return Message(self.default, "user")
        return Message(data_text(self.default), "user", self.default)


def prepare(_node: Node, _services: Services) -> Behaviour:
    # `asks=True` makes the kernel send an `Ask` instead of a `Call`, so this is never executed.
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is answered by a person, not called")

    return behave


def _explicit_ports(config: Config) -> tuple[str, ...]:
    # With a default there is always an answer, so that nothing leaves by this port.
    return (TIMEOUT_PORT,) if config.timeout is not None and config.default is None else ()


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
    explicit_ports=_explicit_ports,
    single=lambda _config: True,
)
