"""The life of a node in a run: it starts, middleware intercepts it, it completes, fails or is cancelled.

    run_node      takes the node's messages from its queue
    launch        turns them into commands: a Call, an Ask, an Intercept, a body, a tool loop
    complete      takes the outcome: records usage and state, then walks the edges
    conclude      the same for the node as a whole, after all parts and all functions on its edges
    expire        takes the place of an answer that did not come in time
    fail          sends a failure outwards: to an error edge, to a composite node that catches it, or to
                  the run, which fails

Intercepts. Middleware may be asked before a node runs, and about its output. Both are commands like any
other (docs/decisions/0010): the answers are facts in the journal, so a replay needs no middleware, and
all kinds of nodes can be intercepted, also a person, an agent with tools, a whole loop. A wrapper around
the behaviour of nodes in the host would see only those that call something, and would run again with the
node after a crash.

Order of effects. The usage of an outcome is recorded before anything that may replace the outcome or
fail, since it has been paid for whatever follows. A node settles (loops.py) after its messages have
walked all edges: what becomes ready by settling must see them.

`launch`, `complete` and `walk` are the hot path of every run. What only some nodes need is decided by
flags that the plan computes once (`NodePlan.plain`, `has_dynamic_input`, `retains_messages`,
`Run.budgeted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from roundel.kernel.breaker import record_message, record_result
from roundel.kernel.budget import (
    model_call,
    reserve,
)
from roundel.kernel.calls import begin_model_call
from roundel.kernel.cancellation import (
    cancel_graphs,
    graphs_around,
    is_cancelled,
)
from roundel.kernel.codec import CodecError, typed
from roundel.kernel.commands import Ask, Call, CallContext, Command, EvaluateEdges, Intercept
from roundel.kernel.context import compose, forget, remember
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import EdgeResult, InterceptPoints, Outcome
from roundel.kernel.loops import begin, settle
from roundel.kernel.payloads import (
    AnswerTimeout,
    ExpiryAction,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    QuestionAsked,
    QueuedInput,
    told_by_node,
)
from roundel.kernel.queue import Arrival, Delivery, admit, peek, retain
from roundel.kernel.rounds import count_failure, count_score, leave_node
from roundel.kernel.state import (
    BEGIN_COMPOSITE,
    BODY_ENDED_EARLY,
    SEND_FAILURE,
    START_CALLS,
    START_PARTS,
    Activation,
    CompositeRun,
    EdgeWalk,
    Execution,
    Expansion,
    Failure,
    GraphInstance,
    HandledFailure,
    LoopSummary,
    Run,
    ToolLoop,
    shown_usage,
)
from roundel.kernel.usage import check_budget
from roundel.kernel.walk import (
    EdgeError,
    EdgeResults,
    ExpansionError,
    collect_outcomes,
    continue_walk,
    deliver,
    expand,
    find_deliveries,
    pairs_to_evaluate,
    record_part,
    startable_parts,
    walk,
)
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.address import PathStep, innermost_round, loop_path, part_of
from roundel.workflow.fields import format_duration
from roundel.workflow.message import Message, notice
from roundel.workflow.node_type import ERROR_PORT

BEFORE, AFTER = 1, 2
"""Bits of `Run.intercept_flags`: middleware intercepts the node before it runs, or its output."""


def set_intercepts(run: Run, intercepts: InterceptPoints) -> None:
    """Sets the nodes that middleware intercepts, when a run starts or a host resumes it."""
    if intercepts == run.intercepts:
        return
    run.intercepts = intercepts
    run.intercept_flags = bytearray(
        BEFORE * (node.id in intercepts.before) + AFTER * (node.id in intercepts.after)
        for node in run.plan.sites
    )


SCORED_ROUNDS = 20
"""Rounds of a loop whose scores a run remembers."""
SCORED_LOOPS = 8
"""Loops whose scores a run remembers: those inside of parts that run in parallel are loops of their own."""
MAX_SCORE = 1e300
"""Scores beyond it are not remembered: they could not be drawn."""


def run_node(run: Run, activation: Activation, unit: Unit, node: NodePlan) -> None:
    """Starts a marked node on the messages in its queue."""
    instance, index = activation.instance, node.index
    instance.marks[index] = 0
    queue, arrivals = instance.queues[index], instance.arrivals[index]
    # Arrivals wait outside of the queue until here, so that their order does not depend on timing
    # (queue.py). Only data edges can bring messages that are too late for this round; without one, all
    # are admitted.
    if arrivals:
        before = (*activation.key, unit.layer, unit.position) if node.has_data_input else None
        instance.arrivals[index] = admit(queue, arrivals, before)
        if node.context is not None and _is_cleared(arrivals, instance.arrivals[index]):
            forget(run, activation, node)
    inputs = tuple(queue)
    if index == activation.scope.entry and activation.round == 1:
        activation.task = inputs
    # The note of an unlock goes to the first node that can read it: one with a model.
    if run.note is not None and node.kind.speaks:
        inputs, run.note = (*inputs, run.note), None
    if node.retains_messages:
        instance.queues[index] = retain(inputs, node.window)
    else:
        queue.clear()
    address = activation.prefix + node.label
    if node.has_dynamic_input and any(message.dynamic for message in inputs):
        run_parts(run, expand(run, Execution(activation, unit, node, address), inputs))
    else:
        launch(run, activation, unit, node, address, inputs)


def _is_cleared(arrivals: list[Arrival], late: list[Arrival]) -> bool:
    """Whether one of the arrivals that were admitted came over an edge that clears the context."""
    return any(arrival[1].clear for arrival in arrivals if arrival not in late)


def launch(
    run: Run,
    activation: Activation,
    unit: Unit,
    node: NodePlan,
    address: str,
    inputs: tuple[Message, ...],
    part: tuple[Expansion, int] | None = None,
    intercept: Intercept | None = None,
) -> None:
    """Starts a node, or one part of it; with `intercept`, continues after middleware has answered.

    The ordinal and the `running` event belong to the start. They are not repeated after the intercept,
    so that a node has the same ordinal with and without middleware.
    """
    site = node.site
    if intercept is None:
        ordinals = activation.instance.ordinals
        ordinal = ordinals[site]
        ordinals[site] = ordinal + 1
        run.run_counts[site] += 1
        run.seq = seq = run.seq + 1  # as run.emit does, inlined: these are most of all events
        path, of_part = activation.path, part_of(address) if part is not None else ""
        running = node.running
        if running is None:
            running = node.running = NodeRunning(False, node.kind.name, node.kind.speaks)
        run.events.append(
            Event(seq, "node_state_change", run.stamp, run.run_id, node.id, address, running, path, of_part)
        )
        if run.intercept_flags[site]:
            intercept = Intercept(address, site, inputs, ordinal, activation.loop_round)
            if run.intercept_flags[site] & BEFORE:
                _intercept_input(run, Execution(activation, unit, node, address, intercept, part, intercept))
                return
    else:
        ordinal = intercept.ordinal
    command: Command
    if node.bodies:
        _begin_bodies(run, Execution(activation, unit, node, address, None, part, intercept), inputs)
        return
    context: CallContext | None = None
    given: tuple[Message, ...] = ()  # only for agents with a context: a snapshot would be larger for it
    if node.context is not None:
        inputs, context = compose(run, activation, node, inputs, part)
        given = inputs
    # By way of the queue, so that a lock or pause holds back its first call like any other.
    if node.has_tool_loop:
        execution = Execution(
            activation, unit, node, address, None, part, intercept, context=context, given=given
        )
        run.ready_queue.append(
            (ToolLoop(execution, node.kind.conversation(node.config), inputs, ordinal), START_CALLS)
        )
        return
    speaks = node.kind.speaks
    if node.asks:
        command = _ask(run, node, address, inputs, ordinal)
    else:
        memory = activation.instance.memory
        state = memory.get(node.index) if memory else None
        carried = None if node.carries is None else activation.carried_message(unit, node.carries)
        heard = activation.heard_messages(unit, node) if node.hears else None
        round_, number = activation.loop_round, 1 if speaks else 0
        command = Call(address, site, inputs, state, ordinal, round_, context, carried, heard, number)
    run.calls[address] = execution = Execution(
        activation, unit, node, address, command, part, intercept, context=context, given=given
    )
    run.commands.append(command)
    if speaks and isinstance(command, Call):
        begin_model_call(run, execution)
        if run.budgeted:
            call = command
            reserve(run, execution, model_call(run, activation, node, lambda: call))


def planned_call(
    run: Run,
    activation: Activation,
    node: NodePlan,
    address: str,
    queued: tuple[Message, ...],
    part: tuple[Expansion, int] | None = None,
) -> Call:
    """The call that an agent would make for what it has got, to see whether it fits into the budgets."""
    context: CallContext | None = None
    if node.context is not None:
        queued, context = compose(run, activation, node, queued, part)
    return Call(address, node.site, queued, None, 0, activation.loop_round, context)


def queued_call(run: Run, activation: Activation, unit: Unit, node: NodePlan) -> Call:
    """The call that an agent would make for what is in its queue. It takes nothing from there."""
    instance, index = activation.instance, node.index
    before = (*activation.key, unit.layer, unit.position) if node.has_data_input else None
    queued = tuple(peek(instance.queues[index], instance.arrivals[index], before))
    if run.note is not None:
        queued = (*queued, run.note)
    return planned_call(run, activation, node, activation.prefix + node.label, queued)


def _intercept_input(run: Run, execution: Execution) -> None:
    """Sends the intercept before a node, and reserves its budget already.

    Otherwise a node that starts meanwhile could spend what this one was admitted for.
    """
    node = execution.node
    send_intercept(run, execution)
    if run.budgeted and node.kind.speaks and not (node.bodies or node.has_tool_loop):
        assert execution.intercept is not None
        activation, inputs = execution.activation, execution.intercept.inputs
        call = partial(planned_call, run, activation, node, execution.address, inputs, execution.part)
        reserve(run, execution, model_call(run, activation, node, call))


def _ask(run: Run, node: NodePlan, address: str, inputs: tuple[Message, ...], ordinal: int) -> Ask:
    deadline = deadline_after(run, getattr(node.config, "timeout", None))
    ask = Ask(address, node.site, inputs, ordinal, None, *deadline, run.since)
    emit_question(run, node, ask)
    return ask


def emit_question(run: Run, node: NodePlan, ask: Ask, caller: str = "") -> None:
    """Emits the question of a human node, or of the tool loop of `caller` about one of its calls."""
    if ask.about:
        asked = replace(msgspec.convert(ask.about, QuestionAsked), caller=caller)
    else:
        queued = [QueuedInput(message.source, message.text) for message in ask.inputs]
        asked = QuestionAsked(getattr(node.config, "description", ""), queued)
    if ask.deadline is not None:
        asked = replace(asked, deadline=stamp(ask.deadline), timeout=ask.timeout)
    run.emit(asked, node.id, ask.address)


TIMEOUT_PORT = "timeout"
"""The port of a question that nobody answered in time, if an edge takes it."""


def expire(run: Run, execution: Execution, ask: Ask) -> None:
    """Continues after a question of a node whose deadline has passed: with the node's default answer, by
    its port `timeout`, or with a failure."""
    node, address = execution.node, execution.address
    default: Message | None = getattr(node.config, "default_answer", None)
    if default is not None:
        emit_expiry(run, execution, ask, "default")
        complete(run, execution, Outcome((default,)))
        return
    within = format_duration(ask.timeout)
    if any(edge.trigger and edge.port == TIMEOUT_PORT for edge in node.edges):
        emit_expiry(run, execution, ask, "port")
        data = {"timeout": ask.timeout, "node": node.id, "address": address, "type": "Timeout"}
        complete(run, execution, Outcome((notice(f"no answer within {within}", data),), TIMEOUT_PORT))
        return
    emit_expiry(run, execution, ask, "failed")
    fail(run, execution, f"nobody answered within {within}", "Timeout")


def emit_expiry(run: Run, execution: Execution, ask: Ask, action: ExpiryAction) -> None:
    """Emits `human_input_timeout`; `action` is what happens instead of an answer."""
    assert ask.deadline is not None
    expired = AnswerTimeout(stamp(ask.deadline), ask.timeout, action, waited_for(run, ask))
    run.emit(expired, execution.node.id, execution.address)


def waited_for(run: Run, ask: Ask) -> float:
    """How many seconds a question was open."""
    return round(run.since - ask.asked, 3)


def deadline_after(run: Run, timeout: float | None) -> tuple[float | None, float]:
    """The deadline and the timeout of an Ask: the time counts from the fact that causes the question."""
    return (None, 0.0) if timeout is None else (run.since + timeout, timeout)


def _begin_bodies(run: Run, execution: Execution, inputs: tuple[Message, ...]) -> None:
    """Starts a subgraph or a composite node."""
    node, outer = execution.node, execution.activation.instance
    if node.kind.controller is not None:
        record = (
            run.loops.setdefault(_loop_id(execution), LoopSummary()) if node.kind.loops else LoopSummary()
        )
        record.entries += 1
        controller = node.kind.controller(node.config)
        # A controller evaluates patterns and expressions only through this, so that a replay finds the
        # results.
        controller.decide = run.decisions.record_or_replay
        controller.semantics = run.plan.semantics
        composite_run = CompositeRun(execution, controller, inputs, record)
        run.ready_queue.append((composite_run, BEGIN_COMPOSITE))
        return
    ordinals = outer.ordinals
    if execution.part is not None:
        # Parts run in parallel: each counts for itself, starting at its own number, so that ordinals do
        # not depend on which part is quicker. `add_ordinals` merges the counts.
        expansion, number = execution.part
        ordinals = [count + number for count in expansion.base]
    part = part_of(execution.address) if execution.part is not None else ""
    path = (*execution.activation.path, PathStep(None, node.id, 0, part))
    instance = GraphInstance(node.bodies[0], f"{execution.address}/", execution, ordinals, path)
    deliver_input(instance, inputs)
    begin(run, instance)


def _loop_id(execution: Execution) -> str:
    """The name of the loop in the summary.

    A loop agent at which a free cycle is entered is a second loop with the same name, inside the first.
    """
    name = execution.node.id
    return f"{name}.{name}" if execution.activation.name == name else name


def deliver_input(instance: GraphInstance, messages: tuple[Message, ...]) -> None:
    """Queues the input of a graph at each of its start nodes, and marks them."""
    instance.input = messages
    for node in instance.plan.start:
        instance.queues[node].extend(messages)
        instance.marks[node] = 1


def run_parts(run: Run, expansion: Expansion) -> None:
    """Starts as many parts of a dynamic edge as `max_parallel` and the budgets allow."""
    outcomes = collect_outcomes(expansion)
    if outcomes is not None:  # there are no parts
        if run.plan.semantics:  # before, the nodes after it were not triggered
            outcomes = [Outcome((Message("[]", "assistant"),))]
        conclude(run, expansion.execution, outcomes, None)
        return
    whole = expansion.execution
    for number, address, inputs in startable_parts(expansion):
        part = (expansion, number)
        call = partial(planned_call, run, whole.activation, whole.node, address, inputs, part)
        if run.budgeted and not check_budget(run, whole.activation, whole.node, address, call):
            expansion.started -= 1  # the iterator counted it; it is tried again after the unlock
            run.held.append((expansion, START_PARTS))
            return
        launch(run, whole.activation, whole.unit, whole.node, address, inputs, part)


def intercept_output(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Asks middleware about the output of a node before it is used."""
    execution.outcomes = [outcome]
    intercept = execution.intercept
    if intercept is None:  # the node started before this middleware was installed (`Reopened`)
        command = execution.command
        inputs = command.inputs if isinstance(command, (Call, Ask)) else ()
        ordinal = command.ordinal if isinstance(command, (Call, Ask)) else 0
        round_ = execution.activation.loop_round
        intercept = Intercept(execution.address, execution.node.site, inputs, ordinal, round_)
    execution.command = replace(intercept, messages=outcome.messages)
    send_intercept(run, execution)


def update_intercept_inputs(execution: Execution, inputs: tuple[Message, ...]) -> None:
    """Replaces the inputs that middleware will see with the output, after an edit."""
    if execution.intercept is not None:
        execution.intercept = replace(execution.intercept, inputs=inputs)


def send_intercept(run: Run, execution: Execution) -> None:
    assert execution.command is not None
    run.calls[execution.address] = execution
    run.commands.append(execution.command)


def end_body(run: Run, instance: GraphInstance, execution: Execution, messages: tuple[Message, ...]) -> None:
    """Completes a subgraph node with the result of its graph."""
    if execution.part is not None:
        expansion, number = execution.part
        add_ordinals(execution, instance, expansion.base, number)
    complete(run, execution, Outcome(messages))


def add_ordinals(execution: Execution, instance: GraphInstance, base: list[int], number: int) -> None:
    """Adds the calls of an instance that counted for itself to the counts around it.

    `base` are the counts it began with, `number` the offset of its own first ordinal.
    """
    counts = execution.activation.instance.ordinals
    for site, before in enumerate(base):
        counts[site] += instance.ordinals[site] - before - number


def complete(run: Run, execution: Execution, outcome: Outcome, *, after_intercept: bool = False) -> None:
    """Uses the outcome of a node, or of one part of it; middleware may have to be asked first."""
    node = execution.node
    if run.intercept_flags[node.site] & AFTER and not after_intercept:
        intercept_output(run, execution, outcome)
        return
    if outcome.state is not None:
        try:
            # A replayed outcome has plain JSON as its state; the next call needs the declared type.
            state = typed(node.kind.state, outcome.state)
        except CodecError as error:
            fail(run, execution, str(error), "Validation")
            return
        execution.activation.instance.memory[node.index] = state
    if execution.context is not None:
        remember(run, execution, outcome.messages)
    _emit_completed(run, execution, outcome)
    if outcome.jump:
        if not _leaves_by_port(execution, outcome):
            _jump(run, execution, outcome)
            return
        if not outcome.messages:  # the edge has to fire, whatever it carries
            outcome = replace(outcome, messages=(Message(role="assistant"),))
    if execution.part is not None:
        _part_done(run, execution, *execution.part, outcome)
    elif node.plain:  # `conclude`, reduced to what most nodes need
        walk(run, execution, outcome, None)
        settle(run, execution.activation, execution.unit)
    else:
        conclude(run, execution, (outcome,), None)


def _emit_completed(run: Run, execution: Execution, outcome: Outcome) -> None:
    node, messages, address = execution.node, outcome.messages, execution.address
    report, port, score = outcome.report or None, outcome.port, None
    usage = None if execution.usage is None else shown_usage(execution.usage)
    text = fields = None
    if messages and node.logs_output:
        last = messages[-1]
        text = last.content if last.content.__class__ is str else last.text
        fields = last.data or None
        if fields is not None and "score" in fields:
            score = _record_score(run, execution, fields["score"])
    if report is not None and "score" in report:
        reported = _record_score(run, execution, report["score"])
        score = score if reported is None else reported
    data = NodeCompleted(text, fields, report, len(messages), score, port, usage)
    # Usage and events of the node come before `completed`, which is the last event of an execution.
    for name, told in outcome.events:
        run.emit(told_by_node(node.kind.events, name, told), node.id, address)
    run.seq = seq = run.seq + 1  # as run.emit does, inlined
    path, part = execution.activation.path, part_of(address) if execution.part is not None else ""
    run.events.append(
        Event(seq, "node_state_change", run.stamp, run.run_id, node.id, address, data, path, part)
    )


def _record_score(run: Run, execution: Execution, score: Any) -> float | None:
    """Records the score of a node for lists of runs, and for the breaker, since a new score is progress. A
    round has one score: a judge returns it, and the `loop` node that decides on it reports it once more.
    Returns it; None if it is no number."""
    if not isinstance(score, (int, float)) or isinstance(score, bool):
        return None
    if run.plan.semantics >= 1:
        record_result(execution, f"score {score}")
    stats = run.guard_stats
    stats.score = score
    if not -MAX_SCORE < score < MAX_SCORE:  # also false for what is no number
        return None
    count_score(execution, float(score))
    stem, number = innermost_round(execution.address)
    loop = loop_path(stem)
    rounds = stats.scores.pop(loop, {})
    stats.scores[loop] = rounds  # the loop with the newest score is the last one
    rounds[f"{stem}{number}]" if stem else ""] = float(score)
    if len(rounds) > SCORED_ROUNDS:
        del rounds[next(iter(rounds))]
    if len(stats.scores) > SCORED_LOOPS:
        del stats.scores[next(iter(stats.scores))]
    return score


def _part_done(run: Run, execution: Execution, expansion: Expansion, number: int, outcome: Outcome) -> None:
    """Records one part; starts further parts, or concludes the node after the last one."""
    try:
        outcomes = record_part(expansion, number, outcome)
    except ExpansionError as error:
        fail(run, execution, str(error))
        return
    if outcomes is None:
        run.ready_queue.append((expansion, START_PARTS))
    else:
        whole = expansion.execution
        # Added at the end and not when the parts made the calls: ordinals of other nodes must not depend
        # on timing.
        whole.activation.instance.ordinals[whole.node.site] += expansion.extra_calls
        conclude(run, whole, outcomes, None)


def conclude(
    run: Run, execution: Execution, outcomes: Sequence[Outcome], edge_results: tuple[EdgeResult, ...] | None
) -> None:
    """Sends the outcomes of the node as a whole along its edges, and settles its unit.

    If functions of users stand on the edges, it is called twice: first without `edge_results`, which
    sends EvaluateEdges, then with the answers.
    """
    node = execution.node
    try:
        if node.has_host_functions and edge_results is None and _evaluate_edges(run, execution, outcomes):
            return
    except EdgeError as error:
        error.walk = EdgeWalk(tuple(outcomes))
        raise
    if node.output_retained:
        _retain_output(execution.activation, node, _own_messages(outcomes))
    send(run, execution, outcomes, edge_results)


def send(
    run: Run,
    execution: Execution,
    outcomes: Sequence[Outcome],
    edge_results: tuple[EdgeResult, ...] | None,
    at: EdgeWalk | None = None,
) -> None:
    """Sends outcomes along the edges, from the place `at` on if an edge failed there, and settles the
    unit."""
    node, first = execution.node, 0
    for number, outcome in enumerate(outcomes):
        results = _results_from(edge_results, first) if edge_results else None
        first += len(outcome.messages)
        try:
            if at is None or number > at.outcome:
                walk(run, execution, outcome, results)
            elif number == at.outcome:
                continue_walk(run, execution, outcome, results, at)
        except EdgeError as error:
            position = error.walk or EdgeWalk(())
            error.walk = replace(
                position, outcomes=tuple(outcomes), edge_results=edge_results, outcome=number
            )
            raise
    # For the dead-loop detection: what was said, and what came from outside of the run.
    if node.is_speaker:
        record_message(execution, _own_messages(outcomes))
    elif node.is_external:
        record_result(execution, "\n".join(message.text for message in _own_messages(outcomes)))
    settle(run, execution.activation, execution.unit)


def _messages(outcomes: Sequence[Outcome]) -> tuple[Message, ...]:
    if len(outcomes) == 1:
        return outcomes[0].messages
    return tuple(message for outcome in outcomes for message in outcome.messages)


def _own_messages(outcomes: Sequence[Outcome]) -> tuple[Message, ...]:
    """The messages that the node made. A part that failed has none: its message reports the failure."""
    if len(outcomes) > 1 and any(outcome.port == ERROR_PORT for outcome in outcomes):
        outcomes = [outcome for outcome in outcomes if outcome.port != ERROR_PORT]
    return _messages(outcomes)


def _retain_output(activation: Activation, node: NodePlan, messages: tuple[Message, ...]) -> None:
    """Stores the output for the node's own context window, as the result of the graph, and for a node that
    carries it."""
    instance = activation.instance
    if node.is_carried and messages:
        activation.record_output(node.index, messages[-1])
    if node.window:
        instance.queues[node.index].extend(_as_assistant(message) for message in messages)
    if node.is_end and messages:
        instance.outputs[node.index] = messages


def _as_assistant(message: Message) -> Message:
    return Message(message.content, "assistant", message.data, message.metadata)


def _results_from(edge_results: tuple[EdgeResult, ...], first: int) -> EdgeResults:
    """The results by edge and message, for the outcome whose first message has the number `first`."""
    return {(edge_result.edge, edge_result.message - first): edge_result for edge_result in edge_results}


def _evaluate_edges(run: Run, execution: Execution, outcomes: Sequence[Outcome]) -> bool:
    """Sends the messages to the functions of users on the edges; returns whether there are any to wait
    for.

    The host calls these functions (docs/decisions/0007): they may do I/O, and a replay must not call
    them again.
    """
    pairs = pairs_to_evaluate(run, execution, outcomes)
    if not pairs:
        return False
    messages = _messages(outcomes)
    execution.outcomes = list(outcomes)
    execution.command = EvaluateEdges(execution.address, execution.node.site, messages, tuple(pairs))
    run.calls[execution.address] = execution
    run.commands.append(execution.command)
    return True


def fail(
    run: Run,
    execution: Execution,
    error: str,
    type: str = "",
    *,
    attempts: int = 1,
    cause: Execution | None = None,
    walk: EdgeWalk | None = None,
    inputs: tuple[Message, ...] | None = None,
    owner: CompositeRun | None = None,
    decides: bool = False,
    reason: str = "",
) -> None:
    """Fails a node. `cause` is the call that failed, if it is one of several calls of the node; the
    other arguments describe what a retry has to do (`Failure`), and whether it can succeed.

    The failure goes outwards, to the first that handles it: an error edge of the node; the composite node
    around its graph, if its controller catches failures; an error edge of the node that called its graph,
    and so on. If nobody does, the run fails.

    A condition or processor that fails is no failure of the node in front of it, which has completed, so
    the error edges of that node do not handle it.
    """
    failure = Failure(
        cause or execution,
        error,
        type or "NodeError",
        attempts,
        execution.node.id,
        execution.address,
        walk,
        inputs,
        owner,
        decides,
        reason,
    )
    if walk is not None or not _try_error_edges(run, failure, execution):
        _propagate(run, failure, execution)


def fail_on_edge(run: Run, error: EdgeError) -> None:
    """Fails the node whose edge failed, or whose input could not be split."""
    fail(run, error.execution, str(error), "EdgeError", walk=error.walk, inputs=error.inputs)


def _propagate(run: Run, failure: Failure, level: Execution) -> None:
    """Takes a failure that the error edges of the node `level` do not handle outwards."""
    while True:
        if level.address == failure.address:
            run.emit(_failed(failure, level), level.node.id, level.address)
            count_failure(level)
        instance = level.activation.instance
        composite_run, iteration = instance.composite_run, instance.iteration
        if (
            composite_run is not None
            and iteration is not None
            and composite_run.controller.catches_failure(iteration)
        ):
            # By way of the queue: the caller is still in the middle of changing the graph that has to be
            # cancelled.
            early = (instance, "failed", failure.error, "", failure.execution)
            run.ready_queue.append((early, BODY_ENDED_EARLY))
            return
        if instance.caller is None:
            break
        level = instance.caller
        if _try_error_edges(run, failure, level):
            return
    run.unfinished.append(failure)
    # Only the first error becomes the error of the run; the events show the others.
    if run.error is None:
        run.error = f"{failure.address}: {failure.error}"
        run.fast_path = False


def _try_error_edges(run: Run, failure: Failure, level: Execution) -> bool:
    """Offers a failure to the error edges of a node; False if they do not handle it.

    True as well while functions of users decide about it; `on_error_edges_evaluated` continues.
    """
    node = level.node
    if not node.has_error_edges:
        return False
    outcome = _failure_outcome(failure)
    try:
        pairs = pairs_to_evaluate(run, level, (outcome,)) if node.has_host_functions else []
        if not pairs:
            return _handle(run, failure, level, None)
    except EdgeError as error:
        failure.error = _failed_while_handling(failure, str(error))
        return False
    if level.address in run.calls:
        # Another failure inside the node is being decided about, and that one counts. If nobody handles
        # it, the run fails, and a retry starts both again.
        run.unfinished.append(failure)
        return True
    level.failure = failure
    level.command = EvaluateEdges(level.address, node.site, outcome.messages, tuple(pairs))
    run.calls[level.address] = level
    run.commands.append(level.command)
    return True


def on_error_edges_evaluated(
    run: Run, level: Execution, edge_results: tuple[EdgeResult, ...] | None, error: str = ""
) -> None:
    """Continues with a failure after the functions on the error edges of `level` have answered, or have
    failed with `error`."""
    failure, level.failure = level.failure, None
    assert failure is not None
    handled = False
    if edge_results is None:
        failure.error = _failed_while_handling(failure, error)
    else:
        try:
            handled = _handle(run, failure, level, edge_results)
        except EdgeError as edge_error:
            failure.error = _failed_while_handling(failure, str(edge_error))
    if not handled:
        _propagate(run, failure, level)


def _failed_while_handling(failure: Failure, error: str) -> str:
    return f"{error}, while it handled: {failure.error}"


def _failure_outcome(failure: Failure) -> Outcome:
    message = Message(failure.error, "assistant", failure.data)
    return Outcome((message,), port=ERROR_PORT, reason="error")


def _handle(
    run: Run, failure: Failure, level: Execution, edge_results: tuple[EdgeResult, ...] | None
) -> bool:
    """Sends a failure along the error edges of a node, if one of them triggers its target."""
    outcome = _failure_outcome(failure)
    results = _results_from(edge_results, 0) if edge_results else None
    deliveries = find_deliveries(run, level, outcome, results)
    if not any(fires and edge.trigger for edge, _, _, fires in deliveries):
        return False
    if level.address == failure.address:
        if failure.owner is not None and level.node.kind.loops:
            leave_node(run, failure.owner, "failed")
        _send_failure(run, failure, level, deliveries)
        return True
    body = failure.execution.activation.instance
    while body.caller is not level:
        assert body.caller is not None
        body = body.caller.activation.instance
    # By way of the queue, for the same reason as above.
    run.ready_queue.append((HandledFailure(level, failure, body, deliveries), SEND_FAILURE))
    return True


def handle_body_failure(run: Run, handled: HandledFailure) -> None:
    """Ends the graphs of a subgraph or a composite node that has failed, and sends the failure along its
    error edges."""
    execution, composite_run = handled.execution, handled.body.composite_run
    if is_cancelled(handled.body):
        return  # two nodes of the graph failed in the same step; the first one counts
    _emit_failed_between(run, handled)
    if composite_run is None:
        cancel_graphs(run, [handled.body], handled.failure.execution)
        if execution.part is not None:
            expansion, number = execution.part
            add_ordinals(execution, handled.body, expansion.base, number)
    else:
        cancel_graphs(run, composite_run.in_flight, handled.failure.execution)
        composite_run.in_flight.clear()
        composite_run.pending.clear()
        if execution.node.kind.loops:
            leave_node(run, composite_run, "failed", handled.failure.execution)
    _send_failure(run, handled.failure, execution, handled.deliveries)


def _emit_failed_between(run: Run, handled: HandledFailure) -> None:
    """Reports the nodes between the one that failed and the one that handles it as failed."""
    failure = handled.failure
    caller = failure.execution.activation.instance.caller
    while caller is not None and caller is not handled.execution:
        run.emit(_failed(failure, caller), caller.node.id, caller.address)
        count_failure(caller)
        caller = caller.activation.instance.caller


def _failed(failure: Failure, level: Execution, handled: bool = False) -> NodeFailed:
    """A failure as an event of the node that failed, or of one around it."""
    return NodeFailed(
        failure.error,
        failure.type,
        failure.reason,
        handled,
        failure.node_id,
        failure.address,
        failure.attempts,
        level.address != failure.address,
    )


def _send_failure(run: Run, failure: Failure, level: Execution, deliveries: Sequence[Delivery]) -> None:
    """Sends the message of a handled failure, and settles the node.

    A part of a dynamic edge has an outcome like any other part; its message walks when all parts are
    done.
    """
    run.emit(_failed(failure, level, handled=True), level.node.id, level.address)
    outcome = _failure_outcome(failure)
    if level.part is not None:
        _part_done(run, level, *level.part, outcome)
        return
    deliver(level, outcome, deliveries)
    settle(run, level.activation, level.unit)


def _leaves_by_port(execution: Execution, outcome: Outcome) -> bool:
    """Whether a `break` leaves the node by an edge: one that names its port takes precedence over the loop
    agent around the node."""
    port = outcome.port
    return port is not None and any(edge.trigger and edge.port == port for edge in execution.node.edges)


def _jump(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Applies a `break` or `continue` to the innermost loop agent or debate around the node."""
    instance = _loop_around(execution)
    if instance is None:
        fail(run, execution, jump_problem(execution, outcome))
    else:
        reason = outcome.reason if run.plan.semantics else ""  # before, the reason was always `break`
        run.ready_queue.append(((instance, outcome.jump, outcome.messages, reason), BODY_ENDED_EARLY))


def jump_problem(execution: Execution, outcome: Outcome) -> str:
    """Why a `break` or `continue` of a node has nothing to end; empty if it has."""
    if _leaves_by_port(execution, outcome) or _loop_around(execution) is not None:
        return ""
    no_edge = "" if outcome.port is None else f", and no edge with 'port: {outcome.port}' leads from it"
    return f"'{outcome.jump}' is not inside a loop agent or debate{no_edge}"


def _loop_around(execution: Execution) -> GraphInstance | None:
    """The body, around a node, of the innermost loop agent or debate."""
    for instance in graphs_around(execution):
        composite_run = instance.composite_run
        if composite_run is not None and composite_run.execution.node.kind.loops:
            return instance
    return None
