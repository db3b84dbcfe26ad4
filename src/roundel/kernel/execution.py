"""Nodes at work: on one call, on parts, in turns, in talk."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.kernel.activation import Activation, Instance, LoopRecord
from roundel.kernel.circles import History
from roundel.kernel.commands import Command, Review
from roundel.kernel.facts import Outcome
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.dynamic import Dynamic
from roundel.workflow.message import Message


class Execution(Struct):
    """A node at work."""

    activation: Activation
    unit: Unit
    node: NodePlan
    address: str
    command: Command | None = None
    part: tuple[Expansion, int] | None = None
    review: Review | None = None
    """What middleware is asked about it, if it is."""
    outcomes: list[Outcome] = []
    """What it gave, while functions on its edges or middleware are asked."""
    owner: Performance | Talk | None = None
    """Whose business the answer to the command is, if it is not that of the node as a whole."""
    errand: Any = None
    """Which errand of a talk it is."""
    reserved: dict[str, int] | None = None
    """What it may spend at most, as far as anybody knows."""


class Expansion:
    """A node at work on the parts of what dynamic edges brought."""

    __slots__ = (
        "base",
        "dynamic",
        "execution",
        "further",
        "groups",
        "layer",
        "outcomes",
        "shared",
        "started",
        "width",
    )

    def __init__(
        self, execution: Execution, dynamic: Dynamic, shared: tuple[Message, ...], width: int
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
        self.further = 0
        """The calls that its parts made beyond one each."""


class Turn(Struct, frozen=True):
    """One run of one body of a node that conducts."""

    body: int
    inputs: tuple[Message, ...]
    round: int
    apart: int | None = None
    """Its number among turns that run at the same time; None if it runs alone."""
    again: int = 0
    """How often its body has run in this round before."""


class Performance:
    """A node at work that conducts: its bodies run in turns, as its conductor says."""

    __slots__ = (
        "at_work",
        "base",
        "conductor",
        "execution",
        "history",
        "inputs",
        "pending",
        "question",
        "record",
        "round",
        "stem",
    )

    def __init__(
        self, execution: Execution, conductor: Any, inputs: tuple[Message, ...], record: LoopRecord
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.conductor = conductor
        self.inputs = inputs
        self.record = record
        self.history = History()
        self.round = 0
        self.pending: list[Turn] = []
        self.question: Any = None
        """What the node's behaviour is to be asked: the state of its call, and what it is about."""
        self.at_work: list[Instance] = []
        self.base = list(activation.instance.ordinals)
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["


class Talk:
    """A node at work that takes several calls: a model, the tools that it asks for, the model again."""

    __slots__ = ("at_work", "calls", "dialogue", "execution", "inputs", "ordinal", "pending", "stem")

    def __init__(
        self, execution: Execution, dialogue: Any, inputs: tuple[Message, ...], ordinal: int
    ) -> None:
        activation = execution.activation
        self.execution = execution
        self.dialogue = dialogue
        self.inputs = inputs
        self.ordinal = ordinal
        self.calls = 0
        """How many calls the node itself has made."""
        self.pending: list[Any] = []
        self.at_work = 0
        self.stem = f"{activation.outer}{execution.address[len(activation.prefix) :]}["
