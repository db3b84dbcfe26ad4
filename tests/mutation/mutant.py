"""Mutants: copies of a module with one small fault.

They are the slips of a competent author: a comparison turned round, a forgotten call, a number off by one.
What the first import or any use would show (an annotation, a constructor that sets no attribute) is left out,
since to notice it says nothing about tests.
"""

from __future__ import annotations

import ast
import copy
import difflib
import random
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_SKIPPED = (ast.Assert, ast.JoinedStr)
_UNSEEN_FIELDS = ("annotation", "returns", "decorator_list", "bases")


class Mutant(Struct, frozen=True):
    path: str
    """Relative to the folder of the sources."""
    lines: tuple[int, int]
    """The first and the last line of the changed statement in the original."""
    kind: str
    source: str
    diff: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]} {self.kind}"


class _Site(Struct, frozen=True):
    """A node that can be changed; `number` counts all nodes of a module in the order of `_walk`."""

    path: str
    number: int


def sample(sources: Path, packages: list[str], seed: int, count: int) -> list[Mutant]:
    """Different mutants, the kinds of faults evenly mixed: by numbers alone, swapped arguments would prevail,
    which nearly every test notices."""
    chance = random.Random(seed)
    sites: dict[str, list[_Site]] = {}
    for package in packages:
        for file in sorted(sources.joinpath(package).rglob("*.py")):
            path = str(file.relative_to(sources))
            for number, (node, constructs) in enumerate(_walk(ast.parse(file.read_text("utf-8")))):
                for kind in _variants(node, constructs):
                    sites.setdefault(kind, []).append(_Site(path, number))
    for kind in sorted(sites):
        chance.shuffle(sites[kind])
    chosen: list[Mutant] = []
    while len(chosen) < count and any(sites.values()):
        kind = chance.choice(sorted(kind for kind, left in sites.items() if left))
        chosen.append(_made(sources, sites[kind].pop(), kind, chance))
    return chosen


def _made(sources: Path, site: _Site, kind: str, chance: random.Random) -> Mutant:
    tree = ast.parse(sources.joinpath(site.path).read_text("utf-8"))
    before = ast.unparse(tree)
    node, constructs = list(_walk(tree))[site.number]
    lines = _lines(tree, node)
    changed = chance.choice(_variants(node, constructs)[kind])
    source = ast.unparse(ast.fix_missing_locations(_Replacing(node, changed).visit(tree)))
    diff = "\n".join(difflib.unified_diff(before.splitlines(), source.splitlines(), lineterm="", n=2))
    return Mutant(site.path, lines, kind, source, diff)


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _walk(node: ast.AST, constructs: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes that may be changed, and whether they stand in a constructor."""
    yield node, constructs
    constructs = constructs or (isinstance(node, ast.FunctionDef) and node.name == "__init__")
    for field, value in ast.iter_fields(node):
        if field in _UNSEEN_FIELDS or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, _SKIPPED):
                yield from _walk(child, constructs)


def _lines(tree: ast.AST, node: ast.AST) -> tuple[int, int]:
    """Of the innermost statement around a node, without what is nested in it."""
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and any(inner is node for inner in ast.walk(each))
    ]
    statement = around[-1]  # ast.walk comes to what is inside later
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)


def _variants(node: ast.AST, constructs: bool) -> dict[str, list[ast.AST]]:
    """What a node may be changed into, by kind of fault."""
    found: dict[str, list[ast.AST]] = {
        "comparison swapped": _compared(node),
        "condition negated": _negated(node),
        "and/or swapped": _boolean(node),
        "arithmetic swapped": _calculated(node),
        "number off by one": _numbered(node),
        "True/False swapped": _flipped(node),
        "statement removed": [] if constructs else _removed(node),
        "return value dropped": _returned(node),
        "jump removed": [ast.Pass()] if isinstance(node, (ast.Break, ast.Continue)) else [],
        "arguments swapped": _swapped(node),
    }
    return {kind: variants for kind, variants in found.items() if variants}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _compared(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.Compare):
        return []
    first, *rest = node.ops
    return [_with(node, ops=[other(), *rest]) for other in _COMPARISONS[type(first)]]


def _negated(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [_with(node, test=ast.UnaryOp(ast.Not(), node.test))]
    if isinstance(node, ast.comprehension) and node.ifs:
        first, *rest = node.ifs
        return [_with(node, ifs=[ast.UnaryOp(ast.Not(), first), *rest])]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    return []


def _boolean(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.BoolOp):
        return []
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    shorter = [node.values[:place] + node.values[place + 1 :] for place in range(len(node.values))]
    return [
        _with(node, op=other),
        *(_with(node, values=values) if len(values) > 1 else values[0] for values in shorter),
    ]


def _calculated(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, (ast.BinOp, ast.AugAssign)) or type(node.op) not in _ARITHMETIC:
        return []
    return [_with(node, op=_ARITHMETIC[type(node.op)]())]


def _numbered(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return []
    return [ast.Constant(node.value + 1), ast.Constant(node.value - 1)]


def _flipped(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool):
        return []
    return [ast.Constant(not node.value)]


def _removed(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Expr):
        return [ast.Pass()] if isinstance(node.value, ast.Call) else []
    if isinstance(node, ast.Assign):
        kept = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
        return [ast.Pass()] if kept else []
    return [ast.Pass()] if isinstance(node, (ast.AugAssign, ast.Delete)) else []


def _returned(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.Return) or node.value is None:
        return []
    empty = isinstance(node.value, ast.Constant) and not node.value.value
    return [] if empty else [_with(node, value=ast.Constant(None))]


def _swapped(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return []
    if isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
        return []
    pairs = range(len(node.args) - 1)
    swapped = [
        [*node.args[:at], node.args[at + 1], node.args[at], *node.args[at + 2 :]]
        for at in pairs
        if ast.dump(node.args[at]) != ast.dump(node.args[at + 1])
    ]
    return [_with(node, args=args) for args in swapped]
