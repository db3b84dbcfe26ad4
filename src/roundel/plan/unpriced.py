"""Warns about limits on the cost that cover models without a known price.

Such a limit cannot count their calls, and the first one locks the run (kernel/budget.py). What is known of
a price is asked of the node type, which looks into the profiles of the workflow and the table of prices.
"""

from __future__ import annotations

from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.loops import survey
from roundel.workflow.diagnostics import Report
from roundel.workflow.graph import Limits
from roundel.workflow.limits import refuses_unpriced

HINT = (
    "give its profile a price: models: {NAME: {price: {input: …, output: …}}}, with 0 for a free model; "
    "or allow it: limits: {unpriced: allow}"
)
HINT_WITHOUT_MODEL = "give it a model, or allow it: limits: {unpriced: allow}"
Around = tuple[Limits, ...]
"""Limits, from the inside out."""


def check_prices(plan: Plan, report: Report) -> None:
    """Warns once for each agent under a limit on the cost whose model may have no known price."""
    if not plan.limits_cost:
        return
    pending: list[tuple[GraphPlan, Around]] = [(plan.graph, (plan.limits,))]
    for graph, around in pending:  # grows during the iteration
        loops = _limits_of_loops(graph)
        for node in graph.nodes:
            own = (node.node.limits,) if node.node.limits is not None else ()
            levels = (*own, *loops.get(node.index, ()), *around)
            _check_node(plan, node, levels, report)
            pending += [(body, (body.graph.limits, *levels)) for body in node.bodies]


def _limits_of_loops(graph: GraphPlan) -> dict[int, Around]:
    """The limits of the free loops around each node, by its index, from the inside out."""
    found: dict[int, Around] = {}
    if all(loop.limits is None for loop in graph.graph.loops.values()):
        return found
    for entered in survey(graph).found:  # outer loops come before those inside them
        settings = graph.graph.loops.get(entered.id)
        if settings is not None and settings.limits is not None:
            for member in entered.scope.members:
                found[member] = (settings.limits, *found.get(member, ()))
    return found


def _check_node(plan: Plan, node: NodePlan, levels: Around, report: Report) -> None:
    limits = refuses_unpriced((one, one.cost_usd is not None, one.unpriced) for one in levels)
    if limits is None:
        return
    models = node.kind.unpriced(node.config, plan.workflow)
    if not models:
        return
    named = " and ".join(f"'{model}'" for model in models if model)
    reason = f"no price is known for {named}" if named else "it names no model"
    message = f"the limit of {limits.cost_usd:g} dollars cannot count the calls of '{node.id}': {reason}"
    hint = HINT if named else HINT_WITHOUT_MODEL
    report.add(node.node.at.diagnostic("warning", "unpriced-model", message, hint))
