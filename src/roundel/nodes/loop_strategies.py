"""Strategies of loop agents as a workflow declares them: count, until, array and custom.

The structs here are configuration only: they read and check the `strategy` of a `loop_agent`. What a
strategy does in a run is in its controller (`loop_controllers.py`), and the code of users that it calls
is wrapped in `loop_agent.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from roundel.workflow.condition import check_expression
from roundel.workflow.description import Description, Field, Short, Variants
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Positive, Reader
from roundel.workflow.functions import ModuleError, defined_names, list_modules
from roundel.workflow.graph import NodeReader
from roundel.workflow.loader import WorkflowReader


class Predicate(Struct, frozen=True, omit_defaults=True):
    """A question about the loop so far: a CEL expression, or a Python function that gets all messages.

    `until` asks it before each round and expects a truth value; `items` asks it once and expects a list.
    Expressions are evaluated in the kernel, functions by the host."""

    expression: str = ""
    function: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="predicate",
            en=(
                "Expression or function",
                "A CEL expression, or a Python function that receives the messages so far.",
            ),
            zh=("表达式或函数", "CEL 表达式，或接收此前全部消息的 Python 函数。"),
            complete=True,
            short=(
                Short(
                    kind=str,
                    key="cel",
                    en=("Expression", "A CEL expression over `text`, `data`, `messages` and `round`."),
                    zh=("表达式", "针对 `text`、`data`、`messages` 和 `round` 的 CEL 表达式。"),
                    widget="expression",
                ),
                Short(
                    kind=bool,
                    en=("Constant", "Always the same answer."),
                    zh=("常量", "始终相同的答案。"),
                ),
            ),
            fields={
                "cel": Field(
                    en=("CEL", "The expression, written out."),
                    zh=("CEL 表达式", "表达式的完整写法。"),
                    widget="expression",
                    kind=str,
                    see="workflow-files.md#expressions",
                ),
                "function": Field(
                    en=(
                        "Function",
                        "A Python function that receives the messages so far: a registered name, or "
                        "`module:function`.",
                    ),
                    zh=("函数", "接收此前全部消息的 Python 函数：已注册的名称，或 `module:function`。"),
                    widget="function",
                    kind=str,
                ),
            },
            alone=("cel", "function"),
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        value = at.value
        if isinstance(value, (str, bool)):
            return cls(expression=value if isinstance(value, str) else str(value).lower())
        if isinstance(value, dict) and set(value) in ({"function"}, {"cel"}):
            key = next(iter(value))
            text = reader.read(value[key], str, f"'{key}'")
            if text is INVALID:
                return INVALID
            return cls(function=text) if key == "function" else cls(expression=text)
        message = "expected a CEL expression, or a mapping with 'function' and the name of one"
        reader.report.error("wrong-type", message, at, "for example data.score >= 90")
        return INVALID

    def check(self, at: Located, names: tuple[str, ...], reader: Reader) -> bool:
        """Reports a function that does not exist, or an expression with a syntax error or unknown
        names."""
        if isinstance(at.value, dict):
            at = next(iter(at.value.values()))
        if self.function:
            assert isinstance(reader, NodeReader)
            reader.check_function("function", self.function, at)
            return True  # a missing function is in the report, and need not stop the reading of the file
        return check_expression(self.expression, names, at, reader)


UNTIL_NAMES = ("text", "messages", "data", "round")
ITEMS_NAMES = ("text", "messages", "data")


class CountStrategy(Struct, frozen=True, omit_defaults=True):
    """A fixed number of rounds; none for 0 or less."""

    max: int

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="count_strategy",
            en=("Count", "A fixed number of rounds."),
            zh=("固定次数", "执行固定的轮次。"),
            fields={
                "max": Field(
                    en=("Rounds", "The number of rounds; none for 0 or less."),
                    zh=("轮次", "执行的轮次；0 或更小则不执行。"),
                    unit="rounds",
                ),
            },
        )


class UntilStrategy(Struct, frozen=True, omit_defaults=True):
    """Rounds until the predicate is true, which is tested before each round."""

    until: Predicate
    max: Positive = 1000
    on_limit: Literal["finish", "suspend"] = "finish"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="condition_strategy",
            en=("Until", "Rounds until a condition is true. Roundel evaluates it before each round."),
            zh=("直到条件成立", "每轮之前检查条件，直到条件成立。"),
            fields={
                "until": Field(
                    en=(
                        "Until",
                        "When to end: a CEL expression over `text` (the last message), `data`, "
                        "`messages` (all texts so far) and `round` (the number of finished rounds), or a "
                        "Python function.",
                    ),
                    zh=(
                        "结束条件",
                        "何时结束：针对 `text`（最后一条消息）、`data`、`messages`（此前全部文本）和 "
                        "`round`（已执行的轮次）的 "
                        "CEL 表达式，或一个 Python 函数。",
                    ),
                    widget="expression",
                    see="workflow-files.md#expressions",
                ),
                "max": Field(
                    en=("Rounds", "The maximum number of rounds."),
                    zh=("最多轮次", "最多执行的轮次。"),
                    unit="rounds",
                ),
                "on_limit": Field(
                    en=("At the limit", "What happens after the last round if the condition is not true."),
                    zh=("达到上限时", "最后一轮之后条件仍不成立时如何处理。"),
                    choices={"finish": ("End the loop", "结束循环"), "suspend": ("Lock the run", "锁定运行")},
                ),
            },
        )


class ArrayStrategy(Struct, frozen=True, omit_defaults=True):
    """A round for each element of a list."""

    items: Predicate | None = None
    """Determines the list; without it, it is the JSON array in the text of the last message."""
    max: Positive = 1000
    max_parallel: Positive = 1
    on_error: Literal["stop", "null", "drop"] | None = "stop"
    """Whether a failed round fails the node, has the result null, or has no result. An unquoted `null`
    in YAML is read as None, which therefore means the same as "null"."""
    gather: bool = True
    """Whether the output is the list of all results, or only the result of the last element."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="array_strategy",
            en=("For each element", "One round for each element of a list."),
            zh=("逐个元素", "对列表的每个元素各执行一轮。"),
            fields={
                "items": Field(
                    en=(
                        "List",
                        "Where the list is: a CEL expression over `text`, `data` and `messages`, or a "
                        "Python function. If "
                        "not set, it is the JSON array in the last message.",
                    ),
                    zh=(
                        "列表",
                        "列表的来源：针对 `text`、`data` 和 `messages` 的 CEL 表达式，或一个 Python 函数。"
                        "不填则取最后一条消息中的 JSON 数组。",
                    ),
                    widget="expression",
                    see="workflow-files.md#expressions",
                ),
                "max": Field(
                    en=(
                        "Most elements",
                        "The maximum number of elements. A longer list locks the run before the first round.",
                    ),
                    zh=("元素上限", "最多处理的元素数；列表更长时，在第一轮之前锁定运行。"),
                    unit="elements",
                ),
                "max_parallel": Field(
                    en=("In parallel", "The maximum number of rounds that run at the same time."),
                    zh=("并行数", "同时执行的轮次数。"),
                ),
                "on_error": Field(
                    en=("On failure", "What happens to a round that fails."),
                    zh=("失败时", "某一轮失败时如何处理。"),
                    choices={
                        "stop": ("The node fails", "节点失败"),
                        "null": ("Its result is null", "结果记为 null"),
                        "drop": ("It has no result", "不计入结果"),
                    },
                ),
                "gather": Field(
                    en=(
                        "Gather",
                        "Whether the output is the JSON list of all results, or only the result of the "
                        "last element.",
                    ),
                    zh=("汇总", "输出是否为全部结果组成的 JSON 列表；否则为最后一个元素的结果。"),
                ),
            },
        )


class CustomStrategy(Struct, frozen=True, omit_defaults=True):
    """A `LoopStrategy` in Python, given by its registered name or as module:Class."""

    use: str
    max: Positive = 1000

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="custom_strategy",
            en=("Own code", "A `LoopStrategy` in Python decides before each round."),
            zh=("自定义代码", "由 Python 中的 `LoopStrategy` 在每轮之前决定。"),
            fields={
                "use": Field(
                    en=("Strategy", "Its registered name, or `module:Class`."),
                    zh=("策略", "已注册的名称，或写作 `module:Class`。"),
                    widget="function",
                ),
                "max": Field(
                    en=("Rounds", "The maximum number of rounds. After that, the run is locked."),
                    zh=("最多轮次", "达到此轮次后锁定运行。"),
                    unit="rounds",
                ),
            },
        )


StrategyKind = CountStrategy | UntilStrategy | ArrayStrategy | CustomStrategy


class Strategy(Struct, frozen=True):
    """The `strategy` of a loop agent: a mapping whose `mode` selects one of the structs above.

    It is read by hand and not as a tagged union, so that a missing or misspelt mode gets an error of its
    own, with a hint, at the position of the key."""

    kind: StrategyKind

    forms: ClassVar[dict[str, type[Struct]]] = {
        "count": CountStrategy,
        "condition": UntilStrategy,
        "array": ArrayStrategy,
        "custom": CustomStrategy,
    }

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="strategy",
            en=("Strategy", "When a loop agent starts another round."),
            zh=("策略", "循环智能体何时开始下一轮。"),
            variants=Variants(
                key="mode",
                config="",
                forms=Strategy.forms,
                en=("Mode", "What decides whether another round starts."),
                zh=("模式", "由什么决定是否继续下一轮。"),
            ),
        )

    @property
    def function(self) -> str:
        """The name of the Python code that the strategy calls; empty if it calls none."""
        kind = self.kind
        if isinstance(kind, CustomStrategy):
            return kind.use
        predicate = predicate_of(kind)
        return predicate.function if predicate is not None else ""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        known = ", ".join(cls.forms)
        if not isinstance(at.value, dict) or "mode" not in at.value:
            hint = f"write strategy: {{mode: …}} with one of {known}"
            wrong = _describe_wrong_value(reader.report.mask_value(at.value))
            message = f"'strategy' is not a loop strategy: {wrong}"
            reader.report.error("no-strategy", message, at, hint)
            return INVALID
        mode = at.value["mode"]
        name = reader.read(mode, str, "'mode' of the strategy")
        if name is INVALID:
            return INVALID
        form = cls.forms.get(name)
        if form is None:
            hint = did_you_mean(name, cls.forms) or f"known are {known}"
            reader.report.error("no-strategy", f"'{name}' is not a loop strategy", mode, hint)
            return INVALID
        rest = {key: value for key, value in at.value.items() if key != "mode"}
        kind = reader.read(Located(rest, at.line, at.column, at.keys), form, f"the {name} strategy")
        return cls(kind) if kind is not INVALID and _check_strategy(kind, at.value, reader) else INVALID


def _describe_wrong_value(value: object) -> str:
    if isinstance(value, dict):
        return "it has no 'mode'"
    return "it is a list" if isinstance(value, list) else f"it is {value!r:.60}"


def predicate_of(kind: StrategyKind) -> Predicate | None:
    """The predicate of a strategy; None if it has none."""
    if isinstance(kind, UntilStrategy):
        return kind.until
    return kind.items if isinstance(kind, ArrayStrategy) else None


def _check_strategy(kind: StrategyKind, given: dict[str, Located], reader: Reader) -> bool:
    if isinstance(kind, CustomStrategy):
        return _check_custom(kind.use, given["use"], reader)
    predicate = predicate_of(kind)
    if predicate is None:
        return True
    if isinstance(kind, UntilStrategy):
        return predicate.check(given["until"], UNTIL_NAMES, reader)
    return predicate.check(given["items"], ITEMS_NAMES, reader)


def _check_custom(use: str, at: Located, reader: Reader) -> bool:
    """Whether the code of a custom strategy exists and can be imported.

    The module is imported, which runs it. Separate errors name a missing module, a module that cannot be
    imported, and a class that the module does not define."""
    assert isinstance(reader, WorkflowReader)
    if not reader.is_trusted:
        return True
    module, colon, name = use.partition(":")
    if not colon or use in reader.finder.names("function"):
        return Predicate(function=use).check(at, (), reader)
    if not reader.finder.known("function", use):
        message = f"there is no module '{module}', which the strategy '{use}' is to come from"
        place = "it has to stand beside the workflow file, or on the import path"
        hint = did_you_mean(module, list_modules(reader.top_folder)) or place
        reader.report.error("unknown-function", message, at, hint)
        return False
    names = defined_names(module, reader.top_folder)
    try:
        reader.finder.find("function", use)
    except ModuleError as error:
        reader.report.error("unknown-function", str(error), at)
        return False
    except LookupError as error:
        public = sorted(known for known in names or () if not known.startswith("_"))
        hint = did_you_mean(name, public) or (f"it has {', '.join(public[:12])}" if public else "")
        reader.report.error("unknown-function", str(error.args[0]), at, hint)
        return False
    return True
