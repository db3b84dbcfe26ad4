"""Budgets: what a graph, a loop or a node may spend, together with everything inside it.

What is about to be spent is reserved first, in every budget around it, so that parallel calls never
exceed a budget together. A model call reserves its `max_tokens`, or what the node's largest call has
used if that was more: the prompt counts as well. The first call of a node has no such measure, so what it
sends is estimated (`NodeType.estimate`), its answer is not: a call that would fit must not be refused. What
does not fit is not started: the run is locked. Only a call that turns out larger than its reservation can
exceed a budget.

`tokens_per_call` is no amount that is used up: each call is compared with it, by its reservation before
it is made, and by its size afterwards (`find_oversized`).

A call whose price is not known costs an unknown amount, so a limit on the cost cannot count it. The fact
that reports the call tells so, and the run is locked after the first one (`find_unpriced`), unless the
budget allows them. No table of prices is read here: a replay must not depend on the table of another
version. The estimate of a first call does read it, and is a stored decision.

A budget counts over all entries of its loop and all runs of its node, in one execution of their graph.

Amounts are whole numbers except for seconds; those of `cost_usd` are picodollars (workflow/limits.py).
Limits, and everything that is shown to people, are in dollars.

Steps are counted apart from all other amounts (`take_step`), because each node that runs counts one: two
comparisons and an addition per budget, without a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from roundel.workflow.graph import Limits
from roundel.workflow.limits import dollars, picodollars, refuses_unpriced

if TYPE_CHECKING:
    from roundel.kernel.commands import Call
    from roundel.kernel.facts import Usage
    from roundel.kernel.state import Activation, Execution, GraphInstance, Run
    from roundel.plan.graph import NodePlan

Amounts = Mapping[str, int]
"""Amounts by the name of their limit."""
NODE, LOOP, GRAPH = "node", "loop", "graph"
NEVER = 1e18
"""A limit that is never reached."""
COST, PER_CALL = "cost_usd", "tokens_per_call"
_SIZES = frozenset({"tokens", "input_tokens", PER_CALL, COST})
"""Limits for which the size of a request matters."""
_NOT_ADDED = ("steps", "seconds", PER_CALL)
"""Limits whose amounts `reserve` and `spend` do not add up."""


class Budget:
    """The limits of one graph, loop or node, what is spent and what is reserved for calls in flight.

    Created when the first node inside draws on it.
    """

    __slots__ = (
        "counted_limits",
        "deadline",
        "limits",
        "most_steps",
        "name",
        "reserved",
        "since",
        "spent",
        "steps",
        "unpriced",
    )

    def __init__(self, name: str, limits: dict[str, float], since: float, unpriced: str = "") -> None:
        self.name = name
        self.limits = limits
        self.unpriced = unpriced
        """`lock` or `allow`; empty if the budget around this one decides."""
        self.spent: dict[str, int] = dict.fromkeys(limits, 0)
        self.reserved: dict[str, int] = dict.fromkeys(limits, 0)
        self.since = since
        """The working time of the run when this budget began to count."""
        self.steps = 0  # not in `spent`: every node that runs counts here
        self.raise_to({})

    def raise_to(self, limits: Mapping[str, float]) -> None:
        """Raises limits after an unlock, and recomputes what is derived from them."""
        self.limits.update(limits)
        self.counted_limits = {
            name: picodollars(limit) if name == COST else limit for name, limit in self.limits.items()
        }
        """The limits in the units of `spent`: picodollars instead of dollars."""
        self.most_steps = self.limits.get("steps", NEVER)
        self.deadline = self.since + self.limits.get("seconds", NEVER)

    def exceeded_limit(self, wanted: Amounts, worked: float) -> str:
        """The name of the limit that would be exceeded; empty if everything fits."""
        if worked >= self.deadline:
            return "seconds"
        if "steps" in wanted and self.steps >= self.most_steps:
            return "steps"
        for name in self._added:
            if name in wanted and passes(
                name, self.counted_limits[name], self.spent[name] + self.reserved[name], wanted[name]
            ):
                return name
        return PER_CALL if wanted.get(PER_CALL, 0) > self.limits.get(PER_CALL, NEVER) else ""

    @property
    def _added(self) -> list[str]:
        return [name for name in self.limits if name not in _NOT_ADDED]

    def reserve(self, wanted: Amounts, sign: int = 1) -> None:
        for name in self._added:
            if name in wanted:
                self.reserved[name] += sign * wanted[name]

    def spend(self, amounts: Amounts) -> None:
        for name in self._added:
            if name in amounts:
                self.spent[name] += amounts[name]

    def spent_amounts(self, worked: float) -> dict[str, float]:
        """The amounts spent, in the units of the limits."""
        known = {"steps": self.steps, "seconds": round(worked - self.since, 3)}
        return {name: known.get(name, shown(name, spent)) for name, spent in self.spent.items()}


def shown(name: str, amount: int) -> float:
    """An amount in the unit that people see."""
    return dollars(amount) if name == COST else amount


def passes(name: str, limit: float, taken: int, wanted: int) -> bool:
    """Whether an amount exceeds a limit.

    Zero is wanted if the size of a call is not known yet. Such a call will use something, so a used-up
    limit refuses it; but its cost may really be zero, so a `cost_usd` limit of 0 still allows free
    models.
    """
    return taken + wanted > limit or (not wanted and taken >= limit and (limit > 0 or name != COST))


class LargestCall(Struct, frozen=True):
    """The largest amounts that the model calls of one node have used so far, each for itself."""

    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


NO_CALL = LargestCall()


class Refusal:
    """The budget and the limit that refuse an amount."""

    __slots__ = ("budget", "what")

    def __init__(self, budget: Budget, what: str) -> None:
        self.budget, self.what = budget, what


def model_call(run: Run, activation: Activation, node: NodePlan, call: Callable[[], Call]) -> dict[str, int]:
    """The amounts that a model call of a node reserves, as far as they can be known. `call` returns the call;
    it is asked only where its size has to be estimated."""
    # The largest call so far includes the prompt, which `max_tokens` (`node.reserve`) does not.
    largest = run.guard_stats.largest_calls.get(node.site)
    if largest is None:
        sent, cost = _estimate(run, activation, node, call)
        largest = LargestCall(sent, sent, 0, cost)
    tokens = max(node.reserve, largest.tokens)
    return {
        "model_calls": 1,
        "tokens": tokens,
        "input_tokens": largest.input_tokens,
        "output_tokens": max(node.reserve, largest.output_tokens),
        PER_CALL: tokens,
        COST: largest.cost,
    }


def _estimate(run: Run, activation: Activation, node: NodePlan, call: Callable[[], Call]) -> tuple[int, int]:
    """The tokens that the first call of a node sends, and their cost; nothing where no limit asks for it."""
    if not run.plan.semantics or not any(
        _SIZES & budget.limits.keys() for budget in budgets_around(run, activation, node)
    ):
        return 0, 0
    sent, cost = run.decisions.record_or_replay(node.kind.estimate, node.config, run.plan.workflow, call())
    return sent, cost


def find_refusal(run: Run, activation: Activation, node: NodePlan, wanted: Amounts) -> Refusal | None:
    """The first budget around a node that has no room, from the inside out; None if all have."""
    for budget in budgets_around(run, activation, node):
        what = budget.exceeded_limit(wanted, run.worked)
        if what:
            return Refusal(budget, what)
    return None


def reserve(run: Run, execution: Execution, wanted: Amounts) -> None:
    """Reserves amounts in all budgets around a call; `release` undoes it."""
    for budget in budgets_around(run, execution.activation, execution.node):
        budget.reserve(wanted)
    execution.reserved = dict(wanted)


def release(run: Run, execution: Execution) -> None:
    """Returns what a call has reserved, when it has ended in any way."""
    wanted, execution.reserved = execution.reserved, None
    if wanted is not None:
        for budget in budgets_around(run, execution.activation, execution.node):
            budget.reserve(wanted, -1)


def spend(run: Run, activation: Activation, node: NodePlan, amounts: Amounts) -> None:
    """Adds amounts to all budgets around a node. Steps are counted by `take_step`."""
    for budget in budgets_around(run, activation, node):
        budget.spend(amounts)


def spend_usage(run: Run, execution: Execution, usage: Usage) -> None:
    """Spends the usage of a call, and remembers the node's largest call for later reservations."""
    tokens, cost = usage.input_tokens + usage.output_tokens, picodollars(usage.cost_usd)
    amounts = {
        "model_calls": usage.model_calls,
        "tool_calls": usage.tool_calls,
        "tokens": tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        COST: cost,
    }
    spend(run, execution.activation, execution.node, amounts)
    if usage.model_calls:
        calls, site = run.guard_stats.largest_calls, execution.node.site
        largest = calls.get(site, NO_CALL)
        calls[site] = LargestCall(
            max(largest.tokens, tokens),
            max(largest.input_tokens, usage.input_tokens),
            max(largest.output_tokens, usage.output_tokens),
            max(largest.cost, cost),
        )


def find_oversized(run: Run, execution: Execution, tokens: int) -> Budget | None:
    """The innermost budget around a call that allows fewer tokens per call; None if there is none."""
    for budget in budgets_around(run, execution.activation, execution.node):
        if tokens > budget.limits.get(PER_CALL, NEVER):
            return budget
    return None


def find_unpriced(run: Run, execution: Execution) -> Budget | None:
    """The innermost budget around a call that limits the cost and does not allow calls without a known
    price; None if there is none."""
    budgets = budgets_around(run, execution.activation, execution.node)
    return refuses_unpriced((budget, COST in budget.limits, budget.unpriced) for budget in budgets)


def budgets_around(run: Run, activation: Activation, node: NodePlan) -> tuple[Budget, ...]:
    """The budgets that a node draws on, from the inside out; cached per activation."""
    found = activation.budgets.get(node.index)
    if found is None:
        found = activation.budgets[node.index] = tuple(_find_budgets(run, activation, node))
    return found


def take_step(run: Run, activation: Activation, node: NodePlan) -> bool:
    """Counts a step in all budgets around the node if it fits into each; otherwise in none."""
    budgets, worked = budgets_around(run, activation, node), run.worked
    for budget in budgets:
        if budget.steps >= budget.most_steps or worked >= budget.deadline:
            return False
    for budget in budgets:
        budget.steps += 1
    return True


def _find_budgets(run: Run, activation: Activation, node: NodePlan) -> Iterator[Budget]:
    """Walks outwards: the node, the free loops around it, its graph, then the node that called the
    graph."""
    scope: Activation | None
    while True:
        instance = activation.instance
        yield from _budget(run, instance, NODE, node.index, node.node.limits, node.id)
        scope = activation
        while scope is not None and scope.scope.entry is not None:
            entry = instance.plan.nodes[scope.scope.entry]
            loop = instance.plan.graph.loops.get(entry.id)
            yield from _budget(run, instance, LOOP, entry.index, loop.limits if loop else None, entry.id)
            scope = scope.parent
        # For the root graph, the plan has merged the limits of the file and of the graph.
        limits = run.plan.limits if instance.caller is None else instance.plan.graph.limits
        yield from _budget(run, instance, GRAPH, 0, limits, instance.plan.graph.id or "the graph")
        if instance.caller is None:
            return
        activation, node = instance.caller.activation, instance.caller.node


def _budget(
    run: Run, instance: GraphInstance, kind: str, index: int, limits: Limits | None, name: str
) -> Iterator[Budget]:
    if limits is None:
        return
    key = f"{kind} {index}"
    found: Any = instance.budgets.get(key)
    if found is None and (limits.budget or limits.unpriced):
        found = instance.budgets[key] = Budget(name, limits.budget, run.worked, limits.unpriced or "")
    if found is not None:
        yield found
