"""Retries: what failed with a run starts again, and everything that finished is kept.

A run that fails stores in `Run.unfinished` what has to start again, and in `Run.held` what became ready
after the failure. `step._retried` queues both, so a lock or a limit that exists holds them back like any
other work.

Calls have the same address as before, so the host makes them with the same idempotency keys. An agent
continues inside its rounds of tools, an array loop with the elements that did not end, and messages that
had walked half of the edges of a node walk the other half.

A retry may bring changes: other limits or variables, or a corrected workflow. Then the state that the run
failed with is of no use, since it belongs to the old plan. The fact `Revised` carries the history as the
new workflow takes it, and `revise` makes the new state from it.

The failed items of a list are retried in a fork (runs/failed_items.py), whose history contains everything up
to the list. There, `CallRetried` takes the place of the fact with which an item failed. The results of items
that the fork reaches only later, because it may run only so many at the same time, wait in `Run.inherited`:
a host that gets a command asks `inherited_result` first.
"""

from __future__ import annotations

from msgspec.structs import replace

from roundel.kernel.budget import model_call, reserve
from roundel.kernel.calls import begin_model_call, begin_tool, is_model_call, new_number
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.composite import decide_again
from roundel.kernel.facts import CallResult, Fact, InheritedResult
from roundel.kernel.lifecycle import conclude, emit_question, run_parts, send
from roundel.kernel.payloads import NodeRunning
from roundel.kernel.state import START_AGAIN, EdgeWalk, Execution, Failure, Run, ToolLoop
from roundel.kernel.tool_loop import next_ordinal
from roundel.kernel.usage import fits_budget, record_failed_call
from roundel.kernel.walk import expand


def start_again(run: Run, failure: Failure) -> None:
    """Starts what failed, or was cancelled with the run."""
    execution = failure.execution
    if failure.walk is not None:
        _continue_edges(run, execution, failure.walk)
    elif failure.inputs is not None:
        run_parts(run, expand(run, execution, failure.inputs))
    elif failure.decides:
        assert failure.owner is not None
        decide_again(run, failure.owner)
    else:
        _call_again(run, failure)


def _continue_edges(run: Run, execution: Execution, walk: EdgeWalk) -> None:
    if walk.edge < 0:
        conclude(run, execution, walk.outcomes, None)
    else:
        send(run, execution, walk.outcomes, walk.edge_results, walk)


def _call_again(run: Run, failure: Failure) -> None:
    """Sends the command of a call again. The node is not counted again, nor is its step: it is the same
    execution."""
    execution, node = failure.execution, failure.execution.node
    command = execution.command
    assert isinstance(command, (Call, Ask, EvaluateEdges, Intercept))
    if run.budgeted and _is_model_call(execution):
        assert isinstance(command, Call)
        call = command
        wanted = model_call(run, execution.activation, node, lambda: call)
        if not fits_budget(run, execution.activation, node, execution.address, wanted):
            run.held.append((failure, START_AGAIN))
            return
        reserve(run, execution, wanted)
    execution.owner = failure.owner or execution.owner
    if failure.error and isinstance(command, (Call, Ask)):
        # The next number: a script has another reply for it than the one that failed.
        command = replace(command, ordinal=_next_ordinal(execution, command.ordinal))
    is_tool = bool(execution.loop_call and execution.loop_call.label)
    _send_again(run, execution, command, begins=is_tool)
    run.calls[execution.address] = execution


def _is_model_call(execution: Execution) -> bool:
    """The calls of a tool loop with a label are tools."""
    is_tool = execution.loop_call is not None and execution.loop_call.label
    return isinstance(execution.command, Call) and execution.node.kind.speaks and not is_tool


def _send_again(
    run: Run, execution: Execution, command: Call | Ask | EvaluateEdges | Intercept, *, begins: bool
) -> None:
    """`begins`: it is a call of a tool that has ended. One of a model is a new call in any case."""
    node, owner = execution.node, execution.owner
    if isinstance(command, Ask):
        deadline = None if command.deadline is None else run.since + command.timeout
        command = replace(command, deadline=deadline, asked=run.since)
    elif isinstance(command, Call) and command.number:
        command = replace(command, number=new_number(execution))
    execution.command = command
    run.emit(NodeRunning(True, node.kind.name, node.kind.speaks), node.id, execution.address)
    if begins:
        begin_tool(run, execution)
    if isinstance(command, Ask):
        emit_question(run, node, command, owner.execution.address if isinstance(owner, ToolLoop) else "")
    elif is_model_call(execution):
        begin_model_call(run, execution)
    run.commands.append(command)


def retry_call(run: Run, execution: Execution, ordinal: int) -> None:
    """Sends the command of a call in flight again, as one that has failed. What is reserved for it stays
    reserved; the call that failed counts as one call, as every failed call does."""
    command = execution.command
    assert isinstance(command, (Call, Ask, EvaluateEdges, Intercept))
    if _is_model_call(execution):
        record_failed_call(run, execution)
    if isinstance(command, (Call, Ask)):
        following = _next_ordinal(execution, command.ordinal)
        if following != command.ordinal:
            command = replace(command, ordinal=max(following, ordinal))
    _send_again(run, execution, command, begins=False)


def command_form(run: Run, command: Command) -> str:
    """What decides the form of a command's result: its kind, the type of the node, and for a node that makes
    several calls which kind of call it is. The result of another form would mean nothing."""
    assert not isinstance(command, Cancel)
    node = run.plan.sites[command.site]
    form = f"{command.__class__.__name__} {node.kind.name}"
    if isinstance(command, Call) and node.has_tool_loop:
        return f"{form} {command.state.__class__.__name__}"
    return form


def inherit(run: Run, results: tuple[InheritedResult, ...]) -> None:
    for result in results:
        run.inherited.setdefault(result.fact.address, []).append(result)


def inherited_result(run: Run, command: Command) -> CallResult | None:
    """The result that the run has inherited for a command; None if the host has to execute it."""
    if command.address not in run.inherited or isinstance(command, Cancel):
        return None
    form = command_form(run, command)
    return next((one.fact for one in run.inherited[command.address] if one.form == form), None)


def forget_inherited(run: Run, fact: Fact) -> None:
    """Removes an inherited result that was used, and those before it, which fitted nothing."""
    address = getattr(fact, "address", "")
    kept = run.inherited.get(address, [])
    for number, one in enumerate(kept, 1):
        if one.fact.__class__ is fact.__class__:
            run.inherited[address] = kept[number:]
            break
    if not run.inherited.get(address, True):
        del run.inherited[address]


def _next_ordinal(execution: Execution, ordinal: int) -> int:
    if isinstance(execution.owner, ToolLoop) and not (execution.loop_call.label or execution.loop_call.aside):
        return next_ordinal(execution.owner)
    if execution.owner is not None:  # a tool, or a question of a composite node: no script answers these
        return ordinal
    site = execution.node.site
    if execution.part is not None:
        # Other parts have the numbers after this one, so it takes the first that no part has.
        expansion, _ = execution.part
        expansion.extra_calls += 1
        return expansion.base[site] + len(expansion.groups) + expansion.extra_calls - 1
    ordinals = execution.activation.instance.ordinals
    ordinals[site] += 1
    return ordinals[site] - 1
