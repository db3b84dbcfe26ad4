"""Finds in the source what the manual has to list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tests.docs.manual import ROOT
from tools.event_types import NAMES

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
    """The events, and the line that the command line adds."""
    return {*NAMES, "run_summary"}


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None
