"""Debugging: breakpoints, single steps, and the messages that wait while a run is paused.

A *stop* is a place where a run can pause: before a node starts, and before a round of tools of an agent.
A node with dynamic edges is one stop, however many parts it has. A composite node or a subgraph is a stop,
and so is every node inside it; people are nodes like any other.

While somebody debugs a run, `Run.debug` exists, which takes the run off the fast path: each entry of the
ready queue then passes `holds_back`, and a stop stays in `run.held` in one of these cases:

    the run is paused              by a breakpoint, a step, or a person; one place may pass: the one that
                                   the current step is for
    a breakpoint matches           which pauses the run
    a step to the next round ends  the place is in a later round of the loop, or the loop is over

Everything else proceeds also while the run is paused: loops are entered, rounds begin, nodes that nothing
triggered are skipped. None of it calls anything, and the person sees which nodes really are ready. (An
ordinary pause defers all of it, as it has to be cheap and need not be inspected.)

A place is examined once. Breakpoints that are set later do not count for a place that the run has already
reached: whoever sees that a node is ready, sets a breakpoint on it and resumes does not want to stop there
again. So a resumed run passes everything that was held.

Nothing here changes what happens, only when: each place is passed in an order that the results of calls
could have caused as well, and the trace of a run does not depend on that order. Conditions of breakpoints
are decisions (facts.py). One that cannot be evaluated counts as false; the first error is a `warning`
event, since a condition that never works is easily mistaken for one that never holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from roundel.kernel.dead_loop import SHOWN
from roundel.kernel.facts import WaitingEdited
from roundel.kernel.payloads import MessageEdited, Warned
from roundel.kernel.queue import Key, peek
from roundel.kernel.state import (
    START_CALLS,
    Activation,
    DebugState,
    GraphInstance,
    RoundStep,
    Run,
    ToolLoop,
    order_key,
)
from roundel.plan.graph import NodePlan
from roundel.plan.scope import Unit
from roundel.workflow.address import innermost_round, is_in_round, is_round, round_in
from roundel.workflow.breakpoints import BREAKPOINT_NAMES, Breakpoint, address_pattern
from roundel.workflow.expression import Expression
from roundel.workflow.message import Message

BREAKPOINT, STEP = "breakpoint", "step"
"""Reasons of a pause."""


class StopPoint(NamedTuple):
    """A place where a run can pause. `find_stop` creates it."""

    address: str
    """Of the node; for a round of tools, that of the round."""
    node: NodePlan
    activation: Activation
    unit: Unit
    tool_loop: ToolLoop | None = None
    """The tool loop, before one of its rounds of tools."""

    @property
    def order(self) -> Key:
        """Its place in the order of steps: by layer, then by the order of the file."""
        return (*order_key(self.activation), self.unit.layer, self.unit.position)


def find_stop(item: Any, index: int) -> StopPoint | None:
    """The stop that an entry of the ready queue leads to; None if it starts no node.

    The calls of a tool round may come in several batches, if people have to approve some of them; only the
    first one is a stop."""
    if index >= 0:
        activation: Activation = item
        unit = activation.scope.units[index]
        node = unit.node
        if node is None or not activation.instance.marks[node.index] or is_left(activation, unit):
            return None
        return StopPoint(activation.prefix + node.label, node, activation, unit)
    if index == START_CALLS:
        tool_loop: ToolLoop = item
        number = tools_round(tool_loop)
        if number > tool_loop.stopped_round:
            execution = tool_loop.execution
            address = f"{tool_loop.stem}{number}]"
            return StopPoint(address, execution.node, execution.activation, execution.unit, tool_loop)
    return None


def is_left(activation: Activation, unit: Unit) -> bool:
    """Whether a unit does not run any more, since its loop was left in an earlier layer."""
    return activation.exit_layer is not None and unit.layer > activation.exit_layer


def tools_round(tool_loop: ToolLoop) -> int:
    """The number of the round of tools that is about to start; 0 if the next call is to the model."""
    return next((call.round for call in tool_loop.pending if call.label), 0)


def start_debugging(run: Run) -> DebugState:
    """Makes the run pass every stop by `holds_back` from now on."""
    if run.debug is None:
        run.debug = DebugState()
        run.fast_path = False
    return run.debug


def change_breakpoints(run: Run, add: tuple[Breakpoint, ...], remove: tuple[Breakpoint, ...] = ()) -> None:
    """Removes and adds breakpoints; the run returns to the fast path if none is left and it is not
    paused."""
    if not (add or remove):
        return
    debug = start_debugging(run)
    known = {str(breakpoint): breakpoint for breakpoint in debug.breakpoints}
    for text in map(str, remove):
        for record in (known, debug.hits, debug.problems, debug.rounds_hit):
            record.pop(text, None)
    for breakpoint in add:
        known.setdefault(str(breakpoint), breakpoint)
    debug.breakpoints = list(known.values())
    if not run.paused:
        end_debugging(run)


def end_debugging(run: Run) -> None:
    """Returns to the fast path if there is no breakpoint and no step in progress."""
    debug = run.debug
    if debug is not None and not debug.breakpoints and debug.until is None:
        run.debug = None
        run.update_fast_path()


def holds_back(run: Run, item: Any, index: int) -> bool:
    """Whether an entry of the ready queue has to stay in `run.held`, since the run pauses there."""
    debug, stop = run.debug, find_stop(item, index)
    if debug is None or stop is None:
        return False
    if stop.address == debug.stepping:
        debug.stepping = ""
        _pass(debug, stop)
        return False
    if stop.address not in debug.reached:
        debug.reached[stop.address] = hits = _hits(run, debug, stop)
        if hits and run.paused in ("", STEP):
            _pause(run, BREAKPOINT, stop.address, hits[0])
        elif not run.paused and debug.until is not None and _ends_at(debug.until, stop):
            _pause(run, STEP, stop.address)
    if run.paused:
        return True
    _pass(debug, stop)
    return False


def _pass(debug: DebugState, stop: StopPoint) -> None:
    debug.reached.pop(stop.address, None)
    if stop.tool_loop is not None:
        stop.tool_loop.stopped_round = tools_round(stop.tool_loop)


def _pause(run: Run, reason: str, address: str, breakpoint: str = "") -> None:
    assert run.debug is not None
    run.paused = reason
    run.debug.stopped_at = (address, breakpoint)
    run.debug.until = None


def stays_reached(run: Run, address: str) -> None:
    """A node that passed its stop did not fit into a budget. It is decided again after the unlock, and must
    not stop a second time."""
    if run.debug is not None:
        run.debug.reached[address] = ()


# Breakpoints.


def _hits(run: Run, debug: DebugState, stop: StopPoint) -> tuple[str, ...]:
    """The breakpoints that match a stop, by their texts; counts them."""
    found = []
    for breakpoint in debug.breakpoints:
        matches = _holds(run, debug, breakpoint, stop) if breakpoint.cel else _is_at(debug, breakpoint, stop)
        if matches:
            found.append(str(breakpoint))
            debug.hits[found[-1]] = debug.hits.get(found[-1], 0) + 1
    return tuple(found)


def _is_at(debug: DebugState, breakpoint: Breakpoint, stop: StopPoint) -> bool:
    at, node = breakpoint.at, stop.node
    if stop.tool_loop is None and at in (node.id, node.label):
        return True
    found = address_pattern(at).search(stop.address)
    if found is None:
        return False
    if found.end() == len(stop.address):
        return True
    # The stop is inside what the breakpoint names. If that is a round, its first node is where it begins.
    if not is_round(at):
        return False
    rounds, address = debug.rounds_hit.setdefault(at, []), stop.address[: found.end()]
    if address in rounds:
        return False
    rounds.append(address)
    return True


@lru_cache(maxsize=256)
def _condition(source: str) -> Expression:
    return Expression(source, BREAKPOINT_NAMES)


def _holds(run: Run, debug: DebugState, breakpoint: Breakpoint, stop: StopPoint) -> bool:
    """Whether the condition of a breakpoint is true before a node. Rounds of tools have breakpoints on
    rounds."""
    if stop.tool_loop is not None:
        return False
    try:
        holds: bool = run.decisions.record_or_replay(_evaluate, breakpoint.cel, stop)
    except Exception as error:  # in a replay it is a DecisionError
        if str(breakpoint) not in debug.problems:
            debug.problems[str(breakpoint)] = str(error)
            message = f"the condition of a breakpoint counts as false where it fails: {error}"
            run.emit(Warned(message, "breakpoint"), stop.node.id, stop.address)
        return False
    return holds


def _evaluate(source: str, stop: StopPoint) -> bool:
    messages = waiting_messages(stop.activation, stop.unit, stop.node)
    last = messages[-1] if messages else Message()
    values = {
        **stop.activation.expression_values(),
        "node": stop.node.id,
        "address": stop.address,
        "text": last.text,
        "data": last.data or {},
        "state": {},
    }
    return _condition(source).holds(values)


# Steps.


def ready_stops(run: Run) -> list[StopPoint]:
    """The stops among the held entries, in the order in which steps take them."""
    stops = [stop for item, index in run.held if (stop := find_stop(item, index)) is not None]
    return sorted(stops, key=lambda stop: (stop.order, stop.address))


def begin_step(run: Run, stop: StopPoint) -> None:
    """Lets one place pass, although the run is paused."""
    assert run.debug is not None
    run.debug.stepping = stop.address


def begin_round_step(run: Run, address: str) -> None:
    """Lets the run continue to the next round of the innermost loop around an address.

    Outside of any loop it continues to the first round of the next loop. Rounds that run in parallel have
    begun already: the next round is one after all of them."""
    assert run.debug is not None
    stem, round_ = innermost_round(address)
    if stem:
        addresses = (*run.calls, *(stop.address for stop in ready_stops(run)))
        begun = [round_in(stem, other) for other in addresses]
        round_ = max(round_, *begun)
    run.debug.until = RoundStep(stem, round_)
    run.paused = ""


def _ends_at(until: RoundStep, stop: StopPoint) -> bool:
    if until.over:
        return True
    if not until.stem:
        return is_in_round(stop.address)
    return round_in(until.stem, stop.address) > until.round


def loop_ended(run: Run, stem: str) -> None:
    """A loop has ended, or a graph with the loops whose addresses begin with `stem`. A step to its next
    round ends before the next node."""
    debug = run.debug
    if debug is not None and debug.until is not None and debug.until.stem.startswith(stem):
        debug.until = msgspec.structs.replace(debug.until, over=True)


def forget_passed(run: Run) -> None:
    """Forgets places that are not held any more: their graph was cancelled."""
    if run.debug is not None:
        held = {stop.address for stop in ready_stops(run)}
        run.debug.reached = {address: hits for address, hits in run.debug.reached.items() if address in held}


# Messages that wait.


def waiting_messages(activation: Activation, unit: Unit | None, node: NodePlan) -> list[Message]:
    """The messages that a node would take if it ran now; all that wait there, without its unit."""
    instance, index = activation.instance, node.index
    before = (
        (*activation.key, unit.layer, unit.position) if unit is not None and node.has_data_input else None
    )
    return peek(instance.queues[index], instance.arrivals[index], before)


class WaitingQueue(NamedTuple):
    """A node at which messages may wait. `waiting_queues` creates it."""

    address: str
    node: NodePlan
    activation: Activation
    unit: Unit | None
    """None for a node of a loop that is not running."""

    @property
    def messages(self) -> list[Message]:
        return waiting_messages(self.activation, self.unit, self.node)


def waiting_queues(run: Run) -> Iterator[WaitingQueue]:
    """The nodes of all graphs that are running, with their addresses in the current round."""
    places: dict[tuple[int, int], tuple[Activation, Unit | None]] = {}
    # Outer scopes come first, so that a loop that is running replaces what the scope around it knows of
    # its nodes.
    for activation in live_activations(run):
        instance = id(activation.instance)
        for each in activation.scope.units:
            if each.node is not None:
                places[instance, each.node.index] = (activation, each)
            else:
                places.update(((instance, member), (activation, None)) for member in each.members)
    for (_, index), (activation, unit) in places.items():
        node = activation.instance.plan.nodes[index]
        yield WaitingQueue(activation.prefix + node.label, node, activation, unit)


def live_activations(run: Run) -> list[Activation]:
    """The scopes that are running, outer ones before those inside them."""
    found: dict[int, Activation] = {}
    inner = [call.activation for call in run.calls.values()]
    inner += [activation for item, _ in run.held if (activation := _activation_of(item)) is not None]
    for activation in inner:
        chain = []
        around: Activation | None = activation
        while around is not None and id(around) not in found:
            chain.append(around)
            caller = around.instance.caller
            outside = caller.activation if caller is not None else None
            around = around.parent if around.parent is not None else outside
        found.update((id(one), one) for one in reversed(chain))
    return list(found.values())


def _activation_of(item: Any) -> Activation | None:
    if isinstance(item, Activation):
        return item
    if isinstance(item, tuple):  # a body that ended early
        instance: GraphInstance = item[0]
        return instance.caller.activation if instance.caller is not None else None
    activation: Activation = item.execution.activation
    return activation


def message_version(message: Message) -> str:
    """A short text that changes with the content of a message, to notice conflicting edits."""
    content = msgspec.json.encode([message.text, message.data], enc_hook=repr, order="sorted")
    return blake2b(content, digest_size=4).hexdigest()


class EditRefused(Exception):
    """A waiting message cannot be edited; the text gives the reason. Nothing has changed."""

    def __init__(self, text: str, *, conflict: bool = False) -> None:
        super().__init__(text)
        self.conflict = conflict
        """Somebody has changed the message meanwhile."""


def find_waiting(run: Run, address: str, position: int, version: str = "") -> tuple[WaitingQueue, Message]:
    """The message that waits at a place in the queue of a node; EditRefused."""
    queue = next((queue for queue in waiting_queues(run) if queue.address == address), None)
    if queue is None:
        known = sorted(queue.address for queue in waiting_queues(run) if queue.messages)
        raise EditRefused(
            f"no node '{address}' is in a part of the run that is active; "
            f"messages wait at {', '.join(known) or 'no node'}"
        )
    messages = queue.messages
    if not 0 <= position < len(messages):
        if not messages:
            raise EditRefused(f"no message waits at '{address}'")
        last = len(messages) - 1
        raise EditRefused(f"the messages at '{address}' have the numbers 0 to {last}, not {position}")
    message = messages[position]
    if version and version != message_version(message):
        raise EditRefused(
            f"message {position} at '{address}' was changed meanwhile; it is now: {message.text[:200]}",
            conflict=True,
        )
    return queue, message


def edit_waiting(run: Run, fact: WaitingEdited) -> None:
    """Changes a message that waits; EditRefused. An edit that changes nothing leaves no trace."""
    if run.status not in ("paused", "suspended_locked"):
        raise EditRefused("messages can be edited while a run is paused or locked")
    queue, message = find_waiting(run, fact.address, fact.position, fact.version)
    data = message.data if fact.data is None else fact.data
    if message.text == fact.text and message.data == data:
        return
    run.exclude_idle_time(fact.time)
    run.set_time(fact.time)
    # The content may have typed blocks, which only another text replaces.
    content = message.content if message.text == fact.text else fact.text
    _replace_waiting(queue, fact.position, msgspec.structs.replace(message, content=content, data=data))
    before = message.text[:SHOWN]
    edited = MessageEdited(fact.text, fact.position, fact.data, fact.by, before, "edit")
    run.emit(edited, queue.node.id, fact.address)


def _replace_waiting(queue: WaitingQueue, position: int, edited: Message) -> None:
    """Replaces a message in the queue of its node, or among its arrivals.

    The messages of a node are in two lists, and what `peek` returns is made from both. So the message is
    found by its identity, and by how often the same object occurs before it."""
    messages, (activation, index) = queue.messages, (queue.activation, queue.node.index)
    message = messages[position]
    skip = sum(other is message for other in messages[:position])
    waiting, arrivals = activation.instance.queues[index], activation.instance.arrivals[index]
    for number, other in enumerate(waiting):
        if other is message:
            if not skip:
                waiting[number] = edited
                return
            skip -= 1
    for number, (key, edge, arrived) in sorted(enumerate(arrivals), key=lambda pair: pair[1][0]):
        if arrived is message:
            if not skip:
                arrivals[number] = (key, edge, edited)
                return
            skip -= 1
    raise AssertionError("a message that waits is in the queue of its node or among its arrivals")
