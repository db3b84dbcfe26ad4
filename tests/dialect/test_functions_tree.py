"""The functions of published files: `functions/` beside the folder that the workflow files are in.

functions/function_calling/*.py    tools
functions/edge/*.py                conditions
functions/edge_processor/*.py      processors
utils/*.py                         what these import
yaml_instance/*.yaml               workflow files
yaml_instance/subgraphs/*.yaml
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roundel
from tests.nodes.conversations import run_conversation, wants

FILES = {
    "utils/catalog.py": "class Meta:\n    def __init__(self, text):\n        self.description = text\n",
    "functions/function_calling/helpers.py": "import sys\n\n\ndef doubled(number):\n    return 2 * number\n",
    "functions/function_calling/sums.py": '''
from typing import Annotated
import sys  # a module that mentions `sys` is not opaque for that

from functions.function_calling.helpers import doubled
from utils.catalog import Meta

def add(one: Annotated[int, Meta("The first")], other: int = 1) -> int:
    """Adds."""
    return one + other

def twice(number: int, _context: dict | None = None) -> int:
    """Doubles."""
    from utils.catalog import Meta  # at the time of the call
    return doubled(number)

def _hidden() -> str:
    return "hidden"
''',
    "functions/function_calling/broken.py": "def lost(:\n    pass\n",
    "functions/function_calling/needy.py": "import no_such_module_at_all\n\ndef needs():\n    pass\n",
    "functions/edge/conditions.py": """
def is_long(data: str) -> bool:
    return len(data) > 3
""",
    "functions/edge_processor/transformers.py": """
from pathlib import Path

def framed(data: str, _context: dict) -> str:
    assert isinstance(_context["python_workspace_root"], Path)
    return f"[{data}]"
""",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        file = tmp_path / "published" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "published" / "yaml_instance" / "subgraphs").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path / "published"
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("functions", "utils"):
            del sys.modules[name]


def agent(*names: str) -> dict[str, Any]:
    tooling = {"type": "function", "config": {"tools": [{"name": name} for name in names]}}
    config = {"provider": "openai", "name": "m", "tooling": [tooling]}
    return {"id": "A", "type": "agent", "config": config}


def written(file: Path, nodes: list[dict[str, Any]], edges: list[dict[str, Any]] | None = None) -> Path:
    graph = {"start": nodes[0]["id"], "end": nodes[-1]["id"], "nodes": nodes, "edges": edges or []}
    file.write_text(json.dumps({"version": "0.4.0", "graph": graph}))
    return file


def test_tools_are_found_next_to_the_folder_of_the_file(tree: Path) -> None:
    file = written(tree / "yaml_instance" / "flow.yaml", [agent("add", "twice")])
    assert roundel.check(file)[1].diagnostics == []
    story = run_conversation(file, {"A": [wants("add", one=1, other=2), wants("twice", number=4), "done"]})
    assert story.results() == ["3", "8"]


def test_all_functions_of_a_module_are_found(tree: Path) -> None:
    file = written(tree / "yaml_instance" / "flow.yaml", [agent("sums:All")])
    assert roundel.check(file)[1].diagnostics == []
    story = run_conversation(
        file, {"A": [wants("add", one=1), wants("twice", number=4), wants("doubled"), "done"]}
    )
    assert story.results()[:2] == ["2", "8"]
    assert "there is no tool 'doubled'; there are: add, twice" in story.results()[2]


def test_a_function_is_taken_from_the_file_that_defines_it(tree: Path) -> None:
    file = written(tree / "yaml_instance" / "flow.yaml", [agent("doubled")])
    assert roundel.check(file)[1].diagnostics == []
    assert run_conversation(file, {"A": [wants("doubled", number=4), "done"]}).results() == ["8"]


def test_functions_folder_next_to_the_file_wins(tree: Path) -> None:
    own = tree / "yaml_instance" / "functions" / "function_calling"
    own.mkdir(parents=True)
    (own / "sums.py").write_text("def add(one: int) -> int:\n    return -one\n")
    file = written(tree / "yaml_instance" / "flow.yaml", [agent("add")])
    assert run_conversation(file, {"A": [wants("add", one=1), "done"]}).results() == ["-1"]


def test_subgraph_uses_the_functions_of_the_outer_file(tree: Path) -> None:
    written(tree / "yaml_instance" / "subgraphs" / "inner.yaml", [agent("add")])
    config = {"type": "file", "config": {"path": "inner.yaml"}}
    file = written(tree / "yaml_instance" / "flow.yaml", [{"id": "S", "type": "subgraph", "config": config}])
    assert roundel.check(file)[1].diagnostics == []
    assert run_conversation(file, {"A": [wants("add", one=1), "done"]}).results() == ["2"]
    assert roundel.check(tree / "yaml_instance" / "subgraphs" / "inner.yaml")[1].diagnostics == []


def test_conditions_and_processors_are_found_in_the_functions_folder(tree: Path) -> None:
    nodes = [agent("add"), {"id": "Long", "type": "passthrough"}]
    process = {"type": "function", "config": {"name": "framed"}}
    edges = [{"from": "A", "to": "Long", "condition": "is_long", "process": process}]
    file = written(tree / "yaml_instance" / "flow.yaml", nodes, edges)
    assert roundel.check(file)[1].diagnostics == []
    assert roundel.run(file, script={"A": "a long text"}).output == "[a long text]"
    assert roundel.run(file, script={"A": "no"}).nodes == {"A": 1}


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("lost", "cannot import 'functions.function_calling.broken': SyntaxError: "),
        ("broken:All", "cannot import 'functions.function_calling.broken': SyntaxError: "),
        ("needs", "No module named 'no_such_module_at_all' (needy.py, line 1)"),
        ("needy:All", "No module named 'no_such_module_at_all' (needy.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_warning_with_the_cause(
    tree: Path, name: str, cause: str
) -> None:
    file = written(tree / "yaml_instance" / "flow.yaml", [agent(name, "add")])
    _, report = roundel.check(file)
    [found] = report.diagnostics
    assert (found.code, found.severity, found.line) == ("missing-tool", "warning", 1)
    assert found.message.startswith(
        f"the tool '{name}' is not offered to the agent: cannot import 'functions."
    )
    assert cause in found.message
    assert run_conversation(file, {"A": [wants("add", one=1), "done"]}).results() == ["2"]


def test_functions_folder_further_up_is_not_found(tree: Path) -> None:
    folder = tree / "yaml_instance" / "deeper"
    folder.mkdir()
    _, report = roundel.check(written(folder / "flow.yaml", [agent("add")]))
    [found] = report.diagnostics
    assert (found.code, found.message) == (
        "missing-tool",
        "the tool 'add' is not here, so the agent is not offered it",
    )
