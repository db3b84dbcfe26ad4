"""What happened, as a host tells the kernel. The facts of a run, in order, are the run.

Facts are frozen and encode to JSON and back without loss; times and ids come in as their fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from roundel.kernel.codec import Codec
from roundel.workflow.message import Message


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


class Reviews(Struct, frozen=True, omit_defaults=True):
    """Which nodes middleware is asked about, by their ids."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Started(Struct, frozen=True, omit_defaults=True, tag="started"):
    run_id: str
    input: tuple[Message, ...]
    time: float
    reviews: Reviews = Reviews()


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


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What the functions on one edge said of one message."""

    edge: int
    message: int
    fires: bool
    result: Message | None = None
    """What an edge processor made of it; None if it dropped it."""


class Consulted(Struct, frozen=True, tag="consulted"):
    address: str
    verdicts: tuple[Verdict, ...]
    time: float


class Reviewed(Struct, frozen=True, omit_defaults=True, tag="reviewed"):
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
    reviews: Reviews | None = None
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
    | Consulted
    | Reviewed
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


def _same(fields: Any) -> Any:
    return fields


FACTS: Codec[Fact] = Codec("a fact", Fact, version=VERSION, upgrades={1: _same})
DECISIONS: Codec[Sequence[Any]] = Codec(
    "the decisions of a fact", tuple[Any, ...], version=VERSION, upgrades={1: _same}
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
