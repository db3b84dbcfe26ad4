"""`break` and `continue`: end the loop agent or debate around them, or just what it has at work.

A `continue` ends the round of a loop agent, and the turn of a participant in a debate.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services, outcome_of
from roundel.workflow.graph import Node
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True, omit_defaults=True):
    """Nothing to set: what it got last is what the round gives."""


def prepare(node: Node, _services: Services) -> Behaviour:
    jump: Literal["break", "continue"] = "break" if node.type == "break" else "continue"

    def behave(call: Call) -> Outcome:
        return Outcome(call.inputs[-1:], jump=jump)

    return behave


def break_loop(value: object = None) -> Outcome:
    """For a function of a node: ends the loop agent or debate around it; its last round gives `value`."""
    return Outcome(outcome_of(value).messages, jump="break")


def continue_loop(value: object = None) -> Outcome:
    """For a function of a node: ends the round, or the turn in a debate, around it, which gives `value`."""
    return Outcome(outcome_of(value).messages, jump="continue")


ENDS_LOOP = "Ends the loop agent or debate around it."
ENDS_ROUND = "Ends the round of the loop agent around it; in a debate, the turn of the participant."
# Its edges never fire: whatever stands around it goes on elsewhere.
BREAK = NodeType("break", Config, ENDS_LOOP, prepare, pure=True, silent=True)
CONTINUE = NodeType("continue", Config, ENDS_ROUND, prepare, pure=True, silent=True)
