"""The calls of models and tools as events: each that begins ends once.

    model_call    begins where the Call of a node that speaks is sent, and ends with the fact that answers
                  it, with its failure, or when it is cancelled
    tool_call     begins where the call is sent, or where a person is asked about it, and ends in the same
                  ways

A call keeps its number while it is in flight: an interrupt or a crash makes the same call again. A call that
a retry makes again is another one, with the next number.

A check of the context calls a model only if the messages are too many, which the host finds out. So a summary
begins and ends with the fact that reports it.

What is counted is in usage.py; the totals here are those after the call.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.commands import Ask, Call
from roundel.kernel.events import Event
from roundel.kernel.facts import CallRecord, Usage
from roundel.kernel.payloads import (
    AsideUsage,
    EventData,
    ModelCallEnded,
    ModelCallStarted,
    Purpose,
    ToolCallEnded,
    ToolCallStarted,
)
from roundel.kernel.rounds import count_usage
from roundel.kernel.state import Execution, Run, ToolLoop, no_usage
from roundel.workflow.address import CallPlace, part_of


class RequestedTool(Struct, frozen=True):
    """A call of a tool, as the model has requested it. `Conversation.tool` creates it."""

    name: str
    arguments: Any
    id: str


NO_RECORD = CallRecord(0)


# Calls of models.


def is_model_call(execution: Execution) -> bool:
    """Whether a model call of this execution is in flight, which has begun as an event."""
    command, loop_call = execution.command, execution.loop_call
    return command.__class__ is Call and command.number > 0 and not (loop_call and loop_call.aside)


def next_number(execution: Execution) -> int:
    """The number of the next model call of an execution."""
    if isinstance(execution.owner, ToolLoop):
        execution.owner.model_calls += 1
        return execution.owner.model_calls
    return execution.command.number + 1 if isinstance(execution.command, Call) else 1


def new_number(execution: Execution) -> int:
    """The number of a call that is made again. A check of the context has that of the summary that it may
    write, and only a summary that is written takes it."""
    if isinstance(execution.owner, ToolLoop) and execution.loop_call.aside:
        return execution.owner.model_calls + 1
    return next_number(execution)


def begin_model_call(run: Run, execution: Execution) -> None:
    call = execution.command
    assert isinstance(call, Call)
    _emit(run, execution, ModelCallStarted("running", call.number, _purpose(execution), call.ordinal))


def end_model_call(run: Run, execution: Execution, usage: Usage | None, record: CallRecord | None) -> None:
    """Ends a model call with what its fact says of it. `usage` is None if the node reports none."""
    call, known = execution.command, record or NO_RECORD
    assert isinstance(call, Call)
    used = usage or Usage()
    # No tokens: the provider reports none. A reply from the cache has used none.
    is_counted = used.cached or bool(used.input_tokens or used.output_tokens)
    # Without the name of a model nothing was paid for, unless the node says so.
    is_priced = used.cached or bool(used.cost_usd or (used.model and not used.unpriced_calls))
    ended = ModelCallEnded(
        "failed" if known.error else "completed",
        call.number,
        _purpose(execution),
        used.model,
        used.input_tokens if is_counted else None,
        used.output_tokens if is_counted else None,
        used.cost_usd if is_priced else None,
        used.cached,
        used.scripted,
        None if record is None else known.seconds,
        known.first_token,
        known.stop,
        known.attempts,
        known.context,
        known.error,
        known.error_type,
        run.total,
    )
    _emit(run, execution, ended)


def end_summary(run: Run, execution: Execution, usage: Usage, record: CallRecord | None) -> None:
    """Shows the call that a check of the context has made."""
    next_number(execution)
    begin_model_call(run, execution)
    end_model_call(run, execution, usage, record)


def fail_model_call(
    run: Run, execution: Execution, error: str, error_type: str, record: CallRecord | None
) -> None:
    call, known = execution.command, record or NO_RECORD
    assert isinstance(call, Call)
    if not is_model_call(execution):  # a check of the context that was to write a summary
        next_number(execution)
        begin_model_call(run, execution)
    ended = ModelCallEnded(
        "failed",
        call.number,
        _purpose(execution),
        seconds=None if record is None else known.seconds,
        attempts=known.attempts,
        context=known.context,
        error=error,
        type=error_type,
        total=run.total,
    )
    _emit(run, execution, ended)


def refuse_call(run: Run, execution: Execution) -> None:
    """Ends a call for which a limit that several runs share has no room."""
    call = execution.command
    if is_model_call(execution) and isinstance(call, Call):
        _emit(run, execution, ModelCallEnded("refused", call.number, _purpose(execution), total=run.total))
    else:
        cancel_call(run, execution)


def cancel_call(run: Run, execution: Execution) -> None:
    """Ends a call of a model or a tool that was in flight, and whose result nobody needs any more."""
    loop_call = execution.loop_call
    if is_model_call(execution):
        call = execution.command
        assert isinstance(call, Call)
        count_usage(run, execution, {**no_usage(), "cancelled_calls": 1})
        _emit(run, execution, ModelCallEnded("cancelled", call.number, _purpose(execution), total=run.total))
    elif isinstance(execution.owner, ToolLoop) and loop_call.label:
        cancel_tool(run, execution.owner, loop_call, execution.address)


def aside_used(run: Run, execution: Execution, usage: Usage) -> None:
    cost = None if usage.unpriced_calls else usage.cost_usd
    _emit(run, execution, AsideUsage("embedding", usage.model, usage.input_tokens, cost, run.total))


def _purpose(execution: Execution) -> Purpose:
    purpose: Purpose = execution.loop_call.purpose if execution.loop_call is not None else "answer"
    return purpose


def _emit(run: Run, execution: Execution, data: EventData) -> None:
    # The activation knows what is around the node, so the plan need not be asked.
    whole = execution.owner.execution if execution.owner.__class__ is ToolLoop else execution
    address, activation = whole.address, whole.activation
    run.seq = seq = run.seq + 1
    part = part_of(address) if whole.part is not None else ""
    run.events.append(
        Event(seq, data.event, run.stamp, run.run_id, whole.node.id, address, data, activation.path, part)
    )


# Calls of tools.


def begin_tool(run: Run, execution: Execution) -> None:
    """A call of a tool is sent, or a person is asked about it."""
    tool_loop, loop_call, node = execution.owner, execution.loop_call, execution.node
    assert isinstance(tool_loop, ToolLoop)
    tool: RequestedTool = tool_loop.conversation.tool(loop_call)
    started = ToolCallStarted(
        tool.name,
        tool.arguments if node.logs_output else {},
        "waiting" if isinstance(execution.command, Ask) else "running",
        loop_call.round,
        tool.id,
        tool_loop.execution.address,
        CallPlace(loop_call.round, loop_call.label),
    )
    run.emit(started, node.id, execution.address)


def tool_ended(
    run: Run,
    tool_loop: ToolLoop,
    loop_call: Any,
    data: ToolCallEnded,
    record: CallRecord | None = None,
    called: bool = False,
) -> ToolCallEnded:
    """The end of a tool call as the conversation tells it, with what only the kernel knows."""
    shown = replace(
        data,
        caller=tool_loop.execution.address,
        call=CallPlace(loop_call.round, loop_call.label),
        called=called,
        seconds=None if record is None else record.seconds,
        waited=loop_call.waited,
        attempts=() if record is None else record.attempts,
        total=run.total,
    )
    return shown if tool_loop.execution.node.logs_output else replace(shown, arguments={}, result="")


def cancel_tool(run: Run, tool_loop: ToolLoop, loop_call: Any, address: str) -> None:
    tool: RequestedTool = tool_loop.conversation.tool(loop_call)
    data = ToolCallEnded(tool.name, tool.arguments, "cancelled", loop_call.round, tool.id, "")
    ended = tool_ended(run, tool_loop, loop_call, data)
    run.emit(ended, tool_loop.execution.node.id, address)


def drop_calls(run: Run, tool_loop: ToolLoop) -> None:
    """Ends the calls that a person has allowed, and that were held back and are never made."""
    for at, loop_call in enumerate(tool_loop.pending):
        if loop_call.waited is not None:
            address = f"{tool_loop.stem}{loop_call.round}]/{loop_call.label}"
            cancel_tool(run, tool_loop, loop_call, address)
            # A retry makes the call, and begins it anew.
            tool_loop.pending[at] = replace(loop_call, waited=None)
