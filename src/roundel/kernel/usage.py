"""The usage of calls: what a node may still use before it starts, and what its calls have used.

Budgets (budget.py) only count. Here a run is locked when a call does not fit, or turns out to be too large
or without a price; and usage is added to the totals, the budgets and the breaker. calls.py makes the events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundel.kernel.breaker import lock
from roundel.kernel.budget import (
    COST,
    PER_CALL,
    Budget,
    find_oversized,
    find_refusal,
    find_unpriced,
    model_call,
    shown,
    spend,
    spend_usage,
    take_step,
)
from roundel.kernel.calls import aside_used, end_model_call, end_summary, fail_model_call, is_model_call
from roundel.kernel.commands import Call
from roundel.kernel.facts import CallRecord, Outcome, Usage
from roundel.kernel.payloads import Warned
from roundel.kernel.rounds import count_usage
from roundel.kernel.state import UNPRICED, Activation, Execution, Run, no_usage
from roundel.kernel.token_surge import count_tokens
from roundel.plan.graph import NodePlan
from roundel.workflow.limits import picodollars


def check_budget(
    run: Run, activation: Activation, node: NodePlan, address: str, call: Callable[[], Call]
) -> bool:
    """Takes a step from all budgets around a node; if it does not fit, locks the run and returns False.

    A model call is checked first, because a refused one must not cost a step. For all other nodes
    `take_step` is the whole check, and `fits_budget` only finds out which limit refused. `call` returns the
    call that the node would make.
    """
    wanted: dict[str, int] = {"steps": 1}
    if node.kind.speaks and not node.has_tool_loop:
        wanted |= model_call(run, activation, node, call)
        return fits_budget(run, activation, node, address, wanted) and take_step(run, activation, node)
    return take_step(run, activation, node) or fits_budget(run, activation, node, address, wanted)


def fits_budget(
    run: Run, activation: Activation, node: NodePlan, address: str, wanted: dict[str, int]
) -> bool:
    """Whether all budgets around a node have room for `wanted`; if not, locks the run."""
    refusal = find_refusal(run, activation, node, wanted)
    if refusal is None:
        return True
    budget, what = refusal.budget, refusal.what
    evidence = {
        "scope": budget.name,
        "spent": budget.spent_amounts(run.worked)[what],
        "reserved": shown(what, budget.reserved[what]),
        "wanted": shown(what, wanted.get(what, 0)),
    }
    lock(run, what, budget.limits[what], node.id, address, evidence)
    run.lock_budget = budget
    return False


def record_usage(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Adds the usage of a call to the totals, budgets and breaker; a model call ends with it."""
    usage, record = outcome.usage, outcome.call
    if outcome.aside is not None:
        _count(run, execution, outcome.aside)
        aside_used(run, execution, outcome.aside)
        _check(run, execution, outcome.aside)
    if usage is not None:
        _count(run, execution, usage)
    if is_model_call(execution):
        end_model_call(run, execution, usage, record)
    elif usage is not None and execution.loop_call is not None and execution.loop_call.aside:
        end_summary(run, execution, usage, record)
    if usage is not None:
        _check(run, execution, usage)


def _count(run: Run, execution: Execution, usage: Usage) -> None:
    # In picodollars here: float dollars would not add up exactly.
    amounts = {
        "model_calls": usage.model_calls,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": picodollars(usage.cost_usd),
        "unpriced_calls": usage.unpriced_calls,
        "cached_calls": int(usage.cached),
        "cancelled_calls": 0,
    }
    count_usage(run, execution, amounts)
    if run.budgeted:
        spend_usage(run, execution, usage)


def _check(run: Run, execution: Execution, usage: Usage) -> None:
    """Locks the run if the call was too large, or one too many for the breaker."""
    if run.budgeted:
        _check_call(run, execution, usage)
    if usage.model_calls:
        count_tokens(run, execution, usage.input_tokens + usage.output_tokens)
    else:
        # Embeddings, for example: the forecast expects none, so they must not look like a surge.
        run.guard_stats.aside += usage.input_tokens + usage.output_tokens


def record_failed_call(
    run: Run, execution: Execution, error: str = "", error_type: str = "", record: CallRecord | None = None
) -> None:
    """Books a call that failed, and ends it if it was one of a model: nobody reports its usage, but it was
    made, so it counts as one call."""
    command, loop_call = execution.command, execution.loop_call
    is_model_node = execution.node.kind.speaks and isinstance(command, Call)
    what = "tool_calls" if loop_call and loop_call.label else "model_calls"
    is_model = what == "model_calls" and (loop_call is None or loop_call.calls_model)
    # Before semantics 3, tools that failed were not counted, and checks that call no model were.
    if not is_model_node or (not is_model and (what == "tool_calls") == (run.plan.semantics < 3)):
        return
    if run.plan.semantics >= 3:
        count_usage(run, execution, {**no_usage(), what: 1})
    if run.budgeted:
        spend(run, execution.activation, execution.node, {what: 1})
    if is_model:
        fail_model_call(run, execution, error, error_type, record)


def _check_call(run: Run, execution: Execution, usage: Usage) -> None:
    """Locks the run after a call that was too large, or whose cost is not known under a limit on the cost:
    no price is known, or the provider reported no usage.

    While the run is locked already, neither is reported: the next such call is.
    """
    tokens = usage.input_tokens + usage.output_tokens
    if usage.model_calls and run.lock is None:
        budget = find_oversized(run, execution, tokens)
        if budget is not None:
            evidence = {"scope": budget.name, "spent": tokens, "reserved": 0, "wanted": 0}
            _lock_after_call(run, execution, PER_CALL, budget.limits[PER_CALL], budget, evidence)
    if usage.unpriced_calls and usage.model not in run.guard_stats.unpriced_models:
        budget = find_unpriced(run, execution)
        if budget is None:
            return
        limit = budget.limits[COST]
        # Only a script replies without the name of a model: as it did before there was a limit, in a fork.
        if usage.scripted or not usage.model:
            run.guard_stats.unpriced_models.append(usage.model)
            named = usage.model or "the model of this agent"
            text = (
                f"no price is known for {named}, so the limit of {limit:g} dollars does not count its calls"
            )
            run.emit(Warned(text, "unpriced", model=usage.model), execution.node.id, execution.address)
        elif run.lock is None:
            evidence = {"scope": budget.name, "model": usage.model}
            if not tokens:  # the price does not matter then, known or not
                evidence["missing"] = "usage"
            _lock_after_call(run, execution, UNPRICED, limit, budget, evidence)


def _lock_after_call(
    run: Run, execution: Execution, what: str, limit: float, budget: Budget, evidence: dict[str, Any]
) -> None:
    lock(run, what, limit, execution.node.id, execution.address, evidence)
    run.lock_budget = budget
