"""Saved workflows: texts with versions, in groups; and the plans that are made from texts.

A text from the web is data. It is read under the policy of the operator (workflow/policy.py), so that nothing
is imported, opened or started that the policy does not name. A text with errors can be saved, as a draft, and
cannot be run.

What reading a text takes is known only afterwards, so a worker process reads it first, which can be killed
(worker_pool.py). Only what has passed is compiled in this process: in a thread, since it takes up to seconds,
and once, since the plans of the last texts are kept (accepted_texts.py). A thread cannot be ended, so the
threads do nothing else that grows with a request; there are few of them (`_READERS`).

Names are compared in the form NFC: some systems send `é` as two characters.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import msgspec
from fastapi import Request
from msgspec import Struct

from roundel.hosts.stored_run import pin
from roundel.journal.documents import Document
from roundel.llm.script import Script, script_from
from roundel.nodes.loading import draft_text_plan
from roundel.plan.graph import Plan
from roundel.server.accepted_texts import digest_of
from roundel.server.bodies import RequestBody, Text
from roundel.server.context import ServerContext, context_of
from roundel.server.identity import Principal
from roundel.server.problems import Problem, not_found
from roundel.server.text_jobs import Job, ReadScript, Verdict, Verify
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.policy import Policy

WORKFLOWS = "workflows"
"""The collection of documents."""
UNNAMED = "<text>"
"""The name of a text that is not saved, in diagnostics."""
READ_SECONDS = 10.0
"""How long a request waits for a text that has passed to be compiled."""
PATIENT_SECONDS = 0.2
"""How long a job of a worker takes before its request looks whether the client is still there."""
BATCH = 50
"""Documents that are read from the store at once: each may have a text of megabytes."""
_READERS = ThreadPoolExecutor(4, "roundel-reader")
"""Texts that are compiled at the same time. More would only take the interpreter from each other."""
T = TypeVar("T")


class WorkflowText(RequestBody):
    """A workflow that need not be saved."""

    text: Text
    """The text of the workflow."""


class SavedWorkflow(Struct, frozen=True, omit_defaults=True):
    """The body of a document in the library."""

    text: str = ""
    """Lists leave it out."""
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
    without: str = "",
) -> list[Document]:
    """The versions of a saved workflow, the newest first; also of one that was deleted, so that it can be
    restored. A workflow that exists comes before one that was deleted, whichever group is searched first.
    `without` names a field that is not needed."""
    keys = [key async for key in _possible_keys(context, who, name, group)]
    for key in keys:
        if await context.documents.get(WORKFLOWS, key) is not None:
            keys = [key]
            break
    for key in keys:
        if await context.documents.versions(WORKFLOWS, key, limit=1, without="text"):
            return await context.documents.versions(
                WORKFLOWS, key, before=before, limit=limit, without=without
            )
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
    while found := await context.documents.list(
        WORKFLOWS, after=after, limit=BATCH, prefix=prefix, without="text"
    ):
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


async def in_worker(request: Request, who: Principal, job: Job) -> bytes:
    """The result of a job of a worker process. If the client goes away, the job is given up."""
    answer = context_of(request).workers.submit(job, who.id)
    try:
        await asyncio.wait({answer}, timeout=PATIENT_SECONDS)
        if not answer.done():
            await _answered_or_gone(request, answer)
        return answer.result()
    finally:
        answer.cancel()


async def _answered_or_gone(request: Request, answer: asyncio.Future[bytes]) -> None:
    """Returns when there is an answer; Problem if nobody is there to receive it."""
    for _ in range(2):  # the body, if nobody has read it, comes before the end
        message = asyncio.ensure_future(request.receive())
        waited: list[asyncio.Future[Any]] = [answer, message]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return
            if message.result()["type"] == "http.disconnect":
                raise Problem(503, "unavailable", "the client has gone")
        finally:
            message.cancel()
    await asyncio.wait({answer})


async def verify(
    request: Request,
    who: Principal,
    text: str,
    variables: Mapping[str, Any] | None = None,
    name: str = "",
    *,
    find_secrets: bool = False,
) -> Verdict:
    """What a worker process finds out about a text."""
    job = Verify(text=text, variables=dict(variables or {}), name=name or UNNAMED, find_secrets=find_secrets)
    return msgspec.json.decode(await in_worker(request, who, job), type=Verdict)


class SavedAs(Struct, frozen=True):
    """Under which name, and in which version, the workflow of a run is saved; empty if it is not."""

    saved_as: str
    workflow_version: str


async def plan_to_run(
    request: Request,
    who: Principal,
    workflow: str | WorkflowText,
    variables: Mapping[str, Any] | None = None,
) -> tuple[Plan, SavedAs]:
    """The plan of a saved workflow, or of a text if the caller may run one; WorkflowError if it has
    errors."""
    context = context_of(request)
    if isinstance(workflow, WorkflowText):
        if not who.may("author"):
            raise Problem(403, "forbidden", "running an unsaved text requires the role author")
        text, name, origin = workflow.text, UNNAMED, SavedAs("", "")
    else:
        document = await find_workflow(context, who, workflow)
        text, name, origin = saved(document).text, workflow, SavedAs(workflow, str(document.version))
    digest = digest_of(text, variables, name)
    known = context.accepted.find(digest)
    if isinstance(known, Plan):
        return known, origin
    if digest not in context.accepted:
        verdict = await verify(request, who, text, variables, name)
        if not verdict.is_sound:
            raise WorkflowError(one for one in verdict.diagnostics if one.severity == "error")
    plan = await in_reader(compile_accepted, context.settings.policy, text, variables, name)
    context.accepted.add(digest, plan, len(text))
    return plan, origin


def compile_accepted(
    policy: Policy, text: str, variables: Mapping[str, Any] | None = None, name: str = UNNAMED
) -> Plan:
    """The plan of a text that has passed, or that is part of Roundel. Imports nothing and starts nothing.
    WorkflowError if it has errors by now: a file that it names may have changed."""
    plan, report = draft_text_plan(text, dict(variables or {}), name, policy=policy)
    if plan is None or plan.draft or not report.ok:
        raise WorkflowError(report.errors)
    pin(plan)  # cached with the plan: a start would do it on the event loop
    return plan


async def read_script(request: Request, who: Principal, given: Mapping[str, Any] | str) -> Script:
    """A script, or the text of one; WorkflowError."""
    context = context_of(request)
    digest = digest_of(given)
    known = context.accepted.find(digest)
    if isinstance(known, Script):
        return known
    if digest not in context.accepted:
        await in_worker(request, who, ReadScript(script=given))
    script = await in_reader(script_from, given)
    context.accepted.add(digest, script, len(script.text))
    return script
