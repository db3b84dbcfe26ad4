"""Facts: what happened, as a host reports it to the kernel. The facts of a run, in order, are the run.

Facts are frozen, and encode to JSON and back without loss. Times and ids come in as their fields, since
the kernel has neither a clock nor randomness. Events (events.py) are derived from facts and are not
stored: facts are few and contain only what cannot be computed again (docs/decisions/0003).

Decisions
---------
The facts of a run do not determine it alone. The result of a condition may depend on the library that
evaluates patterns or CEL, on the Unicode tables of this Python, or on the measure of the breaker. If a
replay evaluated them again, an update of any of these could change what a stored run did, or make it
unreadable. So a step records each such decision, the journal stores them in the row of the fact that
caused them, and a replay reads them back in the same order instead of deciding again
(docs/decisions/0018).

    live      `record_or_replay(decide, …)` calls `decide` and records its result or its exception
    replay    `record_or_replay(decide, …)` returns or raises what was recorded, without calling `decide`

A decision is a plain JSON value but not a mapping; a mapping stands for an exception: {"error": its
text}. What follows from it without such sources (sums, comparisons of numbers, order) is computed both
times.

Rejected: asking the host, which would add a round trip to each condition; and storing all events, which
is many times larger and still leaves the state to be computed.

Secrets
-------
A host masks each fact (`mask_fact`) before the kernel sees it. So the state of a run, its events,
decisions and snapshots contain no secrets either, and a run that is resumed from its journal has the
same state as one that was never interrupted. Masking only at the journal would make the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from roundel.kernel.codec import Codec
from roundel.plan.graph import Plan
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.evaluation_budget import EvaluationBudget, current_budget
from roundel.workflow.fields import SourceLocation
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType
from roundel.workflow.secrets import SecretMasker

Decide = Callable[..., Any]
"""The type of `Decisions.record_or_replay`, for code that decides inside a step."""


def decide_live(decide: Callable[..., Any], *arguments: Any) -> Any:
    """Decides without recording, for use outside of a run."""
    return decide(*arguments)


class DecisionError(Exception):
    """A recorded exception, raised again by a replay."""


class DecisionMismatch(Exception):
    """The stored decisions do not fit the decisions that the step needs: the journal or the workflow has
    changed."""


class Decisions:
    """The decisions of the current step; after it, those of the last one. Each run has one."""

    __slots__ = ("_budget", "_next", "_stored", "made", "patience", "used")

    def __init__(self) -> None:
        self.patience = inf
        """How long the patterns and expressions of a step may take here (evaluation_budget.py). The host
        sets it."""
        self.begin(None)

    def begin(self, stored: Sequence[Any] | None) -> None:
        """Begins a step; with stored decisions it is a replay."""
        self.made: list[Any] = []
        self._stored = stored
        self._next = 0
        self._budget: EvaluationBudget | None = None
        self.used = stored is not None
        """The lists are not empty, so the next step has to reset them."""

    def end(self) -> None:
        """Ends a step. A replay must have used all stored decisions."""
        if self._stored is not None and self._next != len(self._stored):
            raise DecisionMismatch(
                f"{len(self._stored)} decisions are stored, of which the step uses {self._next}"
            )

    def record_or_replay(self, decide: Callable[..., Any], *arguments: Any) -> Any:
        """Returns `decide(*arguments)` and records it, or returns what was recorded."""
        self.used = True
        if self._stored is None:
            if self._budget is None:
                self._budget = EvaluationBudget(self.patience)
            around = current_budget.set(self._budget)
            try:
                decided = decide(*arguments)
            except Exception as error:
                # The text alone, since exceptions are not data. Callers must not depend on its class: in
                # a replay it is a DecisionError.
                self.made.append({"error": str(error)})
                raise
            finally:
                current_budget.reset(around)
            self.made.append(decided)
            return decided
        if self._next == len(self._stored):
            raise DecisionMismatch(f"the step needs more than the {self._next} decisions that are stored")
        decided = self._stored[self._next]
        self._next += 1
        self.made.append(decided)
        # `made` is filled in a replay as well: a fork writes these decisions into a new journal.
        if decided.__class__ is dict:
            raise DecisionError(decided["error"])
        return decided


class Usage(Struct, frozen=True, omit_defaults=True):
    """What a call used. Nodes report it with their outcome."""

    model_calls: int = 0
    """The number of calls of models."""
    tool_calls: int = 0
    """The number of calls of tools."""
    input_tokens: int = 0
    """The tokens that models got."""
    output_tokens: int = 0
    """The tokens of their answers."""
    cost_usd: float = 0
    """What the calls cost, as far as that is known."""
    unpriced_calls: int = 0
    """The number of model calls whose cost is not known: no price is known, or, if there are no tokens
    either, the provider reported no usage."""
    model: str = ""
    """The model that answered, as `provider:name`."""
    cached: bool = False
    """The reply came from the cache."""
    scripted: bool = False
    """A script replied, so nothing was paid for."""


StopReason = Literal["", "stop", "length", "tool_calls", "content_filter"]
"""Why a model stopped: it was done, at its token limit, to request tools, or because its provider held the
rest back. Empty if the provider does not say, and for tools."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One attempt at a call that failed."""

    model: str = ""
    """The model, as `provider:name`; empty for other calls, and if only the node knows of the attempt."""
    error: str = ""
    """Its error, in one line."""
    status: int | None = None
    """The HTTP status with which the provider refused; None if there is none."""
    retry_after: float | None = None
    """How many seconds the provider asked to wait; None if it did not."""
    seconds: float = 0
    """The time inside the provider or the function."""
    waited: float = 0
    """The wait before the next attempt."""


class CallRecord(Struct, frozen=True, omit_defaults=True):
    """What only the host sees of a call of a model or a tool. Nothing depends on it: it is for those who look
    at the run. A call without a record was made by a version that kept none, or calls neither."""

    seconds: float
    """The time inside the provider or the tool, of all attempts together, by a clock that nobody sets.
    Without commits, waits between attempts, and people. 0 for a reply from the cache; that of a script is the
    delay which the script names."""
    attempts: tuple[Attempt, ...] = ()
    """Those before the last, in order."""
    stop: StopReason = ""
    first_token: float | None = None
    """How many seconds of the last attempt passed before the first part of a streamed answer; None if it was
    not streamed."""
    response_id: str = ""
    """The provider's id of the response."""
    context: str = ""
    """The digest of what the model got (hosts/contexts.py); empty if that was not kept, and for tools."""
    error: str = ""
    """Why all attempts failed, if the node goes on without an answer: it says the error instead, or drops
    messages. A call that fails its node has a fact of its own."""
    error_type: str = ""


def record_of_failure(tried: Sequence[Attempt]) -> CallRecord | None:
    """The record of a call of which all attempts failed; None if nothing is known of them."""
    return CallRecord(total_seconds(tried), tuple(tried[:-1])) if tried else None


def total_seconds(tried: Sequence[Attempt], last: float = 0) -> float:
    """The time of failed attempts and the last one, in microseconds: more digits would be noise."""
    return round(sum(attempt.seconds for attempt in tried) + last, 6)


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of a node, as its behaviour returns it to the host."""

    messages: tuple[Message, ...] = ()
    port: str | None = None
    state: Any = None
    """The new state of the node; None leaves it unchanged."""
    report: dict[str, Any] | None = None
    """Further fields for the `completed` event."""
    stay: bool = False
    """The messages go only to targets inside the loop."""
    jump: Literal["", "break", "continue"] = ""
    """Ends the round of the loop agent around the node (`continue`), or the whole of its loop
    (`break`)."""
    reason: str = ""
    """The exit reason, if an edge from here leaves a loop."""
    usage: Usage | None = None
    aside: Usage | None = None
    """Usage besides the model call, for example of embeddings; only together with `usage`."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Further events, by name and data, to emit before the `completed` event."""
    call: CallRecord | None = None
    """What the host knows of the call, if it was one of a model or a tool."""
    kept: int | None = None
    """For an exit of a loop: the round whose output the messages are."""


def failure_data(
    error: str, type: str, node: str, address: str, attempts: int, reason: str = ""
) -> dict[str, Any]:
    """The `data` of a message that reports a failure."""
    data = {"error": error, "type": type, "node": node, "address": address, "attempts": attempts}
    return {**data, "reason": reason} if reason else data


class InterceptPoints(Struct, frozen=True, omit_defaults=True):
    """The ids of the nodes that middleware intercepts before they run, and whose output it
    intercepts."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Started(Struct, frozen=True, omit_defaults=True, tag="started"):
    """The run starts. The first fact of every run."""

    run_id: str
    input: tuple[Message, ...]
    time: float
    intercepts: InterceptPoints = InterceptPoints()
    breakpoints: tuple[Breakpoint, ...] = ()
    """Breakpoints that were given for the run, besides those of the workflow."""
    paused: bool = False
    """The run pauses before its first node."""
    model: str = ""
    """The model that was chosen for agents that name none, as `provider:name`. The workflow of the run has
    it as its profile `default`; here it is for readers, as are the fields below."""
    by: str = ""
    """Who started the run: the name of a user or of a token; empty if that is not known."""
    saved_as: str = ""
    """The name of the saved workflow; empty if the workflow was not saved."""
    workflow_version: str = ""
    """Its version."""
    parent: str = ""
    """The run that it was forked from."""
    forked_at: str = ""
    """The address at which it was forked; empty for where the other run was then."""
    limits: dict[str, float | str] = {}
    """The limits that were given for the run, besides those of the workflow."""


class Finished(Struct, frozen=True, gc=False, tag="finished"):
    """A Call returned."""

    address: str
    outcome: Outcome
    time: float


class Failed(Struct, frozen=True, omit_defaults=True, tag="failed"):
    """A command failed: a node, a function on an edge, or middleware that rejects."""

    address: str
    error: str
    time: float
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Events of middleware from before it rejected the node."""
    error_type: str = ""
    """The kind of failure: `RateLimited`, `Timeout`, `ModelError`, or the class of an exception."""
    attempts: int = 1
    reason: str = ""
    """Why the same call must fail again, such as `authentication`; empty if it may succeed."""
    call: CallRecord | None = None
    """What the host knows of the call."""


class CallRefused(Struct, frozen=True, tag="call_refused"):
    """A model call was not made: a limit that all runs of a group or a token share has no room for it."""

    address: str
    shortage: dict[str, Any]
    """The figures, for people (journal/spending.py)."""
    time: float


AnsweredVia = Literal["person", "script"]


class Answered(Struct, frozen=True, omit_defaults=True, tag="answered"):
    """A person answered, or a script in the place of one."""

    address: str
    message: Message
    time: float
    by: str = ""
    """Who answered: the name of a user or of a token. Empty if that is not known, and for a script. What
    else people do has the same field."""
    via: AnsweredVia = "person"


class Expired(Struct, frozen=True, tag="expired"):
    """The deadline of a question passed without an answer."""

    address: str
    time: float


class EdgeResult(Struct, frozen=True, omit_defaults=True):
    """The results of the functions of users on one edge, for one message."""

    edge: int
    message: int
    fires: bool
    result: Message | None = None
    """The message from an edge processor; None if it was dropped."""


class EdgesEvaluated(Struct, frozen=True, tag="edges_evaluated"):
    """The functions on the edges of a node returned."""

    address: str
    edge_results: tuple[EdgeResult, ...]
    time: float


class Intercepted(Struct, frozen=True, omit_defaults=True, tag="intercepted"):
    """Middleware returned, before a node or about its output."""

    address: str
    time: float
    messages: tuple[Message, ...] | None = None
    """The output that replaces the node's own; None leaves it unchanged."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()


class Waited(Struct, frozen=True, tag="waited"):
    """Only questions to people are open. Their time does not count against limits."""

    time: float


class TimeUp(Struct, frozen=True, tag="time_up"):
    """The working time that the breaker allows is used up while calls are in flight."""

    time: float


class ClockMoved(Struct, frozen=True, tag="clock_moved"):
    """The wall clock went ahead of the machine's steady clock: it was set, or the machine was suspended. The
    times of facts follow it, and these seconds do not count against limits."""

    seconds: float
    time: float


class Locked(Struct, frozen=True, omit_defaults=True, tag="locked"):
    """A person locked the run, or a host did, since its processes crash: nothing new begins, and calls in
    flight finish."""

    reason: str
    by: str
    time: float
    abandoned: bool = False
    """No host executes the run: it is locked at once, and calls in flight are made again after the
    unlock."""
    crashes: int = 0
    """How many processes in a row died while they executed the run, without progress; 0 if a person locked
    it."""


class Paused(Struct, frozen=True, omit_defaults=True, tag="paused"):
    """A pause was requested: nothing new begins, and calls in flight finish."""

    reason: str
    time: float
    interrupt: bool = False
    """The host has cancelled the calls in flight: the run is paused at once, and the resumed host makes
    them again, under the same addresses."""
    by: str = ""


class Resumed(Struct, frozen=True, omit_defaults=True, tag="resumed"):
    """A paused run continues."""

    time: float
    by: str = ""


class Stepped(Struct, frozen=True, omit_defaults=True, tag="stepped"):
    """A person lets a paused run take one step: the first node that is ready runs, and the others stay
    held (debugging.py)."""

    time: float
    round: bool = False
    """The run continues to the next round of the innermost loop instead, or to a breakpoint."""
    by: str = ""


class BreakpointsChanged(Struct, frozen=True, omit_defaults=True, tag="breakpoints_changed"):
    """A person set or removed breakpoints."""

    time: float
    add: tuple[Breakpoint, ...] = ()
    remove: tuple[Breakpoint, ...] = ()
    by: str = ""


class WaitingEdited(Struct, frozen=True, omit_defaults=True, tag="waiting_edited"):
    """A person changed a message that waits at a node of a paused or locked run."""

    address: str
    """The address of the node."""
    position: int
    """The number of the message in the queue of the node, from 0."""
    text: str
    time: float
    data: dict[str, Any] | None = None
    """The new data; None leaves it unchanged."""
    version: str = ""
    """The version of the message that the person saw; another one is a conflict. Empty: any."""
    by: str = ""


class Unlocked(Struct, frozen=True, omit_defaults=True, tag="unlocked"):
    """A person unlocked the run (unlock.py)."""

    reason: str
    by: str
    checks: tuple[str, ...]
    """The names of the confirmed checks (`unlock.CHECKS`)."""
    time: float
    limits: dict[str, float] = {}
    """Raised limits, by name."""
    message: str | None = None
    """The text that replaces the last message; None leaves it unchanged."""
    note: str = ""
    """A message for the next agent that runs."""
    exit: str = ""
    """The node outside of the loop to leave it for."""


class Retried(Struct, frozen=True, omit_defaults=True, tag="retried"):
    """A person resumed a failed run: what failed, and what was cancelled or held back, runs again."""

    time: float
    by: str = ""


class Revised(Struct, frozen=True, omit_defaults=True, tag="revised"):
    """A person retried a failed run with changes: from here on it has another workflow.

    The facts before it belong to the old workflow. `entries` are what of them still counts, as the new
    workflow takes it (runs/forking.py); `retry.revise` makes the state of the run from them. `step` does
    not apply this fact, since it needs another plan.
    """

    workflow: str
    """The new workflow, encoded, without secrets."""
    limits: dict[str, float | str]
    """The limits that were given for the run, besides those of the workflow."""
    entries: tuple[str, ...]
    seq: int
    """The number of the last event before."""
    revision: int
    """How often the run has been revised, this time included."""
    time: float
    script: str = ""
    events: tuple[tuple[str, str | None, str | None, dict[str, Any]], ...] = ()
    """What the new workflow has done beyond the old one, by name, node, address and data."""
    script_rights: tuple[str, ...] | None = None
    """What the script may do besides replying."""
    by: str = ""


class CallRetried(Struct, frozen=True, omit_defaults=True, tag="call_retried"):
    """A call in flight had failed in the run that this one was forked from: it is made again. It takes the
    place of the fact with which an item of a list failed (runs/failed_items.py)."""

    address: str
    time: float
    ordinal: int = 0
    """The number of the new call is at least this one, so that a script has another reply for it."""


CallResult = Finished | Failed | Answered | EdgesEvaluated | Intercepted | CallRetried


class InheritedResult(Struct, frozen=True):
    """What a call returned in the run that this one was forked from. `form` says which kind of command it
    answers (`retry.command_form`)."""

    form: str
    fact: CallResult


class Inherited(Struct, frozen=True, tag="inherited"):
    """A fork has results for calls that it has not reached yet. When it gets there, the host reports them
    instead of making the calls (retry.py)."""

    results: tuple[InheritedResult, ...]
    time: float


class Reopened(Struct, frozen=True, omit_defaults=True, tag="reopened"):
    """A host resumed a run that no host was executing. The time in between does not count against
    limits."""

    time: float
    intercepts: InterceptPoints | None = None
    """The new intercepts; None leaves them unchanged."""


class Edited(Struct, frozen=True, omit_defaults=True, tag="edited"):
    """A person replaced the last input message of a command in flight; the host makes the call again."""

    address: str
    message: Message
    time: float
    by: str = ""


class Stopped(Struct, frozen=True, omit_defaults=True, tag="stopped"):
    """The run was cancelled for good."""

    reason: str
    time: float
    by: str = ""


Fact = (
    Started
    | Finished
    | Failed
    | CallRefused
    | Answered
    | Expired
    | EdgesEvaluated
    | Intercepted
    | Waited
    | TimeUp
    | ClockMoved
    | Locked
    | Paused
    | Resumed
    | Retried
    | Revised
    | CallRetried
    | Inherited
    | Reopened
    | Edited
    | Stepped
    | BreakpointsChanged
    | WaitingEdited
    | Unlocked
    | Stopped
)


class Entry(NamedTuple):
    """One entry of a journal: a fact, and the decisions of the step that it caused."""

    fact: Fact
    decisions: tuple[Any, ...] | None = ()
    """None if they are not known; the step decides again then."""


VERSION = 2
"""The version of entries, facts and decisions."""
DECISIONS_SINCE = 2
"""Version 1 had no decisions; its steps decide again."""


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
    """Appends decisions to the line of a fact, after a tab, which cannot occur in encoded JSON."""
    return line + b"\t" + DECISIONS.encode(decisions) if decisions else line


def decode_entry(line: bytes, version: int = VERSION) -> Entry:
    """Decodes a line of the journal; CodecError."""
    fact, _, decisions = line.partition(b"\t")
    if not decisions:
        return Entry(FACTS.decode(fact, version), () if version >= DECISIONS_SINCE else None)
    return Entry(FACTS.decode(fact, version), tuple(DECISIONS.decode(decisions, version)))


UNMASKED_FIELDS = frozenset(
    {
        "address",
        "checks",
        "entries",
        "error_type",
        "exit",
        "forked_at",
        "jump",
        "limits",
        "media_type",
        "parent",
        "port",
        "intercepts",
        "role",
        "run_id",
        "saved_as",
        "stop",
        "type",
        "version",
        "via",
        "workflow",
        "workflow_version",
    }
)
"""Fields that contain names of the workflow or words of the format: masked, they would not be found
again."""


def secrets_of(plan: Plan) -> SecretMasker:
    """The masker for a run of a plan.

    Names of nodes, tools and models are never masked, even if one equals a secret: addresses contain
    them.
    """
    workflow = plan.workflow
    names = (*(node.id for node in plan.sites), *workflow.tools, *workflow.models)
    secrets = SecretMasker(workflow.secrets.values(), names=names)
    if workflow.secrets:
        for text in _urls((workflow.models, workflow.tools, workflow.graph)):
            secrets.add_urls(text)
    return secrets


def _urls(value: Any) -> Iterator[str]:
    """The texts of a workflow that contain a URL. Short passwords are masked only inside these URLs."""
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
    """The fact without secrets; the same object if it contains none.

    Most facts contain none, and one search in the encoded fact is cheaper than a walk through all of its
    fields.
    """
    if not secrets:
        return fact
    try:
        if not secrets.found_in(encode_fact(fact)):
            return fact
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # not JSON: only possible in a run that is not stored; its fields are searched one by one
    masked: Fact = secrets.mask_value(fact, UNMASKED_FIELDS)
    return masked
