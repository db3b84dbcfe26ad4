"""What people see of a run, as frozen structs: for terminals, pages and figures. `RunFold` (fold.py) makes it
from events.

A snapshot shares all parts with earlier ones in which they were the same, so `is` tells a reader what to draw
again. A part and the JSON of the conformance streams (tests/conformance/events) have the same fields;
web/src/api/view.ts is written from these structs.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from roundel.kernel.events import RoundStatus, RunStatus, ToolStatus
from roundel.kernel.facts import Attempt, StopReason
from roundel.kernel.payloads import (
    NO_USAGE,
    CallWaiting,
    Change,
    Decision,
    Number,
    ProgressReported,
    Purpose,
    QueuedInput,
    RunProgress,
    RunUsage,
    SkipCause,
    StateCause,
    ToolToApprove,
)
from roundel.workflow.address import Path

ShownStatus = Literal["running", "waiting", "completed", "failed", "skipped"]
"""The status of an execution; `waiting` while a person is asked."""
CallStatus = Literal["running", "completed", "failed", "cancelled", "refused"]
"""The status of a model call; one that was `refused` was never made."""


class Part(Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a view. What has its default is left out of the JSON. Times are those of events."""


class ViewedCall(Part, frozen=True, gc=False):
    """A model call of an execution."""

    call: int
    """Its number among the model calls of the execution, from 1; 0 in runs that an earlier version pruned."""
    purpose: Purpose
    """What it is for."""
    status: CallStatus
    """What it does."""
    started: str
    """When it began."""
    ended: str = ""
    """When it ended."""
    ordinal: int = 0
    """The number of earlier calls of this node in the run."""
    model: str = ""
    """The model that answered, or that is asked, as `provider:name`."""
    attempt: int = 0
    """While it is in flight: the number of the attempt, from 1, if it is known."""
    of: int = 0
    """While it is in flight: how many attempts are made at most, if it is known."""
    waits: CallWaiting | None = None
    """While it waits for its next attempt: why, and until when."""
    input_tokens: int | None = None
    """The input tokens; null if they are not known."""
    output_tokens: int | None = None
    """The output tokens; null if they are not known."""
    cost_usd: Number | None = None
    """What it cost; null if that is not known."""
    cached: bool = False
    """Whether the answer came from the cache."""
    scripted: bool = False
    """Whether a script answered."""
    seconds: Number | None = None
    """The time inside the provider; null if it is not known."""
    first_token: Number | None = None
    """The seconds of the last attempt until its first part, if the answer was streamed."""
    stop: StopReason = ""
    """Why the model stopped."""
    attempts: tuple[Attempt, ...] = ()
    """The attempts before the last one."""
    context: str = ""
    """The digest of what the model got."""
    error: str = ""
    """The error, if it failed."""
    type: str = ""
    """The type of the failure."""


class ViewedTool(Part, frozen=True, gc=False):
    """A tool call of an agent."""

    address: str
    """Its address."""
    name: str
    """The tool."""
    id: str
    """The id that the model gave to the request."""
    round: int
    """The round of tools, from 1."""
    status: ToolStatus
    """What it does."""
    started: str
    """When it was requested."""
    ended: str = ""
    """When it ended."""
    arguments: Any = None
    """The arguments; if a person changed them, the changed ones."""
    result: str | None = None
    """The result that the model gets; null while there is none."""
    called: bool = False
    """Whether the tool was called."""
    seconds: Number | None = None
    """The time inside the tool; null if it is not known."""
    waited: Number | None = None
    """How many seconds a person took to decide about it; null if nobody was asked."""
    decision: Decision | None = None
    """What a person decided about it."""
    attempts: tuple[Attempt, ...] = ()
    """The attempts before the last one."""
    waits: CallWaiting | None = None
    """While it waits for its next attempt: why, and until when."""
    progress: ProgressReported | None = None
    """What it last reported about its progress, while it is in flight."""


class ViewedQuestion(Part, frozen=True, gc=False):
    """A question that is open."""

    address: str
    """Its address."""
    node_id: str
    """The node that asks."""
    caller: str
    """The address of the execution that waits: that of the agent, for a tool."""
    prompt: str
    """The question."""
    asked: str
    """When it was asked."""
    input: tuple[QueuedInput, ...] = ()
    """The messages in the queue of the node."""
    tool: ToolToApprove | None = None
    """The tool call that needs approval."""
    deadline: str = ""
    """The time by which it must be answered."""
    timeout: Number | None = None
    """The seconds until then."""


class ViewedAnswer(Part, frozen=True, gc=False):
    """A question that was answered, or was not in time."""

    address: str
    """The address of the question."""
    node_id: str
    """The node that asked."""
    answered: str
    """When it was answered, or expired."""
    text: str = ""
    """The answer."""
    data: dict[str, Any] | None = None
    """The structured fields of the answer."""
    by: str = ""
    """Who answered."""
    via: Literal["person", "script"] = "person"
    """Whether a person or the script answered."""
    decision: Decision | None = None
    """What was decided; null if nobody answered in time."""
    changes: tuple[Change, ...] = ()
    """How the arguments of a tool call were changed."""
    reason: str = ""
    """Why a tool call was rejected."""
    waited: Number | None = None
    """How many seconds the answer took."""
    expired: str = ""
    """What happened instead, if nobody answered in time."""


class ViewedExecution(Part, frozen=True, gc=False):
    """One execution of a node."""

    address: str
    """Its address."""
    node_id: str
    """The node."""
    key: str
    """The node in a drawing: its id, after those of the nodes around it."""
    status: ShownStatus
    """What it does."""
    started: str
    """When it began."""
    ended: str = ""
    """When it ended."""
    type: str = ""
    """The type of the node."""
    speaks: bool = False
    """Whether it calls a model."""
    path: Path = ()
    """What is around the node, outermost first."""
    part: str = ""
    """`2` or `2.1`, for a part of a dynamic edge."""
    round: str = ""
    """The address of the innermost round around it; empty outside of loops."""
    starts: int = 0
    """How often it has started: more than once if the run was retried, never if it was skipped."""
    output: str | None = None
    """The text of its last message; null if it returned none."""
    data: dict[str, Any] | None = None
    """The structured fields of that message."""
    report: dict[str, Any] | None = None
    """What the node says about this execution."""
    messages: int = 0
    """How many messages it returned."""
    score: Number | None = None
    """The score that it reports, or that is in its data."""
    port: str | None = None
    """The port by which its messages left."""
    error: str = ""
    """The error, if it failed."""
    error_type: str = ""
    """The type of the failure."""
    handled: bool = False
    """Whether an error edge handled the failure."""
    inside: bool = False
    """Whether the failure happened inside the node."""
    origin: str = ""
    """The address of the node that failed."""
    attempts: int | None = None
    """How many attempts failed."""
    reason: str = ""
    """Why it was skipped, or why the same call must fail again."""
    cause: SkipCause = ""
    """Why it was skipped, as one word."""
    usage: RunUsage = NO_USAGE
    """What it has used."""
    calls: tuple[ViewedCall, ...] = ()
    """Its model calls."""
    tools: tuple[ViewedTool, ...] = ()
    """Its tool calls."""
    question: ViewedQuestion | None = None
    """The question that it waits for."""
    answer: str | None = None
    """The last answer that it got."""
    streamed: str = ""
    """What a model has written so far, while it streams."""
    attempt: int = 0
    """The attempt that the text belongs to."""
    progress: ProgressReported | None = None
    """What it last reported about its progress, while it is in flight."""
    waits: CallWaiting | None = None
    """While a call that is not of a model waits for its next attempt: why, and until when."""


class ViewedRound(Part, frozen=True, gc=False):
    """A round of a loop."""

    address: str
    """Its address, such as `Writer[3]`."""
    number: int
    """Its number, from 1."""
    status: RoundStatus
    """What it does, or how it ended."""
    started: str
    """When it began."""
    ended: str
    """When it ended; while it runs, when its last event came."""
    parent: str = ""
    """The address of the round around it."""
    lane: int = 0
    """Its place beside other rounds of its loop, from 0."""
    seconds: Number | None = None
    """How long it took; null until it has ended."""
    work_seconds: Number | None = None
    """How long it took, without the time in which the run did not work."""
    score: Number | None = None
    """The last score inside it."""
    best: int | None = None
    """The round with the highest score by its end."""
    usage: RunUsage = NO_USAGE
    """What everything inside it has used."""
    priced: bool = False
    """Whether the cost of a call inside it is known."""
    failures: int = 0
    """How many times a node inside it failed."""
    element: str = ""
    """The beginning of the element that it is about."""
    elements: int | None = None
    """How many elements there are."""
    triggered_by: tuple[str, ...] = ()
    """The addresses of the nodes whose edges began it."""
    executions: tuple[str, ...] = ()
    """The addresses of the executions whose innermost round it is."""
    inner: tuple[str, ...] = ()
    """The addresses of the loops that were entered in it."""
    cut_off: bool = False
    """Whether the end of the run ended it."""


class ViewedExit(Part, frozen=True, gc=False):
    """How a loop was left."""

    reason: str
    """Why."""
    ended: str
    """When."""
    rounds: int
    """The number of its rounds."""
    by: str = ""
    """The node whose edge left it."""
    kept: int | None = None
    """The round whose output was kept, if a node says so."""
    seconds: float = 0.0
    """How long the loop took."""


class ViewedLoop(Part, frozen=True, gc=False):
    """One entry of a loop, a `loop_agent` or a `debate`."""

    address: str
    """Its address: that of its rounds, without their number."""
    loop: str
    """The loop: the id of its entry."""
    entry: int = 1
    """Which entry of the loop it is, from 1."""
    path: Path = ()
    """What is around the loop, outermost first."""
    is_node: bool = False
    """Whether it is a node that repeats by itself."""
    parent: str = ""
    """The address of the round around it."""
    depth: int = 0
    """How many rounds are around it."""
    limit: int | None = None
    """The most rounds that it can have."""
    limit_by: str = ""
    """The guard that the limit follows from."""
    clocks: tuple[str, ...] = ()
    """The guards that end it after a time."""
    rounds: tuple[ViewedRound, ...] = ()
    """Its rounds, in the order in which they began."""
    exit: ViewedExit | None = None
    """How it was left; null while it runs."""
    best: int | None = None
    """The round with the highest score, of those that have ended."""
    lanes: int = 1
    """How many of its rounds ran at the same time, at most."""
    usage: RunUsage = NO_USAGE
    """What everything inside it has used."""


class ViewedUnlock(Part, frozen=True, gc=False):
    """How a run was unlocked."""

    at: str
    """When."""
    by: str
    """The person."""
    reason: str
    """The reason that the person gave."""
    changes: tuple[Change, ...] = ()
    """What was changed."""
    note: str = ""
    """The message for the next agent."""
    exit: str = ""
    """The node for which the loop was left."""


class ViewedLock(Part, frozen=True, gc=False):
    """A limit or a trigger of the breaker that locked the run."""

    seq: int
    """The number of the event."""
    at: str
    """When."""
    what: str
    """The limit, or the trigger."""
    data: dict[str, Any]
    """The data of the event."""
    address: str = ""
    """Where."""
    node_id: str = ""
    """The node."""
    unlocked: ViewedUnlock | None = None
    """How the run was unlocked; null while it is locked."""


class IdleTime(Part, frozen=True, gc=False):
    """A time in which the run did not work."""

    status: Literal["waiting", "paused", "suspended_locked", "completed", "failed", "stopped"]
    """What it did instead."""
    began: str
    """When it began."""
    ended: str = ""
    """When it ended; empty while it lasts."""
    cause: StateCause = ""
    """Why, as one word."""
    reason: str = ""
    """Why, as text."""
    address: str = ""
    """For a pause during debugging: the node that was ready."""
    breakpoint: str = ""
    """For a pause by a breakpoint: the breakpoint."""
    questions: tuple[str, ...] = ()
    """While it waited: the addresses of the questions."""


class ViewedEdit(Part, frozen=True, gc=False):
    """A message that a person changed."""

    at: str
    """When."""
    address: str
    """Its address."""
    text: str
    """The new text."""
    before: str = ""
    """The beginning of the text before."""
    by: str = ""
    """The person."""
    cause: Literal["", "fork", "edit"] = ""
    """Whether it was changed in a fork, or in a queue."""
    position: int | None = None
    """Its number in the queue of the node."""


class ViewedWarning(Part, frozen=True, gc=False):
    """Something that is probably not as intended."""

    at: str
    """When."""
    code: str
    """What it is about, as one word; also `memory`, and `no_end` for a graph whose end was not reached."""
    address: str = ""
    """Where."""
    node_id: str = ""
    """The node."""
    text: str = ""
    """What it says."""
    edges: tuple[str, ...] = ()
    """For `no_end`: the edges that did not fire."""


class ViewSnapshot(Part, frozen=True, gc=False):
    """What people see of a run at one moment. `RunFold.snapshot` creates it."""

    seq: int
    """The number of the last event that it contains."""
    status: RunStatus = "running"
    """The status of the run."""
    reason: str = ""
    """The reason of the status, as text."""
    cause: StateCause = ""
    """What changed the status, as one word."""
    by: str = ""
    """The person who caused it."""
    is_pruned: bool = False
    """Whether events are missing in between, since the run was pruned."""
    started: str = ""
    """When the run began."""
    ended: str = ""
    """When it ended."""
    work_seconds: Number | None = None
    """How long it had worked when its status last changed; null if that is not known."""
    workflow: str = ""
    """The id of its graph."""
    model: str = ""
    """The model of agents that name none, if one was chosen for the run."""
    input: str = ""
    """The text of its input."""
    output: str = ""
    """The text of its result."""
    data: dict[str, Any] | None = None
    """The structured fields of its result."""
    error: str = ""
    """Its error."""
    failed_at: str = ""
    """The address of the node whose failure ended it."""
    usage: RunUsage = NO_USAGE
    """What it has used."""
    loops: tuple[ViewedLoop, ...] = ()
    """The entries of loops, in the order in which they began."""
    executions: dict[str, ViewedExecution] = {}
    """The executions of nodes, by address."""
    order: tuple[str, ...] = ()
    """Their addresses, in the order in which they began."""
    active: tuple[str, ...] = ()
    """The addresses of those that run or wait now."""
    questions: tuple[ViewedQuestion, ...] = ()
    """The open questions."""
    answers: tuple[ViewedAnswer, ...] = ()
    """The answers to earlier ones."""
    locks: tuple[ViewedLock, ...] = ()
    """What locked the run."""
    idle: tuple[IdleTime, ...] = ()
    """When it did not work."""
    edits: tuple[ViewedEdit, ...] = ()
    """What people changed."""
    warnings: tuple[ViewedWarning, ...] = ()
    """What is probably not as intended."""
    progress: RunProgress | None = None
    """How far it is, and which limits are nearest, as the process that executes it told last; null if
    it did not."""
