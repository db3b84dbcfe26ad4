"""Loads and checks workflows, with all node types that are installed: from files, mappings and builders.

Builders (`roundel.Graph`, `roundel.Agent`) are known here by what they can do, since they belong to the
Python interface, which is built on top of this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.structure import check_structure
from roundel.plan.warnings import check_bounds
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


@runtime_checkable
class Builder(Protocol):
    """Something that builds a workflow in Python."""

    def build_and_check(
        self, variables: Mapping[str, Any] | None = None, allow_paths: AllowPaths = ()
    ) -> tuple[Workflow | None, Report]:
        """The workflow, if it is sound, and what there is to say about it."""


Source = Workflow | Builder | Mapping[str, Any] | str | os.PathLike[str]


def load(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
) -> Workflow:
    """The workflow of a file, a builder, an agent or a mapping; WorkflowError with all that is wrong.

    `allow_paths` are folders that it may name files in, beside its own."""
    return load_plan(source, variables, allow_paths=allow_paths).workflow


def load_plan(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
) -> Plan:
    """The same with the plan, in which what is known of the loops has been worked out."""
    plan, report = check_plan(source, variables, allow_paths=allow_paths)
    if plan is None or not report.ok:
        raise WorkflowError(report.errors)
    return plan


def check(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
) -> tuple[Workflow | None, Report]:
    """The workflow, if it can be read at all, and what there is to say about it."""
    plan, report = check_plan(source, variables, allow_paths=allow_paths)
    return (plan.workflow if plan is not None else None), report


def check_plan(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
) -> tuple[Plan | None, Report]:
    """The same with the plan, in which what is known of the loops has been worked out."""
    workflow, report = _read_source(source, variables, allow_paths)
    return (None if workflow is None else _check_workflow(workflow, report)), report


def draft_plan(
    source: str | os.PathLike[str],
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
) -> tuple[Plan | None, Report]:
    """As `check_plan`, but a file with errors gives a plan as well: one to draw, not to run.

    None if there is no graph in the file."""
    return _draft(read_workflow_file(source, TYPES, variables, allow_paths))


def draft_text_plan(
    text: str, variables: Mapping[str, Any] | None = None, name: str = "<text>"
) -> tuple[Plan | None, Report]:
    """The same for a text, which need not be stored anywhere."""
    return _draft(read_workflow_text(text, TYPES, variables, name))


def _draft(reading: LoadResult) -> tuple[Plan | None, Report]:
    if reading.workflow is not None:
        return _check_workflow(reading.workflow, reading.report), reading.report
    # Not checked: what a check finds in a workflow with gaps would follow from the gaps.
    if reading.draft is None:
        return None, reading.report
    plan = compile_workflow(reading.draft)
    plan.draft = True
    return plan, reading.report


def _check_workflow(workflow: Workflow, report: Report) -> Plan | None:
    try:
        plan = compile_workflow(workflow)
        check_structure(plan, report)
        if report.ok:
            check_bounds(plan, report)
    except WorkflowError as error:
        for diagnostic in error.diagnostics:
            report.add(diagnostic)
        return None
    return plan


def _read_source(
    source: Source,
    variables: Mapping[str, Any] | None,
    allow_paths: AllowPaths,
) -> tuple[Workflow | None, Report]:
    if isinstance(source, (str, os.PathLike)):
        return examine(source, TYPES, variables, allow_paths)
    if isinstance(source, Workflow):
        return source, Report()
    if isinstance(source, Mapping):
        return examine_mapping(source, TYPES, None, variables, allow_paths)
    return source.build_and_check(variables, allow_paths)


def prepare(
    source: Source, variables: Mapping[str, Any] | None = None, *, allow_paths: AllowPaths = ()
) -> Plan:
    """A workflow made ready to run, as often as one likes."""
    return compile_workflow(load(source, variables, allow_paths=allow_paths))
