"""Asks again when it may help: the same model after a wait, then the models behind it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import msgspec

from roundel.llm.remote import CutOff, RemoteModel
from roundel.llm.secrets import Secrets
from roundel.nodes.model_retry import ModelRetry
from roundel.nodes.services import NodeError, Reply, Request, Say

LONGEST_RETRY_AFTER = 120.0
"""Seconds; a provider that asks for more has failed."""
PASSING = ("ModelConnectionError", "ModelTimeoutError", "TransportError", "ConnectionError", "TimeoutError")


class PersistentModel:
    def __init__(self, models: Sequence[RemoteModel], retry: ModelRetry, secrets: Secrets) -> None:
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
                    reply = await model.ask(request, say, attempt)
                    return msgspec.structs.replace(reply, trouble=tuple(trouble)) if trouble else reply
                except Exception as error:
                    trouble.append(f"{model.label}: {self._secrets.scrub(told(error))}")
                    wait = self._wait(error, self._attempts - left) if left else None
                if wait is None:
                    final.append(trouble[-1])
                    break
                await asyncio.sleep(wait)
        raise NodeError("; ".join(final)) from None

    def _wait(self, error: Exception, attempt: int) -> float | None:
        """The seconds until the next attempt; None if there is no use in one."""
        if not may_pass(error, self._retry):
            return None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return float(asked) if asked <= LONGEST_RETRY_AFTER else None
        longest = min(self._retry.max_wait_seconds, self._retry.min_wait_seconds * 2 ** (attempt - 1))
        return random.uniform(longest / 2, longest)


def may_pass(error: BaseException, retry: ModelRetry) -> bool:
    names = {kind.__name__ for one in _chain(error) for kind in type(one).__mro__}
    if names & set(retry.non_retry_exception_types):
        return False
    if names & set(retry.retry_on_exception_types):
        return True
    status = getattr(error, "status_code", None)
    if status is not None:
        return status in retry.retry_on_status_codes
    if isinstance(error, CutOff) or names & set(PASSING):
        return True
    text = " ".join(str(one) for one in _chain(error)).lower()
    return any(part.lower() in text for part in retry.retry_on_error_substrings)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def told(error: BaseException) -> str:
    """What went wrong, in a line: the provider's own words where there are any."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if status is None:
        return " ".join(f"{error}".split())[:1000] or type(error).__name__
    words = body
    while isinstance(words, dict):
        words = words.get("error") or words.get("message") or str(body)
    return f"the provider answered {status}: {' '.join(str(words or body or '').split())[:1000]}"
