"""The data of events: one struct for each event, or for each status or trigger of one.

`Payload.event` is the name of the event. Where one event has several structs, a field of `data` says which
it is: `status`, or the `trigger` of a lock. The vocabulary is closed: the kernel emits nothing else, and what
middleware or the nodes of packages tell becomes `Custom` (`told_by_node`, `told_by_middleware`).

The tables of docs/events.md and web/src/api/events.ts are written from these structs (tools/event_docs.py): a
text below a field is its description, and an optional field is left out of the JSON if it has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from roundel.kernel.facts import Attempt, StopReason
from roundel.workflow.address import CallPlace

Number = int | float


class Payload(Struct, frozen=True, gc=False, omit_defaults=True):
    """The data of an event."""

    event: ClassVar[str]
    """The name of the event."""


# The run.


class RunStarted(Payload, frozen=True, gc=False):
    """The first event of every run."""

    event: ClassVar[str] = "run_started"

    workflow: str
    """the `id` of the graph"""
    input: str
    """the text of the input"""
    model: str = ""
    """the [model of agents that name none](agents.md#model-of-a-run), if one was chosen for the run"""


StateCause = Literal[
    "",
    "question",
    "answer",
    "timeout",
    "pause",
    "resume",
    "breakpoint",
    "step",
    "limit",
    "breaker",
    "crashes",
    "unlock",
    "retry",
    "revised",
]


class RunStateChanged(Payload, frozen=True, gc=False):
    """The run waits, is paused or locked, or continues after an answer, a pause, an unlock or a retry."""

    event: ClassVar[str] = "run_state_change"

    status: Literal["waiting", "paused", "suspended_locked", "running"]
    """the status"""
    reason: str
    """the reason as text; `retried` after a [retry](failures.md#retry-a-failed-run); `breakpoint` or `step`
    if [debugging](debugging.md) paused the run, and `step` when a step begins"""
    address: str = ""
    """for a pause during debugging: the address of the ready node; omitted if no node is ready"""
    breakpoint: str = ""
    """for a pause by a breakpoint: the breakpoint as text"""
    cause: StateCause = ""
    """what changed the status, as one word. `limit` is any limit that locks, `breaker` any trigger of the
    breaker but `crashes`; `revised` is a retry with changes"""
    by: str = ""
    """the person who caused it; omitted if that is not known, or nobody did"""
    questions: list[str] | None = None
    """for `waiting`: the addresses of the open questions"""
    total: RunUsage | None = None
    """what the run has used so far"""
    work_seconds: Number | None = None
    """how long the run has worked so far: without waits for people, pauses and locks"""


class LoopTotals(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run did in one loop."""

    rounds: int
    """the rounds of all entries"""
    exit_reason: str
    """[why the loop ended](loops.md#exit-reasons) last"""
    entries: int
    """how many times it was entered"""
    best: int | None = None
    """the round with the highest score in the entry that ended last; omitted if it had no scores"""


class RunUsage(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run, a loop, a round or an execution of a node has used."""

    model_calls: int
    """the model calls, also those that failed; without replies from the cache and cancelled calls"""
    tool_calls: int
    """the tool calls"""
    input_tokens: int
    """the input tokens"""
    output_tokens: int
    """the output tokens"""
    cost_usd: float | None
    """the cost in dollars; null if no price is known"""
    unpriced_calls: int
    """the model calls that were answered and whose cost is not known"""
    cached_calls: int = 0
    """the replies that came from the [cache](agents.md#response-cache); omitted if there are none"""
    cancelled_calls: int = 0
    """the model calls that were cancelled before they were answered, whose tokens are not known; omitted if
    there are none"""


class RunFinished(Payload, frozen=True, gc=False):
    """The last event of a run. A run that was retried has several; the last one counts."""

    event: ClassVar[str] = "run_finished"

    status: Literal["completed", "failed", "stopped"]
    """the status"""
    output: str
    """the text of the result; empty if there is none"""
    nodes: dict[str, int]
    """how many times each node ran, by id; nodes that never ran are omitted"""
    loops: dict[str, LoopTotals]
    """for each loop `rounds` (in total), `exit_reason` (the last one), and `entries` (how many times it was
    entered)"""
    usage: RunUsage
    """`model_calls`, `tool_calls`, `input_tokens`, `output_tokens`, `cost_usd` (null if no price is known),
    `unpriced_calls`"""
    data: dict[str, Any] | None = None
    """the structured fields of the result, if it has any"""
    error: str | None = None
    """the error with its address; omitted if nothing failed"""
    reason: str = ""
    """for `failed`: why a retry without changes [must fail again](failures.md#permanent-failures); omitted if
    it may succeed"""
    lock: dict[str, Any] | None = None
    """for a run that ended while it was locked: the `what`, `limit`, `address`, `node_id` and `evidence` of
    the lock"""
    deadline: str = ""
    """for a run that ended while a question was open: the first [deadline](nodes.md#deadlines)"""
    failed_at: str = ""
    """the address of the node whose failure ended the run; omitted if none did"""
    work_seconds: Number | None = None
    """how long the run has worked: without waits for people, pauses and locks"""
    by: str = ""
    """the person who stopped the run, if one did and is known"""


class EndNotReached(Payload, frozen=True, gc=False):
    """A graph ended, and no node in its `end` has output."""

    event: ClassVar[str] = "end_not_reached"

    edges: list[str]
    """the edges toward an end that did not fire although their source ran"""


# Loops.


class LoopRound(Payload, frozen=True, gc=False):
    """A round of a loop, a `loop_agent` or a `debate` starts."""

    event: ClassVar[str] = "loop_round"

    loop: str
    """the loop: the id of its entry"""
    round: int
    """the number of the round, from 1"""
    lane: int = 0
    """for a round beside others of its loop: the first place, from 0, that was free when it began"""
    limit: int | None = None
    """the most rounds that this entry of the loop can have: the proved bound, or else the cap, as far as
    people have raised it"""
    limit_by: str = ""
    """the guard that the limit follows from. Omitted for a cap, and for a `loop_agent` or a `debate`"""
    clocks: tuple[str, ...] = ()
    """for a loop that only its cap limits: the guards that end it after a time, as `Timer: 20 seconds`"""
    entry: int = 1
    """which entry of the loop it is, from 1"""
    triggered_by: tuple[str, ...] = ()
    """the addresses of the nodes whose edges began the round"""
    element: str = ""
    """for a `loop_agent` over a list: the beginning of the element"""
    elements: int | None = None
    """for a `loop_agent` over a list: how many elements it has"""


NO_USAGE = RunUsage(0, 0, 0, 0, 0.0, 0)
"""What rounds without calls have used."""


class RoundFinished(Payload, frozen=True, gc=False):
    """A round ended. A run that ends first, failed or stopped, leaves rounds without this event; a retry
    continues them."""

    event: ClassVar[str] = "round_finished"

    loop: str
    """the loop"""
    round: int
    """the number of the round, from 1"""
    status: Literal["completed", "failed", "cancelled"]
    """`completed`; `failed` if a failure ended it; `cancelled` if something else did before it was over"""
    lane: int = 0
    """the lane of the round"""
    score: float | None = None
    """the last score inside the round; omitted if there was none"""
    best: int | None = None
    """the round with the highest score of this entry so far, the first of equals; omitted if none has one"""
    usage: RunUsage = NO_USAGE
    """what everything inside the round has used; omitted if no calls were made"""
    seconds: float = 0.0
    """how long it took"""
    work_seconds: float = 0.0
    """how long it took, without the time in which the run did not work: questions alone, pauses, locks"""
    failures: int = 0
    """how many times a node inside failed, without failures that an error edge handled at once"""


class LoopLeft(Payload, frozen=True, gc=False):
    """A loop ended. It has the address of the last round of this entry, or that of the node if a
    `loop_agent` ended without a round."""

    event: ClassVar[str] = "loop_exit"

    loop: str
    """the loop"""
    rounds: int
    """the number of rounds since the loop was entered"""
    reason: str
    """[why the loop ended](loops.md#exit-reasons)"""
    by: str = ""
    """the node whose edge left the loop. Omitted if no edge left the loop (`no_trigger`), and for a
    `loop_agent` or a `debate`"""
    round: int = 0
    """the number of the last round"""
    entry: int = 1
    """which entry of the loop it was, from 1"""
    best: int | None = None
    """the round with the highest score, the first of equals; omitted if none has one"""
    kept: int | None = None
    """for an exit by a `loop` node: the round whose output it has sent on"""
    usage: RunUsage = NO_USAGE
    """what everything inside the loop has used; omitted if no calls were made"""
    seconds: float = 0.0
    """how long it took"""


# Nodes.


class NodeRunning(Payload, frozen=True, gc=False, tag_field="status", tag="running"):
    """A node starts."""

    event: ClassVar[str] = "node_state_change"
    status: ClassVar[Literal["running"]] = "running"

    retried: bool = False
    """true if the node runs again because the run was [retried](failures.md#retry-a-failed-run)"""
    type: str = ""
    """the [type](nodes.md) of the node"""
    speaks: bool = False
    """true if it calls a model"""


class NodeCompleted(Payload, frozen=True, gc=False, tag_field="status", tag="completed"):
    """A node is completed."""

    event: ClassVar[str] = "node_state_change"
    status: ClassVar[Literal["completed"]] = "completed"

    output: str | None = None
    """the text of its last message. Omitted if the node returned no message, or has `log_output: false`"""
    data: dict[str, Any] | None = None
    """the structured fields of that message, if it has any. The same rule applies"""
    report: dict[str, Any] | None = None
    """what the node says about this execution, if it says anything"""
    messages: int = 0
    """the number of messages that it returned"""
    score: Number | None = None
    """the score that it reports, or else the one in its data, if it is a number"""
    port: str | None = None
    """the port by which its messages leave; omitted if it named none"""
    usage: RunUsage | None = None
    """what the calls of this execution used; omitted if it made none"""


class NodeFailed(Payload, frozen=True, gc=False, tag_field="status", tag="failed"):
    """A node failed."""

    event: ClassVar[str] = "node_state_change"
    status: ClassVar[Literal["failed"]] = "failed"

    error: str
    """the error"""
    type: str
    """the [type of the failure](failures.md#types)"""
    reason: str = ""
    """why the same call [must fail again](failures.md#permanent-failures); omitted if another attempt may
    succeed"""
    handled: bool = False
    """true if an [error edge](failures.md) handled the failure"""
    node: str = ""
    """the node that failed, which may be inside this one"""
    origin: str = ""
    """the address of that node"""
    attempts: int | None = None
    """the number of attempts"""
    inside: bool = False
    """true if the failure happened inside this node"""


SkipCause = Literal["", "not_triggered", "loop_left", "round_ended", "run_failed", "stopped", "limit"]


class NodeSkipped(Payload, frozen=True, gc=False, tag_field="status", tag="skipped"):
    """A node never ran, or was cancelled while it ran."""

    event: ClassVar[str] = "node_state_change"
    status: ClassVar[Literal["skipped"]] = "skipped"

    reason: str
    """the reason"""
    cause: SkipCause = ""
    """the reason as one word. `limit`: a limit that several runs share had no room for its call, which is
    made after the unlock"""
    ran: bool = False
    """true if the node was in flight"""


# Calls of models and tools.


Purpose = Literal["answer", "repair", "reflection", "final", "summary"]


class ModelCallStarted(Payload, frozen=True, gc=False):
    """A node calls a model."""

    event: ClassVar[str] = "model_call"

    status: Literal["running"]
    """`running`"""
    call: int
    """the number of the call among the model calls of this execution, from 1"""
    purpose: Purpose
    """`answer`; `repair` of an answer that does not fit the schema; `reflection` on the first answer; `final`
    for the answer after the last round of tools; `summary` of messages that are too many"""
    ordinal: int
    """the number of earlier calls of this node in the run, by which a script chooses its reply"""


class ModelCallEnded(Payload, frozen=True, gc=False):
    """A model call is over."""

    event: ClassVar[str] = "model_call"

    status: Literal["completed", "failed", "cancelled", "refused"]
    """`completed`, `failed`, `cancelled` before it was answered, or `refused` if a limit that several runs
    share had no room for it"""
    call: int
    """the number of the call among the model calls of this execution, from 1"""
    purpose: Purpose
    """as above"""
    model: str = ""
    """the model that answered, as `provider:name`. Omitted for scripted replies, and if none answered"""
    input_tokens: int | None = None
    """the number of input tokens. Omitted if it is not known, like the next two fields"""
    output_tokens: int | None = None
    """the number of output tokens"""
    cost_usd: Number | None = None
    """the cost in dollars"""
    cached: bool = False
    """true if the answer came from the [cache](agents.md#response-cache) and cost nothing"""
    scripted: bool = False
    """true if a script answered"""
    seconds: Number | None = None
    """the time inside the provider, of all attempts together: without waits between them, and commits.
    Omitted if it is not known"""
    first_token: Number | None = None
    """for a streamed answer: the seconds of the last attempt until its first part"""
    stop: StopReason = ""
    """why the model stopped: `stop`, `length`, `tool_calls` or `content_filter`. Omitted if the provider does
    not say"""
    attempts: tuple[Attempt, ...] = ()
    """the attempts before the last one, each with what is known of `model`, `error`, `status`, `retry_after`,
    `seconds` and `waited`"""
    context: str = ""
    """the digest of what the model got. Omitted if that is not stored"""
    error: str = ""
    """for `failed`: the error"""
    type: str = ""
    """for `failed`: the [type of the failure](failures.md#types)"""
    total: RunUsage | None = None
    """what the run has used so far, with this call. Omitted in what is left of runs that an earlier version
    pruned"""


class AsideUsage(Payload, frozen=True, gc=False):
    """A call beside those of the model: the computation of [vectors for a memory](memory.md#retrieval)."""

    event: ClassVar[str] = "aside_usage"

    purpose: Literal["embedding"]
    """`embedding`"""
    model: str
    """the model, as `provider:name`"""
    input_tokens: int
    """the number of tokens"""
    cost_usd: Number | None = None
    """the cost in dollars. Omitted if no price is known"""
    total: RunUsage | None = None
    """what the run has used so far, with this call. Omitted as above"""


class ToolCallStarted(Payload, frozen=True, gc=False):
    """A model requested a tool."""

    event: ClassVar[str] = "tool_call"

    name: str
    """the tool"""
    arguments: Any
    """the arguments; if a person changed them, the changed arguments"""
    status: Literal["waiting", "running"]
    """`waiting` for a person, or `running`"""
    round: int
    """the tool round, from 1"""
    id: str
    """the id that the model gave to the request"""
    caller: str = ""
    """the address of the agent"""
    call: CallPlace | None = None
    """the `round` of tools, and the `label` of the call in it"""


class ToolCallEnded(Payload, frozen=True, gc=False):
    """A tool call has a result."""

    event: ClassVar[str] = "tool_call"

    name: str
    """the tool"""
    arguments: Any
    """the arguments; if a person changed them, the changed arguments"""
    status: Literal["completed", "failed", "refused", "rejected", "repeated", "cancelled"]
    """`completed`, `failed`, `refused`, `rejected`, `repeated` for a call that [Roundel did not
    repeat](breaker.md#repeated-tool-calls), or `cancelled` before it had a result"""
    round: int
    """the tool round, from 1"""
    id: str
    """the id that the model gave to the request"""
    result: str
    """the result that the model receives; empty if it was cancelled"""
    caller: str = ""
    """the address of the agent"""
    call: CallPlace | None = None
    """the `round` of tools, and the `label` of the call in it"""
    called: bool = False
    """true if the tool was called, and the call counts in `total`"""
    seconds: Number | None = None
    """the time inside the tool, of all attempts together. Omitted if it was not called, or it is not known"""
    waited: Number | None = None
    """how many seconds a person took to decide about it. Omitted if nobody was asked"""
    attempts: tuple[Attempt, ...] = ()
    """the attempts before the last one, each with its `error`, `seconds` and `waited`"""
    total: RunUsage | None = None
    """what the run has used so far, with this call. Omitted in what is left of runs that an earlier version
    pruned"""


class ContextCompacted(Payload, frozen=True, gc=False):
    """The messages of an agent became too many, and Roundel shortened the list."""

    event: ClassVar[str] = "context_compacted"

    strategy: Literal["drop_oldest", "summarize"]
    """`drop_oldest` or `summarize`"""
    before: int
    """the tokens of the list before"""
    after: int
    """the tokens of the list after"""
    messages: int
    """the number of messages that Roundel removed"""


class ScoreRegression(Payload, frozen=True, gc=False):
    """The score of a `loop` fell by more than its `regression`."""

    event: ClassVar[str] = "score_regression"

    score: Number
    """the score of this round"""
    previous: Number
    """the previous score"""
    fall: Number
    """the difference"""
    round: int
    """the round"""


class DebateRound(Payload, frozen=True, gc=False):
    """A participant of a `debate` answered."""

    event: ClassVar[str] = "debate_round"

    round: int
    """the round of the debate"""
    agent: str
    """the participant"""
    content: str
    """the text of the answer"""


class MemoryFailed(Payload, frozen=True, gc=False):
    """Roundel could not read or write a memory, or the access took too long."""

    event: ClassVar[str] = "memory_error"

    store: str
    """the memory"""
    error: str
    """the error"""


# People.


class QueuedInput(Struct, frozen=True, gc=False):
    """A message in the queue of a human node."""

    source: str
    """the node that sent it"""
    text: str
    """its text"""


class ToolToApprove(Struct, frozen=True, gc=False):
    """A tool call that needs approval."""

    name: str
    """the tool"""
    arguments: Any
    """the arguments"""


class QuestionAsked(Payload, frozen=True, gc=False):
    """The run asks a person."""

    event: ClassVar[str] = "human_input_required"

    prompt: str
    """the question"""
    input: list[QueuedInput] | None = None
    """for a human node: the messages in its queue, each with `source` and `text`"""
    tool: ToolToApprove | None = None
    """for an agent: the call, with `name` and `arguments`"""
    deadline: str = ""
    """for a question with a [deadline](nodes.md#deadlines): the time by which the person must answer"""
    timeout: Number | None = None
    """for a question with a deadline: the seconds until then"""
    caller: str = ""
    """for a tool: the address of the agent"""


Decision = Literal["answered", "approved", "changed", "rejected"]


class Change(Struct, frozen=True, gc=False, omit_defaults=True):
    """A value that somebody changed."""

    path: str
    """a JSON pointer"""
    before: Any = UNSET
    """the value before; omitted if there was none"""
    after: Any = UNSET
    """the value now; omitted if there is none"""


class AnswerReceived(Payload, frozen=True, gc=False):
    """A person or the script answered."""

    event: ClassVar[str] = "human_input_received"

    text: str
    """the answer"""
    data: dict[str, Any] | None = None
    """the structured fields of the answer, if it has any"""
    by: str = ""
    """who answered; omitted if that is not known, and for a script"""
    via: Literal["person", "script"] = "person"
    """`script` if the script of the run answered; omitted for a person"""
    decision: Decision = "answered"
    """what a person decided about a tool: `approved`, `changed` if the call is made with other arguments, or
    `rejected`. Omitted for a human node"""
    changes: list[Change] | None = None
    """for `changed`: the differences of the arguments, at most 50, each with a `path` (a JSON pointer) and
    the values `before` and `after`; a value that is not there is omitted"""
    reason: str = ""
    """for `rejected`: the reason"""
    waited: Number | None = None
    """how many seconds the answer took"""


ExpiryAction = Literal["default", "port", "failed", "rejected"]


class AnswerTimeout(Payload, frozen=True, gc=False):
    """The deadline of a question passed without an answer."""

    event: ClassVar[str] = "human_input_timeout"

    deadline: str
    """the time by which the person had to answer"""
    timeout: Number
    """the seconds that the person had"""
    action: ExpiryAction
    """what happens instead of an answer: `default`, `port`, `failed`, or `rejected` for a tool call"""
    waited: Number | None = None
    """how many seconds nobody answered"""


class MessageEdited(Payload, frozen=True, gc=False):
    """A fork changed the message at this address, or a person edited a queued message."""

    event: ClassVar[str] = "message_edited"

    text: str
    """the text of the new message. For a fork, it replaces the last message"""
    position: int | None = None
    """for an edit: the number of the message in the queue of the node, from 0"""
    data: dict[str, Any] | None = None
    """for an edit that changed them: the structured fields of the message"""
    by: str = ""
    """the person; omitted if that is not known"""
    before: str = ""
    """the beginning of the text before"""
    cause: Literal["", "fork", "edit"] = ""
    """`fork`, or `edit` of a queued message"""


# Limits and the breaker.


class LoopMessage(Struct, frozen=True, gc=False, omit_defaults=True):
    """A message that was said in a loop, as evidence."""

    node: str
    """the node that said it"""
    address: str
    """its address"""
    text: str
    """the beginning of its text"""
    novelty: Number | None = None
    """for a repetitive message: how new it is, from 0 to 1"""
    repeats: str = ""
    """for a repetitive message: the address of the earlier message that it repeats"""
    changed: list[list[str]] | None = None
    """for a repetitive message: the small differences, each as `[before, now]`"""


class LimitReached(Payload, frozen=True, gc=False):
    """The run reached a limit, and no new step starts."""

    event: ClassVar[str] = "limit_reached"

    what: str
    """`rounds`; the name of a [budget](limits.md#limits); `unpriced` for a model [without a known
    price](limits.md#unknown-prices); `items` for a list that is too long; for an agent `tool_rounds` or
    `calls_per_round`"""
    limit: Number
    """the limit"""
    address: str
    """the address where the run reached the limit"""
    scope: str | None = None
    """the owner of the budget: the name of a node, of the entry of a loop, or of a graph"""
    spent: Number | None = None
    """for a budget: the amount used"""
    reserved: Number | None = None
    """for a budget: the amount reserved for calls in flight"""
    wanted: Number | None = None
    """for a budget: the amount that the next step needs"""
    model: str | None = None
    """for `unpriced`: the model, as `provider:name`; `limit` is then the limit on the cost"""
    missing: str = ""
    """for `unpriced`: `usage` if the provider reported no usage; absent if no price is known"""
    messages: list[LoopMessage] | None = None
    """for a loop at its cap: the last messages in the loop, each with `node`, `address` and `text`"""
    locks: bool = False
    """true if this locks the run; false if the run goes on, or is locked already"""


class BreakerTripped(Payload, frozen=True, gc=False, tag_field="trigger"):
    """The breaker locked the run."""

    event: ClassVar[str] = "breaker_tripped"
    trigger: ClassVar[str]
    """Why; an entry of `TRIPS`."""

    state: str
    """`SUSPENDED_LOCKED`"""
    address: str = ""
    """the address where the breaker tripped; absent if a person locked the run"""


class DeadLoop(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="dead_loop"):
    """A loop goes in circles."""

    trigger: ClassVar[Literal["dead_loop"]] = "dead_loop"

    stale_rounds: int
    """the number of repetitive rounds"""
    novelty: list[Number]
    """the novelty of their messages"""
    threshold: Number
    """the required novelty"""
    messages: list[LoopMessage]
    """the repetitive messages, each with `node`, `address`, `text` and `novelty`. `repeats` is the address of
    the earlier message, and `changed` lists the small differences, each as `[before, now]`"""
    guard: str = ""
    """the guard that bounds the loop, if there is one"""


class TokenSurge(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="token_surge"):
    """The run has used far more tokens than expected."""

    trigger: ClassVar[Literal["token_surge"]] = "token_surge"

    tokens: int
    """the tokens of the run"""
    estimate: int
    """the [usual tokens](limits.md#the-breaker)"""
    factor: Number
    """how many times as many trip the breaker"""
    call: int | None = None
    """the tokens of the last call. Absent in runs that an earlier version started, as are the next two
    fields"""
    usual_call: Number | None = None
    """the tokens that are usual for that call"""
    calls: int | None = None
    """the number of calls"""


class TimeUsedUp(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="timeout"):
    """The run has worked for too long."""

    trigger: ClassVar[Literal["timeout"]] = "timeout"

    seconds: Number
    """the working time of the run"""
    limit: Number
    """the limit"""


class ProcessesDied(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="crashes"):
    """The processes of the run died again and again."""

    trigger: ClassVar[Literal["crashes"]] = "crashes"

    crashes: int
    """how many processes in a row died"""
    in_flight: list[str]
    """the addresses of the calls that were in flight"""


class LockedByHand(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="manual"):
    """A person locked the run."""

    trigger: ClassVar[Literal["manual"]] = "manual"

    reason: str
    """the reason"""
    by: str
    """the person"""


class SharedLimitReached(BreakerTripped, frozen=True, gc=False, kw_only=True, tag="group_limit"):
    """A limit that all runs of a group or a token share is reached."""

    trigger: ClassVar[Literal["group_limit"]] = "group_limit"

    limit: Number
    """the [limit of the group or the token](allow-list.md#limits)"""
    what: str
    """what is limited"""
    per: str
    """the period"""
    scope: str
    """the owner of the limit"""
    spent: Number
    """the amount used"""
    reserved: Number
    """the amount reserved for calls in flight"""
    wanted: Number
    """the amount that the call needs"""
    resets: str = ""
    """when the period ends; without it, it does not"""


AnyTrip = DeadLoop | TokenSurge | TimeUsedUp | ProcessesDied | LockedByHand | SharedLimitReached


class BreakerUnlocked(Payload, frozen=True, gc=False):
    """A person unlocked the run."""

    event: ClassVar[str] = "breaker_unlocked"

    reason: str
    """the reason that the person gave"""
    by: str
    """the person"""
    state: str
    """`RESUMED`"""
    what: str
    """the cause of the lock: a trigger of the breaker, or a limit"""
    changes: list[Change] | None = None
    """what was changed: raised limits as `/limits/tokens`, and the last message as `/message`, each with the
    values `before` and `after`; omitted if nothing was"""
    note: str = ""
    """the message for the next agent, if there is one"""
    exit: str = ""
    """the node for which the loop was left, if it was"""


class Warned(Payload, frozen=True, gc=False):
    """Something is probably not as intended, and the run continues."""

    event: ClassVar[str] = "warning"

    message: str
    """the warning text"""
    code: str = ""
    """what it is about, as one word: `stale` for a loop that hardly changes, `unpriced` for a price that is
    not known, `truncated` for an answer that was cut off, `retried` for attempts of a model that failed,
    `no_answer` for a model that gave none, `no_summary` for messages that were dropped instead, `no_list` for
    an input that is no list, `judge_unclear`, or `breakpoint` for a condition that fails"""
    address: str = ""
    """for a loop that hardly changes: the address of its round"""
    messages: list[LoopMessage] | None = None
    """for a loop that hardly changes: the messages, as in [`breaker_tripped`](#breaker_tripped)"""
    guard: str = ""
    """for a loop that hardly changes: the guard that bounds it"""
    model: str | None = None
    """for a price that is not known: the model, as `provider:name`; empty if the agent names none"""


class Custom(Payload, frozen=True, gc=False):
    """What middleware or the node of a package tells, or an event that this version does not know."""

    event: ClassVar[str] = "custom"

    name: str
    """the name that the middleware or the node gave"""
    data: dict[str, Any]
    """its fields"""


# Transient events.


class TokenStream(Payload, frozen=True, gc=False):
    """A part of the answer of a model, while the model streams it."""

    event: ClassVar[str] = "token_stream"

    text: str
    """the part"""
    attempt: int
    """the attempt that the part belongs to, from 1. A new attempt replaces the text of the earlier
    attempts"""
    offset: int
    """the number of characters of this attempt before this part"""


class ProgressReported(Payload, frozen=True, gc=False):
    """The progress that a function reports."""

    event: ClassVar[str] = "progress"

    text: str
    """the text that the function reports"""
    fraction: float | None = None
    """the completed part, from 0 to 1. Omitted if the function does not report it"""


class RequestSent(Payload, frozen=True, gc=False):
    """A request leaves for the provider of a model."""

    event: ClassVar[str] = "call_sent"

    call: int
    """the number of the call among the model calls of one execution of the node, from 1"""
    attempt: int
    """the number of the attempt at this model, from 1"""
    of: int
    """how many attempts are made at most"""
    model: str
    """the model, as `provider:name`"""


class CallWaiting(Payload, frozen=True, gc=False):
    """A call failed and waits for its next attempt."""

    event: ClassVar[str] = "call_waiting"

    cause: Literal["retry"]
    """why it waits: `retry`"""
    seconds: float
    """how long it waits"""
    until: str
    """the time at which the next attempt is made"""
    attempt: int
    """the number of the attempt that failed, from 1"""
    of: int
    """how many attempts are made at most"""
    error: str
    """the error of the attempt, in one line"""
    call: int | None = None
    """the number of the call among the model calls of one execution of the node, from 1. Omitted if it is no
    call of a model"""
    status: int | None = None
    """the HTTP status with which the provider of a model refused. Omitted if there is none"""
    model: str = ""
    """the model, as `provider:name`. Omitted if it is no call of a model"""


class LoopPosition(Struct, frozen=True, gc=False):
    """A loop that is running, in its current round."""

    address: str
    """The address of the current round, such as `Writer[3]`."""
    loop: str
    """The name of the loop."""
    round: int
    """The number of the current round, from 1."""
    limit: int | None
    """The most rounds that it can have: as proved, else its cap; null if there is no number."""
    by: str = ""
    """The guard that the limit follows from; empty for a cap, and for a node that repeats by itself."""


class GuardState(Struct, frozen=True, gc=False):
    """How much of a limit is used."""

    kind: str
    """What it limits: rounds, seconds, tokens, …; `novelty` is one that must not fall below its limit."""
    name: str
    """The node, loop or graph that has the limit."""
    used: float
    """How much is used."""
    limit: float
    """The limit."""
    share: float
    """How near it is: 1 if the limit is reached."""
    address: str = ""
    """The address of the loop or node; empty for the whole run."""


class QuestionShown(Struct, frozen=True, gc=False):
    """A question, as lists of runs show it."""

    address: str
    """the address of the node that asks"""
    node_id: str
    """the node that asks"""
    prompt: str
    """the beginning of the question"""
    tool: ToolToApprove | None
    """the tool call that needs approval, with short arguments; null for another question"""


class PauseShown(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a run is paused."""

    reason: str = ""
    """the reason"""
    address: str = ""
    """where a breakpoint or a step paused it"""
    breakpoint: str = ""
    """the breakpoint that paused it"""


class LockShown(Struct, frozen=True, gc=False):
    """Why a run is locked."""

    what: str
    """a trigger of the breaker, or a limit"""
    limit: Number | None
    """the limit"""
    address: str
    """where it was locked"""
    text: str
    """all of it in one sentence"""


class RunProgress(Payload, frozen=True, gc=False):
    """How far the run is, as lists of runs show it."""

    event: ClassVar[str] = "run_progress"

    loops: list[LoopPosition]
    """the loops that are running, outer ones first, each with the `address` of its current round, `loop`,
    `round`, its `limit`, and `by`, the guard that the limit follows from"""
    guards: list[GuardState]
    """the limits that are nearest, at most 10, the nearest first, each with `kind`, `name`, `used`, `limit`,
    `share` (1 if the limit is reached) and `address`"""
    score: Number | None
    """the newest score; null if there was none"""
    scores: list[float]
    """the scores of the last rounds of one loop, the oldest first: of the innermost running loop that has
    scores, else of the loop that had one last"""
    threshold: float | None
    """the score that ends this loop; null if no score does"""
    usage: RunUsage
    """what the run has used so far"""
    active: list[str]
    """the ids of nodes that work now, at most 5"""
    questions: list[str]
    """the addresses of the open questions"""
    work_seconds: float
    """how long the run has worked so far: without waits for people, pauses and locks"""
    question: QuestionShown | None = None
    """the first open question, shortened; omitted if there is none"""
    pause: PauseShown | None = None
    """why the run is paused; omitted if it is not"""
    lock: LockShown | None = None
    """why the run is locked; omitted if it is not"""


NodeStateChange = NodeRunning | NodeCompleted | NodeFailed | NodeSkipped
ModelCallChange = ModelCallStarted | ModelCallEnded
ToolCallChange = ToolCallStarted | ToolCallEnded
EventData = (
    RunStarted
    | LoopRound
    | NodeStateChange
    | TokenStream
    | ProgressReported
    | RequestSent
    | CallWaiting
    | RunProgress
    | ContextCompacted
    | ModelCallChange
    | AsideUsage
    | ToolCallChange
    | QuestionAsked
    | AnswerReceived
    | AnswerTimeout
    | ScoreRegression
    | DebateRound
    | RoundFinished
    | LoopLeft
    | LimitReached
    | AnyTrip
    | BreakerUnlocked
    | Warned
    | MemoryFailed
    | MessageEdited
    | RunStateChanged
    | EndNotReached
    | Custom
    | RunFinished
)
"""Everything that can be the data of an event."""

TRANSIENT = (
    TokenStream.event,
    ProgressReported.event,
    RequestSent.event,
    CallWaiting.event,
    RunProgress.event,
)
"""Events about a call in flight, and pictures of the run. They are not part of the run: they have no number,
are never stored, and reach only those who follow the run at that moment."""


def kinds_of(name: str) -> tuple[type[Payload], ...]:
    """The structs of an event; none if there is no event of that name."""
    return _KINDS.get(name, ())


def _by_name() -> dict[str, tuple[type[Payload], ...]]:
    found: dict[str, tuple[type[Payload], ...]] = {}
    for kind in EventData.__args__:
        found[kind.event] = (*found.get(kind.event, ()), kind)
    return found


_KINDS = _by_name()


class _Status(Struct, frozen=True, gc=False):
    status: str


def _decode_call(
    started: type[ModelCallStarted | ToolCallStarted], ended: type[ModelCallEnded | ToolCallEnded]
) -> Callable[[bytes | Raw], EventData]:
    # The status of a call has several values for each struct, so it cannot be the tag of a union.
    def decode(body: bytes | Raw) -> EventData:
        is_open = msgspec.json.decode(body, type=_Status).status in ("waiting", "running")
        return msgspec.json.decode(body, type=started if is_open else ended)

    return decode


def _decoder(kinds: tuple[type[Payload], ...]) -> Callable[[bytes | Raw], EventData]:
    kind: Any = kinds[0]
    for other in kinds[1:]:
        kind |= other
    return msgspec.json.Decoder(kind).decode


_DECODERS: dict[str, Callable[[bytes | Raw], EventData]] = {
    name: _decoder(kinds) for name, kinds in _KINDS.items() if name not in ("model_call", "tool_call")
} | {
    ModelCallStarted.event: _decode_call(ModelCallStarted, ModelCallEnded),
    ToolCallStarted.event: _decode_call(ToolCallStarted, ToolCallEnded),
}


def decode_payload(name: str, body: bytes | Raw) -> EventData:
    """The data of an event from its JSON; msgspec.MsgspecError. An unknown event becomes `Custom`."""
    decode = _DECODERS.get(name)
    return Custom(name, msgspec.json.decode(body)) if decode is None else decode(body)


def with_report(data: EventData, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of the data of an event for a program that reads lines: what a completed node reports stands
    beside the others, too, unless one of those has its name."""
    report = data.report if isinstance(data, NodeCompleted) else None
    return {**report, **fields} if report else fields


def told_by_node(kinds: Collection[str], name: str, data: dict[str, Any]) -> EventData:
    """What a node tells, by name and data. `kinds` are the events of its type (`NodeType.events`), all others
    are `Custom`."""
    return _converted(name, data) if name in kinds else Custom(name, data)


def as_told(kinds: Collection[str], data: EventData) -> EventData:
    """What the conversation or the controller of a node tells, by the same rule."""
    if data.event in kinds or data.event == Custom.event:
        return data
    return Custom(data.event, msgspec.to_builtins(data, enc_hook=repr))


def told_by_middleware(name: str, data: dict[str, Any]) -> EventData:
    """What middleware tells. The writer of memories is middleware, too; what the middleware of users tells
    has the name `custom` (`Visit.tell`). Old facts have its own name."""
    return _converted(name, data) if name in (MemoryFailed.event, Custom.event) else Custom(name, data)


def _converted(name: str, data: dict[str, Any]) -> EventData:
    try:
        (kind,) = _KINDS[name]
        converted: EventData = msgspec.convert(data, kind)  # type: ignore[assignment]
        return converted
    except msgspec.ValidationError:
        return Custom(name, data)
