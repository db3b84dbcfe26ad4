"""What is known of the rounds of a run while they last, and the events about them.

    LoopEntry    one entry of a loop: how often it may run, the best round, what it has used
    OpenRound    one round: when it began, its score, what it has used, how often something failed in it

A round of a loop of edges belongs to the activation of the loop, one of a loop agent or a debate to the
activations of its bodies, of which several may run at the same time. What happens in a node counts for
all rounds around it (`open_rounds`). Only calls, scores and failures take that walk, so that a round
without them costs two events and no more.

Each `loop_round` has one `round_finished`, and each loop with a round one `loop_exit`, unless the run ends
first: a retry continues its rounds. Loops that end because a graph around them is cancelled are found in
`Run.live_loops`, where an inner loop comes after the loop around it (cancellation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Literal

from roundel.kernel.debugging import loop_ended
from roundel.kernel.events import Event
from roundel.kernel.payloads import NO_USAGE, LoopLeft, LoopRound, RoundFinished
from roundel.kernel.state import (
    Activation,
    CompositeRun,
    Execution,
    Iteration,
    LoopEntry,
    OpenRound,
    Run,
    ToolLoop,
    order_key,
    shown_usage,
)
from roundel.plan.graph import NodePlan
from roundel.plan.proof import bounds
from roundel.plan.scope import Scope
from roundel.workflow.address import Path, PathStep, part_of

Status = Literal["completed", "failed", "cancelled"]


# Limits.


def proved_limit(run: Run, activation: Activation) -> tuple[int, str]:
    """The most rounds of a loop of edges, and the guard that proves it. An unlock may have let it pass that
    bound; then only its cap counts."""
    limits, worst = bounds(activation.scope)
    if worst is None or activation.round > worst:
        return cap_of(run, activation), ""
    return worst, next((limit.guard for limit in limits if limit.limit == worst), "")


def cap_of(run: Run, activation: Activation) -> int:
    """The cap of a loop, as far as unlocks have raised it."""
    assert activation.scope.entry is not None
    site = activation.instance.plan.nodes[activation.scope.entry].site
    return run.guard_stats.raised_caps.get(site, activation.scope.cap)


def rounds_limit(composite_run: CompositeRun) -> int | None:
    """The most rounds of a node that repeats by itself, also after an unlock has raised the limit."""
    node: NodePlan = composite_run.execution.node
    limit = getattr(composite_run.controller, "limit", None)
    return limit if isinstance(limit, int) else node.kind.rounds(node.config)


def _clocks(scope: Scope) -> tuple[str, ...]:
    """The guards that end a loop by the time, if nothing else bounds it but its cap."""
    limits, worst = bounds(scope)
    return tuple(f"{limit.guard}: {limit.limit}" for limit in limits) if worst is None else ()


# Loops of edges.


def enter_loop(run: Run, activation: Activation) -> None:
    """A loop of edges is entered; its first round begins next."""
    entry = LoopEntry(activation.record.entries, run.since)
    entry.limit, entry.limit_by = proved_limit(run, activation)
    entry.clocks = _clocks(activation.scope)
    activation.entry, activation.open = entry, OpenRound(entry)
    run.live_loops[activation.stem] = activation


def emit_round(run: Run, activation: Activation, before: str) -> None:
    """The next round of a loop of edges has begun. `before` is the prefix of the one before."""
    # These two are called once in each round of every loop: what only some rounds need is behind a test.
    number, name, opened = activation.round, activation.name, activation.open
    assert opened is not None
    entry, back = opened.entry, activation.scope.back
    opened.is_over = False
    opened.began, opened.started_at = run.since, run.started_at
    if number > entry.limit:  # an unlock has raised it
        entry.limit, entry.limit_by = proved_limit(run, activation)
    triggered_by = (before + back,) if back and number > 1 else _take_triggers(activation)
    data = LoopRound(name, number, 0, entry.limit, entry.limit_by, entry.clocks, entry.number, triggered_by)
    run.seq = seq = run.seq + 1  # as run.emit does, inlined
    run.events.append(
        Event(seq, "loop_round", run.stamp, run.run_id, name, activation.address, data, activation.path)
    )


def _take_triggers(activation: Activation) -> tuple[str, ...]:
    assert activation.scope.entry is not None
    return tuple(sorted(activation.instance.triggers.pop(activation.scope.entry, ())))


def end_round(run: Run, activation: Activation, status: Status = "completed") -> None:
    """The round of a loop of edges is over."""
    opened, name, address = activation.open, activation.name, activation.address
    assert opened is not None
    opened.is_over = True
    if not opened.is_plain or run.since != opened.began:
        _finish(run, opened, status, name, activation.round, address, activation.path)
        opened.usage, opened.score, opened.failures, opened.is_plain = None, None, 0, True
        return
    data = RoundFinished(name, activation.round, status, 0, None, opened.entry.best)
    run.seq = seq = run.seq + 1  # as run.emit does, inlined
    run.events.append(
        Event(seq, "round_finished", run.stamp, run.run_id, name, address, data, activation.path)
    )


def leave_loop(run: Run, activation: Activation, reason: str) -> None:
    """A loop of edges is left, after its round has ended."""
    entry, name = activation.entry, activation.name
    assert entry is not None
    run.live_loops.pop(activation.stem, None)
    activation.record.left(reason, order_key(activation), entry.best)
    data = _left(run, entry, name, activation.round, reason, activation.exit_by, activation.exit_kept)
    run.add_event(data, name, activation.address, activation.path)
    loop_ended(run, activation.stem)


# Nodes that repeat by themselves.


def node_step(execution: Execution, number: int, repeat: int = 0) -> PathStep:
    """The step into a round of a node that repeats by itself, or into a run of one of its bodies."""
    part = part_of(execution.address) if execution.part is not None else ""
    return PathStep(None, execution.node.id, number, part, repeat)


def begin_node_round(
    run: Run, composite_run: CompositeRun, iteration: Iteration, address: str, path: Path
) -> OpenRound:
    """A round of a loop agent or a debate begins."""
    name, number, opened_now = composite_run.execution.node.id, iteration.round, composite_run.open
    if composite_run.entry is None:
        composite_run.entry = LoopEntry(composite_run.record.entries, run.since)
        run.live_loops[composite_run.stem] = composite_run
    entry = composite_run.entry
    opened = OpenRound(entry)
    opened.began, opened.started_at = run.since, run.started_at
    opened.address, opened.path = address, path
    if opened_now:
        taken = {other.lane for other in opened_now.values()}
        opened.lane = next(lane for lane in count() if lane not in taken)
    opened_now[number] = opened
    data = LoopRound(
        name,
        number,
        opened.lane,
        rounds_limit(composite_run),
        entry=entry.number,
        element=iteration.element,
        elements=iteration.elements,
    )
    run.add_event(data, name, address, path)
    return opened


def end_node_round(run: Run, composite_run: CompositeRun, number: int, status: Status = "completed") -> None:
    """A round of a node that repeats by itself is over, if it is a loop."""
    opened = composite_run.open.pop(number, None)
    if opened is not None:
        name = composite_run.execution.node.id
        _finish(run, opened, status, name, number, opened.address, opened.path)


def leave_node(run: Run, composite_run: CompositeRun, reason: str, failed: Execution | None = None) -> None:
    """A loop agent or a debate ends. Rounds that are still open are cancelled, or fail with what `failed` in
    them."""
    ways = rounds_on_the_way(failed)
    for number, opened in list(composite_run.open.items()):
        end_node_round(run, composite_run, number, "failed" if id(opened) in ways else "cancelled")
    execution, entry, number = composite_run.execution, composite_run.entry, composite_run.round
    name = execution.node.id
    composite_run.record.left(reason, order_key(execution.activation), entry.best if entry else None)
    if entry is None:
        # It had no round: a list was empty, or none.
        run.emit(LoopLeft(name, 0, reason, entry=composite_run.record.entries), name, execution.address)
    else:
        run.live_loops.pop(composite_run.stem, None)
        data = _left(run, entry, name, number, reason)
        path = (*execution.activation.path, node_step(execution, number))
        run.add_event(data, name, f"{composite_run.stem}{number}]", path)
    loop_ended(run, composite_run.stem)


# Loops that end with a graph around them.


def cancel_loop(run: Run, loop: Activation | CompositeRun, failed: Execution | None) -> None:
    """Ends a loop whose graph was cancelled. `failed` is what failed first, if a failure cancelled it."""
    if isinstance(loop, CompositeRun):
        leave_node(run, loop, "cancelled", failed)
        return
    assert loop.open is not None
    if not loop.open.is_over:
        end_round(run, loop, "failed" if id(loop.open) in rounds_on_the_way(failed) else "cancelled")
    leave_loop(run, loop, "cancelled")


def rounds_on_the_way(failed: Execution | None) -> set[int]:
    """The rounds around what failed, by identity."""
    return set() if failed is None else {id(opened) for opened in open_rounds(failed.activation)}


# What happens in rounds.


def open_rounds(activation: Activation | None) -> Iterator[OpenRound]:
    """The rounds around a place, from the inside out."""
    while activation is not None:
        if activation.open is not None:
            yield activation.open
        if activation.parent is not None:
            activation = activation.parent
        else:
            caller = activation.instance.caller
            activation = None if caller is None else caller.activation


def count_usage(run: Run, execution: Execution, amounts: dict[str, int]) -> None:
    """Counts what was used for the run, for the execution of the node and for the rounds around it; money in
    picodollars."""
    whole = execution.owner.execution if isinstance(execution.owner, ToolLoop) else execution
    run.usage = _sum(run.usage, amounts)
    whole.usage = _sum(whole.usage, amounts)
    for opened in open_rounds(execution.activation):
        opened.usage, opened.is_plain = _sum(opened.usage, amounts), False


def count_score(execution: Execution, score: float) -> None:
    for opened in open_rounds(execution.activation):
        opened.score, opened.is_plain = score, False


def count_failure(execution: Execution) -> None:
    for opened in open_rounds(execution.activation):
        opened.failures += 1
        opened.is_plain = False


def _sum(one: dict[str, int] | None, other: dict[str, int]) -> dict[str, int]:
    return dict(other) if one is None else {name: one.get(name, 0) + amount for name, amount in other.items()}


# The events.


def _finish(
    run: Run, opened: OpenRound, status: Status, name: str, number: int, address: str, path: Path
) -> None:
    entry, score, used = opened.entry, opened.score, opened.usage
    usage = NO_USAGE
    if used is not None:
        entry.usage = _sum(entry.usage, used)
        usage = shown_usage(used)
    if score is not None:
        entry.note_score(number, score)
    seconds = run.since - opened.began
    worked = seconds - (run.started_at - opened.started_at)  # the start moves forward by all idle time
    data = RoundFinished(
        name,
        number,
        status,
        opened.lane,
        score,
        entry.best,
        usage,
        round(seconds, 3) if seconds > 0 else 0.0,
        round(worked, 3) if worked > 0 else 0.0,
        opened.failures,
    )
    run.add_event(data, name, address, path)


def _left(
    run: Run, entry: LoopEntry, name: str, number: int, reason: str, by: str = "", kept: int | None = None
) -> LoopLeft:
    usage = NO_USAGE if entry.usage is None else shown_usage(entry.usage)
    seconds = max(0.0, round(run.since - entry.began, 3))
    return LoopLeft(name, number, reason, by, number, entry.number, entry.best, kept, usage, seconds)
