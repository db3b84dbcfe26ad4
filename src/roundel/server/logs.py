"""The log of a server: lines with time, level, request, run and caller, as text or as JSON.

    2026-11-18T20:10:03.123Z INFO  roundel.access GET /api/v1/runs 200 4ms 1532B client=127.0.0.1 request=5f…

Every request has an id: that of its header `X-Request-Id` if it is well-formed, else a new one. The response
has it as well. Every line that is written while a request is handled carries it, with the caller as soon as
it is known. Lines of a run carry the run's id, and the id of the request that has started or continued it.

The access log has one line for each request when its response ends: with the path, and without the query and
all headers, since both may contain credentials. Checks that come every few seconds (`QUIET`) are logged only
if they fail.

One record is one line, whatever clients send: control characters are escaped, and the lines of a traceback
are indented. Errors that a client can cause as often as it likes are logged once in REPEAT_SECONDS.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Literal

from roundel.hosts.log_context import RUN_ID
from roundel.server.identity import TOKEN_PREFIX

LogFormat = Literal["plain", "json"]
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
REPEAT_SECONDS = 60.0
MAX_REMEMBERED = 100
"""Messages that a filter knows."""
MAX_PATH = 300
"""Characters of a path in the log."""
access_logger = logging.getLogger("roundel.access")
_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CREDENTIAL = re.compile(rf"{TOKEN_PREFIX}[0-9a-f]{{12}}_\S*")
_PLAIN = re.compile(r"[!#-~]+")
"""What need not be quoted in a line of text."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class RequestRecord:
    """What the log knows about a request."""

    def __init__(self, request_id: str) -> None:
        self.id = request_id
        self.caller = self.caller_name = ""


_REQUEST: ContextVar[RequestRecord | None] = ContextVar("roundel_request", default=None)


def begin_request(headers: list[tuple[bytes, bytes]]) -> tuple[RequestRecord, Token[RequestRecord | None]]:
    """The record of a new request, which is the current one until `end_request`."""
    given = [value for name, value in headers if name == b"x-request-id"]
    if len(given) == 1 and _WELL_FORMED.fullmatch(given[0]):
        record = RequestRecord(given[0].decode())
    else:
        record = RequestRecord(os.urandom(8).hex())
    return record, _REQUEST.set(record)


def end_request(token: Token[RequestRecord | None]) -> None:
    _REQUEST.reset(token)


def note_caller(caller_id: str, name: str) -> None:
    """Notes who sends the current request."""
    record = _REQUEST.get()
    if record is not None:
        record.caller, record.caller_name = caller_id, name


def log_access(method: str, path: str, status: int, seconds: float, size: int, client: str) -> None:
    """Logs a request that has been answered; status 0 if its client has left before."""
    if (path in QUIET and status < 400) or not access_logger.isEnabledFor(logging.INFO):
        return
    shown = _CREDENTIAL.sub("…", path[:MAX_PATH])
    milliseconds = round(seconds * 1000)
    fields = {
        "method": method,
        "path": shown,
        "status": status,
        "milliseconds": milliseconds,
        "bytes": size,
        "client": client,
    }
    # Not with `info`, which looks for the line of code that called it: for each request that is a waste.
    record = logging.LogRecord(
        access_logger.name,
        logging.INFO,
        "",
        0,
        "%s %s %d %dms %dB client=%s",
        (method, quoted(shown), status, milliseconds, size, quoted(client)),
        None,
    )
    record.fields = fields
    access_logger.handle(record)


# Formats.


def _context() -> dict[str, str]:
    record, run_id = _REQUEST.get(), RUN_ID.get()
    found = {"run": run_id} if run_id else {}
    if record is not None:
        found["request"] = record.id
        if record.caller:
            found |= {"caller": record.caller, "caller_name": record.caller_name}
    return found


def quoted(value: str) -> str:
    """A value in a line of text: in quotation marks if it could be taken for something else."""
    return value if _PLAIN.fullmatch(value) else _one_line(json.dumps(value, ensure_ascii=False))


def _one_line(text: str) -> str:
    """A text without what ends a line, or changes what a terminal shows."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


class PlainFormatter(logging.Formatter):
    """One line of text for each record."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<5} {record.name} {_one_line(record.getMessage())}"
        line += "".join(f" {name}={quoted(value)}" for name, value in _context().items())
        if record.exc_info:
            traceback = self.formatException(record.exc_info)
            line += "".join(f"\n    | {_one_line(part)}" for part in traceback.split("\n"))
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object on one line for each record."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_context(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)


class RepeatFilter(logging.Filter):
    """Lets a message pass once in REPEAT_SECONDS, and then says how often it came meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}
        """When a message was logged, and how often it came since."""

    def forget(self) -> None:
        self._seen.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = str(record.msg), self._clock()
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.clear()
        since, count = self._seen.get(key, (now - REPEAT_SECONDS, 0))
        if now - since < REPEAT_SECONDS:
            self._seen[key] = (since, count + 1)
            return False
        self._seen[key] = (now, 0)
        if count:
            record.msg = f"{record.msg} ({count} more since the last time)"
        return True


def configure_logs(log_format: LogFormat) -> None:
    """Writes the log of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("roundel.access", "roundel.server"):
        # Not "roundel": its lines below WARNING are the events of all runs, with everything that models say.
        logging.getLogger(name).setLevel(logging.INFO)
    for name in ("uvicorn.error", "asyncio"):  # "Invalid HTTP request received" and the like
        logging.getLogger(name).addFilter(RepeatFilter())
