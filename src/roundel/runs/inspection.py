"""What a debugger shows of a run: which nodes are ready and why, what the others wait for, the messages
in the queues, and how far each guard is from its limit.

`inspect_run` computes all of it from the state of the run, which it does not change. It works for a run in
any state; only in a paused or locked run does the picture stay true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from roundel.hosts.control import Question, open_questions
from roundel.kernel.commands import Ask
from roundel.kernel.debugging import (
    StopPoint,
    WaitingQueue,
    find_stop,
    live_activations,
    message_version,
    ready_stops,
    waiting_queues,
)
from roundel.kernel.events import RunStatus
from roundel.kernel.payloads import GuardState, LoopPosition
from roundel.kernel.progress import guard_states, loop_positions, nearest_first
from roundel.kernel.state import (
    NEXT_ROUND,
    START_CALLS,
    Activation,
    CompositeRun,
    Run,
    ToolLoop,
    order_key,
)
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.message import Message


class WaitingMessage(Struct, frozen=True):
    """A message in the queue of a node."""

    position: int
    """Its number in the queue, from 0."""
    version: str
    """Changes with its content; an edit names it, so that two people do not overwrite each other."""
    role: str
    """`user`, `assistant` or `system`."""
    source: str
    """The id of the node that sent it."""
    text: str
    """Its text."""
    data: dict[str, Any] | None = None
    """Its structured fields."""
    keep: bool = False
    """Whether it stays in the queue for later runs of the node."""


class NodeQueue(Struct, frozen=True):
    """The messages that wait at a node."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    node_id: str
    """The id of the node."""
    messages: tuple[WaitingMessage, ...]
    """The messages, the oldest first."""


class ReadyNode(Struct, frozen=True):
    """A node, or a round of tools, that the next steps start, in this order."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    node_id: str
    """The id of the node."""
    type: str
    """The type of the node."""
    why: str
    """Why it is ready."""
    breakpoints: tuple[str, ...] = ()
    """The breakpoints that the run has reached here."""
    messages: tuple[WaitingMessage, ...] = ()
    """What it will receive."""
    calls: tuple[str, ...] = ()
    """The calls of a round of tools."""


class BlockedNode(Struct, frozen=True):
    """A node that is not ready, and what it waits for."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    node_id: str
    """The id of the node."""
    type: str
    """The type of the node."""
    waits_for: tuple[str, ...]
    """The ids of the nodes, or of the entries of loops, that have to settle first."""
    is_triggered: bool
    """Whether it would run then; otherwise an edge has to trigger it."""


class BreakpointState(Struct, frozen=True):
    """A breakpoint of a run, and how often it was reached."""

    text: str
    """The breakpoint as it was set."""
    hits: int = 0
    """How often it was reached."""
    problem: str = ""
    """Why its condition could not be evaluated, the first time."""


class RunInspection(Struct, frozen=True):
    """The state of a run, for a debugger. Created by `Runs.debug`."""

    run_id: str
    """The id of the run."""
    workflow: str
    """The name of the workflow."""
    status: RunStatus
    """The status of the run."""
    seq: int
    """The number of the last event."""
    reason: str
    """Why it is paused; empty if it is not."""
    stopped_at: str
    """The address at which a breakpoint or a step paused it."""
    breakpoint: str
    """The breakpoint that paused it."""
    loops: tuple[LoopPosition, ...]
    """The loops that are running, outer ones first."""
    ready: tuple[ReadyNode, ...]
    """What the next steps start, in this order."""
    blocked: tuple[BlockedNode, ...]
    """The nodes that wait for others."""
    in_flight: tuple[str, ...]
    """The addresses of calls that a resumed run makes or awaits."""
    questions: tuple[Question, ...]
    """The questions that wait for a person."""
    queues: tuple[NodeQueue, ...]
    """The messages that wait at nodes."""
    guards: tuple[GuardState, ...]
    """The nearest one first."""
    breakpoints: tuple[BreakpointState, ...]
    """The breakpoints of the run."""
    variables: dict[str, Any]
    """The variables that expressions read, with secrets masked."""
    state: dict[str, Any] = {}
    """The values that nodes share."""


def inspect_run(run: Run) -> RunInspection:
    """The picture of a run between two steps."""
    assert run.status != "new"
    pause = run.pause_details() if run.status == "paused" else {}
    activations = live_activations(run)
    queues = list(waiting_queues(run))
    return RunInspection(
        run.run_id,
        run.plan.workflow.name,
        run.status,
        run.seq,
        pause.get("reason", ""),
        pause.get("address", ""),
        pause.get("breakpoint", ""),
        tuple(loop_positions(run, activations)),
        tuple(_ready(run)),
        tuple(_blocked(run, activations)),
        tuple(sorted(address for address, call in run.calls.items() if not isinstance(call.command, Ask))),
        tuple(open_questions(run).values()),
        tuple(
            NodeQueue(queue.address, queue.node.id, messages)
            for queue in sorted(queues, key=_queue_order)
            if (messages := waiting(queue.messages))
        ),
        tuple(nearest_first(guard_states(run, activations))),
        tuple(breakpoint_states(run)),
        dict(run.plan.graph.vars),
    )


def breakpoint_states(run: Run) -> list[BreakpointState]:
    """The breakpoints of a run, in the order in which they were set."""
    debug = run.debug
    if debug is None:
        return []
    return [
        BreakpointState(text, debug.hits.get(text, 0), debug.problems.get(text, ""))
        for text in map(str, debug.breakpoints)
    ]


def waiting(messages: Iterable[Message]) -> tuple[WaitingMessage, ...]:
    return tuple(
        WaitingMessage(
            position,
            message_version(message),
            message.role,
            message.source,
            message.text,
            message.data,
            message.keep,
        )
        for position, message in enumerate(messages)
    )


def _queue_order(queue: WaitingQueue) -> tuple[Any, ...]:
    """The order of steps, across subgraphs and rounds that run in parallel."""
    unit = queue.unit
    place = (unit.layer, unit.position) if unit is not None else (1 << 30, queue.node.index)
    return *order_key(queue.activation), *place


# Ready nodes.


def _ready(run: Run) -> Iterator[ReadyNode]:
    reached = run.debug.reached if run.debug is not None else {}
    for stop in ready_stops(run):
        yield _ready_node(stop, reached.get(stop.address, ()))
    # An ordinary pause also holds back what leads to nodes; a step decides it first.
    for item, index in run.held:
        if find_stop(item, index) is None and (pending := _pending(item, index)) is not None:
            yield pending


def _ready_node(stop: StopPoint, hits: tuple[str, ...]) -> ReadyNode:
    node, activation = stop.node, stop.activation
    if stop.tool_loop is not None:
        calls = tuple(call.label for call in stop.tool_loop.pending if call.label)
        why = f"the model of '{node.id}' requested tools"
        return ReadyNode(stop.address, node.id, node.kind.name, why, hits, calls=calls)
    messages = waiting(WaitingQueue(stop.address, node, activation, stop.unit).messages)
    return ReadyNode(stop.address, node.id, node.kind.name, _why(stop, messages), hits, messages)


def _why(stop: StopPoint, messages: tuple[WaitingMessage, ...]) -> str:
    activation, node = stop.activation, stop.node
    sources = dict.fromkeys(message.source for message in messages if message.source)
    entry = activation.scope.entry == node.index and activation.parent is not None
    begins = f"round {activation.round} of '{activation.name}' begins" if entry else ""
    if sources:
        named = " and ".join(f"'{source}'" for source in sources)
        return f"{begins}, with messages from {named}" if begins else f"it has messages from {named}"
    if messages:
        return f"{begins}, with the input" if begins else "it has the input of its graph"
    return begins or "an edge without a message triggered it"


def _pending(item: Any, index: int) -> ReadyNode | None:
    """What a held entry leads to that is no node yet."""
    if isinstance(item, Activation) and index == NEXT_ROUND:
        node = item.instance.plan.nodes[item.scope.entry or 0]
        address = f"{item.stem}{item.round + 1}]"
        return ReadyNode(address, node.id, node.kind.name, "the next round may begin")
    if isinstance(item, Activation) and index >= 0:
        unit: Unit = item.scope.units[index]
        names = ", ".join(f"'{item.instance.plan.nodes[member].id}'" for member in unit.members)
        marked = [member for member in unit.members if item.instance.marks[member]]
        if unit.node is None and marked:
            node = item.instance.plan.nodes[marked[0]]
            address = f"{item.outer}{node.label}[1]"
            return ReadyNode(address, node.id, node.kind.name, f"the loop of {names} may be entered")
        return None  # it will be skipped
    if isinstance(item, (CompositeRun, ToolLoop)):
        execution = item.execution
        why = "its next calls may start" if index == START_CALLS else "its next rounds may start"
        return ReadyNode(execution.address, execution.node.id, execution.node.kind.name, why)
    return None


# What the others wait for.


def _blocked(run: Run, activations: list[Activation]) -> Iterator[BlockedNode]:
    unsettled: dict[int, set[int]] = {id(activation): set() for activation in activations}
    for call in run.calls.values():
        unsettled[id(call.activation)].add(call.unit.index)
    for item, index in run.held:
        if isinstance(item, Activation) and index >= 0:
            unsettled[id(item)].add(index)
        elif isinstance(item, (CompositeRun, ToolLoop)):
            unsettled[id(item.execution.activation)].add(item.execution.unit.index)
    for activation in activations:
        caller = activation.instance.caller
        if activation.parent is not None and activation.unit is not None:
            unsettled[id(activation.parent)].add(activation.unit.index)
        elif caller is not None:
            unsettled[id(caller.activation)].add(caller.unit.index)
        unsettled[id(activation)].update(number for number, left in enumerate(activation.waits) if left)
    for activation in activations:
        yield from _blocked_in(activation, unsettled[id(activation)])


def _blocked_in(activation: Activation, unsettled: set[int]) -> Iterator[BlockedNode]:
    units, nodes = activation.scope.units, activation.instance.plan.nodes
    before: dict[int, list[int]] = {}
    for number in sorted(unsettled):
        for follower in units[number].successors:
            before.setdefault(follower, []).append(number)
    for number, left in enumerate(activation.waits):
        unit = units[number]
        if not left or unit.node is None:
            continue
        names = tuple(_unit_name(units[earlier], nodes) for earlier in before.get(number, ()))
        marked = bool(activation.instance.marks[unit.node.index])
        address = activation.prefix + unit.node.label
        yield BlockedNode(address, unit.node.id, unit.node.kind.name, names, marked)


def _unit_name(unit: Unit, nodes: tuple[NodePlan, ...]) -> str:
    return unit.node.id if unit.node is not None else nodes[unit.members[0]].id
