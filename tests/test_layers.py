"""The table of packages (CONTRIBUTING.md): which may import which. No package imports one below it in the
table, not even inside a function, and no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "roundel"
CORE = ("workflow", "plan", "kernel", "nodes", "llm", "memory", "journal", "hosts", "runs")
PYTHON = ("api", "agents", "builder", "loop_processor", "modes")
ALLOWED: dict[str, tuple[str, ...]] = {
    "workflow": (),
    "plan": ("workflow",),
    "drawing": ("workflow", "plan"),
    "kernel": ("workflow", "plan"),
    "nodes": ("workflow", "plan", "kernel"),
    "llm": ("workflow", "plan", "kernel", "nodes"),
    "memory": ("workflow", "plan", "kernel", "nodes", "llm"),
    "journal": ("workflow", "plan", "kernel", "memory"),
    "telemetry": ("workflow", "kernel", "nodes"),
    "hosts": CORE[: CORE.index("hosts")],
    "runs": CORE[: CORE.index("runs")],
    **dict.fromkeys(PYTHON, (*CORE, *PYTHON, "drawing")),
    "extend": (*CORE, *PYTHON),
    "server": (*CORE, "drawing", "telemetry"),
    "cli": (*CORE, *PYTHON, "drawing", "telemetry", "demo", "server"),
    "demo": (),
    "__init__": (*CORE, *PYTHON, "extend", "telemetry"),
    "__main__": ("cli",),
}
"""For each package or module of the top level: what it may import besides itself."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path: Path, *, at_import: bool = False) -> Iterator[str]:
    """The modules of ours that a module imports: anywhere, or only while it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _executed(tree) if at_import else ast.walk(tree)
    known = {name_of(other) for other in modules()}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("roundel"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("roundel"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements that are executed when a module is imported."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from ast.walk(statement)


def test_the_table_has_every_package() -> None:
    assert {room_of(name_of(path)) for path in modules()} <= ALLOWED.keys()


@pytest.mark.parametrize("room", ALLOWED)
def test_a_package_imports_only_what_the_table_allows(room: str) -> None:
    allowed = {room, *ALLOWED[room]}
    wrong = {
        f"{name_of(path)} imports {imported}"
        for path in modules()
        if room_of(name_of(path)) == room
        for imported in imports(path)
        if room_of(imported) not in allowed
    }
    assert not wrong


def test_modules_have_no_import_cycles() -> None:
    graph = {name_of(path): set(imports(path, at_import=True)) for path in modules()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"circle: {' → '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for imported in sorted(graph.get(name, ())):
                if imported != name:
                    visit(imported, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_only_two_commands_use_the_server() -> None:
    """It needs packages that are not installed with Roundel, and takes long to import."""
    allowed = {"roundel.cli.serve", "roundel.cli.token"}
    users = {name_of(path) for path in modules() for name in imports(path) if room_of(name) == "server"}
    assert {name for name in users if room_of(name) != "server"} == allowed


def test_only_the_journal_uses_sqlite() -> None:
    """Every other package works with any store; `extend` only passes the names on."""
    wrong = {
        f"{name_of(path)} mentions {word}"
        for path in modules()
        if room_of(name_of(path)) not in ("journal", "extend")
        for word in ("import sqlite3", "journal.sqlite", "SqliteStore", "store.path", "store.writer")
        if word in path.read_text(encoding="utf-8")
    }
    assert not wrong


def test_no_two_classes_share_a_name() -> None:
    """The config of each node type is called Config; every other name means one thing."""
    homes: dict[str, set[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not (
                node.name == "Config" and room_of(name_of(path)) == "nodes"
            ):
                homes.setdefault(node.name, set()).add(name_of(path))
    assert not {name: sorted(found) for name, found in homes.items() if len(found) > 1}
