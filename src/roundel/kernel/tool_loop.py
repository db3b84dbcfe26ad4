"""Nodes that take several calls: an agent whose model asks for tools.

What is called when is the business of the node's dialogue, which looks at nothing but what it is told:

    begin(inputs)              the node has come up
    heard(errand, outcome)     a call was answered
    failed(errand, error)      a call failed
    answered(errand, message)  a person answered
    unlocked()                 the run goes on, and no errand of this waits: a limit that it met was raised

Each gives an Act: errands to run, an outcome that ends the node, events to show, a limit that was met, an
error that fails the node. An errand without a label is a call of the node itself, made at the node's own
address, and there is one of them at a time; an errand with a label has an address in the talk's rounds
(`Analyst[2]/mean`), and several may be out at the same time. An errand that asks goes to a person.

Each errand is a step of its own: what it gave is a fact, and is never asked for again.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from roundel.kernel.breaker import breaker_around, lock, note_result
from roundel.kernel.budget import model_call, reserve
from roundel.kernel.commands import Ask, Call, Command
from roundel.kernel.facts import Outcome
from roundel.kernel.lifecycle import complete, fail, fits, spend
from roundel.kernel.state import ERRANDS, Execution, Run, Talk
from roundel.workflow.message import Message


class Errand(Struct, frozen=True):
    what: Any
    """What is to be done, as the state of its call."""
    label: str = ""
    round: int = 0
    asks: dict[str, Any] | None = None
    """A person is asked, and shown this."""
    subject: str = ""
    """What the person is asked about; questions about the same are counted."""


_SAID: dict[str, Any] = {"arguments": {}, "result": ""}
"""What a node whose output is not to be logged shows of its errands: these fields are empty."""
Shown = tuple[str, dict[str, Any], Errand | None]
"""An event: its name, its data, and the errand that it is about."""


class Act(Struct, frozen=True):
    errands: tuple[Errand, ...] = ()
    outcome: Outcome | None = None
    events: tuple[Shown, ...] = ()
    reached: tuple[str, int] | None = None
    """What is used up and its limit, although the run goes on."""
    lock: tuple[str, int] | None = None
    """What is used up and its limit: once the run is unlocked, the dialogue says how it goes on."""
    error: str = ""


class Dialogue(Protocol):
    stops_repeats: bool
    """Whether an errand is not to be run again and again with the same result; set before it begins."""

    def begin(self, inputs: tuple[Message, ...]) -> Act: ...
    def heard(self, errand: Errand, outcome: Outcome) -> Act: ...
    def failed(self, errand: Errand, error: str) -> Act: ...
    def answered(self, errand: Errand, message: Message) -> Act: ...
    def unlocked(self) -> Act: ...
    def result(self, outcome: Outcome) -> str:
        """What came of an errand, to see whether it is new."""


def go_on(run: Run, talk: Talk) -> None:
    """Starts what may start: the talk itself, or the errands that its dialogue has named."""
    if not talk.pending:
        dialogue = talk.dialogue
        if talk.calls:
            _act(run, talk, dialogue.unlocked())
        else:
            dialogue.stops_repeats = breaker_around(talk.execution).watches_loops
            _act(run, talk, dialogue.begin(talk.inputs))
        return
    errands = talk.pending
    if run.budgeted and not _fit(run, talk, errands):
        run.held.append((talk, ERRANDS))
        return
    talk.pending = []
    for errand in errands:
        _send(run, talk, errand)


def _fit(run: Run, talk: Talk, errands: list[Errand]) -> bool:
    """Whether there is a budget for all of them; if not, none begins."""
    whole = talk.execution
    tools = sum(1 for errand in errands if errand.label and errand.asks is None)
    wanted = {"tool_calls": tools} if tools else {}
    if any(not errand.label for errand in errands):
        wanted |= model_call(run, whole.node)
    return fits(run, whole.activation, whole.node, whole.address, wanted)


def heard(run: Run, execution: Execution, outcome: Outcome) -> None:
    talk, errand = _back(execution)
    spend(run, execution, outcome)
    for name, data in outcome.events:
        run.emit(name, execution.node.id, execution.address, data)
    if errand.label:
        note_result(execution, talk.dialogue.result(outcome))
    _act(run, talk, talk.dialogue.heard(errand, outcome))


def errand_failed(run: Run, execution: Execution, error: str) -> None:
    talk, errand = _back(execution)
    _act(run, talk, talk.dialogue.failed(errand, error))


def answered(run: Run, execution: Execution, message: Message) -> None:
    talk, errand = _back(execution)
    _act(run, talk, talk.dialogue.answered(errand, message))


def _back(execution: Execution) -> tuple[Talk, Errand]:
    assert isinstance(execution.owner, Talk)
    return execution.owner, execution.errand


def _act(run: Run, talk: Talk, act: Act) -> None:
    execution = talk.execution
    node, address = execution.node, execution.address
    for name, data, errand in act.events:
        if not node.logs:
            data = {**data, **{field: nothing for field, nothing in _SAID.items() if field in data}}
        run.emit(name, node.id, _address(talk, errand) if errand else address, data)
    if act.reached is not None:
        what, limit = act.reached
        run.emit("limit_reached", node.id, address, {"what": what, "limit": limit, "address": address})
    if act.error:
        fail(run, execution, act.error)
        return
    if act.lock is not None:
        lock(run, *act.lock, node.id, address)
    if act.errands or act.lock is not None:
        talk.pending.extend(act.errands)
        run.agenda.append((talk, ERRANDS))
    if act.outcome is not None:
        complete(run, execution, act.outcome)


def _send(run: Run, talk: Talk, errand: Errand) -> None:
    whole = talk.execution
    node, address = whole.node, _address(talk, errand)
    command: Command
    if errand.asks is not None:
        run.emit("human_input_required", node.id, address, errand.asks)
        command = Ask(address, node.site, talk.inputs, _question(run, talk, errand), errand.asks)
    else:
        ordinal = 0 if errand.label else _ordinal(talk)
        round_ = whole.activation.loop_round
        command = Call(address, node.site, talk.inputs, errand.what, ordinal, round_)
    run.calls[address] = execution = Execution(
        whole.activation, whole.unit, node, address, command, whole.part, owner=talk, errand=errand
    )
    run.commands.append(command)
    if run.budgeted and errand.asks is None:
        reserve(run, execution, {"tool_calls": 1} if errand.label else model_call(run, node))


def _ordinal(talk: Talk) -> int:
    """Which of the node's calls it is: never a matter of which part of a dynamic edge was quicker."""
    number = talk.calls
    talk.calls += 1
    if number:
        execution = talk.execution
        if execution.part is None:
            execution.activation.instance.ordinals[execution.node.site] += 1
        else:
            execution.part[0].further += 1
    return talk.ordinal + number


def _question(run: Run, talk: Talk, errand: Errand) -> int:
    """Which question about its subject it is. What runs at the same time counts for itself, from its own
    number on: never a matter of who was quicker."""
    where, first = _apart(talk.execution)
    key = (where, talk.execution.node.site, errand.subject)
    number = run.asked.get(key, 0)
    run.asked[key] = number + 1
    return first + number


def _apart(execution: Execution) -> tuple[str, int]:
    """The innermost thing around it that runs beside others of its kind, and its number among them."""
    whole: Execution | None = execution
    while whole is not None:
        if whole.part is not None:
            return whole.address, whole.part[1]
        instance = whole.activation.instance
        if instance.turn is not None and instance.turn.apart is not None:
            return instance.prefix, instance.turn.apart
        whole = instance.caller
    return "", 0


def _address(talk: Talk, errand: Errand) -> str:
    return f"{talk.stem}{errand.round}]/{errand.label}" if errand.label else talk.execution.address
