"""Nodes that make several calls: an agent whose model requests tools.

The node's *conversation* (nodes/agent.py creates it) decides which calls come next. It sees only what it
is given, and does no I/O:

    begin(inputs)                    the node starts
    on_result(call, outcome)         a call returned
    on_failure(call, error)          a call failed
    on_person_answer(call, message)  a person answered
    on_expiry(call)                  a person did not answer in time
    on_unlock()                      the run was unlocked after a limit of this node had locked it

Each returns a ToolLoopAction: calls to start, an outcome that completes the node, events to emit, a
limit that was reached, an error that fails the node.

A call without a label is a call of the node itself, to its model: it is made at the node's own address,
and there is at most one in flight. A call with a label, to a tool, has an address in the rounds of the
loop (`Analyst[2]/mean`), and several can be in flight. A call with a `person_prompt` goes to a person.

Each call is a command and a fact of its own, so a tool whose result is in the journal is never called
again, not even if the process crashes between two rounds. A single command for the whole exchange would
repeat all of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.breaker import breaker_around, lock, record_result
from roundel.kernel.budget import model_call, reserve
from roundel.kernel.calls import RequestedTool, begin_model_call, begin_tool, tool_ended
from roundel.kernel.changes import changes_between
from roundel.kernel.commands import Ask, Call, Command
from roundel.kernel.debugging import loop_ended
from roundel.kernel.facts import CallRecord, Failed, Outcome, failure_data
from roundel.kernel.lifecycle import (
    complete,
    deadline_after,
    emit_question,
    fail,
    jump_problem,
    waited_for,
)
from roundel.kernel.payloads import (
    AnswerReceived,
    Decision,
    EventData,
    LimitReached,
    Purpose,
    ToolCallEnded,
    as_told,
    told_by_node,
)
from roundel.kernel.state import START_CALLS, Execution, Run, ToolLoop
from roundel.kernel.usage import fits_budget
from roundel.workflow.message import Message


class ToolLoopCall(Struct, frozen=True):
    """One call of a conversation: to the model, to a tool or to a person."""

    what: Any
    """The request; it becomes the `state` of the Call."""
    label: str = ""
    round: int = 0
    person_prompt: dict[str, Any] | None = None
    """What the person is shown; None if no person is asked."""
    subject: str = ""
    """The subject of the question; questions with the same subject are numbered."""
    timeout: float | None = None
    """The seconds that the person has to answer; None is for ever."""
    aside: str = ""
    """The last part of the address of a call beside those of the model: `…/context`."""
    calls_model: bool = True
    """Whether a call without a label needs room for a call of the model."""
    purpose: Purpose = "answer"
    """What a call of the model is for."""
    waited: float | None = None
    """How many seconds a person took to decide about it; the kernel sets it."""


Shown = tuple[EventData, ToolLoopCall | None]
"""The data of an event, and the call that it is about; None for the node as a whole."""


class ToolLoopAction(Struct, frozen=True):
    """What a conversation wants to happen next."""

    loop_calls: tuple[ToolLoopCall, ...] = ()
    outcome: Outcome | None = None
    events: tuple[Shown, ...] = ()
    reached: tuple[str, int] | None = None
    """The name and value of a limit that was reached without locking the run."""
    lock: tuple[str, int] | None = None
    """The name and value of a limit that locks the run; after the unlock, `on_unlock` decides."""
    error: str = ""
    """Fails the node, if not empty."""
    error_type: str = ""
    """The kind of that failure; if it is empty, that of the call that failed."""
    inputs: tuple[Message, ...] | None = None
    """The input of the calls that follow; None leaves it unchanged."""
    decision: Decision = "answered"
    """What a person has decided about a tool."""
    changed: tuple[Any, Any] | None = None
    """For a decision that changes them: the arguments before and after."""
    decision_reason: str = ""
    """Why the person rejects it."""
    error_answer: str | None = None
    """A text for the node to say instead of failing; the `data` of the message describes the failure."""


class Conversation(Protocol):
    """Decides the calls of one execution of a node; created by `NodeType.conversation` for each.

    A snapshot stores its attributes and restores them into a new object (snapshot.py), so they must be
    data.
    """

    stops_repeats: bool
    """Whether repeated calls with the same result are to be stopped; the kernel sets it before
    `begin`."""

    @property
    def rounds(self) -> int:
        """How many rounds of tools have begun; for those who inspect a run."""

    @property
    def max_rounds(self) -> int: ...

    def allow(self, rounds: int) -> None:
        """Sets the limit on rounds that a person gave when unlocking the run."""

    def begin(self, inputs: tuple[Message, ...]) -> ToolLoopAction: ...
    def on_result(self, loop_call: ToolLoopCall, outcome: Outcome) -> ToolLoopAction: ...
    def on_failure(self, loop_call: ToolLoopCall, error: str, error_type: str = "") -> ToolLoopAction: ...
    def on_person_answer(self, loop_call: ToolLoopCall, message: Message) -> ToolLoopAction: ...
    def on_expiry(self, loop_call: ToolLoopCall) -> ToolLoopAction: ...
    def on_unlock(self) -> ToolLoopAction: ...
    def tool(self, loop_call: ToolLoopCall) -> RequestedTool:
        """The request of a call with a label."""

    def result(self, outcome: Outcome) -> str:
        """The text of an outcome that the breaker compares, to see whether it is new."""


def advance_tool_loop(run: Run, tool_loop: ToolLoop) -> None:
    """Starts what may start: the conversation itself, or its pending calls."""
    if not tool_loop.pending:
        conversation = tool_loop.conversation
        # Nothing pending, but the model was called before: it is queued again after an unlock.
        if tool_loop.calls:
            _apply(run, tool_loop, conversation.on_unlock())
        else:
            conversation.stops_repeats = breaker_around(tool_loop.execution).detects_dead_loops
            _apply(run, tool_loop, conversation.begin(tool_loop.inputs))
        return
    loop_calls = tool_loop.pending
    # All calls of a round or none: a model that gets the results of half of them cannot continue.
    if run.budgeted and not _fit_budget(run, tool_loop, loop_calls):
        run.held.append((tool_loop, START_CALLS))
        return
    tool_loop.pending = []
    for loop_call in loop_calls:
        _start_call(run, tool_loop, loop_call)


def _fit_budget(run: Run, tool_loop: ToolLoop, loop_calls: list[ToolLoopCall]) -> bool:
    """Whether the budgets have room for all of the calls; if not, locks the run."""
    whole = tool_loop.execution
    tools = sum(1 for loop_call in loop_calls if loop_call.label and loop_call.person_prompt is None)
    wanted = {"tool_calls": tools} if tools else {}
    if any(not loop_call.label and loop_call.calls_model for loop_call in loop_calls):
        what, round_ = loop_calls[0].what, whole.activation.loop_round  # it is alone: `ToolLoopCall.label`
        call = partial(Call, whole.address, whole.node.site, tool_loop.inputs, what, 0, round_, whole.context)
        wanted |= model_call(run, whole.activation, whole.node, call)
    return fits_budget(run, whole.activation, whole.node, whole.address, wanted)


def on_result(run: Run, execution: Execution, outcome: Outcome) -> None:
    tool_loop, loop_call = _owner_of(execution)
    for name, data in outcome.events:
        told = told_by_node(execution.node.kind.events, name, data)
        run.emit(told, execution.node.id, execution.address)
    if loop_call.label:
        # Results of tools are what the breaker sees as progress from outside; the model's own replies
        # are not.
        record_result(execution, tool_loop.conversation.result(outcome))
    if loop_call.aside and outcome.usage is not None:
        key = _count_key(tool_loop, loop_call)
        run.question_counts[key] = run.question_counts.get(key, 0) + 1
    is_called = outcome.usage is not None and outcome.usage.tool_calls > 0
    action = tool_loop.conversation.on_result(loop_call, outcome)
    _apply(run, tool_loop, action, execution, record=outcome.call, is_called=is_called)


def continue_as_conversation(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Continues a node that usually makes one call, and whose outcome has a `state`: the model gave no
    answer, and the node's conversation decides what follows. From here on it is like any other
    conversation."""
    node, call = execution.node, execution.command
    assert isinstance(call, Call)
    whole = replace(execution, command=None, reserved=None)
    tool_loop = ToolLoop(whole, node.kind.follow_up(node.config), call.inputs, call.ordinal)
    tool_loop.calls, tool_loop.model_calls = 1, call.number
    (first,) = tool_loop.conversation.begin(call.inputs).loop_calls
    on_result(run, replace(execution, owner=tool_loop, loop_call=first), outcome)


def on_call_failed(run: Run, execution: Execution, fact: Failed) -> None:
    tool_loop, loop_call = _owner_of(execution)
    _apply(
        run,
        tool_loop,
        tool_loop.conversation.on_failure(loop_call, fact.error, fact.error_type),
        execution,
        fact,
        record=fact.call,
        is_called=isinstance(execution.command, Call) and run.plan.semantics >= 3,
    )


def on_person_answer(run: Run, execution: Execution, message: Message, received: AnswerReceived) -> None:
    """Continues with what a person says about a tool; `received` is completed with what that decides."""
    tool_loop, loop_call = _owner_of(execution)
    loop_call = replace(loop_call, waited=received.waited)
    action = tool_loop.conversation.on_person_answer(loop_call, message)
    decided = replace(received, decision=action.decision, reason=action.decision_reason)
    if action.changed is not None and execution.node.logs_output:
        decided = replace(decided, changes=changes_between(*action.changed))
    run.emit(decided, execution.node.id, execution.address)
    _apply(run, tool_loop, action, execution)


def on_expiry(run: Run, execution: Execution) -> None:
    tool_loop, loop_call = _owner_of(execution)
    assert isinstance(execution.command, Ask)
    loop_call = replace(loop_call, waited=waited_for(run, execution.command))
    _apply(run, tool_loop, tool_loop.conversation.on_expiry(loop_call))


def _owner_of(execution: Execution) -> tuple[ToolLoop, ToolLoopCall]:
    assert isinstance(execution.owner, ToolLoop)
    return execution.owner, execution.loop_call


def _apply(
    run: Run,
    tool_loop: ToolLoop,
    action: ToolLoopAction,
    cause: Execution | None = None,
    failed: Failed | None = None,
    *,
    record: CallRecord | None = None,
    is_called: bool = False,
) -> None:
    """Carries out an action. The order matters: events first, and an error suppresses everything after it.

    `cause` is the call that led to it, `failed` its failure, `record` what the host says of it, and
    `is_called` says whether it called a tool. If the action fails the node, a retry
    makes that call again and nothing before it: the conversation is as it was when the call was made."""
    execution = tool_loop.execution
    node, address = execution.node, execution.address
    if action.inputs is not None:
        tool_loop.set_inputs(action.inputs)
    _emit_events(run, tool_loop, action, cause, record, is_called)
    if action.reached is not None:
        what, limit = action.reached
        run.emit(LimitReached(what, limit, address), node.id, address)
    if action.error or action.outcome is not None:
        loop_ended(run, tool_loop.stem)
    if action.error:
        kind, attempts, reason = (
            (failed.error_type, failed.attempts, failed.reason) if failed else ("", 1, "")
        )
        kind = action.error_type or kind or "ModelError"
        if action.error_answer is not None:
            data = failure_data(action.error, kind, node.id, address, attempts, reason)
            message = Message(action.error_answer, "assistant", data)
            complete(run, execution, Outcome((message,)))
        else:
            fail(run, execution, action.error, kind, attempts=attempts, cause=cause, reason=reason)
        return
    if action.lock is not None:
        lock(run, *action.lock, node.id, address)
    # Queued also without calls after a lock, so that the entry is held and `on_unlock` is called later.
    if action.loop_calls or action.lock is not None:
        tool_loop.pending.extend(action.loop_calls)
        run.ready_queue.append((tool_loop, START_CALLS))
    if action.outcome is not None:
        problem = jump_problem(execution, action.outcome) if action.outcome.jump else ""
        if problem:
            fail(run, execution, problem, cause=cause)
        else:
            complete(run, execution, action.outcome)


def _start_call(run: Run, tool_loop: ToolLoop, loop_call: ToolLoopCall) -> None:
    """Sends one call to the host, to a tool, the model or a person."""
    whole = tool_loop.execution
    node, address = whole.node, _address(tool_loop, loop_call)
    command: Command
    if loop_call.person_prompt is not None:
        command = Ask(
            address,
            node.site,
            tool_loop.inputs,
            _question_number(run, tool_loop, loop_call),
            loop_call.person_prompt,
            *deadline_after(run, loop_call.timeout),
            run.since,
        )
    else:
        ordinal = _ordinal(run, tool_loop, loop_call)
        round_, context = whole.activation.loop_round, whole.context
        command = Call(address, node.site, tool_loop.inputs, loop_call.what, ordinal, round_, context)
    run.calls[address] = execution = Execution(
        whole.activation, whole.unit, node, address, command, whole.part, owner=tool_loop, loop_call=loop_call
    )
    if loop_call.label:
        begin_tool(run, execution)
        if isinstance(command, Ask):
            emit_question(run, node, command, whole.address)
    elif isinstance(command, Call):
        _number_model_call(run, execution, command)
    assert execution.command is not None
    run.commands.append(execution.command)
    if run.budgeted and isinstance(command, Call) and (loop_call.label or loop_call.calls_model):
        call = command
        tool = {"tool_calls": 1} if loop_call.label else None
        reserve(run, execution, tool or model_call(run, whole.activation, node, lambda: call))


def _emit_events(
    run: Run,
    tool_loop: ToolLoop,
    action: ToolLoopAction,
    cause: Execution | None,
    record: CallRecord | None,
    is_called: bool,
) -> None:
    node, own = tool_loop.execution.node, cause.loop_call if cause is not None else None
    for data, loop_call in action.events:
        address = _address(tool_loop, loop_call) if loop_call else tool_loop.execution.address
        if isinstance(data, ToolCallEnded) and loop_call is not None:
            is_own = own is not None and (loop_call.round, loop_call.label) == (own.round, own.label)
            known = (record, is_called) if is_own else (None, False)
            data = tool_ended(run, tool_loop, loop_call, data, *known)
        run.emit(as_told(node.kind.events, data), node.id, address)


def _number_model_call(run: Run, execution: Execution, call: Call) -> None:
    """Gives a call its number. A check of the context has that of the summary that it may write."""
    tool_loop, loop_call = _owner_of(execution)
    execution.command = replace(call, number=tool_loop.model_calls + 1)
    if not loop_call.aside:
        tool_loop.model_calls += 1
        begin_model_call(run, execution)


def _ordinal(run: Run, tool_loop: ToolLoop, loop_call: ToolLoopCall) -> int:
    """The ordinal of a call: of the model calls of the node, or of those beside them that called a model."""
    if loop_call.label:
        return 0
    if not loop_call.aside:
        return next_ordinal(tool_loop)
    _, first = _parallel_scope(tool_loop.execution)
    return first + run.question_counts.get(_count_key(tool_loop, loop_call), 0)


def next_ordinal(tool_loop: ToolLoop) -> int:
    """The ordinal of a model call. It never depends on which part of a dynamic edge was quicker."""
    number = tool_loop.calls
    tool_loop.calls += 1
    # `launch` has counted the first call already. A part must not touch the shared count while other
    # parts run; its extra calls are added when all parts are done.
    if number:
        execution = tool_loop.execution
        if execution.part is None:
            execution.activation.instance.ordinals[execution.node.site] += 1
        else:
            execution.part[0].extra_calls += 1
    return tool_loop.ordinal + number


def _question_number(run: Run, tool_loop: ToolLoop, loop_call: ToolLoopCall) -> int:
    """The number of a question about its subject.

    What runs in parallel counts for itself, starting at its own number, so that the number does not
    depend on timing.
    """
    _, first = _parallel_scope(tool_loop.execution)
    key = _count_key(tool_loop, loop_call)
    number = run.question_counts.get(key, 0)
    run.question_counts[key] = number + 1
    return first + number


def _count_key(tool_loop: ToolLoop, loop_call: ToolLoopCall) -> tuple[str, int, str]:
    """Where calls of one kind are counted. A tool can have any name, but none with a slash."""
    where, _ = _parallel_scope(tool_loop.execution)
    subject = f"/{loop_call.aside}" if loop_call.aside else loop_call.subject
    return where, tool_loop.execution.node.site, subject


def _parallel_scope(execution: Execution) -> tuple[str, int]:
    """The innermost part or iteration around an execution that runs in parallel, and its number."""
    whole: Execution | None = execution
    while whole is not None:
        if whole.part is not None:
            return whole.address, whole.part[1]
        instance = whole.activation.instance
        if instance.iteration is not None and instance.iteration.parallel_index is not None:
            return instance.prefix, instance.iteration.parallel_index
        whole = instance.caller
    return "", 0


def _address(tool_loop: ToolLoop, loop_call: ToolLoopCall) -> str:
    if loop_call.aside:
        return f"{tool_loop.execution.address}/{loop_call.aside}"
    return (
        f"{tool_loop.stem}{loop_call.round}]/{loop_call.label}"
        if loop_call.label
        else tool_loop.execution.address
    )
