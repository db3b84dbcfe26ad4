"""How far a run is: the rounds of its loops, its newest scores, its usage, the nearest limit, its question.

`progress` is what lists of runs show of a run, without reading its facts. A journal computes it when it
writes the row of the run, and a host for those who follow the run (`run_progress`), each about once a
second, so it must cost little: it looks at what is running now, never at the past. How new the last messages
of a loop are is left out for that reason; a debugger shows it with all other guards (`guard_states`).

Nothing here changes the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from roundel.kernel.breaker import breaker_of, history_of
from roundel.kernel.budget import Budget
from roundel.kernel.commands import Ask, subject_of
from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.debugging import WaitingQueue, live_activations, waiting_queues
from roundel.kernel.novelty import novelty
from roundel.kernel.payloads import (
    GuardState,
    LockShown,
    LoopPosition,
    PauseShown,
    QuestionShown,
    RunProgress,
    ToolToApprove,
)
from roundel.kernel.rounds import cap_of, proved_limit, rounds_limit
from roundel.kernel.state import Activation, CompositeRun, GraphInstance, Lock, Run, ToolLoop
from roundel.kernel.token_surge import surge_figures
from roundel.plan.graph import NodePlan
from roundel.workflow.address import loop_path
from roundel.workflow.limits import NO_TIME_LIMIT

SHOWN_TEXT = 300
"""Characters of a text that lists show."""
SHOWN_ARGUMENTS = 10
"""Arguments of a tool call that lists show."""
SHOWN_NODES = 5
"""Nodes in flight that lists show."""
SHOWN_GUARDS = 10
"""The nearest guards."""


def guard_state(kind: str, name: str, used: float, limit: float, address: str = "") -> GuardState:
    """A guard, with how near it is."""
    if kind == "novelty":
        share = min(1.0, limit / used) if used > 0 else 1.0
    else:
        share = used / limit if limit > 0 else 1.0
    return GuardState(kind, name, used, limit, round(share, 4), address)


def progress(run: Run) -> RunProgress:
    """What lists of runs show of a run in any status."""
    activations = [] if run.over else live_activations(run)  # a failed run keeps what a retry needs
    loops = list(loop_positions(run, activations))
    guards = () if run.over else _counted_guards(run, activations)
    asks = [ask for call in run.calls.values() if isinstance(ask := call.command, Ask)]
    scores, threshold = _scores(run, loops, activations)
    return RunProgress(
        loops=loops,
        guards=nearest_first(guards)[:SHOWN_GUARDS],
        score=run.guard_stats.score,
        scores=scores,
        threshold=threshold,
        usage=run.total,
        active=_active(run),
        questions=[ask.address for ask in asks],
        work_seconds=max(0.0, round(run.worked, 3)) if run.root is not None else 0.0,
        question=_question(run, asks[0]) if asks else None,
        pause=PauseShown(**run.pause_details()) if run.status == "paused" else None,
        lock=_lock(run.lock) if run.lock is not None else None,
    )


def nearest_first(guards: Iterable[GuardState]) -> list[GuardState]:
    return sorted(guards, key=lambda guard: -guard.share)


def _lock(lock: Lock) -> LockShown:
    """A lock without its evidence, which may be long; the summary has it."""
    return LockShown(lock.what, lock.limit, lock.address, str(lock))


def _scores(
    run: Run, loops: list[LoopPosition], activations: list[Activation]
) -> tuple[list[float], float | None]:
    """The scores of the last rounds of one loop, and the score that ends it: of the innermost running loop
    that has scores, else of the loop that had one last."""
    known = run.guard_stats.scores
    running = [loop_path(loop.address) for loop in reversed(loops)]
    path = next((path for path in running if path in known), None)
    if path is None and running and not known:
        path = running[0]
    if path is not None:
        return list(known.get(path, {}).values()), _threshold_in(path, activations)
    # No loop with scores is running. If there are several thresholds, nothing says which one counted.
    last = next((path for path in reversed(known) if path), "")
    thresholds = {found for node in run.plan.sites if (found := _threshold(node)) is not None}
    return list(known.get(last, {}).values()), thresholds.pop() if len(thresholds) == 1 else None


def _threshold_in(path: str, activations: list[Activation]) -> float | None:
    """The score that ends a running loop; None if there is none, and for a node that repeats by itself."""
    for activation in reversed(activations):
        if activation.parent is not None and loop_path(activation.address) == path:
            nodes = (unit.node for unit in activation.scope.units if unit.node is not None)
            return next((found for node in nodes if (found := _threshold(node)) is not None), None)
    return None


def _threshold(node: NodePlan) -> float | None:
    """The score at which a `loop` node ends its loop; None if no score does."""
    wanted = getattr(node.config, "exit_on_score", None) if node.kind.name == "loop" else None
    return float(wanted) if wanted is not None and wanted > 0 else None


def _active(run: Run) -> list[str]:
    """The ids of nodes that work now; those that wait for a person do not."""
    found: dict[str, None] = {}
    for call in run.calls.values():
        if not isinstance(call.command, Ask):
            found[call.node.id] = None
            if len(found) == SHOWN_NODES:
                break
    return list(found)


def _question(run: Run, ask: Ask) -> QuestionShown:
    """A question as lists show it: short, whatever a model has written."""
    about = subject_of(ask, run.plan)
    tool = about.get("tool")
    return QuestionShown(
        ask.address,
        run.plan.sites[ask.site].id,
        str(about.get("prompt", ""))[:SHOWN_TEXT],
        ToolToApprove(tool["name"], _short(tool.get("arguments"))) if tool else None,
    )


def _short(arguments: Any) -> Any:
    """The arguments of a tool call: the first few, with the beginnings of their texts."""
    if not isinstance(arguments, dict):
        return _short_value(arguments)
    first = islice(arguments.items(), SHOWN_ARGUMENTS)
    return {str(name)[:SHOWN_TEXT]: _short_value(value) for name, value in first}


def _short_value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return text[:SHOWN_TEXT]


def loop_positions(run: Run, activations: list[Activation]) -> Iterator[LoopPosition]:
    """The loops that are running, outer ones before those inside them."""
    seen: set[int] = set()
    for activation in activations:
        composite = activation.instance.composite_run
        if composite is not None and id(composite) not in seen:
            seen.add(id(composite))
            yield from _composite_position(composite)
        if activation.parent is not None:
            limit, by = proved_limit(run, activation)
            yield LoopPosition(activation.address, activation.name, activation.round, limit, by)
    for composite in _composites(run, ()):  # between two rounds
        if id(composite) not in seen:
            yield from _composite_position(composite)


def _composites(run: Run, activations: Iterable[Activation]) -> list[CompositeRun]:
    """The composite nodes that are running, each once: around a scope, or between two rounds."""
    found = {id(one): one for each in activations if (one := each.instance.composite_run) is not None}
    found.update((id(item), item) for item, _ in run.held if isinstance(item, CompositeRun))
    return list(found.values())


def _composite_position(composite: CompositeRun) -> Iterator[LoopPosition]:
    node = composite.execution.node
    if node.kind.loops and composite.round:  # a list that is too long locks the run before the first round
        limit = rounds_limit(composite)
        yield LoopPosition(f"{composite.stem}{composite.round}]", node.id, composite.round, limit)


def guard_states(run: Run, activations: list[Activation]) -> Iterator[GuardState]:
    """The limits that could end what is running."""
    yield from _counted_guards(run, activations)
    yield from _novelty_guards(activations)


def _counted_guards(run: Run, activations: list[Activation]) -> Iterator[GuardState]:
    for activation in activations:
        if activation.parent is not None:
            cap = cap_of(run, activation)
            yield guard_state("rounds", activation.name, activation.round, cap, activation.address)
    for composite in _composites(run, activations):
        limit = rounds_limit(composite)
        if composite.execution.node.kind.loops and limit is not None:
            address = f"{composite.stem}{composite.round}]"
            yield guard_state("rounds", composite.execution.node.id, composite.round, limit, address)
    for queue in waiting_queues(run):
        guard = _node_guard(run, queue)
        if guard is not None:
            yield guard
    yield from _tool_guards(run)
    for budget in _budgets(activations):
        spent = budget.spent_amounts(run.worked)
        for name, allowed in budget.limits.items():
            if name in spent:
                yield guard_state(name, budget.name, spent[name], allowed)
    if run.time_limit < NO_TIME_LIMIT:
        yield guard_state("seconds", "breaker", max(0.0, round(run.worked, 3)), round(run.time_limit, 3))
    if run.plan.breaker.detects_token_surges and run.guard_stats.first_calls:
        counted, most = surge_figures(run)
        yield guard_state("tokens", "breaker", counted, round(most))


def _node_guard(run: Run, queue: WaitingQueue) -> GuardState | None:
    """The count of a counter, the time of a timer, the rounds of a `loop` node."""
    node, activation = queue.node, queue.activation
    bound = node.kind.bound(node.config) if node.kind.guard else None
    if bound is None:
        return None
    memory = activation.instance.memory.get(node.index)
    if bound.seconds is not None:
        since = getattr(memory, "since", None)
        elapsed = 0.0 if since is None else max(0.0, run.worked_at(run.since) - since)
        return guard_state("seconds", node.id, round(elapsed, 3), bound.seconds, queue.address)
    if bound.rounds is None:
        return None
    used = memory if isinstance(memory, int) else 0
    if node.kind.name == "loop" and queue.unit is not None:
        # It counts the rounds of its loop, unless a message has given it a larger number.
        used = activation.loop_round + getattr(getattr(memory, "history", None), "ahead", 0)
    return guard_state("rounds", node.id, used, bound.rounds, queue.address)


def _tool_guards(run: Run) -> Iterator[GuardState]:
    loops: dict[int, ToolLoop] = {}
    for call in run.calls.values():
        if isinstance(call.owner, ToolLoop):
            loops[id(call.owner)] = call.owner
    loops.update((id(item), item) for item, _ in run.held if isinstance(item, ToolLoop))
    for tool_loop in loops.values():
        execution, conversation = tool_loop.execution, tool_loop.conversation
        yield guard_state(
            "tool_rounds", execution.node.id, conversation.rounds, conversation.max_rounds, execution.address
        )


def _budgets(activations: list[Activation]) -> Iterator[Budget]:
    seen: set[int] = set()
    for activation in activations:
        instance: GraphInstance = activation.instance
        for budget in instance.budgets.values():
            if id(budget) not in seen:
                seen.add(id(budget))
                yield budget


def _novelty_guards(activations: list[Activation]) -> Iterator[GuardState]:
    """How new the last messages of each loop are, where a dead loop would trip the breaker."""
    for activation in activations:
        plan, entry = activation.instance.plan, activation.scope.entry
        if activation.parent is None or entry is None or entry not in activation.instance.histories:
            continue
        breaker = breaker_of(plan, activation.name)
        value = _last_novelty(history_of(activation.instance, entry))
        if breaker.detects_dead_loops and value is not None:
            yield guard_state(
                "novelty", activation.name, round(value, 3), breaker.threshold, activation.address
            )


def _last_novelty(history: LoopHistory) -> float | None:
    """The largest novelty of a message in the last round that has one: as long as it is large, the loop
    lives."""
    said = [(number, speaker, text) for number, speaker, _, text in history.said]
    said += [(history.round + 1, speaker, text) for _, speaker, _, text in sorted(history.current_messages)]
    if not said:
        return None
    last = said[-1][0]
    values = []
    for place, (number, speaker, text) in enumerate(said):
        if number == last:
            values.append(novelty(text, [old for _, other, old in said[:place] if other == speaker]))
    return max(values)
