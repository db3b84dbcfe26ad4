"""Messages on edges: which edges a node's messages take, and how dynamic edges split them into parts.

Walking. For each message and each edge, in the order of the file: port, condition, clear the target's
queue, copy (role, source, keep), process, append, mark the target as triggered. A message that a
processor drops triggers nothing, though its edge may still clear the target's queue.

Conditions and processors on edges are either built in, and evaluated here through `run.decisions`, so
that a replay does not depend on the pattern or CEL library; or they are functions of users, which the
host has called before (`pairs_to_evaluate`, then `edge_results`).

Parts. A node behind a dynamic edge runs once for each part of what the edge brought. `map` runs it on
each part, and the outputs are in the order of the parts. `tree` runs it on groups of parts, then on
groups of their outputs, until one message is left. Parts run in parallel up to `max_parallel`, but no
result depends on their timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from roundel.kernel.facts import DecisionError, DecisionMismatch, EdgeResult, Outcome
from roundel.kernel.loops import leave_loops
from roundel.kernel.queue import Delivery, arrive
from roundel.kernel.state import EdgeWalk, Execution, Expansion, Run
from roundel.plan.graph import EdgePlan
from roundel.workflow.evaluation_budget import evaluation_budget
from roundel.workflow.fan_out import RegexSplit, Split, SplitError
from roundel.workflow.message import Message
from roundel.workflow.node_type import ERROR_PORT
from roundel.workflow.pattern import PatternError
from roundel.workflow.processor import MessageProcessor

EdgeResults = Mapping[tuple[int, int], EdgeResult]
"""The results of the functions of users, by edge and number of the message."""


class EdgeError(Exception):
    """A condition, processor or split failed; `step` fails the execution whose output was walking."""

    def __init__(self, execution: Execution, text: str, edge: int = -1) -> None:
        super().__init__(text)
        self.execution, self.edge = execution, edge
        self.walk: EdgeWalk | None = None
        """How far the messages came before; set by those who send them."""
        self.inputs: tuple[Message, ...] | None = None
        """The input of the node, if it could not be split into parts."""


def walk(
    run: Run,
    execution: Execution,
    outcome: Outcome,
    edge_results: EdgeResults | None,
    rest: tuple[int, Sequence[Message], Sequence[tuple[EdgePlan, int]]] | None = None,
) -> None:
    """Sends the messages of one outcome along the edges of its node.

    `edge_results` are the answers of functions of users, numbered from this outcome's first message. With
    `rest`, only these messages are sent, of which the first has this number, along these edges.
    """
    port, stay, number, messages = outcome.port, outcome.stay, 0, outcome.messages
    unit, instance = execution.unit, execution.activation.instance
    begins = unit.begins
    out: Sequence[tuple[EdgePlan, int]] = unit.ordinary
    if port is not None:
        out = unit.explicit.get(port, out)
    if rest is not None:
        number, messages, out = rest  # type: ignore[assignment]
    try:
        for message in messages:
            for edge, loops in out:
                # `stay` restricts the messages to targets inside the loop; `loops` is how many loops the
                # edge leaves.
                if (edge.port is not None and edge.port != port) or (stay and loops):
                    continue
                # No condition, no processor, and the only edge into its target: the message can go into
                # the queue directly, without a key. Most edges are like this.
                if edge.simple:
                    instance.fired[edge.index] = 1
                    instance.queues[edge.target].append(copy_for_edge(edge, message))
                else:
                    edge_result = edge_results.get((edge.index, number)) if edge_results else None
                    if not _passes(run, execution, edge, message, edge_result):
                        continue
                if edge.trigger:
                    instance.marks[edge.target] = 1
                    if begins and edge.index in begins:
                        _note_trigger(execution, edge)
                    if loops:
                        leave_loops(execution.activation, unit, loops, edge.source_id, outcome)
            number += 1
    except EdgeError as error:
        error.walk = EdgeWalk((outcome,), None, 0, number, error.edge)
        raise


def _note_trigger(execution: Execution, edge: EdgePlan) -> None:
    """Notes whose edge has marked the node at which a round of a loop begins."""
    known = execution.activation.instance.triggers.setdefault(edge.target, [])
    if execution.address not in known:
        known.append(execution.address)


def continue_walk(
    run: Run, execution: Execution, outcome: Outcome, edge_results: EdgeResults | None, at: EdgeWalk
) -> None:
    """Sends the rest of an outcome, beginning with the edge that failed."""
    unit, first, messages = execution.unit, at.message, outcome.messages
    out = unit.ordinary if outcome.port is None else unit.edges_for(outcome.port)
    left = [pair for pair in out if pair[0].index >= at.edge]
    walk(run, execution, outcome, edge_results, (first, messages[first : first + 1], left))
    walk(run, execution, outcome, edge_results, (first + 1, messages[first + 1 :], out))


def find_deliveries(
    run: Run, execution: Execution, outcome: Outcome, edge_results: EdgeResults | None
) -> tuple[Delivery, ...]:
    """What the edges of a node would carry of an outcome, without sending it."""
    found: list[Delivery] = []
    assert outcome.port is not None
    for number, message in enumerate(outcome.messages):
        for edge, loops in execution.unit.edges_for(outcome.port):
            edge_result = edge_results.get((edge.index, number)) if edge_results else None
            if _fires(run, execution, edge, message, edge_result):
                carried = _process_message(run, execution, edge, message, edge_result) if edge.carry else None
                found.append((edge, loops, carried, carried is not None or not edge.carry))
    return tuple(found)


def deliver(execution: Execution, outcome: Outcome, deliveries: Sequence[Delivery]) -> None:
    """Sends what `find_deliveries` found."""
    activation, unit = execution.activation, execution.unit
    instance = activation.instance
    for edge, loops, message, fires in deliveries:
        if message is not None or edge.clear or edge.clear_kept:
            _enqueue(execution, edge, message)
        if not fires:
            continue
        instance.fired[edge.index] = 1
        if edge.trigger:
            instance.marks[edge.target] = 1
            if edge.index in unit.begins:
                _note_trigger(execution, edge)
            if loops:
                leave_loops(activation, unit, loops, edge.source_id, outcome)


def pairs_to_evaluate(run: Run, execution: Execution, outcomes: Sequence[Outcome]) -> list[tuple[int, int]]:
    """The (edge, message) pairs that the functions of users have to see.

    A pair is left out if a built-in condition on the same edge already rules it out.
    """
    pairs, number = [], 0
    for outcome in outcomes:
        unit = execution.unit
        out = unit.ordinary if outcome.port is None else unit.edges_for(outcome.port)
        for message in outcome.messages:
            for edge, loops in out:
                if not edge.has_host_functions or not _is_open(edge, loops, outcome):
                    continue
                if edge.condition_function is not None or _fires(run, execution, edge, message, None):
                    pairs.append((edge.index, number))
            number += 1
    return pairs


def _is_open(edge: EdgePlan, loops: int, outcome: Outcome) -> bool:
    return edge.port in (None, outcome.port) and not (outcome.stay and loops)


def _fires(
    run: Run, execution: Execution, edge: EdgePlan, message: Message, edge_result: EdgeResult | None
) -> bool:
    if edge_result is not None and edge.condition_function is not None:
        return edge_result.fires
    if edge.test is None:
        return True
    try:
        # `expression_values` is passed as a function: only expressions need the variables, and they cost
        # time.
        return run.decisions.record_or_replay(edge.test, message, execution.activation.expression_values)  # type: ignore[no-any-return]
    except DecisionMismatch:
        raise  # the journal is damaged, which is no failure of the condition
    except Exception as error:
        raise EdgeError(execution, f"the condition on {edge.edge} failed: {error}", edge.index) from error


class TriedEdge(NamedTuple):
    """What an edge would do with a message. `try_edges` creates it."""

    edge: EdgePlan
    loops: int
    """How many loops it leaves."""
    fires: bool
    error: str = ""
    """Why this is not known: the condition or the processor failed, or is a function of the user."""


def try_edges(execution: Execution, message: Message) -> list[TriedEdge]:
    """Which edges of a node a message would take that leaves by no port. Sends nothing, records nothing, and
    calls no function of users."""
    with evaluation_budget():
        return _try_edges(execution, message)


def _try_edges(execution: Execution, message: Message) -> list[TriedEdge]:
    found = []
    for edge, loops in execution.unit.out:
        fires, error = edge.port is None, ""
        function = edge.condition_function or edge.processor_function
        try:
            if fires and edge.test is not None:
                fires = edge.test(message, execution.activation.expression_values)
            if fires and edge.carry and edge.process is not None:
                fires = edge.process(copy_for_edge(edge, message)) is not None
            if fires and function is not None:
                fires, error = False, f"'{function}' is a Python function, which only the run calls"
        except Exception as failure:
            fires, error = False, str(failure) or type(failure).__name__
        found.append(TriedEdge(edge, loops, fires, error))
    return found


def _passes(
    run: Run, execution: Execution, edge: EdgePlan, message: Message, edge_result: EdgeResult | None
) -> bool:
    """Takes a message along an edge; False if the edge does not fire or a processor drops the
    message."""
    if not _fires(run, execution, edge, message, edge_result):
        return False
    carried = _process_message(run, execution, edge, message, edge_result) if edge.carry else None
    if carried is not None or edge.clear or edge.clear_kept:
        _enqueue(execution, edge, carried)
    if carried is None and edge.carry:
        return False
    execution.activation.instance.fired[edge.index] = 1
    return True


def _enqueue(execution: Execution, edge: EdgePlan, message: Message | None) -> None:
    """Queues a message at its target: directly if no other edge leads there, else with its key
    (queue.py)."""
    activation, unit = execution.activation, execution.unit
    instance = activation.instance
    if edge.direct:
        arrive(instance.queues[edge.target], edge, message)
    else:
        key = (*activation.key, unit.layer, unit.position)
        instance.arrivals[edge.target].append((key, edge, message))


def _process_message(
    run: Run, execution: Execution, edge: EdgePlan, message: Message, edge_result: EdgeResult | None
) -> Message | None:
    if edge_result is not None and edge.processor_function is not None:
        return edge_result.result
    carried = copy_for_edge(edge, message)
    if edge.process is None:
        return carried
    try:
        decided = run.decisions.record_or_replay(_processed_decision, edge.process, carried)
    except DecisionMismatch:
        raise
    except Exception as error:
        raise EdgeError(execution, f"the processor on {edge.edge} failed: {error}", edge.index) from error
    # A decision must be JSON and small, so `_processed_decision` stores only the change; it is undone
    # here.
    if decided is None or decided is True:
        return carried if decided else None
    if isinstance(decided, str):
        return msgspec.structs.replace(carried, content=decided)
    return msgspec.convert(decided[0], Message)


def _processed_decision(process: MessageProcessor, message: Message) -> bool | str | list[Any] | None:
    """Calls a processor and returns its result in the shortest form.

    None if it drops the message, True if the message is unchanged, a text if only the content is new,
    otherwise the whole message in a list (a mapping would stand for an exception, see facts.py).
    """
    result = process(message)
    if result is None or result is message:
        return None if result is None else True
    content = result.content
    if isinstance(content, str) and result == msgspec.structs.replace(message, content=content):
        return content
    return [msgspec.to_builtins(result)]


def copy_for_edge(edge: EdgePlan, message: Message) -> Message:
    metadata = message.metadata
    return Message(
        message.content,
        message.role if message.preserve_role else edge.role,
        message.data,
        {"source": edge.source_id} if metadata is None else {**metadata, "source": edge.source_id},
        edge.keep,
        message.preserve_role,
        edge.dynamic,
    )


MAX_LAYERS = 100
"""A node that returns as many messages as it gets would never finish a `tree`; this many layers are
enough for any real one, since each divides the number of messages by the group size."""
Part = tuple[int, str, tuple[Message, ...]]
"""A part to start: its number, its address, its input."""


class ExpansionError(Exception):
    """The layers of a `tree` do not converge to one message."""


def expand(run: Run, execution: Execution, inputs: tuple[Message, ...]) -> Expansion:
    """Splits the dynamic messages among the inputs; all other inputs go to every part of the first
    layer."""
    edge = _edge(execution)
    dynamic = edge.edge.dynamic
    assert dynamic is not None
    shared = tuple(message for message in inputs if not message.dynamic)
    try:
        parts = [
            msgspec.structs.replace(part, dynamic=False)
            for message in inputs
            if message.dynamic
            for part in _parts(run, dynamic.split, message)
        ]
    except (DecisionError, PatternError, SplitError) as error:
        failure = EdgeError(execution, f"the split on {edge.edge} failed: {error}")
        failure.inputs = inputs
        raise failure from error
    # A guard has state: its parts run one after the other, or its count would depend on timing.
    width = 1 if execution.node.kind.guard else dynamic.max_parallel
    expansion = Expansion(execution, dynamic, shared, width)
    _group(expansion, parts)
    return expansion


def _parts(run: Run, split: Split, message: Message) -> list[Message]:
    """The parts of a message. Where a pattern splits it, the result is a stored decision."""
    if not isinstance(split, RegexSplit):
        return split.parts(message)
    texts = run.decisions.record_or_replay(split.texts, message)
    return split.split_into(message, texts)


def _edge(execution: Execution) -> EdgePlan:
    """A dynamic edge into the node; if there are several, the loader ensures that their settings are
    equal."""
    plan = execution.activation.instance.plan
    target = execution.node.index
    return next(edge for edge in plan.edges if edge.target == target and edge.dynamic)


def _group(expansion: Expansion, parts: list[Message]) -> None:
    """Begins the next layer: groups of `group_size` for a `tree`, single parts for a `map`."""
    size = expansion.dynamic.group_size if expansion.dynamic.type == "tree" else 1
    first = expansion.shared if expansion.layer == 0 else ()
    expansion.layer += 1
    expansion.groups = [(*first, *parts[at : at + size]) for at in range(0, len(parts), size)]
    expansion.outcomes = [None] * len(expansion.groups)
    expansion.started = 0


def startable_parts(expansion: Expansion) -> Iterator[Part]:
    """Yields the parts that may start now, and counts each as started."""
    in_flight = expansion.outcomes[: expansion.started].count(None)
    while expansion.started < len(expansion.groups) and in_flight < expansion.width:
        number = expansion.started
        expansion.started += 1
        in_flight += 1
        yield number, _address(expansion, number), expansion.groups[number]


def _address(expansion: Expansion, number: int) -> str:
    layer = f"{expansion.layer}." if expansion.dynamic.type == "tree" else ""
    return f"{expansion.execution.address}#{layer}{number + 1}"


def record_part(expansion: Expansion, number: int, outcome: Outcome) -> list[Outcome] | None:
    """Stores the outcome of a part; returns the outcomes of the node once no part is left."""
    expansion.outcomes[number] = outcome
    return collect_outcomes(expansion)


def collect_outcomes(expansion: Expansion) -> list[Outcome] | None:
    """The outcomes of the node as a whole; None while parts or further layers of a tree remain."""
    if None in expansion.outcomes:
        return None
    outcomes = [outcome for outcome in expansion.outcomes if outcome is not None]
    if expansion.dynamic.type == "map":
        return outcomes
    # A group of a `tree` that failed leaves nothing to combine: only the failures leave the node.
    failed = [outcome for outcome in outcomes if outcome.port == ERROR_PORT]
    if failed:
        return failed
    messages = [message for outcome in outcomes for message in outcome.messages]
    # One group was the last layer, also if it returned several messages: the node has combined all it
    # got.
    if len(messages) <= 1 or len(outcomes) == 1:
        return outcomes
    if expansion.layer >= MAX_LAYERS:
        raise ExpansionError(
            f"the tree did not come together in {MAX_LAYERS} layers; {len(messages)} messages are left"
        )
    _group(expansion, [msgspec.structs.replace(message, role="user") for message in messages])
    return None
