"""The workflow as data: graphs, nodes, edges and their settings, as the loader or the builder creates
them.

All structs are frozen, and hold no reference to the file that they came from except a `SourceLocation`.
A `Workflow` is complete: variables are substituted, subgraph files are part of it, and short forms are
expanded. A run stores it in this form (encoding.py), so that neither the files nor the environment are
needed to read the run again (docs/decisions/0019). A renamed class or field makes stored runs
unreadable.

For nodes and graphs there are two structs each. `NodeEnvelope` and `GraphSettings` describe the keys of
the file; `Node` and `GraphDefinition` are what the engine works with. They differ because the config of
a node depends on its type, and because nodes and edges are read with the names around them
(graph_reader.py).

`NodeReader` is here, and not in graph_reader.py, because `Node.__read__` needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from roundel.workflow.breakpoints import Debugging
from roundel.workflow.condition import Condition, suggest_condition
from roundel.workflow.context import Context
from roundel.workflow.description import Description, Field, Short
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import FileAccess, Located
from roundel.workflow.fan_out import FanOut
from roundel.workflow.fields import (
    INVALID,
    Name,
    Names,
    Positive,
    Reader,
    Seconds,
    SourceLocation,
    child,
    has_misspelling,
    warn_without_effect,
)
from roundel.workflow.functions import FunctionFinder, FunctionKind, ModuleError
from roundel.workflow.limits import LIMIT_HINTS, LOOP_HINTS, RETRY_HINTS, Breaker
from roundel.workflow.memory_config import BUILTIN_MEMORIES, MemoryDeclaration, MemorySettings
from roundel.workflow.model_profile import DEFAULT_PROFILE, Profile
from roundel.workflow.node_type import NodeType, NodeTypes
from roundel.workflow.processor import Processor
from roundel.workflow.tool_source import ToolSource


class MiddlewareUse(Struct, frozen=True, omit_defaults=True):
    """One entry under `middleware`: the name of a class (an entry point, a registered name, or
    `module:Class`) and the arguments with which it is created. The order of the entries is the order of
    the middleware chain."""

    name: str
    config: dict[str, Any] = {}
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        name = Field(
            en=("Name", "The name of an entry point, of a registered class, or `module:Class`."),
            zh=("名称", "入口点或已注册的类的名称，或写作 `module:Class`。"),
            widget="function",
        )
        return Description(
            name="middleware",
            en=("Middleware", "Code around the nodes of a run, and its settings."),
            zh=("中间件", "围绕节点执行的代码及其设置。"),
            short=(Short(kind=str, key="name", en=name.en, zh=name.zh, widget="function"),),
            fields={
                "name": name,
                "config": Field(
                    en=("Settings", "The arguments of the class."),
                    zh=("设置", "创建该类时传入的参数。"),
                ),
            },
        )

    __uses__: ClassVar[dict[str, str]] = {"name": "middleware"}

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value, at=SourceLocation(reader.report.file, at.line, at.column))
        return reader.read_struct(at, cls, "an item of 'middleware'")


DEFAULT_MAX_ROUNDS = 100
BUDGET_NAMES = (
    *("steps", "model_calls", "tool_calls", "tokens", "input_tokens", "output_tokens", "tokens_per_call"),
    *("cost_usd", "seconds"),
)
RAISABLE_LIMITS = ("rounds", *BUDGET_NAMES)
LIMIT_NAMES = (*RAISABLE_LIMITS, "unpriced")


class Limits(Struct, frozen=True, omit_defaults=True):
    """Upper bounds for a run, a graph, a loop or a node. None is unlimited, except for rounds, whose
    default is DEFAULT_MAX_ROUNDS. All limits apply together: the first one that is reached locks the
    run.

    A limit of 0 for calls, tokens or cost is valid, and forbids them. Steps, seconds and the tokens of a
    call have to be positive, since a run without them could not begin.

    `unpriced` is no amount: it tells whether a call whose price is not known locks the run, under a limit
    on the cost. None takes the setting around it; the outermost default is `lock`."""

    rounds: Positive | None = None
    steps: Positive | None = None
    model_calls: Annotated[int, Meta(ge=0)] | None = None
    tool_calls: Annotated[int, Meta(ge=0)] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    input_tokens: Annotated[int, Meta(ge=0)] | None = None
    output_tokens: Annotated[int, Meta(ge=0)] | None = None
    tokens_per_call: Positive | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    seconds: Seconds | None = None
    unpriced: Literal["lock", "allow"] | None = None

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = LIMIT_HINTS

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="limits",
            en=(
                "Limits",
                "How much a run, a graph, a loop or a node may use. Reaching a limit locks the run.",
            ),
            zh=("限额", "一次运行、一个图、一个循环或一个节点最多可用的资源。达到任一限额后，运行会被锁定。"),
            fields={
                "rounds": Field(
                    en=(
                        "Rounds",
                        "The maximum number of rounds of a free loop each time it is entered; 100 if not "
                        "set. On a node, it applies to the loops of its graphs. `loop_agent` and "
                        "`debate` have their own limits.",
                    ),
                    zh=(
                        "轮次",
                        "自由循环每次进入后最多执行的轮次，不填则为 100。写在节点上时，"
                        "对其内部图中的循环生效。"
                        "`loop_agent` 与 `debate` 另有自己的上限。",
                    ),
                    unit="rounds",
                ),
                "steps": Field(
                    en=("Steps", "The maximum number of node runs, for all nodes together."),
                    zh=("步数", "所有节点合计最多运行的次数。"),
                    unit="runs",
                ),
                "model_calls": Field(
                    en=("Model calls", "The maximum number of model calls."),
                    zh=("模型调用", "最多调用模型的次数。"),
                    unit="calls",
                ),
                "tool_calls": Field(
                    en=("Tool calls", "The maximum number of tool calls."),
                    zh=("工具调用", "最多调用工具的次数。"),
                    unit="calls",
                ),
                "tokens": Field(
                    en=("Tokens", "The maximum number of tokens that models read and write."),
                    zh=("Token 预算", "模型读取与生成的 token 总数上限。"),
                    unit="tokens",
                ),
                "input_tokens": Field(
                    en=("Input tokens", "The maximum number of tokens that models read."),
                    zh=("输入 token 预算", "模型读取的 token 总数上限。"),
                    unit="tokens",
                ),
                "output_tokens": Field(
                    en=("Output tokens", "The maximum number of tokens that models write."),
                    zh=("输出 token 预算", "模型生成的 token 总数上限。"),
                    unit="tokens",
                ),
                "tokens_per_call": Field(
                    en=(
                        "Tokens per call",
                        "The maximum number of tokens that one model call reads and writes. If a call "
                        "turns out to be larger, Roundel keeps its result and locks the run.",
                    ),
                    zh=(
                        "单次调用 token",
                        "单次模型调用读取与生成的 token 上限。实际超出的调用会锁定运行，其结果保留。",
                    ),
                    unit="tokens",
                ),
                "cost_usd": Field(
                    en=("Cost", "The maximum cost of model calls."),
                    zh=("费用预算", "模型调用的费用上限。"),
                    widget="money",
                    unit="usd",
                ),
                "seconds": Field(
                    en=("Time", "The maximum working time. Waiting for people does not count."),
                    zh=("时间预算", "节点工作的总时长上限，等待人工答复的时间不计入。"),
                    widget="duration",
                    unit="seconds",
                ),
                "unpriced": Field(
                    en=(
                        "Unknown prices",
                        "Whether a call of a model without a known price locks the run if `cost_usd` "
                        "applies to it. If not set, the setting of the enclosing loop, graph or node "
                        "applies, otherwise `lock`.",
                    ),
                    zh=(
                        "未知价格",
                        "存在 `cost_usd` 限额时，调用价格未知的模型是否锁定运行。"
                        "不填则沿用外层设置，默认为 `lock`。",
                    ),
                    choices={
                        "lock": ("Lock the run", "锁定运行"),
                        "allow": ("Allow them, uncounted", "允许，不计费用"),
                    },
                    see="limits.md#unknown-prices",
                ),
            },
        )

    @property
    def budget(self) -> dict[str, float]:
        """The limits on what is spent. Rounds are not among them: each loop counts them for itself
        (kernel/budget.py)."""
        return {name: limit for name in BUDGET_NAMES if (limit := getattr(self, name)) is not None}

    def over(self, outer: Limits) -> Limits:
        """These limits, completed by those of the file around the graph."""
        given = {name: limit for name in LIMIT_NAMES if (limit := getattr(self, name)) is not None}
        return replace(outer, **given)


class Retry(Struct, frozen=True, omit_defaults=True):
    """How often a node that failed runs again, and how long to wait in between (exponential backoff)."""

    max_attempts: Positive = 3
    min_wait_seconds: Annotated[float, Meta(ge=0)] = 1
    max_wait_seconds: Annotated[float, Meta(ge=0)] = 6

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **RETRY_HINTS,
        **dict.fromkeys(
            ("enabled", "retry_on_status_codes", "retry_on_error_substrings"),
            "this belongs to `retry` in the `config` of an agent",
        ),
    }

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="retry",
            en=("Retry", "How often a failed node runs again, and how long to wait in between."),
            zh=("重试", "节点失败后重新运行的次数，以及两次之间的等待时间。"),
            fields={
                "max_attempts": Field(
                    en=("Attempts", "The total number of attempts, including the first."),
                    zh=("尝试次数", "节点总共尝试的次数，包括第一次。"),
                    unit="attempts",
                ),
                "min_wait_seconds": Field(
                    en=(
                        "Shortest wait",
                        "The wait after the first failure. It doubles after each further failure.",
                    ),
                    zh=("最短等待", "第一次失败后的等待时间，之后每失败一次加倍。"),
                    widget="duration",
                    unit="seconds",
                ),
                "max_wait_seconds": Field(
                    en=("Longest wait", "The maximum wait."),
                    zh=("最长等待", "等待时间不会超过此值。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_wait_seconds < self.min_wait_seconds:
            report.error("bad-retry", "max_wait_seconds is less than min_wait_seconds", at)
            return False
        return True


class LoopSettings(Struct, frozen=True, omit_defaults=True):
    """The settings of one loop, under `loops` of its graph, by the id of the loop's entry node."""

    max_rounds: Positive | None = None
    limits: Limits | None = None
    breaker: Breaker | None = None

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **{name: f"write `limits: {{{name}: …}}`" for name in LIMIT_NAMES},
        **LOOP_HINTS,
    }

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="loop",
            en=("Loop", "The settings of one loop of the graph, named by the id of its entry node."),
            zh=("循环", "图中单个循环的设置，以循环入口节点的 id 命名。"),
            fields={
                "max_rounds": Field(
                    en=(
                        "Rounds",
                        "The maximum number of rounds of this loop, instead of `rounds` under `limits`.",
                    ),
                    zh=("最多轮次", "此循环最多执行的轮次，取代 `limits` 中的 `rounds`。"),
                    unit="rounds",
                ),
                "limits": Field(
                    en=("Limits", "How much this loop may use, over all its entries."),
                    zh=("限额", "此循环内的全部运行（含多次进入）合计可用的资源。"),
                    see="limits.md",
                ),
                "breaker": Field(
                    en=(
                        "Breaker",
                        "Dead-loop detection for this loop, including loop agents and debates.",
                    ),
                    zh=("熔断器", "针对此循环的死循环检测，对循环智能体和辩论同样有效。"),
                    see="limits.md#the-breaker",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.limits is not None and self.limits.rounds and self.max_rounds:
            message = "the rounds of a loop are limited twice, by 'max_rounds' and by 'limits'"
            report.error("two-limits", message, at, "keep one of the two")
            return False
        return True

    @property
    def cap(self) -> int | None:
        """The most rounds of this loop. The two spellings exclude each other (`__check__`)."""
        return self.max_rounds or (self.limits.rounds if self.limits is not None else None)


class Edge(Struct, frozen=True, omit_defaults=True):
    """Carries messages from one node to another. A graph has at most one for each source,
    target and port."""

    source: Name = field(name="from")
    target: Name = field(name="to")
    trigger: bool = True
    condition: Condition | None = None
    port: str | None = None
    carry_data: bool = True
    keep_message: bool = False
    clear_context: bool = False
    clear_kept_context: bool = False
    process: Processor | None = None
    dynamic: FanOut | None = None
    description: str = ""
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="edge",
            en=("Edge", "Carries messages from one node to another."),
            zh=("边", "把消息从一个节点传到另一个节点。"),
            fields={
                "from": Field(
                    en=("From", "The node that the messages come from."),
                    zh=("起点", "消息的来源节点。"),
                    widget="node",
                ),
                "to": Field(
                    en=("To", "The node that the messages go to. It may be the same node."),
                    zh=("终点", "消息的目标节点，可以与起点相同。"),
                    widget="node",
                ),
                "port": Field(
                    en=(
                        "Port",
                        "Carry only messages that leave the source through this port. If not set, all "
                        "messages except failures, timeouts and exits.",
                    ),
                    zh=(
                        "端口",
                        "只传递从来源节点的这个端口输出的消息；不填则传递除失败、超时和退出之外的全部消息。",
                    ),
                    widget="port",
                ),
                "condition": Field(
                    en=("Condition", "When the edge fires; always if not set."),
                    zh=("条件", "边在何时触发；不填则总是触发。"),
                    widget="condition",
                    see="workflow-files.md#conditions",
                ),
                "trigger": Field(
                    en=("Trigger", "Whether a message on this edge makes the target run."),
                    zh=("触发", "此边上的消息是否使目标节点运行。"),
                ),
                "process": Field(
                    en=("Processor", "Changes or drops the message on its way."),
                    zh=("处理器", "在传递途中修改或丢弃消息。"),
                    see="workflow-files.md#processors",
                ),
                "dynamic": Field(
                    en=("Fan-out", "Makes the target run once for each part of the message."),
                    zh=("动态展开", "对消息的每个部分各运行一次目标节点。"),
                    see="workflow-files.md#dynamic-edges",
                ),
                "carry_data": Field(
                    en=(
                        "Carry the message",
                        "Whether the message is delivered. If not, the edge only triggers its target.",
                    ),
                    zh=("传递消息", "是否投递消息本身。关闭后，边只触发目标节点。"),
                ),
                "keep_message": Field(
                    en=(
                        "Keep the message",
                        "The message stays in the target's queue after the target has run.",
                    ),
                    zh=("保留消息", "目标节点运行之后，消息仍留在它的队列里。"),
                ),
                "clear_context": Field(
                    en=(
                        "Clear the queue",
                        "Before delivery, removes all messages that are not kept from the target's queue.",
                    ),
                    zh=("清空队列", "先清除目标节点队列中所有未保留的消息。"),
                ),
                "clear_kept_context": Field(
                    en=(
                        "Clear kept messages",
                        "Before delivery, removes the kept messages from the target's queue.",
                    ),
                    zh=("清除保留的消息", "先清除目标节点队列中已保留的消息。"),
                ),
                "description": Field(
                    en=("Description", "A note for the readers of the workflow."),
                    zh=("说明", "写给工作流读者的备注。"),
                    widget="textarea",
                ),
            },
        )

    __hints__: ClassVar[dict[str, str]] = {
        "source": "the node that an edge comes from is its `from`",
        "target": "the node that an edge leads to is its `to`",
    }

    def __str__(self) -> str:
        return f"{self.source} → {self.target}" + (f" ({self.port})" if self.port else "")


Coordinate = Annotated[float, Meta(ge=0, le=100_000)]


class NodeEnvelope(Struct, frozen=True, omit_defaults=True):
    """The keys of a node in a file, whatever its type. `config` is read later, by the struct of the
    type."""

    id: Name
    type: str
    config: Any = None
    description: str = ""
    context_window: Annotated[int, Meta(ge=-1)] | None = None
    limits: Limits | None = None
    retry: Retry | None = None
    timeout: Seconds | None = None
    log_output: bool = True
    position: tuple[Coordinate, ...] = ()
    input: Any = None
    output: Any = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="node",
            en=("Node", "The keys of every node."),
            zh=("节点", "所有类型的节点共有的设置。"),
            fields={
                "id": Field(
                    en=("Id", "The unique name of the node in its graph, in any writing system."),
                    zh=("标识", "节点的名称，可用任何文字；同一个图中不可重复。"),
                ),
                "type": Field(
                    en=("Type", "What the node does: one of the node types."),
                    zh=("类型", "节点的功能，即节点类型之一。"),
                    widget="select",
                    see="nodes.md",
                ),
                "config": Field(
                    en=("Settings", "The settings of the node type."),
                    zh=("设置", "该节点类型所需的设置。"),
                    widget="object",
                    see="nodes.md",
                ),
                "description": Field(
                    en=("Description", "A note for the readers of the workflow."),
                    zh=("说明", "写给工作流读者的备注。"),
                    widget="textarea",
                ),
                "context_window": Field(
                    en=(
                        "Context window",
                        "How many messages stay in the node's queue after it has run: 0 only the kept ones, "
                        "-1 all, "
                        "n the newest n. An agent with a window has no `context`.",
                    ),
                    zh=(
                        "上下文窗口",
                        "节点运行后队列中保留的消息数：0 表示只留已保留的消息，-1 表示全部，n 表示最新的 n "
                        "条。设置了窗口的智能体不使用 `context`。",
                    ),
                    unit="messages",
                    see="running.md#context-window",
                ),
                "limits": Field(
                    en=("Limits", "How much this node may use, including everything that runs inside it."),
                    zh=("限额", "此节点及其内部运行的全部内容可用的资源。"),
                    see="limits.md",
                ),
                "retry": Field(
                    en=(
                        "Retry",
                        "How often the node runs again after a failure. Not available for people and "
                        "subgraphs.",
                    ),
                    zh=("重试", "节点失败后重新运行的次数。对人工节点和子图无效。"),
                    see="workflow-files.md#retry",
                ),
                "timeout": Field(
                    en=(
                        "Time limit",
                        "How long one attempt may take. Not available for people and subgraphs.",
                    ),
                    zh=("时间限制", "单次尝试最长可用的时间。对人工节点和子图无效。"),
                    widget="duration",
                    unit="seconds",
                ),
                "log_output": Field(
                    en=("Show the output", "Whether the events of the node contain its output."),
                    zh=("显示输出", "节点的事件中是否包含它的输出内容。"),
                ),
                "position": Field(
                    en=(
                        "Position",
                        "The position of the node in drawings, as `[x, y]`; automatic if not set. The "
                        "editor sets it when you move a node.",
                    ),
                    zh=(
                        "位置",
                        "节点在图中的位置，写作 `[x, y]`；未设置时由自动布局决定。在编辑器中移动节点后写入。",
                    ),
                ),
                "input": Field(
                    en=("Input", "Has no effect in this version and causes a warning."),
                    zh=("输入", "在当前版本中无效，并给出警告。"),
                ),
                "output": Field(
                    en=("Output", "Has no effect in this version and causes a warning."),
                    zh=("输出", "在当前版本中无效，并给出警告。"),
                ),
            },
        )

    __hints__: ClassVar[dict[str, str]] = {"dynamic": "`dynamic` belongs on the edge that leads to the node"}

    def __check__(self, at: Located, report: Report) -> bool:
        warn_without_effect(self, ("input", "output"), at, report)
        if len(self.position) not in (0, 2):
            assert isinstance(at.value, dict)
            message = f"the position of {_describe_node(at)} has {len(self.position)} numbers, and not two"
            report.error("bad-position", message, at.value["position"], "write it as [x, y]")
            return False
        return True


class Node(Struct, frozen=True, omit_defaults=True):
    """A node of a graph: the envelope, the config as a struct of its type, and the type itself (`kind`).

    `type` is the name of `kind`, never one of its aliases. Created by `__read__`; a placeholder in a
    draft is a `Node` as well (graph_reader.py)."""

    id: str
    type: str
    config: Any
    kind: NodeType
    description: str = ""
    context_window: int | None = None
    """None if the file does not say: then 0, and an agent in a loop sees more (kernel/context.py)."""
    limits: Limits | None = None
    retry: Retry | None = None
    timeout: float | None = None
    log_output: bool = True
    position: tuple[float, ...] = ()
    """Where the user has put it in drawings: x and y; empty if the layout decides."""
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(refers=("node",))

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, NodeReader)
        # Nested nodes and graphs have pushed their drafts since `first`. The draft of this node replaces
        # them, so that a node leaves exactly one entry on the stack, whether or not it could be read.
        first = len(reader.drafts)
        with reader.report.subject_scope(at):
            made = cls._read(at, reader)
        reader.drafts[first:] = [reader.draft_node(at, made, reader.drafts[first:])]
        return made

    @classmethod
    def _read(cls, at: Located, reader: NodeReader) -> Any:
        what = _describe_node(at)
        envelope = reader.read_struct(at, NodeEnvelope, what)
        kind = reader.node_type(at, what)
        # Without its type a config cannot be read; with a misspelt `config`, every required key would be
        # missing.
        if kind is None or has_misspelling(at, "config", NodeEnvelope):
            return INVALID
        config_at = _get_config(at)
        # Errors in a config say "node 'A' has no 'model'", as readers think of its keys as the node's.
        # Only if the config is no mapping at all is the error about `config` itself.
        if not isinstance(config_at.value, dict):
            what = f"'config' of {what}"
        config_at = kind.complete(config_at, reader.siblings)
        config = reader.read(config_at, kind.config, what)
        if envelope is INVALID or config is INVALID:
            return INVALID
        reader.check_node(at, kind, envelope, config)
        reader.names.append(("node", envelope.id, at))
        return cls(
            envelope.id,
            kind.name,
            config,
            kind,
            envelope.description,
            envelope.context_window,
            envelope.limits,
            envelope.retry,
            envelope.timeout,
            envelope.log_output,
            envelope.position,
            SourceLocation(reader.report.file, at.line, at.column),
        )


def _describe_node(at: Located) -> str:
    value = at.value
    name = value["id"].value if isinstance(value, dict) and "id" in value else None
    return f"node '{name}'" if name and not isinstance(name, (dict, list)) else "a node"


def _get_config(at: Located) -> Located:
    # A missing config is read as an empty one, so that its required keys are reported by name.
    assert isinstance(at.value, dict)
    config = at.value.get("config")
    return Located({}, at.line, at.column, {}) if config is None or config.value is None else config


OnFailure = Literal["finish", "cancel"]
"What happens to calls in flight when a node fails and no node handles the failure."


class GraphSettings(Struct, frozen=True, omit_defaults=True):
    """The keys of a graph in a file. `nodes` and `edges` are Any here: `GraphReader` reads them."""

    nodes: Any = None
    edges: Any = None
    start: Names = ()
    end: Names = ()
    id: str = ""
    description: str = ""
    initial_instruction: str = ""
    organization: str = ""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "DEBUG"
    is_majority_voting: bool = False
    memory: tuple[MemoryDeclaration, ...] = ()
    limits: Limits = Limits()
    loops: dict[str, LoopSettings] = {}
    breaker: Breaker | None = None
    on_failure: OnFailure = "finish"
    debug: Debugging = Debugging()
    context: Context | None = None
    args: Any = None
    vars: Any = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="graph",
            en=("Graph", "Nodes, the edges between them, and settings that apply to all of them."),
            zh=("图", "节点、节点之间的边，以及对它们共同生效的设置。"),
            fields={
                "nodes": Field(
                    en=("Nodes", "The nodes of the graph; at least one."),
                    zh=("节点", "图中的节点，至少一个。"),
                    kind=Annotated[tuple[Node, ...], Meta(extra={"wrap": True})],
                    required=True,
                    see="workflow-files.md#nodes",
                ),
                "edges": Field(
                    en=("Edges", "The edges between the nodes."),
                    zh=("边", "节点之间的边。"),
                    kind=Annotated[tuple[Edge, ...], Meta(extra={"wrap": True})],
                    see="workflow-files.md#edges",
                ),
                "start": Field(
                    en=("Start", "The nodes that receive the input. Required, except with majority voting."),
                    zh=("起始节点", "接收输入的节点。除多数表决外必填。"),
                    widget="node",
                ),
                "end": Field(
                    en=(
                        "End",
                        "The nodes whose output can be the result. The result is the output of the first "
                        "one that has output. If not set: the nodes without outgoing edges, in the order "
                        "of the file.",
                    ),
                    zh=(
                        "结束节点",
                        "可以给出结果的节点，取其中第一个有输出的。不填则为没有出边的节点，按文件中的顺序。",
                    ),
                    widget="node",
                ),
                "id": Field(
                    en=("Id", "The name of the workflow, in drawings and events."),
                    zh=("标识", "工作流的名称，用于图形和事件。"),
                ),
                "description": Field(
                    en=("Description", "A note for the readers of the workflow."),
                    zh=("说明", "写给工作流读者的备注。"),
                    widget="textarea",
                ),
                "initial_instruction": Field(
                    en=("Instruction", "Shown when a terminal asks for the input."),
                    zh=("输入提示", "在终端询问输入时显示的提示。"),
                    widget="textarea",
                ),
                "is_majority_voting": Field(
                    en=(
                        "Majority voting",
                        "Every node receives the input, and the most common answer is the result. Edges, "
                        "start and end have no effect. Roundel compares answers as trimmed text; in a "
                        "tie, the answer of the first node wins.",
                    ),
                    zh=(
                        "多数表决",
                        "每个节点都接收输入，最常见的答案即为结果；边、起始节点和结束节点不起作用。"
                        "答案去掉首尾空白后按文本比较，"
                        "出现次数相同时取文件中靠前的节点。",
                    ),
                ),
                "limits": Field(
                    en=("Limits", "How much a run of this graph may use."),
                    zh=("限额", "此图的一次运行可用的资源。"),
                    see="limits.md",
                ),
                "loops": Field(
                    en=("Loops", "Settings of individual loops, by the ids of their entry nodes."),
                    zh=("循环", "各个循环的设置，以入口节点的 id 为键。"),
                    see="workflow-files.md#loops",
                ),
                "breaker": Field(
                    en=(
                        "Breaker",
                        "When a run is locked because it makes no progress, instead of the setting of "
                        "the file.",
                    ),
                    zh=("熔断器", "运行没有进展时何时锁定；取代文件级的设置。"),
                    see="limits.md#the-breaker",
                ),
                "on_failure": Field(
                    en=(
                        "On failure",
                        "What happens to calls in flight when a node fails and no node handles the failure.",
                    ),
                    zh=("失败时", "某节点失败且无人处理时，如何对待进行中的调用。"),
                    choices={
                        "finish": ("They finish, and their results are kept", "等待其完成并保留结果"),
                        "cancel": ("They are cancelled", "取消"),
                    },
                    see="failures.md#calls-in-flight",
                ),
                "debug": Field(
                    en=("Debugging", "Where runs pause, so that you can inspect them."),
                    zh=("调试", "运行在何处暂停，以便检查。"),
                    see="debugging.md#breakpoints",
                ),
                "memory": Field(
                    en=(
                        "Memories",
                        "Memories that the agents of this graph can use. Their names must be unique.",
                    ),
                    zh=("记忆", "此图中的智能体可以引用的记忆，名称不可重复。"),
                    see="memory.md#memories-of-a-graph",
                ),
                "log_level": Field(
                    en=(
                        "Log level",
                        "The minimum level of events that go to Python's logger `roundel`, if a program "
                        "has configured it.",
                    ),
                    zh=(
                        "日志级别",
                        "运行的事件从哪个级别起写入 Python 的 `roundel` 日志（若程序配置了日志）。",
                    ),
                    choices={
                        "DEBUG": ("Debug", "调试"),
                        "INFO": ("Information", "信息"),
                        "WARNING": ("Warning", "警告"),
                        "ERROR": ("Error", "错误"),
                        "CRITICAL": ("Critical", "严重"),
                    },
                ),
                "organization": Field(
                    en=("Organization", "Accepted for compatibility; has no effect."),
                    zh=("组织", "仅为兼容而读取，没有作用。"),
                ),
                "context": Field(
                    en=(
                        "Context",
                        "What its agents see of earlier rounds, if they do not say it themselves.",
                    ),
                    zh=("上下文", "图中智能体能看到此前轮次的哪些内容（智能体自己未设置时生效）。"),
                    see="agents.md#context",
                ),
                "args": Field(
                    en=("Arguments", "Accepted for compatibility; has no effect."),
                    zh=("参数", "仅为兼容而读取，没有作用。"),
                ),
                "vars": Field(
                    en=("Variables", "An error here. Variables belong at the top level of the file."),
                    zh=("变量", "写在这里会报错：变量应放在文件顶层。"),
                ),
            },
        )


class GraphDefinition(Struct, frozen=True, omit_defaults=True):
    """A graph: the main one of a workflow, or the body of a subgraph or loop node. `GraphReader` creates
    it.

    Names in it are checked: every edge, `start`, `end` and `loops` refers to a node of this graph.
    plan/graph.py compiles it into indexes."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    id: str = ""
    description: str = ""
    initial_instruction: str = ""
    log_level: str = "DEBUG"
    is_majority_voting: bool = False
    memory: tuple[MemoryDeclaration, ...] = ()
    limits: Limits = Limits()
    loops: dict[str, LoopSettings] = {}
    breaker: Breaker | None = None
    on_failure: OnFailure = "finish"
    debug: Debugging = Debugging()
    context: Context | None = None
    vars: dict[str, Any] = {}
    """The variables that its expressions can read, with secrets masked."""
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(refers=("graph",))

    def node(self, name: str) -> Node:
        """Finds a node by id, in linear time; for the engine, the plan has an index."""
        return next(node for node in self.nodes if node.id == name)


class Workflow(Struct, frozen=True):
    """A workflow that can be run. The loader or the builder creates it; a stored run decodes it
    (encoding.py).

    It is a value: `with_limits` (plan/overrides.py), `with_group` and `with_default_model` return changed
    copies."""

    graph: GraphDefinition
    version: str = ""
    vars: dict[str, Any] = {}
    models: dict[str, Profile] = {}
    tools: dict[str, ToolSource] = {}
    limits: Limits = Limits()
    breaker: Breaker | None = None
    memory: MemorySettings = MemorySettings()
    middleware: tuple[MiddlewareUse, ...] = ()
    functions: dict[str, Callable[..., Any] | None] = {}
    """Python functions that belong to this workflow alone, by name (for graphs built in Python). None
    for a function whose code is missing, as in a workflow that was decoded from a stored run."""
    file: str = ""
    access: FileAccess = FileAccess()
    """The folders whose files it may name."""
    variables: dict[str, Any] = {}
    """The overrides (`--var`, `variables=`) with which it was loaded."""
    secrets: dict[str, str] = {}
    """The secret values in it, by reference name. A stored run has only the names; a host that resumes
    the run provides the values under these names (secret_finder.py)."""
    debug: Debugging = Debugging()
    default_model: str = ""
    """The model that was chosen for agents that name none (`--model`, `$ROUNDEL_MODEL`), as `provider:name`;
    empty if none was. `models` then has it as its profile `default`."""

    @property
    def name(self) -> str:
        return workflow_name(self.graph, self.file)


def workflow_name(graph: GraphDefinition, file: str) -> str:
    """The display name of a workflow: the id of its graph, else the name of its file."""
    return graph.id or (Path(file).stem if file else "workflow")


class NodeReader(Reader):
    """A reader that knows the node types and where functions are. `WorkflowReader` (loader.py) completes
    it.

    Node types get it as the reader in their `examine` and `__read__`, and use its attributes to check
    names."""

    finder: FunctionFinder
    folder: Path | None = None
    """The folder of the file that is being read; None for a text or a mapping."""
    access: FileAccess = FileAccess()
    """The folders whose files the workflow may name."""
    is_trusted: bool = True
    """Whether functions are imported to check them. Not for a text under a policy: what it names is checked
    by name when everything is read (policy.py)."""

    def __init__(self, report: Report, types: NodeTypes) -> None:
        super().__init__(report)
        self.types = types
        self.models: dict[str, Profile] = {}
        self.tools: dict[str, ToolSource] = {}
        self.memories: tuple[str, ...] = BUILTIN_MEMORIES
        """The names of memories that an agent may use in the graph that is being read."""
        self.names: list[tuple[str, str, Located]] = []
        """Names that are shown everywhere, as (what it names, the name, its location). They must not
        contain a secret, which is checked when all secrets are known."""
        self.siblings: dict[str, Located] = {}
        """The nodes of the graph that is being read, by id: a debate may name them as participants."""
        self.participating: tuple[str, ...] = ()
        """The ids of such participants that are being read, each inside of the one before it."""
        self.drafts: list[Node | GraphDefinition] = []
        """A stack of what has been read so far: for the node or graph that is being read, one entry for
        each node and graph directly inside it, or its placeholder. When the node or graph is complete,
        its own entry replaces them."""

    def draft_node(self, at: Located, made: Any, inside: list[Node | GraphDefinition]) -> Node:
        """The node, or a placeholder (graph_reader.py) if it could not be read."""
        raise NotImplementedError

    def check_node(self, at: Located, kind: NodeType, envelope: NodeEnvelope, config: Any) -> None:
        # A person may take any time, and a body has nodes with time limits and retries of their own.
        if kind.asks or kind.bodies(config):
            hint = "the time that a person has to answer is 'timeout' in the config" if kind.asks else ""
            warn_without_effect(envelope, ("timeout",), at, self.report, hint)
            warn_without_effect(envelope, ("retry",), at, self.report)
        name = kind.function(config)
        if name:
            self.check_function("function", name, child(at, "config", "function"))
        kind.examine(config, at, self)

    def check_profile(self, name: str, at: Located) -> None:
        """Reports a model profile that does not exist. An empty name stands for none."""
        if name and name not in self.models:
            hint = self.report.suggest(name, self.models) or "profiles stand under `models`, beside `graph`"
            self.report.error("unknown-profile", f"there is no model profile '{name}'", at, hint)

    def check_function(self, kind: FunctionKind, name: str, at: Located) -> None:
        """Reports a function that does not exist, or whose module cannot be imported.

        A condition that is a bare text names a function by rule; if it looks like an expression or a
        keyword instead, the error says how to write that."""
        if not self.is_trusted:
            return
        if self.finder.known(kind, name):
            self.check_import(kind, name, at)
            return
        guess = self.report.suggest(name, self.finder.names(kind))
        instead = suggest_condition(name) if kind == "condition" and not guess else ""
        if instead:
            message = f"the condition '{name}' is the name of a function, and there is none of that name"
            self.report.error("bare-condition", message, at, instead)
            return
        form = "module:Class" if kind == "middleware" else "module:function"
        hint = guess or f"register it with @roundel.{kind}('{name}'), or write {form}"
        what = f"{kind} function" if kind in ("condition", "processor") else kind
        self.report.error("unknown-function", f"there is no {what} '{name}'", at, hint)

    def check_import(self, kind: FunctionKind, name: str, at: Located) -> bool:
        """Imports a function, and reports an error if that fails. This runs the module that defines it:
        a workflow whose code cannot be imported is refused before the run starts, not in the middle of
        it."""
        if not self.is_trusted:
            return True
        try:
            self.finder.find(kind, name)
        except LookupError as error:
            self.report.error("unknown-function", str(error.args[0]), at)
            return False
        return True

    def node_type(self, at: Located, what: str) -> NodeType | None:
        """The type of the node at a location; None, with an error in the report, if there is no such
        type.

        A missing `type`, or one that is not text, has been reported by the envelope."""
        place = at.value.get("type") if isinstance(at.value, dict) else None
        name = place.value if place is not None else None
        if place is None or not isinstance(name, str):
            return None
        try:
            return self.types[name]
        except ModuleError as error:
            self.report.error("unknown-type", f"{what} has a type that cannot be loaded: {error}", place)
            return None
        except KeyError:
            hint = self.report.suggest(name, self.types) or f"known types: {', '.join(sorted(self.types))}"
            self.report.error("unknown-type", f"{what} has the unknown type '{name}'", place, hint)
            return None


def with_group(workflow: Workflow, group: str | None) -> Workflow:
    """Returns the workflow with another memory group (`roundel run --group`).

    None leaves the group of the file; an empty text means no group."""
    if group is None or group == workflow.memory.group_id:
        return workflow
    if not isinstance(group, str):
        raise TypeError(f"a group is a text, not {group!r:.60}")
    return replace(workflow, memory=replace(workflow.memory, group_id=group))


def with_default_model(workflow: Workflow, model: str) -> Workflow:
    """Returns the workflow with a model for agents that name none; unchanged if it has a profile `default`,
    or if the model is empty.

    The model is a profile like any other from here on: forecasts, prices, policies and stored runs need no
    rules of their own for it."""
    if not model or DEFAULT_PROFILE in workflow.models:
        return workflow
    models = {**workflow.models, DEFAULT_PROFILE: Profile(model=model)}
    return replace(workflow, models=models, default_model=model)
