"""What a loop agent is asked before its rounds: of a CEL expression, or of a Python function."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.workflow.condition import check_expression
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.graph import GraphReader


class Asked(Struct, frozen=True, omit_defaults=True):
    """A CEL expression, or a Python function that is called with the messages so far."""

    expression: str = ""
    function: str = ""

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

    @classmethod
    def __schema__(cls, _maker: Any) -> dict[str, Any]:
        named = [
            {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
            for key in ("cel", "function")
        ]
        return {"anyOf": [{"type": "string"}, {"type": "boolean"}, *named]}

    def check(self, at: Located, names: tuple[str, ...], reader: Reader) -> bool:
        """Whether the function is there, or the expression can be read and knows its names."""
        if isinstance(at.value, dict):
            at = next(iter(at.value.values()))
        if self.function:
            assert isinstance(reader, GraphReader)
            reader.check_function("function", self.function, at)
            return True  # the report says if it is not there
        return check_expression(self.expression, names, at, reader)
