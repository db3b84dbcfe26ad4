"""Warnings about what agents see: those that are blind in a loop, and contexts without effect.

A blind agent gets nothing in round 2 but the newest message, neither its task nor what it wrote itself. A
model that is sent a criticism alone asks for the text that it is about, and the loop never converges. The
default avoids this (graph.py), so only files that say otherwise are warned about.
"""

from __future__ import annotations

from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.loops import survey
from roundel.workflow.diagnostics import Report


def check_contexts(plan: Plan, report: Report) -> None:
    """Warns once for each loop, at its first blind agent in the file."""
    warned: set[tuple[int, str]] = set()
    for graph in reversed(plan.graph.family):  # outer graphs were compiled last
        for node in graph.nodes:
            loop = _loop_around(plan, graph, node) if node.blind else ""
            if loop and (id(graph), loop) not in warned:
                warned.add((id(graph), loop))
                _warn_blind(node, loop, report)
    for owner in plan.sites:
        if owner.kind.body_context(owner.config) == "speakers":
            for body in owner.bodies:
                _warn_without_effect(owner, body, report)


def _loop_around(plan: Plan, graph: GraphPlan, node: NodePlan) -> str:
    """The id of the innermost loop around a node."""
    around = survey(graph).around(node)
    if around:
        return around[-1].id
    owners = [owner.id for owner in plan.sites if any(body is graph for body in owner.bodies)]
    return owners[0] if owners else ""


def _warn_blind(node: NodePlan, loop: str, report: Report) -> None:
    message = (
        f"in round 2 of loop '{loop}', '{node.id}' sees neither the task nor its own last output; "
        "set `context: task`"
    )
    hint = "`context: message` says that the newest message is enough"
    report.add(node.node.at.diagnostic("warning", "blind-agent", message, hint))


def _warn_without_effect(owner: NodePlan, body: GraphPlan, report: Report) -> None:
    for node in body.nodes:
        view = node.kind.context(node.config)
        context = view.context if view is not None else None
        if context is not None and context.policy != "message" and not context.compacts:
            message = f"`context: {context.policy}` of '{node.id}' has no effect in a {owner.kind.name}"
            hint = f"the {owner.kind.name} gives its participants what they need"
            report.add(node.node.at.diagnostic("warning", "without-effect", message, hint))
