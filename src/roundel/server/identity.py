"""Who calls: tokens, sessions of browsers, roles and groups.

A *token* is for programs: `rdl_ID_SECRET`, in the header `Authorization: Bearer`. A *session* is for
browsers: a cookie that a token or a one-time code was exchanged for. Both are stored as SHA-256 digests of
random secrets of 256 bits, so that a copy of the store signs nobody in; a slow hash would only help against
guessable secrets, which these are not. Digests are compared in constant time, and a token is looked up by its
id, which is no secret.

A *role* contains the ones before it. A caller sees what belongs to their groups, and nothing else: for them
all other runs and workflows do not exist.

    viewer      reads runs, events and workflows
    operator    starts saved workflows, answers, pauses, stops, retries, locks, unlocks, forks, debugs
    author      saves workflows, and runs texts that are not saved
    admin       manages tokens, reads the audit log and the metrics
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from roundel.journal.documents import Document, DocumentStore

Role = Literal["viewer", "operator", "author", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
TOKENS, SESSIONS, CODES = "tokens", "sessions", "codes"
"""Collections of documents."""
SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 600.0
TOKEN_PREFIX = "rdl_"
PAGE = 200
"""Tokens that are read from the store at once."""
MAX_CREDENTIAL = 200
"""Characters of a credential. Longer ones are refused before anything is computed from them."""


class Principal(Struct, frozen=True):
    """The caller of a request. `Identities` creates it."""

    id: str
    """The id of the token, or of the token behind the session."""
    name: str
    role: Role
    groups: tuple[str, ...] | None = None
    """The groups whose runs and workflows the caller sees; None is all of them."""
    by_cookie: bool = False
    """A browser sent it by itself, so the origin of the request has to be checked."""
    expires: float | None = None
    """When the token expires, also that behind a session; None if it does not, or there is none."""
    token: str = ""
    """The id of the token; empty for a browser that has signed in with a one-time code."""

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, group: str) -> bool:
        return self.groups is None or group in self.groups

    def covers(self, role: Role, groups: tuple[str, ...] | None, expires: float | None) -> bool:
        """Whether somebody with these rights could do nothing that this caller cannot."""
        lasts = self.expires is None or (expires is not None and expires <= self.expires)
        return self.may(role) and self.sees_all(groups) and lasts

    def sees_all(self, groups: tuple[str, ...] | None) -> bool:
        return self.groups is None or (groups is not None and set(groups) <= set(self.groups))


class TokenRecord(Struct, frozen=True, omit_defaults=True):
    """A token or a session as it is stored."""

    digest: str
    name: str
    role: Role
    groups: tuple[str, ...] | None
    created: float
    expires: float | None = None
    token: str = ""
    """For a session: the id of the token that it was made with, and which it ends with."""
    created_by: str = ""


class IssuedToken(Struct, frozen=True):
    """A new token. Its secret is shown once."""

    id: str
    secret: str
    record: TokenRecord


class MakerRevoked(Exception):
    """The token with which a token was to be created does not exist any more. Nothing was created."""


class Identities:
    """Creates and verifies credentials. The documents are shared by all processes of a store."""

    def __init__(self, documents: DocumentStore, clock: Callable[[], float] = time.time) -> None:
        self._documents, self._clock = documents, clock

    # Tokens.

    async def create_token(
        self,
        name: str,
        role: Role,
        groups: Sequence[str] | None,
        expires: float | None = None,
        created_by: str = "",
        *,
        made_with: str = "",
    ) -> IssuedToken:
        """Creates a token; without `expires` it is valid until it is revoked. MakerRevoked if the token
        `made_with`, if one is given, was revoked in the meantime."""
        allowed = None if groups is None else tuple(dict.fromkeys(groups))
        record = TokenRecord("", name, role, allowed, self._clock(), expires, created_by=created_by)
        issued = await self._issue(TOKENS, record, TOKEN_PREFIX)
        # After it was stored: who revokes looks for tokens after the deletion, so one of the two sees the
        # other.
        if made_with and await self.token(made_with) is None:
            await self._documents.delete(TOKENS, issued.id)
            raise MakerRevoked
        return issued

    async def _issue(self, collection: str, record: TokenRecord, prefix: str = "") -> IssuedToken:
        key, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        record = msgspec.structs.replace(record, digest=_digest(secret))
        await self._documents.put(
            collection, key, msgspec.to_builtins(record), expected=0, expires=record.expires
        )
        return IssuedToken(key, f"{prefix}{key}_{secret}", record)

    async def tokens(self, *, after: str = "", limit: int = 100) -> list[tuple[str, TokenRecord]]:
        """Tokens in the order of their ids, without those that have expired."""
        found = await self._documents.list(TOKENS, after=after, limit=limit)
        return [(document.key, _record(document)) for document in found]

    async def token(self, key: str) -> TokenRecord | None:
        document = await self._documents.get(TOKENS, key)
        return _record(document) if document is not None else None

    async def revoke(self, key: str, note: Callable[[str, TokenRecord], Awaitable[None]]) -> bool:
        """Removes a token, and those that were made with it, directly or not; whether there was
        such a token. Their sessions end with them. `note` is called with each before it is removed.

        Here and not where a token is verified, which every request does. Makers are removed after what they
        made, so that a process that dies in between leaves nothing that a repetition does not find."""
        record = await self.token(key)
        if record is None:
            return False
        revoked: set[str] = {key}
        found = [(key, record), *await self._made_with(revoked)]
        # Again until there are none: a token may make another one until it is removed itself.
        while found:
            for one, record in reversed(found):
                await note(one, record)
                await self._documents.delete(TOKENS, one)
                revoked.add(one)
            found = await self._made_with(revoked)
        return True

    async def _made_with(self, makers: set[str]) -> list[tuple[str, TokenRecord]]:
        """The tokens that were made with some tokens, directly or not; each behind the one that made it."""
        by_maker: dict[str, list[tuple[str, TokenRecord]]] = {}
        after = ""
        while page := await self.tokens(after=after, limit=PAGE):
            for key, record in page:
                by_maker.setdefault(record.created_by, []).append((key, record))
            after = page[-1][0]
        found: list[tuple[str, TokenRecord]] = []
        pending = list(makers)
        for maker in pending:  # grows; each token has one maker, which existed before it
            made = by_maker.get(maker, ())
            found += made
            pending += (key for key, _ in made)
        return found

    async def verify_token(self, credential: str) -> Principal | None:
        """The caller with this token; None if it is not valid."""
        if not credential.startswith(TOKEN_PREFIX):
            return None
        return await self._verify(TOKENS, credential.removeprefix(TOKEN_PREFIX))

    async def _verify(self, collection: str, credential: str) -> Principal | None:
        key, _, secret = credential.partition("_")
        if not key or not secret or len(credential) > MAX_CREDENTIAL or not credential.isascii():
            return None
        document = await self._documents.get(collection, key)
        # A secret is compared in any case, so that the time does not tell whether the id exists.
        record = _record(document) if document is not None else _NOBODY
        if not hmac.compare_digest(_digest(secret), record.digest) or document is None:
            return None
        if self._has_expired(record):
            return None
        if collection == TOKENS:
            return Principal(key, record.name, record.role, record.groups, False, record.expires, key)
        if not record.token:
            return Principal(key, record.name, record.role, record.groups, collection == SESSIONS)
        # A session ends with its token: when that is revoked or expires.
        token = await self.token(record.token)
        if token is None or self._has_expired(token):
            return None
        return Principal(
            record.token, token.name, token.role, token.groups, True, token.expires, record.token
        )

    def _has_expired(self, record: TokenRecord) -> bool:
        return record.expires is not None and record.expires <= self._clock()

    # Sessions.

    async def create_session(self, principal: Principal) -> IssuedToken:
        """A session of a browser, which has the rights of the token or code that it was made with."""
        now = self._clock()
        record = TokenRecord(
            "", principal.name, principal.role, principal.groups, now, now + SESSION_SECONDS, principal.token
        )
        return await self._issue(SESSIONS, record)

    async def verify_session(self, credential: str) -> Principal | None:
        return await self._verify(SESSIONS, credential)

    async def end_session(self, credential: str) -> None:
        """Ends a session. Its secret is needed for it, as for everything else."""
        if await self._verify(SESSIONS, credential) is not None:
            await self._documents.delete(SESSIONS, credential.partition("_")[0])

    async def create_code(self, name: str, role: Role = "admin") -> str:
        """A code that one browser can exchange for a session, once, within some minutes."""
        now = self._clock()
        record = TokenRecord("", name, role, None, now, now + CODE_SECONDS)
        return (await self._issue(CODES, record)).secret

    async def redeem_code(self, code: str) -> Principal | None:
        """The caller with this code, which is used up by it; None if it is not valid any more."""
        principal = await self._verify(CODES, code)
        # Of two browsers that send the same code, the one that deletes it wins.
        if principal is None or not await self._documents.delete(CODES, code.partition("_")[0]):
            return None
        return principal

    async def is_set_up(self) -> bool:
        """Whether somebody could sign in from another machine: there is a token."""
        return bool(await self._documents.list(TOKENS, limit=1))


def token_names(documents: DocumentStore) -> Callable[[str], Awaitable[str]]:
    """Finds the names of tokens by their ids, for the limits of tokens; empty for one that was revoked, and
    for the session of a browser that has signed in with a code."""

    async def find(key: str) -> str:
        record = await Identities(documents).token(key)
        return record.name if record is not None else ""

    return find


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _record(document: Document) -> TokenRecord:
    body: Any = document.body
    return msgspec.convert(body, TokenRecord)


_NOBODY = TokenRecord(_digest(""), "", "viewer", (), 0.0)
