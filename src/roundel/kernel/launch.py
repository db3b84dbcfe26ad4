"""Nodes that begin: from the decision to run one to the commands that follow from it."""

from __future__ import annotations

from typing import Any

from roundel.kernel.activation import Activation, Instance, LoopRecord
from roundel.kernel.agenda import ERRANDS, OPEN, PARTS
from roundel.kernel.budget import model_call, refused, reserve, shown, take_step
from roundel.kernel.commands import Ask, Call, Command, Review
from roundel.kernel.completion import conclude
from roundel.kernel.events import Event
from roundel.kernel.execution import Execution, Expansion, Performance, Talk
from roundel.kernel.expand import collected, due, expand
from roundel.kernel.locking import lock
from roundel.kernel.loops import begin
from roundel.kernel.queue import admit, retained
from roundel.kernel.review import BEFORE, ask
from roundel.kernel.state import Run
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.message import Message

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
