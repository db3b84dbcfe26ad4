"""Nodes that do nothing but conduct: their bodies run in turns, and nobody calls the node itself."""

from __future__ import annotations

from typing import Any

from roundel.kernel.commands import Call
from roundel.kernel.conduct import Move, Turn
from roundel.kernel.decisions import Decide, decide_live
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.graph import Node


class ParticipantTurns:
    """A conductor of turns and nothing else: it lets failures pass, and has nothing to ask."""

    decide: Decide = staticmethod(decide_live)

    def catches(self, _turn: Turn) -> bool:
        return False

    def failed(self, _turn: Turn, error: str) -> Move:
        raise AssertionError(error)

    def told(self, _answer: Any) -> Move:
        raise AssertionError("nothing was asked")

    def unanswered(self, error: str) -> Move:
        raise AssertionError(error)


def prepare_composite(node: Node, _services: Services) -> Behaviour:
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is a {node.type}, not called as a whole")

    return behave
