"""What went wrong between a model and its provider: whether another attempt may help, which kind of failure
it is, and how it is told.

The client libraries wrap each other's exceptions, and none of them has to be installed, so exceptions are
compared by the names of their classes, over the whole chain of causes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from roundel.nodes.agent_config import ModelRetry
from roundel.nodes.services import NodeError


class IncompleteAnswer(Exception):
    """An answer is incomplete or did not arrive in time. A retry may succeed."""


class LateAnswer(IncompleteAnswer):
    """An answer did not arrive in time."""


class SilentProvider(LateAnswer):
    """Nothing at all arrived for `READ_TIMEOUT` seconds. One more attempt is made, and not as many as after
    other errors: each of them would take minutes."""


class UnreadableAnswer(IncompleteAnswer):
    """What arrived is no answer of a model: the page of a proxy, or JSON that breaks off. `content` is its
    beginning, which is masked before it is shown."""

    def __init__(self, content: str, problem: str = "is no JSON") -> None:
        super().__init__(f"the provider's answer {problem if content else 'is empty'}")
        self.content = content


RETRYABLE_ERRORS = frozenset(
    {
        "ModelConnectionError",
        "ModelTimeoutError",
        "ModelRequestTimeout",
        "TransportError",
        "ConnectionError",
        "TimeoutError",
        # An answer that is empty or no JSON: a proxy or the network damaged it.
        "UnexpectedModelBehavior",
        "JSONDecodeError",
    }
)
FINAL_ERRORS = frozenset({"ContentFilterError", "RefusedAddressError"})
TIMEOUTS = frozenset({"TimeoutError", "TimeoutException", "APITimeoutError", "LateAnswer"})
MAX_UNREADABLE_SHOWN = 120
"""Characters of an answer that is no JSON in its error."""
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s?")

# Why the same request must fail again (`NodeError.reason`), by the status of the provider.
AUTHENTICATION = "authentication"
BAD_REQUEST = "bad_request"
NOT_FOUND = "not_found"
CONTENT_FILTER = "content_filter"
CONTEXT_OVERFLOW = "context_overflow"
_REASONS: dict[int, str] = {
    HTTPStatus.BAD_REQUEST: BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED: AUTHENTICATION,
    HTTPStatus.FORBIDDEN: AUTHENTICATION,
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: BAD_REQUEST,
    HTTPStatus.UNPROCESSABLE_ENTITY: BAD_REQUEST,
}
_CLASS_REASONS = {
    "ContentFilterError": CONTENT_FILTER,
    "ModelAuthenticationError": AUTHENTICATION,
    "ModelNotFoundError": NOT_FOUND,
    "RefusedAddressError": BAD_REQUEST,
}
_FILTER_CODES = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
"""Codes with which providers refuse a request whose content they do not allow, with the status 400."""

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size_error|model_context_window_exceeded"
    # OpenAI, Azure, vLLM, Mistral, DeepSeek, OpenRouter
    r"|maximum context length|reduce the length of the (messages|prompt|input)"
    # Anthropic, Bedrock
    r"|prompt is too long|input is too long|input tokens exceeded"
    r"|input length and `?max_tokens`? exceed context limit"
    # Google
    r"|input token count.{0,40}exceeds the maximum|exceeds the maximum number of tokens allowed"
    # llama.cpp, Ollama, LM Studio
    r"|exceeds? the (available )?context (size|length|window)|exceeds (the )?maximum context"
    r"|greater than the context length|context window (of this model )?(is )?exceed"
    # xAI, Cohere, Moonshot, Text Generation Inference
    r"|maximum prompt length|exceeded model token limit|tokens in this prompt cannot exceed"
    r"|`?inputs`? tokens \+ `?max_new_tokens`? must be|`?inputs`? must have less than \d+ tokens",
    re.IGNORECASE | re.DOTALL,
)
"""How providers say that a request is longer than the context of the model."""


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def class_names(error: BaseException) -> set[str]:
    """The names of the classes of an error and of its causes, base classes included."""
    return {kind.__name__ for one in error_chain(error) for kind in type(one).__mro__}


def status_of(error: BaseException) -> int | None:
    """The HTTP status with which the provider refused a request; None if there is none."""
    statuses = (getattr(one, "status_code", None) for one in error_chain(error))
    return next((status for status in statuses if isinstance(status, int)), None)


def is_overflow(error: BaseException) -> bool:
    """Whether a provider says that the request is longer than the context of the model."""
    if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:  # too many tokens in this minute
        return False
    if "ModelContextWindowExceededError" in class_names(error):
        return True
    if isinstance(error, IncompleteAnswer):
        return False
    said = (f"{one} {getattr(one, 'body', None) or ''}" for one in error_chain(error))
    return any(_OVERFLOW.search(text) for text in said)


def kind_of(error: BaseException) -> str:
    """The kind of failure for error edges."""
    if isinstance(error, NodeError) and error.type:
        return error.type
    if is_overflow(error):
        return "ContextOverflow"
    if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:
        return "RateLimited"
    return "Timeout" if class_names(error) & TIMEOUTS else "ModelError"


def permanent_reason(error: BaseException) -> str:
    """Why the same request must fail again; empty if another attempt may succeed."""
    if isinstance(error, NodeError):
        return error.reason
    if is_overflow(error):
        return CONTEXT_OVERFLOW
    status = status_of(error)
    if status == HTTPStatus.BAD_REQUEST and any(code in str(error) for code in _FILTER_CODES):
        return CONTENT_FILTER
    names = class_names(error)
    known = next((reason for name, reason in _CLASS_REASONS.items() if name in names), "")
    return known or _REASONS.get(status or 0, "")


def is_retryable(error: BaseException, retry: ModelRetry) -> bool:
    """Whether an error may be temporary. The lists of the workflow come first, then the status, then
    known exceptions, and only then the text. A request that is too long stays too long, whatever the lists
    say."""
    if is_overflow(error):
        return False
    names = class_names(error)
    if names & set(retry.non_retry_exception_types):
        return False
    if names & set(retry.retry_on_exception_types):
        return True
    status = getattr(error, "status_code", None)
    if status is not None:
        return status in retry.retry_on_status_codes
    if isinstance(error, IncompleteAnswer) or (names & RETRYABLE_ERRORS and not names & FINAL_ERRORS):
        return True
    text = " ".join(str(one) for one in error_chain(error)).lower()
    return any(part.lower() in text for part in retry.retry_on_error_substrings)


def retry_after(error: BaseException) -> float | None:
    """The wait in seconds that the provider asks for: from a header or, with Google, from the body."""
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


def describe_error(error: BaseException) -> str:
    """The error in one line, with the provider's own message if there is one."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if status is None:
        return _one_line(_error_text(error)) or type(error).__name__
    words = body
    while isinstance(words, dict):
        words = words.get("error") or words.get("message") or str(body)
    return f"the provider answered {status}: {_one_line(words or body or '')}"


def _error_text(error: BaseException) -> str:
    """The text of an error. For a failed connection the innermost cause is added, since the outer text
    says only that the connection failed."""
    text = str(error)
    if type(error).__name__ not in ("ModelConnectionError", "ModelTimeoutError"):
        return text
    cause = next((str(one) for one in reversed(list(error_chain(error))) if str(one)), "")
    return text if cause in text else f"{text.rstrip('.')}: {cause}"


def _one_line(words: object) -> str:
    return " ".join(str(words).split())
