"""Cancellation: what is in flight when a graph ends early, or when the run fails.

A cancelled graph stays marked: entries that belong to it may be queued again much later, and
are dropped then (`is_cancelled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roundel.kernel.budget import release
from roundel.kernel.calls import cancel_call
from roundel.kernel.commands import Ask, Cancel
from roundel.kernel.debugging import loop_ended
from roundel.kernel.payloads import NodeSkipped, SkipCause
from roundel.kernel.rounds import cancel_loop
from roundel.kernel.state import CompositeRun, Execution, Failure, GraphInstance, Run, ToolLoop


def cancel_graphs(run: Run, instances: Sequence[GraphInstance], failed: Execution | None = None) -> None:
    """Cancels everything in flight in these graphs, and ends the loops in them, the innermost first. `failed`
    is what failed first, if a failure is the reason.

    The run leaves the fast path for good: held entries of cancelled graphs may be queued again much
    later, and have to be dropped then.
    """
    if not instances:
        return
    for instance in instances:
        instance.cancelled = True
        loop_ended(run, instance.stem)
    run.fast_path, run.has_cancelled = False, True
    inside = [call for call in run.calls.values() if is_cancelled(call.activation.instance)]
    cancel_executions(run, inside, "the round was ended", "round_ended", instances)
    for loop in reversed([*run.live_loops.values()]):
        around = loop.execution.activation if isinstance(loop, CompositeRun) else loop
        if is_cancelled(around.instance):
            cancel_loop(run, loop, failed)


def is_cancelled(instance: GraphInstance | None) -> bool:
    """Whether a graph or one of those around it was cancelled."""
    while instance is not None:
        if instance.cancelled:
            return True
        instance = instance.caller.activation.instance if instance.caller is not None else None
    return False


def cancel_executions(
    run: Run,
    executions: Iterable[Execution],
    reason: str,
    cause: SkipCause,
    within: Sequence[GraphInstance] = (),
) -> None:
    """Cancels these calls, and reports the nodes around them as skipped, up to the graphs `within`.

    A node with several calls in flight (a tool loop, a composite node) is reported once.
    """
    reported: set[str] = set()
    for execution in executions:
        del run.calls[execution.address]
        run.commands.append(Cancel(execution.address))
        if run.budgeted:
            release(run, execution)
        cancel_call(run, execution)
        whole: Execution | None = execution
        if isinstance(execution.owner, ToolLoop):
            whole = execution.owner.execution
        while whole is not None and whole.address not in reported:
            reported.add(whole.address)
            run.emit(NodeSkipped(reason, cause, True), whole.node.id, whole.address)
            around = whole.activation.instance
            whole = None if around in within else around.caller


def cancel_with_run(run: Run) -> None:
    """Cancels what a failed run does not wait for: all questions, since nobody should answer a question
    whose answer is not used, and the calls of each graph with `on_failure: cancel` in which the failure
    happened. A retry starts all of them again."""
    cancelling = {
        id(instance)
        for failure in run.unfinished
        if failure.error
        for instance in graphs_around(failure.execution)
        if instance.plan.graph.on_failure == "cancel"
    }
    cancelled = [
        call
        for call in run.calls.values()
        if isinstance(call.command, Ask)
        or (cancelling and any(id(instance) in cancelling for instance in graphs_around(call)))
    ]
    cancel_executions(run, cancelled, "the run has failed", "run_failed")
    for call in cancelled:
        # Where functions decided about error edges, the node that failed starts again, and may succeed.
        pending = call.failure or Failure(call, owner=_composite_owner(call))
        call.failure = None
        run.unfinished.append(pending)


def _composite_owner(execution: Execution) -> CompositeRun | None:
    return execution.owner if isinstance(execution.owner, CompositeRun) else None


def graphs_around(execution: Execution) -> Iterator[GraphInstance]:
    """The graphs that an execution is in, from the inside out."""
    caller: Execution | None = execution
    while caller is not None:
        instance = caller.activation.instance
        yield instance
        caller = instance.caller
