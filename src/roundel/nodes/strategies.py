"""When a loop agent goes on: so many times, until something holds, for each element, as somebody's code says.

A strategy is what a workflow says (the structs here); its conductor (nodes/conductors.py) carries it out.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.nodes.asked import Asked
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.imports import ModuleError
from roundel.workflow.loader import WorkflowReader
from roundel.workflow.modules import modules_beside, names_of

UNTIL_NAMES = ("text", "messages", "data", "round")
ITEMS_NAMES = ("text", "messages", "data")
Positive = Annotated[int, Meta(ge=1)]


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
    on_error: Literal["stop", "null", "drop"] | None = "stop"
    """What becomes of a round that fails: the run, a null, or nothing. (In YAML `null` is no text.)"""
    gather: bool = True
    """The output is the list of all results; otherwise the last one."""


class Custom(Struct, frozen=True, omit_defaults=True):
    """A LoopStrategy in Python, by its registered name or as module:Class."""

    use: str
    max: Positive = 1000


Kind = Count | Until | Array | Custom


class Strategy(Struct, frozen=True):
    kind: Kind

    forms: ClassVar[dict[str, type[Struct]]] = {
        "count": Count,
        "condition": Until,
        "array": Array,
        "custom": Custom,
    }

    @property
    def function(self) -> str:
        """The name of the Python code that it asks; empty if it asks none."""
        kind = self.kind
        if isinstance(kind, Custom):
            return kind.use
        asked = asked_of(kind)
        return asked.function if asked is not None else ""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        known = ", ".join(cls.forms)
        if not isinstance(at.value, dict) or "mode" not in at.value:
            hint = f"write strategy: {{mode: …}} with one of {known}"
            message = f"'strategy' is not a loop strategy: {_lack(reader.report.hidden(at.value))}"
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
        return cls(kind) if kind is not INVALID and _sound(kind, at.value, reader) else INVALID

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        options = []
        for name, form in cls.forms.items():
            schema = maker.struct(form)
            schema["properties"]["mode"] = {"const": name}
            schema["required"] = ["mode", *schema.get("required", ())]
            options.append(schema)
        return {"anyOf": options}


def _lack(value: object) -> str:
    if isinstance(value, dict):
        return "it has no 'mode'"
    return "it is a list" if isinstance(value, list) else f"it is {value!r:.60}"


def asked_of(kind: Kind) -> Asked | None:
    """What is asked before the rounds, or before each: of an expression or a function."""
    if isinstance(kind, Until):
        return kind.until
    return kind.items if isinstance(kind, Array) else None


def _sound(kind: Kind, given: dict[str, Located], reader: Reader) -> bool:
    if isinstance(kind, Custom):
        return _found(kind.use, given["use"], reader)
    asked = asked_of(kind)
    if asked is None:
        return True
    if isinstance(kind, Until):
        return asked.check(given["until"], UNTIL_NAMES, reader)
    return asked.check(given["items"], ITEMS_NAMES, reader)


def _found(use: str, at: Located, reader: Reader) -> bool:
    """Whether the code of a custom strategy is there, and can be imported."""
    assert isinstance(reader, WorkflowReader)
    module, colon, name = use.partition(":")
    if not colon or use in reader.finder.names("function"):
        return Asked(function=use).check(at, (), reader)
    if not reader.finder.known("function", use):
        message = f"there is no module '{module}', which the strategy '{use}' is to come from"
        place = "it has to stand beside the workflow file, or on the import path"
        hint = did_you_mean(module, modules_beside(reader.top)) or place
        reader.report.error("unknown-function", message, at, hint)
        return False
    names = names_of(module, reader.top)
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
