"""One run under the debugger: the newest picture of it, and what a person can do with it.

The screen (debug_screen.py) and the plain mode (debug_plain.py) are two clients of a `DebugSession`. It
calls `Runs` and decides nothing itself: whether a step or an edit is possible is decided where the run is.

Somebody else may control the same run, from another terminal or program. So nothing here assumes that the
run is as this session left it: `refresh` compares the row of the run with the last one, which costs one
query, and reads the run again only if it has changed. An edit names the version of the message that was on
the screen, and fails if that is not the message any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roundel.cli.debug_outline import RunOutline
from roundel.cli.event_lines import format_event
from roundel.cli.next_step import command_line, set_current_run
from roundel.cli.output import secret_masking
from roundel.cli.progress import UsageTotals, state_reason, usage_totals
from roundel.cli.signals import interrupts
from roundel.hosts.control import Question
from roundel.hosts.engine import Attachment, Inspection
from roundel.journal.store import RunRow, StoreError
from roundel.kernel.events import Event, is_over
from roundel.kernel.facts import secrets_of
from roundel.kernel.payloads import MessageEdited, NodeCompleted, RunFinished, RunStateChanged
from roundel.kernel.state import Lock
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import NodePlan
from roundel.runs.inspection import BreakpointState, RunInspection, WaitingMessage, inspect_run
from roundel.runs.runs import Runs
from roundel.workflow.address import without_rounds

EVENTS_READ = 5000
"""How many of the last events of a run are read when the session begins; a long run has many more."""
EVENTS_KEPT = 500
"""How many events a person can scroll back to."""


@dataclass(frozen=True, slots=True)
class NodeOutput:
    """What a node has said in one of its executions."""

    address: str
    text: str


@dataclass(frozen=True, slots=True)
class DebugPicture:
    """A run at one moment, as the debugger shows it. `DebugSession.refresh` creates it."""

    seen: RunInspection
    row: RunRow
    usage: UsageTotals
    summary: dict[str, Any]
    """As in `run_finished`: the result, and how often each node ran."""
    lock: Lock | None

    @property
    def is_over(self) -> bool:
        return is_over(self.seen.status)

    @property
    def key(self) -> tuple[object, ...]:
        """Changes whenever anything about the run changes."""
        return _row_key(self.row)


def _row_key(row: RunRow) -> tuple[object, ...]:
    return row.updated, row.facts, row.status, row.owner


class OutputHistory:
    """The last two outputs of each node, for the difference between two rounds. Folded from events."""

    def __init__(self, outline: RunOutline) -> None:
        self._outline = outline
        self._outputs: dict[str, tuple[NodeOutput, ...]] = {}
        """By address without rounds: parts of a dynamic edge are compared with themselves."""
        self._sites: dict[str, int | None] = {}
        self._newest: dict[int, str] = {}
        """For each site, the address of its newest output."""

    def apply(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        if not isinstance(data, NodeCompleted) or data.output is None:
            return
        key = without_rounds(address)
        if key not in self._sites:
            node = self._outline.find(address)
            self._sites[key] = node.site if node is not None else None
        site = self._sites[key]
        if site is not None:
            self._newest[site] = key
        said = NodeOutput(address, data.output)
        self._outputs[key] = (*self._outputs.get(key, ()), said)[-2:]

    def of(self, node: NodePlan) -> tuple[NodeOutput, ...]:
        """Its last outputs, the newest one last; at most two."""
        return self._outputs.get(self._newest.get(node.site, ""), ())


class DebugSession:
    """A run, its picture, and the actions on it. The command creates it, and `open` has to follow."""

    picture: DebugPicture
    outline: RunOutline
    outputs: OutputHistory

    def __init__(self, runs: Runs, run_id: str, middleware: list[Middleware] | None = None) -> None:
        self.runs = runs
        self.run_id = run_id
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.new_events: list[Event] = []
        """The events that the last `refresh` has found."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a run that is executed here has changed, or is idle again."""
        self.was_interrupted = False
        self._middleware = middleware or []
        self._scripted = False
        self._seq = 0
        self._reading = asyncio.Lock()
        self._breakpoints: tuple[BreakpointState, ...] = ()
        """Those before the last refresh."""

    async def open(self) -> None:
        inspection = await self.runs.inspect(self.run_id)
        # Before anything of the run is shown.
        secret_masking.set_secrets(secrets_of(inspection.plan))
        set_current_run(self.run_id)
        interrupts.next_step = command_line("debug", self.run_id)
        self._scripted = inspection.pinned is not None and bool(inspection.pinned.script)
        self.outline = RunOutline(inspection.plan)
        self.outputs = OutputHistory(self.outline)
        self._seq = max(0, inspection.state.seq - EVENTS_READ)
        await self._read(inspection, await self.runs.row(self.run_id))

    # The picture.

    async def refresh(self) -> bool:
        """Reads the run again if it has changed, and returns whether it has."""
        # One at a time: an action refreshes as well when it ends.
        async with self._reading:
            # The row first: if the run changes in between, the next refresh reads it once more.
            row = await self.runs.row(self.run_id)
            self.new_events, self._breakpoints = [], self.picture.seen.breakpoints
            if _row_key(row) == self.picture.key:
                return False
            await self._read(await self.runs.inspect(self.run_id), row)
            return True

    async def _read(self, inspection: Inspection, row: RunRow) -> None:
        state = inspection.state
        summary = state.summary()
        usage = usage_totals(state.total, paid=not self._scripted)
        lock = state.lock if state.status == "suspended_locked" else None
        self.picture = DebugPicture(inspect_run(state), row, usage, summary, lock)
        self.new_events = await self.runs.events(self.run_id, after=self._seq)
        for event in self.new_events:
            self._seq = max(self._seq, event.seq)
            self.outputs.apply(event)
            self.events.append(event)

    @property
    def is_executed_here(self) -> bool:
        return self.runs.engine.knows(self.run_id)

    @property
    def first_ready(self) -> NodePlan | None:
        """The node that is running, or that the next step starts; else one that asks or was begun."""
        seen = self.picture.seen
        addresses = [
            *(seen.in_flight if seen.status == "running" else ()),
            *(ready.address for ready in seen.ready),
            *(question.address for question in seen.questions),
            *seen.in_flight,
            *([self.picture.lock.address] if self.picture.lock is not None else []),
        ]
        return next((node for address in addresses if (node := self.outline.find(address))), None)

    def queue_of(self, node: NodePlan) -> list[tuple[str, WaitingMessage]]:
        """The messages that wait at a node, with the address of its queue: there may be several if rounds
        of a loop run at once."""
        return [
            (queue.address, message)
            for queue in self.picture.seen.queues
            if self.outline.find(queue.address) is node
            for message in queue.messages
        ]

    def chosen_message(self, node: NodePlan, number: int | None) -> int | None:
        """The message that an edit changes: the one with this number in `queue_of`; without a number, the
        last one of the queue that the next step takes. None if no message waits."""
        addresses = [address for address, _ in self.queue_of(node)]
        if number is not None and number < len(addresses):
            return number
        return addresses.count(addresses[0]) - 1 if addresses else None

    def question_for(self, node: NodePlan | None) -> Question | None:
        """The open question of a node, else the first one."""
        questions = self.picture.seen.questions
        own = (question for question in questions if self.outline.find(question.address) is node)
        return next(own, questions[0] if questions else None)

    def happened(self) -> Iterator[str]:
        """What the last refresh has found, as lines."""
        for event in self.new_events:
            line = format_event(event) or _debug_line(event)
            if line:
                yield line
        now = [state.text for state in self.picture.seen.breakpoints]
        if now != [state.text for state in self._breakpoints]:
            yield f"breakpoints: {', '.join(now) or 'none'}"

    # Actions. All of them raise StoreError or BreakpointError if they are not possible.

    async def step(self, whole_round: bool = False) -> None:
        """Lets the run take a step, and waits until it is idle."""
        self._refuse_if_over()
        await self._execute(self.runs.step_in_background(self.run_id, round=whole_round, attach=self._attach))

    async def resume(self) -> None:
        """Lets the run continue to the next breakpoint, and waits until it is idle."""
        self._refuse_if_over()
        await self._execute(self.runs.resume_in_background(self.run_id, attach=self._attach))

    async def answer(self, question: Question, text: str) -> None:
        """Answers a question. A run that waits continues here; one that is paused stays paused."""
        await self._execute(
            self.runs.answer(
                self.run_id, text, at=question.address, exact=question.tool is not None, execute=self._attach
            )
        )

    async def pause(self) -> None:
        self._refuse_if_over()
        await self.runs.pause(self.run_id, wait=False)

    async def toggle_breakpoint(self, node: NodePlan) -> str:
        """Sets or removes the breakpoint before every execution of a node, and says which."""
        self._refuse_if_over()
        known = [state.text for state in self.picture.seen.breakpoints]
        existing = [text for text in known if text in (node.id, node.label)]
        if existing:
            await self.runs.set_breakpoints(self.run_id, remove=existing)
            return f"breakpoint {existing[0]} removed"
        await self.runs.set_breakpoints(self.run_id, {"at": node.label})
        return f"breakpoint {node.id} set"

    async def add_breakpoint(self, place: str) -> None:
        self._refuse_if_over()
        await self.runs.set_breakpoints(self.run_id, place)

    async def remove_breakpoint(self, place: str) -> None:
        self._refuse_if_over()
        await self.runs.set_breakpoints(self.run_id, remove=[place])

    async def edit(self, address: str, message: WaitingMessage, text: str) -> None:
        """Changes a waiting message; EditConflict if it is not the one that was seen."""
        await self.runs.edit(
            self.run_id, text, at=address, position=message.position, version=message.version
        )

    def interrupt(self) -> bool:
        """Cancels the calls in flight of the run, if it is executed here, which pauses it."""
        if not self.is_executed_here:
            return False
        self.was_interrupted = True
        self.runs.interrupt(self.run_id)
        return True

    async def wait(self) -> None:
        """Waits until the run is idle, if it is executed here."""
        if self.is_executed_here:
            # Not `wait`: a session that is cancelled must not stop the run.
            await self.runs.result(self.run_id)

    async def _execute(self, begin: Awaitable[object]) -> None:
        try:
            await begin
            await self.wait()
        finally:
            self.on_change()

    def _attach(self, run_id: str, inspection: Inspection) -> Attachment:
        return Attachment(
            None,  # nobody is asked by the run itself: it becomes waiting, and `answer` continues it
            lambda _event: self.on_change(),
            self._middleware,
            # Nodes import their libraries then, which blocks the event loop.
            preparing=interrupts.blocking_section(),
        )

    def _refuse_if_over(self) -> None:
        if self.picture.is_over:
            status = self.picture.seen.status
            raise StoreError(
                f"the run is {status}, so you can only view it; `roundel fork` starts a new run from it"
            )


def _debug_line(event: Event) -> str:
    """Events that a log omits and a debugger shows."""
    match event.data:
        case RunStateChanged(status=status) as data:
            reason = state_reason(data)
            return status if reason in ("", status) else f"{status}: {reason}"
        case MessageEdited(position=position):
            return f"{event.address}  message {position} edited"
        case RunFinished(status=status):
            return f"run {status}"
        case _:
            return ""
