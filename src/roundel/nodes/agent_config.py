"""The settings of an agent, and the checks on them.

`Config.__check__` checks what the settings of one agent say by themselves, when they are read. `examine`
checks the names that they refer to (profiles, tools, memories), once the rest of the file is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.nodes.prompt import Template
from roundel.nodes.structured_output import schema_error
from roundel.workflow.context import Context
from roundel.workflow.description import Description, Field, Short
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.expression import ExpressionError
from roundel.workflow.fields import INVALID, Duration, Names, Reader, child, warn_without_effect
from roundel.workflow.functions import EXIT_LOOP
from roundel.workflow.graph import NodeReader
from roundel.workflow.limits import RETRY_HINTS
from roundel.workflow.model_profile import check_model, model_fields
from roundel.workflow.tool_source import ALL_FUNCTIONS_SUFFIX, FunctionTooling, Tooling

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
    """The retry of model calls for errors that may be temporary. The wait grows with each failure,
    unless the provider sends Retry-After. This retries one call; the `retry` of the node repeats the
    whole node."""

    enabled: bool = True
    max_attempts: Annotated[int, Meta(ge=1)] = 5
    min_wait_seconds: Annotated[float, Meta(ge=0)] = 1
    max_wait_seconds: Annotated[float, Meta(ge=0)] = 6
    retry_on_status_codes: tuple[int, ...] = STATUS_CODES
    retry_on_exception_types: tuple[str, ...] = ()
    non_retry_exception_types: tuple[str, ...] = ()
    retry_on_error_substrings: tuple[str, ...] = SUBSTRINGS

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = RETRY_HINTS

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="model_retry",
            en=("Retry of calls", "When to retry a failed model call."),
            zh=("调用重试", "模型调用失败后何时重试。"),
            fields={
                "enabled": Field(
                    en=("Enabled", "Whether to retry failed calls."),
                    zh=("启用", "是否重试失败的调用。"),
                ),
                "max_attempts": Field(
                    en=("Attempts", "The total number of calls of a model, including the first."),
                    zh=("尝试次数", "总共调用模型的次数，包括第一次。"),
                    unit="attempts",
                ),
                "min_wait_seconds": Field(
                    en=(
                        "Shortest wait",
                        "The wait after the first failure. It grows after each further failure.",
                    ),
                    zh=("最短等待", "第一次失败后的等待时间，之后逐次增加。"),
                    widget="duration",
                    unit="seconds",
                ),
                "max_wait_seconds": Field(
                    en=(
                        "Longest wait",
                        "The maximum wait, unless the provider requests a specific wait.",
                    ),
                    zh=("最长等待", "等待时间不会超过此值，除非提供商指定了等待时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "retry_on_status_codes": Field(
                    en=("Status codes", "The HTTP status codes after which to retry a call."),
                    zh=("状态码", "遇到这些 HTTP 状态码时重试。"),
                ),
                "retry_on_error_substrings": Field(
                    en=("Error texts", "Retry a call if the text of its error contains one of these."),
                    zh=("错误文本", "错误信息含有其中任何一个时重试。"),
                ),
                "retry_on_exception_types": Field(
                    en=("Exceptions", "Python exceptions, by name, after which to always retry a call."),
                    zh=("重试的异常", "遇到这些 Python 异常（按名称）时总是重试。"),
                ),
                "non_retry_exception_types": Field(
                    en=(
                        "Final exceptions",
                        "Python exceptions, by name, after which never to retry a call.",
                    ),
                    zh=("不重试的异常", "遇到这些 Python 异常（按名称）时从不重试。"),
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_wait_seconds < self.min_wait_seconds:
            report.error("bad-retry", "max_wait_seconds is less than min_wait_seconds", at)
            return False
        return True


DEFAULT_TEMPLATE = "{toolName}: {toolDescription}"
MAX_TOOL_CALLS = 10
MemoryStage = Literal["pre_gen_thinking", "gen", "post_gen_thinking", "finished"]
LOOP_LIMITS = ("tool_loop_limit", "max_tool_calls", "maxToolCalls")
"""Names of `max_tool_calls` among the parameters, that of the dialect first. They are never sent to the
provider."""


class MemoryUse(Struct, frozen=True, omit_defaults=True):
    """A memory that the agent reads before its model is called, and writes when the agent has ended."""

    name: str
    retrieve_stage: Annotated[tuple[MemoryStage, ...], Meta(extra={"wrap": True})] = ()
    top_k: Annotated[int, Meta(ge=1)] = 3
    similarity_threshold: float = -1.0
    read: bool = True
    write: bool = True

    @staticmethod
    def __describe__() -> Description:
        name = Field(
            en=("Memory", "The name of a memory of the graph, `working` or `long_term`."),
            zh=("记忆", "图中记忆的名称，或 `working`、`long_term`。"),
            widget="memory",
        )
        return Description(
            name="memory_use",
            en=(
                "Use of a memory",
                "A memory that the agent reads before each model call and writes afterwards.",
            ),
            zh=("记忆的使用", "智能体在调用模型之前读取、完成之后写入的记忆。"),
            short=(Short(kind=str, key="name", en=name.en, zh=name.zh, widget="memory"),),
            fields={
                "name": name,
                "read": Field(
                    en=("Read", "Whether the agent reads it."), zh=("读取", "智能体是否读取此记忆。")
                ),
                "write": Field(
                    en=("Write", "Whether to add the answer of the agent to it."),
                    zh=("写入", "智能体的答案是否写入此记忆。"),
                ),
                "top_k": Field(
                    en=("Most entries", "The maximum number of entries to read."),
                    zh=("读取条数", "最多读取的记录条数。"),
                    unit="entries",
                ),
                "similarity_threshold": Field(
                    en=("Least similarity", "The minimum similarity of entries to read; -1 reads all."),
                    zh=("最低相似度", "相似度低于此值的记录不读取；-1 表示全部读取。"),
                ),
                "retrieve_stage": Field(
                    en=("Stages", "The model calls before which the agent reads it; all if not set."),
                    zh=("读取阶段", "在模型的哪些调用之前读取；不填则为全部。"),
                    choices={
                        "pre_gen_thinking": ("Thinking before (no effect)", "回答前思考（无效）"),
                        "gen": ("The answer", "回答"),
                        "post_gen_thinking": ("The reflection", "反思"),
                        "finished": ("The end (no effect)", "结束（无效）"),
                    },
                ),
            },
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value)
        return reader.read_struct(at, cls, "an item of 'memories'")

    def is_read_at(self, stage: MemoryStage) -> bool:
        return self.read and (not self.retrieve_stage or stage in self.retrieve_stage)


class Reflection(Struct, frozen=True, omit_defaults=True):
    """The settings of `thinking: {type: reflection}`."""

    reflection_prompt: str

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="reflection",
            en=("Reflection", "The model reviews its own answer."),
            zh=("反思", "模型再次审视自己的答案。"),
            fields={
                "reflection_prompt": Field(
                    en=("Prompt", "The instruction for the model about its first answer."),
                    zh=("提示词", "要求模型如何处理第一个答案。"),
                    widget="textarea",
                ),
            },
        )


class Thinking(Struct, frozen=True, omit_defaults=True):
    """A second model call that looks at the first answer; its reply is the answer of the agent."""

    type: Literal["reflection"]
    config: Reflection

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="thinking",
            en=(
                "Thinking",
                "A second model call that reviews the first answer; its reply replaces the answer.",
            ),
            zh=("思考", "再次调用模型审视第一个答案，以其回复作为最终答案。"),
            fields={
                "type": Field(
                    en=("Type", "The kind of second call."),
                    zh=("类型", "再次调用的方式。"),
                    choices={"reflection": ("Reflection", "反思")},
                ),
                "config": Field(
                    en=("Settings", "The settings of the type."), zh=("设置", "该类型所需的设置。")
                ),
            },
        )


class DynamicTools(Struct, frozen=True, omit_defaults=True):
    """Tools that are offered to the model and also described in the system message."""

    tool_ids: Names = ()
    description_template: str = DEFAULT_TEMPLATE
    """The description of each tool in the system message, with `{toolName}` and `{toolDescription}`."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="dynamic_tools",
            en=("Described tools", "Tools that are also described in the system message."),
            zh=("动态工具", "同时写入系统消息的工具。"),
            fields={
                "tool_ids": Field(
                    en=("Tools", "The names of the tools."), zh=("工具", "工具的名称。"), widget="tool"
                ),
                "description_template": Field(
                    en=(
                        "Template",
                        "The description of each tool. Roundel replaces `{toolName}` and "
                        "`{toolDescription}`.",
                    ),
                    zh=(
                        "模板",
                        "每个工具的描述格式，`{toolName}` 与 `{toolDescription}` 分别代表名称和说明。",
                    ),
                    widget="textarea",
                ),
            },
        )

    __aliases__: ClassVar[dict[str, str]] = {
        "toolIds": "tool_ids",
        "descriptionTemplate": "description_template",
    }


class Approval(Struct, frozen=True, omit_defaults=True):
    """The tools whose calls need the approval of a person: all, none, or those that are named."""

    every: bool = False
    names: tuple[str, ...] = ()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="approval",
            en=("Approval", "Which tools need approval by a person: all, none, or the listed tools."),
            zh=("审批", "哪些工具须经人工批准：全部、无，或指定的工具。"),
            complete=True,
            short=(
                Short(
                    kind=Literal["always", "never"],
                    en=("All or none", "Whether every tool call needs approval."),
                    zh=("全部或无", "是否每次工具调用都须批准。"),
                    choices={"always": ("Always", "总是"), "never": ("Never", "从不")},
                ),
                Short(
                    kind=tuple[str, ...],
                    en=("Tools", "The tools whose calls need approval."),
                    zh=("工具", "须经批准的工具。"),
                    widget="tool",
                ),
            ),
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if at.value in ("always", "never"):
            return cls(every=at.value == "always")
        if not isinstance(at.value, list):
            shown = reader.report.mask_value(at.value)
            message = f"'approval' must be always, never or a list of tools, not {shown!r:.60}"
            reader.report.error("wrong-type", message, at)
            return INVALID
        names = reader.read(at, tuple[str, ...], "'approval'")
        return INVALID if names is INVALID else cls(names=names)


class Config(Struct, frozen=True, omit_defaults=True):
    """The settings of an agent. `parameters` is another name for `params`; `tooling` declares tools in
    the form of the dialect, and `tools` names those that the file declares."""

    provider: str = ""
    name: str = ""
    model: str = ""
    profile_id: str = ""
    role: str = ""
    prompt: str = ""
    base_url: str = ""
    api_key: str = ""
    params: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    fallback: Names = ()
    cache: bool | None = None
    stream: bool = True
    input_mode: Literal["messages", "prompt"] = "messages"
    tooling: Annotated[tuple[Tooling, ...], Meta(extra={"wrap": True})] = ()
    tools: Names = ()
    dynamic_tools: DynamicTools | None = None
    max_tool_calls: int | None = None
    max_calls_per_round: Annotated[int, Meta(ge=1)] = 16
    on_limit: Literal["answer", "error", "suspend"] = "answer"
    on_error: Literal["fail", "message"] = "fail"
    approval: Approval | None = None
    approval_timeout: Duration | None = None
    output_schema: dict[str, Any] | None = None
    max_repairs: Annotated[int, Meta(ge=0)] = 2
    thinking: Thinking | None = None
    retry: ModelRetry | None = None
    memories: Annotated[tuple[MemoryUse, ...], Meta(extra={"wrap": True})] = ()
    skills: Any = None
    context: Context | None = None
    speakers: Literal["auto", "none"] = "auto"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "role": Field(
                    en=("Role", "The system message: what the model is, and how it should answer."),
                    zh=("角色", "系统消息：模型的身份与作答方式。"),
                    widget="textarea",
                    see="agents.md#model-input",
                ),
                "prompt": Field(
                    en=(
                        "Prompt",
                        "Appended to the input as another message. It may contain expressions in `{{ }}`.",
                    ),
                    zh=("提示词", "作为一条消息附在输入之后，可包含 `{{ }}` 表达式。"),
                    widget="textarea",
                    see="agents.md#model-input",
                ),
                "context": Field(
                    en=(
                        "Context",
                        "What the agent sees of earlier rounds of its loop. If not set: as the graph says, "
                        "else `task` in a loop.",
                    ),
                    zh=(
                        "上下文",
                        "智能体能看到循环中此前轮次的哪些内容。不填则按图的设置，否则在循环中为 `task`。",
                    ),
                    see="agents.md#context",
                ),
                "speakers": Field(
                    en=("Speakers", "Whether the model is told who wrote which message."),
                    zh=("发言者", "是否告诉模型每条消息由谁所写。"),
                    choices={
                        "auto": ("If there are several", "有多个时标明"),
                        "none": ("Never", "从不标明"),
                    },
                    see="agents.md#model-input",
                ),
                "input_mode": Field(
                    en=(
                        "Input",
                        "Whether the model receives the input as messages, or as one text with a heading "
                        "for each part.",
                    ),
                    zh=("输入方式", "模型以多条消息的形式接收输入，还是接收一段文本，其中每部分标明来源。"),
                    choices={"messages": ("As messages", "多条消息"), "prompt": ("As one text", "一段文本")},
                ),
                "profile_id": Field(
                    en=("Model profile", "The profile of its model, from `models`; `default` if not set."),
                    zh=("模型配置", "`models` 中的模型配置；不填则为 `default`。"),
                    widget="model",
                    see="workflow-files.md#models",
                ),
                "model": Field(
                    en=("Model", "A model as `provider:name`, instead of a profile."),
                    zh=("模型", "直接指定模型，写作 `provider:name`，取代模型配置。"),
                    see="agents.md#model-selection",
                ),
                **model_fields(),
                "params": Field(
                    en=("Parameters", "Parameters for the provider, such as `temperature`."),
                    zh=("参数", "传给提供商的参数，例如 `temperature`。"),
                    see="agents.md#parameters",
                ),
                "parameters": Field(
                    en=(
                        "More parameters",
                        "Another name for `params`. If both are set, this one takes precedence.",
                    ),
                    zh=("更多参数", "`params` 的另一个名称；两者同时填写时以此为准。"),
                ),
                "stream": Field(
                    en=("Streaming", "Whether the answer is shown while the model writes it."),
                    zh=("流式输出", "是否在模型生成时逐步显示答案。"),
                    see="agents.md#streaming",
                ),
                "retry": Field(
                    en=(
                        "Retry of calls",
                        "When to retry a failed model call. The node also has its own `retry`.",
                    ),
                    zh=("调用重试", "模型调用失败后何时重试。节点本身另有重试设置。"),
                    see="agents.md#retries-and-fallback",
                ),
                "fallback": Field(
                    en=("Fallback", "Other profiles to try, in this order, if the model does not answer."),
                    zh=("备用模型", "模型没有响应时依次尝试的其他模型配置。"),
                    widget="model",
                ),
                "on_error": Field(
                    en=("On failure", "What happens if no model answers."),
                    zh=("失败时", "没有模型作答时如何处理。"),
                    choices={
                        "fail": ("The node fails", "节点失败"),
                        "message": ("The error is its answer", "以错误信息作为答案"),
                    },
                ),
                "cache": Field(
                    en=(
                        "Cache",
                        "Whether to reuse the stored answer for an identical request. If not set, the "
                        "profile decides.",
                    ),
                    zh=("缓存", "相同的请求是否使用之前的答案；不填则按模型配置。"),
                    see="agents.md#response-cache",
                ),
                "output_schema": Field(
                    en=("Output schema", "A JSON Schema that the answer must fit; the answer is then data."),
                    zh=("输出结构", "答案须符合的 JSON Schema；答案即为结构化数据。"),
                    see="agents.md#structured-answers",
                ),
                "max_repairs": Field(
                    en=(
                        "Repairs",
                        "How often to ask the model again if its answer does not fit the schema.",
                    ),
                    zh=("修正次数", "答案不符合结构时重新请求的次数。"),
                    unit="attempts",
                ),
                "thinking": Field(
                    en=("Thinking", "A second call that reviews the first answer."),
                    zh=("思考", "再次调用模型审视第一个答案。"),
                    see="agents.md#reflection",
                ),
                "tools": Field(
                    en=(
                        "Tools",
                        "The tools that the model may use, by their names under `tools`; `exit_loop` is "
                        "built in.",
                    ),
                    zh=("工具", "模型可以使用的工具，即 `tools` 中的名称；`exit_loop` 为内置工具。"),
                    widget="tool",
                    see="tools.md",
                ),
                "dynamic_tools": Field(
                    en=("Described tools", "Tools that are also described in the system message."),
                    zh=("动态工具", "同时写入系统消息的工具。"),
                    see="tools.md#dynamic-tools",
                ),
                "tooling": Field(
                    en=("Own tools", "Tools that are declared here instead of under `tools`."),
                    zh=("自带工具", "在此处而非 `tools` 中声明的工具。"),
                    see="tools.md#compatibility-tooling",
                ),
                "max_tool_calls": Field(
                    en=(
                        "Rounds of tools",
                        "The maximum number of tool rounds, 0 or more. The default is 10.",
                    ),
                    zh=("工具轮次", "模型连续请求工具的最多次数，须为 0 或更大。不填则为 10。"),
                    unit="rounds",
                    see="tools.md#rounds-and-their-limit",
                ),
                "max_calls_per_round": Field(
                    en=("Calls per round", "The maximum number of tool calls in one reply."),
                    zh=("每轮调用数", "一次回复中最多请求的工具调用数。"),
                    unit="calls",
                ),
                "on_limit": Field(
                    en=("At the limit", "What happens after the last tool round."),
                    zh=("达到上限时", "最后一轮工具调用之后如何处理。"),
                    choices={
                        "answer": ("The model answers without tools", "模型不用工具作答"),
                        "error": ("The node fails", "节点失败"),
                        "suspend": ("The run is locked", "锁定运行"),
                    },
                ),
                "approval": Field(
                    en=("Approval", "Which tool calls a person must approve."),
                    zh=("审批", "哪些工具调用须经人工批准。"),
                    see="tools.md#approval",
                ),
                "approval_timeout": Field(
                    en=(
                        "Time to approve",
                        "How long a person has to approve a call: seconds, or a text such as `30m`, `2h` "
                        "or `3d`. After that, Roundel rejects the call.",
                    ),
                    zh=(
                        "审批期限",
                        "人须在多久之内批准调用：秒数，或 `30m`、`2h`、`3d` 这样的文本；逾期即视为拒绝。",
                    ),
                    widget="duration",
                    unit="seconds",
                    see="tools.md#approval",
                ),
                "memories": Field(
                    en=("Memories", "The memories that the agent reads and writes."),
                    zh=("记忆", "智能体读写的记忆。"),
                    see="memory.md#agent-configuration",
                ),
                "skills": Field(
                    en=("Skills", "Has no effect in this version and causes a warning."),
                    zh=("技能", "在当前版本中无效，并给出警告。"),
                ),
            },
        )

    __uses__: ClassVar[dict[str, str]] = {"params": "parameter", "parameters": "parameter"}
    __aliases__: ClassVar[dict[str, str]] = {
        "profileId": "profile_id",
        "maxToolCalls": "max_tool_calls",
        "dynamicTools": "dynamic_tools",
    }

    def __check__(self, at: Located, report: Report) -> bool:
        warn_without_effect(self, ("skills",), at, report)
        if self.approval_timeout is not None and self.approval is None:
            report.warning(
                "without-effect",
                "'approval_timeout' has no effect without 'approval'",
                child(at, "approval_timeout"),
                "say which calls need approval, for example `approval: always`",
            )
        self._warn_unused_stages(at, report)
        given = at.value if isinstance(at.value, dict) else {}
        if type(self.tool_rounds) is not int or self.tool_rounds < 0:
            report.error("negative-limit", "Max tool calls must be non-negative", _locate_limit(at))
            return False
        problem = schema_error(self.output_schema) if self.output_schema is not None else ""
        if problem:
            report.error(
                "bad-schema", f"'output_schema' is no JSON Schema: {problem}", given["output_schema"]
            )
            return False
        return check_model(self.model, self.provider, self.name, at, report) and self._check_prompt(
            at, report
        )

    def _check_prompt(self, at: Located, report: Report) -> bool:
        try:
            Template(self.prompt)
        except ExpressionError as error:
            report.error("bad-expression", f"in 'prompt': {error}", child(at, "prompt"))
            return False
        return True

    def _warn_unused_stages(self, at: Located, report: Report) -> None:
        """Warns of stages at which no model is called, so that memory is never read there."""
        used = {"gen"} if self.thinking is None else {"gen", "post_gen_thinking"}
        for stage in dict.fromkeys(stage for use in self.memories for stage in use.retrieve_stage):
            if stage not in used:
                hint = f"the model is called at {' and '.join(sorted(used))}"
                message = f"'retrieve_stage: {stage}' has no effect: no model is called at this stage"
                report.warning("without-effect", message, _locator(at, "memories")(stage), hint)

    @property
    def reads_memories(self) -> bool:
        return any(use.is_read_at("gen") or use.is_read_at("post_gen_thinking") for use in self.memories)

    @property
    def tool_rounds(self) -> int:
        """The limit on rounds of tools. `max_tool_calls` wins over the names among the parameters."""
        if self.max_tool_calls is not None:
            return self.max_tool_calls
        merged = {**self.params, **self.parameters}
        given: int = next((merged[name] for name in LOOP_LIMITS if name in merged), MAX_TOOL_CALLS)
        return given

    @property
    def provider_params(self) -> dict[str, Any]:
        """The parameters to send to the provider: all but the limits on the tool loop."""
        given = {**self.params, **self.parameters}
        return {name: value for name, value in given.items() if name not in LOOP_LIMITS}

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names under `tools` that the agent offers, without duplicates."""
        dynamic = self.dynamic_tools.tool_ids if self.dynamic_tools else ()
        return tuple(dict.fromkeys((*self.tools, *dynamic)))

    @property
    def offers_exit(self) -> bool:
        """Whether the built-in tool `exit_loop` is among the tools."""
        functions = (use.config for use in self.tooling if isinstance(use.config, FunctionTooling))
        return EXIT_LOOP in self.tool_names or any(
            tool.name == EXIT_LOOP for tooling in functions for tool in tooling.tools
        )

    @property
    def has_tools(self) -> bool:
        return bool(self.tool_names or self.tooling)

    @property
    def uses_tool_loop(self) -> bool:
        """Whether the agent runs as a conversation, because one model call may not be enough."""
        compacts = self.context is not None and self.context.compacts
        return self.has_tools or self.thinking is not None or self.output_schema is not None or compacts

    def needs_approval(self, tool: str) -> bool:
        approval = self.approval
        return approval is not None and (approval.every or tool in approval.names)

    def error_answer(self, error: str) -> str:
        """The text of the answer with `on_error: message`. Memory recognises it by its beginning, and
        does not store it (memory/run_memory.py)."""
        return f"Error calling model {self.name or self.model}: {error}"


def _locate_limit(at: Located) -> Located:
    """The position of the setting that limits the rounds of tools, for an error."""
    for part in (at, child(at, "params"), child(at, "parameters")):
        given = part.value if isinstance(part.value, dict) else {}
        for name in LOOP_LIMITS:
            if name in given:
                return given[name]
    return at


def examine(config: Config, at: Located, reader: NodeReader) -> None:
    """Reports profiles, tools and memories that an agent names and that do not exist.

    It is apart from `__check__`, which sees the config alone: these names are declared elsewhere in the
    file, and are known only when the whole file has been read."""
    where = child(at, "config")
    named = _locator(where, "profile_id", "profileId", "fallback")
    given = (child(where, "profile_id"), child(where, "profileId"))
    names_one = any(place is not where and place.value is not None for place in given)
    for name in (*((config.profile_id,) if names_one else ()), *config.fallback):
        if name not in reader.models:
            place = named(name)
            hint = reader.report.suggest(name, reader.models)
            hint = hint or "profiles stand under `models`, beside `graph`"
            message = f"there is no model profile '{name}'"
            if not name.strip():
                message, hint = "the node names a model profile by an empty text", "name one, or leave it out"
            reader.report.error("unknown-profile", message, place, hint)
    if config.model in reader.models:
        message = f"'{config.model}' is a model profile, but `model` names the model of a provider"
        hint = f"write `profile_id: {config.model}`"
        reader.report.warning("profile-as-model", message, child(where, "model"), hint)
    named = _locator(where, "tools", "dynamic_tools", "dynamicTools")
    for name in config.tool_names:
        if name in reader.tools or name == EXIT_LOOP or not reader.is_trusted:
            continue
        place = named(name)
        if reader.finder.known("tool", name):
            reader.check_import("tool", name, place)
        else:
            known = [*reader.tools, *reader.finder.names("tool"), EXIT_LOOP]
            hint = reader.report.suggest(name, known) or "tools stand under `tools`, beside `graph`"
            reader.report.error("unknown-tool", f"there is no tool '{name}'", place, hint)
    _examine_context(config, at, reader)
    named = _locator(where, "memories")
    for use in config.memories:
        if use.name not in reader.memories:
            hint = reader.report.suggest(use.name, reader.memories)
            hint = hint or "memories stand under `memory` of the graph"
            reader.report.error("unknown-memory", f"there is no memory '{use.name}'", named(use.name), hint)
    for tooling in config.tooling:
        if isinstance(tooling.config, FunctionTooling) and reader.is_trusted:
            _examine_functions(tooling.config, where, reader)


def _examine_context(config: Config, at: Located, reader: NodeReader) -> None:
    """Reports a context beside a window, of which only one can decide, and an unknown profile."""
    context, given = config.context, at.value if isinstance(at.value, dict) else {}
    if context is None:
        return
    window = given.get("context_window")
    if window is not None and window.value is not None and context.policy != "message":
        name = given["id"].value if "id" in given else "the agent"
        message = f"'{name}' has `context_window: {window.value}` and `context: {context.policy}`; keep one"
        reader.report.error("two-contexts", message, at, "a window keeps messages, a context composes them")
    reader.check_profile(context.profile_id, child(at, "config", "context", "profile_id"))


def _locator(at: Located, *keys: str) -> Callable[[str], Located]:
    """Finds the first position of a name below the keys; the config itself if there is none.

    The positions are collected with the first name: to search for each would be quadratic."""
    places: dict[str, Located] = {}

    def locate(name: str) -> Located:
        if not places:
            for place in (child(at, key) for key in keys):
                for found in _texts(place) if place is not at else ():
                    places.setdefault(found.value, found)  # type: ignore[arg-type]
        return places.get(name, at)

    return locate


def _texts(at: Located) -> Iterator[Located]:
    """All texts in a value, in the order of the file."""
    value = at.value
    if isinstance(value, str):
        yield at
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _examine_functions(tooling: FunctionTooling, at: Located, reader: NodeReader) -> None:
    """Warns of functions of the dialect that are missing. It is no error:
    the agent runs without them."""
    named = _locator(at, "tooling")
    for name in (tool.name for tool in tooling.tools):
        reason = _missing_tool_reason(name, reader)
        if reason is None:
            continue
        hint = "put it into functions/function_calling beside the file or its folder, or register it"
        message = f"the tool '{name}' is not here, so the agent is not offered it"
        if reason:
            message, hint = f"the tool '{name}' is not offered to the agent: {reason}", ""
        reader.report.warning("missing-tool", message, named(name), hint)


def _missing_tool_reason(name: str, reader: NodeReader) -> str | None:
    """Why a function of the dialect is not offered; empty if it does not exist, None if it is
    offered."""
    finder = reader.finder
    if name == EXIT_LOOP:
        return None
    try:
        if name.endswith(ALL_FUNCTIONS_SUFFIX):
            return None if finder.module(name.removesuffix(ALL_FUNCTIONS_SUFFIX)) is not None else ""
        if not finder.known("tool", name):
            return ""
        finder.find("tool", name)
    except LookupError as error:
        return str(error.args[0])
    return None
