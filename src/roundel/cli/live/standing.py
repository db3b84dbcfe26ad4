"""How a run stands that goes on: its loops and nodes at work, read from its state instead of its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from roundel.kernel.activation import Activation
from roundel.kernel.commands import Ask
from roundel.kernel.execution import Execution, Talk
from roundel.kernel.state import Run


class Round(NamedTuple):
    """A loop at work."""

    loop: str
    address: str
    number: int


class Standing(NamedTuple):
    loops: list[Round]
    at_work: list[str]
    asked: list[str]


def standing(run: Run) -> Standing:
    at_work = [around.address for call in run.calls.values() for around in _around(call)]
    asked = [address for address, call in run.calls.items() if isinstance(call.command, Ask)]
    loops = {loop.address: loop for call in run.calls.values() for loop in _loops(call)}
    # A loop inside another has the longer address, and is shown below it.
    return Standing(sorted(loops.values(), key=lambda loop: len(loop.address)), at_work, asked)


def _around(call: Execution) -> Iterator[Execution]:
    """The node, and those whose graphs it is in, from the inside out."""
    node: Execution | None = call.owner.execution if isinstance(call.owner, Talk) else call
    while node is not None:
        yield node
        node = node.activation.instance.caller or _performer(node)


def _performer(node: Execution) -> Execution | None:
    performance = node.activation.instance.performance
    return None if performance is None else performance.execution


def _loops(call: Execution) -> Iterator[Round]:
    for node in _around(call):
        activation: Activation | None = node.activation
        while activation is not None and activation.parent is not None:
            yield Round(activation.name, activation.address, activation.round)
            activation = activation.parent
        instance = node.activation.instance
        performance, turn = instance.performance, instance.turn
        if performance is not None and turn is not None and performance.execution.node.kind.loops:
            yield Round(performance.execution.node.id, f"{performance.stem}{turn.round}]", turn.round)
