"""The progress of a run, as the live view draws it.

What people see of a run is the fold of its events (runs/fold.py), and is not computed here. `Progress` adds
what only a terminal has: a clock, for how long something has been in flight; the nodes that finished last;
and the last words of replies as they are written. A resumed run begins with the view of its events so far.

Threads: the run's thread applies events, the display's thread takes snapshots. One lock protects
everything. It is held for an event, or for the snapshot of the fold; everything that takes longer (layout,
truncation, styles) happens on what `snapshot` returns, in the display's thread.
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

from roundel.cli.output import one_line
from roundel.kernel.events import Event, is_over
from roundel.kernel.payloads import (
    CallWaiting,
    LoopRound,
    ModelCallEnded,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    ProgressReported,
    RunFinished,
    RunStarted,
    RunStateChanged,
    RunUsage,
    TokenStream,
    ToolCallStarted,
)
from roundel.runs.fold import RunFold
from roundel.runs.view import IdleTime, ViewedExecution, ViewedLoop, ViewSnapshot
from roundel.workflow.address import loop_of


class UsageTotals(NamedTuple):
    """What a run has used so far, for people; `usage_totals` creates it."""

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


def usage_totals(usage: RunUsage, *, paid: bool) -> UsageTotals:
    tokens = usage.input_tokens + usage.output_tokens
    cost = usage.cost_usd or 0.0
    return UsageTotals(usage.model_calls, usage.tool_calls, tokens, cost, usage.unpriced_calls, paid)


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
    """Its result; while it is in flight, its arguments or what it says about its progress."""
    seconds: float


class AgentActivity(NamedTuple):
    """What one agent in flight does: its tool calls and its streaming reply."""

    tools: tuple[ToolCall, ...] = ()
    """The calls of its latest round, in the order of the requests."""
    partial_text: str = ""


class _Reply:
    """The last words of a reply, as it is written. The whole text would be copied with each token."""

    def __init__(self) -> None:
        self.text = ""
        self.attempt = 1
        self.is_complete = False
        """The next part belongs to another reply. The text stays visible until then."""

    def add(self, data: TokenStream) -> None:
        """Appends a part; a new reply, or another attempt at a call, starts from empty."""
        if self.is_complete or self.attempt != data.attempt or data.offset == 0:
            self.text, self.is_complete, self.attempt = "", False, data.attempt
        text = self.text + data.text
        # Cut to half, and not by one token at a time: otherwise each token of a long reply copies 2,000
        # characters. The first word is dropped, since the cut may go through it.
        self.text = (
            text if len(text) <= MAX_PARTIAL_TEXT else text[-MAX_PARTIAL_TEXT // 2 :].partition(" ")[2]
        )


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


def state_reason(data: RunStateChanged | IdleTime) -> str:
    """Why a run is in its status, with the place of a pause: `breakpoint Critic at W[2]/Critic`."""
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


def bound_of(loop: LoopRound | ViewedLoop, *, is_node: bool) -> LoopBound:
    """The bound of a loop: by a guard, or else by its cap and guards that do not count rounds. `is_node`: it
    is a node that repeats by itself."""
    if is_node or loop.limit is None:
        return LoopBound(loop.limit)
    if loop.limit_by:
        return LoopBound(loop.limit, f" · {one_line(loop.limit_by)}")
    return LoopBound(loop.limit, " (cap)" + "".join(f" · {one_line(clock)}" for clock in loop.clocks))


class ActiveRound(NamedTuple):
    """A loop in flight, with its current round."""

    loop: str
    number: int
    bound: LoopBound
    around: str
    """The address of the loop around it, without the number of a round; empty for none."""


RECENT = 8
"""Finished nodes to remember for the display."""


class FinishedNode(NamedTuple):
    """A node that has finished."""

    address: str
    text: str
    failed: bool
    handled: bool = False
    """An error edge took the failure, and the run goes on."""


class LoopRow(NamedTuple):
    """What the summary says of a loop, over all its entries: an inner loop of ten entries is one row."""

    rounds: int
    exit_reason: str
    by: str
    """The node whose edge left it."""


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """The progress at one moment; the display reads it without a lock."""

    view: ViewSnapshot
    reason: str
    seconds: float
    loops: dict[str, ActiveRound]
    """Loops in flight, by address without the round number."""
    active: dict[str, float]
    """Nodes in flight: their addresses, and for how many seconds."""
    agents: dict[str, AgentActivity]
    """The agents in flight, by address."""
    waits: dict[str, str]
    """Why calls wait for their next attempt, by address; only those that still do."""
    recent: list[FinishedNode]
    usage: UsageTotals
    finished: RunFinished | None
    """The end of the run, with its figures."""

    @property
    def status(self) -> str:
        return self.view.status

    @property
    def awaiting_answer(self) -> set[str]:
        """Addresses that wait for a person."""
        return {question.address for question in self.view.questions}

    @property
    def reports(self) -> dict[str, str]:
        """What functions say about their progress, by the address of their node."""
        found = ((address, self.view.executions[address].progress) for address in self.view.active)
        return {address: report_text(data) for address, data in found if data is not None}

    @property
    def notes(self) -> list[str]:
        """Graphs whose end was not reached."""
        return [
            (f"{one.address}: " if one.address else "")
            + "no end was reached"
            + (f"; these did not fire: {', '.join(one.edges)}" if one.edges else "")
            for one in self.view.warnings
            if one.code == "no_end"
        ]

    @property
    def runs(self) -> Mapping[str, int]:
        """How many times each node ran."""
        if self.finished is not None:
            return self.finished.nodes
        found: dict[str, int] = {}
        for address in self.view.order:
            execution = self.view.executions[address]
            if execution.starts:  # one that was retried is still the same
                name = execution.node_id or address
                found[name] = found.get(name, 0) + 1
        return found

    @property
    def rounds(self) -> dict[str, LoopRow]:
        """The rounds of each loop, and how it was left last."""
        found: dict[str, LoopRow] = {}
        for loop in self.view.loops:
            before = found.get(loop.loop, LoopRow(0, "", ""))
            reason, by = (loop.exit.reason, loop.exit.by) if loop.exit is not None else before[1:]
            found[loop.loop] = LoopRow(before.rounds + len(loop.rounds), reason, by)
        if self.finished is None:
            return found
        return {
            name: LoopRow(totals.rounds, totals.exit_reason, found[name].by if name in found else "")
            for name, totals in self.finished.loops.items()
        }


class Progress:
    """The progress of one run; the live view creates it, applies each event, and draws snapshots.

    `before` is the view of a resumed run, whose earlier events this process has not seen, and `worked` how
    long it has worked: the time of the run and not of this process, since the usage is that of the whole run,
    too."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        scripted: bool = False,
        before: ViewSnapshot | None = None,
        worked: float = 0.0,
    ) -> None:
        self._now, self._paid = clock, not scripted
        self._lock = Lock()
        self._started = clock() - worked
        self._ended: float | None = None
        self._finished: RunFinished | None = None
        self._fold = RunFold() if before is None else RunFold.restore(before)
        # Calls that were in flight are made again, so their time starts now.
        self._began = dict.fromkeys(before.active if before is not None else (), clock())
        """When nodes and tool calls in flight began, by our clock."""
        self._waits_until: dict[str, float] = {}
        """When calls make their next attempt, by our clock."""
        self._replies: dict[str, _Reply] = {}
        self._recent: deque[FinishedNode] = deque(maxlen=RECENT)

    def apply_event(self, event: Event) -> None:
        """Adds an event; the run's thread calls this."""
        with self._lock:
            if not 0 < event.seq <= self._fold.seq:  # a run that is over already is shown to us again
                self._fold.apply(event)
            self._note(event, event.address or "")

    def snapshot(self) -> ProgressSnapshot:
        """The progress now; the display's thread calls this for every frame."""
        now = self._now()
        with self._lock:
            view = self._fold.snapshot()
            # Nodes that ended without an event of their own are forgotten here.
            in_flight = (
                {} if is_over(view.status) else {one: self._began.get(one, now) for one in view.active}
            )
            began, waits = dict(self._began), dict(self._waits_until)
            texts = {address: reply.text for address, reply in self._replies.items()}
            recent = list(self._recent)
        idle = view.idle[-1] if view.idle else None
        return ProgressSnapshot(
            view,
            state_reason(idle) if idle is not None and not (idle.ended or is_over(view.status)) else "",
            (self._ended or now) - self._started,
            dict(_loops_in_flight(view)),
            {address: now - since for address, since in in_flight.items()},
            {
                address: AgentActivity(
                    tuple(_latest_tools(view.executions[address], began, now)), texts.get(address, "")
                )
                for address in in_flight
                if address in texts or view.executions[address].tools
            },
            {
                address: wait_text(data, waits[address] - now)
                for address in in_flight
                if waits.get(address, now) > now and (data := _wait_of(view.executions[address])) is not None
            },
            recent,
            usage_totals(view.usage, paid=self._paid),
            self._finished,
        )

    def _note(self, event: Event, address: str) -> None:
        """Notes what the fold does not: times by our clock, and the latest texts."""
        match event.data:
            case RunStarted():
                # The clock starts with the run and not with the view: preparing it may take a while.
                self._started = self._now()
            case RunStateChanged():
                self._ended = self._finished = None
            case RunFinished() as data:
                self._ended, self._finished = self._now(), data
                self._forget(*self._began)
            case NodeRunning():
                self._began[address] = self._now()
            case NodeCompleted() | NodeFailed() | NodeSkipped() as data:
                self._forget(address)
                self._note_result(address, data)
            case ToolCallStarted(caller=caller):
                self._began[address] = self._now()
                self._replies.pop(caller, None)
            case TokenStream() as data:
                self._replies.setdefault(address, _Reply()).add(data)
            case ModelCallEnded():
                if address in self._replies:
                    self._replies[address].is_complete = True
            case CallWaiting(seconds=seconds):
                self._waits_until[address] = self._now() + seconds

    def _note_result(self, address: str, data: NodeCompleted | NodeFailed | NodeSkipped) -> None:
        if isinstance(data, NodeFailed):
            self._recent.append(FinishedNode(address, data.error, True, data.handled))
        elif isinstance(data, NodeCompleted) and data.output is not None:
            self._recent.append(FinishedNode(address, data.output, False))

    def _forget(self, *addresses: str) -> None:
        for address in addresses:
            self._began.pop(address, None)
            self._replies.pop(address, None)
            self._waits_until.pop(address, None)


def _loops_in_flight(view: ViewSnapshot) -> Iterator[tuple[str, ActiveRound]]:
    """The loops in flight, by address, each with its last round."""
    for loop in () if is_over(view.status) else view.loops:
        if loop.exit is None and loop.rounds:
            bound = bound_of(loop, is_node=loop.is_node)
            yield loop.address, ActiveRound(loop.loop, loop.rounds[-1].number, bound, loop_of(loop.parent))


def _latest_tools(agent: ViewedExecution, began: Mapping[str, float], now: float) -> Iterator[ToolCall]:
    """The tool calls of the latest round of an agent: rounds of one agent never overlap."""
    for tool in agent.tools:
        if tool.round == agent.tools[-1].round:
            shown = (
                report_text(tool.progress) if tool.progress is not None else arguments_text(tool.arguments)
            )
            text = shown if tool.result is None else tool.result
            yield ToolCall(tool.name, tool.round, tool.status, text, now - began.get(tool.address, now))


def _wait_of(execution: ViewedExecution) -> CallWaiting | None:
    """Why a call of a node waits; None if none does."""
    calls: Iterable[CallWaiting | None] = (one.waits for one in execution.calls if one.status == "running")
    return execution.waits or next(filter(None, calls), None)
