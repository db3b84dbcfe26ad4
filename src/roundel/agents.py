"""Agents as Python objects: a single agent, a sequence, or a loop.

    body = SequentialAgent("Round", [Agent("Writer"), Agent("Critic")])
    polish = LoopAgent("Polish", body, LoopMode.count(3))
    roundel.run(polish, "a text about tea", script={"Critic": "More about leaves."})

Each object only builds a part of a `Graph`; nothing runs here. So an agent in Python means the same as
the node in a file, and the checks, limits, storage and drawings of files apply to it. Mistakes that a
graph could not report well, such as a loop without a body, are reported when the object is made, with
the diagnostics of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any, Literal

from roundel.builder import Graph, GraphOnExecutor
from roundel.modes import LoopMode, LoopStrategy, count_workers, to_executor, to_mode
from roundel.nodes.loop_agent import describe_value
from roundel.workflow.diagnostics import Diagnostic, Report, WorkflowError
from roundel.workflow.document import AllowPaths
from roundel.workflow.graph import Workflow

__all__ = ["Agent", "LoopAgent", "LoopMode", "LoopStrategy", "SequentialAgent", "Step"]


class Step:
    """Something that can be a node of a graph, and that can also run alone; the base of all classes
    here."""

    def __init__(self, name: str) -> None:
        given: object = name  # callers without a type checker may pass anything
        if not (isinstance(given, str) and given.strip()):
            kind = type(self).__name__
            message = f"the name of this {kind} must be text that is not empty, not {given!r:.60}"
            raise _error("wrong-type", message, f'{kind}("Writer", …)')
        self.name = name

    def add_to(self, graph: Graph) -> None:
        raise NotImplementedError

    def graph(self) -> Graph:
        """A graph with only this node."""
        return Graph(self.name, start=self.name, end=self.name).add(self)

    def workflow(self) -> Workflow:
        return self.graph().workflow()

    def build_and_check(
        self, variables: Mapping[str, Any] | None = None, allow_paths: AllowPaths = ()
    ) -> tuple[Workflow | None, Report]:
        """The workflow with only this node, or None if it has errors, and the report."""
        return self.graph().build_and_check(variables, allow_paths)


class Agent(Step):
    """A node of the type `agent`; `config` are the fields of its config.

    The first argument names the node, so that `name` can name the model:
    `Agent("Writer", provider="openai", name="gpt-4o")`. Without a first argument `name` names the node.
    """

    def __init__(self, name: str = "", /, **config: Any) -> None:
        if not name and "name" in config:
            name = config.pop("name")
            if "provider" in config and "model" not in config:
                message = f"{name!r} names the node, so the provider {config['provider']!r} has no model"
                hint = f'name the node first: Agent("Writer", provider={config["provider"]!r}, name={name!r})'
                raise _error("no-model-name", message, hint)
        super().__init__(name)
        self.config = config

    def add_to(self, graph: Graph) -> None:
        graph.node(self.name, "agent", **self.config)


class _Function(Step):
    """A function as a `python` node."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(getattr(function, "__name__", type(function).__name__))
        self.function = function

    def add_to(self, graph: Graph) -> None:
        graph.node(self.name, "python", function=self.function)


class _Subgraph(Step):
    """A graph as a `subgraph` node."""

    def __init__(self, graph: Graph) -> None:
        self.name = graph.id  # no check: the body of a loop needs no name
        self._graph = graph

    def add_to(self, graph: Graph) -> None:
        graph.node(self.name, "subgraph", graph=self._graph)

    def graph(self) -> Graph:
        return self._graph


Runnable = Step | Graph | Callable[..., Any]
"""Whatever can be a step. A function becomes a `python` node."""


def _step(part: Any, whole: str) -> Step:
    if isinstance(part, Step):
        return part
    if isinstance(part, Graph):
        return _Subgraph(part)
    if callable(part) and not isinstance(part, type):
        return _Function(part)
    hint = "an agent, a Graph or a function can"
    raise _error("wrong-type", f"'{whole}' cannot run {describe_value(part)}", hint)


class SequentialAgent(Step):
    """Runs its parts one after the other; each gets the output of the part before it."""

    def __init__(self, name: str, agents: Sequence[Runnable]) -> None:
        super().__init__(name)
        self.agents = [_step(agent, name) for agent in agents]
        if not self.agents:
            raise _error("no-nodes", f"'{name}' has no agents", "give it at least one")
        _make_names_unique(self.agents, name)

    def add_to(self, graph: Graph) -> None:
        graph.node(self.name, "subgraph", graph=self.graph())

    def graph(self) -> Graph:
        names = [agent.name for agent in self.agents]
        graph = Graph(self.name, start=names[0], end=names[-1])
        for agent in self.agents:
            graph.add(agent)
        for one, other in pairwise(names):
            graph.edge(one, other)
        return graph


def _make_names_unique(steps: list[Step], whole: str) -> None:
    """Makes the names of steps unique. Functions with the same name are numbered.

    Functions come last: their names follow from the code, so they give way to names that the user chose.
    """
    names: set[str] = set()
    for step in steps:
        if isinstance(step, _Function):
            continue
        if not step.name:
            message = f"a Graph in '{whole}' has no id, so its node has no name"
            raise _error("wrong-type", message, 'give it one: Graph("name", …)')
        if step.name in names:
            message = f"'{whole}' has more than one step that is named '{step.name}'"
            raise _error("duplicate-id", message, "give each agent, loop and graph in it a name of its own")
        names.add(step.name)
    for step in steps:
        if isinstance(step, _Function):
            own, number = step.name, 1
            while step.name in names:
                number += 1
                step.name = f"{own}_{number}"
            names.add(step.name)


class LoopAgent(Step):
    """Repeats one agent, graph or function under a strategy.

    `executor` is a `concurrent.futures.Executor`, or a number for a pool of so many threads: the
    functions of the body's `python` nodes run on it. It is not closed. `max_parallel` is the number of
    array elements whose rounds run at the same time; the default is the number of workers of the
    executor, or one.
    """

    def __init__(
        self,
        name: str,
        body: Runnable | Sequence[Runnable] | None = None,
        strategy: Any = None,
        *,
        context: Literal["fresh", "carry", "task"] | None = None,
        max_parallel: int | None = None,
        executor: Any = None,
    ) -> None:
        super().__init__(name)
        self.body = _single_body(name, body)
        mode = _mode(name, strategy)
        self.executor, self.strategy = _parallelism(name, mode, max_parallel, executor)
        self.context = context

    def add_to(self, graph: Graph) -> None:
        body: Any = self.body.graph()
        if self.executor is not None:
            body = GraphOnExecutor(body, self.executor)
        config: dict[str, Any] = {} if self.context is None else {"context": self.context}
        graph.node(self.name, "loop_agent", strategy=self.strategy, body=body, **config)


def _single_body(name: str, body: Any) -> Step:
    bodies = list(body) if isinstance(body, (list, tuple)) else [] if body is None else [body]
    if len(bodies) == 1:
        return _step(bodies[0], name)
    if not bodies:
        raise _error("one-body", f"'{name}' has no body", "give it one agent, Graph or function")
    message = f"'{name}' repeats exactly one body, not {len(bodies)}"
    raise _error("one-body", message, "put several into a SequentialAgent or a Graph")


def _mode(name: str, strategy: Any) -> LoopMode:
    hint = "LoopMode.count(3), .condition(…), .array(), or an object with init and dispatch"
    if strategy is None:
        raise _error("no-strategy", f"'{name}' has no strategy", hint)
    try:
        return to_mode(strategy)
    except LookupError as error:
        raise _error("no-strategy", f"'{name}': {error.args[0]}", hint) from None


def _parallelism(
    name: str, mode: LoopMode, max_parallel: int | None, given: Any
) -> tuple[Executor | None, Mapping[str, Any]]:
    """The executor for the body's functions, and the strategy with its number of parallel rounds."""
    try:
        executor = to_executor(given, name)
    except ValueError as error:
        raise _error("bad-executor", f"'{name}': {error}", "for example ThreadPoolExecutor(4)") from None
    try:
        is_configured = mode.strategy.get("max_parallel", 1) != 1
        if max_parallel is None and executor is not None and mode.has_parallel_rounds and not is_configured:
            max_parallel = count_workers(executor)
        return executor, mode.with_max_parallel(max_parallel).strategy
    except ValueError as error:
        hint = "only LoopMode.array has independent rounds"
        raise _error("not-parallel", f"'{name}': {error}", hint) from None


def _error(code: str, message: str, hint: str) -> WorkflowError:
    found = Diagnostic(code=code, severity="error", file="<python>", message=message, hint=hint)
    return WorkflowError([found])
