"""CEL expressions: checked when a file is loaded, compiled once, bounded in what they may cost.

CEL has no loops but its macros, and no access to Python. The evaluator has no limit of its own and cannot be
interrupted. So long sources and macros inside macros are refused when a file is loaded, and an expression
that would cost too much on what it is given (expression_cost.py) is not evaluated.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from roundel.workflow.expression_cost import check_cost, fits, room
from roundel.workflow.expression_tree import SyntaxProblem, Tree, parse

MAX_LENGTH = 2000
_KNOWN_FUNCTIONS = frozenset(
    (
        *("contains", "startsWith", "endsWith", "matches", "size", "has", "type"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)


class ExpressionError(ValueError):
    """An expression that cannot be compiled, or whose evaluation failed."""


class Expression:
    """A compiled expression."""

    __slots__ = ("_fields", "_program", "_room", "_tree", "source")

    def __init__(self, source: str, names: Iterable[str]) -> None:
        self.source = source
        self._program, self._tree = _compile(source)
        _check_names(self._tree, source, tuple(names))
        self._fields = tuple(
            (name, None if fields is None else tuple(sorted(fields)))
            for name, fields in self._tree.fields.items()
        )
        self._room = room(self._tree)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        given = self._given(values)
        try:
            if self._room is None or not fits(given, self._room):
                check_cost(self._tree, given)
            return self._program.execute(given)
        except KeyError as error:
            name = error.args[0] if error.args else "?"
            raise ExpressionError(
                f"{_shown(self.source)} needs '{name}', which is not there; ask `has(…{name})` first"
            ) from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the evaluator has failures of its own, which are no Exception
            reason = " ".join(str(error).split(". ")[0].split())
            raise ExpressionError(f"{_shown(self.source)}: {reason}") from None

    def _given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """No more than it looks at: each value is handed over anew for each evaluation."""
        given = {}
        for name, fields in self._fields:
            if name in values:
                value = values[name]
                if fields is not None and value.__class__ is dict:
                    value = {field: value[field] for field in fields if field in value}
                given[name] = value
        return given

    def holds(self, values: Mapping[str, Any]) -> bool:
        result = self.evaluate(values)
        if not isinstance(result, bool):
            shown = _shown(self.source)
            raise ExpressionError(f"{shown} gave {result!r:.200}; a condition must give true or false")
        return result


@lru_cache(maxsize=1024)
def _compile(source: str) -> tuple[Any, Tree]:
    if len(source) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(source)} characters; at most {MAX_LENGTH} are allowed"
        )
    try:
        program = _cel().compile(source)
    except ValueError as error:
        raise ExpressionError(f"cannot read {_shown(source)}: {_syntax_message(str(error))}") from None
    try:
        tree = parse(source)
    except SyntaxProblem as error:
        raise ExpressionError(f"cannot use {_shown(source)}: {error}") from None
    if not _agrees(tree, program):
        raise ExpressionError(f"cannot use {_shown(source)}: it can be read in more than one way")
    return program, tree


def _agrees(tree: Tree, program: Any) -> bool:
    """Whether both find the same names: what is text to one of them must not be code to the other."""
    functions = {name for name in program.functions() if name.isidentifier()}
    variables = {name.removeprefix(".") for name in program.variables()}
    return tree.functions - {"has"} == functions and tree.names <= variables <= tree.mentioned


def _shown(source: str) -> str:
    text = " ".join(source.split())
    return f"`{text}`" if len(text) <= 200 else f"`{text[:199]}…`"


def _syntax_message(text: str) -> str:
    found = re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)", text)
    if not found:
        return text.split("\n", maxsplit=1)[0]
    line = f"line {found[1]}, " if found[1] != "1" else ""
    return f"{found[3].split(' expecting ')[0]} at {line}character {found[2]}"


def _check_names(tree: Tree, source: str, names: tuple[str, ...]) -> None:
    for name in sorted(tree.names):
        if name not in names:
            raise ExpressionError(
                f"{_shown(source)} uses the name '{name}', which is not known here; "
                f"known are {', '.join(names)}"
            )
    for name in sorted(tree.functions):
        if name not in _KNOWN_FUNCTIONS:
            raise ExpressionError(f"{_shown(source)} calls '{name}', which is not a CEL function")


@lru_cache(maxsize=1)
def _cel() -> ModuleType:
    """The evaluator's extension module alone.

    Its package imports a command-line program with everything that needs (a quarter of a second);
    under its own full name the extension is still shared with whoever imports the package.
    """
    name = "cel.cel"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("cel")
    locations = package.submodule_search_locations if package else None
    spec = importlib.machinery.PathFinder.find_spec(name, locations)
    if spec is None or spec.loader is None:
        raise ImportError("the package common-expression-language is not installed")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
