"""The step function: applies one fact to a run and returns the commands and events that follow from it.

How it works
------------
A run is a tree of *activations*. The root activation is the whole graph; a running loop is an activation
inside the activation that contains it; a running subgraph is a graph instance with a root activation of
its own, whose caller is the subgraph's node. Each activation has a compiled *scope* (plan/scope.py):
units in layers, and for each unit the number of other units that it waits for.

    unit            is ready when all units that it waits for have settled
                    -> a marked node runs; an unmarked node is skipped, which settles it
                    -> a folded loop with one marked node is entered there; with none it is skipped; with
                       several the run fails
                    -> if the loop was left in an earlier layer, the unit is skipped
    node runs       takes the messages in its queue, clears its mark, becomes a command to the host
    node completes  its messages walk its edges (walk.py): they are queued at their targets and mark
                    them; an edge that leaves loops records the exit in each of them; then the unit
                    settles
    round ends      when all units have settled
                    exit recorded -> marks are cleared, and the loop settles in the scope around it
                    entry marked  -> the next round, unless the cap is reached: then the run is locked
                    otherwise     -> the loop ends with the reason `no_trigger`
    graph ends      -> its result goes to the node that called it, or completes the run

Composite nodes (loop agents, debates, votes; composite.py) run graphs in *iterations*: when a graph
ends, the node's controller decides what runs next. A `break`, a `continue` or a failure that the
controller catches ends such a graph early, and everything in flight inside it is cancelled.

Agents whose model requests tools (tool_loop.py) make several calls before they complete: after each
result, the node's conversation decides which calls come next. Each call has its own command, fact and
address.

Middleware can intercept a node before it runs, and its output before it is used (lifecycle.py). An
intercept is a command like any other, so its result is a fact in the journal.

Everything that becomes ready goes through the *ready queue*. A step drains it completely, so that
neither long chains of nodes nor deeply nested loops need a deep stack. While the run is locked or
paused, entries that would start new work are moved to `run.held`; all others are processed. While
somebody debugs the run, a breakpoint or a single step pauses it before a node (debugging.py).

A start node is a node that is marked from the beginning. One bit per node is enough: while a loop runs,
nothing outside of it can mark its nodes, because everything that leads into it has settled before. So a
mark on the entry at the end of a round was set inside the loop, and a mark found when the loop becomes
ready was set outside.

The cost of a step depends on the node that finished and on what follows from it, not on the number of
rounds: nothing remains of a finished round except its messages in queues.

| status             | transitions                                                              |
|--------------------|--------------------------------------------------------------------------|
| `new`              | Started -> running                                                       |
| `running`          | the graph ends -> completed                                              |
|                    | a node fails and nobody handles it -> failed, once the calls in flight   |
|                    | have finished or, with `on_failure: cancel`, are cancelled               |
|                    | a limit is reached, TimeUp, Locked, CallRefused -> suspended_locked,     |
|                    | once they have finished; open questions do not delay it, nor a pause     |
|                    | Waited -> waiting; Stopped -> stopped                                    |
|                    | Paused, a breakpoint, the end of a step -> paused, once they have        |
|                    | finished; at once after an interrupt, which cancels the calls in flight: |
|                    | the host makes them again on Resumed or Stepped                          |
| `waiting`          | Answered, Expired -> running; Paused -> paused; Stopped -> stopped;      |
|                    | Locked -> suspended_locked                                               |
| `paused`           | Resumed, Stepped -> running; Locked -> suspended_locked;                 |
|                    | Stopped -> stopped                                                       |
| `suspended_locked` | Unlocked -> running, or paused if it was; Stopped -> stopped             |
| `failed`           | Retried -> running; Revised -> running, by `revise` instead of `step`    |

| fact             | answers                   | illegal when                                           |
|------------------|---------------------------|--------------------------------------------------------|
| `Started`        |                           | the run has started                                    |
| `Finished`       | Call                      | no Call is in flight at that address                   |
| `Failed`         | Call, Ask, EvaluateEdges, | nothing is in flight at that address                   |
|                  | Intercept                 |                                                        |
| `CallRefused`    | Call                      | no Call is in flight at that address                   |
| `Answered`       | Ask                       | no Ask is open at that address, or its deadline has    |
|                  |                           | passed                                                 |
| `Expired`        | Ask                       | no Ask is open at that address whose deadline has      |
|                  |                           | passed                                                 |
| `EdgesEvaluated` | EvaluateEdges             | no EvaluateEdges is in flight at that address          |
| `Intercepted`    | Intercept                 | no Intercept is in flight at that address              |
| `Waited`         |                           | nothing is in flight, or anything other than Asks      |
| `TimeUp`         |                           | the working time is not used up, only people are       |
|                  |                           | asked, or the run is locked                            |
| `Locked`         |                           | the run has not started, is over or locked, or there   |
|                  |                           | is no reason                                           |
| `Paused`         |                           | the run is neither running nor waiting, or a pause was |
|                  |                           | requested; an interrupt is legal until that pause      |
|                  |                           | has taken effect                                       |
| `Reopened`       |                           | the run has not started, or is over                    |
| `Resumed`        |                           | the run is not paused                                  |
| `Retried`        |                           | the run has not failed                                 |
| `CallRetried`    | repeats any of these      | nothing is in flight at that address                   |
| `Inherited`      |                           | the run has not started, or is over                    |
| `Unlocked`       |                           | the run is not locked, or the unlock is refused        |
| `Stepped`        |                           | the run is not paused, or nothing is ready             |
| `BreakpointsChanged` |                       | the run has not started, or is over                    |
| `WaitingEdited`  |                           | the run is neither paused nor locked, or no such       |
|                  |                           | message waits, or it was changed meanwhile             |
| `Edited`         | changes a Call, an Ask or | none of these is in flight at that address             |
|                  | an Intercept before a node|                                                        |
| `Stopped`        |                           | the run has not started, or is over                    |

An illegal fact raises IllegalFact and changes nothing, so each handler checks before it changes
anything. `step` changes the run in place, which keeps its cost independent of the size of the state, and
reads nothing else: no clock, no randomness, no I/O. The same facts, with the same stored decisions
(facts.py), always produce the same run.

Any other exception from `step` (a defect of the kernel or of a controller, MemoryError,
KeyboardInterrupt) leaves the run half changed. No further fact may be applied to it: the host discards
it and rebuilds it from the journal without that fact or, if there is no journal, ends it with `abandon`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from roundel.kernel.breaker import check_time, trip, trip_time
from roundel.kernel.budget import release
from roundel.kernel.calls import (
    begin_model_call,
    begin_tool,
    cancel_call,
    drop_calls,
    is_model_call,
    refuse_call,
)
from roundel.kernel.cancellation import cancel_executions, cancel_with_run, is_cancelled
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.composite import (
    ask_behaviour,
    begin_composite,
    end_body_early,
    end_iteration,
    on_answer,
    on_answer_failed,
    start_iterations,
)
from roundel.kernel.dead_loop import SHOWN
from roundel.kernel.debugging import (
    BREAKPOINT,
    STEP,
    EditRefused,
    begin_round_step,
    begin_step,
    change_breakpoints,
    edit_waiting,
    end_debugging,
    forget_passed,
    holds_back,
    ready_stops,
    start_debugging,
    stays_reached,
)
from roundel.kernel.events import Event, RunStatus, stamp
from roundel.kernel.facts import (
    Answered,
    BreakpointsChanged,
    CallRefused,
    CallRetried,
    ClockMoved,
    EdgesEvaluated,
    Edited,
    Entry,
    Expired,
    Fact,
    Failed,
    Finished,
    Inherited,
    Intercepted,
    Locked,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Retried,
    Revised,
    Started,
    Stepped,
    Stopped,
    TimeUp,
    Unlocked,
    Waited,
    WaitingEdited,
    decode_entry,
)
from roundel.kernel.lifecycle import (
    complete,
    conclude,
    deliver_input,
    emit_expiry,
    end_body,
    expire,
    fail,
    fail_on_edge,
    handle_body_failure,
    launch,
    on_error_edges_evaluated,
    queued_call,
    run_node,
    run_parts,
    set_intercepts,
    update_intercept_inputs,
    waited_for,
)
from roundel.kernel.loops import begin, enter, graph_result, next_round, settle, settle_loop, unfired_edges
from roundel.kernel.old_events import of_revision
from roundel.kernel.payloads import (
    AnswerReceived,
    EndNotReached,
    MessageEdited,
    NodeSkipped,
    RunStarted,
    SkipCause,
    StateCause,
    told_by_middleware,
)
from roundel.kernel.retry import forget_inherited, inherit, retry_call, start_again
from roundel.kernel.state import (
    ASK_BEHAVIOUR,
    BEGIN_COMPOSITE,
    BODY_ENDED_EARLY,
    CRASHES,
    GRAPH_OVER,
    GROUP_LIMIT,
    LOOP_OVER,
    MANUAL,
    NEXT_ROUND,
    SEND_FAILURE,
    START_AGAIN,
    START_CALLS,
    START_ITERATIONS,
    START_PARTS,
    TRIPS,
    Activation,
    CompositeRun,
    Execution,
    Failure,
    GraphInstance,
    Run,
    ToolLoop,
)
from roundel.kernel.tool_loop import (
    advance_tool_loop,
    continue_as_conversation,
    on_call_failed,
    on_expiry,
    on_person_answer,
    on_result,
)
from roundel.kernel.unlock import UnlockRefused, check_unlock, unlock
from roundel.kernel.usage import check_budget, record_failed_call, record_usage
from roundel.kernel.walk import EdgeError
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.scope import Unit
from roundel.workflow.message import Message


class IllegalFact(Exception):
    """A fact that contradicts the state of the run. The run has not been changed."""


def step(run: Run, fact: Fact, decisions: Sequence[Any] | None = None) -> tuple[list[Command], list[Event]]:
    """Applies a fact; returns the commands for the host and the events to publish.

    With `decisions`, those stored with the fact, the step is a replay: it reads them instead of deciding
    again, and raises DecisionMismatch if they do not fit. `run.decisions.made` contains the decisions of
    the step afterwards; the host stores them in the same row as the fact.
    """
    commands: list[Command] = []
    events: list[Event] = []
    run.commands = commands
    run.events = events
    log = run.decisions
    if decisions is not None or log.used:  # most steps decide nothing, and skip the reset
        log.begin(decisions)
    try:
        _HANDLERS[fact.__class__](run, fact)
    except EdgeError as error:
        # A condition or processor failed outside of `advance`, in the handler itself. The handler did
        # not reach its own `advance`, so the queue is drained here.
        fail_on_edge(run, error)
        advance(run)
    if run.inherited:
        forget_inherited(run, fact)
    if decisions is not None:
        log.end()
    return commands, events


def abandon(run: Run, error: str) -> list[Event]:
    """Ends a run as failed after a step left it half changed, if no journal can rebuild it.

    Returns the events of that step too, since their sequence numbers are taken.
    """
    run.error = error
    for execution in run.calls.values():
        cancel_call(run, execution)
    run.calls.clear()
    run.ready_queue.clear()
    end(run, "failed")
    return run.events


def replay(plan: Plan, entries: Iterable[Entry]) -> tuple[Run, list[Command]]:
    """Rebuilds a run from its journal; returns it with the commands that are in flight."""
    run = Run(plan)
    for entry in entries:
        step(run, entry.fact, entry.decisions)
    return run, [call.command for call in run.calls.values() if call.command is not None]


def revise(fact: Revised, plan: Plan, reached: int = 0) -> tuple[Run, list[Event]]:
    """The run with the workflow that a retry brought, whose plan is given, and the events of the change.

    The history has happened already: only the change itself has an event, and what follows from it. `reached`
    is the number of the last event of a replay of that history: it is larger than the stored one if the run
    was revised before there were as many events.
    """
    run, _ = replay(plan, (decode_entry(line.encode()) for line in fact.entries))
    run.events = []
    run.seq, run.revision = max(fact.seq, reached), fact.revision
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    status = run.status  # the changes may have been all that it lacked
    run.emit_status("running", "retried with changes", "revised", fact.by)
    run.status = status
    for name, node_id, address, data in fact.events:
        run.emit(of_revision(name, data, address or ""), node_id, address)
    # Those of the run before have ended with it.
    for execution in run.calls.values():
        if is_model_call(execution):
            begin_model_call(run, execution)
        elif execution.loop_call is not None and execution.loop_call.label:
            begin_tool(run, execution)
    return run, run.events


def _started(run: Run, fact: Started) -> None:
    if run.status != "new":
        raise IllegalFact("the run has already started")
    run.set_time(fact.time)
    run.started_at = run.since
    run.allow(run.time_limit)
    run.run_id, run.input, run.status = fact.run_id, fact.input, "running"
    set_intercepts(run, fact.intercepts)
    graph = run.plan.graph
    run.emit(RunStarted(graph.graph.id, fact.input[-1].text if fact.input else "", fact.model))
    if fact.paused:
        run.paused = "paused"
        start_debugging(run)
    change_breakpoints(run, (*run.plan.breakpoints, *fact.breakpoints))
    run.root = GraphInstance(graph, "", None, run.ordinals)
    deliver_input(run.root, fact.input)
    begin(run, run.root)
    advance(run)


def _finished(run: Run, fact: Finished) -> None:
    execution = run.calls.get(fact.address)
    if execution is None or execution.command.__class__ is not Call:
        raise _illegal(fact.address)
    # The condition of `set_time`, inlined: most facts fall into the same millisecond. The deadline is
    # only compared when the time has changed.
    if fact.time >= run.until or fact.time < run.since:
        run.set_time(fact.time)
        if fact.time > run.deadline:
            check_time(run, execution)
    del run.calls[fact.address]
    # Before the outcome is applied: the actual usage is spent then, and must not count twice.
    if execution.reserved is not None:
        release(run, execution)
    outcome = fact.outcome
    # Whatever follows: it has been paid for.
    if outcome.usage is not None or execution.command.number:
        record_usage(run, execution, outcome)
    owner = execution.owner
    if owner is None:
        if fact.outcome.state is not None and execution.node.has_follow_up:
            continue_as_conversation(run, execution, fact.outcome)
        else:
            complete(run, execution, fact.outcome)
    elif owner.__class__ is ToolLoop:
        on_result(run, execution, fact.outcome)
    else:
        on_answer(run, execution, fact.outcome)
    advance(run)


def _answered(run: Run, fact: Answered) -> None:
    execution, ask = _question(run, fact.address)
    # By the clock of the fact: whether the host has noticed the deadline yet must not matter.
    if ask.deadline is not None and fact.time >= ask.deadline:
        raise IllegalFact(
            f"the question at '{fact.address}' had to be answered before {stamp(ask.deadline)}; "
            "resume the run, and it continues without the answer"
        )
    _close_question(run, execution, fact.time, "answered", "answer", fact.by)
    waited = waited_for(run, ask)
    received = AnswerReceived(fact.message.text, fact.message.data or None, fact.by, fact.via, waited=waited)
    if execution.owner is not None:
        on_person_answer(run, execution, fact.message, received)
    else:
        run.emit(received, execution.node.id, fact.address)
        complete(run, execution, Outcome((fact.message,)))
    advance(run)


def _expired(run: Run, fact: Expired) -> None:
    execution, ask = _question(run, fact.address)
    if ask.deadline is None or fact.time < ask.deadline:
        raise IllegalFact(f"the question at '{fact.address}' can still be answered")
    _close_question(run, execution, fact.time, "timeout", "timeout")
    # Somebody may be asked at this moment. First, since what follows may begin at the same address.
    run.commands.append(Cancel(fact.address))
    if execution.owner is not None:
        emit_expiry(run, execution, ask, "rejected")
        on_expiry(run, execution)
    else:
        expire(run, execution, ask)
    advance(run)


def _question(run: Run, address: str) -> tuple[Execution, Ask]:
    execution = _in_flight(run, address, Ask)
    assert isinstance(execution.command, Ask)
    return execution, execution.command


def _close_question(
    run: Run, execution: Execution, time: float, reason: str, cause: StateCause, by: str = ""
) -> None:
    """Removes a question that is over; the run continues if it waited for it."""
    # People may take a month. Time in which nothing else was in flight does not count against limits.
    if run.status == "paused" or waits_only_for_people(run):
        run.exclude_idle_time(time)
    run.set_time(time)
    del run.calls[execution.address]
    if run.status == "waiting":
        run.emit_status("running", reason, cause, by)


def _edges_evaluated(run: Run, fact: EdgesEvaluated) -> None:
    execution = _in_flight(run, fact.address, EvaluateEdges)
    run.set_time(fact.time)
    del run.calls[fact.address]
    if execution.failure is not None:
        on_error_edges_evaluated(run, execution, fact.edge_results)
    else:
        conclude(run, execution, execution.outcomes, fact.edge_results)
    advance(run)


def _intercepted(run: Run, fact: Intercepted) -> None:
    execution = _in_flight(run, fact.address, Intercept)
    intercept = execution.command
    assert isinstance(intercept, Intercept)
    run.set_time(fact.time)
    del run.calls[fact.address]
    for name, data in fact.events:
        run.emit(told_by_middleware(name, data), execution.node.id, fact.address)
    # Without messages it was the intercept before the node: now the node starts. With messages it was
    # the intercept of its output: now the output is used.
    if intercept.messages is None:
        release(run, execution)  # `launch` reserves again for the call itself
        if run.error is None:
            unit, node, part = execution.unit, execution.node, execution.part
            launch(run, execution.activation, unit, node, fact.address, intercept.inputs, part, intercept)
        else:  # a retry asks middleware again
            skip(run, execution.node.id, fact.address, "the run has failed", "run_failed", ran=True)
            run.unfinished.append(Failure(execution))
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
        run.emit(told_by_middleware(name, data), execution.node.id, fact.address)
    if run.budgeted:
        release(run, execution)
    record_failed_call(run, execution, fact.error, fact.error_type, fact.call)
    if execution.failure is not None:
        on_error_edges_evaluated(run, execution, None, fact.error)
    elif execution.owner.__class__ is ToolLoop:
        on_call_failed(run, execution, fact)
    elif execution.owner.__class__ is CompositeRun:
        on_answer_failed(run, execution, fact)
    else:
        fail(run, execution, fact.error, fact.error_type, attempts=fact.attempts, reason=fact.reason)
    advance(run)


def _call_refused(run: Run, fact: CallRefused) -> None:
    """Locks the run, and holds the call back: the unlock sends it again, under the same address."""
    execution = _in_flight(run, fact.address, Call)
    run.set_time(fact.time)
    del run.calls[fact.address]
    if run.budgeted:
        release(run, execution)
    refuse_call(run, execution)
    skip(run, execution.node.id, fact.address, "a shared limit has no room for the call", "limit", ran=True)
    run.held.append((Failure(execution), START_AGAIN))
    if run.error is None:  # else the run fails, and a retry sends the call
        trip(run, GROUP_LIMIT, (execution.node.id, fact.address), fact.shortage, {})
    advance(run)


def _call_retried(run: Run, fact: CallRetried) -> None:
    execution = _in_flight(run, fact.address, None)
    run.set_time(fact.time)
    retry_call(run, execution, fact.ordinal)


def _inherited(run: Run, fact: Inherited) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    run.set_time(fact.time)
    inherit(run, fact.results)


def _waited(run: Run, fact: Waited) -> None:
    questions = [call for call in run.calls.values() if isinstance(call.command, Ask)]
    if run.status != "running" or not questions or len(questions) != len(run.calls):
        raise IllegalFact("the run is not waiting for people alone")
    run.set_time(fact.time)
    asked = sorted(call.address for call in questions)
    run.emit_status("waiting", "for " + ", ".join(asked), "question", questions=asked)


def _time_up(run: Run, fact: TimeUp) -> None:
    working = next((call for call in run.calls.values() if not isinstance(call.command, Ask)), None)
    if run.status != "running" or run.lock is not None or working is None or fact.time < run.deadline:
        raise IllegalFact("the working time is not used up")
    run.set_time(fact.time)
    trip_time(run, working)
    advance(run)


def _clock_moved(run: Run, fact: ClockMoved) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    # From the last fact on and not up to `fact.time`: the time between the two may be working time.
    until = run.since + fact.seconds
    run.exclude_idle_time(until)
    run.set_time(until)


def _locked(run: Run, fact: Locked) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    if run.lock is not None:
        raise IllegalFact("the run is locked already")
    if not fact.reason.strip():
        raise IllegalFact("a reason is needed")
    if run.status == "paused" or fact.abandoned or waits_only_for_people(run):
        run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    if fact.crashes:
        _trip_crashes(run, fact)
    else:
        trip(run, MANUAL, ("", ""), {}, {"reason": fact.reason, "by": fact.by})
    advance(run)
    # Calls that nobody makes cannot finish, so the lock does not wait for them.
    if fact.abandoned and run.status != "suspended_locked":
        _suspend(run)


def _trip_crashes(run: Run, fact: Locked) -> None:
    """Trips at the calls that were in flight: one of them is the likely cause."""
    working = [call for call in run.calls.values() if not isinstance(call.command, Ask)]
    place = (working[0].node.id, working[0].address) if working else ("", "")
    trip(run, CRASHES, place, {"crashes": fact.crashes}, {"in_flight": [call.address for call in working]})


def _paused(run: Run, fact: Paused) -> None:
    if run.status not in ("running", "waiting"):
        raise IllegalFact("the run is not active")
    if run.paused and not fact.interrupt:
        raise IllegalFact("a pause is already requested")
    if run.status == "waiting" and run.plan.semantics >= 2:
        run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    run.paused, run.paused_by, run.fast_path = fact.reason or "paused", fact.by, False
    if run.debug is not None:
        run.debug.stopped_at = ("", "")
    if fact.interrupt:
        # The host has cancelled the calls, but they stay in `run.calls`: the resumed host makes them
        # again, under the same addresses and idempotency keys, as after a crash.
        _pause(run)
    else:
        advance(run)


def _resumed(run: Run, fact: Resumed) -> None:
    # `run.paused` and not the status: a pause that waits for calls in flight can be taken back as well.
    if not run.paused or run.over:
        raise IllegalFact("the run is not paused")
    if run.status == "paused":
        run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    run.paused = ""
    if run.debug is not None:
        run.debug.until = None
        end_debugging(run)
    run.update_fast_path()
    if run.status == "paused":
        run.emit_status("running", "resumed", "resume", fact.by)
    _queue_held(run)
    advance(run)


def _queue_held(run: Run) -> None:
    """Queues what was held back, to decide it again."""
    forget_passed(run)
    run.ready_queue.extend(run.held)
    run.held.clear()


def _stepped(run: Run, fact: Stepped) -> None:
    if run.status != "paused":
        raise IllegalFact("only a paused run can take a step; pause it first")
    interrupted = [call.address for call in run.calls.values() if not isinstance(call.command, Ask)]
    if not (interrupted or run.held):
        raise IllegalFact("nothing is ready: the run waits for an answer")
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    debug = start_debugging(run)
    debug.until, debug.stopped_at = None, ("", "")
    run.paused, run.paused_by = STEP, ""
    run.emit_status("running", STEP, "step", fact.by)
    # An ordinary pause has held back more than nodes: what leads to them is decided first, still paused.
    _queue_held(run)
    advance(run, updates_status=False)
    stops = ready_stops(run)
    # The calls of an interrupted step are made again, and are the step.
    if fact.round and (interrupted or stops):
        begin_round_step(run, interrupted[0] if interrupted else stops[0].address)
    elif stops and not interrupted:
        begin_step(run, stops[0])
    if run.lock is None:
        _queue_held(run)
    advance(run)


def _breakpoints_changed(run: Run, fact: BreakpointsChanged) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    # The time of the fact does not count: nothing happens, and a run that nobody executes does not work.
    change_breakpoints(run, fact.add, fact.remove)


def _waiting_edited(run: Run, fact: WaitingEdited) -> None:
    try:
        edit_waiting(run, fact)
    except EditRefused as error:
        raise IllegalFact(str(error)) from error


def _retried(run: Run, fact: Retried) -> None:
    if run.status != "failed":
        raise IllegalFact("only a failed run can be retried")
    if not (run.unfinished or run.held):
        raise IllegalFact("nothing of it can run again")
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    run.error, run.paused = None, ""
    if run.debug is not None:  # the retry continues to the next breakpoint, whatever step has failed
        run.debug.until = None
    run.update_fast_path()
    run.emit_status("running", "retried", "retry", fact.by)
    run.ready_queue.extend((failure, START_AGAIN) for failure in run.unfinished)
    run.ready_queue.extend(run.held)
    run.unfinished.clear()
    run.held.clear()
    advance(run)


def _reopened(run: Run, fact: Reopened) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    # The resuming host may have other middleware installed than the one that started the run.
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
    # A paused run stays paused after a lock; its calls, if it was interrupted, are made when it is resumed.
    if run.paused and run.status == "running":
        _pause(run)


def _edited(run: Run, fact: Edited) -> None:
    execution = _in_flight(run, fact.address, None)
    command = execution.command
    # An intercept with messages is about output; there are no inputs left to edit.
    if not isinstance(command, (Call, Ask, Intercept)) or getattr(command, "messages", None) is not None:
        raise _illegal(fact.address)
    run.set_time(fact.time)
    inputs = (*command.inputs[:-1], fact.message)
    changed = msgspec.structs.replace(command, inputs=inputs)
    execution.command = changed
    _edit_owner(execution, inputs)
    before = command.inputs[-1].text[:SHOWN] if command.inputs else ""
    edited = MessageEdited(fact.message.text, by=fact.by, before=before, cause="fork")
    run.emit(edited, execution.node.id, fact.address)
    run.commands += (Cancel(fact.address), changed)


def _edit_owner(execution: Execution, inputs: tuple[Message, ...]) -> None:
    """Updates the other copies of the inputs.

    A composite node has none to update: the question to its behaviour has inputs of its own.
    """
    if execution.owner is None:
        execution.given = inputs
        update_intercept_inputs(execution, inputs)
    elif isinstance(execution.owner, ToolLoop):
        execution.owner.set_inputs(inputs)
        update_intercept_inputs(execution.owner.execution, inputs)


def _stopped(run: Run, fact: Stopped) -> None:
    if run.over or run.status == "new":
        raise IllegalFact("the run is not active")
    run.set_time(fact.time)
    cancel_executions(run, list(run.calls.values()), fact.reason or "stopped", "stopped")
    run.error = fact.reason or None
    end(run, "stopped", fact.by)


def _in_flight(run: Run, address: str, kind: type[Any] | None) -> Execution:
    execution = run.calls.get(address)
    if execution is None or (kind is not None and execution.command.__class__ is not kind):
        raise _illegal(address)
    return execution


def _illegal(address: str) -> IllegalFact:
    return IllegalFact(f"no such call is in flight at '{address}'")


_HANDLERS: dict[type[Any], Callable[[Run, Any], None]] = {
    Started: _started,
    Finished: _finished,
    Failed: _failed,
    CallRefused: _call_refused,
    Answered: _answered,
    Expired: _expired,
    EdgesEvaluated: _edges_evaluated,
    Intercepted: _intercepted,
    Waited: _waited,
    TimeUp: _time_up,
    ClockMoved: _clock_moved,
    Locked: _locked,
    Paused: _paused,
    Resumed: _resumed,
    Retried: _retried,
    CallRetried: _call_retried,
    Inherited: _inherited,
    Reopened: _reopened,
    Edited: _edited,
    Stepped: _stepped,
    BreakpointsChanged: _breakpoints_changed,
    WaitingEdited: _waiting_edited,
    Unlocked: _unlocked,
    Stopped: _stopped,
}


def advance(run: Run, *, updates_status: bool = True) -> None:
    """Drains the ready queue, until everything waits for the host.

    The fast path decides units directly. It applies while there is no error, lock, pause, cancelled
    graph or breakpoint (`run.fast_path`), which is nearly always; otherwise each entry is checked by
    `_defer_or_drop`.
    """
    ready_queue = run.ready_queue
    for item, index in ready_queue:  # grows during the iteration
        try:
            if index >= 0 and run.fast_path:
                _decide(run, item, item.scope.units[index])
            elif run.error is not None:
                # Nothing new begins after a failure (docs/decisions/0006); a retry continues from here.
                run.held.append((item, index))
            elif run.fast_path or not _defer_or_drop(run, item, index):
                _TRANSITIONS[index](run, item)
        except EdgeError as error:  # on an edge of a node whose graph has just ended
            fail_on_edge(run, error)
    ready_queue.clear()
    if not run.fast_path and updates_status:
        _update_status(run)


def _defer_or_drop(run: Run, item: Any, index: int) -> bool:
    """Handles an entry off the fast path; returns whether `advance` is done with it.

    Drops it if its graph was cancelled, and moves it to `run.held` if the run is locked or paused. The
    end of a loop or a graph starts nothing new, so it is processed even then: what it leads to is held
    back instead. The end of the run itself leads to nothing that could be held back, so a lock holds it.
    """
    # Its graph is the one to cancel, and `end_body_early` checks for itself whether it is already
    # cancelled.
    if index == BODY_ENDED_EARLY:
        return False
    owner = item.execution.activation if index in _OWNED_BY_EXECUTION else item
    if is_cancelled(owner.instance):
        if index == START_CALLS:
            drop_calls(run, item)
        return True
    ends = index in (LOOP_OVER, SEND_FAILURE) or (
        index == GRAPH_OVER and (run.lock is None or item.instance is not run.root)
    )
    if not ends:
        is_held = run.lock is not None or (
            bool(run.paused) if run.debug is None else holds_back(run, item, index)
        )
        if is_held:
            run.held.append((item, index))
            return True
    if index >= 0:
        _decide(run, item, item.scope.units[index])
    return index >= 0


def _update_status(run: Run) -> None:
    """Ends, locks or pauses the run, once no call is in flight that could still finish."""
    if run.error is not None:
        _fail_run(run)
    # Open questions delay neither a lock nor a pause: the answer may come in a month, and is kept.
    elif run.lock is not None:
        if run.status in ("running", "waiting", "paused") and waits_only_for_people(run):
            _suspend(run)
    elif run.paused and run.status in ("running", "waiting") and waits_only_for_people(run):
        _pause(run)
    elif run.status == "paused" and run.debug is not None and not run.debug.stopped_at[0]:
        _note_stop(run)  # an answer has made a node ready


def _pause(run: Run) -> None:
    if run.paused != BREAKPOINT:
        _note_stop(run)
    details = run.pause_details()
    cause = _PAUSES.get(run.paused, "pause")
    address, stop = details.get("address", ""), details.get("breakpoint", "")
    run.emit_status("paused", run.paused, cause, run.paused_by, address=address, breakpoint=stop)


_PAUSES: dict[str, StateCause] = {BREAKPOINT: "breakpoint", STEP: "step"}


def _note_stop(run: Run) -> None:
    """Notes the first node that is ready as the place where the run has stopped."""
    if run.debug is not None:
        stops = ready_stops(run)
        run.debug.stopped_at = (stops[0].address if stops else "", "")


def _suspend(run: Run) -> None:
    lock = run.lock
    assert lock is not None
    place = f" at {lock.address}" if lock.address else ""
    why = f": {lock.evidence['reason']}" if lock.what == MANUAL else ""
    cause: StateCause = "crashes" if lock.what == CRASHES else "breaker" if lock.what in TRIPS else "limit"
    by = lock.evidence["by"] if lock.what == MANUAL else ""
    run.emit_status("suspended_locked", f"{lock}{place}{why}", cause, by)


def waits_only_for_people(run: Run) -> bool:
    return all(isinstance(call.command, Ask) for call in run.calls.values())


def _decide(run: Run, activation: Activation, unit: Unit) -> None:
    """Decides a ready unit: skips it, enters its loop or runs its node.

    `run.held` gets the unit again if it does not fit into a budget: `_may_run` has locked the run, and
    the unit is decided anew after the unlock.
    """
    node = unit.node
    if activation.exit_layer is not None and unit.layer > activation.exit_layer:  # `is_left`, inlined
        _skip_unit(run, activation, unit, "the loop was left", "loop_left")
    elif node is None:
        _enter_loop(run, activation, unit)
    elif not activation.instance.marks[node.index]:
        _skip_unit(run, activation, unit, "not triggered", "not_triggered")
    elif run.budgeted and not _may_run(run, activation, unit, node):
        run.held.append((activation, unit.index))
        stays_reached(run, activation.prefix + node.label)
    else:
        run_node(run, activation, unit, node)


def _may_run(run: Run, activation: Activation, unit: Unit, node: NodePlan) -> bool:
    """Whether the budgets have room for the node.

    A node with dynamic input is not checked as a whole: `run_parts` checks each of its parts.
    """
    instance, index = activation.instance, node.index
    has_dynamic_input = node.has_dynamic_input and (
        any(message.dynamic for message in instance.queues[index])
        or any(arrival[2] is not None and arrival[2].dynamic for arrival in instance.arrivals[index])
    )
    call = partial(queued_call, run, activation, unit, node)
    return has_dynamic_input or check_budget(run, activation, node, activation.prefix + node.label, call)


def _skip_unit(run: Run, activation: Activation, unit: Unit, reason: str, cause: SkipCause) -> None:
    if unit.node is not None:
        skip(run, unit.node.id, activation.prefix + unit.node.label, reason, cause)
    settle(run, activation, unit)


def skip(run: Run, node_id: str, address: str, reason: str, cause: SkipCause, *, ran: bool = False) -> None:
    run.emit(NodeSkipped(reason, cause, ran), node_id, address)


def _enter_loop(run: Run, activation: Activation, unit: Unit) -> None:
    marks, nodes = activation.instance.marks, activation.instance.plan.nodes
    entries = [member for member in unit.members if marks[member]]
    if not entries:
        settle(run, activation, unit)
    elif len(entries) == 1:
        enter(run, activation, unit, entries[0])
    else:
        names = " and ".join(f"'{nodes[entry].id}'" for entry in entries)
        # Marks cannot tell which of the entries begins the round, so no order of the nodes would be
        # right. The static check reports such loops where it can (plan/loops.py).
        run.error = (
            f"a loop was entered at {names} at once; let one node lead into the loop, "
            "so that it is clear where a round begins"
        )
        run.fast_path = False
        run.held.append((activation, unit.index))


def _graph_over(run: Run, activation: Activation) -> None:
    """Passes the result of a graph that has ended to its caller, or completes the run."""
    instance = activation.instance
    messages = graph_result(instance)
    caller = instance.caller
    if not messages:
        node_id, address = (caller.node.id, caller.address) if caller else (None, None)
        run.emit(EndNotReached(unfired_edges(instance)), node_id, address)
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
    START_AGAIN: start_again,
    SEND_FAILURE: handle_body_failure,
}
# For these the queue entry is a composite run, an expansion or a tool loop, which has an `execution`;
# for all others it is an activation.
_OWNED_BY_EXECUTION = (
    BEGIN_COMPOSITE,
    START_ITERATIONS,
    START_PARTS,
    START_CALLS,
    ASK_BEHAVIOUR,
    START_AGAIN,
    SEND_FAILURE,
)


def _fail_run(run: Run) -> None:
    """Fails the run once the calls in flight have finished, or are cancelled (`on_failure`).

    Those that finish are paid for, and a retry has their results (docs/decisions/0006).
    """
    cancel_with_run(run)
    if not run.calls:
        end(run, "failed")


def end(run: Run, status: RunStatus, by: str = "") -> None:
    run.status = status
    for item, index in run.held:
        if index == START_CALLS:
            drop_calls(run, item)
    if status != "failed":  # a failed run can be retried
        run.held.clear()
    run.emit(run.finished(by))
