"""Asks again when it may help: the same model after a wait, then the models behind it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from roundel.llm.remote import IncompleteAnswer
from roundel.nodes.model_retry import ModelRetry
from roundel.nodes.services import NodeError, Reply, Request, Say
from roundel.workflow.secrets import Secrets

MAX_RETRY_AFTER = 120.0
"""Seconds; a provider that asks for more has failed."""
MAX_ERROR_LENGTH = 1000
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s?")
RETRYABLE_ERRORS = frozenset(
    {
        "ModelConnectionError",
        "ModelTimeoutError",
        "ModelRequestTimeout",
        "TransportError",
        "ConnectionError",
        "TimeoutError",
        # An answer that is empty or no JSON: something between here and the provider broke it.
        "UnexpectedModelBehavior",
        "JSONDecodeError",
    }
)
FINAL_ERRORS = frozenset({"ContentFilterError"})


class ModelEndpoint(Protocol):
    """A model that is asked once: of a provider that we know, or of an installed package."""

    label: str

    async def ask(self, request: Request, say: Say | None, attempt: int) -> Reply: ...


class RetryingModel:
    def __init__(self, models: Sequence[ModelEndpoint], retry: ModelRetry, secrets: Secrets) -> None:
        self._models = models
        self._retry = retry
        self._secrets = secrets
        self._attempts = retry.max_attempts if retry.enabled else 1

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        attempt = 0
        trouble: list[str] = []
        final: list[str] = []
        for model in self._models:
            for left in reversed(range(self._attempts)):
                attempt += 1
                try:
                    return _with_warnings(trouble, await model.ask(request, say, attempt))
                except Exception as error:
                    trouble.append(f"{model.label}: {self._describe_masked(error)}")
                    wait = self._retry_delay(error, self._attempts - left) if left else None
                if wait is None:
                    final.append(trouble[-1])
                    break
                await asyncio.sleep(wait)
        raise NodeError("; ".join(final)) from None

    def _describe_masked(self, error: Exception) -> str:
        # Cut only after masking: half a key is no longer found.
        return self._secrets.mask(describe_error(error))[:MAX_ERROR_LENGTH]

    def _retry_delay(self, error: Exception, attempt: int) -> float | None:
        """The seconds until the next attempt; None if there is no use in one."""
        if not is_retryable(error, self._retry):
            return None
        requested = retry_after(error)
        if requested is not None:
            return requested if requested <= MAX_RETRY_AFTER else None
        longest = min(self._retry.max_wait_seconds, self._retry.min_wait_seconds * 2 ** (attempt - 1))
        return random.uniform(longest / 2, longest)


def _with_warnings(trouble: list[str], reply: Reply) -> Reply:
    if not trouble:
        return reply
    return msgspec.structs.replace(reply, trouble=tuple(f"asked again: {one}" for one in trouble))


def is_retryable(error: BaseException, retry: ModelRetry) -> bool:
    names = {kind.__name__ for one in _error_chain(error) for kind in type(one).__mro__}
    if names & set(retry.non_retry_exception_types):
        return False
    if names & set(retry.retry_on_exception_types):
        return True
    status = getattr(error, "status_code", None)
    if status is not None:
        return status in retry.retry_on_status_codes
    if isinstance(error, IncompleteAnswer) or (names & RETRYABLE_ERRORS and not names & FINAL_ERRORS):
        return True
    text = " ".join(str(one) for one in _error_chain(error)).lower()
    return any(part.lower() in text for part in retry.retry_on_error_substrings)


def retry_after(error: BaseException) -> float | None:
    """The seconds that the provider wants to be left alone, from a header or, with Google, from the body."""
    requested = getattr(error, "retry_after", None)
    if requested is not None:
        return float(requested)
    header = (getattr(error, "headers", None) or {}).get("retry-after", "")
    delays = [detail.get("retryDelay", "") for detail in _error_details(getattr(error, "body", None))]
    for text in (header, *delays):
        found = _SECONDS.fullmatch(text)
        if found:
            return float(found[1])
    return None


def _error_details(body: Any) -> list[dict[str, Any]]:
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def describe_error(error: BaseException) -> str:
    """What went wrong, in a line: the provider's own words where there are any."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if status is None:
        return _one_line(_error_text(error)) or type(error).__name__
    words = body
    while isinstance(words, dict):
        words = words.get("error") or words.get("message") or str(body)
    return f"the provider answered {status}: {_one_line(words or body or '')}"


def _error_text(error: BaseException) -> str:
    """A connection that fails is told of by whoever held it."""
    text = str(error)
    if type(error).__name__ not in ("ModelConnectionError", "ModelTimeoutError"):
        return text
    cause = next((str(one) for one in reversed(list(_error_chain(error))) if str(one)), "")
    return text if cause in text else f"{text.rstrip('.')}: {cause}"


def _one_line(words: object) -> str:
    return " ".join(str(words).split())
