"""CEL expressions: checked and compiled when a file is loaded, and bounded in cost before each
evaluation.

CEL has no loops except its macros, and no access to Python. But expressions are evaluated inside the
kernel, on the event loop, and the evaluator has no limit of its own and cannot be interrupted:
`size(data.x.map(a, data.x))` on 1,000 numbers blocked every run of the process. So there are three
bounds (docs/decisions/0017):

- When a file is loaded, long sources and macros inside macros are rejected (`_compile`,
expression_tree.py).
- Before an evaluation, the steps that it may take on the given values are estimated from above. An
expression that may
  exceed MAX_STEPS is not evaluated, and raises `TooCostly`.
- Only the fields that the expression names are passed to the evaluator, since it copies what it gets.

A time limit would be simpler, but the evaluator holds the interpreter's lock, so no other thread could
enforce it. An estimate also has the same result on every machine and at each replay: it depends only on
the expression and its values. One step is about a tenth of a microsecond.

The estimate walks the expression tree with sizes in place of values. The evaluator copies: a field that
is accessed, and in `map` and `filter` the whole result for each element that is added to it, so these
are quadratic. Where the value itself is known (`KnownValues`: what was passed in, and parts of it), its
real size counts; otherwise an upper bound does (`SizeBound`). Most expressions do not get that far: for
one without macros and `matches`, a bound on the total size of its values (`input_allowance`) is computed
once, and checked by adding up a few lengths.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sized
from functools import lru_cache
from math import inf
from types import ModuleType, NoneType
from typing import Any

from roundel.workflow.evaluation_budget import BudgetExceeded, current_budget
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
"""About half a second: the longest time that one evaluation may block the event loop."""
MAX_DEPTH = 100
"""How deep values may be nested. The evaluator recurses into them."""
TRANSFER_STEPS = 10
"""The steps to convert one value for the evaluator, or back."""
OPERATION_STEPS = 10
"""The fixed steps of an operation, whatever the size of its operands."""
_LETTER, _ANY, _CLASS = 50, 150, 4000
"""The steps to compile one part of a pattern. Classes are expensive: most have thousands of
characters."""
_MAX_COMPILE_STEPS, _MAX_STATES = 4_000_000, 200_000
"""The evaluator rejects patterns that are larger than this, so a pattern never costs more."""
_MATCHING = 0.1
"""The steps for one character of a text and one state of a pattern."""
_COUNTED = re.compile(r"\{\s*([0-9]+)\s*(?:,\s*([0-9]*)\s*)?\}")
_CONTAINERS = (Mapping, list, tuple)
# Functions whose result has a fixed size, however large their arguments are.
_SCALAR_FUNCTIONS = frozenset(
    (
        *("contains", "startsWith", "endsWith", "matches", "size", "has", "type", "int", "uint", "double"),
        *("timestamp", "duration", "getFullYear", "getMonth", "getDate", "getDayOfMonth"),
        *("getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)


class TooCostly(ValueError):
    """An expression may take too many steps on its values, or these are nested too deeply."""


def measure_weight(value: Any, input_allowance: int = MAX_STEPS // TRANSFER_STEPS) -> int:
    """The size of a value: 1 for each value in it, and 1 for each 256 characters. Raises TooCostly if it
    is larger than `input_allowance`, or nested too deeply.

    Breadth first and without recursion, because the depth is what it checks; and it stops as soon as the
    allowance is exceeded, so a huge value costs no more than a large one."""
    total, level, depth = 0, [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise TooCostly(f"its values are nested more than {MAX_DEPTH} deep")
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
        f"it may take more than {MAX_STEPS} steps on these values; "
        "pass it less data, or use a Python function"
    )


class SizeBound:
    """An upper bound for a value that is not known. Its elements are as large as itself, unless
    `element` says otherwise."""

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
    """A value that is one of these, since it was passed in or is a part of that. Sizes are computed when
    needed."""

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
        """What macros iterate over: the elements of lists, the keys of maps."""
        return KnownValues(
            [part for value in self.values if isinstance(value, _CONTAINERS) for part in value]
        )

    def select(self, field: str) -> KnownValues:
        return KnownValues([v[field] for v in self.values if isinstance(v, Mapping) and field in v])

    def index(self) -> KnownValues:
        """What `value[key]` may be: the key is not evaluated here, so any part."""
        parts: list[Any] = []
        for value in self.values:
            parts += value.values() if isinstance(value, Mapping) else ()
            parts += value if isinstance(value, (list, tuple)) else ()
        return KnownValues(parts)


ValueSize = SizeBound | KnownValues
SCALAR = SizeBound(1, 0)


def input_allowance(tree: ExpressionTree) -> int | None:
    """The total size of values up to which an expression needs no estimate; None if its size says too
    little.

    Without macros every operation runs at most once, so the cost is linear in the size of the values,
    and a `+` adds at most the whole once more. A `matches` costs as much as its pattern says."""
    if tree.macros or "matches" in tree.functions:
        return None
    return MAX_STEPS // (2 * TRANSFER_STEPS + tree.size * (OPERATION_STEPS + tree.pluses + 1))


def is_within_allowance(values: Mapping[str, Any], input_allowance: int) -> bool:
    """Whether the values are small enough to skip the estimate. Runs before every evaluation, so it
    avoids calls for scalars and texts, which most values are."""
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
    """Raises TooCostly if the expression may take more than MAX_STEPS on these values."""
    _Estimate(values).estimate(tree.root)


class _Estimate:
    """Evaluates an expression with sizes in place of values, and adds up the steps. Each method returns
    the size of what its part of the expression yields."""

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
        # Operators are a set, without their places (see expression_tree.py), so one `+` makes all
        # operands count as concatenated: each result is copied once for every operand after it.
        grows = "+" in sequence.operators
        self._spend(total * len(operands) if grows else total + OPERATION_STEPS * len(operands))
        # `a ? b : c` and an entry of a map are no larger than their parts; any other operator yields a
        # scalar.
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
        if isinstance(value, KnownValues):
            # The estimate itself has to be bounded too: it looks at every value that an access may
            # yield. This is not part of the evaluator's steps, so it is counted apart, and not
            # multiplied by the rounds of a macro.
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
        # A list of literals stays known: it may contain the patterns of a `matches` inside a macro.
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
        # The macro's variable may shadow a name of the expression.
        shadowed = self._names.get(macro.variable)
        self._names[macro.variable] = element
        # The body is estimated once, for the largest element, and counts once for each element.
        before, self._steps = self._steps, 0
        results = [self._sequence(body) for body in macro.bodies]
        per_element, self._steps = self._steps + element.size + OPERATION_STEPS, before
        if shadowed is None:
            del self._names[macro.variable]
        else:
            self._names[macro.variable] = shadowed
        self._spend(length * per_element)
        if macro.kind not in ("map", "filter"):
            return SCALAR
        # The evaluator appends by copying: what has been collected is copied again for each element.
        collected = element if macro.kind == "filter" else results[-1]
        self._spend((length * (length + 1) // 2) * collected.size)
        return SizeBound(1 + length * collected.size, length, collected)


def _match_steps(text: ValueSize, pattern: ValueSize) -> int:
    """The steps of `matches`. The evaluator compiles the pattern for each call, with its counted repeats
    expanded, and matches in linear time: characters times states. The pattern's text has to be known."""
    if isinstance(pattern, SizeBound):
        raise TooCostly("the pattern of 'matches' must be a text or a field")
    if isinstance(text, KnownValues):
        length = max((len(value) for value in text.values if isinstance(value, str)), default=0)
    else:
        length = text.size << 8
    return max(
        (_search_steps(value, length) for value in pattern.values if isinstance(value, str)), default=0
    )


def _search_steps(pattern: str, length: int) -> int:
    # Nested repeats multiply. Multiplying all of them, nested or not, is an upper bound without parsing
    # the pattern.
    repeats = 1
    for least, most in _COUNTED.findall(pattern):
        repeats = min(repeats * max(int(least[:9]), int(most[:9] or 0), 1), _MAX_STATES)
    classes = sum(map(pattern.count, "\\[")) * _CLASS + pattern.count(".") * _ANY
    compiling = min((len(pattern) * _LETTER + classes) * repeats, _MAX_COMPILE_STEPS)
    states = min(len(pattern) * repeats, _MAX_STATES)
    return compiling + int(length * states * _MATCHING)


MAX_LENGTH = 2000
"""The longest source, in characters. The evaluator's parser has no bound of its own except on nesting
(96 levels), and cannot be interrupted."""
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
    """A compiled expression. Conditions, loop strategies and the loader create it; the program and the
    tree of a source are cached, so creating the same one again is cheap. Raises ExpressionError if it
    cannot be used."""

    __slots__ = ("_allowance", "_fields", "_program", "_tree", "source")

    def __init__(self, source: str, names: Iterable[str]) -> None:
        self.source = source
        self._program, self._tree = _compile(source)
        _check_names(self._tree, source, tuple(names))
        self._fields = tuple(
            (name, None if fields is None else tuple(sorted(fields)))
            for name, fields in self._tree.fields.items()
        )
        self._allowance = input_allowance(self._tree)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value of the expression. Raises ExpressionError, whatever goes wrong."""
        budget = current_budget.get()
        if budget is None:
            return self._evaluate(values)
        try:
            budget.begin(inf)  # the evaluator cannot be interrupted; its steps are bounded instead
        except BudgetExceeded as error:
            raise ExpressionError(f"{_quote(self.source)} was not evaluated: {error}") from None
        try:
            return self._evaluate(values)
        finally:
            budget.end()

    def _evaluate(self, values: Mapping[str, Any]) -> Any:
        given = self._select_values(values)
        try:
            if self._allowance is None or not is_within_allowance(given, self._allowance):
                check_cost(self._tree, given)
            return self._program.execute(given)
        except KeyError as error:
            name = error.args[0] if error.args else "?"
            raise ExpressionError(
                f"{_quote(self.source)} needs '{name}', which is missing; test `has(…{name})` first"
            ) from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # A panic of the evaluator, which is native code, is raised as a BaseException that is no
            # Exception.
            reason = " ".join(str(error).split(". ")[0].split())
            raise ExpressionError(f"{_quote(self.source)}: {reason}") from None

    def _select_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the expression names, and of dicts only the fields that it names: each
        evaluation converts all that it gets. `data` may be large, and an expression reads one or two
        fields of it."""
        given = {}
        for name, fields in self._fields:
            if name in values:
                value = values[name]
                if fields is not None and value.__class__ is dict:
                    value = {field: value[field] for field in fields if field in value}
                given[name] = value
        return given

    def holds(self, values: Mapping[str, Any]) -> bool:
        """The value of a condition. Anything but true or false is an error: CEL has no truthiness."""
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
    """Whether the evaluator and our parser find the same names. If they read a source differently (what
    is text to one of them is code to the other), the estimate would be about another expression, so such
    a source is rejected."""
    functions = {name for name in program.functions() if name.isidentifier()}
    variables = {name.removeprefix(".") for name in program.variables()}
    return tree.functions - {"has"} == functions and tree.names <= variables <= tree.mentioned


def _quote(source: str) -> str:
    text = " ".join(source.split())
    return f"`{text}`" if len(text) <= 200 else f"`{text[:199]}…`"


def _syntax_message(text: str) -> str:
    """Shortens the error of the evaluator's parser, which lists every token that it expected."""
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
                f"known names: {', '.join(names)}"
            )
    for name in sorted(tree.functions):
        if name not in _KNOWN_FUNCTIONS:
            raise ExpressionError(f"{_quote(source)} calls '{name}', which is not a CEL function")


_loading = threading.Lock()


@lru_cache(maxsize=1)
def _load_cel() -> ModuleType:
    """Imports the evaluator's extension module without its package.

    The package imports a command-line program with all its dependencies, which takes a quarter of a
    second. The extension is registered under its full name, so a program that imports the package shares
    it.

    The extension panics if it is initialised twice, and `lru_cache` lets several threads call at once, so
    the lock and the second look are needed.
    """
    with _loading:
        return _import_cel("cel.cel")


def _import_cel(name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("cel")
    locations = package.submodule_search_locations if package else None
    spec = importlib.machinery.PathFinder.find_spec(name, locations)
    if spec is None or spec.loader is None:
        raise ImportError("the package common-expression-language is not installed")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Last: who finds it there must find it complete.
    sys.modules[name] = module
    return module
