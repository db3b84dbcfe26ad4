"""Middleware is asked: before a node sets out, and about what it gave.

Both are commands like any other, so what was said is in the journal, and any kind of node can be asked about:
one that calls something, a person, an agent with tools, a whole loop.

Nodes that are done, or never will be: from what one gave to the messages that it sends.

Nodes that begin: from the decision to run one to the commands that follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from roundel.kernel.breaker import count_tokens, listen, lock, note_result
from roundel.kernel.budget import COST, model_call, refused, release, reserve, shown, spend_usage, take_step
from roundel.kernel.codec import CodecError, typed
from roundel.kernel.commands import Ask, Call, Cancel, Command, Consult, Review
from roundel.kernel.events import Event
from roundel.kernel.facts import Outcome, Reviews, Usage, Verdict
from roundel.kernel.loops import begin, settle
from roundel.kernel.queue import admit, retained
from roundel.kernel.state import (
    ERRANDS,
    OPEN,
    PARTS,
    RETURN,
    Activation,
    Execution,
    Expansion,
    Instance,
    LoopRecord,
    Performance,
    Run,
    Talk,
)
from roundel.kernel.walk import ExpansionError, Verdicts, collected, due, expand, gather, questions, walk
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.limits import picodollars
from roundel.workflow.message import Message

BEFORE, AFTER = 1, 2
"""When middleware is asked about a node; both may hold."""


def attend(run: Run, reviews: Reviews) -> None:
    """From now on middleware is asked about these nodes."""
    if reviews == run.reviews:
        return
    run.reviews = reviews
    run.reviewed = bytearray(
        BEFORE * (node.id in reviews.before) + AFTER * (node.id in reviews.after) for node in run.plan.sites
    )


def ask_after(run: Run, execution: Execution, outcome: Outcome) -> None:
    execution.outcomes = [outcome]
    review = execution.review
    if review is None:  # it set out when nobody was to be asked about it
        command = execution.command
        inputs = command.inputs if isinstance(command, (Call, Ask)) else ()
        ordinal = command.ordinal if isinstance(command, (Call, Ask)) else 0
        round_ = execution.activation.loop_round
        review = Review(execution.address, execution.node.site, inputs, ordinal, round_)
    execution.command = replace(review, messages=outcome.messages)
    ask(run, execution)


def review_inputs(execution: Execution, inputs: tuple[Message, ...]) -> None:
    """A node has other inputs than it set out with."""
    if execution.review is not None:
        execution.review = replace(execution.review, inputs=inputs)


def ask(run: Run, execution: Execution) -> None:
    assert execution.command is not None
    run.calls[execution.address] = execution
    run.commands.append(execution.command)


def end_body(run: Run, instance: Instance, execution: Execution, messages: tuple[Message, ...]) -> None:
    if execution.part is not None:
        expansion, number = execution.part
        add_ordinals(execution, instance, expansion.base, number)
    complete(run, execution, Outcome(messages))


def add_ordinals(execution: Execution, instance: Instance, base: list[int], number: int) -> None:
    """What ran in a part that counted for itself counts around it too."""
    counts = execution.activation.instance.ordinals
    for site, before in enumerate(base):
        counts[site] += instance.ordinals[site] - before - number


def complete(run: Run, execution: Execution, outcome: Outcome, *, looked_at: bool = False) -> None:
    """The node has done what it is there for; middleware may have to look at it first."""
    node = execution.node
    if run.reviewed[node.site] & AFTER and not looked_at:
        if outcome.usage is not None:  # whatever middleware says, it was used
            spend(run, execution, outcome)
            outcome = replace(outcome, usage=None)
        ask_after(run, execution, outcome)
        return
    if outcome.state is not None:
        try:
            # A journal gives JSON back, and the next call of the node wants what the node gave.
            state = typed(node.kind.state, outcome.state)
        except CodecError as error:
            spend(run, execution, outcome)
            fail(run, execution, str(error))
            return
        execution.activation.instance.memory[node.index] = state
    _tell(run, execution, outcome)
    if outcome.jump:
        _jump(run, execution, outcome)
    elif execution.part is not None:
        _part_done(run, execution, *execution.part, outcome)
    elif node.plain:  # what `conclude` comes down to for most nodes
        walk(run, execution, outcome, None)
        settle(run, execution.activation, execution.unit)
    else:
        conclude(run, execution, (outcome,), None)


def spend(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Adds to what the run has used, and tells of it."""
    if outcome.aside is not None:
        _spend(run, execution, outcome.aside)
    if outcome.usage is not None:
        _spend(run, execution, outcome.usage)


def _spend(run: Run, execution: Execution, usage: Usage) -> None:
    node, address = execution.node, execution.address
    for name, count in run.usage.items():
        amount = picodollars(usage.cost_usd) if name == COST else getattr(usage, name)
        run.usage[name] = count + amount
    if run.budgeted:
        spend_usage(run, execution, usage)
    if usage.model_calls:
        count_tokens(run, execution, usage.input_tokens + usage.output_tokens)
    else:
        run.watch.aside += usage.input_tokens + usage.output_tokens
    if usage.input_tokens or usage.output_tokens or usage.cached:
        run.emit("token_usage", node.id, address, _shown_usage(usage))


def _shown_usage(usage: Usage) -> dict[str, Any]:
    data: dict[str, Any] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if usage.model:
        data["model"] = usage.model
        data["cost_usd"] = None if usage.unpriced_calls else usage.cost_usd
    if usage.cached:
        data["cached"] = True
    elif not usage.model_calls:
        data["aside"] = True
    return data


def _tell(run: Run, execution: Execution, outcome: Outcome) -> None:
    node, messages, address = execution.node, outcome.messages, execution.address
    data: dict[str, Any]
    if messages and node.logs:
        last = messages[-1]
        text = last.content if last.content.__class__ is str else last.text
        data = {"status": "completed", "output": text}
        if last.data:
            data["data"] = last.data
    else:
        data = {"status": "completed"}
    if outcome.report:
        data.update(outcome.report)
    if outcome.usage is not None:
        spend(run, execution, outcome)
    for name, fields in outcome.events:
        run.emit(name, node.id, address, fields)
    run.seq = seq = run.seq + 1  # as run.emit does
    run.events.append(Event(seq, "node_state_change", run.stamp, run.run_id, node.id, address, data))


def _part_done(run: Run, execution: Execution, expansion: Expansion, number: int, outcome: Outcome) -> None:
    try:
        outcomes = gather(expansion, number, outcome)
    except ExpansionError as error:
        fail(run, execution, str(error))
        return
    if outcomes is None:
        run.agenda.append((expansion, PARTS))
    else:
        whole = expansion.execution
        whole.activation.instance.ordinals[whole.node.site] += expansion.further
        conclude(run, whole, outcomes, None)


def conclude(
    run: Run, execution: Execution, outcomes: Sequence[Outcome], verdicts: tuple[Verdict, ...] | None
) -> None:
    """The node as a whole is done: what it gave goes out along its edges, once they have been asked."""
    node = execution.node
    if node.consults and verdicts is None and _consult(run, execution, outcomes):
        return
    if node.remembered:
        _remember(execution.activation.instance, node, _messages(outcomes))
    if verdicts:
        first = 0
        for outcome in outcomes:
            walk(run, execution, outcome, _from(verdicts, first))
            first += len(outcome.messages)
    else:
        for outcome in outcomes:
            walk(run, execution, outcome, None)
    if node.voice:
        listen(execution, _messages(outcomes))
    elif node.works:
        note_result(execution, "\n".join(message.text for message in _messages(outcomes)))
    settle(run, execution.activation, execution.unit)


def _messages(outcomes: Sequence[Outcome]) -> tuple[Message, ...]:
    if len(outcomes) == 1:
        return outcomes[0].messages
    return tuple(message for outcome in outcomes for message in outcome.messages)


def _remember(instance: Instance, node: NodePlan, messages: tuple[Message, ...]) -> None:
    if node.window:
        instance.queues[node.index].extend(_own(message) for message in messages)
    if node.shows and messages:
        instance.outputs[node.index] = messages


def _own(message: Message) -> Message:
    return Message(message.content, "assistant", message.data, message.metadata)


def _from(verdicts: tuple[Verdict, ...], first: int) -> Verdicts:
    return {(verdict.edge, verdict.message - first): verdict for verdict in verdicts}


def _consult(run: Run, execution: Execution, outcomes: Sequence[Outcome]) -> bool:
    """Whether there is anything to wait for before the messages may go out."""
    asked = questions(run, execution, outcomes)
    if not asked:
        return False
    messages = _messages(outcomes)
    execution.outcomes = list(outcomes)
    execution.command = Consult(execution.address, execution.node.site, messages, tuple(asked))
    run.calls[execution.address] = execution
    run.commands.append(execution.command)
    return True


def fail(run: Run, execution: Execution, error: str) -> None:
    node = execution.node
    run.emit("node_state_change", node.id, execution.address, {"status": "failed", "error": error})
    for instance in _around(execution):
        performance, turn = instance.performance, instance.turn
        if performance is not None and performance.conductor.catches(turn):
            run.agenda.append(((instance, "failed", error), RETURN))
            return
    if run.error is None:
        run.error = f"{execution.address}: {error}"
        run.smooth = False


def _jump(run: Run, execution: Execution, outcome: Outcome) -> None:
    for instance in _around(execution):
        performance = instance.performance
        if performance is not None and performance.execution.node.kind.loops:
            run.agenda.append(((instance, outcome.jump, outcome.messages), RETURN))
            return
    fail(run, execution, f"'{outcome.jump}' stands in no loop agent or debate")


def call_off(run: Run, executions: Iterable[Execution], reason: str, within: Sequence[Instance] = ()) -> None:
    """Nobody waits for these any more, nor for the nodes around them up to the graphs `within`."""
    told: set[str] = set()
    for execution in executions:
        del run.calls[execution.address]
        run.commands.append(Cancel(execution.address))
        if run.budgeted:
            release(run, execution)
        whole: Execution | None = execution
        if isinstance(execution.owner, Talk):
            whole = execution.owner.execution
        while whole is not None and whole.address not in told:
            told.add(whole.address)
            data = {"status": "skipped", "reason": reason}
            run.emit("node_state_change", whole.node.id, whole.address, data)
            around = whole.activation.instance
            whole = None if around in within else around.caller


def _around(execution: Execution) -> Iterator[Instance]:
    """The graphs that an execution is in, from the inside out."""
    caller: Execution | None = execution
    while caller is not None:
        instance = caller.activation.instance
        yield instance
        caller = instance.caller


RUNNING = {"status": "running"}
"""The same for all, so nobody may change it."""


def run_node(run: Run, activation: Activation, unit: Unit, node: NodePlan) -> None:
    instance, index = activation.instance, node.index
    instance.marks[index] = 0
    queue, arrivals = instance.queues[index], instance.arrivals[index]
    if arrivals:
        before = (*activation.key, unit.layer, unit.position) if node.picks else None
        instance.arrivals[index] = admit(queue, arrivals, before)
    inputs = tuple(queue)
    if run.note is not None and node.kind.speaks:
        inputs, run.note = (*inputs, run.note), None
    if node.keeps:
        instance.queues[index] = retained(inputs, node.window)
    else:
        queue.clear()
    address = activation.prefix + node.label
    if node.expands and any(message.dynamic for message in inputs):
        run_parts(run, expand(run, Execution(activation, unit, node, address), inputs))
    else:
        launch(run, activation, unit, node, address, inputs)


def launch(
    run: Run,
    activation: Activation,
    unit: Unit,
    node: NodePlan,
    address: str,
    inputs: tuple[Message, ...],
    part: tuple[Expansion, int] | None = None,
    review: Review | None = None,
) -> None:
    """A node begins; with a `review`, it goes on after middleware has been asked."""
    site = node.site
    if review is None:
        ordinals = activation.instance.ordinals
        ordinal = ordinals[site]
        ordinals[site] = ordinal + 1
        run.times[site] += 1
        run.seq = seq = run.seq + 1  # as run.emit does: these are most of all events
        run.events.append(Event(seq, "node_state_change", run.stamp, run.run_id, node.id, address, RUNNING))
        if run.reviewed[site]:
            review = Review(address, site, inputs, ordinal, activation.loop_round)
            if run.reviewed[site] & BEFORE:
                _stand_by(run, Execution(activation, unit, node, address, review, part, review))
                return
    else:
        ordinal = review.ordinal
    command: Command
    if node.bodies:
        _begin_bodies(run, Execution(activation, unit, node, address, None, part, review), inputs)
        return
    if node.talks:
        execution = Execution(activation, unit, node, address, None, part, review)
        run.agenda.append((Talk(execution, node.kind.talk(node.config), inputs, ordinal), ERRANDS))
        return
    if node.asks:
        _show_question(run, node, address, inputs)
        command = Ask(address, site, inputs, ordinal)
    else:
        memory = activation.instance.memory
        state = memory.get(node.index) if memory else None
        command = Call(address, site, inputs, state, ordinal, activation.loop_round)
    run.calls[address] = execution = Execution(activation, unit, node, address, command, part, review)
    run.commands.append(command)
    if run.budgeted and node.kind.speaks:
        reserve(run, execution, model_call(run, node))


def _stand_by(run: Run, execution: Execution) -> None:
    """Middleware is asked first. Meanwhile others must not spend what the node needs."""
    node = execution.node
    ask(run, execution)
    if run.budgeted and node.kind.speaks and not (node.bodies or node.talks):
        reserve(run, execution, model_call(run, node))


def _show_question(run: Run, node: NodePlan, address: str, inputs: tuple[Message, ...]) -> None:
    data: dict[str, Any] = {
        "prompt": getattr(node.config, "description", ""),
        "input": [{"source": message.source, "text": message.text} for message in inputs],
    }
    run.emit("human_input_required", node.id, address, data)


def _begin_bodies(run: Run, execution: Execution, inputs: tuple[Message, ...]) -> None:
    node, outer = execution.node, execution.activation.instance
    if node.kind.conduct is not None:
        record = run.loops.setdefault(_loop_id(execution), LoopRecord()) if node.kind.loops else LoopRecord()
        record.entries += 1
        conductor = node.kind.conduct(node.config)
        conductor.decide = run.decisions.take
        performance = Performance(execution, conductor, inputs, record)
        run.agenda.append((performance, OPEN))
        return
    ordinals = outer.ordinals
    if execution.part is not None:
        # Parts run at the same time: each counts for itself, from its own number on.
        expansion, number = execution.part
        ordinals = [count + number for count in expansion.base]
    instance = Instance(node.bodies[0], f"{execution.address}/", execution, ordinals)
    give(instance, inputs)
    begin(run, instance)


def _loop_id(execution: Execution) -> str:
    """A loop agent at which a free cycle is entered is a second loop of the same name, inside the first."""
    name = execution.node.id
    return f"{name}.{name}" if execution.activation.name == name else name


def give(instance: Instance, messages: tuple[Message, ...]) -> None:
    """The input of a graph goes to each node of its `start`."""
    for node in instance.plan.start:
        instance.queues[node].extend(messages)
        instance.marks[node] = 1


def run_parts(run: Run, expansion: Expansion) -> None:
    outcomes = collected(expansion)
    if outcomes is not None:  # nothing to do at all
        conclude(run, expansion.execution, outcomes, None)
        return
    whole = expansion.execution
    for number, address, inputs in due(expansion):
        if run.budgeted and not admitted(run, whole.activation, whole.node, address):
            expansion.started -= 1
            run.held.append((expansion, PARTS))
            return
        launch(run, whole.activation, whole.unit, whole.node, address, inputs, (expansion, number))


def admitted(run: Run, activation: Activation, node: NodePlan, address: str) -> bool:
    """Whether a node may run; if not, the run is locked."""
    wanted: dict[str, int] = {"steps": 1}
    if node.kind.speaks and not node.talks:
        wanted |= model_call(run, node)
        return fits(run, activation, node, address, wanted) and take_step(run, activation, node)
    return take_step(run, activation, node) or fits(run, activation, node, address, wanted)


def fits(run: Run, activation: Activation, node: NodePlan, address: str, wanted: dict[str, int]) -> bool:
    refusal = refused(run, activation, node, wanted)
    if refusal is None:
        return True
    budget, what = refusal.budget, refusal.what
    evidence = {
        "scope": budget.name,
        "spent": budget.figures(run.worked)[what],
        "reserved": shown(what, budget.reserved[what]),
        "wanted": shown(what, wanted.get(what, 0)),
    }
    lock(run, what, budget.limits[what], node.id, address, evidence)
    run.lock_budget = budget
    return False
