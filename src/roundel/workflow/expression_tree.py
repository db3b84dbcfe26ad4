"""Parses a CEL expression as far as its cost and its names depend on it.

The evaluator does not expose its tree, so the source is parsed a second time, after the evaluator has
accepted it. That makes this parser simple: it may assume valid CEL, and may reject valid CEL that it
does not understand (`UnsupportedSyntax`), but must never read an expression as cheaper than it is.
expression.py checks that both parsers find the same names.

Precedence does not matter for cost: operands and operators of one level form one flat `OperandSequence`,
in which `a + b * c` has three operands and a set of two operators. What matters are chains
(`a.b[c].d(e)`), calls and macros.

Macros inside macros are rejected. Their cost is the product of two lengths, and the inner length may
depend on an element of the outer list, whose size is not known before the evaluation.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

MACROS = ("map", "filter", "all", "exists", "exists_one")
_MACRO_SPELLINGS = frozenset((*MACROS, "existsOne"))
# CEL's lexical grammar. Names come after texts, so that the prefix of r"..." is not taken for a name.
_TOKEN = re.compile(
    r"""
      (?P<space>  [ \t\r\n\f]+ | //[^\n]* )
    | (?P<text>   [bB]? (?: [rR] (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n\r]*" | '[^'\n\r]*' )
                          | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
                          | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' ) )
    | (?P<number> 0[xX][0-9a-fA-F]+[uU]? | (?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]? )
    | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<mark>   && | \|\| | [<>=!]= | [-+*/%<>!?:.,()\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset(("&&", "||", "==", "!=", "<=", ">=", *"-+*/%<>?:"))
_CONSTANTS = frozenset(("true", "false", "null"))


class UnsupportedSyntax(ValueError):
    """Syntax that the evaluator accepts, and that this parser rejects."""


class LiteralValue(Struct, frozen=True):
    """A number, a text or a constant. Only texts matter: they may be patterns."""

    text: str | None
    """None for numbers and constants."""


class NameReference(Struct, frozen=True):
    name: str


class FieldAccess(Struct, frozen=True):
    field: str


class IndexAccess(Struct, frozen=True):
    key: OperandSequence


class FunctionCall(Struct, frozen=True):
    function: str
    arguments: tuple[OperandSequence, ...]


class MacroCall(Struct, frozen=True):
    """A loop over the elements of what it is called on: `list.map(variable, body)`."""

    kind: str
    variable: str
    bodies: tuple[OperandSequence, ...]


class Collection(Struct, frozen=True):
    """A list or map literal. The entries of a map are sequences with the operator `:`."""

    items: tuple[OperandSequence, ...]


class Chain(Struct, frozen=True):
    """A head, and the accesses and calls on it from left to right: `a.b[c].d(e)`."""

    head: LiteralValue | NameReference | FunctionCall | Collection | OperandSequence
    links: tuple[FieldAccess | IndexAccess | FunctionCall | MacroCall, ...]


class OperandSequence(Struct, frozen=True):
    """Operands and the set of operators between them. An expression without operators has one
    operand."""

    operands: tuple[Chain, ...]
    operators: frozenset[str]


class ExpressionTree(Struct, frozen=True):
    """The parsed expression, with the facts about it that are needed before each evaluation."""

    root: OperandSequence
    names: frozenset[str]
    """The free names: those that no macro binds."""
    mentioned: frozenset[str]
    """The free names and those that macros bind. The evaluator may list either as variables."""
    functions: frozenset[str]
    fields: dict[str, frozenset[str] | None]
    """For each name the fields that the expression reads; None if it uses the value in any other way."""
    size: int
    """An upper bound for the number of operations: the number of tokens."""
    pluses: int
    """The number of `+`, each of which may concatenate texts or lists."""
    macros: bool


def parse_expression(source: str) -> ExpressionTree:
    """Parses a source that the evaluator has accepted. Raises UnsupportedSyntax."""
    return _Parser(source).tree()


class _Parser:
    """A recursive-descent parser. The source is at most 2000 characters, and the evaluator has bounded
    its nesting."""

    def __init__(self, source: str) -> None:
        self._tokens = [(kind, text) for kind, text in _tokens(source) if kind != "space"]
        self._at = 0
        # The variables of the macros around the current position: at most one, as macros cannot be
        # nested.
        self._bound: list[str] = []
        self._names: set[str] = set()
        self._mentioned: set[str] = set()
        self._functions: set[str] = set()
        self._fields: dict[str, set[str] | None] = {}
        self._macros = False

    def tree(self) -> ExpressionTree:
        root = self._sequence()
        if self._at < len(self._tokens):
            raise UnsupportedSyntax(f"'{self._tokens[self._at][1]}' is not expected")
        fields = {
            name: None if fields is None else frozenset(fields) for name, fields in self._fields.items()
        }
        return ExpressionTree(
            root,
            frozenset(self._names),
            frozenset(self._mentioned),
            frozenset(self._functions),
            fields,
            len(self._tokens),
            self._tokens.count(("mark", "+")),
            self._macros,
        )

    def _peek(self) -> str:
        """The next punctuation mark, or the keyword `in`; empty for any other token and at the end."""
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text if kind == "mark" or text == "in" else ""

    def _accept(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise UnsupportedSyntax(f"'{mark}' is expected")

    def _advance(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise UnsupportedSyntax("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _sequence(self) -> OperandSequence:
        """A whole expression, up to a token that cannot continue it. `? :` counts as two binary
        operators."""
        operands, operators = [self._operand()], set()
        while (mark := self._peek()) in _OPERATORS or mark == "in":
            self._at += 1
            operators.add(mark)
            operands.append(self._operand())
        return OperandSequence(tuple(operands), frozenset(operators))

    def _sequences(self, end: str) -> tuple[OperandSequence, ...]:
        """Expressions separated by commas, up to the closing mark. A trailing comma is allowed, as in
        CEL."""
        found = []
        while not self._accept(end):
            found.append(self._sequence())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(found)

    def _operand(self) -> Chain:
        """A value with everything that is accessed or called on it."""
        while self._peek() in ("!", "-"):  # Unary operators cost next to nothing.
            self._at += 1
        head = self._head()
        links: list[FieldAccess | IndexAccess | FunctionCall | MacroCall] = []
        while (mark := self._peek()) in (".", "["):
            self._at += 1
            if mark == "[":
                links.append(IndexAccess(self._sequence()))
                self._expect("]")
            else:
                links.append(self._link())
        if isinstance(head, NameReference):
            self._record_name(head.name, links)
        return Chain(head, tuple(links))

    def _head(self) -> LiteralValue | NameReference | FunctionCall | Collection | OperandSequence:
        kind, text = self._advance()
        if kind in ("text", "number") or text in _CONSTANTS:
            return LiteralValue(_unquote(text) if kind == "text" else None)
        if text == "(":
            inner = self._sequence()
            self._expect(")")
            return inner
        if text in ("[", "{"):
            return Collection(self._sequences("]" if text == "[" else "}"))
        # `Name{...}` creates a message of a protocol buffer, and a leading `.` names the root scope:
        # neither exists here.
        if kind != "name" or self._peek() == "{":
            raise UnsupportedSyntax(f"'{text}' cannot be used here")
        return self._call(text) if self._accept("(") else NameReference(text)

    def _link(self) -> FieldAccess | FunctionCall | MacroCall:
        kind, text = self._advance()
        if kind != "name":
            raise UnsupportedSyntax(f"'{text}' cannot be used here")
        if not self._accept("("):
            return FieldAccess(text)
        return self._macro(text) or self._call(text)

    def _call(self, function: str) -> FunctionCall:
        self._functions.add(function)
        arguments = self._sequences(")")
        if function == "matches" and not all(map(_is_plain_value, arguments)):
            # The cost of a pattern depends on its text, which is known only for literals and for parts
            # of the values.
            raise UnsupportedSyntax("the pattern of 'matches' must be a text or a field")
        return FunctionCall(function, arguments)

    def _macro(self, kind: str) -> MacroCall | None:
        """Parses a macro; None if this is a call of a function. A macro has a name as its first
        argument, followed by a comma; the evaluator decides the same way."""
        first = self._tokens[self._at : self._at + 2]
        if (
            kind not in _MACRO_SPELLINGS
            or len(first) < 2
            or first[0][0] != "name"
            or first[1] != ("mark", ",")
        ):
            return None
        if self._bound:
            raise UnsupportedSyntax(f"{', '.join(MACROS)} cannot be nested in each other")
        variable = first[0][1]
        self._at += 2
        self._bound.append(variable)
        self._mentioned.add(variable)
        bodies = self._sequences(")")
        self._bound.pop()
        if len(bodies) not in ((1, 2) if kind == "map" else (1,)):
            raise UnsupportedSyntax(f"'{kind}' has {len(bodies) + 1} arguments")
        self._macros = True
        return MacroCall(kind, variable, bodies)

    def _record_name(self, name: str, links: list[Any]) -> None:
        """Notes the use of a name, and whether only a field of it is read."""
        self._mentioned.add(name)
        if name in self._bound:
            return
        self._names.add(name)
        # One use of the whole value outweighs all accesses to fields: None is final.
        fields = self._fields.setdefault(name, set())
        if fields is not None and links and isinstance(links[0], FieldAccess):
            fields.add(links[0].field)
        else:
            self._fields[name] = None


def _is_plain_value(argument: OperandSequence) -> bool:
    """Whether an argument is a literal, or a part of a value that is passed in."""
    chain = argument.operands[0]
    is_value = isinstance(chain.head, (LiteralValue, NameReference)) and all(
        isinstance(link, (FieldAccess, IndexAccess)) for link in chain.links
    )
    return is_value and not argument.operators


_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unquote(token: str) -> str:
    """The text that a string literal denotes."""
    body = token.lstrip("bBrR")
    raw = "r" in token[: len(token) - len(body)].lower()
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes]
    return body if raw else _ESCAPE.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    two, four, eight, octal, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    # A code beyond Unicode has been rejected by the evaluator, if it checks; here only the length of the
    # text matters.
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    return chr(code) if code < 0x110000 else "?"


def _tokens(source: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(source):
        # `match` at a position, not `finditer`, which would skip characters that are no token.
        found = _TOKEN.match(source, at)
        if found is None or found.lastgroup is None:
            raise UnsupportedSyntax(f"{source[at]!r} is not expected")
        tokens.append((found.lastgroup, found[0]))
        at = found.end()
    return tokens
