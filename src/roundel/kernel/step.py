"""What has come up is decided, until everything waits for the host (step.py says how it all works).

The step function: a run, a fact, and what follows from it.

How it works
------------
A run is a tree of *activations*. The root activation is the whole graph; a loop at work is an
activation inside the one that holds it; a subgraph at work is a graph instance with a root activation
of its own, whose caller is the subgraph's node. Each activation has a compiled *scope* (plan/scope.py):
units in layers, and for each unit how many others it waits for.

    unit          comes up when all that it waits for have settled
                  -> a node that is marked runs; one that is not is passed over, which settles it
                  -> a folded loop with one marked node is entered there; with none it is passed over;
                     with more the run fails
                  -> if the loop has been left in an earlier layer, nothing runs any more
    node runs     takes its queue, clears its mark, becomes a command to the host
    node is done  its messages walk its edges (walk.py): they arrive at their targets and mark them;
                  an edge that leaves loops says so to each of them; then the unit settles
    round is over (all units have settled)
                  left        -> marks are cleared, the loop settles in the scope around it
                  entry marked-> the next round, unless the cap is met: then the run is locked
                  otherwise   -> the loop ends quietly
    graph is over -> its result goes to the subgraph node that called it, or ends the run

Nodes that conduct (loop agents, debates, votes; conduct.py) hold graphs too, and run them in turns: when
a graph is over, the node's conductor says what comes next. A `break`, a `continue` or a failure that the
conductor sees to ends such a graph out of turn; what is still at work in it is called off.

Agents whose model asks for tools (talk.py) take several calls before they are done: when one is answered, the
node's dialogue says which come next. Each is a step of its own, with an address of its own.

Middleware (review.py) may be asked about a node before it sets out, and about what it gave before that is
used.

Whatever comes up goes through the *agenda*, which a step works through to its end, so that neither long
chains of nodes nor deeply nested loops need a deep stack. While the run is locked, what would begin
something new is held back, and everything else is seen to.

A start node is a node that is marked from the beginning. While a loop is at work nothing outside of it
can mark its nodes, since whatever leads into it has settled before; so at the end of a round a mark on
the entry came from inside, and when a loop comes up a mark came from outside. One bit a node is enough.

What a step costs depends on the node that finished and what follows from it, not on how many rounds
there were: nothing is kept of a finished round but its messages in queues.

| status             | ends by                                                                  |
|--------------------|--------------------------------------------------------------------------|
| `new`              | Started -> running                                                       |
| `running`          | the graph is over -> completed; a node fails -> failed, once what is at  |
|                    | work has finished; a limit is met -> suspended_locked, likewise;         |
|                    | Waited -> waiting; Stopped -> stopped                                    |
|                    | Paused -> paused, once what is at work has finished; at once if it was   |
|                    | interrupted, and then the calls in flight are made again after Resumed   |
| `waiting`          | Answered -> running; Paused -> paused; Stopped -> stopped                |
| `paused`           | Resumed -> running; Stopped -> stopped                                   |
| `suspended_locked` | Unlocked -> running; Stopped -> stopped                                  |

| fact        | what it answers        | illegal when                                            |
|-------------|------------------------|---------------------------------------------------------|
| `Started`   |                        | the run has started                                     |
| `Finished`  | Call                   | nothing is at work at that address, or it is not a call |
| `Failed`    | Call, Ask, Consult,    | nothing is at work at that address                      |
|             | Review                 |                                                         |
| `Answered`  | Ask                    | nobody was asked at that address                        |
| `EdgesEvaluated` | Consult                | nothing was asked at that address                       |
| `Intercepted`  | Review                 | nothing was asked at that address                       |
| `Waited`    |                        | something other than people is at work                  |
| `Paused`    |                        | the run is not at work, or paused already; an interrupt |
|             |                        | is legal until the pause has taken effect               |
| `Reopened`  |                        | the run has not started, or is over                     |
| `Resumed`   |                        | the run is not paused                                   |
| `Unlocked`  |                        | the run is not locked, or not to be unlocked like this  |
| `Edited`    | changes a Call, an Ask,| nothing of the kind is at work at that address          |
|             | a Review before a node |                                                         |
| `Stopped`   |                        | the run is over                                         |

An illegal fact raises IllegalFact and changes nothing. `step` changes the run that it is given, and
looks at nothing else: the same facts always make the same run.

Anything else that `step` raises (a defect of the kernel or of a conductor, MemoryError, KeyboardInterrupt)
leaves the run half changed. Nobody may tell it anything more: the host discards it and rebuilds it from the
journal without that fact, or, if there is no journal, ends it with `abandon`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from roundel.kernel.breaker import check_time
from roundel.kernel.budget import release, spend
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.composite import (
    ask_behaviour,
    begin_composite,
    end_body_early,
    end_iteration,
    is_cancelled,
    on_answer,
    on_answer_failed,
    start_iterations,
)
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    EdgesEvaluated,
    Edited,
    Entry,
    Fact,
    Failed,
    Finished,
    Intercepted,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Started,
    Stopped,
    Unlocked,
    Waited,
)
from roundel.kernel.lifecycle import (
    cancel_executions,
    check_budget,
    complete,
    conclude,
    deliver_input,
    end_body,
    fail,
    launch,
    run_node,
    run_parts,
    set_intercepts,
    update_intercept_inputs,
)
from roundel.kernel.loops import begin, enter, graph_result, next_round, settle, settle_loop, unfired_edges
from roundel.kernel.state import (
    ASK_BEHAVIOUR,
    BEGIN_COMPOSITE,
    BODY_ENDED_EARLY,
    GRAPH_OVER,
    LOOP_OVER,
    NEXT_ROUND,
    START_CALLS,
    START_ITERATIONS,
    START_PARTS,
    Activation,
    CompositeRun,
    Execution,
    GraphInstance,
    Run,
    ToolLoop,
)
from roundel.kernel.tool_loop import advance_tool_loop, on_call_failed, on_person_answer, on_result
from roundel.kernel.unlock import UnlockRefused, check_unlock, unlock
from roundel.kernel.walk import EdgeError
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.scope import Unit
from roundel.workflow.message import Message


def advance(run: Run) -> None:
    """Decides whatever has come up, until everything waits for the host."""
    ready_queue = run.ready_queue
    for item, index in ready_queue:  # grows while we walk it
        try:
            if index >= 0 and run.fast_path:
                _decide(run, item, item.scope.units[index])
            elif run.error is not None:
                break
            elif run.fast_path or not _defer_or_drop(run, item, index):
                _TRANSITIONS[index](run, item)
        except EdgeError as error:  # on the way out of a graph that has ended
            fail(run, error.execution, str(error))
    ready_queue.clear()
    if not run.fast_path:
        _update_status(run)


def _defer_or_drop(run: Run, item: Any, index: int) -> bool:
    """Whether what came up is left alone, since it belongs to what is no more or waits for an unlock."""
    if index == BODY_ENDED_EARLY:
        return False
    owner = item.execution.activation if index in _OWNED_BY_EXECUTION else item
    if is_cancelled(owner.instance):
        return True
    if (run.lock is not None or run.paused) and index not in (LOOP_OVER, GRAPH_OVER):
        run.held.append((item, index))
        return True
    if index >= 0:
        _decide(run, item, item.scope.units[index])
    return index >= 0


def _update_status(run: Run) -> None:
    """Ends or locks the run, once nothing is at work that may still finish."""
    if run.error is not None:
        _fail_run(run)
    elif run.lock is not None and not run.calls and run.status in ("running", "paused"):
        reason = f"{run.lock} at {run.lock.address}"
        change_status(run, "suspended_locked", reason)
    elif run.paused and run.status in ("running", "waiting") and waits_only_for_people(run):
        change_status(run, "paused", run.paused)


def waits_only_for_people(run: Run) -> bool:
    return all(isinstance(call.command, Ask) for call in run.calls.values())


def change_status(run: Run, status: str, reason: str) -> None:
    run.status = status
    run.emit("run_state_change", None, None, {"status": status, "reason": reason})


def _decide(run: Run, activation: Activation, unit: Unit) -> None:
    node = unit.node
    if activation.exit_layer is not None and unit.layer > activation.exit_layer:
        _skip_unit(run, activation, unit, "the loop was left")
    elif node is None:
        _enter_loop(run, activation, unit)
    elif not activation.instance.marks[node.index]:
        _skip_unit(run, activation, unit, "not triggered")
    elif run.budgeted and not _may_run(run, activation, node):
        run.held.append((activation, unit.index))
    else:
        run_node(run, activation, unit, node)


def _may_run(run: Run, activation: Activation, node: NodePlan) -> bool:
    """The parts of what dynamic edges brought are asked about one by one."""
    instance, index = activation.instance, node.index
    has_dynamic_input = node.has_dynamic_input and (
        any(message.dynamic for message in instance.queues[index])
        or any(arrival[2] is not None and arrival[2].dynamic for arrival in instance.arrivals[index])
    )
    return has_dynamic_input or check_budget(run, activation, node, activation.prefix + node.label)


def _skip_unit(run: Run, activation: Activation, unit: Unit, reason: str) -> None:
    if unit.node is not None:
        skip(run, unit.node.id, activation.prefix + unit.node.label, reason)
    settle(run, activation, unit)


def skip(run: Run, node_id: str, address: str, reason: str) -> None:
    run.emit("node_state_change", node_id, address, {"status": "skipped", "reason": reason})


def _enter_loop(run: Run, activation: Activation, unit: Unit) -> None:
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
        run.fast_path = False


def _graph_over(run: Run, activation: Activation) -> None:
    instance = activation.instance
    messages = graph_result(instance)
    caller = instance.caller
    if not messages:
        node_id, address = (caller.node.id, caller.address) if caller else (None, None)
        run.emit("end_not_reached", node_id, address, {"edges": unfired_edges(instance)})
    if instance.composite_run is not None:
        end_iteration(run, instance, messages)
        return
    if caller is not None:
        end_body(run, instance, caller, messages)
        return
    run.output = messages[-1] if messages else None
    end(run, "completed")


_TRANSITIONS: dict[int, Callable[[Run, Any], None]] = {
    LOOP_OVER: settle_loop,
    GRAPH_OVER: _graph_over,
    BODY_ENDED_EARLY: lambda run, back: end_body_early(run, *back),
    NEXT_ROUND: next_round,
    BEGIN_COMPOSITE: begin_composite,
    START_ITERATIONS: start_iterations,
    START_PARTS: run_parts,
    START_CALLS: advance_tool_loop,
    ASK_BEHAVIOUR: ask_behaviour,
}
_OWNED_BY_EXECUTION = (BEGIN_COMPOSITE, START_ITERATIONS, START_PARTS, START_CALLS, ASK_BEHAVIOUR)


def _fail_run(run: Run) -> None:
    """What is at work may finish, since it is paid for; people are not asked any more."""
    asked = [call for call in run.calls.values() if isinstance(call.command, Ask)]
    cancel_executions(run, asked, "the run has failed")
    if not run.calls:
        end(run, "failed")


def end(run: Run, status: str) -> None:
    run.status = status
    run.held.clear()
    run.emit("run_finished", None, None, run.summary())


SEMANTICS = 0
"""The version of what a workflow means; a stored run keeps the one that it was started with. It is 0 until
the first release: until then any build may change the meaning, and may refuse runs of another build."""


class IllegalFact(Exception):
    """A fact that cannot be true of the run as it is."""


def step(run: Run, fact: Fact, decisions: Sequence[Any] | None = None) -> tuple[list[Command], list[Event]]:
    """What the host is to do now, and what there is to show. With `decisions` the step is a replay.

    `run.decisions.made` holds the step's decisions afterwards (decisions.py)."""
    commands: list[Command] = []
    events: list[Event] = []
    run.commands = commands
    run.events = events
    log = run.decisions
    if decisions is not None or log.used:  # most steps decide nothing
        log.begin(decisions)
    try:
        _HANDLERS[fact.__class__](run, fact)
    except EdgeError as error:
        fail(run, error.execution, str(error))
        advance(run)
    if decisions is not None:
        log.end()
    return commands, events


def abandon(run: Run, error: str) -> list[Event]:
    """Ends a run as failed that a step left half changed and that nothing can rebuild.

    The events of that step are among those returned, since their numbers are taken."""
    run.error = error
    run.calls.clear()
    run.ready_queue.clear()
    end(run, "failed")
    return run.events


def replay(plan: Plan, entries: Iterable[Entry]) -> tuple[Run, list[Command]]:
    """The run that a journal makes, and what is at work in it."""
    run = Run(plan)
    for entry in entries:
        step(run, entry.fact, entry.decisions)
    return run, [call.command for call in run.calls.values() if call.command is not None]


def _started(run: Run, fact: Started) -> None:
    if run.status != "new":
        raise IllegalFact("the run has already started")
    run.set_time(fact.time)
    run.started_at = run.since
    run.allow(run.time_limit)
    run.run_id, run.input, run.status = fact.run_id, fact.input, "running"
    set_intercepts(run, fact.intercepts)
    graph = run.plan.graph
    data = {"workflow": graph.graph.id, "input": fact.input[-1].text if fact.input else ""}
    run.emit("run_started", None, None, data)
    run.root = GraphInstance(graph, "", None, run.ordinals)
    deliver_input(run.root, fact.input)
    begin(run, run.root)
    advance(run)


def _finished(run: Run, fact: Finished) -> None:
    execution = run.calls.get(fact.address)
    if execution is None or execution.command.__class__ is not Call:
        raise _illegal(fact.address)
    if fact.time >= run.until or fact.time < run.since:
        run.set_time(fact.time)
        if fact.time > run.deadline:
            check_time(run, execution)
    del run.calls[fact.address]
    if execution.reserved is not None:
        release(run, execution)
    owner = execution.owner
    if owner is None:
        complete(run, execution, fact.outcome)
    elif owner.__class__ is ToolLoop:
        on_result(run, execution, fact.outcome)
    else:
        on_answer(run, execution, fact.outcome)
    advance(run)


def _answered(run: Run, fact: Answered) -> None:
    execution = _in_flight(run, fact.address, Ask)
    if run.status == "paused" or waits_only_for_people(run):
        run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    del run.calls[fact.address]
    if run.status == "waiting":
        run.status = "running"
        run.emit("run_state_change", None, None, {"status": "running", "reason": "answered"})
    data = {"text": fact.message.text}
    run.emit("human_input_received", execution.node.id, fact.address, data)
    if execution.owner is not None:
        on_person_answer(run, execution, fact.message)
    else:
        complete(run, execution, Outcome((fact.message,)))
    advance(run)


def _edges_evaluated(run: Run, fact: EdgesEvaluated) -> None:
    execution = _in_flight(run, fact.address, EvaluateEdges)
    run.set_time(fact.time)
    del run.calls[fact.address]
    conclude(run, execution, execution.outcomes, fact.edge_results)
    advance(run)


def _intercepted(run: Run, fact: Intercepted) -> None:
    execution = _in_flight(run, fact.address, Intercept)
    intercept = execution.command
    assert isinstance(intercept, Intercept)
    run.set_time(fact.time)
    del run.calls[fact.address]
    for name, data in fact.events:
        run.emit(name, execution.node.id, fact.address, data)
    if intercept.messages is None:
        release(run, execution)
        if run.error is None:
            unit, node, part = execution.unit, execution.node, execution.part
            launch(run, execution.activation, unit, node, fact.address, intercept.inputs, part, intercept)
        else:
            skip(run, execution.node.id, fact.address, "the run has failed")
    else:
        (outcome,) = execution.outcomes
        changes = {} if fact.messages is None else {"messages": fact.messages}
        complete(run, execution, msgspec.structs.replace(outcome, **changes), after_intercept=True)
    advance(run)


def _failed(run: Run, fact: Failed) -> None:
    execution = _in_flight(run, fact.address, None)
    run.set_time(fact.time)
    del run.calls[fact.address]
    for name, data in fact.events:
        run.emit(name, execution.node.id, fact.address, data)
    if run.budgeted:
        release(run, execution)
        asked = execution.node.kind.speaks and isinstance(execution.command, Call)
        if asked and not (execution.loop_call and execution.loop_call.label):
            spend(run, execution.activation, execution.node, {"model_calls": 1})
    if execution.owner.__class__ is ToolLoop:
        on_call_failed(run, execution, fact.error)
    elif execution.owner.__class__ is CompositeRun:
        on_answer_failed(run, execution, fact.error)
    else:
        fail(run, execution, fact.error)
    advance(run)


def _waited(run: Run, fact: Waited) -> None:
    asked = [call for call in run.calls.values() if isinstance(call.command, Ask)]
    if run.status != "running" or not asked or len(asked) != len(run.calls):
        raise IllegalFact("the run is not waiting for people alone")
    run.set_time(fact.time)
    run.status = "waiting"
    reason = "for " + ", ".join(sorted(call.address for call in asked))
    run.emit("run_state_change", None, None, {"status": "waiting", "reason": reason})


def _paused(run: Run, fact: Paused) -> None:
    if run.status not in ("running", "waiting") or (run.paused and not fact.interrupt):
        raise IllegalFact("the run is not at work")
    run.set_time(fact.time)
    run.paused, run.fast_path = fact.reason or "paused", False
    if fact.interrupt:
        change_status(run, "paused", run.paused)
    else:
        advance(run)


def _resumed(run: Run, fact: Resumed) -> None:
    if not run.paused or run.over:
        raise IllegalFact("the run is not paused")
    if run.status == "paused":
        run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    run.paused = ""
    run.fast_path = run.error is None and run.lock is None and not run.has_cancelled
    if run.status == "paused":
        run.status = "running"
        run.emit("run_state_change", None, None, {"status": "running", "reason": "resumed"})
    run.ready_queue.extend(run.held)
    run.held.clear()
    advance(run)


def _reopened(run: Run, fact: Reopened) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not at work")
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    if fact.intercepts is not None:
        set_intercepts(run, fact.intercepts)


def _unlocked(run: Run, fact: Unlocked) -> None:
    try:
        check_unlock(run, fact)
    except UnlockRefused as error:
        raise IllegalFact(str(error)) from error
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    unlock(run, fact)
    advance(run)


def _edited(run: Run, fact: Edited) -> None:
    execution = _in_flight(run, fact.address, None)
    command = execution.command
    if not isinstance(command, (Call, Ask, Intercept)) or getattr(command, "messages", None) is not None:
        raise _illegal(fact.address)
    run.set_time(fact.time)
    inputs = (*command.inputs[:-1], fact.message)
    changed = msgspec.structs.replace(command, inputs=inputs)
    execution.command = changed
    _edit_owner(execution, inputs)
    run.emit("message_edited", execution.node.id, fact.address, {"text": fact.message.text})
    run.commands += (Cancel(fact.address), changed)


def _edit_owner(execution: Execution, inputs: tuple[Message, ...]) -> None:
    """What else holds the inputs. A question of one that conducts is about others than its node has."""
    if execution.owner is None:
        update_intercept_inputs(execution, inputs)
    elif isinstance(execution.owner, ToolLoop):
        execution.owner.inputs = inputs
        update_intercept_inputs(execution.owner.execution, inputs)


def _stopped(run: Run, fact: Stopped) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not at work")
    run.set_time(fact.time)
    cancel_executions(run, list(run.calls.values()), fact.reason or "stopped")
    run.error = fact.reason or None
    end(run, "stopped")


def _in_flight(run: Run, address: str, kind: type[Any] | None) -> Execution:
    execution = run.calls.get(address)
    if execution is None or (kind is not None and execution.command.__class__ is not kind):
        raise _illegal(address)
    return execution


def _illegal(address: str) -> IllegalFact:
    return IllegalFact(f"nothing of the kind is at work at '{address}'")


_HANDLERS: dict[type[Any], Callable[[Run, Any], None]] = {
    Started: _started,
    Finished: _finished,
    Failed: _failed,
    Answered: _answered,
    EdgesEvaluated: _edges_evaluated,
    Intercepted: _intercepted,
    Waited: _waited,
    Paused: _paused,
    Resumed: _resumed,
    Reopened: _reopened,
    Edited: _edited,
    Unlocked: _unlocked,
    Stopped: _stopped,
}
