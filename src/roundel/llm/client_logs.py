"""Masks secrets in the logs of client libraries.

They log what they send: URLs with credentials in them, and at the level DEBUG whole requests, whose prompts
may hold a secret. The records are changed before any handler sees them, wherever the program sends its logs.
"""

from __future__ import annotations

import logging
import traceback
import weakref

from roundel.workflow.secrets import Secrets

_LIBRARIES = (
    "anthropic",
    "asyncio",
    "client",
    "google",
    "google_genai",
    "httpcore2",
    "httpx2",
    "mcp",
    "openai",
    "pydantic_ai",
)


class _SecretFilter(logging.Filter):
    """One for the process: a record does not tell which run it is about, so all runs are masked in it."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: weakref.WeakSet[Secrets] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        masked = self._mask(text)
        if masked is not text:
            record.msg, record.args = masked, None
        if record.exc_info:
            record.exc_text = self._mask("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True

    def _mask(self, text: str) -> str:
        for secrets in self.secrets:
            text = secrets.mask(text)
        return text


_SECRET_FILTER = _SecretFilter()


def mask_client_logs(secrets: Secrets) -> None:
    """From now on, and as long as these secrets are in use. Call it once the libraries have been imported:
    a filter holds for the loggers that there are, not for those below them."""
    _SECRET_FILTER.secrets.add(secrets)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _LIBRARIES:
            logger.addFilter(_SECRET_FILTER)  # adds it once
