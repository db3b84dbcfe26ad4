"""What may come up in a run beside the units of a scope, which the agenda names by their numbers.

Why the breaker locks a run: one table, from which texts, locks and unlocks are made.

To add a reason, add an entry here and call `breaker.trip` with its name where it is noticed.

Graphs and loops at work: what each of them knows of the round that it is in.

Nodes at work: on one call, on parts, in turns, in talk.

The state of a run: what is needed for the next step, and no more. The past is in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from roundel.kernel.budget import Budget
from roundel.kernel.commands import Command, Intercept
from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import Decisions, InterceptPoints, Outcome
from roundel.kernel.queue import Arrival, Key
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.fan_out import FanOut
from roundel.workflow.limits import dollars
from roundel.workflow.message import Message

NEXT_ROUND = -1
"""Stands in the agenda for a unit: the loop's next round is to begin."""

GRAPH_OVER = -2
"""Stands in the agenda for a unit: the graph has run to its end."""

LOOP_OVER = -3
"""Stands in the agenda for a unit: the loop has ended, and with it a unit of the scope around it."""

BODY_ENDED_EARLY = -4
"""Stands in the agenda for a unit, behind a performance: a body of it has ended out of turn."""

BEGIN_COMPOSITE = -5
"""Stands in the agenda for a unit, behind a performance: it is to begin."""

START_ITERATIONS = -6
"""Stands in the agenda for a unit, behind a performance: turns of it may start."""

START_PARTS = -7
"""Stands in the agenda for a unit, behind an expansion: further parts of it may start."""

START_CALLS = -8
"""Stands in the agenda for a unit, behind a talk: its next errands may start."""

ASK_BEHAVIOUR = -9
"""Stands in the agenda for a unit, behind a performance: its behaviour may be asked."""


class Trip(Struct, frozen=True):
    """A reason to lock a run."""

    text: str
    """The reason, as people read it."""
    limits: tuple[str, ...] = ()
    """The figures of the evidence that may be the limit; the first one that is there is."""
    raises: str = ""
    """The limit that a person may raise to unlock the run; empty if there is none."""
    reached: Callable[[Run], float] = lambda _run: 0.0
    """What has been used of that limit."""


TRIPS = {
    "dead_loop": Trip("the loop goes in circles", ("threshold",)),
    "token_surge": Trip(
        "far more tokens than expected",
        ("factor",),
        raises="tokens",
        reached=lambda run: run.usage["input_tokens"] + run.usage["output_tokens"],
    ),
    "timeout": Trip("too much time", ("limit",), raises="seconds", reached=lambda run: run.worked),
}


class GraphInstance:
    """One execution of a graph: the run's own, or one call of a subgraph."""

    __slots__ = (
        "arrivals",
        "budgets",
        "caller",
        "cancelled",
        "composite_run",
        "fired",
        "histories",
        "iteration",
        "marks",
        "memory",
        "ordinals",
        "outputs",
        "plan",
        "prefix",
        "queues",
        "stem",
    )

    def __init__(self, plan: GraphPlan, prefix: str, caller: Execution | None, ordinals: list[int]) -> None:
        count = len(plan.nodes)
        self.plan = plan
        self.prefix = prefix
        self.stem = prefix
        """What the addresses of its loops begin with."""
        self.caller = caller
        self.composite_run: CompositeRun | None = None
        self.iteration: Iteration | None = None
        """Which turn of a performance it is."""
        self.cancelled = False
        self.ordinals = ordinals
        self.queues: list[list[Message]] = [[] for _ in range(count)]
        self.arrivals: list[list[Arrival]] = [[] for _ in range(count)]
        self.marks = bytearray(count)
        self.fired = bytearray(len(plan.edges))
        self.memory: dict[int, Any] = {}
        self.histories: dict[int, LoopHistory] = {}
        """What was said in its free loops, by their entries."""
        self.budgets: dict[str, Any] = {}
        """What its graph, its loops and its nodes may spend, once they have begun."""
        self.outputs: dict[int, tuple[Message, ...]] = {}


class LoopSummary:
    """What the summary says of a loop: its rounds over all entries, and why it was last left."""

    __slots__ = ("entries", "exit_reason", "last", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self.exit_reason = ""
        self.entries = 0
        self.last: Key = ()

    def left(self, reason: str, order_key: Key) -> None:
        """Of several that ran at the same time, the last in order tells why, not the slowest."""
        if order_key >= self.last:
            self.exit_reason, self.last = reason, order_key


class Activation:
    """A scope at work: the whole graph, or a loop in one of its rounds."""

    __slots__ = (
        "base",
        "budgets",
        "exit_by",
        "exit_layer",
        "exit_position",
        "exit_reason",
        "instance",
        "left",
        "loop_round",
        "name",
        "parent",
        "prefix",
        "record",
        "round",
        "run",
        "scope",
        "stem",
        "unit",
        "waits",
    )

    def __init__(
        self,
        run: Run,
        instance: GraphInstance,
        scope: Scope,
        parent: Activation | None = None,
        unit: Unit | None = None,
        record: LoopSummary | None = None,
    ) -> None:
        self.run = run
        self.instance = instance
        self.scope = scope
        self.parent = parent
        self.unit = unit
        self.record = record or LoopSummary()
        self.round = 0
        self.loop_round = 0
        """The round; 0 for the whole graph, which is no loop."""
        self.waits: list[int] = []
        self.left = 0
        self.exit_layer: int | None = None
        self.exit_position = 0
        self.exit_reason = ""
        self.exit_by = ""
        self.budgets: dict[int, tuple[Budget, ...]] = {}
        """Those that its nodes draw on, by node, once they have run."""
        self.base: Key = ()
        self.name = ""
        self.prefix = instance.prefix
        self.stem = ""
        if parent is not None and unit is not None and scope.entry is not None:
            # The loops around this one stand still while it is at work, so what they add to an
            # address and to the order of messages is made once.
            entry = instance.plan.nodes[scope.entry]
            self.name = entry.id
            self.base = (*parent.key, unit.layer, unit.position)
            self.stem = f"{parent.outer}{entry.label}["

    def next_round(self) -> None:
        scope = self.scope
        self.round += 1
        self.waits = list(scope.waits)
        self.left = len(scope.units)
        if self.parent is not None:
            self.loop_round = self.round
            self.record.rounds += 1
            self.prefix = f"{self.stem}{self.round}]/"

    @property
    def key(self) -> Key:
        """Its place in the order of all that happens in the graph."""
        return (*self.base, self.round)

    @property
    def address(self) -> str:
        return self.prefix[:-1]

    @property
    def outer(self) -> str:
        """What the address of a loop in this scope begins with."""
        return f"{self.address}." if self.parent is not None else self.instance.stem

    def expression_values(self) -> dict[str, Any]:
        """What an expression on an edge knows beside its message."""
        run = self.run
        shown = {"id": run.run_id, "input": run.input[-1].text if run.input else ""}
        return {"round": self.loop_round, "run": shown, "vars": self.instance.plan.vars}


def order_key(activation: Activation) -> Key:
    """When something happens in the order of the whole run, in which nothing happens at the same time."""
    key, instance = activation.key, activation.instance
    while (caller := instance.caller) is not None:
        iteration = instance.iteration.round if instance.iteration is not None else 0
        part = caller.part[1] if caller.part is not None else 0
        key = (*caller.activation.key, caller.unit.layer, caller.unit.position, part, iteration, *key)
        instance = caller.activation.instance
    return key


class Execution(Struct):
    """A node at work."""

    activation: Activation
    unit: Unit
    node: NodePlan
    address: str
    command: Command | None = None
    part: tuple[Expansion, int] | None = None
    intercept: Intercept | None = None
    """What middleware is asked about it, if it is."""
    outcomes: list[Outcome] = []
    """What it gave, while functions on its edges or middleware are asked."""
    owner: CompositeRun | ToolLoop | None = None
    """Whose business the answer to the command is, if it is not that of the node as a whole."""
    loop_call: Any = None
    """Which errand of a talk it is."""
    reserved: dict[str, int] | None = None
    """What it may spend at most, as far as anybody knows."""


class Expansion:
    """A node at work on the parts of what dynamic edges brought."""

    __slots__ = (
        "base",
        "dynamic",
        "execution",
        "extra_calls",
        "groups",
        "layer",
        "outcomes",
        "shared",
        "started",
        "width",
    )

    def __init__(
        self, execution: Execution, dynamic: FanOut, shared: tuple[Message, ...], width: int
    ) -> None:
        self.execution = execution
        self.dynamic = dynamic
        self.shared = shared
        self.width = width
        self.layer = 0
        self.base = list(execution.activation.instance.ordinals)
        self.groups: list[tuple[Message, ...]] = []
        self.outcomes: list[Outcome | None] = []
        self.started = 0
        self.extra_calls = 0
        """The calls that its parts made beyond one each."""


class Iteration(Struct, frozen=True):
    """One run of one body of a node that conducts."""

    body: int
    inputs: tuple[Message, ...]
    round: int
    parallel_index: int | None = None
    """Its number among turns that run at the same time; None if it runs alone."""
    repeat: int = 0
    """How often its body has run in this round before."""


class CompositeRun:
    """A node at work that conducts: its bodies run in turns, as its conductor says."""

    __slots__ = (
        "base",
        "controller",
        "execution",
        "history",
        "in_flight",
        "inputs",
        "pending",
        "question",
        "record",
        "round",
        "stem",
    )

    def __init__(
        self, execution: Execution, controller: Any, inputs: tuple[Message, ...], record: LoopSummary
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.controller = controller
        self.inputs = inputs
        self.record = record
        self.history = LoopHistory()
        self.round = 0
        self.pending: list[Iteration] = []
        self.question: Any = None
        """What the node's behaviour is to be asked: the state of its call, and what it is about."""
        self.in_flight: list[GraphInstance] = []
        self.base = list(activation.instance.ordinals)
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["


class ToolLoop:
    """A node at work that takes several calls: a model, the tools that it asks for, the model again."""

    __slots__ = ("calls", "conversation", "execution", "in_flight", "inputs", "ordinal", "pending", "stem")

    def __init__(
        self, execution: Execution, conversation: Any, inputs: tuple[Message, ...], ordinal: int
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.conversation = conversation
        self.inputs = inputs
        self.ordinal = ordinal
        self.calls = 0
        """How many calls the node itself has made."""
        self.pending: list[Any] = []
        self.in_flight = 0
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["


class Lock(Struct, frozen=True):
    """Why a run is locked."""

    what: str
    limit: float
    address: str
    node_id: str = ""
    evidence: dict[str, Any] = {}

    def __str__(self) -> str:
        return TRIPS[self.what].text if self.what in TRIPS else f"limit of {self.limit} {self.what}"


_BEGINNING = stamp(0)


class GuardStats:
    """What is known of a run that its guards go by."""

    __slots__ = (
        "aside",
        "expected",
        "first_calls",
        "largest_calls",
        "last_unlock",
        "raised_caps",
        "surge_allowance",
        "surge_baseline",
    )

    def __init__(self) -> None:
        self.largest_calls: dict[int, tuple[int, int]] = {}
        """The tokens and the cost, in picodollars, of each node's largest model call."""
        self.first_calls: list[int] = []
        """The tokens of the first model calls."""
        self.expected: tuple[int, float] | None = None
        """The model calls of the forecast, and the tokens of each; worked out when first needed."""
        self.aside = 0
        """The tokens of what is no model call: nobody expected any, and they are no surge."""
        self.surge_baseline = 0.0
        """What had been spent when a person last let a surge go on."""
        self.surge_allowance = 0.0
        """What a person has allowed to be spent before the next surge is seen."""
        self.raised_caps: dict[int, int] = {}
        """Caps that a person has raised, by the site of the loop's entry."""
        self.last_unlock = ""
        """What was unlocked last without any change."""


class Run:
    """A run between two steps."""

    __slots__ = (
        "budgeted",
        "calls",
        "commands",
        "deadline",
        "decisions",
        "error",
        "events",
        "fast_path",
        "guard_stats",
        "has_cancelled",
        "held",
        "input",
        "intercept_flags",
        "intercepts",
        "lock",
        "lock_budget",
        "loops",
        "note",
        "ordinals",
        "output",
        "paused",
        "plan",
        "question_counts",
        "ready_queue",
        "root",
        "run_counts",
        "run_id",
        "seq",
        "since",
        "stamp",
        "started_at",
        "status",
        "time_limit",
        "until",
        "usage",
    )

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.run_id = ""
        self.status = "new"
        self.input: tuple[Message, ...] = ()
        self.output: Message | None = None
        self.error: str | None = None
        self.lock: Lock | None = None
        self.paused = ""
        """Why nothing new is to begin; empty if it may."""
        self.has_cancelled = False
        """Some graphs were called off, and what comes up in them is passed over."""
        self.since = self.until = 0.0
        self.stamp = _BEGINNING
        self.seq = 0
        self.budgeted = plan.budgeted
        self.guard_stats = GuardStats()
        self.lock_budget: Budget | None = None
        """The budget that the run is locked by, if it is one."""
        self.started_at = 0.0
        """When it began, as if it had worked ever since: what was nobody's work is added."""
        self.time_limit = self.deadline = plan.time_limit
        """The seconds that it may work, and when they are over."""
        self.note: Message | None = None
        """A person's word to the next node that runs."""
        self.root: GraphInstance | None = None
        self.calls: dict[str, Execution] = {}
        self.ready_queue: list[tuple[Any, int]] = []
        """What has come up and is to be decided: an activation (or expansion), and a unit of it."""
        self.held: list[tuple[Any, int]] = []
        """What came up while the run was locked or paused."""
        self.loops: dict[str, LoopSummary] = {}
        self.ordinals = [0] * len(plan.sites)
        """How many calls each node has made, by site; parts that run at the same time count apart."""
        self.question_counts: dict[tuple[str, int, str], int] = {}
        """How often people were asked in a talk: where, by which site, about what."""
        self.run_counts = [0] * len(plan.sites)
        """How often each node has run, by site."""
        self.usage: dict[str, int] = {
            "model_calls": 0,
            "tool_calls": 0,
            "input_tokens": 0,
            "output_tokens": 0,
            "cost_usd": 0,
            "unpriced_calls": 0,
        }
        """What has been used; money in picodollars."""
        self.intercepts = InterceptPoints()
        self.intercept_flags = bytearray(len(plan.sites))
        """When middleware is asked about a node, by site (review.py)."""
        self.fast_path = True
        """There is no error, no lock, no pause, nothing torn: what comes up needs no second look."""
        self.decisions = Decisions()
        self.commands: list[Command] = []
        self.events: list[Event] = []

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "stopped")

    def set_time(self, now: float) -> None:
        # Many steps fall into one millisecond; its text is made once.
        if not self.since <= now < self.until:
            self.since = int(now * 1000) / 1000
            self.until = self.since + 0.001
            self.stamp = stamp(now)

    @property
    def worked(self) -> float:
        """The seconds that something other than people was at work."""
        return self.since - self.started_at

    def allow(self, seconds: float) -> None:
        """So long it may work, in all."""
        self.time_limit, self.deadline = seconds, self.started_at + seconds

    def exclude_idle_time(self, until: float) -> None:
        """Since the last fact nobody was at work, or people alone."""
        gap = until - self.since
        if gap > 0:
            self.started_at += gap
            self.deadline += gap

    def emit(self, event: str, node_id: str | None, address: str | None, data: dict[str, Any]) -> None:
        self.seq = seq = self.seq + 1
        self.events.append(Event(seq, event, self.stamp, self.run_id, node_id, address, data))

    def _nodes(self) -> dict[str, int]:
        nodes: dict[str, int] = {}
        for node, count in zip(self.plan.sites, self.run_counts, strict=True):
            if count:
                nodes[node.id] = nodes.get(node.id, 0) + count
        return nodes

    def _usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = dict(self.usage)
        unpriced = usage["unpriced_calls"]
        if unpriced and unpriced >= usage["model_calls"] and not usage["cost_usd"]:
            usage["cost_usd"] = None  # nobody knows, which is not the same as nothing
        else:
            usage["cost_usd"] = dollars(self.usage["cost_usd"])
        return usage

    def summary(self) -> dict[str, Any]:
        """What `run_finished` says."""
        data: dict[str, Any] = {
            "status": self.status,
            "output": self.output.text if self.output else "",
            "nodes": self._nodes(),
            "loops": {
                name: {"rounds": loop.rounds, "exit_reason": loop.exit_reason, "entries": loop.entries}
                for name, loop in self.loops.items()
            },
            "usage": self._usage(),
        }
        if self.output is not None and self.output.data:
            data["data"] = self.output.data
        if self.error is not None:
            data["error"] = self.error
        if self.lock is not None:
            data["lock"] = msgspec.to_builtins(self.lock)
        return data
