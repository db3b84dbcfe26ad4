"""Nodes that are done, or never will be: from what one gave to the messages that it sends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from roundel.kernel.activation import Instance
from roundel.kernel.agenda import PARTS, RETURN
from roundel.kernel.breaker import count_tokens, listen, note_result
from roundel.kernel.budget import COST, release, spend_usage
from roundel.kernel.codec import CodecError, typed
from roundel.kernel.commands import Cancel, Consult
from roundel.kernel.events import Event
from roundel.kernel.execution import Execution, Expansion, Talk
from roundel.kernel.expand import ExpansionError, gather
from roundel.kernel.facts import Outcome, Usage, Verdict
from roundel.kernel.loops import settle
from roundel.kernel.review import AFTER, ask_after
from roundel.kernel.state import Run
from roundel.kernel.walk import Verdicts, questions, walk
from roundel.plan.graph import NodePlan
from roundel.workflow.message import Message
from roundel.workflow.money import picodollars


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
    for name, shown in outcome.events:
        run.emit(name, node.id, address, shown)
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
