"""Turns events into spans: one trace for each run, even if several processes execute it.

There is a span for each segment of a run, each execution of a node, each round of a loop, and each call of a
model or a tool. An event about anything smaller becomes an event of the span in which it happened. Addresses
tell what is inside what, so no state beside the open spans is needed.

A segment is the part of a run from its start or resume until it is idle. The trace id is derived from
the run id, and so is the span id of the first segment, to which later segments link. Each segment is a
root of its own in that trace: a segment that a crash cut off is never sent, and must not leave the
others without a parent. Samplers that use the trace id decide the same for all segments, so a run is
sampled as a whole.

Events may arrive without the events before them, since a run is resumed from wherever it was left. A
node that is first seen when it ends has a span as long as what was seen of it, with the attribute
`roundel.partial`.

"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from msgspec.structs import asdict
from opentelemetry.trace import Span, SpanContext, Status, StatusCode, TraceFlags, Tracer, set_span_in_context

from roundel.kernel.events import Event
from roundel.kernel.payloads import (
    TRANSIENT,
    AsideUsage,
    EventData,
    LoopRound,
    ModelCallChange,
    ModelCallEnded,
    ModelCallStarted,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    NodeStateChange,
    RoundFinished,
    RunFinished,
    RunStarted,
    RunStateChanged,
    ToolCallChange,
    ToolCallEnded,
)
from roundel.telemetry.conventions import (
    ADDRESS,
    AGENT,
    CACHED,
    CALL,
    COST,
    ERROR_TYPE,
    FINISH_REASONS,
    INPUT_MESSAGES,
    INPUT_TOKENS,
    LOOP,
    NODE,
    OPERATION,
    OUTPUT_MESSAGES,
    OUTPUT_TOKENS,
    PARTIAL,
    PURPOSE,
    REASON,
    REQUEST_MODEL,
    ROUND,
    RUN_ID,
    SCRIPT,
    STATUS,
    TOOL,
    TOOL_ARGUMENTS,
    TOOL_CALL_ID,
    TOOL_RESULT,
    WORKFLOW,
    RunRegistry,
    format_message,
    model_attributes,
    to_json,
    to_nanoseconds,
)
from roundel.workflow.address import enclosing_addresses, innermost_round
from roundel.workflow.limits import dollars, picodollars

pending_span_ids: ContextVar[tuple[int, int | None] | None] = ContextVar("wanted", default=None)
"""The trace id, and for a first segment the span id, of the span that is being started; `RunIds` reads
it."""


def derive_ids(run_id: str) -> tuple[int, int]:
    """The trace id of a run, and the span id of its first segment. 0 would be invalid."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


@contextmanager
def use_run_ids(run_id: str, first: bool) -> Iterator[None]:
    """Gives the span that starts inside the block the ids of the run, if the provider uses `RunIds`."""
    trace_id, span_id = derive_ids(run_id)
    token = pending_span_ids.set((trace_id, span_id if first else None))
    try:
        yield
    finally:
        pending_span_ids.reset(token)


def link_to_first_segment(run_id: str, segment: Span) -> None:
    """Links a later segment to the first one, if the provider uses `RunIds` and so put both in one
    trace."""
    trace_id, span_id = derive_ids(run_id)
    if segment.get_span_context().trace_id == trace_id:
        flags = TraceFlags(TraceFlags.SAMPLED)
        segment.add_link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags))


MAX_REASON_LENGTH = 1000


class OpenSpan:
    """A span that has begun, and the open spans inside it; `RunSegment` creates it."""

    __slots__ = (
        "address",
        "agent",
        "children",
        "cost",
        "input_tokens",
        "kind",
        "last",
        "name",
        "output_tokens",
        "parent",
        "span",
        "stop",
    )

    def __init__(
        self, kind: str, name: str, address: str, span: Span, start: int, parent: OpenSpan | None
    ) -> None:
        self.kind = kind
        """`run`, `node`, `round`, `model` or `tool`."""
        self.name = name
        self.address = address
        self.span = span
        self.parent = parent
        self.children: dict[str, OpenSpan] = {}
        self.last = start
        """The time of the last event in it or inside it: the end of a run that nobody executes any more."""
        self.agent = False
        self.input_tokens = self.output_tokens = 0
        self.cost = 0  # in picodollars
        self.stop = ""
        """Why the model stopped in its last call."""

    def touch(self, now: int) -> None:
        """Notes that something happened here, and in everything around it; stops where that is known."""
        place: OpenSpan | None = self
        while place is not None and place.last < now:
            place.last = now
            place = place.parent

    def fail(self, reason: str, kind: str = "failed") -> None:
        self.span.set_attribute(ERROR_TYPE, kind)
        self.span.set_status(Status(StatusCode.ERROR, reason[:MAX_REASON_LENGTH]))


class RunSegment:
    """The open spans of one segment of a run; `SpanRecorder` creates it."""

    def __init__(self, tracer: Tracer, root: Span, start: int, seq: int, content: bool) -> None:
        self._tracer = tracer
        self._open: dict[str, OpenSpan] = {}
        self.root = OpenSpan("run", "", "", root, start, None)
        self.since = start
        self.seq = seq
        """The number of the last event; a gap means that another process executed the run in between."""
        self.content = content
        """Whether to record texts of messages, arguments and results."""

    def get(self, address: str) -> OpenSpan | None:
        return self._open.get(address)

    def nearest(self, address: str | None) -> OpenSpan:
        """The open span at an address, or else the nearest around it."""
        if not address:
            return self.root
        return self._open.get(address) or self.enclosing(address)

    def enclosing(self, address: str) -> OpenSpan:
        """The nearest open span around an address."""
        # Only open spans are parents, so a span whose enclosing node was not seen moves up to the next
        # one.
        for place in enclosing_addresses(address):
            found = self._open.get(place)
            if found is not None and found.kind not in ("tool", "model"):  # `mean#2` is not inside of `mean`
                return found
        return self.root

    def begin(
        self,
        kind: str,
        name: str,
        address: str,
        title: str,
        start: int,
        attributes: dict[str, Any],
        parent: OpenSpan | None = None,
    ) -> OpenSpan:
        """Begins a span, inside of the nearest one around its address if no parent is given."""
        parent = parent or self.enclosing(address)
        context = set_span_in_context(parent.span)
        span = self._tracer.start_span(title, context, attributes=attributes, start_time=start)
        begun = OpenSpan(kind, name, address, span, start, parent)
        self._open[address] = parent.children[address] = begun
        parent.touch(start)
        return begun

    def end(self, ended: OpenSpan, now: int, status: str = "") -> None:
        """Ends a span, after all open spans inside it."""
        for one in list(ended.children.values()):
            self.end(one, now, status)
        if status:
            ended.span.set_attribute(STATUS, status)
        ended.span.end(now)
        if ended.parent is not None:
            ended.parent.touch(now)
            ended.parent.children.pop(ended.address, None)
            self._open.pop(ended.address, None)


_EVIDENCE = ("stale_rounds", "threshold", "guard", "tokens", "estimate", "factor", "seconds", "limit")
_SHOWN_FIELDS = {
    "breaker_tripped": ("trigger", *_EVIDENCE),
    "breaker_unlocked": ("what", "by", "reason", "exit"),
    "custom": ("name",),
    "end_not_reached": ("edges",),
    "limit_reached": ("what", "limit", "scope", "spent", "reserved", "wanted"),
    "loop_exit": ("loop", "rounds", "reason", "by"),
    "memory_error": ("store", "error"),
    "score_regression": ("score", "previous", "fall", "round"),
}
"""The fields of an event that are recorded. Others may quote messages, and are recorded only with
content."""


def add_span_event(segment: RunSegment, event: Event, _data: EventData, now: int) -> None:
    """Records an event without a span of its own on the nearest open span."""
    data = event.fields()
    shown = ((name, data.get(name)) for name in _SHOWN_FIELDS.get(event.event, ()))
    attributes: dict[str, Any] = {f"roundel.{name}": value for name, value in shown if value is not None}
    if event.address:
        attributes[ADDRESS] = event.address
    if segment.content:
        attributes["roundel.data"] = to_json(data)
    segment.nearest(event.address).span.add_event(f"roundel.{event.event}", attributes, now)


def on_node_state_change(segment: RunSegment, event: Event, data: NodeStateChange, now: int) -> None:
    """Begins or ends the span of a node.

    `skipped` has two meanings: a node that never ran is only an event of the span around it, and a node
    that was cancelled in flight ends its span.
    """
    open_span = segment.get(event.address or "")
    if isinstance(data, NodeRunning):
        # A second start without an end at the same address: the first execution was lost.
        if open_span is not None:
            segment.end(open_span, now, "lost")
        begun = _begin_node(segment, event, now)
        if data.speaks:
            mark_agent(begun)
    elif isinstance(data, NodeSkipped) and open_span is None:
        _add_skipped_event(segment, event, data, now)
    else:
        _end_node(segment, open_span or begin_unseen_node(segment, event), data, now)


def begin_unseen_node(segment: RunSegment, event: Event) -> OpenSpan:
    """Begins the span of a node that was already in flight when this segment began."""
    begun = _begin_node(segment, event, segment.since)
    begun.span.set_attribute(PARTIAL, True)
    return begun


def _begin_node(segment: RunSegment, event: Event, start: int) -> OpenSpan:
    address, node = event.address or "", event.node_id or ""
    attributes: dict[str, Any] = {RUN_ID: event.run_id, NODE: node, ADDRESS: address}
    number = innermost_round(address)[1]
    if number:
        attributes[ROUND] = number
    return segment.begin("node", node, address, f"node {node}", start, attributes)


def mark_agent(node: OpenSpan) -> None:
    """Makes the span of a node the span of an agent, with the name that the conventions ask for."""
    if not node.agent:
        node.agent = True
        node.span.update_name(f"invoke_agent {node.name}")
        node.span.set_attributes({OPERATION: "invoke_agent", AGENT: node.name})


def _end_node(
    segment: RunSegment, node: OpenSpan, data: NodeCompleted | NodeFailed | NodeSkipped, now: int
) -> None:
    if isinstance(data, NodeFailed):
        node.fail(data.error)
    if not isinstance(data, NodeCompleted) and data.reason:
        node.span.set_attribute(REASON, data.reason)
    if segment.content and isinstance(data, NodeCompleted) and data.output is not None:
        message = format_message("assistant", data.output, node.stop)
        node.span.set_attribute(OUTPUT_MESSAGES, message)
    segment.end(node, now, data.status)


def _add_skipped_event(segment: RunSegment, event: Event, data: NodeSkipped, now: int) -> None:
    attributes = {NODE: event.node_id or "", ADDRESS: event.address or "", REASON: data.reason}
    segment.nearest(event.address).span.add_event("roundel.skipped", attributes, now)


def on_model_call(segment: RunSegment, event: Event, data: ModelCallChange, now: int) -> None:
    """Begins or ends the span of a model call, which is inside of that of its agent."""
    node = segment.get(event.address or "") or begin_unseen_node(segment, event)
    mark_agent(node)
    if isinstance(data, ModelCallStarted):
        _begin_model(segment, event, data, node, now)
        return
    open_span = segment.get(_place_of_model(event))
    if open_span is None:
        open_span = _begin_model(segment, event, data, node, segment.since)
        open_span.span.set_attribute(PARTIAL, True)
    if data.status == "completed":
        _add_tokens(node, data.model, data.input_tokens, data.output_tokens, data.cost_usd, data.cached)
    node.stop = data.stop
    _end_model(segment, open_span, data, now)


def on_aside_usage(segment: RunSegment, event: Event, data: AsideUsage, now: int) -> None:
    """Adds the tokens of embeddings to the span of their agent."""
    node = segment.get(event.address or "") or begin_unseen_node(segment, event)
    mark_agent(node)
    node.touch(now)
    _add_tokens(node, None, data.input_tokens, 0, data.cost_usd)


def _add_tokens(
    node: OpenSpan,
    model: str | None,
    input_tokens: int | None,
    output_tokens: int | None,
    cost: float | None,
    cached: bool = False,
) -> None:
    """Adds the tokens of a call to the span of its node. An attribute of a span can only be set, so each call
    sets the sums so far."""
    if model is not None:
        node.span.set_attributes(model_attributes(model))
    if cached:  # the reply comes from the cache: no tokens were used
        node.span.set_attribute(CACHED, True)
        return
    if input_tokens is not None or output_tokens is not None:
        node.input_tokens += input_tokens or 0
        node.output_tokens += output_tokens or 0
        node.span.set_attributes({INPUT_TOKENS: node.input_tokens, OUTPUT_TOKENS: node.output_tokens})
    if cost is not None:
        node.cost += picodollars(cost)
        node.span.set_attribute(COST, dollars(node.cost))


def _place_of_model(event: Event) -> str:
    """The key of the model call of an agent: it has at most one, at its own address, which no other place
    can have."""
    return f"{event.address or ''} model"


def _begin_model(
    segment: RunSegment, event: Event, data: ModelCallChange, node: OpenSpan, now: int
) -> OpenSpan:
    agent = event.node_id or ""
    attributes: dict[str, Any] = {
        OPERATION: "chat",
        AGENT: agent,
        RUN_ID: event.run_id,
        NODE: agent,
        ADDRESS: event.address or "",
        CALL: data.call,
        PURPOSE: data.purpose,
    }
    return segment.begin("model", agent, _place_of_model(event), "chat", now, attributes, node)


def _end_model(segment: RunSegment, call: OpenSpan, data: ModelCallEnded, now: int) -> None:
    known = model_attributes(data.model) if data.status == "completed" else {}
    if known:
        call.span.update_name(f"chat {known.get(REQUEST_MODEL, SCRIPT)}")
    shown = {
        **known,
        INPUT_TOKENS: data.input_tokens,
        OUTPUT_TOKENS: data.output_tokens,
        COST: data.cost_usd,
        FINISH_REASONS: [data.stop] if data.stop else None,
        "roundel.seconds": data.seconds,
        "roundel.first_token": data.first_token,
        CACHED: data.cached or None,
    }
    call.span.set_attributes({name: value for name, value in shown.items() if value is not None})
    for number, attempt in enumerate(data.attempts, 1):
        told: dict[str, Any] = {"attempt": number, **asdict(attempt)}
        attributes = {f"roundel.{name}": value for name, value in told.items() if value}
        call.span.add_event("roundel.attempt", attributes, now)
    if data.status == "failed":
        call.fail(data.error, data.type or "failed")
    segment.end(call, now, data.status)


def on_tool_call(segment: RunSegment, event: Event, data: ToolCallChange, now: int) -> None:
    """Begins or ends the span of a tool call; a call that was only requested is an event of its
    agent."""
    address = event.address or ""
    call = segment.get(address)
    agent = segment.get(data.caller) or segment.enclosing(address)
    if agent.kind == "node":
        mark_agent(agent)
    if data.status == "running":
        if call is None:
            _begin_tool(segment, event, data, agent, now)
    elif isinstance(data, ToolCallEnded) and (call is not None or data.called):
        _end_tool(segment, call or _begin_tool(segment, event, data, agent, now), data, now)
    else:  # a person is asked first, or it was not called at all
        attributes = {TOOL: data.name, STATUS: data.status, ADDRESS: address}
        agent.span.add_event("roundel.tool_call", attributes, now)


def _begin_tool(
    segment: RunSegment, event: Event, data: ToolCallChange, caller: OpenSpan, now: int
) -> OpenSpan:
    name, address, agent = data.name, event.address or "", event.node_id or ""
    attributes: dict[str, Any] = {
        OPERATION: "execute_tool",
        TOOL: name,
        TOOL_CALL_ID: data.id,
        AGENT: agent,
        RUN_ID: event.run_id,
        NODE: agent,
        ADDRESS: address,
        ROUND: data.round,
    }
    return segment.begin("tool", name, address, f"execute_tool {name}", now, attributes, caller)


def _end_tool(segment: RunSegment, call: OpenSpan, data: ToolCallEnded, now: int) -> None:
    if data.status == "failed":
        call.fail(data.result if segment.content else "")  # an error text may quote arguments
    if segment.content:
        call.span.set_attribute(TOOL_ARGUMENTS, to_json(data.arguments))
        call.span.set_attribute(TOOL_RESULT, data.result)
    segment.end(call, now, data.status)


def on_round_started(segment: RunSegment, event: Event, data: LoopRound, now: int) -> None:
    address, loop = event.address or "", data.loop
    same = segment.get(address)
    if same is not None:  # another begin without an end: the first round was lost
        segment.end(same, now, "lost")
    attributes: dict[str, Any] = {RUN_ID: event.run_id, LOOP: loop, ROUND: data.round, ADDRESS: address}
    segment.begin("round", loop, address, f"round {loop}", now, attributes)


def on_round_finished(segment: RunSegment, event: Event, _: RoundFinished, now: int) -> None:
    ended = segment.get(event.address or "")
    if ended is not None:  # else it began before this segment
        segment.end(ended, now)


TOTALS = ("model_calls", "tool_calls", "input_tokens", "output_tokens")


class SpanRecorder:
    """Records the spans of any number of runs; `Telemetry` creates it."""

    def __init__(self, tracer: Tracer, content: bool) -> None:
        self._tracer = tracer
        self._content = content
        self._segments: dict[str, RunSegment] = {}
        self.runs = RunRegistry()

    def observe(self, event: Event) -> None:
        # Transient events, such as token streams, are not stored and have no number: they would look
        # like a gap.
        if event.event in TRANSIENT:
            return
        now = to_nanoseconds(event.timestamp)
        segment = self._get_segment(event, now)
        segment.seq = event.seq
        _HANDLERS.get(event.event, add_span_event)(segment, event, event.data, now)
        data = event.data
        if isinstance(data, RunStateChanged | RunFinished) and data.status != "running":
            segment.end(segment.root, now, data.status)
            del self._segments[event.run_id]  # a later event begins a new segment

    def close_run(self, run_id: str) -> None:
        """Ends the open spans of a run that this process no longer executes, and that never became
        idle."""
        segment = self._segments.pop(run_id, None)
        if segment is not None:
            segment.root.fail("this process no longer executes the run", "lost")
            segment.end(segment.root, segment.root.last, "lost")

    def _get_segment(self, event: Event, now: int) -> RunSegment:
        segment = self._segments.get(event.run_id)
        if segment is not None and event.seq == segment.seq + 1:
            return segment
        if segment is not None:
            self.close_run(event.run_id)  # another process executed it in between
        segment = self._segments[event.run_id] = self._begin(event, now)
        return segment

    def _begin(self, event: Event, now: int) -> RunSegment:
        # If a span of the program is current, such as that of a request, it becomes the parent, and the
        # ids of the run do not apply.
        first = event.event == "run_started"
        workflow = self.runs.lookup(event)
        attributes = {OPERATION: "invoke_workflow", RUN_ID: event.run_id}
        if workflow:
            attributes[WORKFLOW] = workflow
        with use_run_ids(event.run_id, first):
            name = f"invoke_workflow {workflow}".rstrip()
            root = self._tracer.start_span(name, attributes=attributes, start_time=now)
        if not first:
            # A link and not a parent: the first segment may never have been sent.
            root.set_attribute(PARTIAL, True)
            link_to_first_segment(event.run_id, root)
        return RunSegment(self._tracer, root, now, event.seq, self._content)


def _on_run_started(segment: RunSegment, _event: Event, data: RunStarted, _: int) -> None:
    if segment.content:
        segment.root.span.set_attribute(INPUT_MESSAGES, format_message("user", data.input))


def _on_run_state_change(segment: RunSegment, _event: Event, data: RunStateChanged, now: int) -> None:
    if data.status == "running":
        segment.root.span.add_event("roundel.resumed", {REASON: data.reason}, now)
    else:
        segment.root.span.set_attribute(REASON, data.reason)


def _on_run_finished(segment: RunSegment, _event: Event, data: RunFinished, _: int) -> None:
    usage, span = data.usage, segment.root.span
    span.set_attributes({f"roundel.{name}": getattr(usage, name) for name in TOTALS})
    if usage.cost_usd is not None:
        span.set_attribute(COST, usage.cost_usd)
    if segment.content:
        span.set_attribute(OUTPUT_MESSAGES, format_message("assistant", data.output))
    if data.status == "failed":
        segment.root.fail(data.error or "")


def _ignore_event(segment: RunSegment, event: Event, data: EventData, now: int) -> None:
    """For events whose content is repeated when the node ends."""


_HANDLERS: dict[str, Callable[[RunSegment, Event, Any, int], None]] = {
    "run_started": _on_run_started,
    "run_state_change": _on_run_state_change,
    "run_finished": _on_run_finished,
    "node_state_change": on_node_state_change,
    "model_call": on_model_call,
    "aside_usage": on_aside_usage,
    "tool_call": on_tool_call,
    "debate_round": _ignore_event,
    "loop_round": on_round_started,
    "round_finished": on_round_finished,
}
