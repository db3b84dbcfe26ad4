"""Where tools come from: the entries under `tools`, and the `tooling` of an agent."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Place, Reader, child

Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
Seconds = Annotated[float, Meta(gt=0)]
EVERY_FUNCTION = ":All"


class McpServer(Struct, frozen=True, omit_defaults=True):
    """A server that speaks the Model Context Protocol: a program to start, or an address."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    inherit_env: bool = True
    startup_timeout: Seconds = 30
    url: str = ""
    headers: dict[str, str] = {}
    timeout: Seconds | None = None
    """The seconds that one call of one of its tools may take."""

    __aliases__: ClassVar[dict[str, str]] = {"server": "url"}

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.command) != bool(self.url):
            return True
        both = "both a 'command' and a 'url'" if self.command else "neither a 'command' nor a 'url'"
        report.error("mcp-server", f"an MCP server has {both}", at, "a program to start, or an address")
        return False


class ToolSource(Struct, frozen=True, omit_defaults=True):
    """An entry under `tools`: a Python function, or all tools of a server."""

    python: str = ""
    mcp: McpServer | None = None
    description: str = ""
    parameters: dict[str, Any] | None = None
    """The JSON Schema of its arguments, instead of the one that the function's signature gives."""
    timeout: Seconds | None = None
    only: Names = ()
    """The tools of a server that are offered; all if it is empty."""
    prefix: str = ""
    poll: bool = False
    """Whether it may be called again and again with the same arguments, to see what has changed."""
    at: Place = Place()

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.python) == (self.mcp is not None):
            both = "both 'python' and 'mcp'" if self.python else "neither 'python' nor 'mcp'"
            report.error("tool-source", f"a tool has {both}", at, 'for example python: "statistics:mean"')
            return False
        return True


def _always(made: Struct, name: str, at: Located, report: Report) -> bool:
    """What tools are and how they are described is always found out, where the file does not say."""
    if not getattr(made, name):
        report.warning("without-effect", f"'{name}: false' has no effect in this version", child(at, name))
    return True


class FunctionTool(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    auto_fill: bool = True

    def __check__(self, at: Located, report: Report) -> bool:
        return _always(self, "auto_fill", at, report)


class FunctionTooling(Struct, frozen=True, omit_defaults=True):
    tools: tuple[FunctionTool, ...]
    auto_load: bool = True
    timeout: Seconds | None = None

    def __check__(self, at: Located, report: Report) -> bool:
        return _always(self, "auto_load", at, report)


class RemoteTooling(Struct, frozen=True, omit_defaults=True):
    server: str
    headers: dict[str, str] = {}
    timeout: Seconds | None = None
    cache_ttl: float = 0
    tool_sources: Names = ()


class LocalTooling(Struct, frozen=True, omit_defaults=True):
    command: str
    args: tuple[str, ...] = ()
    cwd: str = ""
    env: dict[str, str] = {}
    inherit_env: bool = True
    startup_timeout: Seconds = 30
    wait_for_log: str = ""
    cache_ttl: float = 0
    timeout: Seconds | None = None


_NAMES: dict[type[Struct], Literal["function", "mcp_remote", "mcp_local"]] = {
    FunctionTooling: "function",
    RemoteTooling: "mcp_remote",
    LocalTooling: "mcp_local",
}
_FORMS: dict[str, type[Struct]] = {name: form for form, name in _NAMES.items()}


class Tooling(Struct, frozen=True, omit_defaults=True):
    """Tools that an agent brings along, as files of the dialect write it."""

    type: Literal["function", "mcp_remote", "mcp_local"]
    config: FunctionTooling | RemoteTooling | LocalTooling
    prefix: str = ""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, _FORMS, "tooling", also=("prefix",))
        if form is None:
            return INVALID
        kind, config_at = form
        config = reader.read_struct(config_at, kind, "'config' of the tooling")
        assert isinstance(at.value, dict)
        prefix = reader.read(at.value["prefix"], str | None, "'prefix'") if "prefix" in at.value else ""
        if config is INVALID or prefix is INVALID:
            return INVALID
        return cls(_NAMES[kind], config, prefix or "")

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        return {"anyOf": maker.variants(_FORMS, {"prefix": {"type": ["string", "null"]}})}

    def server(self) -> McpServer | None:
        """The MCP server that it names, if it does."""
        config = self.config
        if isinstance(config, RemoteTooling):
            return McpServer(url=config.server, headers=config.headers, timeout=config.timeout)
        if isinstance(config, LocalTooling):
            return McpServer(
                command=config.command,
                args=config.args,
                env=config.env,
                cwd=config.cwd,
                inherit_env=config.inherit_env,
                startup_timeout=config.startup_timeout,
                timeout=config.timeout,
            )
        return None
