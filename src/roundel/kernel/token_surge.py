"""Token surge: the breaker trips if a run has spent `factor` times its usual tokens.

What is usual follows from the calls themselves, so that only growth trips the breaker, never a run that is
merely long:

    a call that was made    the middle one of the first three calls of its node. Until the node has made
                            three, the average of the first three calls of the run. Never less than the size
                            that the forecast expects for a call of the node.
    a later call of one     the call k in one run of an agent may be k times as large, up to `MOST_GROWTH`,
    run of an agent         since each call sees one message more than the one before
    a call that the bound   the average of what is usual for the calls that were made. The bound is the worst
    has left                case of the forecast, but at most `MOST_CALLS` calls in all; no bound counts as
                            `MOST_CALLS`

The middle one of three and not the first: a single answer that is unusually short or long must not decide
for the rest of the run. Up to `MOST_CALLS` and not "none beyond": a larger bound must never allow less
(docs/decisions/0043). For the same reason the forecast gives a size for each node. The average over all
nodes would fall if the bound of a node with small calls rose.

The breaker trips only at a call that is itself larger than usual. Otherwise a node whose calls keep their
size could be blamed for what others have spent before, because each of its calls also uses up one of those
that the bound has left.

The cost of a call does not depend on the number of calls or nodes: the sums are kept, and a call changes the
share of its own node (`CallTotals`). All figures are whole numbers, so that adding and subtracting a share
leaves nothing behind.

Runs of semantics 0 keep the older rule: the forecast's calls at the average of the first three calls.
"""

from __future__ import annotations

from roundel.kernel.breaker import trip
from roundel.kernel.state import (
    NO_CALLS,
    CallForecast,
    CallTotals,
    Execution,
    GuardStats,
    NodeCalls,
    Run,
    ToolLoop,
)
from roundel.plan.forecast import forecast, forecast_call_sizes
from roundel.plan.graph import Plan

FIRST_CALLS = 3
"""The number of calls, of a node and of the run, that decide what is usual."""
MOST_CALLS = 300
"""Calls of a run beyond this number are not expected in advance: they count when they are made."""
MOST_GROWTH = 20
"""How many times as large as usual a later call in one run of an agent may be."""


def count_tokens(run: Run, execution: Execution, tokens: int) -> None:
    """Counts a model call, and trips if the run has spent `factor` times its usual tokens."""
    breaker, stats = run.plan.breaker, run.guard_stats
    if not tokens or not breaker.detects_token_surges:
        return
    if len(stats.first_calls) < FIRST_CALLS:
        stats.first_calls.append(tokens)
    if run.plan.semantics:
        usual_call = _record_call(run, execution, tokens)
    else:
        usual_call = 0  # every call can trip the breaker
        _expect_calls(run)
    spent, most = surge_figures(run)
    if spent <= most or tokens <= usual_call:
        return
    locked = run.lock is not None
    figures = {"tokens": spent, "estimate": round(_estimate(run)), "factor": breaker.factor}
    if run.plan.semantics:
        figures |= {"call": tokens, "usual_call": usual_call, "calls": stats.call_totals.calls}
    trip(run, "token_surge", (execution.node.id, execution.address), figures, {})
    # The estimate starts from here after an unlock, or the run would trip again with its next call. A run
    # that is locked for another reason has not tripped: its next large call will.
    if not (locked and run.plan.semantics):
        stats.surge_baseline = spent


def surge_figures(run: Run) -> tuple[int, float]:
    """The tokens that count for a surge, and those beyond which the breaker trips; there must have been a
    model call with tokens."""
    spent = run.usage["input_tokens"] + run.usage["output_tokens"] - run.guard_stats.aside
    return spent, max(run.plan.breaker.factor * _estimate(run), run.guard_stats.surge_allowance)


def _estimate(run: Run) -> float:
    """The usual tokens of the run as a whole."""
    stats = run.guard_stats
    usual = _usual_tokens(stats) if run.plan.semantics else _expected_tokens(stats)
    return usual + stats.surge_baseline


def _record_call(run: Run, execution: Execution, tokens: int) -> int:
    """Adds a call to the sums; returns the tokens that are usual for it."""
    stats, site = run.guard_stats, execution.node.site
    if stats.call_forecast is None:
        most, sizes = run.decisions.record_or_replay(expected_calls, run.plan)
        stats.call_forecast = CallForecast(most, tuple(sizes))
    number = _number_in_run(execution)
    before, totals = stats.node_calls.get(site, NO_CALLS), stats.call_totals
    first = before.first if len(before.first) == FIRST_CALLS else (*before.first, tokens)
    after = NodeCalls(before.calls + 1, before.weight + number, first)
    if totals.calls < FIRST_CALLS:
        # The average of the run's first calls still moves, and with it the share of every node.
        stats.node_calls[site] = after
        totals = CallTotals()
        for other, calls in stats.node_calls.items():
            totals = _add_share(totals, calls, _usual_size(stats, other, calls))
    else:
        totals = _add_share(totals, before, _usual_size(stats, site, before), -1)
        stats.node_calls[site] = after
        totals = _add_share(totals, after, _usual_size(stats, site, after))
    stats.call_totals = totals
    return number * _usual_size(stats, site, after)


def _number_in_run(execution: Execution) -> int:
    """Which call of one run of its agent it is, up to `MOST_GROWTH`."""
    owner = execution.owner
    return min(max(1, owner.calls), MOST_GROWTH) if isinstance(owner, ToolLoop) else 1


def _usual_size(stats: GuardStats, site: int, calls: NodeCalls) -> int:
    """The tokens that are usual for a call of a node."""
    assert stats.call_forecast is not None, "`_record_call` sets it at the first call"
    if len(calls.first) == FIRST_CALLS:
        measured = sorted(calls.first)[FIRST_CALLS // 2]
    else:
        measured = -(-sum(stats.first_calls) // len(stats.first_calls))
    return max(measured, stats.call_forecast.sizes[site])


def _add_share(totals: CallTotals, calls: NodeCalls, size: int, sign: int = 1) -> CallTotals:
    return CallTotals(
        totals.calls + sign * calls.calls,
        totals.usual + sign * calls.weight * size,
        totals.sizes + sign * calls.calls * size,
    )


def _usual_tokens(stats: GuardStats) -> int:
    """What is usual for the calls that were made, and for those that the bound has left."""
    totals = stats.call_totals
    assert stats.call_forecast is not None, "`_record_call` sets it at the first call"
    left = max(0, stats.call_forecast.most - totals.calls)
    return totals.usual - (-left * totals.sizes // totals.calls)


def expected_calls(plan: Plan) -> tuple[int, list[int]]:
    """The bound of the run's model calls, at most `MOST_CALLS`, and the usual size of a call of each node, by
    site. It is a decision, since the forecast of another version may differ."""
    worst = forecast(plan, spare=False).model_calls.worst
    return MOST_CALLS if worst is None else min(worst, MOST_CALLS), forecast_call_sizes(plan)


# The rule of semantics 0.

MOST_EXPECTED_CALLS = 1000
"""A worst case beyond this said nothing about what a run usually takes."""


def _expect_calls(run: Run) -> None:
    if run.guard_stats.expected is None:
        calls, size = run.decisions.record_or_replay(expected_usage, run.plan)
        run.guard_stats.expected = (calls, size)


def _expected_tokens(stats: GuardStats) -> float:
    """The calls of the forecast, at the larger of the forecast and the measured size."""
    assert stats.expected is not None, "`count_tokens` sets it at the first model call"
    calls, size = stats.expected
    return max(1, calls) * max(size, sum(stats.first_calls) / len(stats.first_calls))


def expected_usage(plan: Plan) -> tuple[int, float]:
    """Model calls and tokens per call: the forecast's worst case of calls if bounded, else the typical
    one."""
    predicted = forecast(plan, spare=False)
    calls = predicted.model_calls
    typical = max(1, calls.typical)
    bounded = calls.worst is not None and calls.worst <= MOST_EXPECTED_CALLS
    return (calls.worst or 1) if bounded else typical, predicted.tokens.typical / typical
