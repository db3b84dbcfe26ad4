"""The forecast: what a run may cost, before it starts, in model calls, tool calls, tokens and money.

The worst case follows from the proof that loops end and from the limits of agents. The typical case
rests on assumptions, which are part of the forecast (`ASSUMPTIONS`), so that nobody takes it for more
than it is. Tokens and money have no worst case: what an agent is sent grows with what was said before.

A node runs once in each round of its innermost loop, so numbers multiply from the outside inwards, as in
the proof. The breaker uses the same numbers to recognise a surge of tokens (kernel/token_surge.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.loops import survey
from roundel.plan.proof import FOREVER, bounds
from roundel.plan.scope import Scope
from roundel.workflow.graph import Node
from roundel.workflow.limits import sum_dollars
from roundel.workflow.model_profile import Price
from roundel.workflow.node_type import Calls

TYPICAL_CAPPED = 3
TYPICAL_PARTS = 3
TYPICAL_TURNS = 10
TYPICAL_MESSAGE = 300
CHARACTERS_A_TOKEN = 4
MILLION = 1_000_000
"""Prices are per million tokens."""

ASSUMPTIONS = (
    "worst case: a loop runs until its guard ends it, or until its cap locks the run",
    "typical: a loop takes half of its maximum rounds",
    f"typical: a loop that only its cap or a timer bounds takes {TYPICAL_CAPPED} rounds",
    f"typical: a loop agent or debate takes half of its maximum rounds, at most {TYPICAL_TURNS}",
    f"typical: a dynamic edge produces {TYPICAL_PARTS} parts",
    f"typical: a message has {TYPICAL_MESSAGE} tokens; a token is {CHARACTERS_A_TOKEN} characters",
    "an agent receives its role, its prompt and one message for each incoming edge",
    "an agent in a loop also receives the task and its last answer, or its history",
    "worst case: each run of an agent takes one more call, for an empty answer or an overlong list",
    "tokens: no worst case, because the input of an agent grows with the conversation",
    "worst case: an agent calls its model after each tool round, for each repair, and to reflect",
    "worst case: an agent uses max_tool_calls tool rounds, each with max_calls_per_round calls",
    "typical: an agent with tools uses 2 tool rounds with one call each, and no repairs",
    "typical: each further call of one run receives one more message",
    "retries of failed calls are not counted",
    "cost: of the typical tokens, at the price of the profile or the price table; no worst case",
)


class Estimate(Struct, frozen=True):
    """A worst case and a typical case."""

    worst: int | None
    """None if nothing bounds it, or the bound is too large to be of use."""
    typical: int
    """What is usual."""

    def times(self, other: Estimate) -> Estimate:
        worst = None if self.worst is None or other.worst is None else self.worst * other.worst
        # Nested loops multiply; a bound beyond FOREVER tells nothing and would grow without limit.
        known = worst is None or worst <= FOREVER
        return Estimate(worst if known else None, min(self.typical * other.typical, FOREVER))

    def plus(self, other: Estimate) -> Estimate:
        worst = None if self.worst is None or other.worst is None else self.worst + other.worst
        return Estimate(worst, self.typical + other.typical)

    def at_least(self, other: Estimate) -> Estimate:
        """The maximum of both, case by case."""
        worst = None if self.worst is None or other.worst is None else max(self.worst, other.worst)
        return Estimate(worst, max(self.typical, other.typical))


class NodeForecast(Struct, frozen=True):
    """The row of one node."""

    node: str
    """The id of the node."""
    path: str
    """The nodes around it, if it is in a subgraph or a loop agent."""
    loop: str
    """Its innermost loop."""
    runs: Estimate
    """How often it runs."""
    model_calls: Estimate
    """Its calls of models."""
    tool_calls: Estimate
    """Its calls of tools."""
    tokens: Estimate
    """The tokens that it uses."""
    cost_usd: float | None
    """A rule of thumb; None if the price of its model is not known."""


class Forecast(Struct, frozen=True):
    """The rows of all nodes, and their sums."""

    nodes: tuple[NodeForecast, ...]
    """One row for each node."""
    model_calls: Estimate
    """The calls of models in the whole run."""
    tool_calls: Estimate
    """The calls of tools in the whole run."""
    tokens: Estimate
    """The tokens of the whole run."""
    cost_usd: float | None
    """A rule of thumb, for the agents whose price is known; None if none is."""
    unpriced: tuple[str, ...]
    """The agents whose price is not known."""
    assumptions: tuple[str, ...] = ASSUMPTIONS
    """What the figures assume."""


NOTHING, ONCE = Estimate(0, 0), Estimate(1, 1)
NO_CALLS, ONE_CALL = Calls(), Calls(models=(1, 1))

Pricing = Callable[[Node], Price | None]
"""The price of the model of an agent; None if it is not known."""


def forecast(plan: Plan, price: Pricing = lambda _: None, *, spare: bool = True) -> Forecast:
    """The forecast of a workflow. Without `price` it contains no cost. `spare` adds calls that something
    unusual causes to the worst case."""
    return _summed([_row(node, path, loop, runs, price, spare) for node, path, loop, runs in _all_runs(plan)])


def forecast_call_sizes(plan: Plan) -> list[int]:
    """The typical tokens of one model call of each node, by site; 0 for nodes without a model."""
    sizes = [0] * len(plan.sites)
    for node, _, _, runs in _all_runs(plan):
        calls = _calls(node).models[1]
        if node.kind.speaks and calls:
            sizes[node.site] = -(-sum(_tokens(node, calls, runs.typical)) // calls)
    return sizes


def _all_runs(plan: Plan) -> Iterator[tuple[NodePlan, str, str, Estimate]]:
    """Each node of the workflow, with the nodes around it, its innermost loop and how often it runs."""
    pending = [(plan.graph, "", ONCE)]
    for graph, path, times in pending:  # grows during the iteration
        for node, (loop, runs) in zip(graph.nodes, _runs(graph, times), strict=True):
            yield node, path, loop, runs
            iterations = _body_runs(node)
            pending += [
                (body, f"{path}{node.id}/", runs.times(turn))
                for body, turn in zip(node.bodies, iterations, strict=True)
            ]


def _summed(rows: list[NodeForecast]) -> Forecast:
    models, tools, tokens = NOTHING, NOTHING, NOTHING
    for row in rows:
        models, tools = models.plus(row.model_calls), tools.plus(row.tool_calls)
        tokens = tokens.plus(row.tokens)
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    unpriced = tuple(f"{row.path}{row.node}" for row in rows if row.cost_usd is None)
    # Nodes without a model cost 0. If no price of a model is known, their sum must not look like one.
    known = any(row.cost_usd is not None and row.model_calls != NOTHING for row in rows)
    return Forecast(
        tuple(rows), models, tools, tokens, sum_dollars(costs) if known or not unpriced else None, unpriced
    )


def _runs(graph: GraphPlan, times: Estimate) -> list[tuple[str, Estimate]]:
    """For each node, its innermost loop and how often it runs: once in each round of that loop.

    A node may have several innermost loops, one for each entry; the largest estimate counts.
    """
    found: list[tuple[str, Estimate]] = [("", times) for _ in graph.nodes]
    totals: dict[Scope, Estimate] = {graph.root: times}
    in_loops: dict[int, tuple[str, Estimate]] = {}
    surveyed = survey(graph)
    for loop in surveyed.found:
        scope = loop.scope
        assert scope.parent is not None
        total = totals[scope] = totals[scope.parent].times(_rounds(scope))
        for unit in scope.units:
            if unit.node is not None:
                _, before = in_loops.get(unit.node.index, ("", NOTHING))
                in_loops[unit.node.index] = (loop.id, total.at_least(before))
    for unanalysed in surveyed.unanalysed:
        # The nesting of the loops inside is not known, so there is no worst case.
        total = totals[unanalysed.scope].times(Estimate(None, TYPICAL_CAPPED))
        for member in unanalysed.unit.members:
            _, before = in_loops.get(member, ("", NOTHING))
            in_loops[member] = (unanalysed.entry.id, total.at_least(before))
    for index, entry in in_loops.items():
        found[index] = entry
    for node in graph.nodes:
        if node.has_dynamic_input:
            loop_id, runs = found[node.index]
            found[node.index] = (loop_id, Estimate(None, runs.typical * TYPICAL_PARTS))
    return found


def _rounds(scope: Scope) -> Estimate:
    _, worst = bounds(scope)
    if worst is None:
        return Estimate(scope.cap, min(scope.cap, TYPICAL_CAPPED))
    return Estimate(worst, (worst + 1) // 2)


def _body_runs(node: NodePlan) -> list[Estimate]:
    """How often each body of a node runs per run of the node."""
    if node.kind.controller is None:
        return [ONCE for _ in node.bodies]
    most = node.kind.iterations(node.config)
    return [Estimate(iterations, _typical_iterations(iterations)) for iterations in most]


def _typical_iterations(iterations: int | None) -> int:
    return TYPICAL_CAPPED if iterations is None else min(TYPICAL_TURNS, (iterations + 1) // 2)


def _row(node: NodePlan, path: str, loop: str, runs: Estimate, price: Pricing, spare: bool) -> NodeForecast:
    calls = _calls(node)
    most = calls.models[0] + (calls.spare if spare else 0)
    models, tools = runs.times(Estimate(most, calls.models[1])), runs.times(Estimate(*calls.tools))
    if not node.kind.speaks:
        return NodeForecast(node.id, path, loop, runs, models, tools, NOTHING, 0)
    sent, said = _tokens(node, calls.models[1], runs.typical)
    tokens = runs.times(Estimate(None, sent + said))
    cost = _cost(price(node.node), runs.typical * sent, runs.typical * said)
    return NodeForecast(node.id, path, loop, runs, models, tools, tokens, cost)


def _calls(node: NodePlan) -> Calls:
    return node.kind.calls(node.config) or (ONE_CALL if node.kind.speaks else NO_CALLS)


def _tokens(node: NodePlan, calls: int, runs: int) -> tuple[int, int]:
    """The tokens that the calls of one run take in, and those that they return: a rule of thumb."""
    config = node.config
    fixed = (len(getattr(config, "role", "")) + len(getattr(config, "prompt", ""))) // CHARACTERS_A_TOKEN
    params = {**getattr(config, "params", {}), **getattr(config, "parameters", {})}
    longest = params.get("max_tokens")
    answer = min(longest, TYPICAL_MESSAGE) if isinstance(longest, int) else TYPICAL_MESSAGE
    # Each call of a tool loop sees one message more than the one before: 0 + 1 + 2 + …
    further = TYPICAL_MESSAGE * (calls * (calls - 1) // 2)
    seen = max(1, node.arriving) + _earlier_messages(node, runs)
    return calls * (fixed + TYPICAL_MESSAGE * seen) + further, calls * answer


def _earlier_messages(node: NodePlan, runs: int) -> int:
    """How many messages an agent in a loop sees besides what has arrived: the task and its last answer, or
    half of all that it will have got and said when the loop ends."""
    policy = node.context.policy if node.context is not None and runs > 1 else "message"
    return {"message": 0, "task": 2, "history": runs}[policy]


def _cost(price: Price | None, sent: int, said: int) -> float | None:
    return None if price is None else (sent * price.input + said * price.output) / MILLION
