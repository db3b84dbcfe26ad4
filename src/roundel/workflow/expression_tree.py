"""The structure of a CEL expression, as far as its cost and its names depend on it.

The evaluator keeps its own tree to itself, so the source is read a second time, after the evaluator has
accepted it. Precedence does not matter here: operands and operators stand in one flat Sequence. That both
readings agree is checked by the names that they find.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

MACROS = ("map", "filter", "all", "exists", "exists_one")
_MACRO_SPELLINGS = frozenset((*MACROS, "existsOne"))
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
    """What the evaluator accepts, and this does not."""


class LiteralValue(Struct, frozen=True):
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
    kind: str
    variable: str
    bodies: tuple[OperandSequence, ...]


class Collection(Struct, frozen=True):
    """A list or a map that is written out."""

    items: tuple[OperandSequence, ...]


class Chain(Struct, frozen=True):
    """Something, and what is taken of it from left to right: a.b[c].d(e)."""

    head: LiteralValue | NameReference | FunctionCall | Collection | OperandSequence
    links: tuple[FieldAccess | IndexAccess | FunctionCall | MacroCall, ...]


class OperandSequence(Struct, frozen=True):
    """Operands and the operators between them; an expression without operators is one operand."""

    operands: tuple[Chain, ...]
    operators: frozenset[str]


class ExpressionTree(Struct, frozen=True):
    root: OperandSequence
    names: frozenset[str]
    """The names that are not bound by a macro."""
    mentioned: frozenset[str]
    """All names, and those that macros bind."""
    functions: frozenset[str]
    fields: dict[str, frozenset[str] | None]
    """For each name the fields that are taken of it; None if it is used in any other way."""
    size: int
    """How many operations there are at most."""
    pluses: int
    """How often something may be put together of two parts."""
    macros: bool


def parse_expression(source: str) -> ExpressionTree:
    return _Parser(source).tree()


class _Parser:
    def __init__(self, source: str) -> None:
        self._tokens = [(kind, text) for kind, text in _tokens(source) if kind != "space"]
        self._at = 0
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
        """The next mark, or the keyword `in`; nothing for all else."""
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
        operands, operators = [self._operand()], set()
        while (mark := self._peek()) in _OPERATORS or mark == "in":
            self._at += 1
            operators.add(mark)
            operands.append(self._operand())
        return OperandSequence(tuple(operands), frozenset(operators))

    def _sequences(self, end: str) -> tuple[OperandSequence, ...]:
        found = []
        while not self._accept(end):
            found.append(self._sequence())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(found)

    def _operand(self) -> Chain:
        while self._peek() in ("!", "-"):
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
            # What a pattern costs depends on what is in it.
            raise UnsupportedSyntax("the pattern of 'matches' has to be a text or a field")
        return FunctionCall(function, arguments)

    def _macro(self, kind: str) -> MacroCall | None:
        """None if it is a function, as with other arguments than a name and what is asked of it."""
        first = self._tokens[self._at : self._at + 2]
        if (
            kind not in _MACRO_SPELLINGS
            or len(first) < 2
            or first[0][0] != "name"
            or first[1] != ("mark", ",")
        ):
            return None
        if self._bound:
            raise UnsupportedSyntax(f"one of {', '.join(MACROS)} stands inside another; that is not allowed")
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
        self._mentioned.add(name)
        if name in self._bound:
            return
        self._names.add(name)
        fields = self._fields.setdefault(name, set())
        if fields is not None and links and isinstance(links[0], FieldAccess):
            fields.add(links[0].field)
        else:
            self._fields[name] = None


def _is_plain_value(argument: OperandSequence) -> bool:
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
    """What a text stands for."""
    body = token.lstrip("bBrR")
    raw = "r" in token[: len(token) - len(body)].lower()
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes]
    return body if raw else _ESCAPE.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    two, four, eight, octal, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    return chr(code) if code < 0x110000 else "?"


def _tokens(source: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None or found.lastgroup is None:
            raise UnsupportedSyntax(f"{source[at]!r} is not expected")
        tokens.append((found.lastgroup, found[0]))
        at = found.end()
    return tokens
