"""The fold from the events of a run to what people see of it (view.py).

It has no clock, reads nothing, and knows no plan, so everybody who applies the same events has the same view.
Nearly all of it is copied from fields of events. It decides only what the kernel does not say:

  - A round that is still open when its run is over is `failed` if something in it has failed, else `stopped`.
    A retry opens it again. (Events of earlier versions end no rounds; those of a run that has completed are
    `completed`.)
  - Until a round ends, and says what it has used and how often something in it has failed, that is added up
    from what happens in it; so is what an execution has used until it completes.
  - A node around a `break` or `continue` is skipped with the end of its round.
  - The text of an attempt at a streamed answer replaces that of the attempt before.

The fold replaces parts instead of changing them, since snapshots share them. What grows with the run (the
rounds of a loop, the order of executions) is a list here, and is copied once per snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from roundel.kernel.events import Event, RoundStatus, is_over
from roundel.kernel.payloads import (
    NO_USAGE,
    AnswerReceived,
    AnswerTimeout,
    AsideUsage,
    BreakerTripped,
    BreakerUnlocked,
    CallWaiting,
    EndNotReached,
    LimitReached,
    LoopLeft,
    LoopRound,
    MemoryFailed,
    MessageEdited,
    ModelCallEnded,
    ModelCallStarted,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    ProgressReported,
    QuestionAsked,
    RequestSent,
    RoundFinished,
    RunFinished,
    RunProgress,
    RunStarted,
    RunStateChanged,
    RunUsage,
    TokenStream,
    ToolCallEnded,
    ToolCallStarted,
    Warned,
    kinds_of,
)
from roundel.runs.view import (
    IdleTime,
    ViewedAnswer,
    ViewedCall,
    ViewedEdit,
    ViewedExecution,
    ViewedExit,
    ViewedLock,
    ViewedLoop,
    ViewedQuestion,
    ViewedRound,
    ViewedTool,
    ViewedUnlock,
    ViewedWarning,
    ViewSnapshot,
)
from roundel.workflow.address import Path, is_in_round, loop_of, node_key, round_address, rounds_around
from roundel.workflow.limits import dollars, picodollars


class SequenceGap(Exception):
    """An event does not follow the one before it."""

    def __init__(self, seq: int, expected: int) -> None:
        super().__init__(f"event {seq} came where {expected} was expected")
        self.seq, self.expected = seq, expected


class RunFold:
    """Folds the events of a run into its view. `is_pruned` for what is left of a pruned run, whose events
    have gaps."""

    def __init__(self, *, is_pruned: bool = False) -> None:
        self.seq = 0
        """The number of the last event."""
        self._view = ViewSnapshot(0, is_pruned=is_pruned)
        """What belongs to the whole run. The rest is below, and here as the last snapshot has it."""
        self._executions: dict[str, ViewedExecution] = {}
        self._order: list[str] = []
        self._active: dict[str, None] = {}
        self._has_changed = False
        """Whether executions have changed since the last snapshot."""
        self._loops: dict[str, ViewedLoop] = {}
        """Their rounds are those of the last snapshot."""
        self._changed_loops: set[str] = set()
        """Those that have changed since then, or a round of them has."""
        self._members: dict[str, list[str]] = {}
        """The addresses of the rounds of each loop."""
        self._rounds: dict[str, ViewedRound] = {}
        self._latest: dict[str, str] = {}
        """For innermost rounds of events since the last snapshot: when the last one came."""
        self._known_path: Path = ()
        self._known_round = ""
        """The last path that was looked up, and its innermost round. Most events share it with the one
        before."""

    @property
    def size(self) -> int:
        """How many executions it has seen."""
        return len(self._order)

    def apply(self, event: Event) -> None:
        """Adds the next event; SequenceGap if it is not the next. Transient ones may come at any time."""
        if event.seq:
            if event.seq != self.seq + 1 and not self._view.is_pruned:
                raise SequenceGap(event.seq, self.seq + 1)
            self.seq = event.seq
        handle = _HANDLERS.get(event.data.__class__)
        if handle is not None:
            handle(self, event, event.data)

    def snapshot(self) -> ViewSnapshot:
        """The view now. Parts that have not changed since the last snapshot are the same objects."""
        self._note_latest()
        changes: dict[str, Any] = {}
        if self._changed_loops:
            for address in self._changed_loops:
                rounds = tuple([self._rounds[each] for each in self._members[address]])
                self._loops[address] = replace(self._loops[address], rounds=rounds)
            self._changed_loops.clear()
            changes["loops"] = tuple(self._loops.values())
        if self._has_changed:
            self._has_changed = False
            changes["executions"] = dict(self._executions)
            if len(self._order) != len(self._view.order):
                changes["order"] = tuple(self._order)
            if tuple(self._active) != self._view.active:
                changes["active"] = tuple(self._active)
        if changes or self.seq != self._view.seq:
            self._view = replace(self._view, seq=self.seq, **changes)
        return self._view

    @staticmethod
    def restore(snapshot: ViewSnapshot) -> RunFold:
        """A fold that continues from a snapshot."""
        fold = RunFold()
        fold.seq, fold._view = snapshot.seq, snapshot
        fold._executions = dict(snapshot.executions)
        fold._order, fold._active = list(snapshot.order), dict.fromkeys(snapshot.active)
        fold._loops = {loop.address: loop for loop in snapshot.loops}
        for loop in snapshot.loops:
            fold._members[loop.address] = [one.address for one in loop.rounds]
            fold._rounds.update((one.address, one) for one in loop.rounds)
        return fold

    # What is around an event.

    def _innermost(self, path: Path, address: str) -> str:
        """The address of the innermost round around a place; empty if there is none."""
        if not path:
            if not is_in_round(address):
                return ""
            # Events of earlier versions have no path.
            return next((each for each in reversed(rounds_around(address)) if each in self._rounds), "")
        if path is not self._known_path:
            rounds = (_round_of(path[:end]) for end in range(len(path), 0, -1) if path[end - 1].round)
            self._known_round = next((each for each in rounds if each in self._rounds), "")
            self._known_path = path
        return self._known_round

    def _note_latest(self) -> None:
        """Puts the time of the last event into the open rounds."""
        for innermost, at in self._latest.items():
            address = innermost
            while address:
                one = self._rounds[address]
                if one.status == "running" and one.ended < at:
                    self._put_round(replace(one, ended=at))
                address = one.parent
        self._latest.clear()

    def _put_round(self, one: ViewedRound) -> None:
        self._rounds[one.address] = one
        self._changed_loops.add(loop_of(one.address))

    def _put_loop(self, loop: ViewedLoop) -> None:
        self._loops[loop.address] = loop
        self._changed_loops.add(loop.address)

    # The run.

    def _started(self, event: Event, data: RunStarted) -> None:
        self._view = replace(
            self._view,
            started=event.timestamp,
            workflow=data.workflow,
            input=data.input,
            model=data.model,
        )

    def _changed(self, event: Event, data: RunStateChanged) -> None:
        view = self._view
        if data.status == "running" and is_over(view.status):
            for one in list(self._rounds.values()):
                if one.cut_off:
                    self._put_round(replace(one, status="running", cut_off=False))
        idle = _end_idle(view.idle, event.timestamp)
        if data.status != "running":
            stop = IdleTime(
                data.status,
                event.timestamp,
                cause=data.cause,
                reason=data.reason,
                address=data.address,
                breakpoint=data.breakpoint,
                questions=tuple(data.questions or ()),
            )
            idle = (*idle, stop)
        self._view = replace(
            view,
            status=data.status,
            reason=data.reason,
            cause=data.cause,
            by=data.by,
            ended="",
            error="",
            failed_at="",
            idle=idle,
            usage=data.total or view.usage,
            work_seconds=view.work_seconds if data.work_seconds is None else data.work_seconds,
        )

    def _finished(self, event: Event, data: RunFinished) -> None:
        view, at = self._view, event.timestamp
        stop = IdleTime(data.status, at, reason=data.reason)
        self._view = replace(
            view,
            status=data.status,
            reason=data.reason,
            cause="",
            by=data.by,
            ended=at,
            work_seconds=data.work_seconds,
            output=data.output,
            data=data.data,
            error=data.error or "",
            failed_at=data.failed_at,
            usage=data.usage,
            questions=(),
            idle=(*_end_idle(view.idle, at), stop),
        )
        self._cut_off(data)

    def _cut_off(self, data: RunFinished) -> None:
        """Ends the rounds that the end of the run leaves open."""
        self._note_latest()
        still_open = [one for one in self._rounds.values() if one.status == "running"]
        failed = self._failed_rounds() if still_open else set()
        for one in still_open:
            status: RoundStatus = "completed" if data.status == "completed" else "stopped"
            self._put_round(replace(one, status="failed" if one.address in failed else status, cut_off=True))

    def _failed_rounds(self) -> set[str]:
        """The rounds in which something has failed. What failed in a node around it, too, is that node's."""
        found: set[str] = set()
        for execution in self._executions.values():
            if execution.status == "failed" and not execution.handled and _is_direct(execution):
                address = execution.round
                while address and address not in found:
                    found.add(address)
                    loop = self._loops[loop_of(address)]
                    address = "" if loop.is_node else loop.parent
        return found

    # Loops.

    def _round_begins(self, event: Event, data: LoopRound) -> None:
        address, path = event.address or "", event.path
        name = loop_of(address)
        loop = self._loops.get(name)
        if loop is None:
            loop = self._enter(name, path[:-1], data.loop, data.entry, bool(path and path[-1].node))
        self._put_loop(
            replace(
                loop,
                limit=data.limit,
                limit_by=data.limit_by,
                clocks=data.clocks,
                exit=None,
                lanes=max(loop.lanes, data.lane + 1),
            )
        )
        if address not in self._rounds:
            self._members[name].append(address)
        at = event.timestamp
        self._rounds[address] = ViewedRound(
            address,
            data.round,
            "running",
            at,
            at,
            loop.parent,
            data.lane,
            element=data.element,
            elements=data.elements,
            triggered_by=data.triggered_by,
        )
        self._latest[address] = at

    def _enter(self, address: str, path: Path, loop: str, entry: int, is_node: bool) -> ViewedLoop:
        parent = self._innermost(path, address)
        depth = self._loops[loop_of(parent)].depth + 1 if parent else 0
        entered = ViewedLoop(address, loop, entry, path, is_node, parent, depth)
        self._members[address] = []
        if parent:
            around = self._rounds[parent]
            self._put_round(replace(around, inner=(*around.inner, address)))
        return entered

    def _round_ends(self, event: Event, data: RoundFinished) -> None:
        address = event.address or ""
        one = self._rounds.get(address)
        if one is None:
            return  # its beginning was pruned
        self._put_round(
            replace(
                one,
                status=data.status,
                ended=event.timestamp,
                seconds=data.seconds,
                work_seconds=data.work_seconds,
                score=data.score,
                best=data.best,
                usage=data.usage,
                failures=data.failures,
                cut_off=False,
            )
        )
        self._latest[address] = event.timestamp
        if data.best is not None:
            name = loop_of(address)
            self._put_loop(replace(self._loops[name], best=data.best))
        self._end_nodes(event, address)

    def _end_nodes(self, event: Event, round_address: str) -> None:
        """Ends the nodes around a `break` or `continue` inside of them, which have no event of their own."""
        left = [one for one in self._active if self._executions[one].round == round_address]
        for address in left:
            changes = {"status": "skipped", "reason": "the round was ended", "cause": "round_ended"}
            self._node_ended(event, address, changes)

    def _loop_left(self, event: Event, data: LoopLeft) -> None:
        address = event.address or ""
        loop = self._loops.get(loop_of(address) if address in self._rounds else address)
        if (
            loop is None and self._view.is_pruned
        ):  # its last round was pruned, or it has the address of a node
            entered = (one for one in reversed(self._loops.values()) if one.loop == data.loop)
            loop = next((one for one in entered if one.exit is None), None)
            if loop is None:
                return
        if loop is None:  # a node that ended without a round
            loop = self._enter(address, event.path, data.loop, data.entry, is_node=True)
        left = ViewedExit(data.reason, event.timestamp, data.rounds, data.by, data.kept, data.seconds)
        self._put_loop(replace(loop, exit=left, best=data.best, usage=data.usage))

    # Executions of nodes.

    def _execution(self, event: Event, address: str, starts: NodeRunning | None = None) -> ViewedExecution:
        """The execution at an address, which begins with this event if it is not known."""
        found = self._executions.get(address)
        if found is not None:
            return found
        path, node_id, at = event.path, event.node_id or "", event.timestamp
        around = self._innermost(path, address)
        type_name, speaks = ("", False) if starts is None else (starts.type, starts.speaks)
        count = int(starts is not None)
        made = ViewedExecution(
            address,
            node_id,
            node_key(path, node_id),
            "running",
            at,
            "",
            type_name,
            speaks,
            path,
            event.part,
            around,
            count,
        )
        self._order.append(address)
        if around:
            one = self._rounds[around]
            self._put_round(replace(one, executions=(*one.executions, address)))
        return made

    def _put(self, execution: ViewedExecution) -> None:
        self._executions[execution.address] = execution
        self._has_changed = True

    def _touch(self, event: Event, execution: ViewedExecution) -> None:
        if execution.round:
            self._latest[execution.round] = event.timestamp

    def _node_runs(self, event: Event, data: NodeRunning) -> None:
        address = event.address or ""
        one = self._executions.get(address)
        if one is None:
            one = self._execution(event, address, data)
        else:
            one = replace(
                one,
                status="running",
                ended="",
                type=data.type,
                speaks=data.speaks,
                starts=one.starts + 1,
                error="",
                error_type="",
                handled=False,
                inside=False,
                origin="",
                attempts=None,
                reason="",
                cause="",
                streamed="",
                attempt=0,
            )
        self._put(one)
        self._active[address] = None
        self._touch(event, one)

    def _node_ended(self, event: Event, address: str, changes: dict[str, Any]) -> ViewedExecution:
        before = self._execution(event, address)
        ended = replace(
            before,
            ended=event.timestamp,
            question=None,
            streamed="",
            attempt=0,
            progress=None,
            waits=None,
            **changes,
        )
        self._put(ended)
        self._active.pop(address, None)
        if self._view.questions:
            left = tuple(one for one in self._view.questions if one.caller != address)
            if len(left) != len(self._view.questions):
                self._view = replace(self._view, questions=left)
        self._touch(event, before)
        return ended

    def _node_completed(self, event: Event, data: NodeCompleted) -> None:
        changes: dict[str, Any] = {
            "status": "completed",
            "output": data.output,
            "data": data.data,
            "report": data.report,
            "messages": data.messages,
            "score": data.score,
            "port": data.port,
        }
        if data.usage is not None:
            changes["usage"] = data.usage
        ended = self._node_ended(event, event.address or "", changes)
        if data.score is not None:
            for one in self._open_rounds(ended):
                self._put_round(replace(one, score=float(data.score)))

    def _node_failed(self, event: Event, data: NodeFailed) -> None:
        changes = {
            "status": "failed",
            "error": data.error,
            "error_type": data.type,
            "handled": data.handled,
            "inside": data.inside,
            "origin": data.origin,
            "attempts": data.attempts,
            "reason": data.reason,
        }
        ended = self._node_ended(event, event.address or "", changes)
        if not data.handled:
            for one in self._open_rounds(ended):
                self._put_round(replace(one, failures=one.failures + 1))

    def _node_skipped(self, event: Event, data: NodeSkipped) -> None:
        changes = {"status": "skipped", "reason": data.reason, "cause": data.cause}
        self._node_ended(event, event.address or "", changes)

    def rounds_around(self, address: str) -> list[str]:
        """The addresses of the open rounds around an execution, from the inside out."""
        execution = self._executions.get(address)
        return [] if execution is None else [one.address for one in self._open_rounds(execution)]

    def _open_rounds(self, execution: ViewedExecution) -> list[ViewedRound]:
        found, address = [], execution.round
        while address:
            one = self._rounds[address]
            if one.status == "running":
                found.append(one)
            address = one.parent
        return found

    # Calls of models and tools.

    def _count(
        self, execution: ViewedExecution, used: RunUsage, total: RunUsage | None, is_priced: bool = False
    ) -> ViewedExecution:
        """Adds what a call has used to what is around it; of earlier versions also to the whole run."""
        self._view = replace(self._view, usage=total or _sum(self._view.usage, used))
        for one in self._open_rounds(execution):
            self._put_round(replace(one, usage=_sum(one.usage, used), priced=one.priced or is_priced))
            loop = self._loops[loop_of(one.address)]
            self._put_loop(replace(loop, usage=_sum(loop.usage, used)))
        return replace(execution, usage=_sum(execution.usage, used))

    def _call_begins(self, event: Event, data: ModelCallStarted) -> None:
        before = self._execution(event, event.address or "")
        call = ViewedCall(data.call, data.purpose, "running", event.timestamp, ordinal=data.ordinal)
        self._put(replace(before, calls=(*before.calls, call)))
        self._touch(event, before)

    def _call_ends(self, event: Event, data: ModelCallEnded) -> None:
        before = self._execution(event, event.address or "")
        at = _in_flight(before.calls, data.call)
        if at is None:  # of an earlier version
            at, begun = len(before.calls), ViewedCall(data.call, data.purpose, "running", "")
        else:
            begun = before.calls[at]
        ended = ViewedCall(
            data.call,
            data.purpose,
            data.status,
            begun.started,
            event.timestamp,
            begun.ordinal,
            data.model,
            input_tokens=data.input_tokens,
            output_tokens=data.output_tokens,
            cost_usd=data.cost_usd,
            cached=data.cached,
            scripted=data.scripted,
            seconds=data.seconds,
            first_token=data.first_token,
            stop=data.stop,
            attempts=data.attempts,
            context=data.context,
            error=data.error,
            type=data.type,
        )
        counted = self._count(before, _used_by_model(data), data.total, data.cost_usd is not None)
        self._put(replace(counted, calls=(*before.calls[:at], ended, *before.calls[at + 1 :])))
        self._touch(event, before)

    def _aside(self, event: Event, data: AsideUsage) -> None:
        before = self._execution(event, event.address or "")
        used = RunUsage(0, 0, data.input_tokens, 0, data.cost_usd or 0.0, int(data.cost_usd is None))
        self._put(self._count(before, used, data.total, data.cost_usd is not None))

    def _tool_begins(self, event: Event, data: ToolCallStarted) -> None:
        address = event.address or ""
        before = self._execution(event, data.caller)
        at = _tool_at(before.tools, address)
        status, arguments = data.status, data.arguments
        if at is None:
            tool = ViewedTool(address, data.name, data.id, data.round, status, event.timestamp)
            at = len(before.tools)
        else:  # a person has allowed it, or a retry makes it again
            tool = replace(before.tools[at], status=status, ended="", result=None)
        tool = replace(tool, arguments=arguments)
        self._put_tool(before, at, tool)
        self._touch(event, before)

    def _tool_ends(self, event: Event, data: ToolCallEnded) -> None:
        address = event.address or ""
        before = self._execution(event, data.caller)
        at = _tool_at(before.tools, address)
        known = before.tools[at] if at is not None else None
        tool = ViewedTool(
            address,
            data.name,
            data.id,
            data.round,
            data.status,
            known.started if known is not None else event.timestamp,
            event.timestamp,
            data.arguments,
            data.result,
            data.called,
            data.seconds,
            data.waited,
            known.decision if known is not None else None,
            data.attempts,
        )
        used = replace(NO_USAGE, tool_calls=int(data.called))
        counted = self._count(before, used, data.total)
        self._put_tool(counted, len(before.tools) if at is None else at, tool)
        self._touch(event, before)

    def _put_tool(self, execution: ViewedExecution, at: int, tool: ViewedTool) -> None:
        tools = execution.tools
        self._put(replace(execution, tools=(*tools[:at], tool, *tools[at + 1 :])))

    # People.

    def _asked(self, event: Event, data: QuestionAsked) -> None:
        address = event.address or ""
        caller = data.caller or address
        question = ViewedQuestion(
            address,
            event.node_id or "",
            caller,
            data.prompt,
            event.timestamp,
            tuple(data.input or ()),
            data.tool,
            data.deadline,
            data.timeout,
        )
        others = tuple(one for one in self._view.questions if one.address != address)
        self._view = replace(self._view, questions=(*others, question))
        before = self._execution(event, caller)
        self._put(replace(before, status="waiting", question=question))
        self._touch(event, before)

    def _answered(self, event: Event, data: AnswerReceived) -> None:
        answer = ViewedAnswer(
            event.address or "",
            event.node_id or "",
            event.timestamp,
            data.text,
            data.data,
            data.by,
            data.via,
            data.decision,
            tuple(data.changes or ()),
            data.reason,
            data.waited,
        )
        self._close(event, answer)

    def _not_answered(self, event: Event, data: AnswerTimeout) -> None:
        answer = ViewedAnswer(
            event.address or "",
            event.node_id or "",
            event.timestamp,
            waited=data.waited,
            expired=data.action,
        )
        self._close(event, answer)

    def _close(self, event: Event, answer: ViewedAnswer) -> None:
        """Closes a question."""
        view, address = self._view, answer.address
        asked = next((one for one in view.questions if one.address == address), None)
        left = tuple(one for one in view.questions if one is not asked)
        self._view = replace(view, questions=left, answers=(*view.answers, answer))
        caller = asked.caller if asked is not None else address
        before = self._execution(event, caller)
        others = [one for one in left if one.caller == caller]
        after = replace(
            before,
            status="waiting" if others else "running",
            question=others[-1] if others else None,
            answer=before.answer if answer.expired else answer.text,
        )
        at = _tool_at(after.tools, address)
        if at is not None:
            after = replace(
                after,
                tools=(
                    *after.tools[:at],
                    replace(after.tools[at], decision=answer.decision),
                    *after.tools[at + 1 :],
                ),
            )
        self._put(after)
        self._touch(event, before)

    # Locks, edits, warnings.

    def _limit_reached(self, event: Event, data: LimitReached) -> None:
        if data.locks:
            self._locked(event, data.what, data)

    def _tripped(self, event: Event, data: BreakerTripped) -> None:
        self._locked(event, data.trigger, data)

    def _locked(self, event: Event, what: str, data: LimitReached | BreakerTripped) -> None:
        address = data.address or event.address or ""
        fields = msgspec.to_builtins(data, enc_hook=repr)
        lock = ViewedLock(event.seq, event.timestamp, what, fields, address, event.node_id or "")
        self._view = replace(self._view, locks=(*self._view.locks, lock))

    def _unlocked(self, event: Event, data: BreakerUnlocked) -> None:
        *before, lock = self._view.locks or (None,)
        if lock is None:
            return  # it was pruned
        changes = tuple(data.changes or ())
        unlocked = ViewedUnlock(event.timestamp, data.by, data.reason, changes, data.note, data.exit)
        self._view = replace(self._view, locks=(*before, replace(lock, unlocked=unlocked)))

    def _edited(self, event: Event, data: MessageEdited) -> None:
        edit = ViewedEdit(
            event.timestamp,
            event.address or "",
            data.text,
            data.before,
            data.by,
            data.cause,
            data.position,
        )
        self._view = replace(self._view, edits=(*self._view.edits, edit))

    def _warned(self, event: Event, data: Warned) -> None:
        self._warn(event, data.code, data.message)

    def _memory_failed(self, event: Event, data: MemoryFailed) -> None:
        self._warn(event, "memory", data.error)

    def _end_not_reached(self, event: Event, data: EndNotReached) -> None:
        self._warn(event, "no_end", "", tuple(data.edges))

    def _warn(self, event: Event, code: str, text: str, edges: tuple[str, ...] = ()) -> None:
        warning = ViewedWarning(event.timestamp, code, event.address or "", event.node_id or "", text, edges)
        self._view = replace(self._view, warnings=(*self._view.warnings, warning))

    # Transient events. They change what is in flight, and nothing else.

    def _at_work(self, event: Event) -> ViewedExecution | None:
        address = event.address or ""
        return self._executions[address] if address in self._active else None

    def _streams(self, event: Event, data: TokenStream) -> None:
        one = self._at_work(event)
        if one is None or data.attempt < one.attempt:
            return
        before = one.streamed if data.attempt == one.attempt else ""
        # One that came later knows only the rest; one that missed a part shows what it has.
        self._put(replace(one, streamed=before[: data.offset] + data.text, attempt=data.attempt))

    def _reports(self, event: Event, data: ProgressReported) -> None:
        one = self._at_work(event)
        if one is not None:
            self._put(replace(one, progress=data))
        else:
            self._change_tool(event, {"progress": data})

    def _sent(self, event: Event, data: RequestSent) -> None:
        changes = {"model": data.model, "attempt": data.attempt, "of": data.of, "waits": None}
        self._change_call(event, data.call, changes)

    def _waits(self, event: Event, data: CallWaiting) -> None:
        one = self._at_work(event)
        if data.call is not None:
            self._change_call(event, data.call, {"waits": data})
        elif one is not None:
            self._put(replace(one, waits=data))
        else:
            self._change_tool(event, {"waits": data})

    def _progressed(self, event: Event, data: RunProgress) -> None:
        self._view = replace(self._view, progress=data)

    def _change_call(self, event: Event, call: int, changes: dict[str, Any]) -> None:
        one = self._at_work(event)
        at = _in_flight(one.calls, call) if one is not None else None
        if one is not None and at is not None:
            changed = replace(one.calls[at], **changes)
            self._put(replace(one, calls=(*one.calls[:at], changed, *one.calls[at + 1 :])))

    def _change_tool(self, event: Event, changes: dict[str, Any]) -> None:
        for address in self._active:
            one = self._executions[address]
            at = _tool_at(one.tools, event.address or "")
            if at is not None and not one.tools[at].ended:
                self._put_tool(one, at, replace(one.tools[at], **changes))
                return


def _end_idle(idle: tuple[IdleTime, ...], at: str) -> tuple[IdleTime, ...]:
    if not idle or idle[-1].ended:
        return idle
    return (*idle[:-1], replace(idle[-1], ended=at))


def _is_direct(execution: ViewedExecution) -> bool:
    """Whether only its innermost round is around an execution: no node inside of that."""
    path = execution.path
    if not path:
        return True
    return _round_of(path) == execution.round


def _round_of(path: Path) -> str:
    """The address of the round that a path ends with, which may have several runs of a body."""
    return round_address((*path[:-1], replace(path[-1], repeat=0)) if path[-1].repeat else path)


def _in_flight(calls: tuple[ViewedCall, ...], number: int) -> int | None:
    """Where the call with this number is that has not ended."""
    for at in range(len(calls) - 1, -1, -1):
        if calls[at].call == number and calls[at].status == "running":
            return at
    return None


def _tool_at(tools: tuple[ViewedTool, ...], address: str) -> int | None:
    for at in range(len(tools) - 1, -1, -1):
        if tools[at].address == address:
            return at
    return None


def _used_by_model(data: ModelCallEnded) -> RunUsage:
    """What a model call counts for in the usage of the run."""
    is_counted = data.status in ("completed", "failed") and not data.cached
    return RunUsage(
        int(is_counted),
        0,
        data.input_tokens or 0,
        data.output_tokens or 0,
        data.cost_usd or 0.0,
        int(is_counted and data.status == "completed" and data.cost_usd is None),
        int(data.cached),
        int(data.status == "cancelled"),
    )


def _sum(one: RunUsage, other: RunUsage) -> RunUsage:
    """Both together, by the rule of the kernel for a cost that is not known (`shown_usage`)."""
    calls, unpriced = one.model_calls + other.model_calls, one.unpriced_calls + other.unpriced_calls
    cost = picodollars(one.cost_usd or 0.0) + picodollars(other.cost_usd or 0.0)
    return RunUsage(
        calls,
        one.tool_calls + other.tool_calls,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        None if unpriced and unpriced >= calls and not cost else dollars(cost),
        unpriced,
        one.cached_calls + other.cached_calls,
        one.cancelled_calls + other.cancelled_calls,
    )


_HANDLERS: dict[type, Callable[[RunFold, Event, Any], None]] = {
    RunStarted: RunFold._started,
    RunStateChanged: RunFold._changed,
    RunFinished: RunFold._finished,
    LoopRound: RunFold._round_begins,
    RoundFinished: RunFold._round_ends,
    LoopLeft: RunFold._loop_left,
    NodeRunning: RunFold._node_runs,
    NodeCompleted: RunFold._node_completed,
    NodeFailed: RunFold._node_failed,
    NodeSkipped: RunFold._node_skipped,
    ModelCallStarted: RunFold._call_begins,
    ModelCallEnded: RunFold._call_ends,
    AsideUsage: RunFold._aside,
    ToolCallStarted: RunFold._tool_begins,
    ToolCallEnded: RunFold._tool_ends,
    QuestionAsked: RunFold._asked,
    AnswerReceived: RunFold._answered,
    AnswerTimeout: RunFold._not_answered,
    LimitReached: RunFold._limit_reached,
    **dict.fromkeys(kinds_of(BreakerTripped.event), RunFold._tripped),
    BreakerUnlocked: RunFold._unlocked,
    MessageEdited: RunFold._edited,
    Warned: RunFold._warned,
    MemoryFailed: RunFold._memory_failed,
    EndNotReached: RunFold._end_not_reached,
    TokenStream: RunFold._streams,
    ProgressReported: RunFold._reports,
    RequestSent: RunFold._sent,
    CallWaiting: RunFold._waits,
    RunProgress: RunFold._progressed,
}
"""What an event does. Those that say nothing about the run as a whole or about a node are left out."""
