"""Errors of the API: problem details of RFC 9457, each with a stable `type`.

A route raises `Problem`, or lets an error of a lower layer pass: `problem_of` knows which problem it is.
Whatever is not known there is a defect: the client gets `internal-error` with the id of the log entry that
has the traceback, and no other detail.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from roundel.hosts.control import EditConflict, UnclearAnswer
from roundel.hosts.shared_budgets import NoRoomLeft
from roundel.journal.documents import DocumentConflict
from roundel.journal.store import Busy, Gone, NoRun, StoreError, StoreFailure
from roundel.plan.overrides import LimitError
from roundel.runs.calls import NoCall
from roundel.runs.idempotency import IdempotencyConflict
from roundel.runs.lookup import AmbiguousRun
from roundel.workflow.breakpoints import BreakpointError
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.model_profile import ModelChoiceError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:roundel:problem:"
MAX_ERRORS = 20
"""Places of a request that an answer reports."""
logger = logging.getLogger("roundel.server")

TITLES = {
    "bad-request": "The request is not valid",
    "invalid-workflow": "The workflow has errors",
    "unauthenticated": "Sign in first",
    "forbidden": "This is not allowed",
    "not-found": "Not found",
    "method-not-allowed": "The resource has no such method",
    "conflict": "The current state does not allow this",
    "idempotency-conflict": "The idempotency key was used for another request",
    "stale": "Someone else has changed it",
    "too-large": "The body is too large",
    "unsupported-media-type": "The body must be JSON",
    "misdirected": "The server does not answer under this name",
    "precondition-required": "The request must name the version to change",
    "too-many-requests": "Too many requests",
    "internal-error": "The server failed",
    "unavailable": "The server is not ready",
}
"""The titles of all problems, by the last part of their type."""


class Problem(Exception):
    """An error that is sent to the client. `name` is one of TITLES."""

    def __init__(
        self, status: int, name: str, detail: str = "", *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail or TITLES[name])
        self.status, self.name, self.detail = status, name, detail
        self.headers = headers or {}
        self.more = more

    def response(self) -> Response:
        body = {
            "type": TYPE_PREFIX + self.name,
            "title": TITLES[self.name],
            "status": self.status,
            **({"detail": self.detail} if self.detail else {}),
            **self.more,
        }
        encoded = msgspec.json.encode(body, enc_hook=str)
        return Response(encoded, self.status, {**self.headers, "content-type": MEDIA_TYPE})


def not_found(what: str = "") -> Problem:
    """The answer for everything that does not exist, or that the caller may not see: it must not matter
    which of the two it is."""
    return Problem(404, "not-found", what)


def problem_of(error: Exception) -> Problem | None:
    """The problem that an error of a lower layer is; None for a defect."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, (NoRun, AmbiguousRun, NoCall)):
        return not_found(str(error) if isinstance(error, NoCall) else "")
    if isinstance(error, (EditConflict, DocumentConflict)):
        return Problem(409, "stale", str(error))
    if isinstance(error, IdempotencyConflict):
        return Problem(409, "idempotency-conflict", str(error))
    if isinstance(error, (Busy, NoRoomLeft)):
        return _later_problem(error)
    if isinstance(error, (UnclearAnswer, LimitError, BreakpointError, ModelChoiceError)):
        return Problem(422, "bad-request", str(error))
    if isinstance(error, Gone):
        return Problem(503, "unavailable", str(error))
    if isinstance(error, StoreFailure):  # the text has the path of the store, which is none of the client's
        logger.error("the store failed: %s", error)
        return Problem(503, "unavailable", "the store cannot be used; see the log of the server")
    if isinstance(error, StoreError):
        return Problem(409, "conflict", str(error))
    if isinstance(error, WorkflowError):
        found = [msgspec.to_builtins(diagnostic) for diagnostic in error.diagnostics]
        return Problem(422, "invalid-workflow", str(error), diagnostics=found)
    if isinstance(error, RequestValidationError):
        return Problem(422, "bad-request", "the body or a parameter is not valid", errors=_errors(error))
    if isinstance(error, HTTPException):
        return _http_problem(error)
    return None


def _later_problem(error: Busy | NoRoomLeft) -> Problem:
    """The problem for what may succeed later."""
    if isinstance(error, Busy):
        return Problem(409, "conflict", str(error), headers={"retry-after": "1"})
    after = {"retry-after": str(error.retry_after)} if error.retry_after is not None else {}
    return Problem(429, "too-many-requests", str(error), headers=after)


def _http_problem(error: HTTPException) -> Problem:
    names = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}
    name = names.get(error.status_code, "bad-request")
    detail = "" if error.status_code == 404 else str(error.detail)
    return Problem(error.status_code, name, detail, headers=dict(error.headers or {}))


def _errors(error: RequestValidationError) -> list[dict[str, Any]]:
    """Where the request is wrong. Without the value, which may be a secret, or a megabyte."""
    return [
        {"location": [str(part) for part in found["loc"]], "message": str(found["msg"])[:300]}
        for found in error.errors()[:MAX_ERRORS]
    ]


def internal_error(error: BaseException) -> Problem:
    """The problem for a defect. The log has the traceback, under the id that the client gets."""
    reference = os.urandom(6).hex()
    logger.error("request failed (%s)", reference, exc_info=error)
    return Problem(500, "internal-error", "see the log of the server", reference=reference)


def add_handlers(app: FastAPI) -> None:
    """Makes every error of the app a problem."""

    async def handle(_request: Request, error: Exception) -> Response:
        return (problem_of(error) or internal_error(error)).response()

    for kind in (
        Problem,
        StoreError,
        WorkflowError,
        LimitError,
        BreakpointError,
        ModelChoiceError,
        HTTPException,
    ):
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(RequestValidationError, handle)
