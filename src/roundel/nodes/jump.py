"""`break` and `continue`: end the loop agent or debate around them, or only its current iteration.

A `continue` ends the round of a loop agent, and the turn of a participant in a debate. The node only
states the jump in its outcome; the kernel cancels whatever else is in flight in the body
(kernel/composite.py).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services, outcome_of
from roundel.workflow.description import Description
from roundel.workflow.graph import Node
from roundel.workflow.node_type import EXIT_PORT, NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    """No settings: the last message of the queue is the output of the round."""

    @staticmethod
    def __describe__() -> Description:
        return Description()


def prepare(node: Node, _services: Services) -> Behaviour:
    jump: Literal["break", "continue"] = "break" if node.type == "break" else "continue"

    def behave(call: Call) -> Outcome:
        return Outcome(call.inputs[-1:], jump=jump)

    return behave


def break_loop(result: object = None, reason: str = "") -> Outcome:
    """For the function of a node, or a tool: ends the loop around the node. If an edge with `port: exit`
    leads from it, `result` leaves by it and no other edge fires; otherwise the loop agent or debate
    around the node ends, and `result` is the output of its last round."""
    return Outcome(outcome_of(result).messages, EXIT_PORT, jump="break", reason=reason)


def continue_loop(value: object = None) -> Outcome:
    """For the function of a node: ends the round of the loop agent around it, or the turn in a debate.
    `value` is the output of that round or turn."""
    return Outcome(outcome_of(value).messages, jump="continue")


# The edges of these nodes never fire: the run continues in the loop agent or debate around them.
BREAK = NodeType(
    "break",
    Config,
    "Ends the loop agent or debate around it. Its last message is the output of the round.",
    prepare,
    title="Break",
    zh=("跳出", "结束外层的循环智能体或辩论；其最后一条消息即为该轮的输出。"),
    example="""
- {id: Enough, type: break}
""",
    pure=True,
    silent=True,
)
CONTINUE = NodeType(
    "continue",
    Config,
    "Ends the round of the loop agent around it, or the turn in a debate. Its last message is the output.",
    prepare,
    title="Continue",
    zh=("继续", "结束外层循环智能体的当前轮次，或辩论中的当前发言；其最后一条消息即为输出。"),
    example="""
- {id: Next, type: continue}
""",
    pure=True,
    silent=True,
)
NODES = (BREAK, CONTINUE)
