"""Breakpoints: where a run pauses so that a person can look at it.

A breakpoint is one of these; all of them stop a run before something starts:

    Reviewer               a node, wherever in the workflow it is, in every round
    Writer[3]              round 3 of a loop, wherever the loop is
    Writer[3]/Reviewer     one execution of a node
    Outer[2].Inner[5]      round 5 of an inner loop, in round 2 of the outer one
    {cel: "round > 3"}     every node for which a CEL expression is true

`Analyst[2]`, for an agent with tools, is its second round of tools.

A name is a suffix of an address, cut where the address of a loop or a node begins: `Writer[3]` also means
`Outer[2].Writer[3]`. `address_pattern` compiles it. Whether the workflow has such a node or loop is checked
with the plan (plan/breakpoints.py); what happens when one is reached is part of the kernel
(kernel/debugging.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field, Short
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located, read_text
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.fields import INVALID, Reader, SourceLocation, child

BREAKPOINT_NAMES: Final = ("node", "address", "round", "text", "data", "state", "run", "vars")
"""The names that the expression of a breakpoint may use."""
_CEL_PREFIX = "cel:"


class BreakpointError(ValueError):
    """A breakpoint that cannot be read, or that no node or loop of the workflow can reach."""


class Breakpoint(Struct, frozen=True, omit_defaults=True):
    """One breakpoint: a node, a round, an address, or a condition. Exactly one of the first two is set."""

    at: str = ""
    cel: str = ""
    location: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="breakpoint",
            en=("Breakpoint", "Where a run pauses: before a node, at a round, or where a condition is true."),
            zh=("断点", "运行在何处暂停：某个节点之前、某一轮之前，或条件成立之处。"),
            short=(
                Short(
                    kind=str,
                    key="at",
                    en=("Place", "A node, a round such as `Writer[3]`, or an address."),
                    zh=("位置", "节点、轮次（如 `Writer[3]`）或地址。"),
                ),
            ),
            fields={
                "at": Field(
                    en=("Place", "A node, a round such as `Writer[3]`, or an address."),
                    zh=("位置", "节点、轮次（如 `Writer[3]`）或地址。"),
                    widget="node",
                ),
                "cel": Field(
                    en=("Condition", "Pause before every node for which this expression is true."),
                    zh=("条件", "在此表达式为真的每个节点之前暂停。"),
                    widget="expression",
                ),
            },
            complete=True,
            alone=("at", "cel"),
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        location = SourceLocation(reader.report.file, at.line, at.column)
        if isinstance(at.value, str):
            try:
                return parse_breakpoint(at.value, location)
            except BreakpointError as error:
                reader.report.error("bad-breakpoint", str(error), at)
                return INVALID
        made = reader.read_struct(at, _BreakpointKeys, "a breakpoint")
        if made is INVALID:
            return INVALID
        return cls(made.at, made.cel, location)

    def __str__(self) -> str:
        return self.at or f"{_CEL_PREFIX} {self.cel}"


class _BreakpointKeys(Struct, frozen=True):
    """The keys of a breakpoint that is written as a mapping."""

    at: str = ""
    cel: str = ""

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.at) == bool(self.cel):
            message = "a breakpoint has either 'at' (a node, a round or an address) or 'cel' (a condition)"
            report.error("bad-breakpoint", message, at)
            return False
        problem = expression_problem(self.cel) if self.cel else ""
        if problem:
            report.error("bad-expression", problem, child(at, "cel"))
            return False
        return True


class Debugging(Struct, frozen=True, omit_defaults=True):
    """The settings under `debug`: the breakpoints that every run of the workflow begins with."""

    break_at: Annotated[tuple[Breakpoint, ...], Meta(extra={"wrap": True})] = ()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="debug",
            en=("Debugging", "Where runs of this workflow pause, so that you can inspect them."),
            zh=("调试", "此工作流的运行在何处暂停，以便检查。"),
            fields={
                "break_at": Field(
                    en=("Breakpoints", "Nodes, rounds, addresses or conditions before which a run pauses."),
                    zh=("断点", "运行在这些节点、轮次、地址或条件之前暂停。"),
                    see="debugging.md#breakpoints",
                ),
            },
        )


BreakpointSource = Breakpoint | Mapping[str, str] | str
"""A breakpoint as programs and commands give it."""


def parse_breakpoint(source: BreakpointSource, location: SourceLocation | None = None) -> Breakpoint:
    """A breakpoint from a text such as `Writer[3]` or `cel: round > 3`, or from a mapping;
    BreakpointError."""
    place = location or SourceLocation()
    if isinstance(source, Breakpoint):
        return source
    fields: dict[str, Any]
    if isinstance(source, Mapping):
        fields = dict(source)
    elif source.lstrip().startswith("{"):
        fields = _parse_mapping(source)
    elif source.lstrip().startswith(_CEL_PREFIX):
        fields = {"cel": source.lstrip().removeprefix(_CEL_PREFIX).strip()}
    else:
        fields = {"at": source.strip()}
    name, value = next(iter(fields.items()), ("", ""))
    if len(fields) != 1 or name not in ("at", "cel") or not isinstance(value, str) or not value:
        raise BreakpointError(
            f"'{source}' is no breakpoint; give a node, a round such as 'Writer[3]', an address, or "
            "'cel: CONDITION'"
        )
    if name == "cel" and (problem := expression_problem(value)):
        raise BreakpointError(problem)
    return Breakpoint(**{name: value}, location=place)


def _parse_mapping(text: str) -> dict[str, Any]:
    found = read_text(text, Report())
    plain = found.plain() if found is not None else None
    return plain if isinstance(plain, dict) else {}


def expression_problem(source: str) -> str:
    """Why an expression cannot be the condition of a breakpoint; empty if it can."""
    try:
        Expression(source, BREAKPOINT_NAMES)
    except ExpressionError as error:
        return str(error)
    return ""


@lru_cache(maxsize=256)
def address_pattern(at: str) -> re.Pattern[str]:
    """Finds the part of an address that a breakpoint names: a whole part, not the end of a longer id. It is
    the last one, if a loop with the same name is around it (`Writer[3]/Part/Writer[3]`).

    Loops inside loops are joined by a full stop, which an id may contain as well. The one of an address
    always follows a round (`Outer[2].Inner[5]`, `Debate[1]#2.Inner[5]`)."""
    return re.compile(rf"^(?:.*(?:/|\]\.|#\d+\.))?{re.escape(at)}(?=$|[/.#])", re.DOTALL)
