"""Saved workflows: texts with versions, in groups; and the plans that are made from texts.

A text from the web is data. It is read under the policy of the operator (workflow/policy.py), so that nothing
is imported, opened or started that the policy does not name. A text with errors can be saved, as a draft, and
cannot be run.

Reading a text takes time in proportion to its length, up to seconds, so it happens in a thread: other
requests and the streams of events continue meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from roundel.journal.documents import Document
from roundel.nodes.loading import draft_text_plan
from roundel.plan.graph import Plan
from roundel.server.bodies import RequestBody, Text
from roundel.server.identity import Principal
from roundel.server.problems import Problem, not_found
from roundel.workflow.diagnostics import Report, WorkflowError

if TYPE_CHECKING:
    from roundel.server.context import ServerContext

WORKFLOWS = "workflows"
"""The collection of documents."""
_READERS = asyncio.Semaphore(4)
"""Texts that are read at the same time. More would only take the interpreter from each other."""


class WorkflowText(RequestBody):
    """A workflow that need not be saved."""

    text: Text


class SavedWorkflow(Struct, frozen=True, omit_defaults=True):
    """The body of a document in the library."""

    text: str
    description: str = ""


def document_key(group: str, name: str) -> str:
    """Groups have names of their own: two of them may save different workflows under one name."""
    return f"{quote(group, safe='')}/{name}"


def parse_key(key: str) -> tuple[str, str]:
    """The group and the name of a saved workflow."""
    group, _, name = key.partition("/")
    return unquote(group), name


async def find_workflow(
    context: ServerContext, who: Principal, name: str, group: str | None = None
) -> Document:
    """The newest version of a saved workflow that the caller may see. Without a group, those of the caller
    are searched in order; for a caller who sees all groups, the one without a name comes first."""
    groups = (group,) if group is not None else who.groups if who.groups is not None else ("",)
    for one in groups:
        if who.sees(one):
            found = await context.documents.get(WORKFLOWS, document_key(one, name))
            if found is not None:
                return found
    if group is None and who.groups is None:
        for document in await context.documents.list(WORKFLOWS, limit=10_000):
            if parse_key(document.key)[1] == name:
                return document
    raise not_found(f"there is no workflow '{name}'")


def saved(document: Document) -> SavedWorkflow:
    body: Any = document.body
    return msgspec.convert(body, SavedWorkflow)


async def read_plan(
    context: ServerContext, text: str, variables: Mapping[str, Any] | None = None, name: str = "<text>"
) -> tuple[Plan | None, Report]:
    """The plan of a text, or its draft, and the report. Imports nothing and starts nothing."""
    async with _READERS:
        return await asyncio.to_thread(
            draft_text_plan, text, dict(variables or {}), name, policy=context.settings.policy
        )


async def plan_to_run(
    context: ServerContext,
    who: Principal,
    workflow: str | WorkflowText,
    variables: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a saved workflow, or of a text if the caller may run one; WorkflowError if it has
    errors."""
    if isinstance(workflow, WorkflowText):
        if not who.may("author"):
            raise Problem(403, "forbidden", "to run a text that is not saved takes the role author")
        text, name = workflow.text, "<text>"
    else:
        text, name = saved(await find_workflow(context, who, workflow)).text, workflow
    plan, report = await read_plan(context, text, variables, name)
    if plan is None or plan.draft or not report.ok:
        raise WorkflowError(report.errors)
    return plan
