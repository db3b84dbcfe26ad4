"""From events to spans.

There is a span for each part of a run, each time that a node runs, each round of a loop, and each call of a
tool. An event about anything smaller becomes an event of the span in which it happened. Addresses tell what
is inside of what.

Events may come without those before them, since a run goes on from wherever it was left. A node that is first
heard of when it ends has a span as long as what was seen of it.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.trace import Tracer

from roundel.kernel.events import TRANSIENT, Event
from roundel.telemetry import agent_spans, node_spans, round_spans
from roundel.telemetry.conventions import (
    COST,
    INPUT_MESSAGES,
    OPERATION,
    OUTPUT_MESSAGES,
    PARTIAL,
    REASON,
    RUN_ID,
    WORKFLOW,
    said,
)
from roundel.telemetry.moments import nanoseconds
from roundel.telemetry.names import Known
from roundel.telemetry.notes import note
from roundel.telemetry.part import Part
from roundel.telemetry.traces import as_part_of, link_to_first

TOTALS = ("model_calls", "tool_calls", "input_tokens", "output_tokens")


class Spans:
    """The spans of any number of runs."""

    def __init__(self, tracer: Tracer, content: bool) -> None:
        self._tracer = tracer
        self._content = content
        self._parts: dict[str, Part] = {}
        self.known = Known()

    def observe(self, event: Event) -> None:
        if event.event in TRANSIENT:
            return
        now = nanoseconds(event.timestamp)
        part = self._part(event, now)
        part.seq = event.seq
        _HANDLERS.get(event.event, note)(part, event, now)
        if event.event in ("run_state_change", "run_finished") and event.data.get("status") != "running":
            part.end(part.root, now, event.data.get("status", ""))
            del self._parts[event.run_id]

    def let_go(self, run_id: str) -> None:
        """Ends what is open of a run that nobody here is at work on any more, and that never came to rest."""
        part = self._parts.pop(run_id, None)
        if part is not None:
            part.root.fail("nobody is at work on the run any more", "lost")
            part.end(part.root, part.root.last, "lost")

    def _part(self, event: Event, now: int) -> Part:
        part = self._parts.get(event.run_id)
        if part is not None and event.seq == part.seq + 1:
            return part
        if part is not None:
            self.let_go(event.run_id)  # it went on elsewhere meanwhile
        part = self._parts[event.run_id] = self._begin(event, now)
        return part

    def _begin(self, event: Event, now: int) -> Part:
        first = event.event == "run_started"
        workflow, agents = self.known.hear(event)
        attributes = {OPERATION: "invoke_workflow", RUN_ID: event.run_id}
        if workflow:
            attributes[WORKFLOW] = workflow
        with as_part_of(event.run_id, first):
            name = f"invoke_workflow {workflow}".rstrip()
            root = self._tracer.start_span(name, attributes=attributes, start_time=now)
        if not first:
            root.set_attribute(PARTIAL, True)
            link_to_first(event.run_id, root)
        return Part(self._tracer, root, now, event.seq, self._content, agents)


def _started(part: Part, event: Event, _: int) -> None:
    if part.content:
        part.root.span.set_attribute(INPUT_MESSAGES, said("user", event.data.get("input", "")))


def _changed(part: Part, event: Event, now: int) -> None:
    reason = event.data.get("reason", "")
    if event.data.get("status") == "running":
        part.root.span.add_event("roundel.goes_on", {REASON: reason}, now)
    else:
        part.root.span.set_attribute(REASON, reason)


def _finished(part: Part, event: Event, _: int) -> None:
    data, span = event.data, part.root.span
    usage = data.get("usage", {})
    span.set_attributes({f"roundel.{name}": usage.get(name, 0) for name in TOTALS})
    if usage.get("cost_usd") is not None:
        span.set_attribute(COST, usage["cost_usd"])
    if part.content:
        span.set_attribute(OUTPUT_MESSAGES, said("assistant", data.get("output", "")))
    if data.get("status") == "failed":
        part.root.fail(data.get("error", ""))


def _ignore_event(part: Part, event: Event, now: int) -> None:
    """It is told again when the node ends."""


_HANDLERS: dict[str, Callable[[Part, Event, int], None]] = {
    "run_started": _started,
    "run_state_change": _changed,
    "run_finished": _finished,
    "node_state_change": node_spans.on_node_state_change,
    "token_usage": agent_spans.on_token_usage,
    "tool_call": agent_spans.on_tool_call,
    "debate_round": _ignore_event,
    "loop_round": round_spans.on_round_started,
    "loop_exit": round_spans.on_loop_exit,
}
