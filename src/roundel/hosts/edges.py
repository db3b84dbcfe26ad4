"""Functions of users on edges: conditions and processors that the kernel does not call itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from roundel.hosts.lent import Lent, told
from roundel.kernel.commands import Consult
from roundel.kernel.facts import Verdict
from roundel.kernel.walk import delivered
from roundel.nodes.services import NodeError
from roundel.plan.graph import EdgePlan
from roundel.workflow.message import Message
from roundel.workflow.processor import processed


async def consulted(consult: Consult, edges: Sequence[EdgePlan], lent: Lent) -> tuple[Verdict, ...]:
    """What the functions say; NodeError if one of them fails."""
    by_index = {edge.index: edge for edge in edges}
    verdicts = []
    for index, number in consult.questions:
        edge = by_index[index]
        try:
            verdicts.append(await _verdict(edge, number, consult.messages[number], lent))
        except Exception as error:
            raise NodeError(f"a function on {edge.edge} failed: {told(error)}") from error
    return tuple(verdicts)


async def _verdict(edge: EdgePlan, number: int, message: Message, lent: Lent) -> Verdict:
    if edge.asks_condition is not None and not await _call(edge.asks_condition, message, lent):
        return Verdict(edge.index, number, False)
    if edge.asks_processor is None or not edge.carry:
        return Verdict(edge.index, number, True)
    carried = delivered(edge, message)
    result = processed(carried, await _call(edge.asks_processor, carried, lent))
    return Verdict(edge.index, number, True, result)


async def _call(function: Callable[..., Any], message: Message, lent: Lent) -> Any:
    arguments: tuple[Any, ...] = (message,)
    if "workspace" in inspect.signature(function).parameters:
        arguments = (message, lent.workspace())
    return await lent.call(function, *arguments)
