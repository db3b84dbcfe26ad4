"""Load and check workflows from files, mappings and builders, with all node types that are installed.

Builders (`roundel.Graph`, `roundel.Agent`) are recognised by a protocol, because they belong to the
Python interface, which imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from roundel.nodes import TYPES
from roundel.plan.breakpoints import check_breakpoints
from roundel.plan.contexts import check_contexts
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.model_choice import missing_model, nodes_without_model, with_model
from roundel.plan.structure import check_structure
from roundel.plan.unpriced import check_prices
from roundel.plan.warnings import check_bounds, check_verdicts
from roundel.workflow.allow_list import TRUSTED, Policy
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.document import AllowPaths
from roundel.workflow.graph import Workflow
from roundel.workflow.loader import (
    LoadResult,
    examine,
    examine_mapping,
    read_workflow_file,
    read_workflow_text,
)
from roundel.workflow.policy import check_policy
from roundel.workflow.python_warnings import warn_caller
from roundel.workflow.variables import given_names


@runtime_checkable
class Builder(Protocol):
    """An object that builds a workflow in Python: `roundel.Graph`, `roundel.Agent`."""

    def build_and_check(
        self, variables: Mapping[str, Any] | None = None, allow_paths: AllowPaths = ()
    ) -> tuple[Workflow | None, Report]:
        """Returns the workflow, None if it has errors, and the report."""


Source = Workflow | Plan | Builder | Mapping[str, Any] | str | os.PathLike[str]


def load(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> Workflow:
    """Loads a workflow from a file, a builder, an agent or a mapping; WorkflowError with all errors at
    once. Its warnings are warnings of Python (`RoundelWarning`).

    `allow_paths` are folders in which the workflow may name files, beside its own (decision 12). `policy` is
    what a text may use that is data of somebody else; nothing is imported then (decision 34)."""
    return prepare(source, variables, allow_paths=allow_paths, policy=policy).workflow


def load_plan(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
    model: str = "",
) -> Plan:
    """As `load`, but returns the plan, which contains the analysis of the loops, and has the warnings
    instead of giving them to Python. Use it to run the workflow, so that the plan is not compiled twice."""
    plan, report = check_plan(source, variables, allow_paths=allow_paths, policy=policy, model=model)
    if plan is None or not report.ok:
        raise WorkflowError(report.errors)
    # The text of a plan that was prepared before is not read again, but its warnings are known.
    before = source.warnings if isinstance(source, Plan) else ()
    plan.warnings = tuple(dict.fromkeys((*before, *report.diagnostics)))
    return plan


def check(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
    model: str = "",
) -> tuple[Workflow | None, Report]:
    """Checks a workflow without raising: returns it, None if it cannot be read at all, and the report.
    `model` is the model of agents that name none."""
    plan, report = check_plan(source, variables, allow_paths=allow_paths, policy=policy, model=model)
    return (plan.workflow if plan is not None else None), report


def check_plan(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
    model: str = "",
) -> tuple[Plan | None, Report]:
    """As `check`, but returns the plan. It may be a plan with errors in its report, which must not
    run."""
    workflow, report = _read_source(source, variables, allow_paths, policy)
    return (None if workflow is None else _check_workflow(workflow, report, model)), report


def draft_plan(
    source: str | os.PathLike[str],
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> tuple[Plan | None, Report]:
    """As `check_plan`, but a file with errors gives a plan too: a draft to draw, not to run. Editors and
    `plot` show a file while it is being written.

    None if there is no graph in the file."""
    return _draft(read_workflow_file(source, TYPES, variables, allow_paths, policy))


def draft_text_plan(
    text: str,
    variables: Mapping[str, Any] | None = None,
    name: str = "<text>",
    *,
    policy: Policy = TRUSTED,
    model: str = "",
) -> tuple[Plan | None, Report]:
    """As `draft_plan`, for the text of a file that need not be stored anywhere."""
    return _draft(read_workflow_text(text, TYPES, variables, name, policy), model)


def _draft(reading: LoadResult, model: str = "") -> tuple[Plan | None, Report]:
    if reading.workflow is not None:
        return _check_workflow(reading.workflow, reading.report, model), reading.report
    # A draft is not checked further: in a workflow with gaps, a check would report consequences of the
    # gaps.
    if reading.draft is None:
        return None, reading.report
    plan = compile_workflow(reading.draft)
    plan.draft = True
    return plan, reading.report


def _check_workflow(workflow: Workflow, report: Report, model: str) -> Plan | None:
    try:
        plan = with_model(compile_workflow(workflow), model)
        check_structure(plan, report)
        if report.ok:  # the proof of bounds is only meaningful for a sound structure
            check_bounds(plan, report)
            check_verdicts(plan, report)
        check_contexts(plan, report)
        check_prices(plan, report)
        check_breakpoints(plan, report)
    except WorkflowError as error:
        for diagnostic in error.diagnostics:
            report.add(diagnostic)
        return None
    return plan


def check_models(plan: Plan, report: Report) -> None:
    """Warns if agents name no model. Only for those who ask about a file (`roundel check`, an editor): a run
    may have a script, and is refused if it has none (hosts/executor.py)."""
    found = nodes_without_model(plan) if report.ok and not plan.draft else []
    if found:
        report.add(missing_model(found, "warning", "no-model"))


def _read_source(
    source: Source,
    variables: Mapping[str, Any] | None,
    allow_paths: AllowPaths,
    policy: Policy,
) -> tuple[Workflow | None, Report]:
    if isinstance(source, (str, os.PathLike)):
        return examine(source, TYPES, variables, allow_paths, policy)
    if isinstance(source, Mapping):
        return examine_mapping(source, TYPES, None, variables, allow_paths, policy)
    if isinstance(source, (Plan, Workflow)) and given_names(variables or {}):
        raise ValueError(
            "variables= needs a workflow in which they are not replaced yet: a file, a mapping or a Graph"
        )
    if not isinstance(source, (Plan, Workflow)):
        # A builder is Python code of this process, which has checked its functions already.
        workflow, report = source.build_and_check(variables, allow_paths)
    else:
        workflow, report = source.workflow if isinstance(source, Plan) else source, Report()
    for diagnostic in check_policy(workflow, policy, scripted=True) if workflow is not None else ():
        report.add(diagnostic)
    return workflow, report


def prepare(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> Plan:
    """Loads and compiles a workflow once, to run it many times. Its warnings are warnings of Python."""
    plan = load_plan(source, variables, allow_paths=allow_paths, policy=policy)
    warn_caller(plan.warnings)
    return plan
