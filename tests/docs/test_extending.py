"""Code of others needs two modules: `roundel` and `roundel.extend`."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import roundel
from roundel import extend
from tests.docs.manual import DOCS, PAGES, ROOT, blocks, code, rows, sections

PUBLIC = {"roundel", "roundel.extend", "roundel.telemetry"}
"""Telemetry is set up by whoever runs a program, and has a page of its own."""
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imported(text: str) -> set[str]:
    """The modules of Roundel that a program imports from."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.partition(".")[0] == "roundel"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_on_pages_imports_only_public_modules(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "python":
            assert imported(block.text) <= PUBLIC, f"the block at line {block.line}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_code_of_examples_imports_only_public_modules(path: Path) -> None:
    assert imported(path.read_text(encoding="utf-8")) <= PUBLIC


def test_extension_packages_import_only_the_extension_module() -> None:
    files = [block for block in blocks(DOCS / "extending.md") if block.kind == "python" and block.file]
    assert len(files) == 7
    assert {name for block in files for name in imported(block.text)} == {"roundel.extend"}


def groups() -> Iterator[str]:
    for block in blocks(DOCS / "extending.md"):
        if block.kind == "toml":
            yield from tomllib.loads(block.text)["project"]["entry-points"]


def test_the_page_has_a_package_for_each_group_of_entry_points() -> None:
    listed = [code(cells[1]) for cells in rows(sections(DOCS / "extending.md")["Extending Roundel"])]
    assert {name for names in listed for name in names} == set(groups())


def test_the_page_lists_every_name() -> None:
    table = rows(sections(DOCS / "extending.md")["Names in roundel.extend"])
    listed = [name for cells in table for name in code(cells[1])]
    assert sorted(listed) == sorted(extend.__all__)
    assert sorted(extend._LOCATIONS) == sorted(extend.__all__) == sorted(dir(extend))


def test_extension_names_exist_and_match_the_public_ones() -> None:
    for name in extend.__all__:
        assert getattr(extend, name) is not None
    both = set(extend.__all__) & set(roundel.__all__)
    assert {"NodeType", "Message", "Outcome", "Middleware", "tool"} <= both
    assert all(getattr(extend, name) is getattr(roundel, name) for name in both)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = extend.Nothing


def test_importing_extend_imports_nothing_else_of_roundel() -> None:
    program = (
        "import sys, roundel.extend\n"
        "print(*sorted(name for name in sys.modules if name.startswith('roundel')))\n"
        "from roundel.extend import ToolError\n"
        "assert 'roundel.journal.sqlite' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "roundel roundel.extend\n"
