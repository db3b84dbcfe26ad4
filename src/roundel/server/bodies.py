"""The bodies of requests and responses that several routes share, and how they appear in the schema.

Requests refuse unknown fields: a misspelt `limit` that was ignored would start a run without one.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from roundel.server.problems import MEDIA_TYPE

MAX_TEXT = 5_000_000
Text = Annotated[str, Field(max_length=MAX_TEXT)]
ShortText = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Data = dict[str, JsonValue]


class RequestBody(BaseModel):
    """The base of all bodies that clients send."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        """Refuses half a surrogate pair, which JSON can write, and no store, file or terminal can."""
        try:
            json.dumps(given, ensure_ascii=False).encode()
        except (UnicodeEncodeError, RecursionError):
            raise ValueError("a text in it is not valid Unicode, or it is nested too deeply") from None
        return given


class ProblemBody(BaseModel):
    """An error, as RFC 9457 defines it."""

    type: str
    title: str
    status: int
    detail: str = ""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for the schema, besides those that every route has."""
    every = (400, 401, 403, 404, 405, 413, 414, 415, 421, 422, 429, 500, 503)
    content = {MEDIA_TYPE: {"schema": ProblemBody.model_json_schema()}}
    return {
        status: {"description": "A problem", "content": content} for status in sorted({*every, *statuses})
    }
