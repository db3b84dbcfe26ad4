"""Evaluates users' functions on edges: conditions and processors that the kernel does not call itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roundel.hosts.services import NodeServices, describe_error
from roundel.kernel.commands import Consult
from roundel.kernel.facts import Verdict
from roundel.kernel.walk import delivered
from roundel.nodes.services import NodeError
from roundel.plan.graph import EdgePlan
from roundel.workflow.functions import Function, Kind, guarded
from roundel.workflow.message import Message
from roundel.workflow.processor import processed

Reference = tuple[Kind, str]
"""A function by its kind and name."""
EdgeFunctions = Mapping[Reference, Function]


def references(edge: EdgePlan) -> Iterator[Reference]:
    """The functions that the host calls for an edge."""
    if edge.asks_condition is not None:
        yield "condition", edge.asks_condition
    if edge.asks_processor is not None:
        yield "processor", edge.asks_processor


class EdgeEvaluator:
    """Calls the functions on the edges of one plan."""

    def __init__(self, functions: EdgeFunctions, services: NodeServices) -> None:
        self._functions, self._services = functions, services

    def are_pure(self, edges: Sequence[EdgePlan]) -> bool:
        """Whether all functions on these edges depend on their arguments alone."""
        return all(self._functions[reference].pure for edge in edges for reference in references(edge))

    async def evaluate(self, consult: Consult, edges: Sequence[EdgePlan]) -> tuple[Verdict, ...]:
        """What the functions return; NodeError if one of them fails. Waits for nothing if all are pure."""
        by_index = {edge.index: edge for edge in edges}
        verdicts = []
        for index, number in consult.questions:
            edge = by_index[index]
            try:
                verdicts.append(await self._verdict(edge, number, consult.messages[number]))
            except Exception as error:
                raise NodeError(f"a function on {edge.edge} failed: {describe_error(error)}") from error
        return tuple(verdicts)

    async def _verdict(self, edge: EdgePlan, number: int, message: Message) -> Verdict:
        condition = edge.asks_condition
        if condition is not None and not await self._call(self._functions["condition", condition], message):
            return Verdict(edge.index, number, False)
        if edge.asks_processor is None or not edge.carry:
            return Verdict(edge.index, number, True)
        carried = delivered(edge, message)
        returned = await self._call(self._functions["processor", edge.asks_processor], carried)
        return Verdict(edge.index, number, True, processed(carried, returned))

    async def _call(self, function: Function, message: Message) -> Any:
        if function.pure:
            return guarded(function.call)(message)
        arguments: tuple[Any, ...] = (message,)
        if "workspace" in inspect.signature(function.call).parameters:
            arguments = (message, self._services.workspace())
        return await self._services.call(function.call, *arguments)
