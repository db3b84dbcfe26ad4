"""What an expression may cost on given values, before it is evaluated.

The evaluator cannot be interrupted, and it copies: a field that is taken, a list with every element that is
added to it. So its work is bounded from above, by its tree and by the size of what it is given. The figure
depends on nothing else, so that it is the same on every machine and whenever a run is replayed. One step is
about a tenth of a microsecond.

CEL expressions: checked when a file is loaded, compiled once, bounded in what they may cost.

CEL has no loops but its macros, and no access to Python. The evaluator has no limit of its own and cannot be
interrupted. So long sources and macros inside macros are refused when a file is loaded, and an expression
that would cost too much on what it is given (expression_cost.py) is not evaluated.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping, Sized
from functools import lru_cache
from types import ModuleType, NoneType
from typing import Any

from roundel.workflow.expression_tree import (
    Chain,
    Collection,
    ExpressionTree,
    FieldAccess,
    FunctionCall,
    IndexAccess,
    LiteralValue,
    MacroCall,
    NameReference,
    OperandSequence,
    UnsupportedSyntax,
    parse_expression,
)

MAX_STEPS = 5_000_000
MAX_DEPTH = 100
"""How deep values may be nested: the evaluator follows them by recursion."""
TRANSFER_STEPS = 10
"""The steps to hand one value to the evaluator, or back."""
OPERATION_STEPS = 10
"""The steps of an operation on nothing at all."""
_LETTER, _ANY, _CLASS = 50, 150, 4000
"""The steps to compile a part of a pattern: most classes have thousands of characters."""
_MAX_COMPILE_STEPS, _MAX_STATES = 4_000_000, 200_000
"""Patterns that are larger than this are refused by the evaluator."""
_MATCHING = 0.1
"""The steps for one character of a text and one state of a pattern."""
_COUNTED = re.compile(r"\{\s*([0-9]+)\s*(?:,\s*([0-9]*)\s*)?\}")
_CONTAINERS = (Mapping, list, tuple)
_SCALAR_FUNCTIONS = frozenset(
    (
        *("contains", "startsWith", "endsWith", "matches", "size", "has", "type", "int", "uint", "double"),
        *("timestamp", "duration", "getFullYear", "getMonth", "getDate", "getDayOfMonth"),
        *("getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)


class TooCostly(ValueError):
    """The text says why."""


def measure_weight(value: Any, input_allowance: int = MAX_STEPS // TRANSFER_STEPS) -> int:
    """How much a value holds: one for each value in it, and one for 256 characters; TooCostly if it is more
    than `room`, or nested too deeply."""
    total, level, depth = 0, [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise TooCostly(f"what it is given is nested more than {MAX_DEPTH} deep")
        below: list[Any] = []
        for one in level:
            total += 1
            if isinstance(one, (int, float, NoneType)):
                continue
            if isinstance(one, (str, bytes)):
                total += len(one) >> 8
            elif isinstance(one, (list, tuple)):
                below += one
            elif isinstance(one, Mapping):
                below += one
                below += one.values()
            elif isinstance(one, Sized):
                total += len(one)
            if total + len(below) > input_allowance:
                raise TooCostly(_too_many_steps())
        level, depth = below, depth + 1
    return total


def _too_many_steps() -> str:
    return (
        f"it may take more than {MAX_STEPS} steps on what it is given; "
        "let it work on less, or use a Python function"
    )


class SizeBound:
    """How large a value may be, which is not known itself."""

    __slots__ = ("element", "length", "size")

    def __init__(
        self, size: int, length: int | None = None, element: SizeBound | KnownValues | None = None
    ) -> None:
        self.size = size
        self.length = size if length is None else length
        self.element = element or self

    def select(self, _field: str) -> SizeBound | KnownValues:
        return self


class KnownValues:
    """A value that is one of these."""

    __slots__ = ("_size", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._size = 0

    @property
    def size(self) -> int:
        if not self._size:
            self._size = max((measure_weight(value) for value in self.values), default=1)
        return self._size

    @property
    def length(self) -> int:
        return max((len(value) for value in self.values if isinstance(value, _CONTAINERS)), default=0)

    @property
    def element(self) -> KnownValues:
        """What macros go through: the elements of lists, the keys of maps."""
        return KnownValues(
            [part for value in self.values if isinstance(value, _CONTAINERS) for part in value]
        )

    def select(self, field: str) -> KnownValues:
        return KnownValues([v[field] for v in self.values if isinstance(v, Mapping) and field in v])

    def index(self) -> KnownValues:
        parts: list[Any] = []
        for value in self.values:
            parts += value.values() if isinstance(value, Mapping) else ()
            parts += value if isinstance(value, (list, tuple)) else ()
        return KnownValues(parts)


ValueSize = SizeBound | KnownValues
SCALAR = SizeBound(1, 0)


def input_allowance(tree: ExpressionTree) -> int | None:
    """How much an expression may be given in all without a closer look; None if that cannot be said."""
    if tree.macros or "matches" in tree.functions:
        return None
    return MAX_STEPS // (2 * TRANSFER_STEPS + tree.size * (OPERATION_STEPS + tree.pluses + 1))


def is_within_allowance(values: Mapping[str, Any], input_allowance: int) -> bool:
    """Whether the values are small enough; quick for the few and small ones that most are."""
    left = input_allowance
    for value in values.values():
        if isinstance(value, str):
            left -= 1 + (len(value) >> 8)
        elif isinstance(value, (dict, list, tuple)):
            left -= measure_weight(value)
        else:
            left -= 1
    return left > 0


def check_cost(tree: ExpressionTree, values: Mapping[str, Any]) -> None:
    """TooCostly if the expression may take more than MAX_STEPS on these values."""
    _Estimate(values).estimate(tree.root)


class _Estimate:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._steps = self._inspected = 0
        self._names: dict[str, ValueSize] = {name: KnownValues([value]) for name, value in values.items()}
        for value in self._names.values():
            self._spend(TRANSFER_STEPS * value.size)

    def estimate(self, root: OperandSequence) -> None:
        self._spend(TRANSFER_STEPS * self._sequence(root).size)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooCostly(_too_many_steps())

    def _sequence(self, sequence: OperandSequence) -> ValueSize:
        operands = [self._chain(operand) for operand in sequence.operands]
        if len(operands) == 1:
            return operands[0]
        total = sum(operand.size for operand in operands)
        grows = "+" in sequence.operators
        self._spend(total * len(operands) if grows else total + OPERATION_STEPS * len(operands))
        # A choice or an entry of a map is no larger than its parts; any other operator gives one value.
        return SizeBound(total) if grows or ":" in sequence.operators else SCALAR

    def _chain(self, chain: Chain) -> ValueSize:
        value = self._head(chain.head)
        for link in chain.links:
            if isinstance(link, FieldAccess):
                value = self._spend_access(value.select(link.field))
            elif isinstance(link, IndexAccess):
                self._sequence(link.key)
                value = self._spend_access(value.index() if isinstance(value, KnownValues) else value)
            elif isinstance(link, MacroCall):
                value = self._macro(link, value)
            else:
                value = self._call(link, value)
        return value

    def _spend_access(self, value: ValueSize) -> ValueSize:
        if isinstance(value, KnownValues):  # to look at them is work too, but only once
            self._inspected += TRANSFER_STEPS * len(value.values)
            if self._inspected > MAX_STEPS:
                raise TooCostly(_too_many_steps())
        self._spend(OPERATION_STEPS + value.size)
        return value

    def _head(
        self, head: LiteralValue | NameReference | FunctionCall | Collection | OperandSequence
    ) -> ValueSize:
        if isinstance(head, LiteralValue):
            return SCALAR if head.text is None else KnownValues([head.text])
        if isinstance(head, NameReference):
            return self._names.get(head.name, SCALAR)
        if isinstance(head, OperandSequence):
            return self._sequence(head)
        if isinstance(head, FunctionCall):
            return self._call(head)
        parts = [self._sequence(item) for item in head.items]
        texts = [part.values for part in parts if isinstance(part, KnownValues)]
        if len(texts) == len(parts) and all(len(values) == 1 for values in texts):
            return self._spend_access(KnownValues([[value for values in texts for value in values]]))
        size = 1 + sum(part.size for part in parts)
        self._spend(size)
        return SizeBound(size, len(parts), SizeBound(max((part.size for part in parts), default=1)))

    def _call(self, call: FunctionCall, target: ValueSize | None = None) -> ValueSize:
        given = [self._sequence(argument) for argument in call.arguments]
        if call.function == "matches":
            self._spend(_match_steps(*(given if target is None else (target, *given))[:2]))
        total = sum(value.size for value in given) + (0 if target is None else target.size)
        self._spend(OPERATION_STEPS + total)
        return SCALAR if call.function in _SCALAR_FUNCTIONS else SizeBound(total)

    def _macro(self, macro: MacroCall, target: ValueSize) -> ValueSize:
        length, element = target.length, target.element
        hidden = self._names.get(macro.variable)
        self._names[macro.variable] = element
        before, self._steps = self._steps, 0
        made = [self._sequence(body) for body in macro.bodies]
        turn, self._steps = self._steps + element.size + OPERATION_STEPS, before
        if hidden is None:
            del self._names[macro.variable]
        else:
            self._names[macro.variable] = hidden
        self._spend(length * turn)
        if macro.kind not in ("map", "filter"):
            return SCALAR
        # What has been gathered is copied for each element.
        kept = element if macro.kind == "filter" else made[-1]
        self._spend((length * (length + 1) // 2) * kept.size)
        return SizeBound(1 + length * kept.size, length, kept)


def _match_steps(text: ValueSize, pattern: ValueSize) -> int:
    """The steps of a search. The pattern is compiled each time, with its counted repeats written out."""
    if isinstance(pattern, SizeBound):
        raise TooCostly("the pattern of 'matches' has to be a text or a field")
    if isinstance(text, KnownValues):
        length = max((len(value) for value in text.values if isinstance(value, str)), default=0)
    else:
        length = text.size << 8
    return max(
        (_search_steps(value, length) for value in pattern.values if isinstance(value, str)), default=0
    )


def _search_steps(pattern: str, length: int) -> int:
    repeats = 1
    for least, most in _COUNTED.findall(pattern):
        repeats = min(repeats * max(int(least[:9]), int(most[:9] or 0), 1), _MAX_STATES)
    classes = sum(map(pattern.count, "\\[")) * _CLASS + pattern.count(".") * _ANY
    compiling = min((len(pattern) * _LETTER + classes) * repeats, _MAX_COMPILE_STEPS)
    states = min(len(pattern) * repeats, _MAX_STATES)
    return compiling + int(length * states * _MATCHING)


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
        self._room = input_allowance(self._tree)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        given = self._select_values(values)
        try:
            if self._room is None or not is_within_allowance(given, self._room):
                check_cost(self._tree, given)
            return self._program.execute(given)
        except KeyError as error:
            name = error.args[0] if error.args else "?"
            raise ExpressionError(
                f"{_quote(self.source)} needs '{name}', which is not there; ask `has(…{name})` first"
            ) from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the evaluator has failures of its own, which are no Exception
            reason = " ".join(str(error).split(". ")[0].split())
            raise ExpressionError(f"{_quote(self.source)}: {reason}") from None

    def _select_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
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
            shown = _quote(self.source)
            raise ExpressionError(f"{shown} gave {result!r:.200}; a condition must give true or false")
        return result


@lru_cache(maxsize=1024)
def _compile(source: str) -> tuple[Any, ExpressionTree]:
    if len(source) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(source)} characters; at most {MAX_LENGTH} are allowed"
        )
    try:
        program = _load_cel().compile(source)
    except ValueError as error:
        raise ExpressionError(f"cannot read {_quote(source)}: {_syntax_message(str(error))}") from None
    try:
        tree = parse_expression(source)
    except UnsupportedSyntax as error:
        raise ExpressionError(f"cannot use {_quote(source)}: {error}") from None
    if not _has_same_names(tree, program):
        raise ExpressionError(f"cannot use {_quote(source)}: it can be read in more than one way")
    return program, tree


def _has_same_names(tree: ExpressionTree, program: Any) -> bool:
    """Whether both find the same names: what is text to one of them must not be code to the other."""
    functions = {name for name in program.functions() if name.isidentifier()}
    variables = {name.removeprefix(".") for name in program.variables()}
    return tree.functions - {"has"} == functions and tree.names <= variables <= tree.mentioned


def _quote(source: str) -> str:
    text = " ".join(source.split())
    return f"`{text}`" if len(text) <= 200 else f"`{text[:199]}…`"


def _syntax_message(text: str) -> str:
    found = re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)", text)
    if not found:
        return text.split("\n", maxsplit=1)[0]
    line = f"line {found[1]}, " if found[1] != "1" else ""
    return f"{found[3].split(' expecting ')[0]} at {line}character {found[2]}"


def _check_names(tree: ExpressionTree, source: str, names: tuple[str, ...]) -> None:
    for name in sorted(tree.names):
        if name not in names:
            raise ExpressionError(
                f"{_quote(source)} uses the name '{name}', which is not known here; "
                f"known are {', '.join(names)}"
            )
    for name in sorted(tree.functions):
        if name not in _KNOWN_FUNCTIONS:
            raise ExpressionError(f"{_quote(source)} calls '{name}', which is not a CEL function")


@lru_cache(maxsize=1)
def _load_cel() -> ModuleType:
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
