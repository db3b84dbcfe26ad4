"""What went wrong with an MCP server, in words that say what to do and leave out what is secret."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

from roundel.llm.client_logs import mask_client_logs
from roundel.nodes.services import NodeError
from roundel.workflow.secrets import Secrets
from roundel.workflow.tool_source import McpServer


class McpErrors:
    """The errors of one server."""

    def __init__(self, server: McpServer, name: str, secrets: Secrets) -> None:
        self._server = server
        self._secrets = secrets
        for header in server.headers.values():
            secrets.add_header(header)
        secrets.add(*server.env.values())
        secrets.add_urls(" ".join((server.url, *server.args)))
        self._location = f" at {_strip_credentials(server.url)}" if name and server.url else ""
        self.label = f"MCP server '{self.clean(name or server.command or _strip_credentials(server.url))}'"

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return self._secrets.mask(text)

    def mask_logs(self) -> None:
        """The package logs addresses and what servers say."""
        mask_client_logs(self._secrets)

    def startup_error(self, cause: BaseException | None, status: int, lines: tuple[str, ...]) -> NodeError:
        """The server could not be started or reached."""
        why = (
            self._describe_reach_error(cause, status)
            if self._server.url
            else self._describe_start_error(cause)
        )
        return NodeError(self.clean(why + _format_stderr(lines)))

    def connection_error(self, tool: str, cause: BaseException | None, lines: tuple[str, ...]) -> NodeError:
        """The server went away during a call; whether the call had an effect is not known."""
        if self._server.url and _is_connect_error(cause):
            return self.startup_error(cause, 0, lines)
        reason = f" ({_error_text(cause)})" if cause else ""
        text = f"{self.label} ended during the call of '{tool}'{reason}; the next call connects again"
        return NodeError(self.clean(text + _format_stderr(lines)))

    def _describe_start_error(self, cause: BaseException | None) -> str:
        command = self._server.command
        match cause:
            case NodeError():
                return str(cause)
            case FileNotFoundError():
                why = f"the command '{command}' was not found"
                return f"cannot start {self.label}: {why}; install it, or give its full path as 'command'"
            case TimeoutError():
                return self._describe_timeout()
            case OSError():
                why = cause.strerror or _error_text(cause)
                return f"cannot start {self.label}: {why}; check 'command' ({command})"
        if _is_connection_closed(cause):
            return f"{self.label} ended before it was ready; check 'command', 'args' and 'env'"
        return f"cannot use {self.label}: {_error_text(cause)}"

    def _describe_reach_error(self, cause: BaseException | None, status: int) -> str:
        from httpx2 import TransportError

        label = self.label + self._location
        if isinstance(cause, TimeoutError):
            return self._describe_timeout()
        if isinstance(cause, TransportError):
            return f"cannot reach {label}: {_error_text(cause)}; is it running, is 'url' right?"
        if status:
            answer = f"{status} {_status_phrase(status)}".rstrip()
            return f"{label} answered {answer}; check 'url' and 'headers'"
        return f"cannot use {label}: {_error_text(cause)}"

    def _describe_timeout(self) -> str:
        seconds = f"{self._server.startup_timeout:g}"
        return (
            f"{self.label} was not ready after {seconds} seconds; if it needs more, raise 'startup_timeout'"
        )


def root_cause(error: BaseException) -> BaseException:
    """The first error inside the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _strip_credentials(url: str) -> str:
    """An address without a user, a password and a query, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _format_stderr(lines: tuple[str, ...]) -> str:
    return "\nits last lines:" + "".join(f"\n  {line}" for line in lines) if lines else ""


def _error_text(cause: BaseException | None) -> str:
    return (str(cause) or type(cause).__name__) if cause else "no reason is known"


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _is_connect_error(cause: BaseException | None) -> bool:
    from httpx2 import ConnectError, ConnectTimeout

    return isinstance(cause, (ConnectError, ConnectTimeout))


def _is_connection_closed(cause: BaseException | None) -> bool:
    from mcp.types import CONNECTION_CLOSED

    return getattr(cause, "code", None) == CONNECTION_CLOSED
