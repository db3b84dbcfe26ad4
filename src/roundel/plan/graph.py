"""A workflow compiled for the kernel: numbers instead of names, tests instead of conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from roundel.plan.scope import Scope, SideCandidate, candidates, compile_scope
from roundel.workflow.condition import ConditionTest, compile_condition
from roundel.workflow.functions import FunctionKind, get_builtin
from roundel.workflow.graph import (
    DEFAULT_MAX_ROUNDS,
    Edge,
    GraphDefinition,
    Limits,
    LoopSettings,
    Node,
    Workflow,
)
from roundel.workflow.limits import Breaker
from roundel.workflow.message import Role
from roundel.workflow.node_type import NodeType
from roundel.workflow.processor import MessageProcessor, compile_processor

_MEANINGFUL = re.compile(r"[/\[\]#%]")


class EdgePlan(Struct, eq=False):
    index: int
    edge: Edge
    source: int
    target: int
    source_id: str
    trigger: bool
    test: ConditionTest | None
    """None: always."""
    process: MessageProcessor | None
    port: str | None
    carry: bool
    keep: bool
    clear: bool
    clear_kept: bool
    dynamic: bool
    role: Role
    condition_function: str | None
    """The name of the function that the host calls as its condition. A plan holds no code, so it can be made
    where the code is missing."""
    processor_function: str | None
    simple: bool = False
    """It is direct, takes whatever comes to its port, and changes nothing."""
    direct: bool = False
    """It is its target's only way in, so what it carries is in order as it comes."""

    @property
    def has_host_functions(self) -> bool:
        return self.condition_function is not None or self.processor_function is not None


class NodePlan(Struct, eq=False):
    index: int
    site: int
    """A number that is unique in the whole workflow, subgraphs included."""
    id: str
    label: str
    """The id as it stands in addresses: what means something there (`/ [ ] # %`) is written as %XX."""
    node: Node
    kind: NodeType
    config: Any
    window: int
    edges: tuple[EdgePlan, ...] = ()
    into: tuple[EdgePlan, ...] = ()
    """The edges that lead to it."""
    bodies: tuple[GraphPlan, ...] = ()
    """The graphs that it runs inside itself."""
    asks: bool = False
    """A person answers."""
    is_speaker: bool = False
    """A model or a person speaks."""
    is_external: bool = False
    """What it gives comes from outside of the run, as that of a Python function does."""
    reserve: int = 0
    """How many tokens a model call of it may take at most; 0 if nobody knows."""
    has_tool_loop: bool = False
    """It takes several calls, as its dialogue says."""
    plain: bool = False
    """Its messages go out along its edges, and nothing else has to be done with them."""
    has_host_functions: bool = False
    """There are functions on its edges that the host has to ask."""
    arriving: int = 0
    """How many edges lead to it."""
    retains_messages: bool = False
    """Something may stay in its queue after a run."""
    has_dynamic_input: bool = False
    """A dynamic edge leads to it."""
    has_data_input: bool = False
    """It receives data that may come too late for the round, and must leave it for the next."""
    is_end: bool = False
    """Its output may be the result."""
    logs_output: bool = True
    """What it gave is shown."""
    output_retained: bool = False
    """What it gave is needed after it has gone out along the edges."""

    @property
    def body(self) -> GraphPlan | None:
        """Its only body, if it has just one."""
        return self.bodies[0] if len(self.bodies) == 1 else None

    @property
    def triggers_itself(self) -> bool:
        return any(edge.trigger and edge.target == self.index for edge in self.edges)


class GraphPlan(Struct, eq=False):
    graph: GraphDefinition
    nodes: tuple[NodePlan, ...]
    edges: tuple[EdgePlan, ...]
    start: tuple[int, ...]
    ends: tuple[int, ...]
    vars: dict[str, Any]
    caps: dict[int, int]
    default_cap: int
    index: dict[str, int] = {}
    breaker: Breaker = Breaker()
    family: list[GraphPlan] = []
    """All graphs of the workflow, this one included: one budget pays for the analysis of their loops."""
    _root: Scope | None = None
    _survey: Any = None
    """What `plan.loops.survey` found, so that it is done once."""
    _candidates: tuple[SideCandidate, ...] | None = None

    @property
    def candidates(self) -> tuple[SideCandidate, ...]:
        """The nodes that are side nodes if they stand beside a loop."""
        if self._candidates is None:
            self._candidates = candidates(self)
        return self._candidates

    @property
    def root(self) -> Scope:
        if self._root is None:
            self._root = compile_scope(self, range(len(self.nodes)), None, None)
        return self._root

    def cap(self, entry: int | None) -> int:
        return self.default_cap if entry is None else self.caps.get(entry, self.default_cap)


class Plan(Struct, eq=False):
    workflow: Workflow
    graph: GraphPlan
    sites: tuple[NodePlan, ...]
    """Every node of the workflow, by its site."""
    limits: Limits
    """Those of the whole run."""
    budgeted: bool
    """Something is limited beside rounds."""
    time_limit: float
    """The seconds that the run may work before the breaker trips."""
    draft: bool = False
    """It is made of a file with errors (workflow/graph_reader.py): to be drawn, and never run."""
    _encoded: str = ""
    """The workflow as it is stored with each run (hosts/stored_run.py), so that it is encoded once."""

    @property
    def breaker(self) -> Breaker:
        return self.graph.breaker


def compile_workflow(workflow: Workflow) -> Plan:
    compiler = _Compiler(workflow)
    cap, breaker = workflow.limits.rounds or DEFAULT_MAX_ROUNDS, workflow.breaker or Breaker()
    graph = compiler.graph(workflow.graph, cap, breaker)
    speaks = any(node.is_speaker for node in compiler.sites)
    for node in compiler.sites:
        # Where nobody speaks no loop can be dead, whatever its results are.
        node.is_external = node.is_external and speaks
        node.plain = not (
            node.has_host_functions or node.output_retained or node.is_speaker or node.is_external
        )
    limits = _merge_limits(workflow.limits, workflow.graph.limits)
    budgeted = bool(limits.budget) or compiler.budgeted
    time_limit = graph.breaker.time_limit(_timer_seconds(compiler.sites))
    return Plan(workflow, graph, tuple(compiler.sites), limits, budgeted, time_limit)


def _timer_seconds(sites: Sequence[NodePlan]) -> float:
    """The seconds that all timers take together."""
    bounds = (node.kind.bound(node.config) for node in sites)
    return sum(bound.seconds or 0 for bound in bounds if bound is not None)


def _has_budget(loop: LoopSettings) -> bool:
    return loop.limits is not None and bool(loop.limits.budget)


def _merge_limits(outer: Limits, own: Limits) -> Limits:
    """Those of the file where the graph says nothing."""
    given = {name: value for name in Limits.__struct_fields__ if (value := getattr(own, name)) is not None}
    return msgspec.structs.replace(outer, **given)


class _Compiler:
    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.sites: list[NodePlan] = []
        self.graphs: list[GraphPlan] = []
        self.budgeted = False

    def graph(self, graph: GraphDefinition, cap: int, breaker: Breaker) -> GraphPlan:
        """`cap` and `breaker` are for loops that say nothing of their own, subgraphs included."""
        cap = graph.limits.rounds or cap
        index = {node.id: number for number, node in enumerate(graph.nodes)}
        breaker = graph.breaker or breaker
        nodes = tuple(self._node(number, node, cap, breaker) for number, node in enumerate(graph.nodes))
        edges = () if graph.is_majority_voting else graph.edges
        plans = tuple(self._edge(number, edge, index) for number, edge in enumerate(edges))
        _connect(nodes, plans)
        ends = _ends(graph, nodes, index)
        for node in nodes:
            node.is_end = node.index in ends
            node.output_retained = node.is_end or node.window != 0
        start = range(len(nodes)) if graph.is_majority_voting else (index[name] for name in graph.start)
        caps = {index[name]: loop.cap for name, loop in graph.loops.items() if loop.cap}
        self.budgeted = (
            self.budgeted or bool(graph.limits.budget) or any(map(_has_budget, graph.loops.values()))
        )
        plan = GraphPlan(graph, nodes, plans, tuple(start), ends, graph.vars, caps, cap, index, breaker)
        plan.family = self.graphs
        self.graphs.append(plan)
        return plan

    def _node(self, number: int, node: Node, cap: int, breaker: Breaker) -> NodePlan:
        label = address_label(node.id)
        site = len(self.sites)
        plan = NodePlan(number, site, node.id, label, node, node.kind, node.config, node.context_window)
        self.sites.append(plan)
        plan.asks = node.kind.asks
        plan.is_speaker = node.kind.asks or node.kind.speaks
        plan.has_tool_loop = node.kind.conversation(node.config) is not None
        plan.reserve = node.kind.reserve(node.config, self.workflow)
        self.budgeted = self.budgeted or bool(node.limits and node.limits.budget)
        plan.logs_output = node.log_output
        inner = (node.limits.rounds if node.limits is not None else None) or cap
        plan.is_external = not (node.kind.pure or plan.is_speaker or node.kind.bodies(node.config))
        plan.bodies = tuple(self.graph(body, inner, breaker) for body in node.kind.bodies(node.config))
        return plan

    def _edge(self, number: int, edge: Edge, index: dict[str, int]) -> EdgePlan:
        condition_function = self._host_function(
            "condition", edge.condition.function if edge.condition else None
        )
        processor_function = self._host_function("processor", edge.process.function if edge.process else None)
        return EdgePlan(
            index=number,
            edge=edge,
            source=index[edge.source],
            target=index[edge.target],
            source_id=edge.source,
            trigger=edge.trigger,
            test=None if condition_function else compile_condition(edge.condition),
            process=None if processor_function else compile_processor(edge.process),
            port=edge.port,
            carry=edge.carry_data,
            keep=edge.keep_message,
            clear=edge.clear_context,
            clear_kept=edge.clear_kept_context,
            dynamic=edge.dynamic is not None,
            role="assistant" if edge.source == edge.target else "user",
            condition_function=condition_function,
            processor_function=processor_function,
        )

    def _host_function(self, kind: FunctionKind, name: str | None) -> str | None:
        """The name if the host calls the function, None if there is none or the kernel calls it."""
        if name is None or (name not in self.workflow.functions and get_builtin(kind, name) is not None):
            return None
        return name


def address_label(name: str) -> str:
    """A name as it stands in addresses."""
    return _MEANINGFUL.sub(lambda found: f"%{ord(found[0]):02X}", name)


def _connect(nodes: tuple[NodePlan, ...], edges: tuple[EdgePlan, ...]) -> None:
    into: dict[int, list[EdgePlan]] = {}
    out: dict[int, list[EdgePlan]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
        out.setdefault(edge.source, []).append(edge)
    for node in nodes:
        node.edges = tuple(out.get(node.index, ()))
        node.has_host_functions = any(edge.has_host_functions for edge in node.edges)
        arriving = into.get(node.index, [])
        node.into = tuple(arriving)
        node.arriving = len(arriving)
        node.retains_messages = node.window != 0 or any(
            edge.keep or edge.has_host_functions for edge in arriving
        )
        node.has_dynamic_input = any(edge.dynamic for edge in arriving)
        node.has_data_input = any(not edge.trigger for edge in arriving)
        if len(arriving) == 1 and arriving[0].trigger:
            arriving[0].direct = True
            arriving[0].simple = _is_simple(arriving[0])


def _is_simple(edge: EdgePlan) -> bool:
    special = edge.test or edge.process or edge.has_host_functions or edge.clear or edge.clear_kept
    return edge.carry and not special


def _ends(graph: GraphDefinition, nodes: tuple[NodePlan, ...], index: dict[str, int]) -> tuple[int, ...]:
    if graph.is_majority_voting:
        return tuple(range(len(nodes)))
    if graph.end:
        return tuple(index[name] for name in graph.end)
    # With no `end` the sinks count, in the order of the file.
    return tuple(node.index for node in nodes if all(edge.target == node.index for edge in node.edges))
