"""Finds in the source what the manual has to list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from roundel.kernel.events import TRANSIENT
from tests.docs.manual import ROOT

SOURCE = ROOT / "src" / "roundel"
_CODE = re.compile(r"[a-z]+(-[a-z]+)*")
_SEVERITIES = {"error": "error", "_error": "error", "warning": "warning"}
"""The methods that report something, and how severe it is."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the source, by the last part of the name of what is called."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
                yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id, node


def diagnostics() -> set[tuple[str, str]]:
    """The codes of diagnostics, each with its severity."""
    found = set(_unreadable_files())
    for name, call in calls():
        words = [_text(argument) for argument in call.args]
        if name in _SEVERITIES and words and _is_code(words[0]):
            found.add((words[0], _SEVERITIES[name]))
        elif name == "Diagnostic":
            given = {keyword.arg: _text(keyword.value) for keyword in call.keywords}
            if given.get("code"):
                found.add((given["code"], given["severity"]))
        else:
            # Helpers that are handed a severity and, behind it, a code.
            found |= {
                (code, severity)
                for severity, code in pairwise(words)
                if severity in ("error", "warning") and _is_code(code)
            }
    return found


def _unreadable_files() -> Iterator[tuple[str, str]]:
    """Pairs of a code and a message, from which `read_file` takes the one that fits."""
    tree = ast.parse((SOURCE / "workflow" / "document.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and node.elts and _is_code(_text(node.elts[0])):
            yield _text(node.elts[0]), "error"


def event_names() -> set[str]:
    """The events of the kernel, of nodes and of memory, and the line that the command line adds."""
    emitted = {
        _text(argument)
        for name, call in calls()
        if name in ("emit", "Event", "publish_transient", "tell")
        for argument in call.args
        if re.fullmatch(r"[a-z]+(_[a-z]+)+", _text(argument))
    }
    return emitted | set(_events_of_nodes()) | set(TRANSIENT) | {"run_summary"}


def _events_of_nodes() -> Iterator[str]:
    """The names in `Outcome.events` and `Move.events`: pairs of a name and its data, in a tuple of them."""
    for path in sorted((SOURCE / "nodes").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple):
                yield from filter(None, map(_event_in, node.elts))
            elif isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or node) == "Shown":
                yield from _shown_by(node)


def _shown_by(function: ast.FunctionDef) -> Iterator[str]:
    """The names in what a function of a dialogue gives to be shown: a name, its data, what it is about."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield _text(node.value.elts[0])


def _event_in(node: ast.expr) -> str:
    """The name in a pair of a name and data; empty if it is none."""
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return ""
    name, data = node.elts
    fields = isinstance(data, ast.Dict) or (isinstance(data, ast.Call) and _called(data) == "fields")
    return _text(name) if fields else ""


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None
