"""CEL expressions: checked when a file is loaded, compiled once, bounded in what they may cost.

CEL has no loops but its macros, and no access to Python. The evaluator has no cost limit of its
own, so macros inside macros (the only way to more than linear work) and long sources are refused.
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

MAX_LENGTH = 2000
MACROS = ("map", "filter", "all", "exists", "exists_one")
_MACRO = re.compile(r"\.\s*(?:" + "|".join(MACROS) + r")\s*\(")
_STRING = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_KNOWN_FUNCTIONS = frozenset(
    (
        *("contains", "startsWith", "endsWith", "matches", "size", "has", "type", "min", "max"),
        *("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)


class ExpressionError(ValueError):
    """An expression that cannot be compiled, or whose evaluation failed."""


class Expression:
    """A compiled expression."""

    __slots__ = ("_program", "source")

    def __init__(self, source: str, names: Iterable[str]) -> None:
        self.source = source
        self._program = _compile(source)
        _check_names(self._program, tuple(names))

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        try:
            return self._program.execute(dict(values))
        except KeyError as error:
            name = error.args[0] if error.args else "?"
            raise ExpressionError(
                f"{_shown(self.source)} needs '{name}', which is not there; ask `has(…{name})` first"
            ) from None
        except Exception as error:
            reason = " ".join(str(error).split(". ")[0].split())
            raise ExpressionError(f"{_shown(self.source)}: {reason}") from None

    def holds(self, values: Mapping[str, Any]) -> bool:
        result = self.evaluate(values)
        if not isinstance(result, bool):
            shown = _shown(self.source)
            raise ExpressionError(f"{shown} gave {result!r}; a condition must give true or false")
        return result


@lru_cache(maxsize=1024)
def _compile(source: str) -> Any:
    if len(source) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(source)} characters; at most {MAX_LENGTH} are allowed"
        )
    if _nests_macros(source):
        raise ExpressionError(f"one of {', '.join(MACROS)} stands inside another; that is not allowed")
    try:
        return _cel().compile(source)
    except ValueError as error:
        raise ExpressionError(f"cannot read {_shown(source)}: {_syntax_message(str(error))}") from None


def _shown(source: str) -> str:
    text = " ".join(source.split())
    return f"`{text}`" if len(text) <= 200 else f"`{text[:199]}…`"


def _syntax_message(text: str) -> str:
    found = re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)", text)
    if not found:
        return text.split("\n", maxsplit=1)[0]
    line = f"line {found[1]}, " if found[1] != "1" else ""
    return f"{found[3].split(' expecting ')[0]} at {line}character {found[2]}"


def _check_names(program: Any, names: tuple[str, ...]) -> None:
    bound = set(re.findall(r"\.\s*(?:" + "|".join(MACROS) + r")\s*\(\s*(\w+)\s*,", program.source))
    for name in program.variables():
        if name not in names and name not in bound:
            raise ExpressionError(
                f"{_shown(program.source)} uses the name '{name}', which is not known here; "
                f"known are {', '.join(names)}"
            )
    for name in program.functions():
        if name.isidentifier() and name not in _KNOWN_FUNCTIONS:
            raise ExpressionError(f"{_shown(program.source)} calls '{name}', which is not a CEL function")


def _nests_macros(source: str) -> bool:
    text = _STRING.sub(lambda found: " " * len(found[0]), source)
    starts = {found.end() - 1 for found in _MACRO.finditer(text)}
    depths: list[bool] = []
    for position, character in enumerate(text):
        if character == "(":
            if position in starts and any(depths):
                return True
            depths.append(position in starts)
        elif character == ")" and depths:
            depths.pop()
    return False


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
