"""`loop_agent`: repeats one body, a node or a graph, under a strategy.

The strategies are declared in `loop_strategies.py` and executed by the controllers of
`loop_controllers.py`. This module reads the settings and wraps the code of users that a strategy asks:
predicates, functions for `items`, and `LoopStrategy` objects. Such code is called by the host, not by
the kernel, and its answers are facts of the run (decision 7). They have to be JSON, and a strategy must
not store anything in itself: its memory is part of each question and answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.commands import Call
from roundel.kernel.composite import Controller
from roundel.kernel.facts import Outcome
from roundel.kernel.payloads import Warned
from roundel.nodes.loop_controllers import (
    ArrayController,
    CountController,
    CustomController,
    UntilController,
    as_json_list,
)
from roundel.nodes.loop_strategies import (
    ArrayStrategy,
    CountStrategy,
    CustomStrategy,
    Strategy,
    UntilStrategy,
)
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader, SourceLocation, child
from roundel.workflow.graph import GraphDefinition, Node
from roundel.workflow.loader import WorkflowReader
from roundel.workflow.message import Message, as_message
from roundel.workflow.node_type import BodyContext, NodeType

STATE_KEYS = ("messages", "round", "results")
"""The keys that the engine puts into the state of a strategy. All other keys are the memory of the
strategy."""


def predicate_behaviour(function: Callable[..., Any], services: Services) -> Behaviour:
    """Answers `until` by a function of the user. Only the truth value is stored, whatever the function
    returns."""

    async def evaluate(call: Call) -> Outcome:
        return Outcome(state=bool(await services.call(function, call.inputs)))

    return evaluate


def items_behaviour(function: Callable[..., Any], services: Services) -> Behaviour:
    """Answers `items` by a function of the user, with a list that the journal can store."""

    async def evaluate(call: Call) -> Outcome:
        answer = await services.call(function, call.inputs)
        try:
            return Outcome(state=as_json_list(answer))
        except (TypeError, ValueError) as error:
            raise NodeError(f"the list for the loop cannot be written as JSON: {error}") from None

    return evaluate


def strategy(strategy_or_class: Any, services: Services) -> Behaviour:
    """Asks a `LoopStrategy` whether another round follows. The controller sends the memory of the
    strategy with each question, and stores the one that comes back: one object serves many loops and
    runs at the same time."""
    init, dispatch = strategy_methods(
        strategy_or_class() if isinstance(strategy_or_class, type) else strategy_or_class
    )

    async def evaluate(call: Call) -> Outcome:
        question = call.state
        # A copy: if the call fails and is repeated, it has to start from the memory as it was.
        state = {**_json_copy(question["memory"]), "messages": call.inputs, "round": question["round"]}
        state["results"] = list(question["results"])
        if question["round"] == 0 and init is not None:
            await services.call(init, state)
        decision = await services.call(dispatch, state)
        memory = _json_copy({key: value for key, value in state.items() if key not in STATE_KEYS})
        return Outcome(
            state={"go": _wants_round(decision), "memory": memory, "inputs": _round_inputs(decision)}
        )

    return evaluate


def strategy_methods(strategy: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any]]:
    """The methods `init` and `dispatch` of a strategy; a plain function counts as `dispatch` alone."""
    init, dispatch = getattr(strategy, "init", None), getattr(strategy, "dispatch", None)
    if callable(init) and callable(dispatch):
        return init, dispatch
    if callable(strategy) and init is None and dispatch is None:
        return None, strategy
    missing = "dispatch" if callable(init) else "init"
    raise LookupError(f"{describe_value(strategy)} is not a loop strategy: it has no method '{missing}'")


def describe_value(value: object) -> str:
    """An object of a user for an error message: plain values as they are, others by their class."""
    plain = value is None or isinstance(value, (str, int, float, list, tuple, dict))
    return f"{value!r:.60}" if plain else f"an object of the class '{type(value).__name__}'"


def _json_copy(memory: dict[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(memory))
    except (TypeError, ValueError, RecursionError) as error:
        raise NodeError(f"what the strategy keeps cannot be written as JSON: {error}") from None
    return copied


def _wants_round(decision: Any) -> bool:
    """Whether `dispatch` asks for a round. An empty text or list is an input, so it does; a number or
    another object is a mistake, not a truth value."""
    if decision is None or isinstance(decision, (bool, str, Message, dict, list, tuple)):
        return decision is not None and decision is not False
    raise NodeError(
        f"dispatch gave {describe_value(decision)}; it must give true or false, or the next round's input"
    )


def _round_inputs(decision: Any) -> list[Any] | None:
    """The inputs of the next round; None if the strategy leaves them to the loop."""
    if decision is None or isinstance(decision, bool):
        return None
    values = decision if isinstance(decision, (list, tuple)) else [decision]
    return [msgspec.to_builtins(as_message(value, "user")) for value in values]


class Body(Struct, frozen=True):
    """The body of a loop agent: exactly one node, or one graph. A list with one item is accepted as
    well."""

    graph: GraphDefinition

    @staticmethod
    def __describe__() -> Description:
        return Description(refers=("node", "graph"))

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, WorkflowReader)
        value = at.value
        if isinstance(value, list):
            if len(value) != 1:
                message = f"a loop_agent repeats exactly one body, not {len(value)}"
                hint = "put several nodes into one graph" if value else "give it one node, or one graph"
                reader.report.error("one-body", message, at, hint)
                return INVALID
            return cls.__read__(value[0], reader)
        graph = read_body(at, reader)
        return INVALID if graph is INVALID else cls(graph)


def read_body(at: Located, reader: WorkflowReader) -> Any:
    """Reads a graph, or a node as a graph of its own: the kernel runs bodies as graphs."""
    if isinstance(at.value, dict) and "nodes" in at.value:
        return reader.read_graph(at)
    node = reader.read(at, Node, "the body")
    if node is INVALID:
        return INVALID
    return GraphDefinition(
        (node,), start=(node.id,), end=(node.id,), at=SourceLocation(reader.report.file, at.line, at.column)
    )


class Config(Struct, frozen=True, omit_defaults=True):
    strategy: Strategy | None = None
    body: Body | None = None
    context: Literal["fresh", "carry", "task"] | None = None
    """Whether a round gets only the output of the round before, all messages so far, or the input and the
    output of the round before. None is `fresh`, and lets the agents of the body see the task."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "strategy": Field(
                    en=(
                        "Strategy",
                        "What determines the number of rounds: a count, a condition, a list, or your own "
                        "code.",
                    ),
                    zh=("策略", "执行多少轮：固定次数、直到条件成立、对每个元素一轮，或由自己的代码决定。"),
                    required=True,
                    see="loop-agent.md",
                ),
                "body": Field(
                    en=("Body", "What is repeated: exactly one node, or one graph."),
                    zh=("循环体", "要重复的内容：恰好一个节点，或一个图。"),
                    required=True,
                ),
                "context": Field(
                    en=(
                        "Context",
                        "What each round gets as its input. If not set: the output of the round before, and "
                        "agents see the task and their own last answer besides.",
                    ),
                    zh=(
                        "上下文",
                        "每一轮获得的输入。不填则为上一轮的输出，此外智能体还能看到任务和自己上次的答案。",
                    ),
                    see="agents.md#context",
                    choices={
                        "fresh": ("The output of the round before", "上一轮的输出"),
                        "carry": ("All messages so far", "此前的全部消息"),
                        "task": ("The input and the output of the round before", "输入和上一轮的输出"),
                    },
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.body is None:
            report.error("one-body", "the loop_agent has no body", at, "give it one node, or one graph")
        if self.strategy is None:
            hint = "write strategy: {mode: count, max: 3}, or condition, array, custom"
            report.error("no-strategy", "the loop_agent has no strategy", at, hint)
        return self.body is not None and self.strategy is not None and self._check_context(at, report)

    def _check_context(self, at: Located, report: Report) -> bool:
        kind = self.strategy.kind if self.strategy is not None else None
        if self.context == "carry" and isinstance(kind, ArrayStrategy) and kind.max_parallel > 1:
            message = "with 'context: carry' a round sees those before it, so they cannot run all at once"
            report.error("parallel-context", message, child(at, "context"), "leave out 'max_parallel'")
            return False
        return True


def _bodies(config: Config) -> tuple[GraphDefinition, ...]:
    assert config.body is not None
    return (config.body.graph,)


def _turns(config: Config) -> tuple[int | None, ...]:
    """How many times the body runs at most, for the proof: every strategy has a maximum."""
    assert config.strategy is not None
    return (max(0, config.strategy.kind.max),)


def _with_rounds(config: Config, rounds: int) -> Config:
    assert config.strategy is not None
    kind = replace(config.strategy.kind, max=rounds)
    return replace(config, strategy=replace(config.strategy, kind=kind))


def _make_controller(config: Config) -> Controller:
    assert config.strategy is not None
    kind, context = config.strategy.kind, config.context or "fresh"
    if isinstance(kind, CountStrategy):
        return CountController(kind, context)
    if isinstance(kind, UntilStrategy):
        return UntilController(kind, context)
    if isinstance(kind, ArrayStrategy):
        return ArrayController(kind, context)
    return CustomController(kind, context)


def _body_context(config: Config) -> BodyContext:
    assert config.strategy is not None
    if config.context is None:
        return "loop"
    # Each element of a list is a task of its own, so `fresh` hides nothing there.
    hides = config.context == "fresh" and not isinstance(config.strategy.kind, ArrayStrategy)
    return "fresh" if hides else "given"


def prepare(node: Node, services: Services) -> Behaviour:
    """The behaviour answers questions that only code of the user can answer. The rounds themselves are
    run by the kernel, through the controller."""
    config: Config = node.config
    assert config.strategy is not None
    name, kind = config.strategy.function, config.strategy.kind
    if name:
        make_behaviour = (
            strategy
            if isinstance(kind, CustomStrategy)
            else predicate_behaviour
            if isinstance(kind, UntilStrategy)
            else items_behaviour
        )
        return make_behaviour(services.function(name), services)

    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} has no function to ask")

    return behave


EXAMPLE = """
- id: Refine
  type: loop_agent
  config:
    strategy: {mode: count, max: 3}
    body: {id: Editor, type: agent, config: {role: Make it shorter.}}
"""

NODE = NodeType(
    "loop_agent",
    Config,
    "Repeats one node or graph: a number of times, until a condition is true, or for each element of a list.",
    prepare,
    events=(Warned.event,),
    title="Loop agent",
    zh=("循环智能体", "重复执行一个节点或图：固定次数、直到条件成立，或对列表的每个元素各一次。"),
    example=EXAMPLE,
    bodies=_bodies,
    controller=_make_controller,
    iterations=_turns,
    rounds=lambda config: _turns(config)[0],
    with_rounds=_with_rounds,
    loops=True,
    body_context=_body_context,
)
