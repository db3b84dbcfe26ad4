"""The model of agents that name none: which agents these are, and the plan with the model that was chosen.

A run uses the profile `default` of its workflow, else the model that was given for it (`--model`, `model=`),
else the one of the environment (`$ROUNDEL_MODEL`). The choice is made once, when the run starts, and becomes
the profile `default` of the workflow that is stored with it. So a run that is resumed, retried or forked on
another machine calls the same model, and forecasts, prices and policies see one more profile and nothing
new (docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.diagnostics import Diagnostic, Severity
from roundel.workflow.graph import Node, with_default_model
from roundel.workflow.model_profile import DEFAULT_PROFILE, MODEL_VARIABLE

MAX_NAMED: Final = 5
"""Agents that a diagnostic names."""
GIVE_MODEL: Final = (
    "set one for all agents: `models: {default: {model: provider:name}}` in the file, --model PROVIDER:NAME, "
    f"or ${MODEL_VARIABLE}; or let a script answer (--script FILE)"
)


def nodes_without_model(plan: Plan) -> list[Node]:
    """The nodes that call a model and name none, wherever they are in the workflow. None if it has the
    profile `default`, which is theirs then."""
    workflow = plan.workflow
    if DEFAULT_PROFILE in workflow.models:
        return []
    return [node.node for node in plan.sites if node.kind.lacks_model(node.config, workflow)]


def with_model(plan: Plan, model: str) -> Plan:
    """The plan with a model for the agents that name none; the same plan if there are none, or no model."""
    if not needs_model(plan, model):
        return plan
    made = compile_workflow(with_default_model(plan.workflow, model), plan.semantics)
    made.warnings = plan.warnings
    return made


def needs_model(plan: Plan, model: str) -> bool:
    """Whether a model was chosen, and there are agents that name none."""
    return bool(model) and bool(nodes_without_model(plan))


def missing_model(found: Sequence[Node], severity: Severity, code: str) -> Diagnostic:
    """One diagnostic for all agents that name no model, at the first of them."""
    names = [f"'{name}'" for name in dict.fromkeys(node.id for node in found)]
    if len(names) > MAX_NAMED:
        names[MAX_NAMED:] = [f"{len(names) - MAX_NAMED} more"]
    message = f"agent {names[0]} has no model"
    if len(names) > 1:
        message = f"agents {', '.join(names[:-1])} and {names[-1]} have no model"
    return found[0].at.diagnostic(severity, code, message, GIVE_MODEL)
