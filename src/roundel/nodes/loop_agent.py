"""`loop_agent`: repeats one body, a node or a graph, under a strategy."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.conductors import ArrayRounds, CountRounds, CustomRounds, Rounds, UntilRounds
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.nodes.strategies import Array, Count, Custom, Strategy, Until
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Place, Reader
from roundel.workflow.graph import Graph, Node
from roundel.workflow.loader import WorkflowReader
from roundel.workflow.message import Message, as_message
from roundel.workflow.node_type import NodeType


class Body(Struct, frozen=True):
    """Exactly one node, or one graph."""

    graph: Graph

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, WorkflowReader)
        value = at.value
        if isinstance(value, list):
            if len(value) != 1:
                message = f"a loop agent repeats exactly one body, not {len(value)}"
                reader.report.error("one-body", message, at, "put several nodes into one graph")
                return INVALID
            return cls.__read__(value[0], reader)
        graph = read_body(at, reader)
        return INVALID if graph is INVALID else cls(graph)

    @classmethod
    def __schema__(cls, _maker: Any) -> dict[str, Any]:
        return {"anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/graph"}]}


def read_body(at: Located, reader: WorkflowReader) -> Any:
    """A graph, or a node as a graph of its own."""
    if isinstance(at.value, dict) and "nodes" in at.value:
        return reader.read_graph(at)
    node = reader.read(at, Node, "the body")
    if node is INVALID:
        return INVALID
    return Graph((node,), start=(node.id,), end=(node.id,), at=Place(reader.report.file, at.line, at.column))


class Config(Struct, frozen=True, omit_defaults=True):
    strategy: Strategy | None = None
    body: Body | None = None
    context: Literal["fresh", "carry"] = "fresh"
    """Whether a round gets only what the round before gave, or all that was said so far."""

    def __check__(self, at: Located, report: Report) -> bool:
        if self.body is None:
            report.error("one-body", "the loop agent has no body", at, "give it one node, or one graph")
        if self.strategy is None:
            hint = "write strategy: {mode: count, max: 3}, or condition, array, custom"
            report.error("no-strategy", "the loop agent has no strategy", at, hint)
        return self.body is not None and self.strategy is not None


def _bodies(config: Config) -> tuple[Graph, ...]:
    assert config.body is not None
    return (config.body.graph,)


def _conduct(config: Config) -> Rounds:
    assert config.strategy is not None
    kind, carry = config.strategy.kind, config.context == "carry"
    if isinstance(kind, Count):
        return CountRounds(kind, carry)
    if isinstance(kind, Until):
        return UntilRounds(kind, carry)
    return ArrayRounds(kind, carry) if isinstance(kind, Array) else CustomRounds(kind, carry)


def prepare(node: Node, services: Services) -> Behaviour:
    """Called for what only a user's own code can answer."""
    config: Config = node.config
    assert config.strategy is not None
    kind = config.strategy.kind
    if isinstance(kind, Custom):
        return _dispatching(services.function(kind.use), services)
    asked = kind.until if isinstance(kind, Until) else kind.items if isinstance(kind, Array) else None
    if asked is not None and asked.function:
        return _asking(services.function(asked.function), services, predicate=isinstance(kind, Until))

    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} asks nobody")

    return behave


async def _called(function: Callable[..., Any], services: Services, *arguments: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    return await services.in_thread(function, *arguments)


def _asking(function: Callable[..., Any], services: Services, predicate: bool) -> Behaviour:
    async def ask(call: Call) -> Outcome:
        answer = await _called(function, services, call.inputs)
        return Outcome(state=bool(answer) if predicate else _listed(answer))

    return ask


def _listed(answer: Any) -> Any:
    return list(answer) if isinstance(answer, (list, tuple)) else None


def _dispatching(made: Any, services: Services) -> Behaviour:
    strategy = made() if isinstance(made, type) else made
    for name in ("init", "dispatch"):
        if not callable(getattr(strategy, name, None)):
            raise LookupError(f"'{strategy!r}' is not a LoopStrategy: it has no {name}()")

    async def ask(call: Call) -> Outcome:
        question = call.state
        state = {
            **question["memory"],
            "messages": call.inputs,
            "round": question["dispatch"],
            "results": question["results"],
        }
        if question["dispatch"] == 0:
            await _called(strategy.init, services, state)
        verdict = await _called(strategy.dispatch, services, state)
        memory = {key: value for key, value in state.items() if key not in ("messages", "round", "results")}
        go = verdict is not None and verdict is not False
        return Outcome(state={"go": go, "memory": memory, "inputs": _inputs(verdict)})

    def behave(call: Call) -> Awaitable[Outcome]:
        return ask(call)

    return behave


def _inputs(verdict: Any) -> list[str] | None:
    """What the next round gets, if the strategy says so."""
    if verdict is None or isinstance(verdict, bool):
        return None
    values = verdict if isinstance(verdict, (list, tuple)) else [verdict]
    return [value.text if isinstance(value, Message) else as_message(value).text for value in values]


NODE = NodeType(
    "loop_agent",
    Config,
    "Repeats one node or graph: so many times, until something holds, or for each element of a list.",
    prepare,
    bodies=_bodies,
    conduct=_conduct,
    loops=True,
)
