"""`loop_counter`: gives no output until it was triggered often enough, then emits a message, which ends
the loop.

It is wired beside the back edge of the loop: one edge leads to it, one from it back into the loop, so
that it belongs to the loop, and one out of the loop.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.graph import Node
from roundel.workflow.message import NOTICE, Message
from roundel.workflow.node_type import Bound, NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    max_iterations: Annotated[int, Meta(ge=1)] = 10
    reset_on_emit: bool = True
    message: str = ""
    scope: Literal["run", "loop"] = "run"
    """Whether the count continues when the loop is entered again (`run`), or starts at 0 (`loop`)."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "max_iterations": Field(
                    en=("Triggers", "How many times it must be triggered before it emits its message."),
                    zh=("触发次数", "被触发多少次之后才输出消息。"),
                    unit="rounds",
                ),
                "reset_on_emit": Field(
                    en=(
                        "Start again",
                        "Whether the count restarts from 0 after the message. If not, every later "
                        "trigger emits the message again.",
                    ),
                    zh=("重新计数", "输出消息之后从 0 重新计数；否则之后每次触发都会输出。"),
                ),
                "message": Field(
                    en=("Message", "The text of its message; `Loop limit reached (N)` if not set."),
                    zh=("消息", "输出消息的文本；不填则为 `Loop limit reached (N)`。"),
                ),
                "scope": Field(
                    en=(
                        "Scope",
                        "Whether the count continues or restarts from 0 when the loop is entered again.",
                    ),
                    zh=("计数范围", "再次进入循环时，是继续累计还是从 0 开始。"),
                    choices={
                        "run": ("The whole run", "整个运行"),
                        "loop": ("Each entry of the loop", "每次进入循环"),
                    },
                ),
            },
        )


def prepare(node: Node, _services: Services) -> Behaviour:
    config: Config = node.config
    limit, reset = config.max_iterations, config.reset_on_emit
    text = config.message or f"Loop limit reached ({limit})"
    metadata = None if config.message else {NOTICE: True}

    def behave(call: Call) -> Outcome:
        count = (call.state or 0) + 1
        report = {"count": count, "max_iterations": limit}
        if count < limit:
            return Outcome(state=count, report=report)
        return Outcome(
            (Message(text, "assistant", report, metadata),),
            state=0 if reset else count,
            report=report,
            reason="max_iterations_reached",
        )

    return behave


EXAMPLE = """
- id: Guard
  type: loop_counter
  config: {max_iterations: 5, message: Five drafts are enough.}
"""

NODE = NodeType(
    "loop_counter",
    Config,
    "Ends a loop after a number of rounds.",
    prepare,
    title="Loop counter",
    zh=("循环计数器", "在指定轮次之后结束循环。"),
    example=EXAMPLE,
    pure=True,
    guard=True,
    bound=lambda config: Bound(rounds=config.max_iterations),
    with_rounds=lambda config, rounds: replace(config, max_iterations=rounds),
    silent=True,
    single=lambda _config: True,
    forgets=lambda config: bool(config.scope == "loop"),
    state=int,
)
