"""What each node of a plan does in a run, made ready before it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from roundel.hosts.attendance import made
from roundel.hosts.edges import EdgeFunctions, references
from roundel.hosts.lent import Lent
from roundel.hosts.retry import persistent
from roundel.nodes.middleware import Middleware
from roundel.nodes.services import Behaviour, NodeError
from roundel.plan.graph import NodePlan, Plan
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.fields import Place
from roundel.workflow.graph import Retry


class Prepared(Struct, frozen=True):
    """Everything that a run needs besides its plan."""

    behaviours: list[Behaviour]
    functions: EdgeFunctions
    middleware: list[Middleware]


def prepared(plan: Plan, lent: Lent) -> Prepared:
    """WorkflowError with everything that the run would lack."""
    report = Report()
    behaviours = [_tried(report, node.node.at, _behaviour, node, lent) for node in plan.sites]
    named = {key: edge.edge.at for node in plan.sites for edge in node.edges for key in references(edge)}
    functions = {key: _tried(report, at, lent.finder.find, *key) for key, at in named.items()}
    uses = plan.workflow.middleware
    middleware = [_tried(report, use.at, made, use, lent.finder) for use in uses]
    if not report.ok:
        raise WorkflowError(report.diagnostics)
    return Prepared(behaviours, functions, middleware)


def _behaviour(node: NodePlan, lent: Lent) -> Behaviour:
    behave: Behaviour = node.kind.prepare(node.node, lent)
    envelope = node.node
    if envelope.timeout is None and envelope.retry is None:
        return behave
    return persistent(behave, envelope.timeout, envelope.retry or Retry(max_attempts=1))


def _tried(report: Report, at: Place, make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except (NodeError, LookupError) as error:
        text = str(error.args[0] if error.args else error)
        report.add(at.diagnostic("error", "cannot-run", text))
