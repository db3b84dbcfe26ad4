"""The state of a run between two steps: what the next step needs, and no more. The past is in the
journal.

    Run              one run: status, usage, calls in flight, ready queue
    GraphInstance    one execution of a graph: queues, marks and node states
    Activation       one running scope of it: the whole graph, or a loop in its current round
    Execution        one node in flight
    Expansion        a node that runs once for each part of the input of a dynamic edge
    CompositeRun     a loop agent, debate or vote that runs its bodies in iterations
    ToolLoop         an agent that alternates between model calls and tool calls

Only the kernel creates and changes these objects. They have `__slots__` because one is created for
nearly every node that runs, and because the snapshot (snapshot.py) takes the fields of each class from
them: a field that is added here is part of every later snapshot, and makes older ones unreadable, unless
snapshot.py says what it is in them (`_ADDED_FIELDS`).

`ready_queue` and `held` contain pairs of an object and a number. A number >= 0 is a unit of an
activation's scope; a negative number is one of the constants below, and names what may happen to the
object. Numbers instead of callables, since a snapshot has to store the entries of `held`.

`TRIPS` is the one table of reasons for which the breaker locks a run; texts, locks and unlocks are made
from it. To add a reason, add an entry and call `breaker.trip` with its name where the condition is
detected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from roundel.kernel.budget import Budget, LargestCall
from roundel.kernel.commands import CallContext, Command, Intercept
from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.events import Event, RunStatus, is_over, stamp
from roundel.kernel.facts import (
    Decisions,
    EdgeResult,
    InheritedResult,
    InterceptPoints,
    Outcome,
    failure_data,
)
from roundel.kernel.payloads import (
    EventData,
    LoopTotals,
    RunFinished,
    RunStateChanged,
    RunUsage,
    StateCause,
    Warned,
)
from roundel.kernel.queue import Arrival, Delivery, Key
from roundel.plan.address import parse
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.address import AddressError, Path, PathStep
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.fan_out import FanOut
from roundel.workflow.limits import dollars
from roundel.workflow.message import Message

if TYPE_CHECKING:  # they import the state
    from roundel.kernel.composite import Controller
    from roundel.kernel.tool_loop import Conversation

NEXT_ROUND = -1
"""Queue entry of an Activation: the next round of the loop may begin."""

GRAPH_OVER = -2
"""Queue entry of a root Activation: the graph has ended."""

LOOP_OVER = -3
"""Queue entry of an Activation: the loop has ended, which settles its unit in the scope around it."""

BODY_ENDED_EARLY = -4
"""Queue entry of a tuple (GraphInstance, how, what): a body was ended by a failure, `break` or
`continue`."""

BEGIN_COMPOSITE = -5
"""Queue entry of a CompositeRun: it may begin."""

START_ITERATIONS = -6
"""Queue entry of a CompositeRun: its pending iterations may start."""

START_PARTS = -7
"""Queue entry of an Expansion: further parts may start."""

START_CALLS = -8
"""Queue entry of a ToolLoop: its pending calls may start."""

ASK_BEHAVIOUR = -9
"""Queue entry of a CompositeRun: its question may be sent to the node's behaviour."""


START_AGAIN = -10
"""Queue entry of a Failure: what failed, or was cancelled with the run, may start again."""

SEND_FAILURE = -11
"""Queue entry of a HandledFailure: the failure of a graph goes along the error edges of its caller."""


class Trip(Struct, frozen=True):
    """A reason for which the breaker locks a run; an entry of `TRIPS`."""

    text: str
    """The reason, for people."""
    limits: tuple[str, ...] = ()
    """Names of figures in the evidence that can be the limit; the first one present is used."""
    raises: str = ""
    """The limit that an unlock may raise; empty if there is none."""
    reached: Callable[[Run], float] = lambda _run: 0.0
    """The current usage of that limit."""


CRASHES, TIMEOUT, MANUAL, GROUP_LIMIT = "crashes", "timeout", "manual", "group_limit"
TRIPS = {
    CRASHES: Trip("its process died again and again", ("crashes",)),
    "dead_loop": Trip("the loop goes in circles", ("threshold",)),
    "token_surge": Trip(
        "far more tokens than expected",
        ("factor",),
        raises="tokens",
        reached=lambda run: run.usage["input_tokens"] + run.usage["output_tokens"],
    ),
    TIMEOUT: Trip("too much time", ("limit",), raises="seconds", reached=lambda run: run.worked),
    MANUAL: Trip("a person locked it"),
    GROUP_LIMIT: Trip("a limit that all runs of a group or a token share is reached", ("limit",)),
}


UNPRICED = "unpriced"
"""The lock after a call whose cost is not known, under a limit on the cost."""


class GraphInstance:
    """One execution of a graph: the run's own, one call of a subgraph, or one iteration of a composite
    node.

    All lists and bytearrays are indexed by node or edge number of the plan.
    """

    __slots__ = (
        "arrivals",
        "budgets",
        "caller",
        "cancelled",
        "composite_run",
        "fired",
        "histories",
        "input",
        "iteration",
        "marks",
        "memory",
        "ordinals",
        "outputs",
        "path",
        "plan",
        "prefix",
        "queues",
        "stem",
        "triggers",
    )

    def __init__(
        self, plan: GraphPlan, prefix: str, caller: Execution | None, ordinals: list[int], path: Path = ()
    ) -> None:
        count = len(plan.nodes)
        self.plan = plan
        self.prefix = prefix
        self.path: Path = path
        """What is around its nodes."""
        self.input: tuple[Message, ...] = ()
        """What its start nodes got."""
        self.stem = prefix
        """The prefix of the addresses of its loops."""
        self.caller = caller
        self.composite_run: CompositeRun | None = None
        self.iteration: Iteration | None = None
        """The iteration of a composite node that this is; None otherwise."""
        self.cancelled = False
        # Shared with the caller's instance, so that ordinals count over the whole run. Instances that
        # run in parallel get their own copy, which `add_ordinals` merges when they end: otherwise an
        # ordinal would depend on which of them was quicker.
        self.ordinals = ordinals
        self.queues: list[list[Message]] = [[] for _ in range(count)]
        self.arrivals: list[list[Arrival]] = [[] for _ in range(count)]
        self.marks = bytearray(count)
        self.fired = bytearray(len(plan.edges))
        self.triggers: dict[int, list[str]] = {}
        """Where several edges can begin a round: whose edges have marked its entry, by entry."""
        self.memory: dict[int, Any] = {}
        self.histories: dict[int, LoopHistory] = {}
        """The histories of its free loops, by entry node, for the breaker."""
        self.budgets: dict[str, Any] = {}
        """The budgets of its graph, loops and nodes, created when the first node draws on them."""
        self.outputs: dict[int, tuple[Message, ...]] = {}


class AgentMemory(Struct, frozen=True):
    """What an agent remembers of one entry of its loop (context.py)."""

    own: tuple[Message, ...] = ()
    """Its last output, in the role `assistant`."""
    history: tuple[Message, ...] = ()
    """What it got and said in all earlier runs, without the task; only with the policy `history`."""


class LoopSummary:
    """The numbers of one loop in `run_finished`: rounds over all entries, and the reason of the last
    exit."""

    __slots__ = ("best", "entries", "exit_reason", "last", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self.best: int | None = None
        """The best round of the entry that ended with `exit_reason`."""
        self.exit_reason = ""
        self.entries = 0
        self.last: Key = ()

    def left(self, reason: str, order_key: Key, best: int | None) -> None:
        """Records an exit.

        Of several instances that ran in parallel, the last one in the order of the run names the reason,
        not the one that finished last: the summary must not depend on timing.
        """
        if order_key >= self.last:
            self.exit_reason, self.last, self.best = reason, order_key, best


class LoopEntry:
    """One entry of a loop, from its first round to its exit (rounds.py)."""

    __slots__ = ("began", "best", "best_score", "clocks", "limit", "limit_by", "number", "usage")

    def __init__(self, number: int, began: float) -> None:
        self.number = number
        """Which entry of the loop it is, from 1."""
        self.began = began
        self.limit = 0
        """For a loop of edges: the most rounds, the guard that the limit follows from, and guards that count
        no rounds."""
        self.limit_by = ""
        self.clocks: tuple[str, ...] = ()
        self.best: int | None = None
        """The round with the highest score."""
        self.best_score = 0.0
        self.usage: dict[str, int] | None = None
        """What its finished rounds have used, with money in picodollars; None if there were no calls."""

    def note_score(self, number: int, score: float) -> None:
        """Notes the score of a round. Of equal ones the first is the best, whichever of two rounds that run
        beside each other was quicker."""
        best = self.best
        if best is None or score > self.best_score or (score == self.best_score and number < best):
            self.best, self.best_score = number, score


class OpenRound:
    """A round that has begun (rounds.py). For a loop of edges one object serves all rounds of an entry."""

    __slots__ = (
        "address",
        "began",
        "entry",
        "failures",
        "is_over",
        "is_plain",
        "lane",
        "path",
        "score",
        "started_at",
        "usage",
    )

    def __init__(self, entry: LoopEntry) -> None:
        self.entry = entry
        self.began = self.started_at = 0.0
        """When it began, and the start time of the run by then, which moves forward by all idle time."""
        self.is_over = False
        self.is_plain = True
        """It has neither usage nor a score, and nothing in it has failed."""
        self.lane = 0
        self.address = ""
        """Its address and path, for a round of a node that repeats by itself."""
        self.path: Path = ()
        self.score: float | None = None
        self.usage: dict[str, int] | None = None
        """What everything inside has used; None if there were no calls."""
        self.failures = 0


class LastOutput(Struct, frozen=True):
    """What a node said last in one entry of a loop. `Activation.record_output` creates it."""

    round: int
    message: Message
    before: Message | None = None
    """What it had said last when that round began."""


class Activation:
    """A running scope: the whole graph, or a loop in its current round.

    One object serves all rounds of one entry of a loop; `next_round` resets what belongs to a round.
    """

    __slots__ = (
        "address",
        "base",
        "budgets",
        "entry",
        "exit_by",
        "exit_kept",
        "exit_layer",
        "exit_position",
        "exit_reason",
        "instance",
        "last_outputs",
        "left",
        "loop_round",
        "memories",
        "name",
        "open",
        "parent",
        "path",
        "prefix",
        "record",
        "round",
        "run",
        "scope",
        "stem",
        "task",
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
        """The round that expressions see; 0 for the whole graph, which is no loop."""
        self.waits: list[int] = []
        self.left = 0
        # `waits`: for each unit, how many others it still waits for. `left`: how many units have not
        # settled. Layers after `exit_layer` do not run; all of that layer does, so that an exit never
        # depends on timing.
        self.exit_layer: int | None = None
        self.exit_position = 0
        self.exit_reason = ""
        self.exit_by = ""
        self.exit_kept: int | None = None
        self.entry: LoopEntry | None = None
        self.open: OpenRound | None = None
        """The round that it is: of a loop of edges, or of the node whose body it is; None otherwise."""
        self.budgets: dict[int, tuple[Budget, ...]] = {}
        """Cache: the budgets that each node draws on, by node."""
        self.last_outputs: dict[int, LastOutput] = {}
        """What the nodes of this loop said last in this entry, by node, for those whose messages another
        node carries."""
        self.base: Key = ()
        self.name = ""
        self.task: tuple[Message, ...] = ()
        """What the entry of the loop took in round 1."""
        self.memories: dict[int, AgentMemory] = {}
        """What the agents of the loop remember, by node."""
        self.prefix = instance.prefix
        self.path = instance.path
        """What is around its nodes. One tuple for all events of a round."""
        self.address = self.prefix[:-1]
        self.stem = ""
        if parent is not None and unit is not None and scope.entry is not None:
            # The rounds of the loops around this one cannot change while it runs, so their part of the
            # address and of the message key is computed once per entry.
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
            self.address = address = f"{self.stem}{self.round}]"
            self.prefix = address + "/"
            self.path = (*self.parent.path, PathStep(self.name, None, self.round))

    def record_output(self, node: int, message: Message) -> None:
        """Stores the last message of a node, for this loop and those around it."""
        activation = self
        while activation.parent is not None:
            last = activation.last_outputs.get(node)
            before = None if last is None else last.before if last.round == activation.round else last.message
            activation.last_outputs[node] = LastOutput(activation.round, message, before)
            activation = activation.parent

    def carried_message(self, unit: Unit, node: int) -> Message | None:
        """The last message of a node, for the node of `unit`, which carries it. Where nothing orders the two,
        that of an earlier round, so that it does not depend on which of them is quicker."""
        last = self.last_outputs.get(node)
        if last is None or last.round < self.round or node in unit.hears_this_round:
            return None if last is None else last.message
        return last.before

    def heard_messages(self, unit: Unit, node: NodePlan) -> tuple[Message, ...] | None:
        """What the agents and people of this loop said last in the round that the node ends, each with its
        speaker; None if fewer than two of them can. The entry of a loop ends the round before. A node that
        only runs after this one belongs to the next round."""
        at_entry = node.index == self.scope.entry
        speakers = [
            speaker
            for speaker in node.hears
            if speaker in (self.scope.members if at_entry else unit.hears_this_round)
        ]
        if self.parent is None or len(speakers) < 2:
            return None
        round, nodes = self.round - at_entry, self.instance.plan.nodes
        return tuple(
            msgspec.structs.replace(
                last.message, metadata={**(last.message.metadata or {}), "source": nodes[speaker].id}
            )
            for speaker in speakers
            if (last := self.last_outputs.get(speaker)) is not None and last.round == round
        )

    @property
    def key(self) -> Key:
        """Its position in the order of the graph: (round, layer, place in the file), repeated
        inwards."""
        return (*self.base, self.round)

    @property
    def outer(self) -> str:
        """The prefix of the address of a loop in this scope."""
        return f"{self.address}." if self.parent is not None else self.instance.stem

    def expression_values(self) -> dict[str, Any]:
        """The variables of an expression on an edge, besides its message."""
        run = self.run
        run_values = {"id": run.run_id, "input": run.input[-1].text if run.input else ""}
        return {"round": self.loop_round, "run": run_values, "vars": self.instance.plan.vars}


def order_key(activation: Activation) -> Key:
    """The position of an activation in the total order of the whole run, across subgraphs.

    Unlike the order in which facts arrive, it is the same in every execution with the same outcomes.
    """
    key, instance = activation.key, activation.instance
    while (caller := instance.caller) is not None:
        iteration = instance.iteration.round if instance.iteration is not None else 0
        part = caller.part[1] if caller.part is not None else 0
        key = (*caller.activation.key, caller.unit.layer, caller.unit.position, part, iteration, *key)
        instance = caller.activation.instance
    return key


class Execution(Struct):
    """A node in flight, or one call of its tool loop. The kernel creates it when the node starts."""

    activation: Activation
    unit: Unit
    node: NodePlan
    address: str
    command: Command | None = None
    part: tuple[Expansion, int] | None = None
    intercept: Intercept | None = None
    """The intercept command for middleware, if any applies to the node."""
    outcomes: list[Outcome] = []
    """Its outcomes, while an EvaluateEdges or Intercept command is in flight."""
    owner: CompositeRun | ToolLoop | None = None
    """The receiver of the result of the command, if it is not the node as a whole."""
    loop_call: Any = None
    """The ToolLoopCall, for one call of a tool loop."""
    reserved: dict[str, int] | None = None
    """The amounts that it has reserved in the budgets around it."""
    failure: Failure | None = None
    """The failure that it may handle, while functions of users decide about its error edges."""
    context: CallContext | None = None
    """How its input was composed, for an agent that sees more than its queue."""
    given: tuple[Message, ...] = ()
    """That input."""
    usage: dict[str, int] | None = None
    """What its calls have used, as in `Run.usage`; None if it has made none."""


class EdgeWalk(Struct, frozen=True):
    """How far the messages of a node had walked its edges when a condition or processor failed."""

    outcomes: tuple[Outcome, ...]
    edge_results: tuple[EdgeResult, ...] | None = None
    outcome: int = 0
    message: int = 0
    """The number of the message within that outcome."""
    edge: int = -1
    """The edge that failed; -1 if none of the messages had begun to walk."""


class Failure(Struct):
    """A failure on its way outwards, and afterwards what a retry needs: what has to start again.

    `lifecycle.fail` creates it. A run that fails stores it in `Run.unfinished`, together with one for each
    call that was cancelled with the run, which has no error.
    """

    execution: Execution
    """What starts again: the call that failed, which may be one of several calls of its node."""
    error: str = ""
    type: str = ""
    attempts: int = 1
    node_id: str = ""
    address: str = ""
    """The node that failed, as a whole."""
    walk: EdgeWalk | None = None
    """An edge of the node failed, not the node: its messages continue from here."""
    inputs: tuple[Message, ...] | None = None
    """The input of a node that failed to split it into parts."""
    owner: CompositeRun | None = None
    """The composite node whose question failed, or whose controller failed to decide."""
    decides: bool = False
    """The controller of `owner` failed; there is no call to make again."""
    reason: str = ""
    """Why the same call must fail again; empty if it may succeed."""

    @property
    def data(self) -> dict[str, Any]:
        """The `data` of the message that reports it."""
        return failure_data(self.error, self.type, self.node_id, self.address, self.attempts, self.reason)


class HandledFailure(Struct, frozen=True):
    """A failure of a graph that an error edge of its caller takes."""

    execution: Execution
    """The caller: a subgraph, or a composite node."""
    failure: Failure
    body: GraphInstance
    deliveries: tuple[Delivery, ...]


class Expansion:
    """A node that runs once for each part of what dynamic edges brought. `walk.expand` creates it."""

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
        # The ordinals when it began: each part counts on from its own number, whatever the others do.
        self.base = list(execution.activation.instance.ordinals)
        self.groups: list[tuple[Message, ...]] = []
        self.outcomes: list[Outcome | None] = []
        self.started = 0
        self.extra_calls = 0
        """The number of calls that its parts made beyond one each."""


class Iteration(Struct, frozen=True):
    """One run of one body of a composite node, as the node's controller requests it."""

    body: int
    inputs: tuple[Message, ...]
    round: int
    parallel_index: int | None = None
    """Its number among iterations that run in parallel; None if it runs alone."""
    repeat: int = 0
    """The number of earlier runs of its body in this round."""
    element: str = ""
    """For a round over an element of a list: the beginning of it, and how many there are."""
    elements: int | None = None


class CompositeRun:
    """A composite node in flight, whose controller decides which bodies run when (composite.py)."""

    __slots__ = (
        "base",
        "controller",
        "entry",
        "execution",
        "history",
        "in_flight",
        "inputs",
        "memories",
        "open",
        "pending",
        "question",
        "record",
        "round",
        "stem",
    )

    def __init__(
        self, execution: Execution, controller: Controller, inputs: tuple[Message, ...], record: LoopSummary
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.controller = controller
        self.inputs = inputs
        self.record = record
        self.history = LoopHistory()
        self.memories: dict[int, AgentMemory] = {}
        """What the agents of its body remember, by node."""
        self.round = 0
        self.entry: LoopEntry | None = None
        """None before the first round."""
        self.open: dict[int, OpenRound] = {}
        """The rounds that have begun and are not over, by number; for a loop."""
        self.pending: list[Iteration] = []
        self.question: Any = None
        """The pending question to the node's behaviour: the state of the call, and its inputs."""
        self.in_flight: list[GraphInstance] = []
        self.base = list(activation.instance.ordinals)
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["


class ToolLoop:
    """A node in flight that makes several calls: a model, the tools that it requests, the model
    again."""

    __slots__ = (
        "calls",
        "conversation",
        "execution",
        "in_flight",
        "inputs",
        "model_calls",
        "ordinal",
        "pending",
        "stem",
        "stopped_round",
    )

    def __init__(
        self, execution: Execution, conversation: Conversation, inputs: tuple[Message, ...], ordinal: int
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.conversation = conversation
        self.inputs = inputs
        self.ordinal = ordinal
        self.calls = 0
        """The number of model calls, which are made at the node's own address."""
        self.model_calls = 0
        """How many model calls have begun, also summaries, and those that a retry made again."""
        self.pending: list[Any] = []
        self.in_flight = 0
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["
        self.stopped_round = 0
        """The last round of tools that a debugger could stop before (debugging.py)."""

    def set_inputs(self, inputs: tuple[Message, ...]) -> None:
        """Replaces the input of all calls that follow: a person has edited it, or it was compacted."""
        self.inputs = self.execution.given = inputs


class Lock(Struct, frozen=True):
    """Why a run is locked: the limit, where it was reached, and the evidence to show."""

    what: str
    limit: float
    address: str
    node_id: str = ""
    evidence: dict[str, Any] = {}

    def __str__(self) -> str:
        if self.what == UNPRICED:
            model = self.evidence["model"]
            is_counted = self.evidence.get("missing") != "usage"
            return f"no price is known for {model}" if is_counted else f"{model} reported no usage"
        if self.what == GROUP_LIMIT:
            return shared_limit_text(self.evidence)
        return TRIPS[self.what].text if self.what in TRIPS else f"limit of {self.limit} {self.what}"


def shared_limit_text(figures: dict[str, Any]) -> str:
    """Which limit of a group or a token is reached, by the figures of `CallRefused`."""
    what = figures["what"]
    unit = "dollars" if what == "cost_usd" else what.replace("_", " ")
    return f"the limit of {figures['limit']:.12g} {unit} {figures['per']} of {figures['scope']} is reached"


class RoundStep(Struct, frozen=True):
    """A step to the next round of a loop. `debugging.begin_round_step` creates it."""

    stem: str
    """What the addresses of the rounds of the loop begin with; empty outside of any loop."""
    round: int = 0
    """The last round that has begun."""
    over: bool = False
    """The loop has ended, so the run stops before the next node."""


class DebugState:
    """The breakpoints of a run, and the step that it takes. None in `Run.debug` while nobody debugs it."""

    __slots__ = (
        "breakpoints",
        "hits",
        "problems",
        "reached",
        "rounds_hit",
        "stepping",
        "stopped_at",
        "until",
    )

    def __init__(self) -> None:
        self.breakpoints: list[Breakpoint] = []
        self.hits: dict[str, int] = {}
        """How often each breakpoint was reached, by its text."""
        self.problems: dict[str, str] = {}
        """Why the condition of a breakpoint could not be evaluated the first time, by its text."""
        self.rounds_hit: dict[str, list[str]] = {}
        """The rounds in which a breakpoint on a round was reached: it stops once in each."""
        self.reached: dict[str, tuple[str, ...]] = {}
        """The places that the run has reached and not passed yet, with the breakpoints there."""
        self.stepping = ""
        """The address that may pass although the run is paused: that of the current step."""
        self.stopped_at = ("", "")
        """The address and the breakpoint that paused the run last."""
        self.until: RoundStep | None = None


_BEGINNING = stamp(0)
MAX_WARNINGS = 100
"""Different warnings that a run remembers. Snapshots store them."""


class NodeCalls(Struct, frozen=True):
    """The model calls of one node, as far as a surge of tokens depends on them (token_surge.py)."""

    calls: int = 0
    weight: int = 0
    """How many usual calls they may take together: the call k in one run of an agent counts k."""
    first: tuple[int, ...] = ()
    """The tokens of the first three."""


NO_CALLS = NodeCalls()


class CallTotals(Struct, frozen=True):
    """Sums over the model calls of a run."""

    calls: int = 0
    usual: int = 0
    """The tokens that are usual for them."""
    sizes: int = 0
    """The same without growth: each call counts once."""


class CallForecast(Struct, frozen=True):
    """What the forecast says of the model calls of a run; a stored decision."""

    most: int
    """How many calls the bound allows, up to the number that a surge takes into account."""
    sizes: tuple[int, ...]
    """The usual tokens of a call of each node, by site."""


class GuardStats:
    """Measurements of a run that budgets and breaker rely on, and the newest scores, for lists of runs."""

    __slots__ = (
        "aside",
        "call_forecast",
        "call_totals",
        "expected",
        "first_calls",
        "largest_calls",
        "last_unlock",
        "node_calls",
        "raised_caps",
        "score",
        "scores",
        "surge_allowance",
        "surge_baseline",
        "unpriced_models",
        "warnings",
    )

    def __init__(self) -> None:
        self.largest_calls: dict[int, LargestCall] = {}
        """The largest amounts of each node's model calls, by site."""
        self.first_calls: list[int] = []
        """The tokens of each of the first model calls of the run."""
        self.node_calls: dict[int, NodeCalls] = {}
        """The model calls of each node, by site."""
        self.call_totals = CallTotals()
        self.call_forecast: CallForecast | None = None
        """Computed when first needed."""
        self.expected: tuple[int, float] | None = None
        """Model calls of the forecast and tokens per call; only in runs of semantics 0."""
        self.aside = 0
        """Tokens that were not used by model calls. The forecast has none, so they do not count as a
        surge."""
        self.surge_baseline = 0.0
        """The tokens spent when the breaker last tripped on a surge; added to the estimate."""
        self.surge_allowance = 0.0
        """The tokens that an unlock allows before the next surge can trip."""
        self.raised_caps: dict[int, int] = {}
        """Caps raised by unlocks, by the site of the loop's entry."""
        self.score: float | None = None
        """The newest score that a node returned or reported; it decides nothing."""
        self.scores: dict[str, dict[str, float]] = {}
        """The newest scores of the loops that had one last: for each loop, the last score of each of its
        last rounds, by address (`lifecycle._record_score`). Bounded, since snapshots store it."""
        self.last_unlock = ""
        """The lock that was last unlocked without a change; a second one in a row is refused
        (unlock.py)."""
        self.unpriced_models: list[str] = []
        """Models without a known price that no longer lock the run: a person has accepted them, or a
        warning was given."""
        self.warnings: dict[str, str] = {}
        """The first warnings of the run, each with the address where it was first given."""


def no_usage() -> dict[str, int]:
    """Usage to add to, by name; money in picodollars."""
    return {
        "model_calls": 0,
        "tool_calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0,
        "unpriced_calls": 0,
        "cached_calls": 0,
        "cancelled_calls": 0,
    }


def shown_usage(usage: dict[str, int]) -> RunUsage:
    """Usage for people, with money in dollars."""
    calls, tools, input_tokens, output_tokens, cost, unpriced, cached, cancelled = usage.values()
    # A cost that is not known is not the same as none.
    shown = None if unpriced and unpriced >= calls and not cost else dollars(cost)
    return RunUsage(calls, tools, input_tokens, output_tokens, shown, unpriced, cached, cancelled)


class Run:
    """A run between two steps. A host creates it and changes it only by `step`."""

    __slots__ = (
        "budgeted",
        "calls",
        "commands",
        "deadline",
        "debug",
        "decisions",
        "error",
        "events",
        "fast_path",
        "guard_stats",
        "has_cancelled",
        "held",
        "inherited",
        "input",
        "intercept_flags",
        "intercepts",
        "live_loops",
        "lock",
        "lock_budget",
        "loops",
        "memories",
        "note",
        "ordinals",
        "output",
        "paused",
        "paused_by",
        "plan",
        "question_counts",
        "ready_queue",
        "revision",
        "root",
        "run_counts",
        "run_id",
        "seq",
        "since",
        "stamp",
        "started_at",
        "status",
        "time_limit",
        "unfinished",
        "until",
        "usage",
    )

    def __init__(self, plan: Plan) -> None:  # noqa: PLR0915 (it only has fields)
        self.plan, self.budgeted = plan, plan.budgeted
        self.run_id = ""
        self.status: RunStatus | Literal["new"] = "new"
        self.input: tuple[Message, ...] = ()
        self.output: Message | None = None
        self.error: str | None = None
        self.lock: Lock | None = None
        self.paused = ""
        """The reason of the pause; empty if new work may begin."""
        self.paused_by = ""
        """Who asked for it, if that is known."""
        self.has_cancelled = False
        """Some graph was cancelled, so queue entries have to be checked for that."""
        self.debug: DebugState | None = None
        """The breakpoints and steps of a run that somebody debugs."""
        self.since, self.until, self.stamp = 0.0, 0.0, _BEGINNING
        self.seq = self.revision = 0
        """The number of the last event; and how often the run was retried with another workflow, of which
        its plan is the last one."""
        self.guard_stats, self.decisions = GuardStats(), Decisions()
        self.lock_budget: Budget | None = None
        """The budget whose limit locked the run, if a budget did."""
        self.started_at = 0.0
        """The start time, moved forward by all idle time, so that `since - started_at` is working
        time."""
        self.time_limit = self.deadline = plan.time_limit
        """The working time in seconds that the breaker allows, and the time at which it is used up."""
        self.note: Message | None = None
        """A message from the person who unlocked the run, for the next agent that runs."""
        self.root: GraphInstance | None = None
        self.calls: dict[str, Execution] = {}
        self.ready_queue: list[tuple[Any, int]] = []
        """Entries that `step.advance` has to decide; empty between two steps."""
        self.held: list[tuple[Any, int]] = []
        """Entries that became ready while the run was locked or paused; unlock and resume queue them
        again."""
        self.unfinished: list[Failure] = []
        """What failed with the run, or was cancelled with it; a retry starts it again."""
        self.inherited: dict[str, list[InheritedResult]] = {}
        """Results of the run that this one was forked from, for calls that it has not reached yet, by
        address."""
        self.loops: dict[str, LoopSummary] = {}
        self.live_loops: dict[str, Activation | CompositeRun] = {}
        """The loops that have begun a round and were not left, by what the addresses of their rounds begin
        with; inner ones after those around them."""
        self.memories: dict[int, AgentMemory] = {}
        """What agents outside of loops remember, by site."""
        self.ordinals = [0] * len(plan.sites)
        """The number of calls of each node, by site; parts that run in parallel count separately."""
        self.question_counts: dict[tuple[str, int, str], int] = {}
        """The number of questions that tool loops asked people, by place, site and subject."""
        self.run_counts = [0] * len(plan.sites)
        """The number of runs of each node, by site."""
        self.usage: dict[str, int] = no_usage()
        """Total usage; money in picodollars, since three floats of 0.10 add up to more than 0.30."""
        self.intercepts = InterceptPoints()
        self.intercept_flags = bytearray(len(plan.sites))
        """BEFORE and AFTER bits of each node, by site (lifecycle.py): one byte to test per node that
        runs."""
        self.fast_path = True
        """There is no error, lock, pause, cancelled graph or breakpoint, so queue entries need no further
        checks."""
        self.commands: list[Command] = []
        self.events: list[Event] = []

    @property
    def over(self) -> bool:
        return is_over(self.status)

    def update_fast_path(self) -> None:
        """Sets `fast_path` after something that it depends on has ended."""
        self.fast_path = (
            self.error is None
            and self.lock is None
            and not self.paused
            and not self.has_cancelled
            and self.debug is None
        )

    def set_time(self, now: float) -> None:
        # Many steps fall into one millisecond; its text is formatted once.
        if not self.since <= now < self.until:
            self.since = int(now * 1000) / 1000
            self.until = self.since + 0.001
            self.stamp = stamp(now)

    @property
    def worked(self) -> float:
        """Working time in seconds: without the time in which only people were asked, or no host had the
        run."""
        return self.since - self.started_at

    def worked_at(self, now: float) -> float:
        """What timers measure: working time. Before semantics 2 it was the time of day."""
        return now - self.started_at if self.plan.semantics >= 2 else now

    def allow(self, seconds: float) -> None:
        """Sets the total working time after which the breaker trips."""
        self.time_limit, self.deadline = seconds, self.started_at + seconds

    def exclude_idle_time(self, until: float) -> None:
        """Excludes the time since the last fact from working time: nothing was in flight, or only
        questions."""
        gap = until - self.since
        if gap > 0:
            self.started_at += gap
            self.deadline += gap

    def emit(self, data: EventData, node_id: str | None = None, address: str | None = None) -> None:
        """Emits an event. The plan is asked what is around the address, and remembers it."""
        # Inlined for the most frequent events (lifecycle.launch, lifecycle._emit_completed,
        # loops.begin_round).
        self.seq = seq = self.seq + 1
        path, part = self.around(address)
        self.events.append(
            Event(seq, data.event, self.stamp, self.run_id, node_id, address, data, path, part)
        )
        if data.__class__ is Warned and len(self.guard_stats.warnings) < MAX_WARNINGS:
            self.guard_stats.warnings.setdefault(data.message, address or "")

    def add_event(self, data: EventData, node_id: str, address: str, path: Path) -> None:
        """Emits an event whose path is known."""
        self.seq = seq = self.seq + 1
        self.events.append(Event(seq, data.event, self.stamp, self.run_id, node_id, address, data, path))

    def around(self, address: str | None) -> tuple[Path, str]:
        """The `path` and `part` of an event at an address."""
        if not address:
            return (), ""
        try:
            place = parse(address, self.plan)
        except AddressError:  # a loop that has not begun
            return (), ""
        return place.path, place.part

    def pause_details(self) -> dict[str, str]:
        """Why the run is paused, and where, if a breakpoint or a step paused it."""
        address, breakpoint = self.debug.stopped_at if self.debug is not None else ("", "")
        known = {"reason": self.paused, "address": address, "breakpoint": breakpoint}
        return {name: value for name, value in known.items() if value}

    def _nodes(self) -> dict[str, int]:
        nodes: dict[str, int] = {}
        for node, count in zip(self.plan.sites, self.run_counts, strict=True):
            if count:
                nodes[node.id] = nodes.get(node.id, 0) + count
        return nodes

    @property
    def total(self) -> RunUsage:
        """Total usage, for events."""
        return shown_usage(self.usage)

    def usage_summary(self) -> dict[str, Any]:
        """Total usage, with money in dollars."""
        usage: dict[str, Any] = msgspec.to_builtins(self.total)
        return usage

    def emit_status(
        self,
        status: Literal["waiting", "paused", "suspended_locked", "running"],
        reason: str,
        cause: StateCause,
        by: str = "",
        *,
        address: str = "",
        breakpoint: str = "",
        questions: list[str] | None = None,
    ) -> None:
        """Sets the status and emits `run_state_change`."""
        self.status = status
        worked = round(self.worked, 3)
        self.emit(
            RunStateChanged(status, reason, address, breakpoint, cause, by, questions, self.total, worked)
        )

    def finished(self, by: str = "") -> RunFinished:
        """The data of `run_finished`; `by` is the person who stopped the run."""
        summary = self.summary()
        loops = {name: LoopTotals(**totals) for name, totals in summary["loops"].items()}
        failed_at = next((failure.address for failure in self.unfinished if failure.error), "")
        return RunFinished(
            **{**summary, "loops": loops, "usage": self.total},
            failed_at=failed_at,
            work_seconds=round(self.worked, 3),
            by=by,
        )

    def summary(self) -> dict[str, Any]:
        """What a run has done, as JSON."""
        data: dict[str, Any] = {
            "status": self.status,
            "output": self.output.text if self.output else "",
            "nodes": self._nodes(),
            "loops": {
                name: {
                    "rounds": loop.rounds,
                    "exit_reason": loop.exit_reason,
                    "entries": loop.entries,
                    **({} if loop.best is None else {"best": loop.best}),
                }
                for name, loop in self.loops.items()
            },
            "usage": self.usage_summary(),
        }
        if self.output is not None and self.output.data:
            data["data"] = self.output.data
        if self.error is not None:
            data["error"] = self.error
            reason = next((failure.reason for failure in self.unfinished if failure.reason), "")
            if reason:
                data["reason"] = reason
        if self.lock is not None:
            data["lock"] = msgspec.to_builtins(self.lock)
        if self.status == "paused":
            data["pause"] = self.pause_details()
        deadlines = [getattr(call.command, "deadline", None) for call in self.calls.values()]
        if any(deadlines):
            data["deadline"] = stamp(min(filter(None, deadlines)))
        return data

    def result_summary(self) -> dict[str, Any]:
        """The summary as the row of the run has it: with its warnings, which are events of their own in the
        stream of events."""
        warnings = [
            {"message": message, "address": address} for message, address in self.guard_stats.warnings.items()
        ]
        return {**self.summary(), **({"warnings": warnings} if warnings else {})}
