"""When a loop agent goes on: so many times, until something holds, for each element, or as somebody's code says.

A strategy is what a workflow says (the structs here); its conductor (nodes/conductors.py) carries it out.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.workflow.condition import check_expression
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader

UNTIL_NAMES = ("text", "messages", "data", "round")
ITEMS_NAMES = ("text", "messages", "data")
Positive = Annotated[int, Meta(ge=1)]


class Asked(Struct, frozen=True, omit_defaults=True):
    """A CEL expression, or a Python function that is called with the messages so far."""

    expression: str = ""
    function: str = ""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        value = at.value
        if isinstance(value, (str, bool)):
            return cls(expression=value if isinstance(value, str) else str(value).lower())
        if isinstance(value, dict) and set(value) == {"function"}:
            name = reader.read(value["function"], str, "the function")
            return INVALID if name is INVALID else cls(function=name)
        reader.report.error(
            "wrong-type", "expected a CEL expression, or {function: name}", at, "for example data.score >= 90"
        )
        return INVALID

    @classmethod
    def __schema__(cls, _maker: Any) -> dict[str, Any]:
        named = {"type": "object", "properties": {"function": {"type": "string"}}, "required": ["function"]}
        return {"anyOf": [{"type": "string"}, {"type": "boolean"}, named]}


class Count(Struct, frozen=True, omit_defaults=True):
    """So many rounds; none for 0 or less."""

    max: int


class Until(Struct, frozen=True, omit_defaults=True):
    """Until the predicate holds, tested before each round."""

    until: Asked
    max: Positive = 1000
    on_limit: Literal["finish", "suspend"] = "finish"


class Array(Struct, frozen=True, omit_defaults=True):
    """A round for each element of a list."""

    items: Asked | None = None
    """Where the list is; without it the last message is one, as JSON."""
    max: Positive = 1000
    max_parallel: Positive = 1
    on_error: Literal["stop", "null", "drop"] = "stop"
    gather: bool = True
    """The output is the list of all results; otherwise the last one."""


class Custom(Struct, frozen=True, omit_defaults=True):
    """A LoopStrategy in Python, by its registered name or as module:Class."""

    use: str
    max: Positive = 1000


class Strategy(Struct, frozen=True):
    kind: Count | Until | Array | Custom

    forms: ClassVar[dict[str, type[Struct]]] = {
        "count": Count,
        "condition": Until,
        "array": Array,
        "custom": Custom,
    }

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        known = ", ".join(cls.forms)
        if not isinstance(at.value, dict) or "mode" not in at.value:
            hint = f"write strategy: {{mode: …}} with one of {known}"
            reader.report.error("no-strategy", "this is not a strategy: it has no 'mode'", at, hint)
            return INVALID
        mode = at.value["mode"]
        form = cls.forms.get(str(mode.value))
        if form is None:
            hint = did_you_mean(str(mode.value), cls.forms) or f"known are {known}"
            reader.report.error("no-strategy", f"{mode.value!r} is not a loop strategy", mode, hint)
            return INVALID
        rest = {key: value for key, value in at.value.items() if key != "mode"}
        kind = reader.read(Located(rest, at.line, at.column, at.keys), form, f"the {mode.value} strategy")
        return cls(kind) if kind is not INVALID and _sound(kind, at, reader) else INVALID

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        options = []
        for name, form in cls.forms.items():
            schema = maker.struct(form)
            schema["properties"]["mode"] = {"const": name}
            schema["required"] = ["mode", *schema.get("required", ())]
            options.append(schema)
        return {"anyOf": options}


def _sound(kind: Any, at: Located, reader: Reader) -> bool:
    assert isinstance(at.value, dict)
    asked, key, names = None, "", UNTIL_NAMES
    if isinstance(kind, Until):
        asked, key = kind.until, "until"
    elif isinstance(kind, Array):
        asked, key, names = kind.items, "items", ITEMS_NAMES
    if asked is None or not asked.expression:
        return True
    return check_expression(asked.expression, names, at.value[key], reader)
