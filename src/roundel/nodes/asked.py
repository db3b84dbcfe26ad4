"""What a loop agent is asked before its rounds: of a CEL expression, or of a Python function."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.workflow.condition import check_expression
from roundel.workflow.description import Description, Field, Short
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.graph import GraphReader


class Predicate(Struct, frozen=True, omit_defaults=True):
    """A CEL expression, or a Python function that is called with the messages so far."""

    expression: str = ""
    function: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="predicate",
            en=(
                "Expression or function",
                "A CEL expression, or a Python function that gets the messages so far.",
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
                        "A Python function that gets the messages so far: a registered name, or "
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
        """Whether the function is there, or the expression can be read and knows its names."""
        if isinstance(at.value, dict):
            at = next(iter(at.value.values()))
        if self.function:
            assert isinstance(reader, GraphReader)
            reader.check_function("function", self.function, at)
            return True  # the report says if it is not there
        return check_expression(self.expression, names, at, reader)
