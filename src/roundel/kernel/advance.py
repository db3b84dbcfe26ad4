"""What has come up is decided, until everything waits for the host (step.py says how it all works)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundel.kernel.activation import Activation
from roundel.kernel.agenda import (
    ERRANDS,
    GRAPH_OVER,
    LOOP_OVER,
    NEXT_ROUND,
    OPEN,
    PARTS,
    QUESTION,
    RETURN,
    TURNS,
)
from roundel.kernel.commands import Ask
from roundel.kernel.completion import call_off, end_body, fail
from roundel.kernel.conduct import ask, come_back, end_turn, is_gone, open_performance, start_turns
from roundel.kernel.launch import admitted, run_node, run_parts
from roundel.kernel.loops import enter, next_round, settle, settle_loop
from roundel.kernel.result import result, unfired
from roundel.kernel.state import Run
from roundel.kernel.talk import go_on
from roundel.kernel.walk import EdgeError
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit


def advance(run: Run) -> None:
    """Decides whatever has come up, until everything waits for the host."""
    agenda = run.agenda
    for item, index in agenda:  # grows while we walk it
        try:
            if index >= 0 and run.smooth:
                _decide(run, item, item.scope.units[index])
            elif run.error is not None:
                break
            elif run.smooth or not _passed_by(run, item, index):
                _CHANGES[index](run, item)
        except EdgeError as error:  # on the way out of a graph that has ended
            fail(run, error.execution, str(error))
    agenda.clear()
    if not run.smooth:
        _rest(run)


def _passed_by(run: Run, item: Any, index: int) -> bool:
    """Whether what came up is left alone, since it belongs to what is no more or waits for an unlock."""
    if index == RETURN:
        return False
    owner = item.execution.activation if index in _BEHIND_EXECUTIONS else item
    if is_gone(owner.instance):
        return True
    if (run.lock is not None or run.paused) and index not in (LOOP_OVER, GRAPH_OVER):
        run.held.append((item, index))
        return True
    if index >= 0:
        _decide(run, item, item.scope.units[index])
    return index >= 0


def _rest(run: Run) -> None:
    """Ends or locks the run, once nothing is at work that may still finish."""
    if run.error is not None:
        _fail_run(run)
    elif run.lock is not None and not run.calls and run.status in ("running", "paused"):
        reason = f"{run.lock} at {run.lock.address}"
        come_to_rest(run, "suspended_locked", reason)
    elif run.paused and run.status in ("running", "waiting") and only_people_at_work(run):
        come_to_rest(run, "paused", run.paused)


def only_people_at_work(run: Run) -> bool:
    return all(isinstance(call.command, Ask) for call in run.calls.values())


def come_to_rest(run: Run, status: str, reason: str) -> None:
    run.status = status
    run.emit("run_state_change", None, None, {"status": status, "reason": reason})


def _decide(run: Run, activation: Activation, unit: Unit) -> None:
    node = unit.node
    if activation.exit_layer is not None and unit.layer > activation.exit_layer:
        _pass_over(run, activation, unit, "the loop was left")
    elif node is None:
        _come_to_loop(run, activation, unit)
    elif not activation.instance.marks[node.index]:
        _pass_over(run, activation, unit, "not triggered")
    elif run.budgeted and not _may_run(run, activation, node):
        run.held.append((activation, unit.index))
    else:
        run_node(run, activation, unit, node)


def _may_run(run: Run, activation: Activation, node: NodePlan) -> bool:
    """The parts of what dynamic edges brought are asked about one by one."""
    instance, index = activation.instance, node.index
    expands = node.expands and (
        any(message.dynamic for message in instance.queues[index])
        or any(arrival[2] is not None and arrival[2].dynamic for arrival in instance.arrivals[index])
    )
    return expands or admitted(run, activation, node, activation.prefix + node.label)


def _pass_over(run: Run, activation: Activation, unit: Unit, reason: str) -> None:
    if unit.node is not None:
        skip(run, unit.node.id, activation.prefix + unit.node.label, reason)
    settle(run, activation, unit)


def skip(run: Run, node_id: str, address: str, reason: str) -> None:
    run.emit("node_state_change", node_id, address, {"status": "skipped", "reason": reason})


def _come_to_loop(run: Run, activation: Activation, unit: Unit) -> None:
    marks, nodes = activation.instance.marks, activation.instance.plan.nodes
    entries = [member for member in unit.members if marks[member]]
    if not entries:
        settle(run, activation, unit)
    elif len(entries) == 1:
        enter(run, activation, unit, entries[0])
    else:
        names = " and ".join(f"'{nodes[entry].id}'" for entry in entries)
        run.error = (
            f"a loop was entered at {names} at once; let one node lead into the loop, "
            "so that it is clear where a round begins"
        )
        run.smooth = False


def _graph_over(run: Run, activation: Activation) -> None:
    instance = activation.instance
    messages = result(instance)
    caller = instance.caller
    if not messages:
        node_id, address = (caller.node.id, caller.address) if caller else (None, None)
        run.emit("end_not_reached", node_id, address, {"edges": unfired(instance)})
    if instance.performance is not None:
        end_turn(run, instance, messages)
        return
    if caller is not None:
        end_body(run, instance, caller, messages)
        return
    run.output = messages[-1] if messages else None
    end(run, "completed")


_CHANGES: dict[int, Callable[[Run, Any], None]] = {
    LOOP_OVER: settle_loop,
    GRAPH_OVER: _graph_over,
    RETURN: lambda run, back: come_back(run, *back),
    NEXT_ROUND: next_round,
    OPEN: open_performance,
    TURNS: start_turns,
    PARTS: run_parts,
    ERRANDS: go_on,
    QUESTION: ask,
}
_BEHIND_EXECUTIONS = (OPEN, TURNS, PARTS, ERRANDS, QUESTION)


def _fail_run(run: Run) -> None:
    """What is at work may finish, since it is paid for; people are not asked any more."""
    asked = [call for call in run.calls.values() if isinstance(call.command, Ask)]
    call_off(run, asked, "the run has failed")
    if not run.calls:
        end(run, "failed")


def end(run: Run, status: str) -> None:
    run.status = status
    run.held.clear()
    run.emit("run_finished", None, None, run.summary())
