"""The plan: a workflow compiled for the kernel, with numbers instead of names and tests instead of
conditions.

The kernel looks at an edge or a node for each message, so everything that can be decided once is decided
here, and stored as a flag (`simple`, `direct`, `plain`, `output_retained`, …). Nodes are numbered within
their graph (`index`) and in the whole workflow (`site`); the order of the file decides both, and with it
everything that the kernel has to order.

A plan contains no code of users: functions on edges are names, which the host resolves. So a workflow
can be checked, drawn and replayed where that code is missing. Scopes and surveys are computed on first
use and cached in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.plan.scope import Scope, SideCandidate, candidates, compile_scope
from roundel.workflow.address import address_label
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.condition import ConditionTest, compile_condition
from roundel.workflow.context import Context, ContextPolicy
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.functions import FunctionKind, get_builtin
from roundel.workflow.graph import (
    DEFAULT_MAX_ROUNDS,
    Edge,
    GraphDefinition,
    Limits,
    Node,
    Workflow,
)
from roundel.workflow.limits import Breaker
from roundel.workflow.message import Role
from roundel.workflow.node_type import ERROR_PORT, BodyContext, NodeType, explicit_ports
from roundel.workflow.processor import MessageProcessor, compile_processor

SEMANTICS = 3
"""The version of the meaning of a workflow. A stored run keeps the version that it was started with, since
its facts mean something only together with the rules of that version. A change of a rule raises it, and keeps
the old rule for older runs: all versions from 0 on are read and continued (docs/decisions/0056).

    0   agents in loops see only what their queue holds; a debate hands on its last message, a vote its tally;
        an array loop reads a list only from a message that is nothing else; a surge of tokens is measured
        by the forecast, a timeout grants its extra time when it trips, and a first call reserves nothing
        but its `max_tokens`
    1   agents in loops see the task, their own last output and what is new (`NodePlan.context`); a debate
        hands on its last round, a vote what was voted on; an array loop finds a list inside of prose;
        a surge is measured by the calls of each node (kernel/token_surge.py), extra time is granted at the
        unlock, and a first call reserves an estimate of its request (kernel/budget.py); timers measure the
        time of day
    2   timers measure working time, as the limit `seconds` does; what passes before a run is paused that
        waits for people is no working time
    3   a model call that failed counts in the usage of the run, as in its budgets
"""


class EdgePlan(Struct, eq=False):
    """An edge. Source and target are node indexes."""

    index: int
    edge: Edge
    source: int
    target: int
    source_id: str
    trigger: bool
    test: ConditionTest | None
    """The built-in condition; None if it always fires or a function of the host decides."""
    process: MessageProcessor | None
    port: str | None
    carry: bool
    keep: bool
    clear: bool
    clear_kept: bool
    dynamic: bool
    role: Role
    condition_function: str | None
    """The name of the function that the host calls as its condition; None if there is none."""
    processor_function: str | None
    explicit: bool = False
    """Its port is one that only edges take that name it, such as `error`."""
    simple: bool = False
    """It is direct, accepts all messages of its port, and changes nothing: the fast path of `walk`."""
    direct: bool = False
    """It is the only edge to its target, so its messages arrive in order and need no key
    (kernel/queue.py)."""

    @property
    def has_host_functions(self) -> bool:
        return self.condition_function is not None or self.processor_function is not None


class ContextPlan(Struct, frozen=True):
    """What an agent sees of the loop around it (kernel/context.py). A node without one gets its queue, and
    nothing is remembered for it."""

    policy: ContextPolicy
    clears: bool = False
    """The only edge to the node clears its context, so it never has an earlier answer."""


class NodePlan(Struct, eq=False):
    """A node, with its edges and the flags that the kernel needs."""

    index: int
    site: int
    """A number that is unique in the whole workflow, including subgraphs."""
    id: str
    label: str
    """The id in addresses (workflow/address.py)."""
    node: Node
    kind: NodeType
    config: Any
    window: int
    edges: tuple[EdgePlan, ...] = ()
    into: tuple[EdgePlan, ...] = ()
    """Its incoming edges."""
    explicit_ports: tuple[str, ...] = ()
    """Ports that only edges take that name them."""
    has_error_edges: bool = False
    """An edge with `port: error` may trigger its target, so a failure may be handled."""
    bodies: tuple[GraphPlan, ...] = ()
    """The graphs that it runs inside."""
    asks: bool = False
    """A person answers."""
    is_speaker: bool = False
    """Its messages come from a model or a person; the breaker compares them."""
    is_external: bool = False
    """Its results come from outside of the run, like those of a Python function; new ones are
    progress."""
    reserve: int = 0
    """The most tokens that one of its model calls may produce; 0 if not known."""
    has_tool_loop: bool = False
    """It makes several calls, as its conversation decides."""
    has_follow_up: bool = False
    """It makes one call, and several if the outcome of the first asks for it."""
    plain: bool = False
    """Its messages only have to walk its edges: the fast path of `complete`."""
    has_host_functions: bool = False
    """Some of its edges have functions that the host calls."""
    arriving: int = 0
    """The number of its incoming edges."""
    retains_messages: bool = False
    """Messages may stay in its queue after a run."""
    has_dynamic_input: bool = False
    """A dynamic edge leads to it."""
    has_data_input: bool = False
    """It has a data edge, whose messages may be too late for a round and have to wait for the next."""
    is_start: bool = False
    is_end: bool = False
    """Its output may be the result."""
    logs_output: bool = True
    """Its output is part of events."""
    output_retained: bool = False
    """Its output is needed after it has walked the edges."""
    context: ContextPlan | None = None
    """What it sees of the loop around it; None for nodes that get their queue and nothing else."""
    gives_task: bool = False
    """Its input is the task of the agents in its body."""
    blind: bool = False
    """It is an agent in a loop that sees neither the task nor its own last output."""
    carries: int | None = None
    """The node whose last message its calls get (`NodeType.carries`)."""
    hears: tuple[int, ...] = ()
    """The nodes in which agents and people speak, if its calls get their messages (`NodeType.hears`)."""
    is_carried: bool = False
    """The calls of another node get its last message."""
    running: Any = None
    """The data of the event with which it starts. The kernel makes it once, since most events are of this
    kind."""

    @property
    def body(self) -> GraphPlan | None:
        """Its only body, if it has just one."""
        return self.bodies[0] if len(self.bodies) == 1 else None

    @property
    def triggers_itself(self) -> bool:
        return any(edge.trigger and edge.target == self.index for edge in self.edges)


class GraphPlan(Struct, eq=False):
    """A graph: the whole workflow, or a body of a node."""

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
    """All graphs of the workflow, including this one: they share the budget of the survey."""
    _root: Scope | None = None
    _survey: Any = None
    """The cached result of `plan.loops.survey`."""
    _candidates: tuple[SideCandidate, ...] | None = None

    @property
    def candidates(self) -> tuple[SideCandidate, ...]:
        """The nodes that are side nodes if they are beside a loop."""
        if self._candidates is None:
            self._candidates = candidates(self)
        return self._candidates

    @property
    def root(self) -> Scope:
        if self._root is None:
            self._root = compile_scope(self, range(len(self.nodes)), None, None)
        return self._root

    def cap(self, entry: int | None) -> int:
        """The cap of the loop that is entered at a node."""
        return self.default_cap if entry is None else self.caps.get(entry, self.default_cap)


class Plan(Struct, eq=False):
    """A compiled workflow. `compile_workflow` creates it; hosts, checks and drawings share it."""

    workflow: Workflow
    graph: GraphPlan
    sites: tuple[NodePlan, ...]
    """All nodes of the workflow, by site."""
    limits: Limits
    """The limits of the whole run."""
    budgeted: bool
    """Some limit besides rounds exists; without one, the kernel skips all budgets."""
    limits_cost: bool
    """Some limit on the cost exists."""
    time_limit: float
    """The working time in seconds after which the breaker trips."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """The breakpoints that every run begins with: those under `debug`, and nodes with `debug: true`."""
    semantics: int = SEMANTICS
    """The version of the rules that it follows."""
    draft: bool = False
    """It was compiled from a file with errors (workflow/graph_reader.py): it can be drawn, never run."""
    warnings: tuple[Diagnostic, ...] = ()
    """The warnings about the workflow, if this process has loaded it for a run (nodes/loading.py)."""
    places: dict[str, Any] = {}
    """Cache: the places of addresses (plan/address.py)."""
    _encoded: str = ""
    """The cached encoding of the workflow that is stored with each run (hosts/stored_run.py)."""

    @property
    def breaker(self) -> Breaker:
        return self.graph.breaker

    @property
    def node_ids(self) -> set[str]:
        """The ids of all nodes of the workflow."""
        return {node.id for node in self.sites}


def compile_workflow(workflow: Workflow, semantics: int = SEMANTICS) -> Plan:
    """Compiles a workflow that the loader has checked. `semantics` is that of the run, for one that is
    stored."""
    compiler = _Compiler(workflow)
    cap, breaker = workflow.limits.rounds or DEFAULT_MAX_ROUNDS, workflow.breaker or Breaker()
    compiler.semantics = semantics
    graph = compiler.graph(workflow.graph, cap, breaker)
    speaks = any(node.is_speaker for node in compiler.sites)
    for node in compiler.sites:
        # Without agents and people no loop can be dead, so results need not be recorded.
        node.is_external = node.is_external and speaks
        node.plain = not (
            node.has_host_functions or node.output_retained or node.is_speaker or node.is_external
        )
    limits = workflow.graph.limits.over(workflow.limits)
    everywhere = (limits, *compiler.limits)
    budgeted = any(one.budget for one in everywhere)
    limits_cost = any(one.cost_usd is not None for one in everywhere)
    time_limit = graph.breaker.time_limit(_timer_seconds(compiler.sites))
    sites = tuple(compiler.sites)
    return Plan(
        workflow,
        graph,
        sites,
        limits,
        budgeted,
        limits_cost,
        time_limit,
        _breakpoints(workflow, compiler.graphs, sites),
        semantics,
    )


def _has_voice(node: NodePlan) -> bool:
    """Whether an agent or a person speaks in it."""
    return node.is_speaker or any(_has_voice(other) for body in node.bodies for other in body.nodes)


def _breakpoints(
    workflow: Workflow, graphs: Sequence[GraphPlan], sites: Sequence[NodePlan]
) -> tuple[Breakpoint, ...]:
    """The breakpoints of a workflow, each once."""
    found = [*workflow.debug.break_at]
    for graph in graphs:
        found += graph.graph.debug.break_at
    found += [Breakpoint(node.id) for node in sites if getattr(node.config, "debug", False) is True]
    return tuple(dict.fromkeys(found))


def _timer_seconds(sites: Sequence[NodePlan]) -> float:
    """The sum of all timers: a workflow that is meant to wait must not trip the breaker by waiting."""
    bounds = (node.kind.bound(node.config) for node in sites)
    return sum(bound.seconds or 0 for bound in bounds if bound is not None)


class _Compiler:
    """Compiles graphs recursively, and numbers sites in the order of the file."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.semantics = SEMANTICS
        self.sites: list[NodePlan] = []
        self.graphs: list[GraphPlan] = []
        self.limits: list[Limits] = []
        """The limits of all graphs, loops and nodes."""

    def graph(
        self,
        graph: GraphDefinition,
        cap: int,
        breaker: Breaker,
        inherited: Context | None = None,
        around: BodyContext = "apart",
    ) -> GraphPlan:
        """`cap` and `breaker` apply to loops without their own, also in subgraphs. `inherited` is the
        context of the graph around a loop agent, and `around` what its agents are in."""
        cap = graph.limits.rounds or cap
        context = graph.context or inherited
        index = {node.id: number for number, node in enumerate(graph.nodes)}
        breaker = graph.breaker or breaker
        nodes = tuple(
            self._node(number, node, cap, breaker, context) for number, node in enumerate(graph.nodes)
        )
        edges = () if graph.is_majority_voting else graph.edges
        plans = tuple(self._edge(number, edge, index) for number, edge in enumerate(edges))
        _connect(nodes, plans)
        ends = _ends(graph, nodes, index)
        every = graph.is_majority_voting
        start = tuple(range(len(nodes)) if every else (index[name] for name in graph.start))
        for place in start:
            nodes[place].is_start = True
        for place in ends:
            nodes[place].is_end = True
        for node in nodes:
            node.carries = index.get(node.kind.carries(node.config))
            if self.semantics and node.kind.hears(node.config):  # before, only what arrived was counted
                node.hears = tuple(other.index for other in nodes if _has_voice(other))
            for number in (*node.hears, node.carries):
                if number is not None:
                    nodes[number].is_carried = True
        for node in nodes:
            node.output_retained = node.is_end or node.is_carried or node.window != 0
        caps = {index[name]: loop.cap for name, loop in graph.loops.items() if loop.cap}
        self.limits.append(graph.limits)
        self.limits += [loop.limits for loop in graph.loops.values() if loop.limits is not None]
        plan = GraphPlan(graph, nodes, plans, start, ends, graph.vars, caps, cap, index, breaker)
        plan.family = self.graphs
        self.graphs.append(plan)
        self._set_contexts(plan, context, around)
        return plan

    def _set_contexts(self, graph: GraphPlan, inherited: Context | None, around: BodyContext) -> None:
        """Decides what each agent of a graph sees."""
        in_loops: frozenset[int] | None = None
        for node in graph.nodes:
            view = node.kind.context(node.config)
            if view is None:
                continue
            own = node.node.context_window is None and view.context is None
            alone = not any(edge.keep or edge.source == edge.target for edge in node.into)
            if own and alone and in_loops is None:  # scopes are compiled only where the answer needs them
                in_loops = _nodes_in_loops(graph)
            if own and alone and self.semantics and (around == "loop" or node.index in (in_loops or ())):
                policy: ContextPolicy = "task"
            else:
                policy = view.context.policy if view.context is not None else "message"
            if around == "speakers":
                policy = "message"
            if policy != "message" or view.reads & {"task", "previous"}:
                clears = any(edge.direct and edge.clear for edge in node.into)
                node.context = ContextPlan(policy, clears)
            sees_more = policy != "message" or view.recalls or view.reads & SEES_EARLIER or not alone
            node.blind = (
                not sees_more
                and view.context is None
                and (
                    around == "fresh"
                    or (node.node.context_window == 0 and node.index in _nodes_in_loops(graph))
                )
            )

    def _node(self, number: int, node: Node, cap: int, breaker: Breaker, context: Context | None) -> NodePlan:
        node = _with_context(node, context)
        # Sites are taken before the bodies are compiled, so a node comes before the nodes inside it.
        label = address_label(node.id)
        site = len(self.sites)
        window = node.context_window or 0
        plan = NodePlan(number, site, node.id, label, node, node.kind, node.config, window)
        self.sites.append(plan)
        plan.explicit_ports = explicit_ports(node.kind, node.config)
        plan.asks = node.kind.asks
        plan.is_speaker = node.kind.asks or node.kind.speaks
        plan.has_tool_loop = node.kind.conversation(node.config) is not None
        plan.has_follow_up = not plan.has_tool_loop and node.kind.follow_up(node.config) is not None
        plan.reserve = node.kind.reserve(node.config, self.workflow)
        if node.limits is not None:
            self.limits.append(node.limits)
        plan.logs_output = node.log_output
        inner = (node.limits.rounds if node.limits is not None else None) or cap
        plan.is_external = not (node.kind.pure or plan.is_speaker or node.kind.bodies(node.config))
        around = node.kind.body_context(node.config)
        plan.gives_task = around in ("loop", "fresh", "given")
        plan.bodies = tuple(
            self.graph(body, inner, breaker, context if plan.gives_task else None, around)
            for body in node.kind.bodies(node.config)
        )
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
        """The name if the host calls the function; None if there is none or it is built in.

        A function that the workflow registers takes precedence over a built-in one with the same name.
        """
        if name is None or (name not in self.workflow.functions and get_builtin(kind, name) is not None):
            return None
        return name


def _with_context(node: Node, context: Context | None) -> Node:
    """A node with the context of the graph around it, if it says nothing itself."""
    kind = node.kind
    if context is None or kind.with_context is None or node.context_window is not None:
        return node
    view = kind.context(node.config)
    if view is None or view.context is not None:
        return node
    return replace(node, config=kind.with_context(node.config, context))


def _nodes_in_loops(graph: GraphPlan) -> frozenset[int]:
    """The nodes that are part of a free loop, with its side nodes."""
    return frozenset(member for unit in graph.root.units if unit.node is None for member in unit.members)


SEES_EARLIER = frozenset({"task", "previous", "state", "run"})
"""Variables of a prompt that show more than the newest message."""


def _connect(nodes: tuple[NodePlan, ...], edges: tuple[EdgePlan, ...]) -> None:
    """Sets the edges of each node, and the flags that follow from them."""
    into: dict[int, list[EdgePlan]] = {}
    out: dict[int, list[EdgePlan]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
        out.setdefault(edge.source, []).append(edge)
    for node in nodes:
        node.edges = tuple(out.get(node.index, ()))
        node.has_host_functions = any(edge.has_host_functions for edge in node.edges)
        for edge in node.edges:
            edge.explicit = edge.port in node.explicit_ports
        node.has_error_edges = any(edge.trigger and edge.port == ERROR_PORT for edge in node.edges)
        arriving = into.get(node.index, [])
        node.into = tuple(arriving)
        node.arriving = len(arriving)
        node.retains_messages = node.window != 0 or any(
            edge.keep or edge.has_host_functions for edge in arriving
        )
        node.has_dynamic_input = any(edge.dynamic for edge in arriving)
        node.has_data_input = any(not edge.trigger for edge in arriving)
        # A data edge is never direct: its message may be too late for the round and must keep its key.
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
    # Without `end`, the sinks are the ends, in the order of the file. An edge to itself does not count,
    # nor does one that only a failure, a timeout or an exit takes: the node still ends the usual way.
    return tuple(
        node.index for node in nodes if all(edge.explicit or edge.target == node.index for edge in node.edges)
    )
