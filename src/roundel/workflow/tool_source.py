"""Tool sources: the entries under `tools`, and the `tooling` of an agent.

There are two ways to declare tools. `tools` of a file gives them names, which agents list; `tooling` is
the form of the dialect, in which an agent declares its own. `Tooling.server` converts the second to the
struct of the first, so that everything behind the loader knows MCP servers in one form only.

Nothing is imported or started here: functions are checked by the loader, servers start with the run.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Names, Reader, Seconds, SourceLocation, child

ALL_FUNCTIONS_SUFFIX = ":All"
"""The dialect's way to name all functions of a file: `weather:All`."""


def _startup_fields() -> dict[str, Field]:
    """The descriptions of the keys for starting a server, shared by `McpServer` and `LocalTooling`."""
    return {
        "inherit_env": Field(
            en=(
                "Inherit the environment",
                "Whether the program inherits the environment of Roundel.",
            ),
            zh=("继承环境变量", "程序是否同时获得 Roundel 自身的环境变量。"),
        ),
        "startup_timeout": Field(
            en=("Start-up time", "How long the server may take to start."),
            zh=("启动时限", "服务器就绪最长可用的时间。"),
            widget="duration",
            unit="seconds",
        ),
    }


class McpServer(Struct, frozen=True, omit_defaults=True):
    """A server of the Model Context Protocol: either a program to start (`command`), or an address
    (`url`)."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    inherit_env: bool = True
    startup_timeout: Seconds = 30
    url: str = ""
    headers: dict[str, str] = {}
    timeout: Seconds | None = None
    """The time limit of one tool call, in seconds."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="mcp_server",
            en=(
                "MCP server",
                "A server that offers tools through the Model Context Protocol: a program to start, or "
                "an address.",
            ),
            zh=("MCP 服务器", "通过模型上下文协议（MCP）提供工具的服务器：要启动的程序，或一个地址。"),
            fields={
                "command": Field(
                    en=("Command", "The program to start."),
                    zh=("命令", "要启动的程序。"),
                ),
                "args": Field(
                    en=("Arguments", "The arguments of the program."),
                    zh=("命令参数", "传给程序的参数。"),
                ),
                "env": Field(
                    en=("Environment", "Environment variables for the program."),
                    zh=("环境变量", "传给程序的环境变量。"),
                    widget="secret",
                ),
                "cwd": Field(
                    en=(
                        "Working folder",
                        "The working folder of the program; the folder of the workflow file if not set.",
                    ),
                    zh=("工作目录", "程序运行所在的目录；不填则为工作流文件所在的目录。"),
                    widget="file",
                ),
                **_startup_fields(),
                "url": Field(
                    en=("Address", "The address of a running server, instead of a command."),
                    zh=("地址", "已在运行的服务器的地址，用来代替命令。"),
                    widget="url",
                ),
                "headers": Field(
                    en=("Headers", "HTTP headers of each request to the server."),
                    zh=("请求头", "发往服务器的每个请求所带的 HTTP 头。"),
                    widget="secret",
                ),
                "timeout": Field(
                    en=("Time limit", "How long one tool call may take."),
                    zh=("时间限制", "单次调用其工具最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )

    __aliases__: ClassVar[dict[str, str]] = {"server": "url"}

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.command) != bool(self.url):
            return True
        both = "both a 'command' and a 'url'" if self.command else "neither a 'command' nor a 'url'"
        report.error("mcp-server", f"an MCP server has {both}", at, "a program to start, or an address")
        return False


class ToolSource(Struct, frozen=True, omit_defaults=True):
    """An entry under `tools`: either a Python function, or all tools of an MCP server."""

    python: str = ""
    mcp: McpServer | None = None
    description: str = ""
    parameters: dict[str, Any] | None = None
    """The JSON Schema of its arguments; None derives it from the signature of the function."""
    timeout: Seconds | None = None
    only: Names = ()
    """The tools of a server that are offered to models; all if empty."""
    prefix: str = ""
    poll: bool = False
    """Whether repeated calls with the same arguments are intended (polling), and do not count as a dead
    loop."""
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="tool",
            en=(
                "Tool",
                "A Python function, or all tools of an MCP server, that agents may offer to their models.",
            ),
            zh=("工具", "智能体可以提供给模型的工具：一个 Python 函数，或一个 MCP 服务器的全部工具。"),
            fields={
                "python": Field(
                    en=(
                        "Python function",
                        "`module:function`: the file `module.py` beside the workflow file, otherwise a "
                        "module on the import path.",
                    ),
                    zh=(
                        "Python 函数",
                        "写作 `module:function`：先找工作流文件旁的 `module.py`，再找导入路径中的模块。",
                    ),
                    widget="function",
                ),
                "mcp": Field(
                    en=("MCP server", "The server that provides the tools."),
                    zh=("MCP 服务器", "提供工具的服务器。"),
                    see="tools.md#mcp-servers",
                ),
                "description": Field(
                    en=(
                        "Description",
                        "The description of a function for the model, instead of its docstring.",
                    ),
                    zh=("说明", "模型看到的函数说明，取代其文档字符串。"),
                    widget="textarea",
                ),
                "parameters": Field(
                    en=(
                        "Parameters",
                        "The JSON Schema of a function's arguments, instead of its signature.",
                    ),
                    zh=("参数", "函数参数的 JSON Schema，取代由函数签名得出的结果。"),
                ),
                "timeout": Field(
                    en=("Time limit", "How long one call may take."),
                    zh=("时间限制", "单次调用最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "poll": Field(
                    en=(
                        "Polling",
                        "Whether an agent may call the tool repeatedly with the same arguments, to see "
                        "what has changed.",
                    ),
                    zh=("轮询", "是否允许用相同的参数反复调用，以查看有无变化。"),
                    see="breaker.md#repeated-tool-calls",
                ),
                "only": Field(
                    en=(
                        "Only these tools",
                        "The tools of the server to offer; all if not set.",
                    ),
                    zh=("仅限工具", "只提供服务器的这些工具；不填则提供全部。"),
                ),
                "prefix": Field(
                    en=("Prefix", "A prefix for the names of the tools, joined with `_`."),
                    zh=("前缀", "加在工具名称之前，以 `_` 连接。"),
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.python) == (self.mcp is not None):
            both = "both 'python' and 'mcp'" if self.python else "neither 'python' nor 'mcp'"
            report.error("tool-source", f"a tool has {both}", at, 'for example python: "statistics:mean"')
            return False
        return True


def _warn_if_disabled(made: Struct, name: str, at: Located, report: Report) -> bool:
    """Warns about `auto_fill: false` and `auto_load: false` of the dialect: what a file leaves out is
    always derived."""
    if not getattr(made, name):
        report.warning("without-effect", f"'{name}: false' has no effect in this version", child(at, name))
    return True


class FunctionTool(Struct, frozen=True, omit_defaults=True):
    """One function in the tooling of an agent."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    auto_fill: bool = True

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="function_tool",
            en=("Function", "A Python function from the folder `functions/function_calling`, as a tool."),
            zh=("函数", "来自 `functions/function_calling` 目录、用作工具的 Python 函数。"),
            fields={
                "name": Field(
                    en=("Name", "The name of the function; `module:All` selects all functions of a module."),
                    zh=("名称", "函数的名称；`module:All` 表示一个模块的全部函数。"),
                    widget="function",
                ),
                "description": Field(
                    en=("Description", "The description for the model, instead of the docstring."),
                    zh=("说明", "模型看到的函数说明，取代其文档字符串。"),
                    widget="textarea",
                ),
                "parameters": Field(
                    en=("Parameters", "The JSON Schema of its arguments, instead of its signature."),
                    zh=("参数", "函数参数的 JSON Schema，取代由函数签名得出的结果。"),
                ),
                "auto_fill": Field(
                    en=(
                        "Fill in",
                        "Roundel always takes missing values from the function; false has no effect.",
                    ),
                    zh=("自动补全", "未填写的内容总是取自函数本身；设为 false 没有作用。"),
                ),
            },
        )

    __uses__: ClassVar[dict[str, str]] = {"name": "tool"}

    def __check__(self, at: Located, report: Report) -> bool:
        return _warn_if_disabled(self, "auto_fill", at, report)


class FunctionTooling(Struct, frozen=True, omit_defaults=True):
    """The config of tooling by Python functions."""

    tools: tuple[FunctionTool, ...]
    auto_load: bool = True
    timeout: Seconds | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="function_tooling",
            en=("Python functions", "Functions from the folder `functions/function_calling`."),
            zh=("Python 函数", "来自 `functions/function_calling` 目录的函数。"),
            fields={
                "tools": Field(en=("Functions", "The functions to offer."), zh=("函数", "要提供的函数。")),
                "auto_load": Field(
                    en=("Load", "Roundel always loads the functions; false has no effect."),
                    zh=("自动加载", "函数总会被加载；设为 false 没有作用。"),
                ),
                "timeout": Field(
                    en=("Time limit", "How long one call may take."),
                    zh=("时间限制", "单次调用最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        return _warn_if_disabled(self, "auto_load", at, report)


class RemoteTooling(Struct, frozen=True, omit_defaults=True):
    """The config of tooling by an MCP server at an address."""

    server: str
    headers: dict[str, str] = {}
    timeout: Seconds | None = None
    cache_ttl: float = 0
    tool_sources: Names = ()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="remote_tooling",
            en=("MCP server by address", "The tools of a running MCP server."),
            zh=("远程 MCP 服务器", "一个已在运行的 MCP 服务器的工具。"),
            fields={
                "server": Field(
                    en=("Address", "The address of the server."), zh=("地址", "服务器的地址。"), widget="url"
                ),
                "headers": Field(
                    en=("Headers", "HTTP headers of each request to the server."),
                    zh=("请求头", "发往服务器的每个请求所带的 HTTP 头。"),
                    widget="secret",
                ),
                "timeout": Field(
                    en=("Time limit", "How long one call may take."),
                    zh=("时间限制", "单次调用最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "cache_ttl": Field(
                    en=("Cache time", "Accepted for compatibility; has no effect."),
                    zh=("缓存时间", "仅为兼容而读取，没有作用。"),
                    widget="duration",
                    unit="seconds",
                ),
                "tool_sources": Field(
                    en=("Tool sources", "Accepted for compatibility; has no effect."),
                    zh=("工具来源", "仅为兼容而读取，没有作用。"),
                ),
            },
        )


class LocalTooling(Struct, frozen=True, omit_defaults=True):
    """The config of tooling by an MCP server that is started as a program."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str = ""
    env: dict[str, str] = {}
    inherit_env: bool = True
    startup_timeout: Seconds = 30
    wait_for_log: str = ""
    cache_ttl: float = 0
    timeout: Seconds | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="local_tooling",
            en=("MCP server by command", "The tools of an MCP server that Roundel starts as a program."),
            zh=("本地 MCP 服务器", "以程序方式启动的 MCP 服务器的工具。"),
            fields={
                "command": Field(en=("Command", "The program to start."), zh=("命令", "要启动的程序。")),
                "args": Field(
                    en=("Arguments", "The arguments of the program."), zh=("命令参数", "传给程序的参数。")
                ),
                "cwd": Field(
                    en=(
                        "Working folder",
                        "The working folder of the program; the folder of the workflow file if not set.",
                    ),
                    zh=("工作目录", "程序运行所在的目录；不填则为工作流文件所在的目录。"),
                    widget="file",
                ),
                "env": Field(
                    en=("Environment", "Environment variables for the program."),
                    zh=("环境变量", "传给程序的环境变量。"),
                    widget="secret",
                ),
                **_startup_fields(),
                "timeout": Field(
                    en=("Time limit", "How long one call may take."),
                    zh=("时间限制", "单次调用最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "wait_for_log": Field(
                    en=("Wait for output", "Accepted for compatibility; has no effect."),
                    zh=("等待日志", "仅为兼容而读取，没有作用。"),
                ),
                "cache_ttl": Field(
                    en=("Cache time", "Accepted for compatibility; has no effect."),
                    zh=("缓存时间", "仅为兼容而读取，没有作用。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )


_NAMES: dict[type[Struct], Literal["function", "mcp_remote", "mcp_local"]] = {
    FunctionTooling: "function",
    RemoteTooling: "mcp_remote",
    LocalTooling: "mcp_local",
}
_FORMS: dict[str, type[Struct]] = {name: form for form, name in _NAMES.items()}


class Tooling(Struct, frozen=True, omit_defaults=True):
    """Tools that an agent declares itself, in the form of the dialect."""

    type: Literal["function", "mcp_remote", "mcp_local"]
    config: FunctionTooling | RemoteTooling | LocalTooling
    prefix: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="tooling",
            en=("Tooling", "Tools that an agent declares itself."),
            zh=("自带工具", "智能体自带的工具。"),
            variants=Variants(
                forms=_FORMS,
                en=("Type", "Where the tools come from."),
                zh=("类型", "工具的来源。"),
            ),
            fields={
                "prefix": Field(
                    en=("Prefix", "A prefix for the names of the tools, joined with `_`."),
                    zh=("前缀", "加在工具名称之前，以 `_` 连接。"),
                    kind=str,
                ),
            },
        )

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

    def server(self) -> McpServer | None:
        """The MCP server that it declares; None for functions."""
        return None if isinstance(self.config, FunctionTooling) else make_server(self.config)


def make_server(config: RemoteTooling | LocalTooling) -> McpServer:
    """The MCP server of a tooling, in the form of the entries under `tools`."""
    if isinstance(config, RemoteTooling):
        return McpServer(url=config.server, headers=config.headers, timeout=config.timeout)
    return McpServer(
        command=config.command,
        args=config.args,
        env=config.env,
        cwd=config.cwd,
        inherit_env=config.inherit_env,
        startup_timeout=config.startup_timeout,
        timeout=config.timeout,
    )
