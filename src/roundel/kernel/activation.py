"""Graphs and loops at work: what each of them knows of the round that it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roundel.kernel.budget import Budget
from roundel.kernel.circles import History
from roundel.kernel.queue import Arrival, Key
from roundel.plan.graph import GraphPlan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.kernel.execution import Execution, Performance, Turn
    from roundel.kernel.state import Run


class Instance:
    """One execution of a graph: the run's own, or one call of a subgraph."""

    __slots__ = (
        "arrivals",
        "budgets",
        "caller",
        "fired",
        "gone",
        "histories",
        "marks",
        "memory",
        "ordinals",
        "outputs",
        "performance",
        "plan",
        "prefix",
        "queues",
        "stem",
        "turn",
    )

    def __init__(self, plan: GraphPlan, prefix: str, caller: Execution | None, ordinals: list[int]) -> None:
        count = len(plan.nodes)
        self.plan = plan
        self.prefix = prefix
        self.stem = prefix
        """What the addresses of its loops begin with."""
        self.caller = caller
        self.performance: Performance | None = None
        self.turn: Turn | None = None
        """Which turn of a performance it is."""
        self.gone = False
        self.ordinals = ordinals
        self.queues: list[list[Message]] = [[] for _ in range(count)]
        self.arrivals: list[list[Arrival]] = [[] for _ in range(count)]
        self.marks = bytearray(count)
        self.fired = bytearray(len(plan.edges))
        self.memory: dict[int, Any] = {}
        self.histories: dict[int, History] = {}
        """What was said in its free loops, by their entries."""
        self.budgets: dict[str, Any] = {}
        """What its graph, its loops and its nodes may spend, once they have begun."""
        self.outputs: dict[int, tuple[Message, ...]] = {}


class LoopRecord:
    """What the summary says of a loop: its rounds over all entries, and why it was last left."""

    __slots__ = ("entries", "exit_reason", "last", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self.exit_reason = ""
        self.entries = 0
        self.last: Key = ()

    def left(self, reason: str, moment: Key) -> None:
        """Of several that ran at the same time, the last in order tells why, not the slowest."""
        if moment >= self.last:
            self.exit_reason, self.last = reason, moment


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
        instance: Instance,
        scope: Scope,
        parent: Activation | None = None,
        unit: Unit | None = None,
        record: LoopRecord | None = None,
    ) -> None:
        self.run = run
        self.instance = instance
        self.scope = scope
        self.parent = parent
        self.unit = unit
        self.record = record or LoopRecord()
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

    def values(self) -> dict[str, Any]:
        """What an expression on an edge knows beside its message."""
        run = self.run
        shown = {"id": run.run_id, "input": run.input[-1].text if run.input else ""}
        return {"round": self.loop_round, "run": shown, "vars": self.instance.plan.vars}


def moment(activation: Activation) -> Key:
    """When something happens in the order of the whole run, in which nothing happens at the same time."""
    key, instance = activation.key, activation.instance
    while (caller := instance.caller) is not None:
        turn = instance.turn.round if instance.turn is not None else 0
        part = caller.part[1] if caller.part is not None else 0
        key = (*caller.activation.key, caller.unit.layer, caller.unit.position, part, turn, *key)
        instance = caller.activation.instance
    return key
