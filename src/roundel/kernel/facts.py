"""Decisions of a step that another machine or version might take differently.

The facts of a run do not determine it alone. Whether a condition holds may depend on the library that
evaluates patterns or CEL, on the Unicode tables of this Python, or on the measure that the breaker uses. If a
replay evaluated them again, an update of any of these could change what a stored run did, or make it
unreadable. So a step records each such decision, the journal stores them in the row of the fact that caused
them, and a replay reads them back in the same order instead of deciding again.

    live      `take(decide, …)` calls `decide` and records what it returns, or that it raised
    replay    `take(decide, …)` returns what was recorded, or raises it again; `decide` is not called

A decision is a plain JSON value but no mapping; a mapping stands for an exception: {"error": its text}. What
follows from it without such sources (sums, comparisons of numbers, order) is computed both times.

Rejected: asking the host, which would add a round trip to each condition; and storing all events, which is
many times larger and still leaves the state to be computed.

What happened, as a host tells the kernel. The facts of a run, in order, are the run.

Facts are frozen and encode to JSON and back without loss; times and ids come in as their fields.

Facts without secrets. A host masks a fact before it tells the kernel.

So the state of a run, its events, its decisions and its snapshots hold no secret either, and a run that is
resumed from its journal knows just what it would have known without the interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from roundel.kernel.codec import Codec
from roundel.plan.graph import Plan
from roundel.workflow.fields import SourceLocation
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType
from roundel.workflow.secrets import SecretMasker

Decide = Callable[..., Any]
"""`Decisions.take`, as it is handed to what decides inside a step."""


def decide_live(decide: Callable[..., Any], *arguments: Any) -> Any:
    """Decides without recording: for what is used outside of a run."""
    return decide(*arguments)


class DecisionError(Exception):
    """A recorded exception, raised again by a replay."""


class DecisionMismatch(Exception):
    """The journal's decisions do not fit what the step asks for."""


class Decisions:
    """The decisions of the step being made, and then of the last one. A run has one."""

    __slots__ = ("_next", "_stored", "made", "used")

    def __init__(self) -> None:
        self.begin(None)

    def begin(self, stored: Sequence[Any] | None) -> None:
        """A step begins: with stored decisions it is a replay."""
        self.made: list[Any] = []
        self._stored = stored
        self._next = 0
        self.used = stored is not None
        """Something is left of an earlier step."""

    def end(self) -> None:
        """A step is complete; a replay must have used everything that was stored."""
        if self._stored is not None and self._next != len(self._stored):
            raise DecisionMismatch(
                f"{len(self._stored)} decisions are stored, of which the step uses {self._next}"
            )

    def record_or_replay(self, decide: Callable[..., Any], *arguments: Any) -> Any:
        self.used = True
        if self._stored is None:
            try:
                decided = decide(*arguments)
            except Exception as error:
                self.made.append({"error": str(error)})
                raise
            self.made.append(decided)
            return decided
        if self._next == len(self._stored):
            raise DecisionMismatch(f"the step needs more than the {self._next} decisions that are stored")
        decided = self._stored[self._next]
        self._next += 1
        self.made.append(decided)
        if decided.__class__ is dict:
            raise DecisionError(decided["error"])
        return decided


class Usage(Struct, frozen=True, omit_defaults=True):
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0
    unpriced_calls: int = 0
    """Model calls whose price is not known."""
    model: str = ""
    cached: bool = False


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a node gave."""

    messages: tuple[Message, ...] = ()
    port: str | None = None
    state: Any = None
    """The node's own state from now on; None leaves it as it was."""
    report: dict[str, Any] | None = None
    """Further fields for the event that tells of it."""
    stay: bool = False
    """The messages go only to targets inside the loop."""
    jump: Literal["", "break", "continue"] = ""
    """Ends the round of the loop agent around the node (`continue`), or the whole of its loop (`break`)."""
    reason: str = ""
    """Why the loop ends, if an edge from here ends one."""
    usage: Usage | None = None
    aside: Usage | None = None
    """What was used beside a model's call, by something that is none; with `usage` alone."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Further events to show, by name and data, before the one that says that the node is done."""


class InterceptPoints(Struct, frozen=True, omit_defaults=True):
    """Which nodes middleware is asked about, by their ids."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Started(Struct, frozen=True, omit_defaults=True, tag="started"):
    run_id: str
    input: tuple[Message, ...]
    time: float
    intercepts: InterceptPoints = InterceptPoints()


class Finished(Struct, frozen=True, gc=False, tag="finished"):
    address: str
    outcome: Outcome
    time: float


class Failed(Struct, frozen=True, omit_defaults=True, tag="failed"):
    address: str
    error: str
    time: float
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    """What middleware had to tell before it refused."""


class Answered(Struct, frozen=True, tag="answered"):
    """A person answered."""

    address: str
    message: Message
    time: float


class EdgeResult(Struct, frozen=True, omit_defaults=True):
    """What the functions on one edge said of one message."""

    edge: int
    message: int
    fires: bool
    result: Message | None = None
    """What an edge processor made of it; None if it dropped it."""


class EdgesEvaluated(Struct, frozen=True, tag="edges_evaluated"):
    address: str
    edge_results: tuple[EdgeResult, ...]
    time: float


class Intercepted(Struct, frozen=True, omit_defaults=True, tag="intercepted"):
    """What middleware said of a node."""

    address: str
    time: float
    messages: tuple[Message, ...] | None = None
    """What the node is to have given instead; None leaves it as it is."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()


class Waited(Struct, frozen=True, tag="waited"):
    """Nothing is at work, and nobody has answered yet."""

    time: float


class Paused(Struct, frozen=True, omit_defaults=True, tag="paused"):
    """Nothing new is to begin; what is at work finishes."""

    reason: str
    time: float
    interrupt: bool = False
    """The calls in flight were cancelled: the run is paused at once, and they are made again, under the same
    addresses, when it is resumed."""


class Resumed(Struct, frozen=True, tag="resumed"):
    """A paused run goes on."""

    time: float


class Unlocked(Struct, frozen=True, omit_defaults=True, tag="unlocked"):
    """A person lets a locked run go on."""

    reason: str
    by: str
    checks: tuple[str, ...]
    """Which of the self-checks were confirmed (unlock.py)."""
    time: float
    limits: dict[str, float] = {}
    """Raised limits, by name."""
    message: str | None = None
    """What the last message is to be instead."""
    note: str = ""
    """A word to the next node that runs."""
    exit: str = ""
    """The node outside of the loop that the run is to go on with."""


class Reopened(Struct, frozen=True, omit_defaults=True, tag="reopened"):
    """Somebody goes on with a run that nobody was at work on; the time in between was nobody's work."""

    time: float
    intercepts: InterceptPoints | None = None
    """From now on; None if they are as they were."""


class Edited(Struct, frozen=True, tag="edited"):
    """What a call is about was changed: its last message is another one now."""

    address: str
    message: Message
    time: float


class Stopped(Struct, frozen=True, tag="stopped"):
    reason: str
    time: float


Fact = (
    Started
    | Finished
    | Failed
    | Answered
    | EdgesEvaluated
    | Intercepted
    | Waited
    | Paused
    | Resumed
    | Reopened
    | Edited
    | Unlocked
    | Stopped
)


class Entry(NamedTuple):
    """One entry of a journal: a fact, and the decisions of the step that it caused (decisions.py)."""

    fact: Fact
    decisions: tuple[Any, ...] | None = ()
    """None if they are not known: then the step decides again."""


VERSION = 2
"""Of entries, facts and decisions alike."""
DECISIONS_SINCE = 2
"""Version 1 had no decisions: its steps decide again."""


def _unchanged(fields: Any) -> Any:
    return fields


FACTS: Codec[Fact] = Codec("a fact", Fact, version=VERSION, upgrades={1: _unchanged})
DECISIONS: Codec[Sequence[Any]] = Codec(
    "the decisions of a fact", tuple[Any, ...], version=VERSION, upgrades={1: _unchanged}
)
encode_fact, decode_fact = FACTS.encode, FACTS.decode


def encode_entry(entry: Entry) -> bytes:
    return with_decisions(encode_fact(entry.fact), entry.decisions or ())


def with_decisions(line: bytes, decisions: Sequence[Any]) -> bytes:
    """The line of a fact with the decisions that it caused, behind a tab, which JSON has in no text."""
    return line + b"\t" + DECISIONS.encode(decisions) if decisions else line


def decode_entry(line: bytes, version: int = VERSION) -> Entry:
    """CodecError if it cannot be decoded."""
    fact, _, decisions = line.partition(b"\t")
    if not decisions:
        return Entry(FACTS.decode(fact, version), () if version >= DECISIONS_SINCE else None)
    return Entry(FACTS.decode(fact, version), tuple(DECISIONS.decode(decisions, version)))


UNMASKED_FIELDS = frozenset(
    {
        "address",
        "checks",
        "exit",
        "jump",
        "limits",
        "media_type",
        "port",
        "intercepts",
        "role",
        "run_id",
        "type",
    }
)
"""Fields that name parts of the workflow, or words of the format: what they hold is found again by it."""


def secrets_of(plan: Plan) -> SecretMasker:
    """The masker for a run of a plan."""
    workflow = plan.workflow
    names = (*(node.id for node in plan.sites), *workflow.tools, *workflow.models)
    secrets = SecretMasker(workflow.secrets.values(), names=names)
    if workflow.secrets:
        for text in _urls((workflow.models, workflow.tools, workflow.graph)):
            secrets.add_urls(text)
    return secrets


def _urls(value: Any) -> Iterator[str]:
    """The texts of a workflow that hold a URL: a short password is hidden there and nowhere else."""
    if isinstance(value, str):
        if "://" in value:
            yield value
    elif isinstance(value, Struct):
        for name in () if isinstance(value, (NodeType, SourceLocation)) else value.__struct_fields__:
            yield from _urls(getattr(value, name))
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _urls(inner)


def mask_fact(fact: Fact, secrets: SecretMasker) -> Fact:
    """The fact without secrets; the same object if it holds none."""
    if not secrets:
        return fact
    try:
        if not secrets.found_in(encode_fact(fact)):
            return fact
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # no JSON: a run that is not stored takes it as it is
    mask_value: Fact = secrets.mask_value(fact, UNMASKED_FIELDS)
    return mask_value
