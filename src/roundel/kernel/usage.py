"""The usage of calls: what a node may still use before it starts, and what its calls have used.

Budgets (budget.py) only count. Here a run is locked when a call does not fit, or turns out to be too large
or without a price; and usage is added to the totals, the budgets and the breaker, with its event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

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
from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome, Usage
from roundel.kernel.payloads import TokenUsage, Warned
from roundel.kernel.state import UNPRICED, Activation, Execution, Run
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
    """Adds the usage of an outcome to the totals, budgets and breaker, and emits `token_usage`."""
    if outcome.aside is not None:
        _record_usage(run, execution, outcome.aside)
    if outcome.usage is not None:
        _record_usage(run, execution, outcome.usage)


def _record_usage(run: Run, execution: Execution, usage: Usage) -> None:
    node, address = execution.node, execution.address
    # In picodollars here: float dollars would not add up exactly.
    for name, count in run.usage.items():
        amount = picodollars(usage.cost_usd) if name == COST else getattr(usage, name)
        run.usage[name] = count + amount
    if run.budgeted:
        spend_usage(run, execution, usage)
        _check_call(run, execution, usage)
    if usage.model_calls:
        count_tokens(run, execution, usage.input_tokens + usage.output_tokens)
    else:
        # Embeddings, for example: the forecast expects none, so they must not look like a surge.
        run.guard_stats.aside += usage.input_tokens + usage.output_tokens
    if usage.input_tokens or usage.output_tokens or usage.cached:
        run.emit(_shown_usage(usage), node.id, address)


def record_failed_call(run: Run, execution: Execution) -> None:
    """Books a call that failed, if it was one of a model: nobody reports its usage, but it was made, so it
    counts as one call. The calls of a tool loop with a label are tools."""
    is_model_node = execution.node.kind.speaks and isinstance(execution.command, Call)
    if not is_model_node or (execution.loop_call and execution.loop_call.label):
        return
    if run.plan.semantics >= 3:
        run.usage["model_calls"] += 1
    if run.budgeted:
        spend(run, execution.activation, execution.node, {"model_calls": 1})


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
            run.emit(Warned(text, model=usage.model), execution.node.id, execution.address)
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


def _shown_usage(usage: Usage) -> TokenUsage:
    return TokenUsage(
        usage.input_tokens,
        usage.output_tokens,
        usage.model,
        UNSET if not usage.model else None if usage.unpriced_calls else usage.cost_usd,
        usage.cached,
        aside=not usage.cached and not usage.model_calls,
    )
