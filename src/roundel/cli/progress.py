"""The progress of a run, folded from its events for the display.

`Progress` is a second, much smaller state than the kernel's: only what a person sees. It is folded from
events and not read from the kernel's state for each frame, so that drawing never touches the state of
the run while another thread changes it. Only a resumed run is read once, from its restored state
(`load_state`): this process never saw its earlier events.

Threads: the run's thread applies events, the display's thread takes snapshots. One lock protects
everything. It is held for a few dictionary entries per event; everything that takes longer (layout,
truncation, styles) happens on the copies that `snapshot` returns, in the display's thread.

What the run has used is never added up here: each call that ends brings the run's own figures.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from msgspec.structs import asdict

from roundel.cli.output import one_line
from roundel.kernel.commands import Ask
from roundel.kernel.events import Event
from roundel.kernel.payloads import (
    AsideUsage,
    CallWaiting,
    EndNotReached,
    LoopLeft,
    LoopRound,
    ModelCallEnded,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    ProgressReported,
    RunFinished,
    RunStateChanged,
    RunUsage,
    TokenStream,
    ToolCallChange,
    ToolCallEnded,
)
from roundel.kernel.rounds import proved_limit, rounds_limit
from roundel.kernel.state import Activation, Execution, Run, ToolLoop


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """What a run has used so far; `Spending` creates it."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    """The cost of the calls whose price is known."""
    unpriced_calls: int = 0
    paid: bool = True
    """Whether the models cost something; those of a script do not."""

    @property
    def priced(self) -> bool:
        """Whether the price of any call is known."""
        return self.paid and self.unpriced_calls < self.model_calls


class Spending:
    """What the run has used, as its events say it."""

    def __init__(self, paid: bool) -> None:
        self._usage = UsageTotals(paid=paid)

    def usage(self) -> UsageTotals:
        return self._usage

    def note(self, total: RunUsage | None) -> None:
        """Takes over the figures of an event, if it has any."""
        if total is not None:
            self.settle(asdict(total))

    def settle(self, usage: Mapping[str, Any]) -> None:
        """Takes over the run's own figures."""
        self._usage = UsageTotals(
            usage["model_calls"],
            usage["tool_calls"],
            usage["input_tokens"] + usage["output_tokens"],
            usage["cost_usd"] or 0.0,
            usage["unpriced_calls"],
            self._usage.paid,
        )


MAX_PARTIAL_TEXT = 2000
"""Characters of a streaming reply to keep: the display shows only its last lines."""
MAX_CAUSE = 60
"""Characters of an error without a status, in the line of a call that waits."""
OPEN = ("running", "waiting")


class ToolCall(NamedTuple):
    """A tool call of an agent, as the display shows it."""

    name: str
    round: int
    status: str
    """running, waiting for a person, completed, failed, refused or rejected."""
    text: str
    """Its result; while it is in flight, its arguments."""
    seconds: float


class AgentActivity(NamedTuple):
    """What one agent in flight does: its tool calls and its streaming reply."""

    tools: tuple[ToolCall, ...] = ()
    """The calls of its latest round, in the order of the requests."""
    partial_text: str = ""


class AgentActivities:
    """The agents in flight, by address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._now = clock
        self._agents: dict[str, _AgentState] = {}

    def tool(self, address: str, data: ToolCallChange) -> None:
        agent = self._at(data.caller)
        # Rounds of one agent never overlap, so the calls of an earlier round are of no interest any
        # more.
        if agent.round != data.round:
            agent.round = data.round
            agent.tools.clear()
        agent.partial_text = ""
        ended = isinstance(data, ToolCallEnded)
        # While a call is stored here, `seconds` is its start; `_AgentState.shown` turns it into a
        # duration.
        since = agent.tools[address].seconds if ended and address in agent.tools else self._now()
        text = data.result if isinstance(data, ToolCallEnded) else arguments_text(data.arguments)
        agent.tools[address] = ToolCall(data.name, data.round, data.status, text, since)

    def on_tokens(self, event: Event) -> None:
        """Appends a part of a streaming reply; a new reply, or a retry of a call, starts from empty."""
        agent, data = self._at(event.address or ""), event.data
        assert isinstance(data, TokenStream)
        if agent.has_replied or agent.attempt != data.attempt or data.offset == 0:
            agent.partial_text, agent.has_replied, agent.attempt = "", False, data.attempt
        partial_text = agent.partial_text + data.text
        # Cut to half, and not by one token at a time: otherwise each token of a long reply copies 2,000
        # characters. The first word is dropped, since the cut may go through it.
        agent.partial_text = (
            partial_text
            if len(partial_text) <= MAX_PARTIAL_TEXT
            else partial_text[-MAX_PARTIAL_TEXT // 2 :].partition(" ")[2]
        )

    def on_report(self, address: str, data: ProgressReported) -> bool:
        """Shows what a tool says about its progress in place of its arguments; False if the event is not
        about a call of a tool."""
        agent = next((agent for agent in self._agents.values() if address in agent.tools), None)
        if agent is None:
            return False
        agent.tools[address] = agent.tools[address]._replace(text=report_text(data))
        return True

    def on_reply(self, event: Event) -> None:
        """The reply is complete: the next part belongs to another one. The text stays visible until
        then."""
        agent = self._agents.get(event.address or "")
        if agent is not None:
            agent.has_replied = True

    def on_node_done(self, address: str) -> None:
        """Forgets an agent."""
        self._agents.pop(address, None)

    def clear(self) -> None:
        self._agents.clear()

    def activities_at(self, addresses: list[str]) -> dict[str, AgentActivity]:
        now = self._now()
        found = ((address, self._agents.get(address)) for address in addresses)
        return {address: agent.shown(now) for address, agent in found if agent is not None}

    def _at(self, place: str) -> _AgentState:
        return self._agents.setdefault(place, _AgentState())


class _AgentState:
    def __init__(self) -> None:
        self.tools: dict[str, ToolCall] = {}
        """The calls by address; `seconds` is the time at which each began."""
        self.round = 0
        self.partial_text = ""
        self.has_replied = False
        self.attempt = 1

    def shown(self, now: float) -> AgentActivity:
        tools = (call._replace(seconds=now - call.seconds) for call in self.tools.values())
        return AgentActivity(tuple(tools), self.partial_text)


def place_of_node(address: str) -> str:
    """The place of a node that has rounds of its own: `Loop[1]/Agent` becomes `Loop[1].Agent`.

    That is how the addresses of its rounds begin, since a loop inside a loop is joined by a dot.
    """
    around, slash, name = address.rpartition("/")
    return f"{around}.{name}" if around.endswith("]") else around + slash + name


def report_text(data: ProgressReported) -> str:
    """The progress that a function reports: `40% fetched 2 of 5`."""
    fraction, text = data.fraction, data.text
    return text if fraction is None else f"{fraction:.0%} {text}".rstrip()


def wait_text(data: CallWaiting, seconds: float) -> str:
    """Why a call waits, and for how long: `waits 20 s, 429, attempt 3 of 5`."""
    cause = data.status or _first_words(data.error)
    shown = math.ceil(seconds) if seconds > 1 else round(seconds, 1)
    return f"waits {shown} s, {cause}, attempt {data.attempt} of {data.of}"


def _first_words(error: str) -> str:
    return error if len(error) <= MAX_CAUSE else error[: MAX_CAUSE - 1].rstrip() + "…"


def state_reason(data: RunStateChanged) -> str:
    """The reason of a `run_state_change`, with the place of a pause: `breakpoint Critic at W[2]/Critic`."""
    reason, breakpoint, address = data.reason, data.breakpoint, data.address
    if reason == data.status and address:  # a plain pause: its reason says nothing more
        reason = ""
    return " ".join(filter(None, (reason, breakpoint, f"at {address}" if address else "")))


def arguments_text(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False) if arguments else ""


class LoopBound(NamedTuple):
    """How many rounds a loop can have."""

    rounds: int | None = None
    """The largest number of rounds, if it is known."""
    by: str = ""
    """What causes the bound, as a suffix of the label."""

    def label(self, number: int) -> str:
        limit = f" of {self.rounds}" if self.rounds is not None else ""
        return f"round {number}{limit}{self.by}"


def loop_bound(limit: int | None, guard: str, clocks: Iterable[str]) -> LoopBound:
    """The bound of a loop of edges: by a guard, or else by its cap and guards that do not count rounds."""
    if limit is None:
        return LoopBound()
    if guard:
        return LoopBound(limit, f" · {one_line(guard)}")
    return LoopBound(limit, " (cap)" + "".join(f" · {one_line(clock)}" for clock in clocks))


def bound_of(event: Event, data: LoopRound) -> LoopBound:
    """The bound of the loop of a round that begins."""
    if event.path and event.path[-1].node is not None:  # a node that repeats by itself
        return LoopBound(data.limit)
    return loop_bound(data.limit, data.limit_by, data.clocks)


class ActiveRound(NamedTuple):
    """A loop in flight, with its current round."""

    loop: str
    address: str
    number: int
    bound: LoopBound = LoopBound()


class Activity(NamedTuple):
    """What is in flight in a run; `read_activity` creates it."""

    loops: list[ActiveRound]
    active: list[str]
    awaiting_answer: list[str]


def read_activity(run: Run) -> Activity:
    """Reads loops and nodes in flight from the state of a run, instead of its events."""
    active = [around.address for call in run.calls.values() for around in _around(call)]
    awaiting_answer = [address for address, call in run.calls.items() if isinstance(call.command, Ask)]
    loops = {loop.address: loop for call in run.calls.values() for loop in _loops(run, call)}
    # A loop inside another one has the longer address, and the display shows it below.
    return Activity(sorted(loops.values(), key=lambda loop: len(loop.address)), active, awaiting_answer)


def _around(call: Execution) -> Iterator[Execution]:
    """The node, and the nodes whose graphs contain it, from the inside out."""
    node: Execution | None = call.owner.execution if isinstance(call.owner, ToolLoop) else call
    while node is not None:
        yield node
        node = node.activation.instance.caller or _enclosing_composite(node)


def _enclosing_composite(node: Execution) -> Execution | None:
    composite_run = node.activation.instance.composite_run
    return None if composite_run is None else composite_run.execution


def _loops(run: Run, call: Execution) -> Iterator[ActiveRound]:
    for node in _around(call):
        activation: Activation | None = node.activation
        while activation is not None and activation.parent is not None:
            limit, guard = proved_limit(run, activation)
            bound = loop_bound(limit, guard, activation.entry.clocks if activation.entry is not None else ())
            yield ActiveRound(activation.name, activation.address, activation.round, bound)
            activation = activation.parent
        instance = node.activation.instance
        composite_run, iteration = instance.composite_run, instance.iteration
        if composite_run is not None and iteration is not None and composite_run.execution.node.kind.loops:
            name, address = composite_run.execution.node.id, f"{composite_run.stem}{iteration.round}]"
            bound = LoopBound(rounds_limit(composite_run))
            yield ActiveRound(name, address, iteration.round, bound)


RECENT = 8
"""Finished nodes to remember for the display."""


class FinishedNode(NamedTuple):
    """A node that has finished."""

    address: str
    text: str
    failed: bool
    handled: bool = False
    """An error edge took the failure, and the run goes on."""


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """A copy of the progress at one moment; the display reads it without a lock."""

    status: str
    reason: str
    seconds: float
    loops: dict[str, ActiveRound]
    """Loops in flight, by address without the round number."""
    active: dict[str, float]
    """Nodes in flight: their addresses, and for how many seconds."""
    awaiting_answer: set[str]
    """Addresses that wait for a person."""
    agents: dict[str, AgentActivity]
    """The agents in flight, by address."""
    reports: dict[str, str]
    """What functions say about their progress, by the address of their node."""
    waits: dict[str, str]
    """Why calls wait for their next attempt, by address; only those that still do."""
    recent: list[FinishedNode]
    runs: dict[str, int]
    rounds: dict[str, dict[str, Any]]
    """For each loop: `rounds`, `exit_reason`, and `by`, the node whose edge left it."""
    usage: UsageTotals
    notes: list[str]


class Progress:
    """The progress of one run; the live view creates it, applies each event, and draws snapshots."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, scripted: bool = False) -> None:
        self._now = clock
        self._lock = Lock()
        self._started = clock()
        self._ended: float | None = None
        self._status, self._reason = "running", ""
        self._loops: dict[str, ActiveRound] = {}
        self._active: dict[str, float] = {}
        self._awaiting_answer: set[str] = set()
        self._recent: deque[FinishedNode] = deque(maxlen=RECENT)
        self._runs: dict[str, int] = {}
        self._rounds: dict[str, dict[str, Any]] = {}
        self._agents = AgentActivities(clock)
        self._reports: dict[str, str] = {}
        self._waits: dict[str, tuple[float, CallWaiting]] = {}
        """The calls that wait for their next attempt: until when by our clock, and the event's data. No event
        says that a call goes on, so the time decides."""
        self._spending = Spending(paid=not scripted)
        self._left: dict[str, str] = {}
        self._notes: list[str] = []
        # A table, so that an event that is not shown costs one lookup and no lock.
        self._handlers: dict[str, Callable[[Event], None]] = {
            "run_started": self._on_run_started,
            "node_state_change": self._on_node,
            "loop_round": self._on_round,
            "loop_exit": self._on_loop_exit,
            "human_input_required": self._on_question,
            "human_input_received": self._on_answer,
            "human_input_timeout": self._on_answer,
            "tool_call": self._on_tool_call,
            "token_stream": self._agents.on_tokens,
            "progress": self._on_report,
            "call_waiting": self._on_wait,
            "model_call": self._on_model_call,
            "aside_usage": self._on_aside_usage,
            "end_not_reached": self._on_end_not_reached,
            "run_state_change": self._on_state_change,
            "run_finished": self._on_run_finished,
        }

    def apply_event(self, event: Event) -> None:
        """Folds an event into the progress; the run's thread calls this."""
        handler = self._handlers.get(event.event)
        if handler is not None:
            with self._lock:
                handler(event)

    def load_state(self, run: Run) -> None:
        """Starts from the state of a resumed run, whose earlier events this process has not seen."""
        summary, activity, now = run.summary(), read_activity(run), self._now()
        with self._lock:
            # The time of the run, not of this process: the usage beside it is that of the whole run, too.
            self._started = now - run.worked
            self._runs = summary["nodes"]
            self._rounds = {name: dict(figures) for name, figures in summary["loops"].items()}
            self._loops = {_place(loop.address, loop.number): loop for loop in activity.loops}
            # Calls that were in flight are made again, so their time starts now.
            self._active = dict.fromkeys(activity.active, now)
            self._awaiting_answer = set(activity.awaiting_answer)
            if run.status == "waiting":
                self._status, self._reason = "waiting", "for " + ", ".join(sorted(activity.awaiting_answer))
            self._spending.settle(summary["usage"])

    def settle(self, usage: Mapping[str, Any]) -> None:
        """Takes over the usage of the run, once it is idle."""
        with self._lock:
            self._spending.settle(usage)

    def snapshot(self) -> ProgressSnapshot:
        """Copies the progress; the display's thread calls this for every frame."""
        now = self._now()
        with self._lock:
            return ProgressSnapshot(
                self._status,
                self._reason,
                (self._ended or now) - self._started,
                dict(self._loops),
                {address: now - since for address, since in self._active.items()},
                set(self._awaiting_answer),
                self._agents.activities_at(list(self._active)),
                dict(self._reports),
                {
                    address: wait_text(data, until - now)
                    for address, (until, data) in self._waits.items()
                    if until > now
                },
                list(self._recent),
                dict(self._runs),
                {name: {**figures, "by": self._left.get(name, "")} for name, figures in self._rounds.items()},
                self._spending.usage(),
                list(self._notes),
            )

    def _on_run_started(self, event: Event) -> None:
        # The clock starts with the run and not with the view: preparing it may take a while.
        self._started = self._now()

    def _on_node(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        if isinstance(data, NodeRunning):
            self._active[address] = self._now()
            name = event.node_id or address
            if not data.retried:  # the same execution again
                self._runs[name] = self._runs.get(name, 0) + 1
            return
        # A skipped node was never in flight, or was cancelled.
        self._active.pop(address, None)
        self._reports.pop(address, None)
        self._waits.pop(address, None)
        self._agents.on_node_done(address)
        if isinstance(data, NodeSkipped):
            self._awaiting_answer.discard(address)
            return
        if isinstance(data, NodeFailed):
            if data.handled:  # not every node in its graph has an event that says that it ended
                self._forget_inside(address)
            self._recent.append(FinishedNode(address, data.error, True, data.handled))
            return
        assert isinstance(data, NodeCompleted)
        if data.output is not None:
            self._recent.append(FinishedNode(address, data.output, False))

    def _forget_inside(self, address: str) -> None:
        place = place_of_node(address)
        for other in [other for other in self._active if other.startswith((f"{address}/", f"{place}["))]:
            del self._active[other]
            self._awaiting_answer.discard(other)

    def _on_round(self, event: Event) -> None:
        assert isinstance(event.data, LoopRound)
        name, number, address = event.data.loop, event.data.round, event.address or ""
        bound = bound_of(event, event.data)
        self._loops[_place(address, number)] = ActiveRound(name, address, number, bound)
        # By the id of the loop, over all its entries: an inner loop of ten entries is one row of the
        # summary.
        figures = self._rounds.setdefault(name, {"rounds": 0, "exit_reason": ""})
        figures["rounds"] += 1

    def _on_loop_exit(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        assert isinstance(data, LoopLeft)
        self._loops.pop(_place(address, data.round), None)
        self._rounds.setdefault(data.loop, {"rounds": data.rounds})["exit_reason"] = data.reason
        self._left[data.loop] = data.by

    def _on_question(self, event: Event) -> None:
        self._awaiting_answer.add(event.address or "")

    def _on_answer(self, event: Event) -> None:
        self._awaiting_answer.discard(event.address or "")

    def _on_tool_call(self, event: Event) -> None:
        assert isinstance(event.data, ToolCallChange)
        self._agents.tool(event.address or "", event.data)
        if isinstance(event.data, ToolCallEnded):
            self._spending.note(event.data.total)

    def _on_report(self, event: Event) -> None:
        address, data = event.address or "", event.data
        assert isinstance(data, ProgressReported)
        # A function on an edge reports after its node is done, when the display no longer shows the node.
        if not self._agents.on_report(address, data) and address in self._active:
            self._reports[address] = report_text(data)

    def _on_wait(self, event: Event) -> None:
        assert isinstance(event.data, CallWaiting)
        self._waits[event.address or ""] = self._now() + event.data.seconds, event.data

    def _on_model_call(self, event: Event) -> None:
        if isinstance(event.data, ModelCallEnded):
            self._agents.on_reply(event)
            self._spending.note(event.data.total)

    def _on_aside_usage(self, event: Event) -> None:
        assert isinstance(event.data, AsideUsage)
        self._spending.note(event.data.total)

    def _on_end_not_reached(self, event: Event) -> None:
        assert isinstance(event.data, EndNotReached)
        edges = ", ".join(event.data.edges)
        where = f"{event.address}: " if event.address else ""
        self._notes.append(f"{where}no end was reached" + (f"; these did not fire: {edges}" if edges else ""))

    def _on_state_change(self, event: Event) -> None:
        assert isinstance(event.data, RunStateChanged)
        self._status, self._reason = event.data.status, state_reason(event.data)
        self._spending.note(event.data.total)

    def _on_run_finished(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, RunFinished)
        self._status, self._reason, self._ended = data.status, "", self._now()
        self._loops.clear()
        self._active.clear()
        self._agents.clear()
        self._reports.clear()
        self._waits.clear()
        # The run's own figures: this process may not have seen all events.
        self._runs = dict(data.nodes)
        self._rounds = {name: asdict(totals) for name, totals in data.loops.items()}
        self._spending.note(data.usage)


def _place(address: str, number: int) -> str:
    """The address of a round, `Loop[12]`, without its number."""
    return address[: -len(str(number)) - 2]
