"""Saved workflows: texts with versions, in groups; and the plans that are made from texts.

A text from the web is data. It is read under the policy of the operator (workflow/policy.py), so that nothing
is imported, opened or started that the policy does not name. A text with errors can be saved, as a draft, and
cannot be run.

Reading a text takes time in proportion to its length, up to seconds, so it happens in a thread: other
requests and the streams of events continue meanwhile. A thread cannot be ended, so what takes too long keeps
its thread until it is done; there are few of them (`_READERS`), and what finds none in time is refused, too.

Names are compared in the form NFC: some systems send `é` as two characters.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
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
READ_SECONDS = 10.0
"""How long a request waits for a text to be read."""
BATCH = 50
"""Documents that are read from the store at once: each may have a text of megabytes."""
_READERS = ThreadPoolExecutor(4, "roundel-reader")
"""Texts that are read at the same time. More would only take the interpreter from each other."""
T = TypeVar("T")


class WorkflowText(RequestBody):
    """A workflow that need not be saved."""

    text: Text
    """The text of the workflow."""


class SavedWorkflow(Struct, frozen=True, omit_defaults=True):
    """The body of a document in the library."""

    text: str
    description: str = ""
    errors: int = 0
    """How many errors it had when it was saved, under the policy of that day."""

    @property
    def draft(self) -> bool:
        return self.errors > 0


def document_key(group: str, name: str) -> str:
    """Groups have names of their own: two of them may save different workflows under one name."""
    return f"{quote(group, safe='')}/{unicodedata.normalize('NFC', name)}"


def parse_key(key: str) -> tuple[str, str]:
    """The group and the name of a saved workflow."""
    group, _, name = key.partition("/")
    return unquote(group), name


async def find_workflow(
    context: ServerContext, who: Principal, name: str, group: str | None = None
) -> Document:
    """The newest version of a saved workflow that the caller may see. Without a group, those of the caller
    are searched in order; for a caller who sees all groups, the one without a name comes first."""
    async for key in _possible_keys(context, who, name, group):
        found = await context.documents.get(WORKFLOWS, key)
        if found is not None:
            return found
    raise not_found(f"there is no workflow '{name}'")


async def find_versions(
    context: ServerContext,
    who: Principal,
    name: str,
    group: str | None = None,
    *,
    before: int = 0,
    limit: int = 100,
) -> list[Document]:
    """The versions of a saved workflow, the newest first; also of one that was deleted, so that it can be
    restored. A workflow that exists comes before one that was deleted, whichever group is searched first."""
    keys = [key async for key in _possible_keys(context, who, name, group)]
    for key in keys:
        if await context.documents.get(WORKFLOWS, key) is not None:
            keys = [key]
            break
    for key in keys:
        if await context.documents.versions(WORKFLOWS, key, limit=1):
            return await context.documents.versions(WORKFLOWS, key, before=before, limit=limit)
    raise not_found(f"there is no workflow '{name}'")


async def _possible_keys(
    context: ServerContext, who: Principal, name: str, group: str | None
) -> AsyncIterator[str]:
    """The keys under which a caller may mean a workflow, in the order in which they are searched."""
    groups = (group,) if group is not None else who.groups if who.groups is not None else ("",)
    for one in groups:
        if who.sees(one):
            yield document_key(one, name)
    if group is None and who.groups is None:
        wanted = unicodedata.normalize("NFC", name)
        async for document in _all_documents(context):
            if parse_key(document.key)[1] == wanted:
                yield document.key


async def list_workflows(
    context: ServerContext, who: Principal, group: str | None = None, after: str = ""
) -> AsyncIterator[Document]:
    """The saved workflows that the caller may see, behind the key `after`, in the order of groups and
    names."""
    groups = who.groups
    if group is not None:
        groups = (group,) if who.sees(group) else ()
    if groups is None:
        async for document in _all_documents(context, after=after):
            yield document
        return
    for prefix in sorted({document_key(one, "") for one in groups}):
        async for document in _all_documents(context, prefix, after):
            yield document


async def _all_documents(
    context: ServerContext, prefix: str = "", after: str = ""
) -> AsyncIterator[Document]:
    while found := await context.documents.list(WORKFLOWS, after=after, limit=BATCH, prefix=prefix):
        for document in found:
            yield document
        after = found[-1].key


def saved(document: Document) -> SavedWorkflow:
    body: Any = document.body
    return msgspec.convert(body, SavedWorkflow)


async def in_reader(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function in one of the threads for texts. Problem if it takes too long, or if all threads are
    busy for as long."""
    future = asyncio.get_running_loop().run_in_executor(_READERS, function, *arguments)
    done, _ = await asyncio.wait({future}, timeout=READ_SECONDS)
    if not done:
        future.cancel()  # only one that has not begun
        detail = f"reading the text takes more than {READ_SECONDS:g} seconds, or too many others are read"
        raise Problem(503, "unavailable", detail, headers={"retry-after": "10"})
    return future.result()


async def read_plan(
    context: ServerContext, text: str, variables: Mapping[str, Any] | None = None, name: str = "<text>"
) -> tuple[Plan | None, Report]:
    """The plan of a text, or its draft, and the report. Imports nothing and starts nothing."""
    return await in_reader(read_text_plan, context, text, variables, name)


def read_text_plan(
    context: ServerContext,
    text: str,
    variables: Mapping[str, Any] | None = None,
    name: str = "<text>",
    model: str = "",
) -> tuple[Plan | None, Report]:
    """Like `read_plan`, for a function that is in a thread already. `model` is that of agents that name none;
    a run chooses it when it starts."""
    return draft_text_plan(text, dict(variables or {}), name, policy=context.settings.policy, model=model)


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
            raise Problem(403, "forbidden", "running an unsaved text requires the role author")
        text, name = workflow.text, "<text>"
    else:
        text, name = saved(await find_workflow(context, who, workflow)).text, workflow
    plan, report = await read_plan(context, text, variables, name)
    if plan is None or plan.draft or not report.ok:
        raise WorkflowError(report.errors)
    return plan
