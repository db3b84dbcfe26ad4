"""Saved workflows: list, read, save, copy and delete them, and read their earlier versions.

A version is the ETag of a workflow. A client that saves says which version it changes (`If-Match`), or that
there is none yet (`If-None-Match: *`), so that nobody overwrites what they have not seen: also across
processes, since the store compares the version in the transaction that writes.

A workflow belongs to a group. Where a request names none, the groups of the caller are searched in order; a
new one gets the first of them. `draft` and `errors` are of the day on which a version was saved; `check`
gives those of today, and a start checks again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import Field, StringConstraints

from roundel.journal.documents import Document, DocumentConflict
from roundel.kernel.events import stamp
from roundel.server.admission import TEXT_BODY, Route
from roundel.server.bodies import (
    LOCATION,
    Cursor,
    DiagnosticView,
    PageSize,
    RequestBody,
    ResponseBody,
    ShortText,
    Text,
    problems,
)
from roundel.server.context import ServerContext, caller, context_of
from roundel.server.identity import Principal
from roundel.server.library import (
    WORKFLOWS,
    SavedWorkflow,
    document_key,
    find_versions,
    find_workflow,
    list_workflows,
    parse_key,
    saved,
    verify,
)
from roundel.server.problems import Problem, not_found
from roundel.server.text_jobs import Verdict
from roundel.workflow.diagnostics import Diagnostic, WorkflowError

router = APIRouter(prefix="/api/v1", tags=["workflows"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Author = Annotated[Principal, caller("author")]

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
"""Control characters, and those that change the direction of the text after them."""
NAME = rf"^[^./\s{_CONTROL}](?:[^/{_CONTROL}]*[^/\s{_CONTROL}])?$"
"""Any script. No `/`, no control characters, no dot at the start, no space at either end."""
SavedName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NAME)]
NamePath = Annotated[
    str, Path(min_length=1, max_length=200, pattern=NAME, description="The name of the workflow.")
]
GroupName = Annotated[str, Field(max_length=200)]
"""Shorter than elsewhere: a cursor contains it."""
VersionPath = Annotated[int, Path(ge=1, le=10**15, description="The number of the version.")]
Group = Annotated[
    GroupName | None,
    Field(description="The group of the workflow; without it, the groups of the caller are searched."),
]
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description='The version that is changed, as its `ETag`: `"3"`.'),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="`*`: there must be no such workflow yet. When reading: the version that the client has.",
    ),
]
ETAG_HEADER = {
    "ETag": {"description": "The version, in quotes.", "required": True, "schema": {"type": "string"}}
}
_ETAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|$)')


class WorkflowSummary(ResponseBody):
    """A saved workflow, as lists show it."""

    name: str
    """The name."""
    group: str
    """The group; empty for the one without a name."""
    version: int
    """The number of the version, which is its ETag."""
    updated: str
    """When this version was saved."""
    author: str
    """Who saved it."""
    description: str
    """What it is for."""
    draft: bool
    """It had errors when it was saved, and cannot be run as it is."""
    errors: int
    """How many errors it had when it was saved."""


class WorkflowList(ResponseBody):
    """A page of saved workflows."""

    workflows: list[WorkflowSummary]
    """The workflows of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


class WorkflowView(WorkflowSummary):
    """A saved workflow with its text."""

    text: str
    """The text."""


class SaveResult(WorkflowSummary):
    """What was saved, and what is wrong with it."""

    diagnostics: list[DiagnosticView]
    """Errors and warnings of the text."""


class VersionList(ResponseBody):
    """A page of versions."""

    versions: list[WorkflowSummary]
    """The versions of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


class PurgedVersions(ResponseBody):
    """What was deleted."""

    deleted: int
    """How many versions."""


class SaveBody(RequestBody):
    """A text to save."""

    text: Text
    """The text; it may have errors."""
    description: ShortText | None = None
    """Without it, the description in the text counts."""


class CopyBody(RequestBody):
    """Where to copy a workflow."""

    name: SavedName
    """The name of the copy."""
    group: GroupName | None = None
    """The group of the copy; without it, the first of the caller."""


def diagnostic_view(found: Diagnostic) -> DiagnosticView:
    return DiagnosticView(**msgspec.to_builtins(found))


def _fields(document: Document) -> dict[str, Any]:
    group, name = parse_key(document.key)
    body = saved(document)
    return {
        "name": name,
        "group": group,
        "version": document.version,
        "updated": stamp(document.updated),
        "author": document.author,
        "description": body.description,
        "draft": body.draft,
        "errors": body.errors,
    }


def _view(document: Document) -> WorkflowView:
    return WorkflowView(**_fields(document), text=saved(document).text)


def _etag(version: int) -> str:
    return f'"{version}"'


# Reading.


@router.get("/workflows", responses=problems())
async def get_workflows(
    request: Request,
    who: Viewer,
    q: Annotated[ShortText, Field(description="A part of the name or of the description.")] = "",
    group: Group = None,
    cursor: Annotated[
        str,
        Field(
            max_length=8_000,
            pattern="^(?:[0-9a-f]{2})*$",
            description="`next` of the page before; empty for the first page.",
        ),
    ] = "",
    limit: PageSize = 50,
) -> WorkflowList:
    """The saved workflows of the groups that the caller sees, by group and name. `q` is a part of the name
    or of the description."""
    wanted, after = q.casefold(), _decode_cursor(cursor)
    page: list[WorkflowSummary] = []
    last = ""
    async for document in list_workflows(context_of(request), who, group, after):
        shown = WorkflowSummary(**_fields(document))
        if wanted and wanted not in f"{shown.name}\n{shown.description}".casefold():
            continue
        if len(page) == limit:
            return WorkflowList(workflows=page, next=_encode_cursor(last))
        page.append(shown)
        last = document.key
    return WorkflowList(workflows=page)


def _encode_cursor(key: str) -> str:
    return key.encode().hex()


def _decode_cursor(cursor: str) -> str:
    """The key behind which the page begins. Any text is a position in the order of keys, also one that is no
    key."""
    return bytes.fromhex(cursor).decode(errors="replace")


@router.get(
    "/workflows/{name}",
    responses={
        **problems(),
        200: {"description": "The workflow.", "headers": ETAG_HEADER},
        304: {"description": "The version that the client has is the current one.", "headers": ETAG_HEADER},
    },
    response_model=WorkflowView,
)
async def get_workflow(
    name: NamePath,
    request: Request,
    response: Response,
    who: Viewer,
    group: Group = None,
    if_none_match: IfNoneMatch = None,
) -> WorkflowView | Response:
    """A saved workflow with its text. With `If-None-Match`, 304 if it has not changed."""
    document = await find_workflow(context_of(request), who, name, group)
    headers = {"etag": _etag(document.version)}
    if if_none_match is not None and _lists(if_none_match, document.version, weak=True):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return _view(document)


@router.get("/workflows/{name}/versions", responses=problems())
async def get_versions(
    name: NamePath,
    request: Request,
    who: Viewer,
    group: Group = None,
    cursor: Cursor = "",
    limit: PageSize = 50,
) -> VersionList:
    """The versions of a workflow, the newest first; also of one that was deleted."""
    found = await find_versions(
        context_of(request), who, name, group, before=int(cursor or 0), limit=limit + 1, without="text"
    )
    page = found[:limit]
    return VersionList(
        versions=[WorkflowSummary(**_fields(document)) for document in page],
        next=str(page[-1].version) if len(found) > limit else None,
    )


@router.get("/workflows/{name}/versions/{version}", responses=problems())
async def get_version(
    name: NamePath,
    version: VersionPath,
    request: Request,
    who: Viewer,
    group: Group = None,
) -> WorkflowView:
    """One version of a workflow with its text."""
    found = await find_versions(context_of(request), who, name, group, before=version + 1, limit=1)
    if not found or found[0].version != version:
        raise not_found(f"the workflow '{name}' has no version {version}")
    return _view(found[0])


# Saving.


@router.put(
    "/workflows/{name}",
    openapi_extra=TEXT_BODY,
    responses={
        **problems(404, 412, 428, 429),
        200: {"description": "A new version was saved.", "headers": ETAG_HEADER},
        201: {
            "description": "The first version was saved.",
            "model": SaveResult,
            "headers": ETAG_HEADER | LOCATION,
        },
    },
)
async def put_workflow(
    name: NamePath,
    body: SaveBody,
    request: Request,
    response: Response,
    who: Author,
    group: Group = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> SaveResult:
    """Save a workflow: a new one with `If-None-Match: *`, another version with `If-Match`. A text with errors
    is saved as a draft, and the answer has its errors."""
    context = context_of(request)
    if if_match is None and (if_none_match or "").strip() != "*":
        detail = "send If-Match with the version that you change, or If-None-Match: * for a new workflow"
        raise Problem(428, "precondition-required", detail)
    if if_match is None:
        key = document_key(_new_group(who, group), name)
        current = await context.documents.get(WORKFLOWS, key)
    else:
        current = await find_workflow(context, who, name, group)
        key = current.key
    expected = _expected(current, if_match, if_none_match)
    document, diagnostics = await _save(request, who, key, body, expected)
    response.headers["etag"] = _etag(document.version)
    if not expected:
        response.status_code = 201
        response.headers["location"] = _location(document.key)
    return SaveResult(**_fields(document), diagnostics=[diagnostic_view(one) for one in diagnostics])


@router.post(
    "/workflows/{name}/copy",
    status_code=201,
    responses={
        **problems(409),
        201: {"description": "The workflow was copied.", "headers": ETAG_HEADER | LOCATION},
    },
)
async def copy_workflow(
    name: NamePath, body: CopyBody, request: Request, response: Response, who: Author, group: Group = None
) -> WorkflowSummary:
    """Copy a workflow under a new name, or to another group. 409 if there is one already."""
    context = context_of(request)
    source = saved(await find_workflow(context, who, name, group))
    target = document_key(_new_group(who, body.group), body.name)
    if await context.documents.get(WORKFLOWS, target) is not None:
        raise _taken(body.name)
    await _check_secrets(request, who, source.text, target)
    await context.audit(who, "workflow.copy", _named(target), group=parse_key(target)[0], source=name)
    try:
        document = await _write(context, who, target, source, 0)
    except DocumentConflict:
        raise _taken(body.name) from None
    response.headers["etag"] = _etag(document.version)
    response.headers["location"] = _location(document.key)
    return WorkflowSummary(**_fields(document))


@router.delete("/workflows/{name}", status_code=204, responses=problems(412))
async def delete_workflow(
    name: NamePath,
    request: Request,
    who: Author,
    group: Group = None,
    if_match: IfMatch = None,
) -> None:
    """Delete a workflow; with `If-Match`, only in that version. Its versions can still be read until they are
    deleted, too."""
    context = context_of(request)
    current = await find_workflow(context, who, name, group)
    expected = _expected(current, if_match, None) if if_match is not None else None
    group, _ = parse_key(current.key)
    await context.audit(who, "workflow.delete", _named(current.key), group=group, version=current.version)
    try:
        gone = await context.documents.delete(WORKFLOWS, current.key, expected=expected)
    except DocumentConflict as conflict:
        raise _stale(conflict.current) from None
    if not gone:
        raise not_found(f"there is no workflow '{name}'")


@router.delete("/workflows/{name}/versions", responses=problems())
async def delete_versions(
    name: NamePath,
    request: Request,
    who: Author,
    group: Group = None,
    before: Annotated[
        int | None,
        Query(
            ge=1, le=10**15, description="Only versions below this number; without it, all but the newest."
        ),
    ] = None,
) -> PurgedVersions:
    """Delete old versions for good, such as those with a key that was saved by mistake. The newest one stays:
    save another one first."""
    context = context_of(request)
    (newest,) = await find_versions(context, who, name, group, limit=1, without="text")
    below = min(before or newest.version, newest.version)
    return PurgedVersions(deleted=await _purge(context, who, newest.key, 1, below))


@router.delete("/workflows/{name}/versions/{version}", status_code=204, responses=problems(409))
async def delete_version(
    name: NamePath, version: VersionPath, request: Request, who: Author, group: Group = None
) -> None:
    """Delete one version for good. 409 if it is the newest one: save another one first."""
    context = context_of(request)
    (newest,) = await find_versions(context, who, name, group, limit=1, without="text")
    if version == newest.version:
        raise Problem(409, "conflict", "this is the newest version, which stays; save another one first")
    if not await _purge(context, who, newest.key, version, version + 1):
        raise not_found(f"the workflow '{name}' has no version {version}")


async def _purge(context: ServerContext, who: Principal, key: str, first: int, below: int) -> int:
    group, _ = parse_key(key)
    await context.audit(who, "workflow.purge", _named(key), group=group, first=first, below=below)
    return await context.documents.forget_versions(WORKFLOWS, key, first=first, below=below)


def _new_group(who: Principal, group: str | None) -> str:
    """The group of a new workflow: the given one, or the first of the caller."""
    chosen = group if group is not None else (who.groups or ("",))[0]
    if not who.sees(chosen):
        raise Problem(403, "forbidden", "you are not a member of this group")
    return chosen


def _expected(current: Document | None, if_match: str | None, if_none_match: str | None) -> int:
    """The version that the store has to have when it writes; 412 if it is another one already."""
    version = current.version if current is not None else 0
    if if_match is not None and not (version and _lists(if_match, version)):
        raise _stale(version)
    if if_none_match is not None and version and _lists(if_none_match, version, weak=True):
        raise _stale(version)
    return version


def _lists(header: str, version: int, *, weak: bool = False) -> bool:
    """Whether a list of entity tags contains a version. Weak tags count only where a copy of the same
    meaning is enough (RFC 9110, 8.8.3.2)."""
    if header.strip() == "*":
        return True
    tags, at = [], 0
    while at < len(header):
        found = _ETAG.match(header, at)
        if found is None:
            raise Problem(400, "bad-request", 'a version is written in quotes: If-Match: "3"')
        tags.append((bool(found[1]), found[2]))
        at = found.end()
    return any(tag == str(version) and (weak or not is_weak) for is_weak, tag in tags)


def _stale(version: int) -> Problem:
    """Another version than the client expects; it may read that one and merge."""
    found = f"it has version {version} by now" if version else "it does not exist any more"
    headers = {"etag": _etag(version)} if version else {}
    return Problem(412, "stale", found, headers=headers, version=version or None)


def _taken(name: str) -> Problem:
    return Problem(409, "conflict", f"there is a workflow '{name}' already")


async def _save(
    request: Request, who: Principal, key: str, body: SaveBody, expected: int
) -> tuple[Document, Sequence[Diagnostic]]:
    context = context_of(request)
    verdict = await _check_secrets(request, who, body.text, key)
    description = body.description if body.description is not None else verdict.description
    content = SavedWorkflow(body.text, description, verdict.errors or (0 if verdict.is_sound else 1))
    group, _ = parse_key(key)
    details = {"expected": expected, "errors": verdict.errors}
    await context.audit(who, "workflow.save", _named(key), group=group, **details)
    try:
        return await _write(context, who, key, content, expected), verdict.diagnostics
    except DocumentConflict as conflict:
        raise _stale(conflict.current) from None


async def _check_secrets(request: Request, who: Principal, text: str, key: str) -> Verdict:
    """What is known about a text that is to be saved. WorkflowError if it contains secrets: its versions are
    kept, and shown to all who may read it."""
    verdict = await verify(request, who, text, name=parse_key(key)[1], find_secrets=True)
    if verdict.secrets:
        raise WorkflowError(verdict.secrets)
    return verdict


async def _write(
    context: ServerContext, who: Principal, key: str, content: SavedWorkflow, expected: int
) -> Document:
    body, author = msgspec.to_builtins(content), who.name or who.id
    version = await context.documents.put(
        WORKFLOWS, key, body, expected=expected, author=author, keep_history=True
    )
    # Read by its number: another author may have saved the next version already.
    found = await context.documents.versions(WORKFLOWS, key, before=version + 1, limit=1)
    if found and found[0].version == version:
        return found[0]
    return Document(key, version, body, context.clock(), author)


def _named(key: str) -> str:
    """A workflow in the audit log: `group/name`, or the name alone."""
    group, name = parse_key(key)
    return f"{group}/{name}" if group else name


def _location(key: str) -> str:
    group, name = parse_key(key)
    return f"/api/v1/workflows/{quote(name, safe='')}?group={quote(group, safe='')}"
