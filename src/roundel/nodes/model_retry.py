"""When a model call that failed is made again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located

STATUS_CODES = (408, 409, 425, 429, 500, 502, 503, 504, 529)
SUBSTRINGS = (
    "rate limit",
    "temporarily unavailable",
    "timeout",
    "server disconnected",
    "connection reset",
    "overloaded",
)


class ModelRetry(Struct, frozen=True, omit_defaults=True):
    """Errors that may pass are tried again, after longer and longer waits or after the Retry-After."""

    enabled: bool = True
    max_attempts: Annotated[int, Meta(ge=1)] = 5
    min_wait_seconds: Annotated[float, Meta(ge=0)] = 1
    max_wait_seconds: Annotated[float, Meta(ge=0)] = 6
    retry_on_status_codes: tuple[int, ...] = STATUS_CODES
    retry_on_exception_types: tuple[str, ...] = ()
    non_retry_exception_types: tuple[str, ...] = ()
    retry_on_error_substrings: tuple[str, ...] = SUBSTRINGS

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_wait_seconds < self.min_wait_seconds:
            report.error("bad-retry", "max_wait_seconds is less than min_wait_seconds", at)
            return False
        return True
