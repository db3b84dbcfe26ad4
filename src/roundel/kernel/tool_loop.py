"""Nodes that take several calls: an agent whose model asks for tools.

What is called when is the business of the node's dialogue, which looks at nothing but what it is told:

    begin(inputs)              the node has come up
    heard(errand, outcome)     a call was answered
    failed(errand, error)      a call failed
    on_person_answer(call, message)  a person answered
    unlocked()                 the run goes on, and no errand of this waits: a limit that it met was raised

Each gives an Act: errands to run, an outcome that ends the node, events to show, a limit that was met, an
error that fails the node. An errand without a label is a call of the node itself, made at the node's own
address, and there is one of them at a time; an errand with a label has an address in the talk's rounds
(`Analyst[2]/mean`), and several may be out at the same time. An errand that asks goes to a person.

Each errand is a step of its own: what it gave is a fact, and is never asked for again.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from roundel.kernel.breaker import breaker_around, lock, record_result
from roundel.kernel.budget import model_call, reserve
from roundel.kernel.commands import Ask, Call, Command
from roundel.kernel.facts import Outcome
from roundel.kernel.lifecycle import complete, fail, fits_budget, record_usage
from roundel.kernel.state import START_CALLS, Execution, Run, ToolLoop
from roundel.workflow.message import Message


class ToolLoopCall(Struct, frozen=True):
    what: Any
    """What is to be done, as the state of its call."""
    label: str = ""
    round: int = 0
    person_prompt: dict[str, Any] | None = None
    """A person is asked, and shown this."""
    subject: str = ""
    """What the person is asked about; questions about the same are counted."""


_REDACTED: dict[str, Any] = {"arguments": {}, "result": ""}
"""What a node whose output is not to be logged shows of its errands: these fields are empty."""
Shown = tuple[str, dict[str, Any], ToolLoopCall | None]
"""An event: its name, its data, and the errand that it is about."""


class ToolLoopAction(Struct, frozen=True):
    loop_calls: tuple[ToolLoopCall, ...] = ()
    outcome: Outcome | None = None
    events: tuple[Shown, ...] = ()
    reached: tuple[str, int] | None = None
    """What is used up and its limit, although the run goes on."""
    lock: tuple[str, int] | None = None
    """What is used up and its limit: once the run is unlocked, the dialogue says how it goes on."""
    error: str = ""


class Conversation(Protocol):
    stops_repeats: bool
    """Whether an errand is not to be run again and again with the same result; set before it begins."""

    def begin(self, inputs: tuple[Message, ...]) -> ToolLoopAction: ...
    def on_result(self, loop_call: ToolLoopCall, outcome: Outcome) -> ToolLoopAction: ...
    def on_failure(self, loop_call: ToolLoopCall, error: str) -> ToolLoopAction: ...
    def on_person_answer(self, loop_call: ToolLoopCall, message: Message) -> ToolLoopAction: ...
    def on_unlock(self) -> ToolLoopAction: ...
    def result(self, outcome: Outcome) -> str:
        """What came of an errand, to see whether it is new."""


def advance_tool_loop(run: Run, tool_loop: ToolLoop) -> None:
    """Starts what may start: the talk itself, or the errands that its dialogue has named."""
    if not tool_loop.pending:
        conversation = tool_loop.conversation
        if tool_loop.calls:
            _apply(run, tool_loop, conversation.on_unlock())
        else:
            conversation.stops_repeats = breaker_around(tool_loop.execution).detects_dead_loops
            _apply(run, tool_loop, conversation.begin(tool_loop.inputs))
        return
    loop_calls = tool_loop.pending
    if run.budgeted and not _fit_budget(run, tool_loop, loop_calls):
        run.held.append((tool_loop, START_CALLS))
        return
    tool_loop.pending = []
    for loop_call in loop_calls:
        _start_call(run, tool_loop, loop_call)


def _fit_budget(run: Run, tool_loop: ToolLoop, loop_calls: list[ToolLoopCall]) -> bool:
    """Whether there is a budget for all of them; if not, none begins."""
    whole = tool_loop.execution
    tools = sum(1 for loop_call in loop_calls if loop_call.label and loop_call.person_prompt is None)
    wanted = {"tool_calls": tools} if tools else {}
    if any(not loop_call.label for loop_call in loop_calls):
        wanted |= model_call(run, whole.node)
    return fits_budget(run, whole.activation, whole.node, whole.address, wanted)


def on_result(run: Run, execution: Execution, outcome: Outcome) -> None:
    tool_loop, loop_call = _owner_of(execution)
    record_usage(run, execution, outcome)
    for name, data in outcome.events:
        run.emit(name, execution.node.id, execution.address, data)
    if loop_call.label:
        record_result(execution, tool_loop.conversation.result(outcome))
    _apply(run, tool_loop, tool_loop.conversation.on_result(loop_call, outcome))


def on_call_failed(run: Run, execution: Execution, error: str) -> None:
    tool_loop, loop_call = _owner_of(execution)
    _apply(run, tool_loop, tool_loop.conversation.on_failure(loop_call, error))


def on_person_answer(run: Run, execution: Execution, message: Message) -> None:
    tool_loop, loop_call = _owner_of(execution)
    _apply(run, tool_loop, tool_loop.conversation.on_person_answer(loop_call, message))


def _owner_of(execution: Execution) -> tuple[ToolLoop, ToolLoopCall]:
    assert isinstance(execution.owner, ToolLoop)
    return execution.owner, execution.loop_call


def _apply(run: Run, tool_loop: ToolLoop, action: ToolLoopAction) -> None:
    execution = tool_loop.execution
    node, address = execution.node, execution.address
    for name, data, loop_call in action.events:
        if not node.logs_output:
            data = {**data, **{field: nothing for field, nothing in _REDACTED.items() if field in data}}
        run.emit(name, node.id, _address(tool_loop, loop_call) if loop_call else address, data)
    if action.reached is not None:
        what, limit = action.reached
        run.emit("limit_reached", node.id, address, {"what": what, "limit": limit, "address": address})
    if action.error:
        fail(run, execution, action.error)
        return
    if action.lock is not None:
        lock(run, *action.lock, node.id, address)
    if action.loop_calls or action.lock is not None:
        tool_loop.pending.extend(action.loop_calls)
        run.ready_queue.append((tool_loop, START_CALLS))
    if action.outcome is not None:
        complete(run, execution, action.outcome)


def _start_call(run: Run, tool_loop: ToolLoop, loop_call: ToolLoopCall) -> None:
    whole = tool_loop.execution
    node, address = whole.node, _address(tool_loop, loop_call)
    command: Command
    if loop_call.person_prompt is not None:
        run.emit("human_input_required", node.id, address, loop_call.person_prompt)
        command = Ask(
            address,
            node.site,
            tool_loop.inputs,
            _question_number(run, tool_loop, loop_call),
            loop_call.person_prompt,
        )
    else:
        ordinal = 0 if loop_call.label else _ordinal(tool_loop)
        round_ = whole.activation.loop_round
        command = Call(address, node.site, tool_loop.inputs, loop_call.what, ordinal, round_)
    run.calls[address] = execution = Execution(
        whole.activation, whole.unit, node, address, command, whole.part, owner=tool_loop, loop_call=loop_call
    )
    run.commands.append(command)
    if run.budgeted and loop_call.person_prompt is None:
        reserve(run, execution, {"tool_calls": 1} if loop_call.label else model_call(run, node))


def _ordinal(tool_loop: ToolLoop) -> int:
    """Which of the node's calls it is: never a matter of which part of a dynamic edge was quicker."""
    number = tool_loop.calls
    tool_loop.calls += 1
    if number:
        execution = tool_loop.execution
        if execution.part is None:
            execution.activation.instance.ordinals[execution.node.site] += 1
        else:
            execution.part[0].extra_calls += 1
    return tool_loop.ordinal + number


def _question_number(run: Run, tool_loop: ToolLoop, loop_call: ToolLoopCall) -> int:
    """Which question about its subject it is. What runs at the same time counts for itself, from its own
    number on: never a matter of who was quicker."""
    where, first = _parallel_scope(tool_loop.execution)
    key = (where, tool_loop.execution.node.site, loop_call.subject)
    number = run.question_counts.get(key, 0)
    run.question_counts[key] = number + 1
    return first + number


def _parallel_scope(execution: Execution) -> tuple[str, int]:
    """The innermost thing around it that runs beside others of its kind, and its number among them."""
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
    return (
        f"{tool_loop.stem}{loop_call.round}]/{loop_call.label}"
        if loop_call.label
        else tool_loop.execution.address
    )
