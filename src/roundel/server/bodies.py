"""The bodies of requests and responses that several routes share, and how they appear in the schema.

Requests refuse unknown fields: a misspelt `limit` that was ignored would start a run without one. The text
below a field describes it in the schema.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from roundel.server.problems import MEDIA_TYPE

MAX_ERRORS = 200
"""Errors of a body that are looked at one by one."""

MAX_TEXT = 5_000_000
MAX_ENTRIES = 1_000
"""Entries of a map, such as that of variables."""
Text = Annotated[str, Field(max_length=MAX_TEXT)]
ShortText = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Data = dict[str, JsonValue]
Cursor = Annotated[
    str,
    Field(pattern="^[0-9]{0,18}$", description="`next` of the page before; empty for the first page."),
]
PageSize = Annotated[int, Field(ge=1, le=200, description="The most rows of a page.")]


def _check_entries(given: Any) -> Any:
    """Before each entry is validated, which may give several errors."""
    if isinstance(given, dict) and len(given) > MAX_ENTRIES:
        raise ValueError(f"at most {MAX_ENTRIES} entries")
    return given


FEW_ENTRIES = BeforeValidator(_check_entries), Field(max_length=MAX_ENTRIES)
"""For the annotation of a map whose values have a type."""


class RequestBody(BaseModel):
    """The base of all bodies that clients send."""

    model_config = ConfigDict(
        extra="forbid",
        str_strip_whitespace=False,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _can_be_stored(cls, given: Any) -> Any:
        """Refuses what the parser accepts and no store can write: half a surrogate pair, `NaN`, and numbers
        that are too large to be any."""
        try:
            json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            raise ValueError(
                "a text is not valid Unicode, a number is none, or it is nested too deeply"
            ) from None
        return given

    @model_validator(mode="wrap")
    @classmethod
    def _has_few_errors(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuses with one error what has very many: an object for each of them would take much longer than
        finding them."""
        try:
            return validate(given)
        except ValidationError as error:
            if error.error_count() <= MAX_ERRORS:
                raise
            raise ValueError(f"{error.error_count()} parts are not valid") from None


class ResponseBody(BaseModel):
    """The base of all bodies that clients get."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ErrorPlace(ResponseBody):
    """A part of a request that is not valid."""

    location: list[str]
    """Where it is: `body`, `query`, `path` or `header`, and the names below it."""
    message: str
    """What is wrong."""


class DiagnosticView(ResponseBody):
    """An error or a warning, with its place in the text."""

    code: str
    """The stable code, which the manual explains."""
    severity: str
    """`error` or `warning`."""
    file: str
    """The name of the text."""
    line: int
    """The line, from 1; 0 if it is about the whole text."""
    column: int
    """The column, from 1; 0 if it is about the whole line."""
    message: str
    """What is wrong."""
    hint: str
    """What to do about it; may be empty."""


class ProblemBody(ResponseBody):
    """An error, as RFC 9457 defines it. Some problems have further members."""

    type: str
    """What went wrong, as a stable name for programs."""
    title: str
    """The same for people; one title for each type."""
    status: int
    """The status code of the response."""
    detail: str = ""
    """What went wrong in this case."""
    errors: list[ErrorPlace] = []
    """`bad-request`: which parts of the request are not valid, at most 20."""
    diagnostics: list[DiagnosticView] = []
    """`invalid-workflow`: the errors of the workflow."""
    version: int | None = None
    """`stale`: the current version of the workflow; null if it does not exist any more."""
    reference: str = ""
    """`internal-error`: the id of the entry in the server's log."""


LOCATION = {
    "Location": {
        "description": "The path of what was created.",
        "required": True,
        "schema": {"type": "string"},
    }
}
"""A header, for `responses=` of a route."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for the schema, besides those that follow from its method and its parameters
    (openapi.py)."""
    content: dict[str, Any] = {MEDIA_TYPE: {}}
    return {status: {"description": "A problem", "content": content} for status in statuses}
