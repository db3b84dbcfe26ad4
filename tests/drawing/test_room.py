"""The drawing package imports neither the kernel nor nodes nor hosts, so a server or an editor can
use it alone."""

from __future__ import annotations

import ast
from pathlib import Path

import roundel.drawing

ALLOWED = ("roundel.drawing", "roundel.plan", "roundel.workflow")


def test_drawing_imports_only_plans_and_workflows() -> None:
    folder = Path(roundel.drawing.__path__[0])
    modules = sorted(folder.glob("*.py"))
    assert len(modules) > 10
    found = {
        name
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
    }
    ours = {name for name in found if name.split(".")[0] == "roundel"}
    assert ours and all(name.startswith(ALLOWED) for name in ours)
