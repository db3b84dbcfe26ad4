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
"""

from __future__ import annotations

from msgspec.structs import replace

from roundel.kernel.budget import model_call, reserve
from roundel.kernel.commands import Ask, Call, EvaluateEdges, Intercept
from roundel.kernel.composite import decide_again
from roundel.kernel.lifecycle import conclude, emit_question, run_parts, send
from roundel.kernel.state import START_AGAIN, EdgeWalk, Execution, Failure, Run, ToolLoop
from roundel.kernel.tool_loop import next_ordinal
from roundel.kernel.usage import fits_budget
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
    is_model_call = (
        isinstance(command, Call)
        and node.kind.speaks
        and not (execution.loop_call is not None and execution.loop_call.label)
    )
    if run.budgeted and is_model_call:
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
    if isinstance(command, Ask) and command.deadline is not None:
        command = replace(command, deadline=run.since + command.timeout)
    execution.command = command
    run.emit("node_state_change", node.id, execution.address, {"status": "running", "retried": True})
    if isinstance(command, Ask):
        emit_question(run, node, command)
    run.calls[execution.address] = execution
    run.commands.append(command)


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
