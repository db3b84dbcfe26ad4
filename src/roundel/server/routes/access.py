"""Who calls: signing in and out, tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from starlette.responses import PlainTextResponse, RedirectResponse

from roundel.kernel.events import stamp
from roundel.server.admission import SIGN_IN_BODY, Route
from roundel.server.bodies import (
    LOCATION,
    Cursor,
    PageSize,
    RequestBody,
    ResponseBody,
    ShortText,
    problems,
)
from roundel.server.context import AUDIT, ServerContext, caller, context_of, cookie_name, unauthenticated
from roundel.server.identity import (
    MAX_CREDENTIAL,
    SESSION_SECONDS,
    MakerRevoked,
    Principal,
    Role,
    TokenRecord,
)
from roundel.server.problems import Problem, not_found

router = APIRouter(tags=["access"], route_class=Route)
Viewer = Annotated[Principal, caller("viewer")]
Admin = Annotated[Principal, caller("admin")]
Credential = Annotated[str, Field(min_length=1, max_length=MAX_CREDENTIAL)]
GroupName = Annotated[str, Field(max_length=200)]
MAX_SECONDS = 10 * 366 * 86400.0

NO_CODE = """\
This link cannot be used: it has been used already, or it is older than ten minutes.

Start the server again, and open the address that it prints; or sign in with a token, which
`roundel token create --role admin` creates.
"""
AUDIT_PAGE = 500
AUDIT_PAGES = 10
"""Pages of the audit log that one request looks at: entries that match a filter may be far apart."""
TOO_MANY = "Too many failed attempts; wait a minute and try again.\n"


class SessionBody(RequestBody):
    """A one-time code, or a token."""

    code: Credential | None = None
    """A one-time code, as the server prints it at start."""
    token: Credential | None = None
    """A token."""

    @model_validator(mode="after")
    def _one_of_them(self) -> SessionBody:
        if (self.code is None) == (self.token is None):
            raise ValueError("give either a code or a token")
        return self


class Me(ResponseBody):
    """The caller."""

    name: str
    """The name of the token."""
    role: Role
    """The role; each contains the ones before it."""
    groups: list[str] | None
    """The groups that the caller sees; null is all of them."""
    expires: str | None = None
    """When the token expires."""


def me_of(who: Principal) -> Me:
    groups = None if who.groups is None else list(who.groups)
    return Me(name=who.name, role=who.role, groups=groups, expires=_stamp(who.expires))


def _stamp(time: float | None) -> str | None:
    return None if time is None else stamp(time)


# Signing in.


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _sign_in(request: Request, *, code: str | None = None, token: str | None = None) -> Principal:
    """The caller with a code or a token. Failures are counted and audited; beyond the limit they are refused
    with 429, and no longer audited. What is valid always passes: many people can have one address, and one of
    them must not lock out the others."""
    context, address = context_of(request), _address(request)
    identities = context.identities
    who = await (identities.redeem_code(code) if code else identities.verify_token(token or ""))
    if who is None:
        wait = context.sign_ins.wait_seconds(address)
        if wait:
            detail, headers = "too many failed attempts; try again later", {"retry-after": str(int(wait) + 1)}
            raise Problem(429, "too-many-requests", detail, headers=headers)
        context.sign_ins.note_failure(address)
        await context.audit(None, "session.refused", address=address, by="code" if code else "token")
        raise unauthenticated("the code or the token is not valid, or has expired")
    await context.audit(who, "session.create", address=address)
    return who


async def _set_cookie(request: Request, response: Response, who: Principal) -> None:
    issued = await context_of(request).identities.create_session(who)
    response.set_cookie(
        cookie_name(request),
        issued.secret,
        max_age=int(SESSION_SECONDS),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


@router.post(
    "/api/v1/session",
    openapi_extra=SIGN_IN_BODY,
    responses={
        **problems(401, 429),
        200: {
            "description": "The caller has signed in.",
            "headers": {
                "Set-Cookie": {
                    "description": "The session, for 12 hours.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
        },
    },
)
async def create_session(body: SessionBody, request: Request, response: Response) -> Me:
    """Exchange a one-time code or a token for the cookie of a browser."""
    who = await _sign_in(request, code=body.code, token=body.token)
    await _set_cookie(request, response, who)
    return me_of(who)


@router.delete("/api/v1/session", status_code=204, responses=problems())
async def delete_session(request: Request, response: Response, who: Viewer) -> None:
    """End the session of this browser."""
    context, name = context_of(request), cookie_name(request)
    await context.audit(who, "session.delete")
    await context.identities.end_session(request.cookies.get(name, ""))
    secure = request.url.scheme == "https"
    response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")


@router.get("/login", include_in_schema=False)
async def login(request: Request, code: Annotated[str, Query(max_length=MAX_CREDENTIAL)] = "") -> Response:
    """Opened by a person, from the address that the server prints: it goes on to the page itself, so that the
    code is not left in the address."""
    try:
        who = await _sign_in(request, code=code or "-")
    except Problem as problem:
        text = TOO_MANY if problem.status == 429 else NO_CODE
        return PlainTextResponse(text, problem.status, problem.headers)
    response = RedirectResponse("/", 303)
    await _set_cookie(request, response, who)
    return response


@router.get("/api/v1/me", responses=problems())
async def get_me(who: Viewer) -> Me:
    """Who the caller is."""
    return me_of(who)


# Tokens.


class TokenBody(RequestBody):
    """A token to create."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """A name for people."""
    role: Role
    """The role; not above the caller's."""
    groups: Annotated[list[GroupName], Field(min_length=1, max_length=100)] | None = None
    """The groups that it sees; null is all that the caller sees."""
    expires_in: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None
    """Seconds; null is as long as the caller's own token."""


class TokenView(ResponseBody):
    """A token, without its secret."""

    id: str
    """The id, which is no secret."""
    name: str
    """The name."""
    role: Role
    """The role."""
    groups: list[str] | None
    """The groups that it sees; null is all of them."""
    created: str
    """When it was created."""
    expires: str | None
    """When it expires; null if it does not."""
    created_by: str = ""
    """The id of the token that created it; empty for the command line."""


class NewToken(TokenView):
    """A token with its secret."""

    secret: str
    """Shown once; the server stores only a digest."""


class TokenList(ResponseBody):
    """A page of tokens."""

    tokens: list[TokenView]
    """The tokens of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def _token_fields(key: str, record: TokenRecord) -> dict[str, Any]:
    return {
        "id": key,
        "name": record.name,
        "role": record.role,
        "groups": None if record.groups is None else list(record.groups),
        "created": stamp(record.created),
        "expires": _stamp(record.expires),
        "created_by": record.created_by,
    }


@router.get("/api/v1/tokens", responses=problems())
async def list_tokens(
    request: Request,
    who: Admin,
    cursor: Annotated[
        str, Query(max_length=100, description="`next` of the page before; empty for the first page.")
    ] = "",
    limit: PageSize = 50,
) -> TokenList:
    """The valid tokens in the order of their ids: those that see nothing that the caller does not see."""
    found = await context_of(request).identities.tokens(after=cursor, limit=limit + 1)
    shown = [TokenView(**_token_fields(*one)) for one in found[:limit] if who.sees_all(one[1].groups)]
    return TokenList(tokens=shown, next=found[limit - 1][0] if len(found) > limit else None)


@router.post(
    "/api/v1/tokens",
    status_code=201,
    responses={**problems(), 201: {"description": "The token was created.", "headers": LOCATION}},
)
async def create_token(body: TokenBody, request: Request, response: Response, who: Admin) -> NewToken:
    """Create a token. Its secret is in this response and nowhere else. It cannot have more rights than the
    caller."""
    context = context_of(request)
    groups = tuple(body.groups) if body.groups is not None else who.groups
    expires = context.clock() + body.expires_in if body.expires_in is not None else who.expires
    if not who.covers(body.role, groups, expires):
        raise Problem(403, "forbidden", "a token cannot have more rights than yours, or be valid for longer")
    await context.audit(who, "token.create", body.name, role=body.role, groups=groups)
    try:
        issued = await context.identities.create_token(
            body.name, body.role, groups, expires, who.id, made_with=who.token
        )
    except MakerRevoked:
        raise unauthenticated("your token was revoked") from None
    response.headers["location"] = f"/api/v1/tokens/{issued.id}"
    return NewToken(**_token_fields(issued.id, issued.record), secret=issued.secret)


@router.delete("/api/v1/tokens/{token_id}", status_code=204, responses=problems())
async def revoke_token(
    token_id: Annotated[str, Field(max_length=64, pattern="^[0-9a-f]+$", description="The id of the token.")],
    request: Request,
    who: Admin,
) -> None:
    """Revoke a token, and all tokens that were made with it. The sessions that were made with them end as
    well."""
    context = context_of(request)
    record = await context.identities.token(token_id)
    if record is None or not who.sees_all(record.groups):
        raise not_found()

    async def note(key: str, revoked: TokenRecord) -> None:
        by = {"made_with": token_id} if key != token_id else {}
        await context.audit(who, "token.revoke", key, groups=revoked.groups, **by)

    if not await context.identities.revoke(token_id, note):
        raise not_found()


# The audit log.


class AuditEntry(ResponseBody):
    """Who did what."""

    number: int
    """The number of the entry."""
    time: str
    """When it happened."""
    who: dict[str, Any] | None
    """The id, name and role of the caller; null for somebody who is not signed in."""
    action: str
    """What was done, such as `run.start`."""
    subject: str
    """What it was done to: the id of a run, the name of a workflow."""
    details: dict[str, Any]
    """More about it, depending on the action."""


class AuditList(ResponseBody):
    """A page of the audit log."""

    entries: list[AuditEntry]
    """The entries of this page."""
    next: str | None = None
    """The cursor of the next page; null on the last one."""


def check_sees_everything(who: Principal) -> None:
    """Refuses admins of single groups what is about all of them."""
    if who.groups is not None:
        raise Problem(403, "forbidden", "this affects all groups, but you can see only some of them")


class AuditQuery(BaseModel):
    """Which entries to read."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    by: ShortText = ""
    """Only what callers with this name did."""
    action: ShortText = ""
    """Only this action, such as `run.start`."""
    subject: ShortText = ""
    """Only what was done to this: an id or a name, or how it begins."""
    since: AwareDatetime | None = None
    """A time (RFC 3339): only what happened after it."""
    cursor: Cursor = ""
    limit: PageSize = 50

    def matches(self, body: dict[str, Any], who: Principal) -> bool:
        """Whether an entry is one of them, whenever it happened, and for the eyes of the caller."""
        if not _is_visible(body, who):
            return False
        name = (body["who"] or {}).get("name", "")
        return (
            self.by in ("", name)
            and self.action in ("", body["action"])
            and str(body["subject"]).startswith(self.subject)
        )


@router.get("/api/v1/audit", responses=problems())
async def get_audit(request: Request, who: Admin, query: Annotated[AuditQuery, Query()]) -> AuditList:
    """Who did what, the newest first. Admins of groups see what was done to the runs, workflows, memories and
    tokens of their groups. A page may have fewer entries than asked for, and others may follow."""
    context: ServerContext = context_of(request)
    since = query.since.timestamp() if query.since is not None else 0.0
    entries: list[AuditEntry] = []
    before, size = int(query.cursor or 0), query.limit + 1
    for _ in range(AUDIT_PAGES):
        found = await context.documents.entries(AUDIT, before=before, limit=size)
        for one in found:
            before = one.number
            if one.body["time"] < since:
                return AuditList(entries=entries)
            if query.matches(one.body, who):
                if len(entries) == query.limit:
                    return AuditList(entries=entries, next=str(entries[-1].number))
                entries.append(_audit_entry(one.number, one.body))
        if len(found) < size:
            return AuditList(entries=entries)
        size = AUDIT_PAGE
    return AuditList(entries=entries, next=str(before))


def _is_visible(body: dict[str, Any], who: Principal) -> bool:
    """Whether the caller sees the groups of what an entry is about. What belongs to no group, such as a
    failed sign-in, and entries from before they had groups, are for those who see everything."""
    if who.groups is None:
        return True
    group, groups = body.get("group"), body.get("groups")
    return (group is not None and who.sees(group)) or (groups is not None and who.sees_all(tuple(groups)))


def _audit_entry(number: int, body: dict[str, Any]) -> AuditEntry:
    known = ("time", "who", "action", "subject")
    details = {name: value for name, value in body.items() if name not in known}
    return AuditEntry(
        number=number,
        time=stamp(body["time"]),
        who=body["who"],
        action=body["action"],
        subject=body["subject"],
        details=details,
    )
