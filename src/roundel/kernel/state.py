"""The state of a run: what is needed for the next step, and no more. The past is in the journal."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from roundel.kernel.activation import Instance, LoopRecord
from roundel.kernel.budget import Budget
from roundel.kernel.commands import Command
from roundel.kernel.decisions import Decisions
from roundel.kernel.events import Event, stamp
from roundel.kernel.execution import Execution
from roundel.kernel.facts import Reviews
from roundel.kernel.trips import TRIPS
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from roundel.workflow.money import dollars


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


class Watch:
    """What is known of a run that its guards go by."""

    __slots__ = ("aside", "caps", "expected", "first_calls", "largest", "let_go", "surge_from", "surge_until")

    def __init__(self) -> None:
        self.largest: dict[int, tuple[int, int]] = {}
        """The tokens and the cost, in picodollars, of each node's largest model call."""
        self.first_calls: list[int] = []
        """The tokens of the first model calls."""
        self.expected: tuple[int, float] | None = None
        """The model calls of the forecast, and the tokens of each; worked out when first needed."""
        self.aside = 0
        """The tokens of what is no model call: nobody expected any, and they are no surge."""
        self.surge_from = 0.0
        """What had been spent when a person last let a surge go on."""
        self.surge_until = 0.0
        """What a person has allowed to be spent before the next surge is seen."""
        self.caps: dict[int, int] = {}
        """Caps that a person has raised, by the site of the loop's entry."""
        self.let_go = ""
        """What was unlocked last without any change."""


class Run:
    """A run between two steps."""

    __slots__ = (
        "agenda",
        "asked",
        "begun",
        "budgeted",
        "calls",
        "commands",
        "deadline",
        "decisions",
        "error",
        "events",
        "held",
        "input",
        "lock",
        "lock_budget",
        "loops",
        "note",
        "ordinals",
        "output",
        "patience",
        "paused",
        "plan",
        "reviewed",
        "reviews",
        "root",
        "run_id",
        "seq",
        "since",
        "smooth",
        "stamp",
        "status",
        "times",
        "torn",
        "until",
        "usage",
        "watch",
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
        self.torn = False
        """Some graphs were called off, and what comes up in them is passed over."""
        self.since = self.until = 0.0
        self.stamp = _BEGINNING
        self.seq = 0
        self.budgeted = plan.budgeted
        self.watch = Watch()
        self.lock_budget: Budget | None = None
        """The budget that the run is locked by, if it is one."""
        self.begun = 0.0
        """When it began, as if it had worked ever since: what was nobody's work is added."""
        self.patience = self.deadline = plan.patience
        """The seconds that it may work, and when they are over."""
        self.note: Message | None = None
        """A person's word to the next node that runs."""
        self.root: Instance | None = None
        self.calls: dict[str, Execution] = {}
        self.agenda: list[tuple[Any, int]] = []
        """What has come up and is to be decided: an activation (or expansion), and a unit of it."""
        self.held: list[tuple[Any, int]] = []
        """What came up while the run was locked or paused."""
        self.loops: dict[str, LoopRecord] = {}
        self.ordinals = [0] * len(plan.sites)
        """How many calls each node has made, by site; parts that run at the same time count apart."""
        self.asked: dict[tuple[str, int, str], int] = {}
        """How often people were asked in a talk: where, by which site, about what."""
        self.times = [0] * len(plan.sites)
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
        self.reviews = Reviews()
        self.reviewed = bytearray(len(plan.sites))
        """When middleware is asked about a node, by site (review.py)."""
        self.smooth = True
        """There is no error, no lock, no pause, nothing torn: what comes up needs no second look."""
        self.decisions = Decisions()
        self.commands: list[Command] = []
        self.events: list[Event] = []

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "stopped")

    def at(self, now: float) -> None:
        # Many steps fall into one millisecond; its text is made once.
        if not self.since <= now < self.until:
            self.since = int(now * 1000) / 1000
            self.until = self.since + 0.001
            self.stamp = stamp(now)

    @property
    def worked(self) -> float:
        """The seconds that something other than people was at work."""
        return self.since - self.begun

    def allow(self, seconds: float) -> None:
        """So long it may work, in all."""
        self.patience, self.deadline = seconds, self.begun + seconds

    def rest(self, until: float) -> None:
        """Since the last fact nobody was at work, or people alone."""
        gap = until - self.since
        if gap > 0:
            self.begun += gap
            self.deadline += gap

    def emit(self, event: str, node_id: str | None, address: str | None, data: dict[str, Any]) -> None:
        self.seq = seq = self.seq + 1
        self.events.append(Event(seq, event, self.stamp, self.run_id, node_id, address, data))

    def _nodes(self) -> dict[str, int]:
        nodes: dict[str, int] = {}
        for node, count in zip(self.plan.sites, self.times, strict=True):
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
