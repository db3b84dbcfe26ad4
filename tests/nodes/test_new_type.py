"""A new node type is one file in `nodes/`: everything else finds it there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOUT = '''
"""`shout`: gives its input in capitals."""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.workflow.description import Description, Field
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType


class Config(Struct, frozen=True):
    marks: int = 1

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "marks": Field(
                    en=("Exclamation marks", "How many are added to the text."),
                    zh=("感叹号", "在文本末尾添加的数量。"),
                )
            }
        )


def prepare(node, services):
    def behave(call: Call) -> Outcome:
        return Outcome((Message(call.inputs[-1].text.upper() + "!" * node.config.marks, "assistant"),))

    return behave


NODE = NodeType(
    "shout",
    Config,
    "Gives its input in capitals.",
    prepare,
    title="Shout",
    zh=("大写", "以大写字母输出。"),
    example="- {id: Loud, type: shout, config: {marks: 3}}",
)
'''
WORKFLOW = "graph: {nodes: [{id: Loud, type: shout, config: {marks: 3}}], start: Loud}\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one more file, and its line in the table of what stores contain."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("src", "docs", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src/roundel/nodes/shout.py").write_text(SHOUT)
    tags = folder / "src/roundel/workflow/stored.py"
    line = '    "passthrough": "roundel.nodes.passthrough:Config",\n'
    assert line in tags.read_text()
    tags.write_text(tags.read_text().replace(line, line + line.replace("passthrough", "shout")))
    (folder / "loud.yaml").write_text(WORKFLOW)
    return folder


def run(checkout: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_new_type_is_loaded_and_runs(checkout: Path) -> None:
    run(checkout, "-m", "roundel", "check", "loud.yaml", "--strict")
    assert run(checkout, "-m", "roundel", "run", "loud.yaml", "--input", "tea") == "TEA!!!\n"


def test_new_type_is_in_the_schema(checkout: Path) -> None:
    schema = json.loads(run(checkout, "-m", "roundel", "schema"))
    assert "shout" in schema["$defs"]["node"]["properties"]["type"]["enum"]
    marks = schema["$defs"]["node.shout"]["properties"]["marks"]
    assert (marks["title"], marks["default"]) == ("Exclamation marks", 1)


def test_new_type_is_in_the_descriptions(checkout: Path) -> None:
    data = json.loads(run(checkout, "-m", "roundel", "schema", "--fields"))
    shout = data["node_types"]["shout"]
    assert shout["title"] == {"en": "Shout", "zh": "大写"}
    assert shout["fields"][0]["title"]["zh"] == "感叹号"


def test_new_type_gets_a_manual_entry(checkout: Path) -> None:
    assert run(checkout, "-m", "tools.field_tables") == "docs/nodes.md rewritten\n"
    page = (checkout / "docs/nodes.md").read_text(encoding="utf-8")
    assert "| [`shout`](#shout) | Shout | Gives its input in capitals. |" in page
    entry = page.partition("## shout\n")[2]
    assert "| `marks` | whole number | `1` | How many are added to the text. |" in entry
    assert "- {id: Loud, type: shout, config: {marks: 3}}" in entry


def test_new_type_can_be_drawn(checkout: Path) -> None:
    assert "Loud" in run(checkout, "-m", "roundel", "show", "loud.yaml", "--format", "svg")
    assert "Loud" in run(checkout, "-m", "roundel", "show", "loud.yaml", "--format", "mermaid")
